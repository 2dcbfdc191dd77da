"""Run a lock into a campaign folder: every planned trial once, every attempt kept, whatever happens."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from trialplate import fingerprint
from trialplate.admission import select_scenarios
from trialplate.canonical import document_sha256
from trialplate.errors import LockError, UsageError, nearest
from trialplate.inputs import Look, changed_arms, look
from trialplate.lock import Lock, identity, locked_description, refuse_if_changed
from trialplate.record import Row
from trialplate.registry import load_suite
from trialplate.run.attempt import Recording
from trialplate.run.bench import BenchPlan, lost_trial, unfinished_row
from trialplate.run.clocks import clock_facts
from trialplate.run.executors import Refused, Returned, Task, run_processes, run_serial
from trialplate.run.halting import Halting
from trialplate.run.interrupt import Interrupt, interruptible
from trialplate.run.looks import STOPPED, StopRule
from trialplate.run.schedule import Trial, make_schedule
from trialplate.run.seating import ActorFactory, describe_arm, refuse_blind
from trialplate.run.streams import hold_descriptors
from trialplate.spec.protocol import Protocol
from trialplate.spec.registration import Registration
from trialplate.spec.schemes import ATTACHED, REMOTE, scheme_of
from trialplate.store.amending import only_amended
from trialplate.store.campaign import CampaignWriter
from trialplate.store.chain import JOURNAL
from trialplate.store.clocks import CLOCK_SYNC
from trialplate.store.findings import EvidenceProblem
from trialplate.store.folder import Folder
from trialplate.store.layout import FIRST_ATTEMPT, Planned
from trialplate.store.quarantine import Quarantined, is_broken, quarantine
from trialplate.store.view import MAX_TRACE_BYTES

ExecutorName = Literal["serial", "processes"]
Note = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. ``done`` and ``total`` count attempts of this campaign, earlier runs included."""

    done: int
    total: int
    last: Row | None


@dataclass(frozen=True, slots=True)
class RunReport:
    """How a run ended. ``complete``: every planned trial has a counted attempt, or the registered rule stopped the
    run (``stopped_by`` is ``registered_stop``), and no input changed.

    ``exploratory``: arms behind which another identity answered than the locked one; no claim stands on them.
    """

    folder: Path
    complete: bool
    initiated: int
    planned: int
    changed_inputs: tuple[str, ...]
    stopped_by: str | None
    exploratory: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Attachment:
    """How arms that come to the run by themselves are met.

    ``actors``: scheme -> what makes the actor of such an arm. ``gate``: called before each of their trials is
    started; it waits until the arm asks for one, and False ends the run (``aborted``). ``registered``: arm -> the
    identity that came, where it is not the locked one. ``arms``: only these of them; None is all. ``begun``: handed
    at the beginning what puts an event durably into the journal, before anybody outside is told of it.
    """

    actors: Mapping[str, ActorFactory]
    gate: Callable[[Trial], bool] = lambda trial: True
    arms: frozenset[str] | None = None
    registered: Mapping[str, Registration] = field(default_factory=dict)
    begun: Callable[[Note], None] = lambda note: None


def run_campaign(
    lock: Lock,
    folder: Path,
    *,
    workers: int = 1,
    executor: ExecutorName | None = None,
    resume: bool = False,
    recording: Recording = "detailed",
    addresses: Mapping[str, str] | None = None,
    attachment: Attachment | None = None,
    rule: StopRule | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> RunReport:
    """Run what the lock planned and this folder does not hold yet.

    ``addresses``: arm -> where its policy server is now, instead of where the protocol says. Arms that come to the
    run by themselves are left for a run with their ``attachment``, which runs nothing else. ``rule``: the stopping
    rule that the lock registers.

    Raises LockError when code, data or machine are not what was locked, when an arm does not fit or cannot be
    loaded, or when the folder holds another campaign; StorageFailure when a durable write fails.
    """
    if isinstance(workers, bool) or workers < 1:
        raise UsageError(f"workers: expected 1 or more, got {workers!r}")
    hold_descriptors()
    executor = executor or ("serial" if workers == 1 else "processes")
    if executor == "serial" and workers != 1:
        raise UsageError(f"the serial executor has one worker, got {workers}; use the processes executor")
    arms = _arms(lock, attachment)
    _refuse_shared(lock, arms, workers=workers)
    registered = refuse_unfit(lock, arms=arms, addresses=addresses or {})
    if attachment is not None:
        registered = {**registered, **attachment.registered}
    first = look(lock)
    plan = BenchPlan(lock.document, lock.sha256, recording, addresses or {}, registered, first.marks)
    how = _Run(plan, arms, workers, executor, attachment, rule, progress)
    with open_campaign(lock, folder, resume=resume) as writer:
        writer.open_run(_run_facts(lock, how))
        _end_interrupted(writer, plan)
        writer.inputs_checked(first.digests, sources=first.sources())
        stopped_by: str | None = "inputs_changed"
        if not changed_arms(lock.document, first.document()):
            with interruptible() as interrupt:
                if attachment is not None:
                    attachment.begun(partial(_note, writer, interrupt))
                for facts in clock_facts(lock.document, arms, addresses=addresses or {}):
                    _note(writer, interrupt, CLOCK_SYNC, facts)
                stopped_by = _run_tasks(writer, lock, how, interrupt=interrupt)
            _end_interrupted(writer, plan)
        return _close(writer, lock, folder, first=first, stopped_by=stopped_by, exploratory=tuple(sorted(registered)))


@dataclass(frozen=True, slots=True)
class _Run:
    """What one run does: with which arms, where, and who is told."""

    plan: BenchPlan
    arms: frozenset[str]
    workers: int
    executor: str
    attachment: Attachment | None
    rule: StopRule | None
    progress: Callable[[Progress], None]


def _arms(lock: Lock, attachment: Attachment | None) -> frozenset[str]:
    """Return the arms of this run: those that come by themselves need their attachment, the others have none."""
    schemes = {arm["name"]: scheme_of(arm["policy"]) for arm in lock.document["arms"]}
    if attachment is None:
        return frozenset(name for name, scheme in schemes.items() if scheme not in ATTACHED)
    attached = frozenset(name for name, scheme in schemes.items() if scheme in attachment.actors)
    chosen = attached if attachment.arms is None else attached & attachment.arms
    if not chosen:
        wanted = ", ".join(sorted(attachment.actors))
        raise LockError(f"no arm of the lock has the policy {wanted!r}", code="no_such_arm")
    return chosen


def _refuse_shared(lock: Lock, arms: Collection[str], *, workers: int) -> None:
    """Refuse several workers for a policy server that serves one client: an instance is never shared."""
    for arm in lock.document["arms"]:
        alone = arm["name"] in arms and scheme_of(arm["policy"]) in REMOTE and arm["declares"]["state"] == "instance"
        if alone and workers > 1:
            raise UsageError(
                f"arm {arm['name']!r} declares the state 'instance': its server has one instance and serves "
                f"one client. Run with 1 worker, not {workers}, or declare 'episode_keyed' or 'none' when that is "
                "true of it",
                code="instance_shared",
            )


def refuse_unfit(lock: Lock, *, arms: Collection[str], addresses: Mapping[str, str]) -> dict[str, Registration]:
    """Fail before the first episode: the lock is whole, identity unchanged, every arm of this run loads and fits.

    Returns the identities of policy servers that are not the locked ones: such a run is exploratory.
    """
    protocol = Protocol.model_validate_json(json.dumps(lock.protocol))
    suite = load_suite(protocol.suite.name)
    scenarios = select_scenarios(protocol, suite)
    if lock.document["schedule"] != make_schedule(protocol, scenarios):
        raise LockError("the schedule of the lock is not that of its protocol: it was edited", code="lock_edited")
    if lock.document["protocol_sha256"] != document_sha256(protocol.document()):
        raise LockError("protocol_sha256 of the lock is not that of its protocol: it was edited", code="lock_edited")
    if unknown := sorted(set(addresses) - {arm.name for arm in protocol.arms}):
        raise UsageError(f"an address for the unknown arm {unknown[0]!r}{nearest(unknown[0], arms)}")
    locked = {arm["name"]: locked_description(arm) for arm in lock.document["arms"]}
    found: dict[str, Registration] = {}
    described = dict(locked)
    for arm in protocol.arms:
        if arm.name not in arms:
            continue
        now = describe_arm(arm, suite, budgets=protocol.budgets, base=lock.base, address=addresses.get(arm.name))
        described[arm.name] = now
        if arm.scheme in REMOTE and now.registration is not None and now != locked[arm.name]:
            found[arm.name] = now.registration.model_copy(update={"adapters": now.adapters})
            described[arm.name] = locked[arm.name]
    refuse_if_changed(lock, identity(protocol, suite, base=lock.base, described=described))
    refuse_blind(lock.document)
    return found


def open_campaign(lock: Lock, folder: Path, *, resume: bool) -> CampaignWriter:
    """Start the campaign of a lock, or go on with it.

    One that is broken is moved to quarantine, never repaired (``Quarantined``). Raises LockError ``campaign_exists``
    when it was started and ``resume`` is not set, and what the writer raises.
    """
    if not (folder / JOURNAL).exists():
        return CampaignWriter.create(folder, lock_bytes=lock.path.read_bytes())
    if not resume and not only_amended(folder / JOURNAL, lock_sha256=lock.sha256):
        raise LockError(
            f"{folder} holds attempts already; continue it with --resume, or choose another folder",
            code="campaign_exists",
        )
    try:
        return CampaignWriter.resume(folder, lock_sha256=lock.sha256)
    except EvidenceProblem as error:
        if not resume or not is_broken(error.finding):
            raise
        place = quarantine(folder, reason=error.code, findings=[error.finding])
        raise Quarantined(error.finding, place=place) from None


def _run_facts(lock: Lock, how: _Run) -> dict[str, Any]:
    boot = Path("/proc/sys/kernel/random/boot_id")
    return {
        "boot_id": boot.read_text(encoding="ascii").strip() if boot.is_file() else None,
        "host": platform.node(),
        "pid": os.getpid(),
        "harness_sha256": fingerprint.harness()["sha256"],
        "workers": how.workers,
        "executor": how.executor,
        "recording": how.plan.recording,
        "arms": sorted(how.arms),
        "addresses": dict(how.plan.addresses),
        "registrations": {name: found.sha256() for name, found in how.plan.registered.items()},
        "planned": len(lock.document["schedule"]),
    }


def _note(writer: CampaignWriter, interrupt: Interrupt, kind: str, data: Mapping[str, Any]) -> None:
    with interrupt.held():
        writer.note(kind, data)


def _run_tasks(writer: CampaignWriter, lock: Lock, how: _Run, *, interrupt: Interrupt) -> str | None:
    """Run every open task; return what stopped the run early, or None."""
    halting = Halting(lock.document)
    tasks = [] if writer.stopped else _open_tasks(writer, how.arms)
    done = len(lock.document["schedule"]) - len(_open_tasks(writer, None))
    planned = done + len(tasks)

    def started(task: Task) -> None:
        with interrupt.held():
            writer.start_attempt(task[0].trial_id, ordinal=task[0].ordinal, arm=task[0].arm, attempt=task[1])

    def refused(item: Refused) -> None:
        _note(writer, interrupt, "result_refused", item.data())

    _recall(writer, halting, how.rule)
    timeout_s = lock.protocol["budgets"]["episode_timeout_s"]
    how.progress(Progress(done, planned, None))
    try:
        for returned in _execute(how, _admitted(tasks, how, halting), started, refused, timeout_s):
            finished = returned.finished or lost_trial(how.plan, returned.task, fault=returned.lost)
            with interrupt.held():
                writer.end_attempt(finished.row, trace=finished.trace, exchange=finished.exchange)
            halting.take(finished.row)
            if how.rule is not None:
                how.rule.take(finished.row, finished.trace)
            done += 1
            how.progress(Progress(done, planned, finished.row))
        if how.rule is not None and (why := how.rule.stop()) is not None:
            if not writer.stopped:
                with interrupt.held():
                    writer.amend("stop", reason="the registered stopping rule", text=why)
            return STOPPED
        if writer.stopped:
            return "unregistered_stop"
    except KeyboardInterrupt:
        return "interrupted"
    if halting.halted & how.arms:
        return "systematic_error"
    return "aborted" if _open_tasks(writer, how.arms) else None


def _recall(writer: CampaignWriter, halting: Halting, rule: StopRule | None) -> None:
    """Tell what earlier runs of the campaign have recorded to those who decide about the rest."""
    again = {trial.trial_id for trial, _ in writer.replaceable}
    with Folder(writer.folder) as files:
        for attempt in writer.ended_attempts:
            if halting.looks_at(attempt.trial.arm, attempt.trial.ordinal):
                halting.take(writer.row(attempt))
            if rule is not None and attempt.trial.trial_id not in again:
                row = writer.row(attempt)
                rule.take(row, None if row.trace is None else files.read(row.trace.path, limit_bytes=MAX_TRACE_BYTES))


def _admitted(tasks: Sequence[Task], how: _Run, halting: Halting) -> Iterator[Task | None]:
    """Yield the tasks that may start: of arms that are not halted, each when its gate opens.

    None: nothing may start before some of what is running has ended.
    """
    for task in tasks:
        if task[0].arm in halting.halted:
            continue
        if how.attachment is not None and not how.attachment.gate(task[0]):
            return
        while how.rule is not None and (answer := how.rule.admits(task[0].ordinal)) != "yes":
            if answer == "no":
                return
            yield None
        yield task


def _execute(
    how: _Run,
    tasks: Iterator[Task | None],
    started: Callable[[Task], None],
    refused: Callable[[Refused], None],
    timeout_s: float,
) -> Iterator[Returned]:
    if how.attachment is not None:
        return run_serial(how.plan, tasks, started=started, actors=how.attachment.actors)
    if how.executor == "serial":
        return run_serial(how.plan, tasks, started=started)
    return run_processes(
        how.plan, tasks, started=started, refused=refused, workers=how.workers, episode_timeout_s=timeout_s
    )


def _open_tasks(writer: CampaignWriter, arms: Collection[str] | None) -> list[Task]:
    """Return what is still to run: interrupted trials whose replacement is registered, then trials never started."""
    replaced = [(_trial(planned), attempt) for planned, attempt in writer.replaceable]
    tasks = replaced + [(_trial(planned), FIRST_ATTEMPT) for planned in writer.unstarted]
    return [task for task in tasks if arms is None or task[0].arm in arms]


def _trial(planned: Planned) -> Trial:
    return Trial(planned.trial_id, planned.ordinal, planned.arm, planned.scenario, planned.repeat)


def _end_interrupted(writer: CampaignWriter, plan: BenchPlan) -> None:
    """Give every attempt that was started and never ended its visible end."""
    for attempt in writer.open_attempts:
        writer.interrupt_attempt(unfinished_row(plan, _trial(attempt.trial), attempt.attempt, fault=None))


def _close(
    writer: CampaignWriter, lock: Lock, folder: Path, *, first: Look, stopped_by: str | None,
    exploratory: tuple[str, ...],
) -> RunReport:  # fmt: skip
    now = look(lock, since=first)
    changed = tuple(sorted(changed_arms(lock.document, now.document())))
    writer.inputs_checked(now.digests, sources=now.sources())
    ended = stopped_by == STOPPED or (stopped_by is None and not _open_tasks(writer, None))
    complete = ended and not changed
    initiated = len(writer.ended_attempts)
    writer.close_run(complete=complete, reason="inputs_changed" if changed else stopped_by)
    planned = len(lock.document["schedule"])
    return RunReport(folder, complete, initiated, planned, changed, stopped_by, exploratory)
