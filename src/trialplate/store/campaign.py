"""The one writer of a campaign folder: every attempt becomes evidence, durably, in an order that loses none.

``attempt.start`` is durable before the world is reset. After the episode: trace and row are durable, then
``attempt.end`` with their digests, then the head. Killed anywhere, ``CampaignWriter.resume`` goes on.
Source: evidence specification, sections 5 to 7.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from trialplate.canonical import canonical_json, sha256_hex
from trialplate.errors import StorageFailure, UsageError
from trialplate.record import Row
from trialplate.store.amendments import AMENDMENT
from trialplate.store.chain import JOURNAL, Record, Stamp, system_clock
from trialplate.store.clocks import CLOCK_STEP
from trialplate.store.disclosures import CUTOVER, LEAK, cutover_data, leak_data
from trialplate.store.findings import EvidenceProblem, problem
from trialplate.store.fsio import Disk, Storage, write_new
from trialplate.store.journal import Journal
from trialplate.store.layout import (
    COMPLETION,
    EXCHANGE,
    LOCK,
    ROW,
    ROWS,
    TRACE,
    Plan,
    Planned,
    episode_folder,
    read_plan,
)
from trialplate.store.ledger import Ledger
from trialplate.store.leftovers import refuse_reserved, set_aside
from trialplate.store.lockfile import (
    refuse_foreign,
    refuse_other_lock,
    remove_staging,
    write_amendments,
    write_lock,
)
from trialplate.store.progress import Attempt, Ended, completion_document, terminations
from trialplate.store.rows import compare_end, compare_row, parse_row, row_bytes

Clock = Callable[[], Stamp]


class CampaignWriter:
    """Writes a campaign; holds the exclusive lock of its journal until it is closed.

    A context manager; leaving it never writes a ``run.close``: say so with ``close_run``. Not for use from two
    threads or after a fork. Turn signals into flags: an exception inside a write makes the writer unusable.
    """

    def __init__(self, folder: Path, *, plan: Plan, journal: Journal, ledger: Ledger, disk: Storage) -> None:
        self.folder = folder
        self.plan = plan
        self._journal, self._ledger, self._disk = journal, ledger, disk

    @classmethod
    def create(
        cls, folder: Path, *, lock_bytes: bytes, disk: Storage | None = None, clock: Clock = system_clock
    ) -> CampaignWriter:
        """Start a campaign: the folder is new, empty, or holds this lock and nothing else.

        Raises what ``write_lock`` raises, UsageError ``campaign_exists`` when it was started before.
        """
        disk = disk or Disk()
        digest = write_lock(folder, lock_bytes, disk=disk)
        present = disk.entries(folder)
        if JOURNAL in present and disk.read(folder / JOURNAL):
            raise UsageError(
                f"{folder} was started before: expected a lock and no journal. Resume it, or choose another folder.",
                code="campaign_exists",
            )
        return cls.resume(folder, lock_sha256=digest, disk=disk, clock=clock)

    @classmethod
    def resume(
        cls, folder: Path, *, lock_sha256: str, disk: Storage | None = None, clock: Clock = system_clock
    ) -> CampaignWriter:
        """Go on with a campaign: recover a torn journal, finish a close that was cut short.

        The caller then gives every one of ``open_attempts`` to ``interrupt_attempt`` and runs ``unstarted``.
        Raises LockError ``other_campaign``, UsageError (``campaign_busy``, ``folder_not_empty``,
        ``no_campaign``), EvidenceError (``journal_broken``, ...): damage is never repaired.
        """
        disk = disk or Disk()
        present = disk.entries(folder)
        if LOCK not in present:
            raise UsageError(f"{folder} holds no {LOCK}: not a campaign", code="no_campaign")
        lock_bytes = disk.read(folder / LOCK)
        refuse_other_lock(folder, lock_bytes, wanted=lock_sha256)
        plan = read_plan(lock_bytes)
        refuse_foreign(folder, present)
        start = Journal.open if JOURNAL in present else Journal.create
        with ExitStack() as undo:
            disk.anchor(folder)
            undo.callback(disk.release, folder)
            journal = start(folder / JOURNAL, lock_sha256=lock_sha256, disk=disk, clock=clock)
            undo.callback(journal.close)
            ledger = _replayed(plan, journal.records)
            writer = cls(folder, plan=plan, journal=journal, ledger=ledger, disk=disk)
            remove_staging(folder, disk=disk)
            writer._write_amendments()
            if journal.records and journal.records[-1]["type"] == "run.close":
                writer._write_indexes()
            undo.pop_all()
        return writer

    def __enter__(self) -> CampaignWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def lock_sha256(self) -> str:
        """Digest of the lock."""
        return self.plan.sha256

    @property
    def records(self) -> tuple[Record, ...]:
        """The records of the journal so far."""
        return tuple(self._journal.records)

    @property
    def open_attempts(self) -> tuple[Attempt, ...]:
        """Attempts that were started and have not ended, in schedule order."""
        return self._ledger.open_attempts()

    @property
    def ended_attempts(self) -> tuple[Attempt, ...]:
        """Attempts that have ended, in schedule order."""
        return self._ledger.ended()

    def row(self, attempt: Attempt) -> Row:
        """Return the stored row of an attempt that has ended. Raises EvidenceError when it is not what was ended."""
        return parse_row(self._row_line(attempt)[:-1], f"{attempt.folder}/{ROW}")

    @property
    def stopped(self) -> bool:
        """Whether the registered stopping rule was invoked: no attempt is started any more."""
        return self._ledger.stopped

    @property
    def unstarted(self) -> tuple[Planned, ...]:
        """Planned trials that were never started, in schedule order."""
        return self._ledger.unstarted()

    @property
    def replaceable(self) -> tuple[tuple[Planned, int], ...]:
        """(trial, number of the next attempt) of interrupted trials that the lock allows to run once more.

        A trial with a disclosed leak is not among them.
        """
        found = []
        for trial_id, attempt in self._ledger.last_attempt.items():
            last = self._ledger.attempts[(trial_id, attempt)]
            interrupted = last.end is not None and last.end.termination == "interrupted"
            if interrupted and attempt < self.plan.replacements and not self._ledger.compromised(trial_id):
                found.append((last.trial, attempt + 1))
        return tuple(sorted(found, key=lambda pair: pair[0].ordinal))

    def open_run(self, data: Mapping[str, Any]) -> Record:
        """Say that a process starts to run: ``run.open`` the first time, ``run.resume`` later.

        ``data``: boot id, host, versions, worker count, ...; ``durability`` is added, and ``run_id`` (of the
        first opening) when it is not given.
        """
        kind = "run.open" if self._ledger.run_id is None else "run.resume"
        run_id = self._ledger.run_id or secrets.token_hex(16)
        return self._append(kind, {"run_id": run_id, **data, "durability": self._disk.durability})

    def inputs_checked(self, digests: Mapping[str, Any], *, sources: Mapping[str, str] | None = None) -> Record:
        """Record the digests of policy sources and checkpoints; ``sources``: those of suite and harness.

        Recorded also when they changed, which is then a finding of every check.
        """
        data = {"digests": dict(digests), **(sources or {})}
        return self._append("inputs.checked", data, tolerated="inputs_changed_during_run")

    def note(self, kind: str, data: Mapping[str, Any]) -> Record:
        """Record an event of the run that belongs to no episode: ``clock_step``, ``result_refused``, ..."""
        return self._append("event", {"kind": kind, **data})

    def disclose_leak(self, key: tuple[str, int], *, what: str, channel: str | None, found_by: str | None) -> Record:
        """Record that identifying context reached the actor of a started attempt (trial id, number).

        The attempt stays counted and is not run again. Also after ``run.close``; raises UsageError for an attempt
        that was not started.
        """
        found_at = self._journal.now().utc
        return self._append(LEAK, leak_data(key, found_at=found_at, what=what, channel=channel, found_by=found_by))

    def record_cutover(self, key: tuple[str, int], *, change: str) -> Record:
        """Record that the operator works differently from an attempt on, which may not have started yet."""
        return self._append(CUTOVER, cutover_data(key, at=self._journal.now().utc, change=change))

    def amend(self, kind: str, *, reason: str, text: str) -> Record:
        """Append an amendment to the lock, in the journal and as ``amendments/0001.json`` and so on.

        Also before the first run. Raises UsageError: ``amendment_changes_rule`` for any kind but the four,
        ``stop_rule`` for a stop that is not registered, ``schema_mismatch`` for texts of another length.
        """
        said = {"reason": reason, "text": text, "created_utc": self._journal.now().utc}
        document = self._ledger.amendments.next(kind, **said, attempts_seen=len(self._ledger.attempts))
        record = self._append(AMENDMENT, {"amendment": document})
        self._write_amendments()
        return record

    def start_attempt(self, trial_id: str, *, ordinal: int, arm: str, attempt: int = 0) -> Record:
        """Record durably that an attempt begins, before its world is reset.

        First attempts start in schedule order: those of one arm over all runs, those of one run over all its arms.
        Raises UsageError (``row_unplanned``, ``row_order``, ``row_duplicated``, ``attempt_repeated``) and writes
        nothing then.
        """
        return self._append(
            "attempt.start", {"trial_id": trial_id, "ordinal": ordinal, "arm": arm, "attempt": attempt}
        )

    def end_attempt(
        self,
        row: Row,
        *,
        trace: bytes | None,
        exchange: bytes | None = None,
        artifacts: Mapping[str, bytes] | None = None,
    ) -> Record:
        """Make the evidence of an attempt durable, then say that it ended.

        ``row.trace`` must be the reference of ``trace`` (``trace_reference``), or None without one; the same holds
        for ``exchange``.
        ``artifacts``: further file name -> content. Raises UsageError when the row is not of an open attempt or
        contradicts its files; nothing is written then.
        """
        files = dict(artifacts or {})
        refuse_reserved(files)
        files |= {name: data for name, data in ((TRACE, trace), (EXCHANGE, exchange)) if data is not None}
        folder = episode_folder(row.trial_id, row.attempt)
        listed = [_artifact(f"{folder}/{name}", data) for name, data in sorted(files.items())]
        row = replace(row, run_id=self._ledger.run_id)
        stored = row_bytes(row)
        end = self._end(row, stored, listed)
        self._refuse(row, end)
        place = self.folder / folder
        with self._failing_for_good():
            self._disk.make_folder(place)
            for name, data in sorted(files.items()):
                write_new(self._disk, place / name, data)
            write_new(self._disk, place / ROW, stored)
            self._disk.fsync_dir(place)
        return self._append("attempt.end", end)

    def interrupt_attempt(self, row: Row) -> Record:
        """End an attempt that a crash interrupted; ``row`` has the termination ``interrupted`` and no trace.

        Whatever the attempt had written is kept beside it under names that end in ``.partial``, and listed.
        Can be killed and repeated.
        """
        if row.termination != "interrupted" or row.trace is not None:
            raise UsageError(f"trial {row.trial_id}: expected an interrupted row without a trace")
        row = replace(row, run_id=self._ledger.run_id)
        stored = row_bytes(row)
        self._refuse(row, self._end(row, stored, []))
        folder = episode_folder(row.trial_id, row.attempt)
        place = self.folder / folder
        with self._failing_for_good():
            self._disk.make_folder(place)
            remove_staging(place, disk=self._disk)
            set_aside(place, stored, disk=self._disk)
            self._disk.replace(place / ROW, stored)
            kept = [name for name in self._disk.entries(place) if name != ROW]
            listed = [_artifact(f"{folder}/{name}", self._disk.read(place / name)) for name in kept]
        return self._append("attempt.end", self._end(row, stored, listed))

    def close_run(self, *, complete: bool, reason: str | None = None) -> Record:
        """Say that the run ended, then write ``rows.jsonl`` and ``completion.json``; the lock is given back.

        Raises UsageError ``not_complete`` for ``complete`` while trials are missing and no rule stopped.
        """
        running = [item.trial.trial_id for item in self.open_attempts]
        missing = ([] if self.stopped else [trial.trial_id for trial in self.unstarted]) + running
        if complete and missing:
            raise UsageError(
                f"{len(missing)} of {len(self.plan.trials)} trials have not ended, the first is {missing[0]}: "
                "a run without them is not complete",
                code="not_complete",
            )
        counts = {"planned": len(self.plan.trials), "terminations": terminations(self.ended_attempts)}
        record = self._append("run.close", {"complete": complete, "reason": reason, "counts": counts})
        self._write_indexes()
        self.close()
        return record

    def close(self) -> None:
        """Give the lock back. Nothing is written."""
        self._disk.release(self.folder)
        self._journal.close()

    def _append(self, kind: str, data: Mapping[str, Any], *, tolerated: str = "") -> Record:
        self._journal.refuse_if_unusable()
        wrong = self._ledger.check(kind, data, place=f"line {len(self._journal.records)}")
        if wrong is not None and wrong.code != tolerated:
            raise UsageError(f"{kind} refused: expected {wrong.expected}, got {wrong.found}", code=wrong.code)
        step = self._journal.clock_step() if self._ledger.running else None
        if step is not None:
            self._ledger.take(self._journal.append("event", {"kind": CLOCK_STEP, **step}))
        record = self._journal.append(kind, data)
        self._ledger.take(record)
        return record

    def _end(self, row: Row, stored: bytes, artifacts: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "trial_id": row.trial_id,
            "attempt": row.attempt,
            "termination": row.termination,
            "row_sha256": sha256_hex(stored),
            "artifacts": artifacts,
        }

    def _refuse(self, row: Row, end: Mapping[str, Any]) -> None:
        """Refuse an end that no open attempt waits for, or a row that is not of it, before anything is written."""
        self._journal.refuse_if_unusable()
        self._journal.refuse_if_gone()
        wrong = self._ledger.check("attempt.end", end, place="attempt.end")
        planned = self.plan.planned(row.trial_id)
        found = [wrong] if wrong is not None else []
        if planned is not None and not found:
            found = compare_row(row, planned, attempt=row.attempt, path=ROW)
            found += compare_end(row, Ended.of(end), path=ROW)
        for item in found:
            raise UsageError(
                f"the end of trial {row.trial_id}, attempt {row.attempt}, is refused at {item.pointer}: "
                f"expected {item.expected}, got {item.found}",
                code=item.code,
            )

    @contextmanager
    def _failing_for_good(self) -> Iterator[None]:
        """After a failed write nothing more is recorded: the kernel may call the next fsync a success."""
        try:
            yield
        except StorageFailure as failure:
            self._journal.stop(failure.message)
            raise

    def _write_amendments(self) -> None:
        with self._failing_for_good():
            write_amendments(self.folder, self._ledger.amendments.files(), disk=self._disk)

    def _write_indexes(self) -> None:
        """Write what the journal and the rows determine; the journal stays the truth."""
        close = self._ledger.close
        if close is None:
            return
        document = completion_document(self.plan, close, self._journal.head)
        with self._failing_for_good():
            self._journal.refuse_if_gone()
            lines = [self._row_line(attempt) for attempt in close.ended]
            self._disk.replace(self.folder / ROWS, b"".join(lines))
            self._disk.replace(self.folder / COMPLETION, canonical_json(document))

    def _row_line(self, attempt: Attempt) -> bytes:
        data = self._disk.read(self.folder / attempt.folder / ROW)
        expected = attempt.end.row_sha256 if attempt.end is not None else ""
        if sha256_hex(data) != expected:
            raise problem("hash_mismatch", f"{attempt.folder}/{ROW}", expected=expected, found=sha256_hex(data))
        return data + b"\n"


def _replayed(plan: Plan, records: Sequence[Record]) -> Ledger:
    """Return the state after these records. What only blocks a claim is left to the check."""
    ledger = Ledger(plan)
    for record in records:
        for wrong in ledger.take(record):
            if wrong.exit_code != 3:
                raise EvidenceProblem(wrong)
    ledger.running = False  # this process has yet to say that it goes on: the machine may have been restarted
    return ledger


def _artifact(path: str, data: bytes) -> dict[str, Any]:
    return {"path": path, "sha256": sha256_hex(data), "size": len(data)}
