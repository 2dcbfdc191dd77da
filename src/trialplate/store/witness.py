"""Heads of a journal that somebody kept elsewhere while it grew: it must still begin with what they saw.

A head becomes evidence of time only when somebody else kept it. It is written ``COUNT:DIGEST``: so many records, and
the digest of the last of them. Source: evidence specification, sections 2 and 9.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from trialplate.canonical import MAX_LINE_BYTES, read_stored
from trialplate.errors import CanonicalError, UsageError
from trialplate.store.chain import JOURNAL
from trialplate.store.findings import Finding, finding

HEADS_EVERY = 100
"""After how many attempts a run prints a head."""

_WITNESS = re.compile("([1-9][0-9]{0,14}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Witness:
    """So many records, and the digest of the last of them."""

    count: int
    head_sha256: str

    def __str__(self) -> str:
        return f"{self.count}:{self.head_sha256}"


def read_witness(text: str) -> Witness:
    """Read COUNT:DIGEST, as it was printed. Raises UsageError."""
    found = _WITNESS.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r}: expected COUNT:DIGEST, a number and 64 lower-case hex digits, as it was printed")
    return Witness(int(found[1]), found[2])


def witness_findings(journal: bytes, kept: Iterable[Witness]) -> list[Finding]:
    """Return ``expected_mismatch`` for each head that the bytes of a journal do not contain at its place."""
    lines = journal.split(b"\n")[:-1]
    return [
        finding("expected_mismatch", JOURNAL, pointer="--expect-head", expected=witness, found=found)
        for witness in kept
        if (found := _at(lines, witness.count)) != str(witness)
    ]


def _at(lines: list[bytes], count: int) -> str:
    if count > len(lines):
        return f"{len(lines)} records"
    try:
        record: Any = read_stored(lines[count - 1], limit_bytes=MAX_LINE_BYTES)
    except CanonicalError as error:
        return error.message
    digest = record.get("sha256") if isinstance(record, dict) else None
    return f"{count}:{digest}"
