"""Recompute everything that is derived from a campaign's evidence, and compare.

Reads recordings only: no simulator, no policy. Scenes are compared with the suite's manifest again here, by code
that does not know how the world was built.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trialplate import fingerprint
from trialplate.canonical import canonical_json, document_sha256, read_stored
from trialplate.claims.gate import Claim, judge_claims
from trialplate.coherence import (
    declared_registrations,
    input_findings,
    lock_findings,
    registration_findings,
    row_findings,
)
from trialplate.errors import CanonicalError, EvidenceError, TrialplateError, UsageError
from trialplate.lock import locked_inputs
from trialplate.record import Outcome, Status
from trialplate.registry import load_attribute, load_suite
from trialplate.replaying import Replay
from trialplate.result_identity import summary_document
from trialplate.scoring.analysis import Analysis
from trialplate.scoring.score import score_rows
from trialplate.scoring.summary import analyse_outcomes
from trialplate.spec.channels import ActionSpec
from trialplate.spec.protocol import Protocol
from trialplate.spec.stages import StageChain
from trialplate.store.disclosures import COMPROMISED
from trialplate.store.findings import Finding, exit_code, finding, ordered
from trialplate.store.verify import check
from trialplate.store.view import CampaignView

DERIVED_CODES = {
    "results.jsonl": "grades_not_reproduced",
    "analysis.json": "analysis_not_reproduced",
    "summary.json": "accounting_not_reproduced",
    "claims.json": "claims_not_reproduced",
}
NOT_LOOKED_AT = "not looked at: give the raw controls with --qualification"
LIMITS = (
    "Not proved: that sensors tell the truth, that the harness or its operator is honest, that nothing was tried"
    " before the first durable record or elsewhere, that these scenarios stand for any others."
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found. 0 verified; 1 changed or not reproduced; 2 malformed; 3 intact but blocked."""

    findings: tuple[Finding, ...]
    exit_code: int
    view: CampaignView | None
    attempts: int
    qualification: str
    replay: Replay | None = None

    def with_replay(self, replay: Replay) -> Verdict:
        """Return the verdict with what a replay of the same evidence found."""
        listed = ordered([*self.findings, *replay.findings])
        return replace(self, findings=listed, exit_code=exit_code(listed), replay=replay)

    def lines(self) -> tuple[str, ...]:
        """Return the summary: never a bare OK."""
        worst = {0: "verified", 1: "FAILED", 2: "MALFORMED", 3: "intact, but blocked"}[self.exit_code]
        return (
            f"INTEGRITY {worst}: {self.attempts} attempts, {len(self.findings)} findings",
            "QUALIFICATION " + self.qualification,
            "ASSURANCE self-attested: compare the lock digest with one that was kept elsewhere"
            + (f"; {self.replay.line()}" if self.replay is not None else ""),
            f"LIMITS {LIMITS}",
        )

    def document(self) -> dict[str, Any]:
        """Return the plain form."""
        return {
            "exit_code": self.exit_code,
            "attempts": self.attempts,
            "lock_sha256": self.view.lock_sha256 if self.view else None,
            "findings": [
                {
                    "code": item.code,
                    "path": item.path,
                    "pointer": item.pointer,
                    "expected": item.expected,
                    "found": item.found,
                }
                for item in self.findings
            ],
            "replay": self.replay.document() if self.replay is not None else None,
            "summary": list(self.lines()),
        }


def verify_campaign(folder: Path, *, ignore: Collection[str] = (), qualified: bool | None = None) -> Verdict:
    """Check digests, then recompute scenes, grades, analysis and claims. ``ignore``: derived files not looked at.

    ``qualified``: whether raw control campaigns qualify this harness; None when nobody looked. Claims that lean on
    a qualification are then blocked (``qualification_missing``), never taken at their word.
    """
    if not folder.is_dir():
        raise UsageError(f"no campaign at {folder}")
    integrity = check(folder)
    findings = list(integrity.findings)
    findings += [
        finding("file_extra", name, expected="no such file", found="a derived file that nothing here computes")
        for name in integrity.unchecked
        if name not in DERIVED_CODES
    ]
    view = integrity.view
    if view is not None:
        try:
            findings += _recomputed(view, ignore=ignore, qualified=qualified)
        except EvidenceError as error:
            findings.append(
                finding("grades_not_reproduced", "results.jsonl", expected="scorable evidence", found=error.message)
            )
    listed = ordered(findings)
    said = {True: "holds: recomputed from the raw controls", False: "does not hold for this harness"}
    return Verdict(
        listed,
        exit_code(listed),
        view,
        len(view.rows) if view else 0,
        NOT_LOOKED_AT if qualified is None else said[qualified],
    )


def score_view(view: CampaignView) -> tuple[Outcome, ...]:
    """Score every attempt of a campaign with the chain and fault table of its lock.

    An arm whose code or weights changed during the run has no scorable attempt: all of them are ERROR. An attempt on
    which a leak was disclosed keeps its outcome, and is marked; so is every attempt of an arm of which a run declared
    another identity than the locked one.
    """
    suite = view.lock_document["suite"]
    outcomes = score_rows(
        view.rows,
        load_trace=lambda row: view.load_trace(row) if row.trace is not None else None,
        chain=StageChain.model_validate_json(json.dumps(suite["chain"])),
        fault_table=suite["fault_table"],
        interrupted=view.lock_document["protocol"]["schedule"]["interrupted"],
    )
    changed = changed_inputs(view)
    leaked, exploratory = _leaked(view), declared_registrations(view)
    return tuple(
        replace(
            _voided(outcome) if outcome.arm in changed else outcome,
            blinding="compromised" if outcome.trial_id in leaked else None,
            identity="exploratory" if outcome.arm in exploratory else None,
            notes=(*outcome.notes, *leaked.get(outcome.trial_id, ())),
        )
        for outcome in outcomes
    )


def _leaked(view: CampaignView) -> dict[str, tuple[str, ...]]:
    """Return trial id -> what was disclosed about the attempt that counts for it."""
    counted = {row.trial_id: row.attempt for row in view.rows}  # rows come in order: the last attempt counts
    found: dict[str, tuple[str, ...]] = {}
    for leak in view.leaks:
        trial, attempt = leak.attempt
        if counted.get(trial) == attempt:
            found[trial] = (*found.get(trial, ()), f"{COMPROMISED}; {leak.what}")
    return found


def changed_inputs(view: CampaignView) -> frozenset[str]:
    """Return the arms whose code or weights were, at any check of the run, not those of the lock."""
    locked = locked_inputs(view.lock_document)
    return frozenset(
        name
        for record in view.records
        if record["type"] == "inputs.checked"
        for name, digest in record["data"]["digests"].items()
        if locked.get(name) != digest
    )


def _voided(outcome: Outcome) -> Outcome:
    return replace(
        outcome,
        status=Status.ERROR,
        reason="inputs_changed",
        stages=(),
        success_once=None,
        success_final=None,
        first_failed_stage=None,
    )


def analyse_document(outcomes: Sequence[Outcome], lock_document: Mapping[str, Any]) -> Analysis:
    """Carry out the analysis plan of a lock."""
    plan, suite = lock_document["protocol"]["analysis"], lock_document["suite"]
    planned: dict[str, int] = {arm["name"]: 0 for arm in lock_document["arms"]}
    for trial in lock_document["schedule"]:
        planned[trial["arm"]] += 1
    return analyse_outcomes(
        outcomes,
        planned=planned,
        stages=[stage["name"] for stage in suite["chain"]["stages"]],
        confidence=plan["confidence"],
        denominator=plan["denominator"],
        errors_rule=suite["errors_rule"],
        slices=tuple(plan["slices"]),
        comparisons=tuple((a, b) for a, b in plan["comparisons"]),
        tested=[arm["name"] for arm in lock_document["arms"] if arm["role"] == "arm"],
        action=ActionSpec.model_validate_json(json.dumps(suite["action"])),
    )


def claim_blockers(
    analysis: Analysis, lock_document: Mapping[str, Any], *, view: CampaignView | None = None
) -> list[str]:
    """Return what stands against any claim on this evidence, whatever its numbers say.

    ``not_qualified`` is among them: only raw control campaigns can take it away (``trialplate.exam``). ``view``: the
    evidence itself, which tells whether an arm was run under another identity than the locked one.
    """
    blockers = ["not_qualified"]
    if view is not None and declared_registrations(view):
        blockers.append("exploratory_registration")
    if lock_document["protocol"]["run_class"] != "confirmatory":
        blockers.append("not_confirmatory")
    if any(arm.counts.initiated < (arm.counts.planned or 0) for arm in analysis.arms):
        blockers.append("incomplete_coverage")
    return sorted(blockers)


def results_bytes(outcomes: Sequence[Outcome]) -> bytes:
    """Return the stored form of outcomes: one canonical line each, in schedule order."""
    return b"".join(canonical_json(outcome.document()) + b"\n" for outcome in outcomes)


def claims_bytes(claims: Sequence[Claim], blockers: Sequence[str]) -> bytes:
    """Return the stored form of claims, with what was held against them."""
    return canonical_json(
        {
            "schema": "trialplate.claims/1",
            "blockers": list(blockers),
            "claims": [claim.document() for claim in claims],
        }
    )


def _recomputed(view: CampaignView, *, ignore: Collection[str], qualified: bool | None) -> list[Finding]:
    found = [*_suite(view), *_coherent(view), *_scenes(view)]
    outcomes = score_view(view)
    analysis = analyse_document(outcomes, view.lock_document)
    derived = {
        "results.jsonl": results_bytes(outcomes),
        "analysis.json": canonical_json(analysis.document()),
        "summary.json": canonical_json(summary_document(view, outcomes, analysis)),
    }
    stored = view.folder / "claims.json"
    if stored.is_file() and "claims.json" not in ignore:
        claimed = _claimed_blockers(stored.read_bytes())
        derived["claims.json"] = _claims(view, analysis, claimed)
        if "not_qualified" not in claimed and qualified is not True:
            code = "qualification_missing" if qualified is None else "qualification_failed"
            found.append(
                finding(
                    code,
                    "claims.json",
                    pointer="/blockers",
                    expected="raw controls that qualify this harness",
                    found="none were shown" if qualified is None else "controls that do not",
                )
            )
    for name, expected in derived.items():
        path = view.folder / name
        if name in ignore or not path.is_file():
            continue
        data = path.read_bytes()
        if data != expected:
            found.append(
                finding(
                    DERIVED_CODES[name],
                    name,
                    pointer=_first_difference(expected, data),
                    expected="what the evidence gives",
                    found="something else",
                )
            )
    return found


def _claimed_blockers(stored: bytes) -> frozenset[str]:
    try:
        return frozenset(read_stored(stored)["blockers"])
    except (CanonicalError, KeyError, TypeError):
        return frozenset({"not_qualified"})  # it is no claims document: the comparison of bytes says so


def _claims(view: CampaignView, analysis: Analysis, claimed: Collection[str]) -> bytes:
    """Recompute claims.json; only whether the harness qualified is taken from the file, and checked by the caller."""
    blockers = set(claim_blockers(analysis, view.lock_document, view=view)) - {"not_qualified"}
    blockers |= set(claimed) & {"not_qualified", "integrity"}
    rules = Protocol.model_validate_json(json.dumps(view.lock_document["protocol"])).claims
    return claims_bytes(judge_claims(analysis, rules, sorted(blockers)), sorted(blockers))


def _first_difference(expected: bytes, found: bytes) -> str:
    pairs = zip(expected, found, strict=False)
    place = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(expected), len(found)))
    return f"byte {place}, line {expected[:place].count(10) + 1}"


def _suite(view: CampaignView) -> list[Finding]:
    """Compare the installed scorer and manifest with those of the lock."""
    locked = view.lock_document
    try:
        suite = load_suite(locked["suite"]["name"])
    except TrialplateError as error:
        return [
            finding("grader_differs_from_lock", "lock.json", expected=locked["suite"]["name"], found=error.message)
        ]
    found = []
    manifest = document_sha256(suite.manifest_document())
    if manifest != locked["suite"]["manifest_sha256"]:
        found.append(
            finding(
                "grader_differs_from_lock",
                "lock.json",
                pointer="/suite/manifest_sha256",
                expected=locked["suite"]["manifest_sha256"],
                found=manifest,
            )
        )
    harness = fingerprint.harness()["sha256"]
    if harness != locked["harness"]["sha256"]:
        found.append(
            finding(
                "grader_differs_from_lock",
                "lock.json",
                pointer="/harness/sha256",
                expected=locked["harness"]["sha256"],
                found=harness,
            )
        )
    return found


def _coherent(view: CampaignView) -> list[Finding]:
    try:
        suite = load_suite(view.lock_document["suite"]["name"])
    except TrialplateError:
        return []  # _suite has said so
    return [
        *lock_findings(view.lock_document, suite),
        *input_findings(view),
        *row_findings(view, suite),
        *registration_findings(view),
    ]


def _scenes(view: CampaignView) -> list[Finding]:
    """Rebuild every applied scene from the manifest and compare it with the readback of its episode."""
    try:
        suite = load_suite(view.lock_document["suite"]["name"])
    except TrialplateError:
        return []  # _suite has said so
    compare = load_attribute(suite.verify_scene)
    scenarios = {scenario.id: scenario.document() for scenario in suite.scenarios()}
    found = []
    for row in view.rows:
        if row.applied_scene is None:
            continue
        path = f"episodes/{row.trial_id}-{row.attempt}/row.json"
        if document_sha256(row.applied_scene) != row.applied_scene_sha256:
            found.append(
                finding(
                    "scene_mismatch",
                    path,
                    pointer="/applied_scene_sha256",
                    expected=document_sha256(row.applied_scene),
                    found=row.applied_scene_sha256,
                )
            )
        for pointer, expected, got in compare(scenarios[row.scenario], row.applied_scene):
            found.append(finding("scene_mismatch", path, pointer=pointer, expected=expected, found=got))
    return found
