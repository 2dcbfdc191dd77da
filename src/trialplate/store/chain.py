"""The chain of journal records: how one is made, and what the bytes of a journal say.

``sha256`` of a record = SHA-256 of a prefix line and the canonical record without that member; the first
``prev_sha256`` is the digest of the lock. The head is replaced after the journal was synced, so it is never
ahead: with it a lost or changed record can be told from an append that a crash cut short.
Source: evidence specification, section 5.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from trialplate.canonical import MAX_LINE_BYTES, canonical_json, read_stored, sha256_hex
from trialplate.errors import CanonicalError
from trialplate.store.findings import malformed, problem

JOURNAL = "journal.jsonl"
HEAD = "head.json"
PARTIAL = "journal.partial"
PREFIX = b"trialplate/1 journal\n"
HEADLESS_TYPES = frozenset({"attempt.start", "event"})
"""Records after which the head is not replaced: losing the record loses nothing that had ended."""
Status = Literal["clean", "torn", "broken"]
Record = Mapping[str, Any]
_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Head:
    """How far the journal is durable: number of records, digest of the last of them, bytes they take."""

    count: int
    head_sha256: str
    size: int

    def document(self) -> dict[str, Any]:
        """Return the plain form that is stored in ``head.json``."""
        return {"count": self.count, "head_sha256": self.head_sha256, "size": self.size}


@dataclass(frozen=True, slots=True)
class Scan:
    """What a journal's bytes say. ``ends[n]``: offset behind record n; ``good_bytes``: offset behind the last."""

    status: Status
    records: tuple[Record, ...]
    ends: tuple[int, ...]
    good_bytes: int
    problem: str = ""

    def head(self, count: int, *, lock_sha256: str) -> Head:
        """Return the head behind the first ``count`` records."""
        if count == 0:
            return Head(0, lock_sha256, 0)
        return Head(count, self.records[count - 1]["sha256"], self.ends[count - 1])


@dataclass(frozen=True, slots=True)
class Stamp:
    """A moment on both clocks: UTC text with microseconds, and monotonic microseconds."""

    utc: str
    mono_us: int


def system_clock() -> Stamp:
    """Return this moment."""
    utc = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return Stamp(utc, time.monotonic_ns() // 1000)


def record_sha256(record: Record) -> str:
    """Return the digest of a record; its own ``sha256`` member, if any, is left out."""
    body = {key: value for key, value in record.items() if key != "sha256"}
    return sha256_hex(PREFIX + canonical_json(body))


def make_record(kind: str, data: Mapping[str, Any], *, seq: int, prev_sha256: str, stamp: Stamp) -> dict[str, Any]:
    """Return a complete record."""
    record: dict[str, Any] = {
        "seq": seq,
        "type": kind,
        "utc": stamp.utc,
        "mono_us": stamp.mono_us,
        "data": dict(data),
        "prev_sha256": prev_sha256,
    }
    record["sha256"] = record_sha256(record)
    return record


def record_line(record: Record) -> bytes:
    """Return the stored line, with its newline. Raises CanonicalError ``size`` above 1 MiB."""
    line = canonical_json(dict(record))
    if len(line) > MAX_LINE_BYTES:
        raise CanonicalError("size", f"a record of {len(line)} bytes, at most {MAX_LINE_BYTES}; use an artifact")
    return line + b"\n"


class Walk:
    """Follows a chain line by line and holds one record at a time. Never raises.

    ``head``: behind the last good record. ``complaint``: what is wrong with the first bad line; behind it nothing is
    accepted any more. ``holds_more``: whether a whole record lies there all the same.
    """

    def __init__(self, lock_sha256: str) -> None:
        self.head = Head(0, lock_sha256, 0)
        self.complaint = ""
        self.holds_more = False

    def take(self, line: bytes) -> Record | None:
        """Return the record of the next line (with its end of line), None when it does not continue the chain."""
        record = _whole_record(line[:-1]) if line.endswith(b"\n") else None
        if self.complaint:
            self.holds_more = self.holds_more or record is not None
            return None
        self.complaint = self._misfit(line, record)
        if self.complaint or record is None:
            self.holds_more = record is not None
            return None
        self.head = Head(self.head.count + 1, record["sha256"], self.head.size + len(line))
        return record

    def _misfit(self, line: bytes, record: Record | None) -> str:
        place = f"line {self.head.count}"
        if not line.endswith(b"\n"):
            return f"{place}: {len(line)} bytes without an end of line"
        if record is None:
            return f"{place}: not a record whose own digest holds"
        if record["seq"] != self.head.count:
            return f"{place}: expected seq {self.head.count}, found {record['seq']}"
        if record["prev_sha256"] != self.head.head_sha256:
            return f"{place}: expected prev_sha256 {self.head.head_sha256}, found {record['prev_sha256']}"
        return ""


def scan(data: bytes, *, lock_sha256: str, head: Head | None) -> Scan:
    """Read a journal as far as it is good, and tell a torn tail from damage. Never raises.

    ``torn``: the last append was cut short, and nothing that the head says was durable is missing.
    ``broken``: something that was durable is gone or changed; nothing is ever repaired then.
    """
    walk = Walk(lock_sha256)
    records: list[Record] = []
    ends: list[int] = []
    for line in _lines(data):
        record = walk.take(line)
        if record is not None:
            records.append(record)
            ends.append(walk.head.size)
    found = Scan("clean", tuple(records), tuple(ends), walk.head.size)
    told = _head_contradicts(head, found, lock_sha256) if head is not None else ""
    status: Status = "torn" if walk.complaint else "clean"
    if told or walk.holds_more:
        status = "broken"
    return replace(found, status=status, problem=told or walk.complaint)


def _lines(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        stop = data.find(b"\n", start) + 1 or len(data)
        yield data[start:stop]
        start = stop


def anchor(data: bytes) -> str | None:
    """Return the lock digest that the first record continues from; None unless that record is whole."""
    line, mark, _ = data.partition(b"\n")
    record = _whole_record(line) if mark else None
    return record["prev_sha256"] if record is not None and record["seq"] == 0 else None


def _whole_record(line: bytes) -> Record | None:
    """Return the record of a canonical line with the right members and a digest that holds, else None."""
    if not line.startswith(b"{"):
        return None
    try:
        record = read_stored(line, limit_bytes=MAX_LINE_BYTES)
    except CanonicalError:
        return None
    if not isinstance(record, dict) or not _has_members(record):
        return None
    member = b'"sha256":"%s",' % record["sha256"].encode()
    alone = line.count(member) == 1  # then the line without it is the canonical form of what is left
    digest = sha256_hex(PREFIX + line.replace(member, b"")) if alone else record_sha256(record)
    return record if record["sha256"] == digest else None


def _has_members(record: Record) -> bool:
    whole = type(record.get("seq")) is int and type(record.get("mono_us")) is int
    texts = all(isinstance(record.get(key), str) for key in ("type", "utc", "prev_sha256", "sha256"))
    return (
        whole
        and texts
        and isinstance(record.get("data"), dict)
        and _UTC.fullmatch(record["utc"]) is not None
        and _HEX.fullmatch(record["prev_sha256"]) is not None
        and (record["type"] != "recovered" or _says_what_was_discarded(record["data"]))
    )


def _says_what_was_discarded(data: Mapping[str, Any]) -> bool:
    count, digest = data.get("discarded_bytes"), data.get("discarded_sha256")
    return type(count) is int and count > 0 and isinstance(digest, str) and _HEX.fullmatch(digest) is not None


def _head_contradicts(head: Head, found: Scan, lock_sha256: str) -> str:
    if head.count > len(found.records):
        return f"the head says that {head.count} records were durable, {len(found.records)} good ones are there"
    return head_contradicts(head, found.head(head.count, lock_sha256=lock_sha256))


def head_contradicts(head: Head, good: Head) -> str:
    """Return how a head differs from what stands behind as many good records, nothing when it does not."""
    if good.head_sha256 != head.head_sha256:
        return f"the head says that record {head.count - 1} is {head.head_sha256}, found {good.head_sha256}"
    if good.size != head.size:
        return f"the head says that {head.count} records take {head.size} bytes, they take {good.size}"
    return ""


def read_head(data: bytes) -> Head:
    """Read ``head.json``. Raises EvidenceError ``malformed`` or ``schema_mismatch``."""
    try:
        document = read_stored(data, limit_bytes=MAX_LINE_BYTES)
    except CanonicalError as error:
        raise malformed(HEAD, error) from None
    shape = {"count": int, "head_sha256": str, "size": int}
    if not isinstance(document, dict) or {key: type(value) for key, value in document.items()} != shape:
        raise problem("schema_mismatch", HEAD, expected="exactly count, head_sha256, size", found=str(document)[:80])
    if document["count"] < 0 or document["size"] < 0 or _HEX.fullmatch(document["head_sha256"]) is None:
        found = str(document)[:80]
        raise problem("schema_mismatch", HEAD, expected="counts from 0 and 64 hex digits", found=found)
    return Head(**document)


def discarded_bytes(records: tuple[Record, ...]) -> int:
    """Return how many bytes of ``journal.partial`` the ``recovered`` records account for."""
    return sum(record["data"]["discarded_bytes"] for record in records if record["type"] == "recovered")


def check_partial(partial: bytes, records: tuple[Record, ...]) -> None:
    """Compare ``journal.partial`` with the ``recovered`` records. Raises EvidenceError ``hash_mismatch``."""
    start = 0
    for record in records:
        if record["type"] != "recovered":
            continue
        data = record["data"]
        piece = partial[start : start + data["discarded_bytes"]]
        start += data["discarded_bytes"]
        if len(piece) != data["discarded_bytes"] or sha256_hex(piece) != data["discarded_sha256"]:
            where = f"bytes {start - data['discarded_bytes']}..{start}"
            raise problem(
                "hash_mismatch", PARTIAL, pointer=where, expected=data["discarded_sha256"], found=sha256_hex(piece)
            )
    if start != len(partial):
        raise problem("size_mismatch", PARTIAL, expected=f"{start} bytes", found=f"{len(partial)} bytes")
