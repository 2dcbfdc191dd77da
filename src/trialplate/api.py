"""The main path: seven verbs, each a few lines over the rooms below."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trialplate.admission import admit, select_scenarios
from trialplate.canonical import canonical_json
from trialplate.claims.gate import Claim, judge_claims
from trialplate.errors import EvidenceError, LockError, ProtocolError, UsageError
from trialplate.lock import Lock, lock_bytes, lock_document, read_lock
from trialplate.record import Outcome
from trialplate.registry import load_suite
from trialplate.run.bench import seat_arm
from trialplate.run.campaign import ExecutorName, Progress, RunReport, run_campaign
from trialplate.run.schedule import make_schedule
from trialplate.scoring.score import score_rows
from trialplate.scoring.summary import Analysis, analyse_outcomes
from trialplate.spec.protocol import Protocol
from trialplate.spec.stages import StageChain
from trialplate.store.campaign import CampaignView, read_campaign, write_derived
from trialplate.store.fsio import Disk


@dataclass(frozen=True, slots=True)
class LoadedProtocol:
    """A checked protocol and the folder that its files are relative to."""

    protocol: Protocol
    path: Path

    @property
    def base(self) -> Path:
        """Folder of the protocol file."""
        return self.path.resolve().parent


@dataclass(frozen=True, slots=True)
class Campaign:
    """A folder of evidence."""

    folder: Path
    report: RunReport | None = None


def load_protocol(path: str | Path) -> LoadedProtocol:
    """Read and check a protocol file. Raises ProtocolError that lists every mistake of the file at once."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"no protocol at {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"protocol {path} cannot be read: {error}") from None
    return LoadedProtocol(admit(text, source=str(path), base=path.resolve().parent), path)


def lock(protocol: LoadedProtocol, into: str | Path) -> Lock:
    """Write the lock of a protocol into a campaign folder, and return it.

    Hashes everything that can change a number, loads every arm once and checks that it fits. Raises LockError
    when an arm does not fit or the folder is already in use.
    """
    path = Path(into)
    if path.suffix != ".json":
        path = path / "lock.json"
    if path.exists():
        raise LockError(f"{path} exists; a lock is written once. Choose another folder", code="lock_exists")
    suite = load_suite(protocol.protocol.suite.name)
    schedule = make_schedule(protocol.protocol, select_scenarios(protocol.protocol, suite))
    document = lock_document(protocol.protocol, suite, base=protocol.base, schedule=schedule)
    for arm in document["arms"]:
        seat_arm(arm, suite, base=protocol.base).policy.close()
    disk = Disk()
    disk.make_folder(path.parent)
    disk.write_new(path, lock_bytes(document), mode=0o444)
    return read_lock(path)


def run(
    lock: Lock | str | Path,
    *,
    into: str | Path | None = None,
    workers: int = 1,
    executor: ExecutorName | None = None,
    resume: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Campaign:
    """Run every planned trial of a lock; every attempt becomes evidence. ``into`` defaults to the lock's folder."""
    locked = lock if isinstance(lock, Lock) else read_lock(Path(lock))
    folder = Path(into) if into is not None else locked.path.parent
    report = run_campaign(locked, folder, workers=workers, executor=executor, resume=resume, progress=progress)
    return Campaign(folder, report)


def score(campaign: Campaign | str | Path) -> tuple[Outcome, ...]:
    """Score a campaign from its evidence alone and write ``results.jsonl``: no simulator, no policy."""
    view = read_campaign(_folder(campaign))
    outcomes = _score(view)
    write_derived(view.folder, "results.jsonl", results_bytes(outcomes))
    return outcomes


def analyse(outcomes: Sequence[Outcome], lock: Lock | str | Path) -> Analysis:
    """Do the registered analysis of a lock, and nothing else."""
    locked = lock if isinstance(lock, Lock) else read_lock(Path(lock))
    return _analyse(outcomes, locked.document)


def judge(analysis: Analysis, lock: Lock | str | Path, *, blockers: Sequence[str] | None = None) -> tuple[Claim, ...]:
    """Apply the registered claim rules. A claim is supported, not supported, or ineligible with its reasons."""
    locked = lock if isinstance(lock, Lock) else read_lock(Path(lock))
    found = claim_blockers(analysis, locked.document) if blockers is None else list(blockers)
    return judge_claims(analysis, rules=locked.protocol["claims"], blockers=found)


def report(campaign: Campaign | str | Path, claims: Sequence[Claim], *, to: str | Path, workers: int = 1) -> Path:
    """Write the report of a campaign: one HTML file that needs no network."""
    from trialplate.report_data import gather  # draws pictures: heavy, loaded when asked for

    return gather(_folder(campaign), claims, to=Path(to), workers=workers)


def claim_blockers(analysis: Analysis, lock_document: Mapping[str, Any]) -> list[str]:
    """Return what stands against any claim on this evidence, whatever its numbers say."""
    blockers = []
    if lock_document["protocol"]["run_class"] != "confirmatory":
        blockers.append("not_confirmatory")
    if any(arm.initiated < arm.planned for arm in analysis.arms):
        blockers.append("incomplete_coverage")
    blockers.append("not_qualified")
    return blockers


def results_bytes(outcomes: Sequence[Outcome]) -> bytes:
    """Return the stored form of outcomes: one canonical line each, in schedule order."""
    return b"".join(canonical_json(outcome.document()) + b"\n" for outcome in outcomes)


def _folder(campaign: Campaign | str | Path) -> Path:
    return campaign.folder if isinstance(campaign, Campaign) else Path(campaign)


def _score(view: CampaignView) -> tuple[Outcome, ...]:
    suite = view.lock_document["suite"]
    chain = StageChain.model_validate_json(json.dumps(suite["chain"]))
    return score_rows(view.rows, load_trace=view.load_trace, chain=chain, fault_table=suite["fault_table"])


def _analyse(outcomes: Sequence[Outcome], lock_document: Mapping[str, Any]) -> Analysis:
    plan = lock_document["protocol"]["analysis"]
    planned: dict[str, int] = {arm["name"]: 0 for arm in lock_document["arms"]}
    for trial in lock_document["schedule"]:
        planned[trial["arm"]] += 1
    return analyse_outcomes(
        outcomes,
        planned=planned,
        confidence=plan["confidence"],
        denominator=plan["denominator"],
        slices=tuple(plan["slices"]),
        comparisons=tuple((a, b) for a, b in plan["comparisons"]),
    )


__all__ = [
    "Campaign",
    "EvidenceError",
    "LoadedProtocol",
    "Lock",
    "ProtocolError",
    "analyse",
    "judge",
    "load_protocol",
    "lock",
    "report",
    "run",
    "score",
]
