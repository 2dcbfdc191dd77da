"""Run a lock into a campaign folder: every planned trial once, every attempt kept, whatever happens."""

from __future__ import annotations

import json
import os
import platform
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trialplate import fingerprint
from trialplate.admission import select_scenarios
from trialplate.canonical import document_sha256
from trialplate.errors import LockError, UsageError
from trialplate.lock import Lock, arm_inputs, identity, locked_inputs, refuse_if_changed
from trialplate.record import Row
from trialplate.registry import load_suite
from trialplate.run.bench import BenchPlan, release, seat_arm, unfinished_row
from trialplate.run.executors import Finished, Task, run_processes, run_serial
from trialplate.run.interrupt import Interrupt, interruptible
from trialplate.run.schedule import Trial, make_schedule
from trialplate.spec.protocol import Protocol
from trialplate.store.campaign import CampaignWriter
from trialplate.store.layout import FIRST_ATTEMPT, Planned

ExecutorName = Literal["serial", "processes"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. ``done`` and ``total`` count attempts of this campaign, earlier runs included."""

    done: int
    total: int
    last: Row | None


@dataclass(frozen=True, slots=True)
class RunReport:
    """How a run ended. ``complete``: every planned trial has a counted attempt and no input changed."""

    folder: Path
    complete: bool
    initiated: int
    planned: int
    changed_inputs: tuple[str, ...]
    stopped_by: str | None


def run_campaign(
    lock: Lock,
    folder: Path,
    *,
    workers: int = 1,
    executor: ExecutorName | None = None,
    resume: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> RunReport:
    """Run what the lock planned and this folder does not hold yet.

    Raises LockError when code, data or machine are not what was locked, when an arm does not fit or cannot be
    loaded, or when the folder holds another campaign; StorageFailure when a durable write fails.
    """
    if isinstance(workers, bool) or workers < 1:
        raise UsageError(f"workers: expected 1 or more, got {workers!r}")
    executor = executor or ("serial" if workers == 1 else "processes")
    if executor == "serial" and workers != 1:
        raise UsageError(f"the serial executor has one worker, got {workers}; use the processes executor")
    plan = BenchPlan(lock.document, lock.sha256)
    _refuse_unfit(lock)
    with _open(lock, folder, resume=resume) as writer:
        writer.open_run(_run_facts(lock, workers=workers, executor=executor))
        _end_interrupted(writer, plan)
        writer.inputs_checked(arm_inputs(lock))
        with interruptible() as interrupt:
            stopped_by = _run_tasks(
                writer, lock, plan, workers=workers, executor=executor, interrupt=interrupt, progress=progress
            )
        _end_interrupted(writer, plan)
        return _close(writer, lock, folder, stopped_by=stopped_by)


def _refuse_unfit(lock: Lock) -> None:
    """Fail before the first episode: identity unchanged, every arm loads and fits."""
    protocol = Protocol.model_validate_json(json.dumps(lock.protocol))
    suite = load_suite(protocol.suite.name)
    scenarios = select_scenarios(protocol, suite)
    if lock.document["schedule"] != make_schedule(protocol, scenarios):
        raise LockError("the schedule of the lock is not that of its protocol: it was edited", code="lock_edited")
    if lock.document["protocol_sha256"] != document_sha256(protocol.document()):
        raise LockError("protocol_sha256 of the lock is not that of its protocol: it was edited", code="lock_edited")
    refuse_if_changed(lock, identity(protocol, suite, base=lock.base))
    for arm in lock.document["arms"]:
        release(seat_arm(arm, suite, base=lock.base, simulator=lock.document["simulator"]))


def _open(lock: Lock, folder: Path, *, resume: bool) -> CampaignWriter:
    if (folder / "journal.jsonl").exists():
        if not resume:
            raise LockError(
                f"{folder} holds attempts already; continue it with --resume, or choose another folder",
                code="campaign_exists",
            )
        return CampaignWriter.resume(folder, lock_sha256=lock.sha256)
    return CampaignWriter.create(folder, lock_bytes=lock.path.read_bytes())


def _run_facts(lock: Lock, *, workers: int, executor: str) -> dict[str, Any]:
    boot = Path("/proc/sys/kernel/random/boot_id")
    return {
        "run_id": secrets.token_hex(16),
        "boot_id": boot.read_text(encoding="ascii").strip() if boot.is_file() else None,
        "host": platform.node(),
        "pid": os.getpid(),
        "harness_sha256": fingerprint.harness()["sha256"],
        "workers": workers,
        "executor": executor,
        "planned": len(lock.document["schedule"]),
    }


def _run_tasks(
    writer: CampaignWriter, lock: Lock, plan: BenchPlan, *, workers: int, executor: str, interrupt: Interrupt,
    progress: Callable[[Progress], None],
) -> str | None:  # fmt: skip
    """Run every open task; return what stopped the run early, or None."""
    tasks = _open_tasks(writer)
    planned = len(lock.document["schedule"])
    done = planned - len(tasks)

    def started(task: Task) -> None:
        with interrupt.held():
            writer.start_attempt(task[0].trial_id, ordinal=task[0].ordinal, arm=task[0].arm, attempt=task[1])

    timeout_s = lock.protocol["budgets"]["episode_timeout_s"]
    progress(Progress(done, planned, None))
    try:
        for finished in _execute(plan, iter(tasks), started, workers, executor, timeout_s):
            row = finished.row or unfinished_row(plan, *finished.task, fault=finished.lost)
            with interrupt.held():
                writer.end_attempt(row, trace=finished.trace)
            done += 1
            progress(Progress(done, planned, row))
    except KeyboardInterrupt:
        return "interrupted"
    return None


def _execute(
    plan: BenchPlan,
    tasks: Iterator[Task],
    started: Callable[[Task], None],
    workers: int,
    executor: str,
    timeout_s: float,
) -> Iterator[Finished]:
    if executor == "serial":
        return run_serial(plan, tasks, started=started)
    return run_processes(plan, tasks, started=started, workers=workers, episode_timeout_s=timeout_s)


def _open_tasks(writer: CampaignWriter) -> list[Task]:
    """Return what is still to run: interrupted trials whose replacement is registered, then trials never started."""
    replaced = [(_trial(planned), attempt) for planned, attempt in writer.replaceable]
    return replaced + [(_trial(planned), FIRST_ATTEMPT) for planned in writer.unstarted]


def _trial(planned: Planned) -> Trial:
    return Trial(planned.trial_id, planned.ordinal, planned.arm, planned.scenario, planned.repeat)


def _end_interrupted(writer: CampaignWriter, plan: BenchPlan) -> None:
    """Give every attempt that was started and never ended its visible end."""
    for attempt in writer.open_attempts:
        writer.interrupt_attempt(unfinished_row(plan, _trial(attempt.trial), attempt.attempt, fault=None))


def _close(writer: CampaignWriter, lock: Lock, folder: Path, *, stopped_by: str | None) -> RunReport:
    locked, now = locked_inputs(lock.document), arm_inputs(lock)
    changed = tuple(sorted(name for name in locked if locked[name] != now[name]))
    writer.inputs_checked(now)
    complete = stopped_by is None and not _open_tasks(writer) and not changed
    initiated = len(writer.ended_attempts)
    writer.close_run(complete=complete, reason="inputs_changed" if changed else stopped_by)
    return RunReport(folder, complete, initiated, len(lock.document["schedule"]), changed, stopped_by)
