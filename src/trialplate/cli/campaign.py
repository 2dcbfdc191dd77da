"""Commands on a campaign: validate, lock, score, analyse, judge, report, verify, show, render."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from trialplate.cli.output import BLOCKED, NO, YES, emit, finding_lines, plain, progress_bar, say, table
from trialplate.cli.verdicts import show_stop, show_verdicts

Json = Annotated[bool, Parameter(name="--json", negative="")]


def register(app: App) -> None:
    """Add this group's commands."""
    for command in (validate, lock, score, analyse, judge, report, verify, show, render):
        app.command(command)


def validate(protocol: Path, /, *, json: Json = False) -> int:
    """Check a protocol and list every mistake in it.

    Parameters
    ----------
    protocol
        The protocol file (TOML).
    json
        Print one JSON document.
    """
    from trialplate import api

    loaded = api.load_protocol(protocol)
    facts = {"valid": True, "name": loaded.protocol.name, "arms": [arm.name for arm in loaded.protocol.arms]}
    emit(facts, as_json=json, text=lambda: print(f"{protocol}: valid"))
    return YES


def lock(protocol: Path, /, *, out: Path, json: Json = False) -> int:
    """Write down every digest that can change a number, before anything runs.

    Parameters
    ----------
    protocol
        The protocol file (TOML).
    out
        Where the lock goes: a campaign folder, or a file that ends in .json.
    json
        Print one JSON document.
    """
    from trialplate import api
    from trialplate.lock import run_class, spent_packs

    made = api.lock(api.load_protocol(protocol), into=out)
    trials = len(made.document["schedule"])
    facts = {
        "lock": str(made.path),
        "lock_sha256": made.sha256,
        "trials": trials,
        "run_class": run_class(made.document),
    }

    def text() -> None:
        for pack in spent_packs(made.document):
            spent = pack["spent"]
            print(
                plain(f"DEVELOPMENT: pack {pack['pack_sha256'][:12]} of {pack['author']} was spent before this lock")
            )
            print(f"it was opened for {spent['purpose']} at {spent['utc']}: no claim stands on what is run under it")
        print(
            f"locked {trials} trials in {made.path}\n{made.sha256}\n"
            "Keep this digest outside: it proves what was promised."
        )

    emit(facts, as_json=json, text=text)
    return YES


def score(campaign: Path, /, *, json: Json = False) -> int:
    """Score the recordings: no simulator, no policy. Writes results.jsonl.

    Parameters
    ----------
    campaign
        The campaign folder.
    json
        Print one JSON document.
    """
    from trialplate import api
    from trialplate.lock import read_lock

    outcomes = api.score(campaign)
    counts: dict[str, dict[str, int]] = {}
    for outcome in outcomes:
        arm = counts.setdefault(outcome.arm, dict.fromkeys(("PASS", "FAIL", "ERROR", "EXCLUDED"), 0))
        arm[outcome.status] += 1
    rows = [(name, *(str(value) for value in arm.values())) for name, arm in counts.items()]
    planned = len(read_lock(campaign / "lock.json").document["schedule"])

    def text() -> None:
        table("Outcomes", ("arm", "PASS", "FAIL", "ERROR", "EXCLUDED"), rows)
        if len(outcomes) < planned:
            print(f"INCOMPLETE: {len(outcomes)} of {planned} planned trials have an outcome")

    emit(
        {"campaign": str(campaign), "planned": planned, "scored": len(outcomes), "counts": counts},
        as_json=json,
        text=text,
    )
    whole = len(outcomes) == planned and not any(arm["ERROR"] for arm in counts.values())
    return YES if whole else NO


def analyse(campaign: Path, /, *, json: Json = False) -> int:
    """Do the registered analysis, with a verdict on each registered comparison. Writes analysis.json.

    Parameters
    ----------
    campaign
        The campaign folder.
    json
        Print one JSON document.
    """
    from trialplate import exam
    from trialplate.claims.wording import sentence
    from trialplate.cli.rates import RATE_HEADER, rate_rows, rate_title

    analysis = exam.analyse_campaign(campaign)
    document = analysis.document()
    exploratory = [arm["arm"] for arm in document["arms"] if arm["state"] == "EXPLORATORY"]

    def text() -> None:
        table(rate_title(document), RATE_HEADER, rate_rows(document))
        show_verdicts(analysis.comparisons, unit=analysis.plan.unit, title="Registered comparisons")
        show_stop(analysis)
        if exploratory:
            print(plain("EXPLORATORY " + sentence("warn_exploratory", arms=", ".join(exploratory))))

    emit(document, as_json=json, text=text)
    clean = all(arm["state"] == "COMPLETE" and not arm["counts"]["errored"] for arm in document["arms"])
    return YES if clean else NO


def judge(campaign: Path, /, *, qualification: Path | None = None, json: Json = False) -> int:
    """Say which registered claims are supported, not supported or ineligible, and why. Writes claims.json.

    Parameters
    ----------
    campaign
        The campaign folder.
    qualification
        Folder written by `trialplate qualify`; without it every claim is ineligible (not_qualified).
    json
        Print one JSON document.
    """
    from trialplate import exam

    claims = exam.judge_campaign(campaign, qualification=qualification)

    def text() -> None:
        for claim in claims:
            reasons = f" ({', '.join(claim.reasons)})" if claim.reasons else ""
            print(f"{claim.name}: {claim.verdict}{reasons}\n  {claim.sentence}")
        if not claims:
            print("no claim is registered")

    emit({"campaign": str(campaign), "claims": [claim.document() for claim in claims]}, as_json=json, text=text)
    if any(claim.verdict == "ineligible" for claim in claims):
        return BLOCKED
    return YES if all(claim.verdict == "supported" for claim in claims) else NO


def report(
    campaign: Path, /, *, out: Path = Path("report.html"), qualification: Path | None = None, workers: int = 1,
    json: Json = False,
) -> int:  # fmt: skip
    """Write the report: one HTML file that needs no network.

    Parameters
    ----------
    campaign
        The campaign folder.
    out
        The file to write.
    qualification
        Folder written by `trialplate qualify`.
    workers
        Processes that draw the pictures.
    json
        Print one JSON document.
    """
    from trialplate import api, exam

    claims = exam.judge_campaign(campaign, qualification=qualification)
    with progress_bar("pictures", quiet=json) as bar:
        path = api.report(
            campaign, claims, to=out, workers=workers, progress=lambda done, total: bar(done, total, "")
        )
    emit({"report": str(path), "bytes": path.stat().st_size}, as_json=json, text=lambda: print(path))
    return YES


def verify(
    campaign: Path,
    /,
    *,
    qualification: Path | None = None,
    replay: Annotated[list[str] | None, Parameter(consume_multiple=(0, 1), negative="")] = None,
    beacon: str | None = None,
    expect_lock: str | None = None,
    expect_root: str | None = None,
    expect_head: Annotated[
        tuple[str, ...], Parameter(consume_multiple=False, negative_iterable="", show_default=False)
    ] = (),
    keys: Path | None = None,
    threshold: int = 1,
    weights: Path | None = None,
    holdouts: Path | None = None,
    workers: int = 1,
    json: Json = False,
) -> int:
    """Check a campaign or a bundle: digests, chain, coverage, and every number computed again. Writes nothing.

    The exit code is that of the first stage that finds something:
    0 verified
    1 changed, or a number does not come out again
    2 malformed, or bad arguments
    3 intact, but something blocks it

    Five lines are printed in any case; LIMITS says what no check can show.

    Parameters
    ----------
    campaign
        The campaign or bundle folder.
    qualification
        Folder written by `trialplate qualify`; without it a campaign's claims that lean on one are blocked.
    replay
        Simulate attempts again and compare every state: `all` (or nothing more), or how many to pick.
    beacon
        32 bytes of public randomness in hex, which pick the attempts that are replayed; else drawn here, and told.
    expect_lock
        Digest of the lock that was kept elsewhere.
    expect_root
        Root over the rows that was kept elsewhere.
    expect_head
        Head of the journal that was kept elsewhere, COUNT:DIGEST as a run printed it; may be given again.
    keys
        Public keys whose signatures of a bundle count (PEM, Ed25519).
    threshold
        How many of these keys must have signed.
    weights
        Folder that the weights' paths are relative to: hash the checkpoint files that lie there again.
    holdouts
        The ledger of held-out scenarios, to be held against what the lock says of it.
    workers
        Processes that read recordings and replay.
    json
        Print one JSON document.
    """
    from trialplate import exam
    from trialplate.cli.expecting import beacon_bytes, expected_of, replay_wanted

    wanted, picked_by = replay_wanted(replay), beacon_bytes(beacon, replay=replay)
    with progress_bar("replay", quiet=json or replay is None) as bar:
        verdict = exam.verify(
            campaign,
            qualification=qualification,
            replay=wanted,
            beacon=picked_by,
            workers=workers,
            expected=expected_of(
                expect_lock,
                expect_root,
                heads=expect_head,
                keys=keys,
                threshold=threshold,
                weights=weights,
                holdouts=holdouts,
            ),
            progress=lambda done, total: bar(done, total, ""),
        )

    def text() -> None:
        for line in finding_lines(verdict.document()["findings"]):
            say(line)
        for amendment in verdict.amendments:
            say(plain(f"AMENDMENT {amendment.line()}"))
        for line in verdict.lines():
            say(plain(line))

    emit(verdict.document(), as_json=json, text=text)
    return verdict.exit_code


def show(campaign: Path, /, *, json: Json = False) -> int:
    """Show what a campaign or a bundle is, how far it is, and the state that its evidence puts it in, derived now.

    Parameters
    ----------
    campaign
        The campaign or bundle folder.
    json
        Print one JSON document.
    """
    from trialplate.lock import run_class
    from trialplate.publishing import standing
    from trialplate.store.view import read_campaign

    view = read_campaign(campaign)
    protocol = view.lock_document["protocol"]
    ends: dict[str, int] = {}
    for row in view.rows:
        ends[row.termination] = ends.get(row.termination, 0) + 1
    facts = {
        "campaign": str(campaign),
        "name": protocol["name"],
        "question": protocol["question"],
        "run_class": run_class(view.lock_document),
        "lock_sha256": view.lock_sha256,
        "planned": len(view.lock_document["schedule"]),
        "attempts": len(view.rows),
        "terminations": dict(sorted(ends.items())),
    }
    now = standing(campaign)
    facts |= {"state": now.state, "state_reasons": list(now.reasons)}

    def text() -> None:
        for key, value in facts.items():
            print(f"{key:>12}  {plain(str(value))}")

    emit(facts, as_json=json, text=text)
    return YES


def render(
    campaign: Path, trial: str, /, *, out: Path = Path(), fps: int = 20, size: int = 320, json: Json = False
) -> int:
    """Draw one recorded attempt again: an mp4 and a filmstrip, by re-simulating its recorded actions.

    Parameters
    ----------
    campaign
        The campaign folder.
    trial
        The trial id, for instance 000012.
    out
        Folder for TRIAL.mp4 and TRIAL.jpg.
    fps
        Frames a second; 20 plays a 20 Hz episode in real time.
    size
        Height and width of a picture in pixels.
    json
        Print one JSON document.
    """
    from trialplate import api

    paths = api.render(campaign, trial, into=out, fps=fps, size_px=size)
    emit({"files": [str(path) for path in paths]}, as_json=json, text=lambda: print("\n".join(map(str, paths))))
    return YES
