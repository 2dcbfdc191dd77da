"""The harness's own exam, and what it lets a campaign claim.

A harness qualifies on a suite when its null and exploit controls pass nothing, a control that states where it fails
fails there, and its oracle passes everything, three times with identical semantic outcomes. Every consumer recomputes
that from the raw control campaigns.
Source: fair pick-and-place protocol, section 6.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Literal

from trialplate import api
from trialplate.canonical import canonical_json
from trialplate.claims.gate import Claim
from trialplate.errors import UsageError
from trialplate.held_out import holdout_findings
from trialplate.interfaces import Suite
from trialplate.lock import Lock
from trialplate.registry import load_suite
from trialplate.replaying import replay as replay_view
from trialplate.result_identity import summary_document
from trialplate.scoring.analysis import Analysis
from trialplate.spec.protocol import Protocol
from trialplate.store.bundle import QUALIFICATION
from trialplate.store.container import is_bundle
from trialplate.store.derived import write_derived
from trialplate.store.expected import Expected, expected_findings
from trialplate.store.findings import Finding, exit_code, ordered
from trialplate.store.fsio import Disk, publish_new
from trialplate.store.holdouts import read_ledger
from trialplate.store.models import weight_findings
from trialplate.store.view import CampaignView, read_campaign
from trialplate.verification import (
    Verdict,
    analyse_document,
    claim_blockers,
    claims_bytes,
    results_bytes,
    score_and_time,
    verify_campaign,
)
from trialplate.verification.bundle import verify_bundle
from trialplate.verification.qualification import (
    SUMMARY,
    Check,
    Qualification,
    audit_again,
    exam_runs,
    examine,
    qualification_blockers,
)
from trialplate.verification.replay_audit import audit_controls

ProgressNote = Callable[[int, int, str], None]


def qualify(
    suite_name: str,
    *,
    into: str | Path,
    workers: int = 1,
    beacon: bytes | None = None,
    progress: ProgressNote = lambda done, total, note: None,
) -> Qualification:
    """Run every control over the scenarios of the exam, keep the campaigns in ``into``, and write qualification.json.

    Then attempts of them are simulated again, picked by ``beacon``: 32 bytes of public randomness that appeared
    after the runs, by default drawn here. ``workers``: processes that run.
    """
    folder = Path(into)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; a qualification is made once. Choose another folder")
    suite = load_suite(suite_name)
    names = exam_runs(suite)
    size = len(suite.examined())
    locks: dict[str, Lock] = {}
    for index, (name, control) in enumerate(names.items()):
        if control not in locks:
            loaded = api.LoadedProtocol(_control_protocol(suite, control), folder / "protocol.toml")
            locks[control] = api.lock(loaded, into=folder / "locks" / f"{control}.json")
        note = f"{name} ({index + 1} of {len(names)})"
        api.run(
            locks[control],
            into=folder / name,
            workers=workers,
            progress=lambda p, i=index, n=note: progress(i * size + p.done, len(names) * size, n),  # type: ignore[misc]
        )
        api.score(folder / name)
    progress(len(names) * size, len(names) * size, "replay audit")
    views = {name: read_campaign(folder / name) for name in names}
    audit = audit_controls(views, beacon=secrets.token_bytes(32) if beacon is None else beacon)
    result = examine(folder, suite_name, audit=audit)
    publish_new(Disk(), folder / SUMMARY, canonical_json(result.document()), mode=0o444)
    return result


def analyse_campaign(campaign: str | Path) -> Analysis:
    """Score a campaign, do its registered analysis, and write results.jsonl, analysis.json and summary.json."""
    folder = Path(campaign)
    view = read_campaign(folder)
    outcomes, timed = score_and_time(view)
    write_derived(folder, "results.jsonl", results_bytes(outcomes))
    analysis = analyse_document(outcomes, view.lock_document)
    write_derived(folder, "analysis.json", canonical_json(analysis.document()))
    write_derived(folder, "summary.json", canonical_json(summary_document(view, outcomes, analysis, timed=timed)))
    return analysis


def judge_campaign(campaign: str | Path, *, qualification: Path | None = None) -> tuple[Claim, ...]:
    """Judge the registered claims of a campaign with everything that stands against them.

    Scores and analyses first, and writes results.jsonl, analysis.json, summary.json and claims.json.
    """
    folder = Path(campaign)
    analysis = analyse_campaign(folder)
    view = read_campaign(folder)
    claims, blockers = judged(view, analysis, qualification=qualification)
    write_derived(folder, "claims.json", claims_bytes(claims, blockers))
    return claims


def judged(
    view: CampaignView, analysis: Analysis, *, qualification: Path | None, ignore: Collection[str] = ("claims.json",)
) -> tuple[tuple[Claim, ...], tuple[str, ...]]:
    """Return the claims of a campaign and everything that stands against them. Writes nothing.

    ``ignore``: derived files of the campaign that are not looked at.
    """
    blockers = set(claim_blockers(analysis, view.lock_document, view=view)) - {"not_qualified"}
    blockers |= set(qualification_blockers(view.lock_document, qualification))
    found = {item.code for item in verify_campaign(view.folder, ignore=ignore).findings}
    said = {"exploratory_registration"}  # a blocker of its own, and no damage
    if "incomplete_coverage" in blockers:
        said.add("coverage_incomplete")
    if found - said:
        blockers.add("integrity")
    lock = Lock(view.lock_document, view.lock_sha256, view.folder / "lock.json")
    return api.judge(analysis, lock, blockers=sorted(blockers)), tuple(sorted(blockers))


def verify(
    campaign: str | Path,
    *,
    qualification: Path | None = None,
    replay: int | Literal["all"] | None = None,
    beacon: bytes | None = None,
    workers: int = 1,
    expected: Expected | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Verdict:
    """Check a campaign, with ``qualification`` also the raw controls that its claims lean on; or a sealed bundle.

    ``expected``: digests that were kept elsewhere, and keys whose signatures count.
    ``replay``: simulate that many attempts again, or all of them; ``beacon``: see ``trialplate.replaying.replay``.
    The audited attempts of raw controls are then simulated again as well. ``workers``: processes that read recordings
    and replay; above one they are spawned, so a script needs its main guard.
    """
    verdict = _verify(Path(campaign), qualification, expected or Expected(), workers)
    if replay is None or verdict.view is None:
        return verdict
    episodes = None if replay == "all" else replay
    done = replay_view(verdict.view, episodes=episodes, beacon=beacon, workers=workers, progress=progress)
    controls = Path(campaign) / QUALIFICATION if is_bundle(Path(campaign)) else qualification
    if controls is not None:
        prefix = f"{QUALIFICATION}/" if qualification is None else ""
        audited, wrong = audit_again(controls, verdict.view.lock_document["suite"]["name"], prefix=prefix)
        done = replace(done, controls=audited, findings=ordered([*done.findings, *wrong]))
    return verdict.with_replay(done)


def _verify(folder: Path, qualification: Path | None, expected: Expected, workers: int) -> Verdict:
    if is_bundle(folder):
        verdict = verify_bundle(folder, trust=expected.trust, workers=workers)
    elif expected.trust is not None:
        raise UsageError(f"{folder} is no bundle: only a sealed campaign can be signed. Seal it, or leave --keys out")
    elif qualification is None:
        verdict = verify_campaign(folder, workers=workers)
    else:
        verdict = verify_campaign(folder, workers=workers)
        if verdict.view is not None:
            qualified = qualification_blockers(verdict.view.lock_document, qualification) == []
            verdict = verify_campaign(folder, qualified=qualified, workers=workers)
    brought = [*expected_findings(folder, expected), *_brought_findings(verdict.view, expected)]
    findings = ordered([*verdict.findings, *brought])
    assurances = (*verdict.assurances, *expected.assurances)
    return replace(verdict, findings=findings, exit_code=exit_code(findings), assurances=assurances)


def _brought_findings(view: CampaignView | None, expected: Expected) -> list[Finding]:
    """Hold a campaign against the checkpoint files and the holdout ledger that its reader brings along."""
    if view is None:
        return []
    found: list[Finding] = []
    if expected.weights is not None:
        found += weight_findings(view.lock_document, base=expected.weights)
    if expected.holdouts is not None:
        found += holdout_findings(read_ledger(expected.holdouts), view.lock_document, view.lock_sha256)
    return found


def _control_protocol(suite: Suite, control: str) -> Protocol:
    return Protocol.model_validate_json(
        canonical_json(
            {
                "schema": "trialplate.protocol/1",
                "name": f"qualify-{suite.name}-{control}",
                "question": f"What does the {control} control of {suite.name} score?",
                "run_class": "calibration",
                "suite": {
                    "name": suite.name,
                    "version": suite.version,
                    "body": suite.bodies[0],
                    **({"scenarios": list(suite.examined())} if suite.exam is not None else {}),
                },
                "arms": [{"name": control, "policy": f"control:{control}", "replan_interval": 1}],
                "schedule": {"order": "manifest"},
            }
        )
    )


__all__ = ["Check", "Qualification", "analyse_campaign", "examine", "judge_campaign", "qualify", "verify"]
