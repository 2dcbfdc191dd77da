"""The main path: seven verbs, each a few lines over the rooms below."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trialplate.admission import admit, select_scenarios
from trialplate.canonical import sha256_hex
from trialplate.claims.gate import Claim, judge_claims
from trialplate.comparison import SideBySide, compare_campaigns
from trialplate.errors import CanonicalError, EvidenceError, LockError, ProtocolError, UsageError
from trialplate.held_out import consult, record_openings
from trialplate.lock import Lock, lock_bytes, lock_document, read_lock
from trialplate.record import Outcome
from trialplate.registry import load_suite
from trialplate.run.attempt import Recording
from trialplate.run.campaign import Attachment, ExecutorName, Progress, RunReport, run_campaign
from trialplate.run.schedule import make_schedule
from trialplate.run.seating import describe_arm, refuse_blind
from trialplate.scoring.analysis import Analysis
from trialplate.spec.protocol import Protocol
from trialplate.stopping import watch
from trialplate.store.derived import write_derived
from trialplate.store.fsio import Disk, publish_new
from trialplate.store.lockfile import refuse_late
from trialplate.store.view import read_campaign
from trialplate.verification import (
    Verdict,
    analyse_document,
    claim_blockers,
    results_bytes,
    score_and_time,
    verify_campaign,
)


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
    when an arm does not fit, the folder is already in use, or attempts were made before (``late_lock``). Where a
    holdout ledger knows its scenarios, it is recorded there that this lock opens them.
    """
    path = Path(into).resolve()
    if path.suffix != ".json":
        path = path / "lock.json"
    if path.exists():
        raise LockError(f"{path} exists; a lock is written once. Choose another folder", code="lock_exists")
    disk = Disk()
    refuse_late(path.parent, disk.entries(path.parent))
    suite = load_suite(protocol.protocol.suite.name)
    scenarios = select_scenarios(protocol.protocol, suite)
    schedule = make_schedule(protocol.protocol, scenarios)
    consulted = consult(protocol.protocol, scenarios, base=protocol.base)
    described = {
        arm.name: describe_arm(arm, suite, budgets=protocol.protocol.budgets, base=protocol.base)
        for arm in protocol.protocol.arms
    }
    document = lock_document(
        protocol.protocol, suite, base=protocol.base, schedule=schedule, described=described,
        holdouts=None if consulted is None else consulted.section(),
    )  # fmt: skip
    refuse_blind(document)
    try:
        data = lock_bytes(document)
    except CanonicalError as error:
        raise LockError(f"{protocol.path} cannot be locked: {error.message}", code=error.code) from None
    record_openings(consulted, document, sha256_hex(data))
    disk.make_folder(path.parent)
    publish_new(disk, path, data, mode=0o444)
    return read_lock(path)


def run(
    lock: Lock | str | Path,
    *,
    into: str | Path | None = None,
    workers: int = 1,
    executor: ExecutorName | None = None,
    resume: bool = False,
    recording: Recording = "detailed",
    addresses: Mapping[str, str] | None = None,
    attachment: Attachment | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Campaign:
    """Run every planned trial of a lock; every attempt becomes evidence. ``into`` defaults to the lock's folder.

    ``recording``: ``minimal`` keeps all that scoring needs, ``detailed`` also what each policy was shown.
    ``addresses``: arm -> where its policy server is now. ``attachment``: how arms that come to the run by themselves
    (``served``, ``mailbox``) are met; such a run runs only them.
    """
    locked = lock if isinstance(lock, Lock) else read_lock(Path(lock))
    folder = (Path(into) if into is not None else locked.path.parent).resolve()
    report = run_campaign(
        locked, folder, workers=workers, executor=executor, resume=resume, recording=recording, addresses=addresses,
        attachment=attachment, rule=watch(locked.document), progress=progress,
    )  # fmt: skip
    return Campaign(folder, report)


def score(campaign: Campaign | str | Path) -> tuple[Outcome, ...]:
    """Score a campaign from its evidence alone and write ``results.jsonl``: no simulator, no policy."""
    view = read_campaign(_folder(campaign))
    outcomes, _ = score_and_time(view)
    write_derived(view.folder, "results.jsonl", results_bytes(outcomes))
    return outcomes


def analyse(outcomes: Sequence[Outcome], lock: Lock | str | Path) -> Analysis:
    """Do the registered analysis of a lock, and nothing else."""
    locked = lock if isinstance(lock, Lock) else read_lock(Path(lock))
    return analyse_document(outcomes, locked.document)


def judge(analysis: Analysis, lock: Lock | str | Path, *, blockers: Sequence[str] | None = None) -> tuple[Claim, ...]:
    """Apply the registered claim rules. A claim is supported, not supported, or ineligible with its reasons."""
    locked = lock if isinstance(lock, Lock) else read_lock(Path(lock))
    found = claim_blockers(analysis, locked.document) if blockers is None else list(blockers)
    rules = Protocol.model_validate_json(json.dumps(locked.protocol)).claims
    return judge_claims(analysis, rules, found)


def report(
    campaign: Campaign | str | Path,
    claims: Sequence[Claim],
    *,
    to: str | Path,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Write the report of a campaign: one HTML file that needs no network."""
    from trialplate.picture_book import write_report  # draws pictures and charts: heavy, loaded when asked for

    return write_report(read_campaign(_folder(campaign)), claims, to=Path(to), workers=workers, progress=progress)


def verify(campaign: Campaign | str | Path) -> Verdict:
    """Check a campaign against its digests and recompute everything derived. Writes nothing."""
    return verify_campaign(_folder(campaign))


def compare(first: Campaign | str | Path, *others: Campaign | str | Path) -> tuple[SideBySide, ...]:
    """Put a campaign beside each of the others: never pooled, and refused where anything registered differs."""
    return compare_campaigns(read_campaign(_folder(first)), [read_campaign(_folder(other)) for other in others])


def render(
    campaign: Campaign | str | Path, trial: str, *, into: str | Path, fps: int = 20, size_px: int = 320
) -> list[Path]:
    """Draw one recorded attempt again into TRIAL.mp4 and TRIAL.jpg; its states must equal the recorded ones."""
    from trialplate.picture_book import draw_attempt

    return draw_attempt(read_campaign(_folder(campaign)), trial, into=Path(into), fps=fps, size_px=size_px)


def _folder(campaign: Campaign | str | Path) -> Path:
    return campaign.folder if isinstance(campaign, Campaign) else Path(campaign)


__all__ = [
    "Campaign",
    "EvidenceError",
    "LoadedProtocol",
    "Lock",
    "ProtocolError",
    "SideBySide",
    "Verdict",
    "analyse",
    "compare",
    "judge",
    "load_protocol",
    "lock",
    "lock_bytes",
    "render",
    "report",
    "run",
    "score",
    "verify",
]
