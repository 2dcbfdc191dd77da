"""The harness's own exam, and what it lets a campaign claim.

A harness qualifies on a suite when its null and exploit controls pass nothing and its oracle passes everything,
three times with identical semantic outcomes. Every consumer recomputes that from the raw control campaigns.
Source: fair pick-and-place protocol, section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from trialplate import api
from trialplate.canonical import canonical_json, document_sha256, read_stored
from trialplate.claims.gate import Claim
from trialplate.errors import EvidenceError, UsageError
from trialplate.interfaces import Suite
from trialplate.lock import Lock
from trialplate.record import Outcome
from trialplate.registry import load_suite
from trialplate.replaying import replay as replay_view
from trialplate.result_identity import summary_document
from trialplate.scoring.analysis import Analysis
from trialplate.spec.protocol import Protocol
from trialplate.store.bundle import QUALIFICATION, QUALIFICATION_SUMMARY
from trialplate.store.campaign import write_derived
from trialplate.store.container import UNLISTED, check_container, is_bundle
from trialplate.store.findings import exit_code, ordered
from trialplate.store.fsio import Disk, publish_new
from trialplate.store.view import CampaignView, read_campaign
from trialplate.verification import (
    Verdict,
    analyse_document,
    claim_blockers,
    claims_bytes,
    score_view,
    verify_campaign,
)

SCHEMA = "trialplate.qualification/1"
ORACLE_RUNS = ("oracle-1", "oracle-2", "oracle-3")
BOUND_SECTIONS = ("harness", "suite", "distributions", "machine", "simulator")
ProgressNote = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the exam."""

    name: str
    passed: bool
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Qualification:
    """What the raw control campaigns of a folder say about the harness that made them."""

    suite: str
    checks: tuple[Check, ...]
    semantic_sha256: str
    bound: Mapping[str, str]
    runs: Mapping[str, Mapping[str, str]]

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
        }
        return {**body, "qualification_id": document_sha256(body)}


def qualify(
    suite_name: str, *, into: str | Path, workers: int = 1, progress: ProgressNote = lambda done, total, note: None
) -> Qualification:
    """Run every control over every scenario, keep the raw campaigns in ``into``, and write qualification.json."""
    folder = Path(into)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; a qualification is made once. Choose another folder")
    suite = load_suite(suite_name)
    names = _exam_runs(suite)
    size = len(suite.scenarios())
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
    result = examine(folder, suite_name)
    publish_new(Disk(), folder / "qualification.json", canonical_json(result.document()), mode=0o444)
    return result


def examine(folder: Path, suite_name: str) -> Qualification:
    """Recompute the exam from the raw campaigns of a folder. Raises EvidenceError when one is missing or broken."""
    suite = load_suite(suite_name)
    runs = {name: _examined(folder / name, suite, control) for name, control in _exam_runs(suite).items()}
    total = len(suite.scenarios())
    checks = [_counted(suite, name, runs[name][1], total) for name in runs]
    oracle = [semantic_outcomes(runs[name][1]) for name in ORACLE_RUNS]
    run_ids = [runs[name][0].records[0]["data"]["run_id"] for name in ORACLE_RUNS]
    bound = [bound_digests(view.lock_document) for view, _ in runs.values()]
    checks += [
        Check("oracle outcomes identical", oracle.count(oracle[0]) == 3, "3 of 3", f"{oracle.count(oracle[0])} of 3"),
        Check("oracle runs are different runs", len(set(run_ids)) == 3, "3 run ids", f"{len(set(run_ids))} run ids"),
        Check("one harness for all", bound.count(bound[0]) == len(bound), "1", str(len({str(b) for b in bound}))),
    ]
    facts = {
        name: {
            "lock_sha256": view.lock_sha256,
            "run_id": view.records[0]["data"]["run_id"],
            "journal_head": view.records[-1]["sha256"],
        }
        for name, (view, _) in runs.items()
    }
    return Qualification(suite_name, tuple(checks), document_sha256(oracle[0]), bound[0], facts)


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


def qualification_blockers(lock_document: Mapping[str, Any], folder: Path | None) -> list[str]:
    """Return ``not_qualified`` unless a folder of raw controls qualifies exactly this lock's harness."""
    if folder is None:
        return ["not_qualified"]
    result = examine(folder, lock_document["suite"]["name"])
    stored = read_stored((folder / "qualification.json").read_bytes())
    if stored != result.document():
        raise EvidenceError(
            f"{folder / 'qualification.json'} is not what its raw control campaigns say", code="qualification_failed"
        )
    own = dict(bound_digests(lock_document))
    same = all(result.bound[section] == own[section] for section in BOUND_SECTIONS if section != "suite")
    locked = lock_document["suite"]["sources"]["sha256"]
    exam_lock = read_campaign(folder / "null").lock_document
    return [] if result.passed and same and exam_lock["suite"]["sources"]["sha256"] == locked else ["not_qualified"]


def analyse_campaign(campaign: str | Path) -> Analysis:
    """Score a campaign, do its registered analysis, and write results.jsonl, analysis.json and summary.json."""
    folder = Path(campaign)
    outcomes = api.score(folder)
    view = read_campaign(folder)
    analysis = analyse_document(outcomes, view.lock_document)
    write_derived(folder, "analysis.json", canonical_json(analysis.document()))
    write_derived(folder, "summary.json", canonical_json(summary_document(view, outcomes, analysis)))
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
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Verdict:
    """Check a campaign, with ``qualification`` also the raw controls that its claims lean on; or a sealed bundle.

    ``replay``: simulate that many attempts again, or all of them; ``beacon``, ``workers``: see
    :func:`trialplate.replaying.replay`.
    """
    verdict = _verify(Path(campaign), qualification)
    if replay is None or verdict.view is None:
        return verdict
    episodes = None if replay == "all" else replay
    done = replay_view(verdict.view, episodes=episodes, beacon=beacon, workers=workers, progress=progress)
    return verdict.with_replay(done)


def _verify(folder: Path, qualification: Path | None) -> Verdict:
    if is_bundle(folder):
        return _verify_bundle(folder)
    if qualification is None:
        return verify_campaign(folder)
    document = read_campaign(folder).lock_document
    return verify_campaign(folder, qualified=qualification_blockers(document, qualification) == [])


def _verify_bundle(folder: Path) -> Verdict:
    """Check a sealed bundle: its outside, its campaign, and the raw controls that it holds."""
    container = check_container(folder)
    listed = container.manifest.by_path() if container.manifest else {}
    qualified = None
    if QUALIFICATION_SUMMARY in listed:
        document = read_campaign(folder).lock_document
        qualified = qualification_blockers(document, folder / QUALIFICATION) == []
    verdict = verify_campaign(folder, qualified=qualified)
    sealed = {*listed, *UNLISTED, *(f"{path.rpartition('/')[0]}/" for path in listed)}
    inside = [
        item
        for item in verdict.findings
        if not (item.code == "file_extra" and (item.path in sealed or item.path.startswith(f"{QUALIFICATION}/")))
    ]
    findings = ordered([*container.findings, *inside])
    return replace(verdict, findings=findings, exit_code=exit_code(findings))


def _exam_runs(suite: Suite) -> dict[str, str]:
    """Return run name -> control, in the order of the exam."""
    by_role = {control.role: name for name, control in suite.controls.items()}
    missing = {"null", "oracle"} - set(by_role)
    if missing:
        raise UsageError(f"suite {suite.name} has no {' and no '.join(sorted(missing))} control; it cannot qualify")
    runs = {role: by_role[role] for role in ("null", "exploit", "random") if role in by_role}
    return runs | dict.fromkeys(ORACLE_RUNS, by_role["oracle"])


def _control_protocol(suite: Suite, control: str) -> Protocol:
    return Protocol.model_validate_json(
        canonical_json(
            {
                "schema": "trialplate.protocol/1",
                "name": f"qualify-{suite.name}-{control}",
                "question": f"What does the {control} control of {suite.name} score?",
                "run_class": "calibration",
                "suite": {"name": suite.name, "version": suite.version, "body": suite.bodies[0]},
                "arms": [{"name": control, "policy": f"control:{control}", "replan_interval": 1}],
                "schedule": {"order": "manifest"},
            }
        )
    )


def _examined(folder: Path, suite: Suite, control: str) -> tuple[CampaignView, tuple[Outcome, ...]]:
    """Verify one control campaign, and that its one arm is the control that its folder is named for."""
    verdict = verify_campaign(folder)
    if verdict.exit_code != 0 or verdict.view is None:
        first = verdict.findings[0]
        raise EvidenceError(f"control campaign {folder}: {first.code} in {first.path}", code="qualification_failed")
    arms = [(arm["policy"], arm["reference"], arm["options"]) for arm in verdict.view.lock_document["arms"]]
    expected: list[tuple[str, str, dict[str, Any]]] = [(f"control:{control}", suite.controls[control].policy, {})]
    if arms != expected:
        raise EvidenceError(f"{folder} was run by {arms}, expected {expected}", code="qualification_copied")
    return verdict.view, score_view(verdict.view)


def _counted(suite: Suite, name: str, outcomes: Sequence[Outcome], total: int) -> Check:
    passed = sum(outcome.status == "PASS" for outcome in outcomes)
    errors = sum(outcome.status == "ERROR" for outcome in outcomes)
    found = f"{passed}/{len(outcomes)}" + (f", {errors} ERROR" if errors else "")
    if name == "random":
        return Check("random control, reported", len(outcomes) == total, f"any of {total}", found)
    expected = total if name.startswith("oracle") else 0
    holds = passed == expected and len(outcomes) == total and (errors == 0 or name == "exploit")
    return Check(f"{name} control", holds, f"{expected}/{total}", found)


__all__ = ["Check", "Qualification", "analyse_campaign", "examine", "judge_campaign", "qualify", "verify"]
