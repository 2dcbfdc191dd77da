"""``rows.jsonl`` against the journal: every row of an ended attempt, once, in the order of the schedule.

Every other reader counts rows; so a line that is missing, doubled, moved, or of no planned attempt is told as such.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator

from trialplate.canonical import MAX_LINE_BYTES, read_stored
from trialplate.errors import CanonicalError
from trialplate.store.findings import Finding, finding
from trialplate.store.layout import ROWS
from trialplate.store.ledger import Ledger
from trialplate.store.progress import Close

Lines = Callable[[], Iterator[bytes]]
"""Reads the lines of a file from its beginning, each with its end of line."""


def check_rows(lines: Lines, ledger: Ledger, close: Close) -> list[Finding]:
    """Return how the lines differ from the rows of the attempts that had ended at a close."""
    wanted = [bytes.fromhex(attempt.end.row_sha256) for attempt in close.ended if attempt.end is not None]
    there: list[bytes] = []
    whole = True
    for line in lines():
        whole = line.endswith(b"\n")
        there.append(hashlib.sha256(line[:-1] if whole else line).digest())
    if there == wanted and whole:
        return []
    place = next((n for n, (a, b) in enumerate(zip(there, wanted, strict=False)) if a != b), len(wanted))
    found = _told(lines, there, wanted, ledger)
    if len(there) != len(wanted) or not whole or not found:
        expected = f"{len(wanted)} lines, each with its end"
        text = f"{len(there)} lines" if whole else f"{len(there)} lines, the last without an end"
        found.append(_wrong("rows_digest_mismatch", place, expected, text))
    return found


def _told(lines: Lines, there: list[bytes], wanted: list[bytes], ledger: Ledger) -> list[Finding]:
    """Return the first line that stands there twice, the first that is no row of the journal, a wrong order."""
    planned, counts = set(wanted), Counter(there)
    found = []
    twice = next((n for n, digest in enumerate(there) if counts[digest] > 1 and digest in planned), None)
    if twice is not None:
        found.append(_wrong("row_duplicated", twice, "every row once", f"{counts[there[twice]]} times"))
    kept = [digest for digest in there if digest in planned]
    rest = iter(wanted)
    if twice is None and not all(digest in rest for digest in kept):
        found.append(_wrong("row_order", "", "the order of the schedule", "another"))
    strange = next((n for n, digest in enumerate(there) if digest not in planned), None)
    if strange is not None:
        line = next(line for n, line in enumerate(lines()) if n == strange)
        code, expected, text = _stranger(line, ledger)
        found.append(_wrong(code, strange, expected, text))
    return found


def _stranger(line: bytes, ledger: Ledger) -> tuple[str, str, str]:
    """Return code, expected and found of a line that is the row of no ended attempt."""
    try:
        row = read_stored(line.removesuffix(b"\n"), limit_bytes=MAX_LINE_BYTES)
    except CanonicalError as error:
        return "rows_digest_mismatch", "the row of an ended attempt", error.message
    trial_id = row.get("trial_id") if isinstance(row, dict) else None
    planned = ledger.plan.planned(trial_id) if isinstance(trial_id, str) else None
    if planned is None or (planned.arm, planned.scenario) != (row.get("arm"), row.get("scenario")):
        return "row_unplanned", "a row of a planned trial", f"trial {trial_id}"
    return "rows_digest_mismatch", "the row of the journal", f"another row of trial {trial_id}"


def _wrong(code: str, line: int | str, expected: str, found: str) -> Finding:
    pointer = f"line {line}" if line != "" else ""
    return finding(code, ROWS, pointer=pointer, expected=expected, found=found)
