"""The holdout ledger: which scenarios are held out, by whom, and who has opened them for what.

``holdouts.jsonl`` has the record format of a journal and lies beside the protocols, never in a campaign; its first
``prev_sha256`` is 64 zeros. A pack that was opened for anything but a locked, confirmatory run is spent: whatever is
locked on it later is a development run. Source: evidence specification, section 6.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trialplate.canonical import document_sha256
from trialplate.errors import StorageFailure, UsageError, nearest
from trialplate.store.campaign import Clock
from trialplate.store.chain import Record, make_record, record_line, scan, system_clock
from trialplate.store.findings import problem
from trialplate.store.fsio import Disk, Storage, publish_new

LEDGER = "holdouts.jsonl"
ORIGIN = "0" * 64
"""What the first record of a ledger continues from."""

REGISTERED, OPENED = "holdout.registered", "holdout.opened"
LOCKED_RUN = "locked_run"
PURPOSES: Mapping[str, str] = {
    LOCKED_RUN: "a confirmatory run under a lock, which spends nothing",
    "development": "a policy or a harness was worked on with it",
    "calibration": "a harness was calibrated with it",
    "pilot": "a run was tried out on it",
    "inspection": "somebody looked at the scenarios or at results on them",
}
"""Closed list: what a pack may be opened for; anything but the first spends it."""

MAX_AUTHOR = 200
_HEX = re.compile(r"[0-9a-f]{64}")
_REGISTERED = frozenset({"pack_sha256", "author", "suite", "version", "scenarios"})
_OPENED = frozenset({"pack_sha256", "purpose", "lock_sha256", "lock_sha256_reason"})


@dataclass(frozen=True, slots=True)
class Opening:
    """Somebody opened a pack. ``lock_sha256``: the lock that it was opened under, None for none."""

    seq: int
    utc: str
    purpose: str
    lock_sha256: str | None

    @property
    def spends(self) -> bool:
        """Whether the pack is no holdout any more after it."""
        return self.purpose != LOCKED_RUN


@dataclass(frozen=True, slots=True)
class Pack:
    """Scenarios that are held out. ``scenarios``: id -> digest, None where only the pack's digest is known yet."""

    sha256: str
    author: str
    suite: str | None
    version: str | None
    scenarios: Mapping[str, str] | None
    registered_utc: str
    openings: tuple[Opening, ...] = ()

    @property
    def spent(self) -> Opening | None:
        """The first opening that spent the pack, None while it is a holdout."""
        return next((opening for opening in self.openings if opening.spends), None)

    def touched_by(self, digests: Iterable[str]) -> bool:
        """Return whether any of these scenarios is in the pack; of one known by digest only, whether they are it."""
        listed = set(digests)
        return bool(listed & set((self.scenarios or {}).values())) or self.sha256 == pack_sha256(listed)


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a ledger says: its packs in the order of registration, and the digest of its last record."""

    packs: Mapping[str, Pack] = field(default_factory=dict)
    records: tuple[Record, ...] = ()

    @property
    def head_sha256(self) -> str:
        """Digest of the last record; 64 zeros for an empty ledger."""
        return self.records[-1]["sha256"] if self.records else ORIGIN

    def until(self, head_sha256: str) -> Ledger | None:
        """Return the ledger as it was when its last record had this digest, None when it never was."""
        if head_sha256 == ORIGIN:
            return Ledger()
        ends = [n for n, record in enumerate(self.records, 1) if record["sha256"] == head_sha256]
        return _replayed(self.records[: ends[0]]) if ends else None


def pack_sha256(digests: Iterable[str]) -> str:
    """Return the digest of a pack: of its scenario digests, in whatever order they come."""
    return document_sha256(sorted(set(digests)))


def read_ledger(path: Path, *, disk: Storage | None = None) -> Ledger:
    """Read a ledger. Raises UsageError where there is none, EvidenceError for one that is changed or malformed."""
    disk = disk or Disk()
    if disk.entries(path.parent).get(path.name) != "file":
        raise UsageError(f"no holdout ledger at {path}; `trialplate holdout register` makes one", code="no_ledger")
    return parse_ledger(disk.read(path), name=path.name)


def parse_ledger(data: bytes, *, name: str = LEDGER) -> Ledger:
    """Read the bytes of a ledger. Raises EvidenceError ``journal_broken`` or ``schema_mismatch`` with the place."""
    state = scan(data, lock_sha256=ORIGIN, head=None)
    if state.status != "clean":
        raise problem("journal_broken", name, expected="an unbroken chain from 64 zeros", found=state.problem)
    return _replayed(state.records, name=name)


def register_pack(
    path: Path,
    *,
    author: str,
    scenarios: Mapping[str, str] | None = None,
    suite: str | None = None,
    version: str | None = None,
    sha256: str | None = None,
    disk: Storage | None = None,
    clock: Clock = system_clock,
) -> Pack:
    """Register a pack, by its scenarios (id -> digest) or by its digest alone; makes the ledger where there is none.

    Raises UsageError ``pack_registered`` for one that stands there, ``campaign_busy`` while somebody else writes.
    """
    if scenarios is not None:
        sha256 = pack_sha256(scenarios.values())
    data = {
        "pack_sha256": sha256,
        "author": author,
        "suite": suite,
        "version": version,
        "scenarios": None if scenarios is None else dict(scenarios),
    }
    ledger = _append(path, REGISTERED, data, disk=disk or Disk(), clock=clock)
    return ledger.packs[str(sha256)]


def open_pack(
    path: Path,
    sha256: str,
    *,
    purpose: str,
    lock_sha256: str | None = None,
    disk: Storage | None = None,
    clock: Clock = system_clock,
) -> Pack:
    """Record that a pack is opened, before it is. Raises UsageError ``no_such_pack``, ``purpose_unknown``."""
    data: dict[str, Any] = {"pack_sha256": sha256, "purpose": purpose, "lock_sha256": lock_sha256}
    if lock_sha256 is None:
        data["lock_sha256_reason"] = "no_lock"
    return _append(path, OPENED, data, disk=disk or Disk(), clock=clock).packs[sha256]


def _append(path: Path, kind: str, data: Mapping[str, Any], *, disk: Storage, clock: Clock) -> Ledger:
    """Add one record: the whole file is replaced, under the lock of the old one, so that it is never half written."""
    if disk.entries(path.parent).get(path.name) is None:
        line, ledger = _next(Ledger(), kind, data, clock=clock)
        disk.make_folder(path.parent)
        publish_new(disk, path, line)
        return ledger
    descriptor = disk.open_append(path)
    try:
        disk.lock(descriptor)
        if not disk.still_there(descriptor):
            raise UsageError(f"{path} was just replaced by another writer: try again", code="campaign_busy")
        kept = disk.read(path)
        line, ledger = _next(parse_ledger(kept, name=path.name), kind, data, clock=clock)
        disk.replace(path, kept + line)
    finally:
        with suppress(StorageFailure):  # the first failure is the one to report
            disk.close(descriptor)
    return ledger


def _next(ledger: Ledger, kind: str, data: Mapping[str, Any], *, clock: Clock) -> tuple[bytes, Ledger]:
    record = make_record(kind, data, seq=len(ledger.records), prev_sha256=ledger.head_sha256, stamp=clock())
    wrong = _misfit(ledger.packs, kind, data)
    if wrong is not None:
        raise UsageError(wrong[1], code=wrong[0])
    return record_line(record), _replayed((*ledger.records, record))


def _replayed(records: tuple[Record, ...], *, name: str = LEDGER) -> Ledger:
    """Return what these records say. Raises EvidenceError ``schema_mismatch`` for one that may not stand there."""
    packs: dict[str, Pack] = {}
    for record in records:
        kind, data = record["type"], record["data"]
        wrong = _misfit(packs, kind, data)
        if wrong is not None:
            place = f"line {record['seq']}"
            raise problem(
                "schema_mismatch", name, pointer=place, expected="a record that may stand there", found=wrong[1]
            )
        if kind == REGISTERED:
            body = {key: data[key] for key in ("author", "suite", "version", "scenarios")}
            packs[data["pack_sha256"]] = Pack(data["pack_sha256"], **body, registered_utc=record["utc"])
        else:
            pack = packs[data["pack_sha256"]]
            opening = Opening(record["seq"], record["utc"], data["purpose"], data["lock_sha256"])
            packs[pack.sha256] = replace(pack, openings=(*pack.openings, opening))
    return Ledger(packs, records)


def _misfit(packs: Mapping[str, Pack], kind: str, data: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return (code, message) when such a record may not come next, None when it may."""
    sha256 = data.get("pack_sha256")
    if not _is_digest(sha256):
        return "pack_malformed", f"a pack is named by 64 lower-case hex digits, got {str(sha256)[:80]!r}"
    if kind == REGISTERED:
        return _registration_misfit(packs, data)
    if kind != OPENED:
        return "record_unknown", f"expected {REGISTERED} or {OPENED}, got {kind!r}"
    if sha256 not in packs:
        return "no_such_pack", f"no pack {sha256} is registered{nearest(str(sha256), packs)}"
    lock = data.get("lock_sha256")
    if not set(data) <= _OPENED or not (
        (lock is None and data.get("lock_sha256_reason") == "no_lock") or _is_digest(lock)
    ):
        return "opening_malformed", f"expected {', '.join(sorted(_OPENED))}, got {sorted(data)}"
    if data.get("purpose") not in PURPOSES:
        return "purpose_unknown", f"purpose {data.get('purpose')!r}: expected one of {', '.join(PURPOSES)}"
    if data["purpose"] == LOCKED_RUN and lock is None:
        return "purpose_unknown", f"purpose {LOCKED_RUN!r} is recorded by `trialplate lock` itself, under its lock"
    return None


def _registration_misfit(packs: Mapping[str, Pack], data: Mapping[str, Any]) -> tuple[str, str] | None:
    if set(data) != _REGISTERED:
        return "registration_malformed", f"expected {', '.join(sorted(_REGISTERED))}, got {sorted(data)}"
    author, scenarios = data["author"], data["scenarios"]
    if not isinstance(author, str) or not author.strip() or len(author) > MAX_AUTHOR:
        return "author", f"author: expected a text of 1 to {MAX_AUTHOR} characters"
    if data["pack_sha256"] in packs:
        return "pack_registered", f"the pack {data['pack_sha256']} is registered already; a pack is registered once"
    if scenarios is None:
        return None
    if not isinstance(scenarios, Mapping) or not scenarios or not all(map(_is_digest, scenarios.values())):
        return "registration_malformed", "scenarios: expected id -> digest, or null"
    if not all(isinstance(data[name], str) and data[name] for name in ("suite", "version")):
        return "registration_malformed", "suite and version: expected texts where scenarios are listed"
    if pack_sha256(scenarios.values()) != data["pack_sha256"]:
        return "registration_malformed", "pack_sha256 is not the digest of its scenarios"
    return None


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None
