"""What one attempt left: its folder, its row, its files, each read once and held against the journal.

Reads only; never raises for what it finds. Source: evidence specification, section 10.
"""

from __future__ import annotations

from dataclasses import dataclass

from trialplate.record import Column, Row, Trace
from trialplate.store.findings import Collector, Finding
from trialplate.store.folder import Caps, Folder
from trialplate.store.layout import ROW
from trialplate.store.merkle import leaf_hash
from trialplate.store.progress import Attempt
from trialplate.store.view import MAX_TRACE_BYTES, read_row_bytes, read_row_trace


@dataclass(frozen=True, slots=True)
class Look:
    """What was found. ``row`` is None when it cannot be used, ``trace`` when the row has none or it cannot be used.

    ``leaf``: hash of the row in the Merkle tree over rows, None when there is no row.
    """

    findings: tuple[Finding, ...]
    row: Row | None
    trace: Trace | None
    leaf: bytes | None


def look(
    folder: Folder, attempt: Attempt, *, run_id: str | None, columns: tuple[Column, ...] | None, caps: Caps
) -> Look:
    """Read everything that an ended attempt left. ``run_id``: the run of its campaign; ``columns``: of the suite."""
    found = Collector()
    listed: dict[str, int | None] = {}
    with found.keeping():
        listed = folder.listing(attempt.folder)
    _check_names(folder, attempt, listed, found)
    row, leaf = None, None
    if listed.get(ROW) is not None:
        with found.keeping():
            data = folder.read(f"{attempt.folder}/{ROW}", limit_bytes=caps.line_bytes)
            leaf = leaf_hash(data)
            row, wrong = read_row_bytes(data, attempt, run_id=run_id)
            found.take(wrong)
    trace = _check_files(folder, attempt, listed, row, found, columns=columns, caps=caps)
    return Look(found.listed(), row, trace, leaf)


def _check_names(folder: Folder, attempt: Attempt, listed: dict[str, int | None], found: Collector) -> None:
    """Nothing may be missing and nothing may lie there that the end of the attempt does not list."""
    expected = {ROW, *(artifact.name for artifact in attempt.artifacts)}
    for name in sorted(expected - listed.keys()):
        found.add("file_missing", f"{attempt.folder}/{name}", expected="a file", found="none")
    for name in sorted(listed.keys() - expected):
        path, size = f"{attempt.folder}/{name}", listed[name]
        if size is not None:
            found.add("file_extra", path, expected="no such file", found=f"{size} bytes")
        elif folder.is_folder(path):  # anything else was found where all names were looked at
            found.add("file_extra", f"{path}/", expected="no such folder", found="a folder")


def _check_files(
    folder: Folder,
    attempt: Attempt,
    listed: dict[str, int | None],
    row: Row | None,
    found: Collector,
    *,
    columns: tuple[Column, ...] | None,
    caps: Caps,
) -> Trace | None:
    trace = None
    limit = min(caps.file_bytes, MAX_TRACE_BYTES)
    for artifact in attempt.artifacts:
        path, size = f"{attempt.folder}/{artifact.name}", listed.get(artifact.name)
        if size is None:
            continue  # missing or no regular file: a finding already
        if size != artifact.size:
            found.add("size_mismatch", path, expected=f"{artifact.size} bytes", found=f"{size} bytes")
            continue
        with found.keeping():
            if row is not None and row.trace is not None and row.trace.path == path:
                trace = read_row_trace(folder, row, columns=columns, limit_bytes=limit)
            elif (digest := folder.sha256(path)) != artifact.sha256:
                found.add("hash_mismatch", path, expected=artifact.sha256, found=digest)
    return trace
