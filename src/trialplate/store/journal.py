"""The one writer of a journal, and the recovery of a torn tail.

Source: evidence specification, section 5. The chain itself, and ``scan``, are in ``trialplate.store.chain``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from trialplate.canonical import canonical_json, sha256_hex
from trialplate.errors import EvidenceError, StorageFailure, UsageError
from trialplate.store.chain import (
    HEAD,
    HEADLESS_TYPES,
    JOURNAL,
    PARTIAL,
    Head,
    Record,
    Scan,
    Stamp,
    check_partial,
    discarded_bytes,
    make_record,
    read_head,
    record_line,
    scan,
    system_clock,
)
from trialplate.store.clocks import clock_step
from trialplate.store.findings import problem
from trialplate.store.fsio import Disk, Storage

__all__ = ["HEAD", "JOURNAL", "PARTIAL", "Head", "Journal", "Record", "Scan", "Stamp", "read_head", "scan"]


class Journal:
    """The one writer of a journal; holds the exclusive lock of its file until it is closed.

    Not for use from two threads. After a failed write nothing more is accepted: resume in a new writer.
    """

    def __init__(
        self, path: Path, *, disk: Storage, clock: Callable[[], Stamp], descriptor: int, lock_sha256: str, state: Scan
    ) -> None:
        self.path = path
        self.records: list[Record] = list(state.records)
        self._disk, self._clock, self._descriptor = disk, clock, descriptor
        self._lock_sha256 = lock_sha256
        self._size = state.good_bytes
        self._taken_over = len(self.records)
        self._pid = os.getpid()
        self._unusable = ""

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        lock_sha256: str,
        disk: Storage | None = None,
        clock: Callable[[], Stamp] = system_clock,
    ) -> Journal:
        """Create an empty journal and take its lock. Raises StorageFailure, UsageError ``campaign_busy``."""
        disk = disk or Disk()
        descriptor = disk.open_new(path)
        try:
            disk.lock(descriptor)
            disk.fsync(descriptor)
            disk.fsync_dir(path.parent)
        except (StorageFailure, UsageError):
            with suppress(StorageFailure):  # the first failure is the one to report
                disk.close(descriptor)
            raise
        empty = Scan("clean", (), (), 0)
        return cls(path, disk=disk, clock=clock, descriptor=descriptor, lock_sha256=lock_sha256, state=empty)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        lock_sha256: str,
        disk: Storage | None = None,
        clock: Callable[[], Stamp] = system_clock,
    ) -> Journal:
        """Take the lock of an existing journal, and recover a torn tail.

        The tail goes to ``journal.partial``; then the good records and a ``recovered`` record are put in place
        atomically, and the head follows. Records behind the head are written anew before the head may count them:
        the process that wrote them was killed before its sync, or its sync failed, and then no later sync of that
        file can be believed. Killed anywhere, it can be repeated with the same result. Raises UsageError
        ``campaign_busy``, EvidenceError ``journal_broken``, StorageFailure.
        """
        disk = disk or Disk()
        descriptor = _open_locked(path, disk)
        try:
            state, head = _read(path, lock_sha256=lock_sha256, disk=disk)
            kept, tail = _discarded(path, state, disk=disk)
            if tail or head is None or head.size < state.good_bytes:
                if tail:
                    disk.replace(path.with_name(PARTIAL), kept + tail)
                    state = _recovered(path, state, tail, lock_sha256=lock_sha256, disk=disk, clock=clock)
                else:
                    disk.replace(path, disk.read(path))
                replaced, descriptor = descriptor, _open_locked(path, disk)
                disk.close(replaced)
            journal = cls(path, disk=disk, clock=clock, descriptor=descriptor, lock_sha256=lock_sha256, state=state)
            journal.put_head()
        except (StorageFailure, UsageError, EvidenceError):
            with suppress(StorageFailure):
                disk.close(descriptor)
            raise
        return journal

    @property
    def head(self) -> Head:
        """The head behind the last record."""
        last = self.records[-1]["sha256"] if self.records else self._lock_sha256
        return Head(len(self.records), last, self._size)

    def now(self) -> Stamp:
        """Return this moment by the clock that the records are stamped with."""
        return self._clock()

    def clock_step(self) -> Mapping[str, Any] | None:
        """Return how far the wall clock was set since the last record of this writer; None when it was not."""
        return clock_step(self.records[-1], self._clock()) if len(self.records) > self._taken_over else None

    def append(self, kind: str, data: Mapping[str, Any]) -> Record:
        """Write one record durably, then the head, except after ``HEADLESS_TYPES``.

        Raises StorageFailure (nothing is accepted afterwards), CanonicalError (nothing was written).
        """
        self.refuse_if_unusable()
        last = self.head
        record = make_record(kind, data, seq=last.count, prev_sha256=last.head_sha256, stamp=self._clock())
        line = record_line(record)
        self.refuse_if_gone()
        self._unusable = "an earlier append did not end"
        try:
            self._disk.write_all(self._descriptor, line)
            self._disk.fsync(self._descriptor)
        except StorageFailure as failure:
            self._unusable = failure.message
            raise StorageFailure(f"{failure.message} {self._read_back(line)}") from failure
        self.records.append(record)
        self._size += len(line)
        if kind not in HEADLESS_TYPES:
            self.put_head()
        self._unusable = ""
        return record

    def put_head(self) -> None:
        """Replace ``head.json``; the journal is synced already, so the head is never ahead."""
        if self.records:
            head = canonical_json(self.head.document())
            self._disk.replace(self.path.with_name(HEAD), head)

    def stop(self, reason: str) -> None:
        """Accept nothing more: a write that belongs to this journal's evidence has failed."""
        self._unusable = reason

    def close(self) -> None:
        """Give the lock back."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._disk.close(descriptor)

    def refuse_if_unusable(self) -> None:
        """Raise when nothing more is accepted: after a failure, after the end, or in a forked child."""
        if os.getpid() != self._pid:
            raise UsageError(
                f"{self.path} belongs to process {self._pid}; this is process {os.getpid()}: hand results to it",
                code="campaign_busy",
            )
        if self._unusable:
            raise StorageFailure(f"{self.path} accepts nothing more: {self._unusable}")
        if self._descriptor < 0:
            raise UsageError(f"{self.path} was closed by this writer: resume it to go on", code="writer_closed")

    def refuse_if_gone(self) -> None:
        """Raise StorageFailure, for good, when the path leads elsewhere, or somebody else wrote into this journal.

        Nothing is written then; what the other one wrote is left as it is.
        """
        try:
            if not self._disk.still_there(self._descriptor):
                raise StorageFailure(f"{self.path} was removed or replaced while it was written: nothing more is")
            found = self._disk.size(self._descriptor)
            if found != self._size:
                raise StorageFailure(
                    f"{self.path} has {found} bytes, expected the {self._size} of this writer: somebody else wrote"
                    " into it, and nothing more is recorded"
                )
        except StorageFailure as failure:
            self._unusable = failure.message
            raise

    def _read_back(self, line: bytes) -> str:
        """Say whether the file holds what memory says it holds; nothing is retried either way."""
        with suppress(StorageFailure):  # being unable to read is an answer too
            found = self._disk.read(self.path)[self._size :]
            if found == line:
                return "Read back, the record is there; it may still be lost at a power cut."
            return f"Read back, {len(found)} of the {len(line)} bytes of the record are there."
        return "It cannot be read back."


def _open_locked(path: Path, disk: Storage) -> int:
    descriptor = disk.open_append(path)
    try:
        disk.lock(descriptor)
        if not disk.still_there(descriptor):
            raise UsageError(f"{path} was just replaced by another writer: try again", code="campaign_busy")
    except (StorageFailure, UsageError):
        with suppress(StorageFailure):
            disk.close(descriptor)
        raise
    return descriptor


def _read(path: Path, *, lock_sha256: str, disk: Storage) -> tuple[Scan, Head | None]:
    present = disk.entries(path.parent)
    head = read_head(disk.read(path.with_name(HEAD))) if HEAD in present else None
    state = scan(disk.read(path), lock_sha256=lock_sha256, head=head)
    if state.status == "broken":
        raise problem(
            "journal_broken", path.name, expected="an unbroken chain; damage is never repaired", found=state.problem
        )
    return state, head


def _discarded(path: Path, state: Scan, *, disk: Storage) -> tuple[bytes, bytes]:
    """Return what ``journal.partial`` holds of earlier recoveries, and the tail that is to be set aside now.

    An earlier recovery may have set a tail aside, and the power may have gone before it was recorded, and taken the
    tail of the journal with it: that one is recorded then.
    """
    present = PARTIAL in disk.entries(path.parent)
    partial = disk.read(path.with_name(PARTIAL)) if present else b""
    known = discarded_bytes(state.records)
    kept = partial[:known]
    check_partial(kept, state.records)
    return kept, disk.read(path)[state.good_bytes :] if state.status == "torn" else partial[known:]


def _recovered(
    path: Path, state: Scan, tail: bytes, *, lock_sha256: str, disk: Storage, clock: Callable[[], Stamp]
) -> Scan:
    """Replace the journal by its good records and one that says what was discarded."""
    last = state.head(len(state.records), lock_sha256=lock_sha256)
    discarded = {"discarded_bytes": len(tail), "discarded_sha256": sha256_hex(tail)}
    record = make_record("recovered", discarded, seq=last.count, prev_sha256=last.head_sha256, stamp=clock())
    line = record_line(record)
    disk.replace(path, disk.read(path)[: state.good_bytes] + line)
    size = state.good_bytes + len(line)
    return Scan("clean", (*state.records, record), (*state.ends, size), size)
