"""Commands on what stands beside a lock: its amendments, and the ledger of held-out scenarios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from trialplate.cli.output import YES, emit, plain

if TYPE_CHECKING:
    from trialplate.interfaces import Suite
    from trialplate.store.holdouts import Pack

SHORTEST_NAME = 8
"""Fewest digits by which a pack may be named."""

Json = Annotated[bool, Parameter(name="--json", negative="")]


def register(app: App) -> None:
    """Add this group's commands."""
    app.command(amend)
    holdout = App(name="holdout", help="Keep a ledger of scenarios that are held out.")
    for command, name in ((register_pack, "register"), (open_pack, "open"), (list_packs, "list")):
        holdout.command(command, name=name)
    app.command(holdout)


def amend(campaign: Path, /, *, kind: str, reason: str, text: str, json: Json = False) -> int:
    """Append an amendment to the lock of a campaign. It is chained, printed everywhere, and never changes a rule.

    A rule, tolerance, seed, schedule, denominator or analysis is changed by a new version under a new lock.

    Parameters
    ----------
    campaign
        The campaign folder.
    kind
        disclosure (something that a reader has to know), text_correction (a wording that was wrong), custody (who
        keeps keys, digests and anchors) or stop (a registered stop was invoked).
    reason
        Why it is written.
    text
        What it says.
    json
        Print one JSON document.
    """
    from trialplate.store.amending import amend as append
    from trialplate.store.amendments import amendment_path

    made = append(campaign, kind=kind, reason=reason, text=text)
    facts = {
        "campaign": str(campaign), "file": amendment_path(made.n), "sha256": made.sha256, "n": made.n,
        "kind": made.kind, "created_utc": made.created_utc, "attempts_seen": made.attempts_seen,
    }  # fmt: skip

    def tell() -> None:
        print(plain(f"amendment {made.line()}"))
        print(f"{campaign / amendment_path(made.n)}\n{made.sha256}\nKeep this digest outside.")

    emit(facts, as_json=json, text=tell)
    return YES


def register_pack(
    suite: str | None = None,
    /,
    *,
    author: str,
    scenario: Annotated[tuple[str, ...], Parameter(consume_multiple=False)] = (),
    pack: str | None = None,
    ledger: Path = Path("holdouts.jsonl"),
    json: Json = False,
) -> int:
    """Register scenarios as held out, before anybody has opened them. Makes the ledger where there is none.

    Parameters
    ----------
    suite
        The suite whose scenarios these are; left out with --pack.
    author
        Who chose the scenarios and holds them back.
    scenario
        Only this scenario; may be given again. By default all of the suite.
    pack
        The digest of a pack whose scenarios nobody here has seen yet, 64 hex digits.
    ledger
        The ledger; beside the protocols, never in a campaign.
    json
        Print one JSON document.
    """
    from trialplate.errors import UsageError
    from trialplate.registry import load_suite
    from trialplate.store import holdouts

    if (suite is None) == (pack is None) or (pack is not None and scenario):
        raise UsageError("name a suite, with --scenario if not all of it is held out, or a pack by its digest")
    if pack is not None:
        made = holdouts.register_pack(ledger, author=author, sha256=pack)
    else:
        loaded = load_suite(str(suite))
        made = holdouts.register_pack(
            ledger, author=author, suite=loaded.name, version=loaded.version, scenarios=_chosen(loaded, scenario)
        )
    return _told(ledger, made, json=json)


def _chosen(suite: Suite, names: Sequence[str]) -> dict[str, str]:
    """Return id -> digest of the named scenarios, or of all. Raises UsageError for one that is not there."""
    from trialplate.errors import UsageError, nearest

    every = {scenario.id: scenario.sha256() for scenario in suite.scenarios()}
    for name in names:
        if name not in every:
            raise UsageError(f"suite {suite.name} has no scenario {name!r}{nearest(name, every)}")
    return {name: every[name] for name in names or every}


def open_pack(
    pack: str,
    /,
    *,
    purpose: Literal["development", "calibration", "pilot", "inspection"],
    ledger: Path = Path("holdouts.jsonl"),
    json: Json = False,
) -> int:
    """Record that a pack is opened for anything but a locked run. It is spent from then on.

    Parameters
    ----------
    pack
        The digest of the pack, 64 hex digits, or its first 8 or more.
    purpose
        development, calibration, pilot or inspection. `trialplate lock` records a locked run by itself.
    ledger
        The ledger.
    json
        Print one JSON document.
    """
    from trialplate.store import holdouts

    sha256 = _named(pack, holdouts.read_ledger(ledger).packs)
    return _told(ledger, holdouts.open_pack(ledger, sha256, purpose=purpose), json=json)


def list_packs(*, ledger: Path = Path("holdouts.jsonl"), json: Json = False) -> int:
    """List the packs of a ledger: who holds them back, and which of them are spent by what.

    Parameters
    ----------
    ledger
        The ledger.
    json
        Print one JSON document.
    """
    from trialplate.store.holdouts import read_ledger

    found = read_ledger(ledger)
    packs = [_facts(pack) for pack in found.packs.values()]
    facts = {"ledger": str(ledger), "head_sha256": found.head_sha256, "records": len(found.records), "packs": packs}

    def text() -> None:
        for pack in found.packs.values():
            print(plain(_line(pack)))
        print(f"ledger head {found.head_sha256}\nKeep this digest outside: it proves what had been opened.")

    emit(facts, as_json=json, text=text)
    return YES


def _told(ledger: Path, pack: Pack, *, json: bool) -> int:
    from trialplate.store.holdouts import read_ledger

    head = read_ledger(ledger).head_sha256

    def text() -> None:
        print(plain(_line(pack)))
        print(f"ledger head {head}\nKeep this digest outside: it proves what had been opened.")

    emit({"ledger": str(ledger), "head_sha256": head, **_facts(pack)}, as_json=json, text=text)
    return YES


def _named(text: str, packs: Mapping[str, Pack]) -> str:
    """Return the one pack that a digest, or the beginning of one, names. Raises UsageError."""
    from trialplate.errors import UsageError

    found = [sha256 for sha256 in packs if sha256.startswith(text)] if len(text) >= SHORTEST_NAME else []
    if len(found) != 1:
        known = ", ".join(sha256[:12] for sha256 in packs) or "none"
        raise UsageError(f"{text!r} names {len(found)} packs, expected one of: {known}", code="no_such_pack")
    return found[0]


def _facts(pack: Pack) -> dict[str, Any]:
    openings = [{"utc": o.utc, "purpose": o.purpose, "lock_sha256": o.lock_sha256} for o in pack.openings]
    return {
        "pack_sha256": pack.sha256, "author": pack.author, "registered_utc": pack.registered_utc, "suite": pack.suite,
        "version": pack.version, "scenarios": None if pack.scenarios is None else sorted(pack.scenarios),
        "spent": pack.spent is not None, "openings": openings,
    }  # fmt: skip


def _line(pack: Pack) -> str:
    what = (
        f"{len(pack.scenarios)} scenarios of {pack.suite}"
        if pack.scenarios is not None
        else "scenarios not shown yet"
    )
    spent = pack.spent
    state = "held out" if spent is None else f"SPENT by {spent.purpose} at {spent.utc[:19].replace('T', ' ')} UTC"
    return f"{pack.sha256}  {what}, held back by {pack.author}, opened {len(pack.openings)} times: {state}"
