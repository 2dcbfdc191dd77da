"""What raw control campaigns say about the harness that made them, and about the campaign that leans on them.

A harness qualifies on a suite when its null and exploit controls pass nothing, a control that states where it fails
fails there, and its oracle passes everything, in three different runs with identical semantic outcomes, and when
attempts that nobody picked repeat. Every reader
computes that again; the summary beside the raw campaigns is believed by nobody. Sources: evidence specification,
section 8; fair pick-and-place protocol, section 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trialplate.canonical import MAX_DOCUMENT_BYTES, canonical_json, document_sha256, read_stored
from trialplate.errors import EvidenceError, TrialplateError, UsageError
from trialplate.interfaces import Suite
from trialplate.lock import harness_listing, other_harness
from trialplate.record import Outcome
from trialplate.registry import load_suite
from trialplate.store.findings import EvidenceProblem, Finding, finding, ordered, read_document
from trialplate.store.folder import Folder
from trialplate.store.view import CampaignView, read_campaign
from trialplate.verification.campaign import verify_campaign
from trialplate.verification.outcomes import score_view
from trialplate.verification.replay_audit import (
    AUDIT_MEMBER,
    ReplayAudit,
    audit_findings,
    audit_result,
    parse_audit,
)

SCHEMA = "trialplate.qualification/1"
SUMMARY = "qualification.json"
RESULTS = "results.jsonl"
"""What a control run must hold beside its evidence: readers without a scorer compare the oracle runs by it."""
ORACLE_RUNS = ("oracle-1", "oracle-2", "oracle-3")
BOUND_SECTIONS = ("harness", "suite", "distributions", "machine", "simulator")


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the exam. ``code``: the finding when it does not hold."""

    name: str
    passed: bool
    expected: str
    found: str
    code: str = "qualification_failed"


@dataclass(frozen=True, slots=True)
class Qualification:
    """What the raw control campaigns of a folder say about the harness that made them."""

    suite: str
    checks: tuple[Check, ...]
    semantic_sha256: str
    bound: Mapping[str, str]
    runs: Mapping[str, Mapping[str, str]]
    audit: ReplayAudit | None

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.passed for check in self.checks)

    def document(self) -> dict[str, Any]:
        """Return the plain form of ``qualification.json``; its id is the digest of everything else."""
        body = {
            "schema": SCHEMA,
            "suite": self.suite,
            "passed": self.passed,
            "checks": [
                {"name": c.name, "passed": c.passed, "expected": c.expected, "found": c.found} for c in self.checks
            ],
            "semantic_sha256": self.semantic_sha256,
            "bound": dict(self.bound),
            "runs": {name: dict(run) for name, run in self.runs.items()},
            AUDIT_MEMBER: self.audit.model_dump(mode="json") if self.audit is not None else None,
        }
        return {**body, "qualification_id": document_sha256(body)}


@dataclass(frozen=True, slots=True)
class Examined:
    """One control campaign: what is wrong with it, and when it can be read its view and its outcomes."""

    findings: tuple[Finding, ...]
    view: CampaignView | None = None
    outcomes: tuple[Outcome, ...] = ()


def exam_runs(suite: Suite) -> dict[str, str]:
    """Return run name -> control, in the order of the exam. Raises UsageError for a suite that cannot qualify."""
    by_role = {control.role: name for name, control in suite.controls.items()}
    missing = {"null", "oracle"} - set(by_role)
    if missing:
        raise UsageError(f"suite {suite.name} has no {' and no '.join(sorted(missing))} control; it cannot qualify")
    runs = {role: by_role[role] for role in ("null", "exploit", "random") if role in by_role}
    return runs | dict.fromkeys(ORACLE_RUNS, by_role["oracle"])


def examine(folder: Path, suite_name: str, *, audit: ReplayAudit | None = None) -> Qualification:
    """Compute the exam again from the raw campaigns of a folder.

    ``audit``: which attempts were simulated again; by default what the summary of the folder says of them, which is
    held against the recordings. Raises EvidenceError with the first finding when a campaign is missing, changed, or
    not the control that its folder is named for.
    """
    suite = load_suite(suite_name)
    runs = {name: _examined(folder, suite, name, control) for name, control in exam_runs(suite).items()}
    for run in runs.values():
        for wrong in run.findings:
            raise EvidenceProblem(wrong)
    return _concluded(suite, runs, audit or stored_audit(folder))


def stored_audit(folder: Path) -> ReplayAudit | None:
    """Return the audit that the summary of a folder holds; None when there is none that can be read."""
    try:
        with Folder(folder) as opened:
            return parse_audit(read_stored(opened.read(SUMMARY, limit_bytes=MAX_DOCUMENT_BYTES)))
    except EvidenceError:
        return None


def audit_again(folder: Path, suite_name: str, *, prefix: str = "") -> tuple[int, tuple[Finding, ...]]:
    """Simulate the audit of a qualification again. Returns how many attempts, and where they turn out otherwise.

    Of a folder that does not qualify nothing is simulated: checking it has said why.
    """
    audit = stored_audit(folder)
    if audit is None:
        return 0, ()
    try:
        views = {name: read_campaign(folder / name) for name in exam_runs(load_suite(suite_name))}
    except TrialplateError:
        return 0, ()
    if not audit_result(audit, views)[0]:
        return 0, ()
    return len(audit.episodes), tuple(audit_findings(audit, views, path=f"{prefix}{SUMMARY}"))


def qualification_findings(
    folder: Path, lock_document: Mapping[str, Any], *, prefix: str = ""
) -> tuple[Finding, ...]:
    """Return everything that keeps the raw controls of a folder from qualifying the harness of a lock. Never raises.

    ``prefix``: what stands before the paths of findings, with its ``/``.
    """
    try:
        suite = load_suite(lock_document["suite"]["name"])
        named = exam_runs(suite)
    except TrialplateError as error:
        path = f"{prefix}{SUMMARY}"
        return (finding("qualification_failed", path, expected="a suite with controls", found=error.message),)
    runs = {name: _examined(folder, suite, name, control) for name, control in named.items()}
    found = [item for run in runs.values() for item in run.findings]
    wrong = bool(found)
    made_by = next((run.view for run in runs.values() if run.view is not None), None)
    if made_by is not None and all(item.code == "grader_differs_from_lock" for item in found):
        found += _binding(made_by.lock_document, lock_document)
    if not wrong:
        result = _concluded(suite, runs, stored_audit(folder))
        found += [
            finding(check.code, SUMMARY, pointer=check.name, expected=check.expected, found=check.found)
            for check in result.checks
            if not check.passed
        ]
        found += _summary(folder, result)
    return ordered(replace(item, path=f"{prefix}{item.path}") for item in found)


def qualification_blockers(lock_document: Mapping[str, Any], folder: Path | None) -> list[str]:
    """Return ``not_qualified`` unless a folder of raw controls qualifies exactly this lock's harness.

    Raises EvidenceError with the first finding for a folder whose campaigns are changed or are not of the installed
    package, or whose summary is not what they say.
    """
    if folder is None:
        return ["not_qualified"]
    found = qualification_findings(folder, lock_document)
    if any(wrong.exit_code != 3 or wrong.path != SUMMARY or not wrong.pointer for wrong in found):
        raise EvidenceProblem(found[0])
    return ["not_qualified"] if found else []


def semantic_outcomes(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return what must be identical between oracle runs: scenario, status, ordered stages with steps, errors."""
    return [
        {
            "scenario": outcome.scenario,
            "repeat": outcome.repeat,
            "status": outcome.status.value,
            "reason": outcome.reason,
            "stages": [{"name": s.name, "passed": s.passed, "step": s.step} for s in outcome.stages],
        }
        for outcome in sorted(outcomes, key=lambda item: (item.scenario, item.repeat))
    ]


def bound_digests(lock_document: Mapping[str, Any]) -> dict[str, str]:
    """Return the digests that a qualification is tied to: harness, suite, packages, machine, simulator."""
    return {section: document_sha256(lock_document[section]) for section in BOUND_SECTIONS}


def _examined(folder: Path, suite: Suite, name: str, control: str) -> Examined:
    """Verify one control campaign, and that its one arm is the control that its folder is named for."""
    place = folder / name
    if not place.is_dir():
        wrong = finding("qualification_failed", f"{name}/", expected="a raw control campaign", found="no such folder")
        return Examined((wrong,))
    verdict = verify_campaign(place)
    found = [replace(item, path=f"{name}/{item.path}") for item in verdict.findings]
    if not (place / RESULTS).is_file():
        found.append(finding("file_missing", f"{name}/{RESULTS}", expected="a file", found="none"))
    view = verdict.view
    if view is None or found:
        return Examined(tuple(found), view)
    arms = [(arm["policy"], arm["reference"], arm["options"]) for arm in view.lock_document["arms"]]
    expected: list[tuple[str, str, dict[str, Any]]] = [(f"control:{control}", suite.controls[control].policy, {})]
    if arms != expected:
        path = f"{name}/lock.json"
        return Examined((finding("qualification_copied", path, pointer="/arms", expected=expected, found=arms),))
    if not view.records or not view.complete:
        path = f"{name}/journal.jsonl"
        return Examined((finding("qualification_failed", path, expected="a complete run", found=view.reason),))
    return Examined((), view, score_view(view))


def _concluded(suite: Suite, runs: Mapping[str, Examined], audit: ReplayAudit | None) -> Qualification:
    views = {name: run.view for name, run in runs.items() if run.view is not None}
    wanted = suite.examined()
    checks = [_counted(name, run.outcomes, wanted) for name, run in runs.items()]
    for name, control in exam_runs(suite).items():
        if fails_at := suite.controls[control].fails_at:
            checks.append(_failed_where_stated(name, runs[name].outcomes, fails_at))
    oracle = [semantic_outcomes(runs[name].outcomes) for name in ORACLE_RUNS]
    same = oracle.count(oracle[0])
    distinct = _different(views)
    bound = [bound_digests(view.lock_document) for view in views.values()]
    checks += [
        Check("oracle outcomes identical", same == 3, "3 of 3", f"{same} of 3"),
        Check("oracle runs are different runs", distinct == 3, "3 runs", f"{distinct} runs", "qualification_copied"),
        Check("one harness for all", bound.count(bound[0]) == len(bound), "1", str(len({str(b) for b in bound}))),
        Check("replay audit", *audit_result(audit, views)),
    ]
    facts = {
        name: {"lock_sha256": view.lock_sha256, "run_id": _run_id(view), "journal_head": view.records[-1]["sha256"]}
        for name, view in views.items()
    }
    return Qualification(suite.name, tuple(checks), document_sha256(oracle[0]), bound[0], facts, audit)


def _different(views: Mapping[str, CampaignView]) -> int:
    """Return how many different runs the oracle runs are: by run id, and by the times that their traces hold."""
    ids = {_run_id(views[name]) for name in ORACLE_RUNS}
    traces = {
        tuple(row.trace.file_sha256 if row.trace else f"{name} {row.trial_id}" for row in views[name].rows)
        for name in ORACLE_RUNS
    }
    return min(len(ids), len(traces))


def _run_id(view: CampaignView) -> str:
    return str(next(record["data"]["run_id"] for record in view.records if record["type"] == "run.open"))


def _counted(name: str, outcomes: Sequence[Outcome], wanted: Sequence[str]) -> Check:
    total = len(wanted)
    whole = sorted(outcome.scenario for outcome in outcomes) == sorted(wanted)
    passed = sum(outcome.status == "PASS" for outcome in outcomes)
    errors = sum(outcome.status == "ERROR" for outcome in outcomes)
    found = f"{passed}/{len(outcomes)}" + (f", {errors} ERROR" if errors else "")
    if name == "random":
        return Check("random control, reported", whole, f"any of {total}", found)
    expected = total if name.startswith("oracle") else 0
    holds = passed == expected and whole and (errors == 0 or name == "exploit")
    return Check(f"{name} control", holds, f"{expected}/{total}", found)


def _failed_where_stated(name: str, outcomes: Sequence[Outcome], fails_at: Mapping[str, str]) -> Check:
    """Hold a control against the stages at which it must fail.

    A failure without a replay is none at a stage: nothing was read there. ``found`` names every scenario that ended
    otherwise.
    """
    wrong = [
        f"{outcome.scenario}: expected {fails_at.get(outcome.domain, 'a stated stage')}, found {_ended(outcome)}"
        for outcome in sorted(outcomes, key=lambda item: (item.scenario, item.repeat))
        if _stage_failed(outcome) is None or _stage_failed(outcome) != fails_at.get(outcome.domain)
    ]
    total = len(outcomes)
    found = "; ".join([f"{total - len(wrong)}/{total}", *wrong])
    return Check(f"{name} control fails where stated", not wrong and total > 0, f"{total}/{total}", found)


def _stage_failed(outcome: Outcome) -> str | None:
    """Return the stage at which a measured attempt failed, None where it did not, or nothing was measured."""
    measured = outcome.status == "FAIL" and outcome.termination != "fault"
    return outcome.first_failed_stage if measured else None


def _ended(outcome: Outcome) -> str:
    if outcome.status == "PASS":
        return "a pass"
    return _stage_failed(outcome) or f"{outcome.status.value} {outcome.reason}"


def _binding(controls: Mapping[str, Any], lock_document: Mapping[str, Any]) -> list[Finding]:
    """A qualification holds for exactly the harness, suite sources, packages, machine and simulator that passed.

    ``controls``: the lock of one of its runs.
    """
    own, theirs = _bound_to(lock_document), _bound_to(controls)
    which = {"harness": other_harness(lock_document, harness_listing(controls))}
    return [
        finding(
            "qualification_binding",
            SUMMARY,
            pointer=f"/bound/{name}",
            expected=own[name],
            found=theirs[name] + which.get(name, ""),
        )
        for name in own
        if own[name] != theirs[name]
    ]


def _bound_to(lock_document: Mapping[str, Any]) -> dict[str, str]:
    """Return what a qualification is tied to, as its findings tell it; of the suite only the sources count."""
    bound = bound_digests(lock_document)
    del bound["suite"]
    harness, sources = lock_document["harness"], lock_document["suite"]["sources"]
    bound["harness"] = f"{harness['version']} {harness['sha256']}"
    bound["suite/sources/sha256"] = sources["sha256"]
    return bound


def _summary(folder: Path, result: Qualification) -> list[Finding]:
    try:
        with Folder(folder) as opened:
            stored = opened.read(SUMMARY, limit_bytes=MAX_DOCUMENT_BYTES)
        if stored == canonical_json(result.document()):
            return []
        read_document(stored, SUMMARY)
    except EvidenceProblem as error:
        return [replace(error.finding, path=SUMMARY)]
    return [finding("qualification_failed", SUMMARY, expected="what the raw campaigns say", found="something else")]
