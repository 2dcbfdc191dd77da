"""Check an unsealed campaign: that nothing was changed, lost, added or run twice. Reads only; never raises for
what it finds.

Every file is accounted for: the journal by its chain and head, the lock by the chain, rows and artifacts by
``attempt.end``, indexes by recomputation. Source: evidence specification, section 10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trialplate.canonical import MAX_DOCUMENT_BYTES, MAX_LINE_BYTES, canonical_json, sha256_hex
from trialplate.record import Column, Row
from trialplate.store.amendments import AMENDMENTS
from trialplate.store.chain import (
    HEAD,
    HEADLESS_TYPES,
    JOURNAL,
    PARTIAL,
    Head,
    Scan,
    anchor,
    check_partial,
    read_head,
    scan,
)
from trialplate.store.findings import EvidenceProblem, Finding, exit_code, finding, ordered
from trialplate.store.folder import Contents, Folder
from trialplate.store.layout import COMPLETION, DERIVED, EPISODES, LOCK, ROW, ROWS, Plan, read_plan
from trialplate.store.ledger import Attempt, Ledger, completion_document
from trialplate.store.view import (
    MAX_JOURNAL_BYTES,
    CampaignView,
    lock_columns,
    make_view,
    read_row,
    read_row_trace,
    why,
)

__all__ = ["Finding", "Integrity", "check", "exit_code"]


@dataclass(frozen=True, slots=True)
class Integrity:
    """What a check found. ``view`` is None when lock or journal cannot be read at all.

    ``unchecked``: derived files that are there and that nobody gave expected bytes for.
    """

    findings: tuple[Finding, ...]
    view: CampaignView | None
    unchecked: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 verified, 1 integrity or recomputation, 2 malformed, 3 intact but blocked."""
        return exit_code(self.findings)


@dataclass(slots=True)
class _Found:
    findings: list[Finding] = field(default_factory=list)

    def add(self, code: str, path: str, *, pointer: str = "", expected: object = "", found: object = "") -> None:
        self.findings.append(finding(code, path, pointer=pointer, expected=expected, found=found))

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep the finding of a problem, and go on behind the block."""
        try:
            yield
        except EvidenceProblem as error:
            self.findings.append(error.finding)


def check(path: Path, *, expected_derived: Mapping[str, bytes] | None = None) -> Integrity:
    """Check a campaign folder.

    ``expected_derived``: name -> bytes that a layer above computed from the evidence; each must lie in the folder
    with exactly these bytes. Derived files without expected bytes are returned as ``unchecked``.
    """
    found = _Found()
    view = None
    unchecked: tuple[str, ...] = ()
    with found.keeping(), Folder(path) as folder:
        contents = folder.contents()
        found.findings += contents.findings
        expected = dict(expected_derived or {})
        unchecked = tuple(name for name in DERIVED if name in contents.files and name not in expected)
        _check_derived(folder, contents, expected, found)
        view = _check_evidence(path, folder, contents, found)
    return Integrity(ordered(found.findings), view, unchecked)


def _check_derived(folder: Folder, contents: Contents, expected: Mapping[str, bytes], found: _Found) -> None:
    for name, wanted in expected.items():
        if name not in contents.files:
            found.add("file_missing", name, expected="a file", found="none")
            continue
        with found.keeping():
            digest = folder.sha256(name)
            if digest != sha256_hex(wanted):
                found.add(DERIVED[name], name, expected=sha256_hex(wanted), found=digest)


def _check_evidence(path: Path, folder: Folder, contents: Contents, found: _Found) -> CampaignView | None:
    plan = None
    journal = b""
    with found.keeping():
        lock_bytes = folder.read(LOCK, limit_bytes=MAX_DOCUMENT_BYTES)
        if JOURNAL in contents.files:
            journal = folder.read(JOURNAL, limit_bytes=MAX_JOURNAL_BYTES)
        plan = _check_lock(lock_bytes, journal, found)
    if plan is None:
        return None
    before = len(found.findings)
    state = _check_chain(folder, contents, journal, plan, found)
    whole = all(item.path != JOURNAL for item in found.findings[before:])
    ledger = Ledger(plan)
    for record in state.records:
        found.findings += ledger.take(record)
    _check_lock_time(plan, ledger, found)
    if whole:  # else what the lost records account for cannot be told from what is extra
        found.findings += ledger.coverage()
        _check_names(contents, state, ledger, found)
        _check_amendments(folder, contents, ledger, found)
    rows = []
    columns = None
    with found.keeping():
        columns = lock_columns(plan.document)
    for attempt in ledger.ended():
        row = _check_attempt(folder, contents, attempt, columns, ledger.run_id, found)
        if row is not None:
            rows.append(row)
    _check_indexes(folder, contents, plan, state, ledger, found)
    return make_view(path, plan, state, ledger, tuple(rows))


def _check_lock(lock_bytes: bytes, journal: bytes, found: _Found) -> Plan | None:
    """A changed lock is told by the digest in the chain; what it says is then no longer looked at."""
    locked = anchor(journal)
    digest = sha256_hex(lock_bytes)
    if locked is not None and locked != digest:
        found.add("lock_digest_mismatch", LOCK, expected=locked, found=digest)
        return None
    return read_plan(lock_bytes)


def _check_lock_time(plan: Plan, ledger: Ledger, found: _Found) -> None:
    created = plan.document.get("created_utc")
    started = ledger.first_start_utc
    if isinstance(created, str) and started is not None and created > started:
        expected = f"a time before the first attempt, {started}"
        found.add("late_lock", LOCK, pointer="/created_utc", expected=expected, found=created)


def _check_amendments(folder: Folder, contents: Contents, ledger: Ledger, found: _Found) -> None:
    """Every amendment of the journal must lie there as a document, and no other."""
    files = ledger.amendments.files()
    irregular = {item.path for item in contents.findings if item.code == "not_regular_file"}
    for path, wanted in files.items():
        if path not in contents.files and path not in irregular:
            found.add("amendment_chain", path, expected="the amendment of the journal", found="none")
            continue
        with found.keeping():
            digest = folder.sha256(path)
            if digest != sha256_hex(wanted):
                found.add("amendment_chain", path, expected=sha256_hex(wanted), found=digest)
    for path in sorted(contents.files):
        if path.startswith(f"{AMENDMENTS}/") and path not in files:
            found.add(
                "amendment_chain", path, expected="an amendment of the journal", found="one of none of its records"
            )


def _check_chain(folder: Folder, contents: Contents, journal: bytes, plan: Plan, found: _Found) -> Scan:
    """The head must stand exactly behind the last record that ended something."""
    head = None
    with found.keeping():
        if HEAD in contents.files:
            head = read_head(folder.read(HEAD, limit_bytes=MAX_LINE_BYTES))
    if JOURNAL not in contents.files and (contents.folders or set(contents.files) - {LOCK, *DERIVED}):
        found.add("file_missing", JOURNAL, expected="a file", found="none")
    state = scan(journal, lock_sha256=plan.sha256, head=None)
    if state.status != "clean":
        told = scan(journal, lock_sha256=plan.sha256, head=head)
        found.add("journal_broken", JOURNAL, expected="a clean journal", found=why(told))
        return state
    durable = [n for n, record in enumerate(state.records, 1) if record["type"] not in HEADLESS_TYPES]
    if durable and HEAD not in contents.files:
        found.add("file_missing", HEAD, expected="a file", found="none")
    elif head is not None:
        count = durable[-1] if durable else 0
        _check_head(head, state.head(count, lock_sha256=plan.sha256), len(state.records), found)
    return state


def _check_head(head: Head, expected: Head, records: int, found: _Found) -> None:
    if head == expected:
        return
    wanted, got = (canonical_json(item.document()).decode() for item in (expected, head))
    cut = head.count > records and (head.head_sha256, head.size) != (expected.head_sha256, expected.size)
    if cut:
        found.add("journal_broken", JOURNAL, expected=f"{head.count} records, as the head says", found=records)
    else:
        found.add("journal_broken", HEAD, expected=wanted, found=got)


def _check_names(contents: Contents, state: Scan, ledger: Ledger, found: _Found) -> None:
    expected = {LOCK, JOURNAL, HEAD, *DERIVED}
    amendments = {name for name in contents.files if name.startswith(f"{AMENDMENTS}/")}
    if any(record["type"] == "recovered" for record in state.records):
        expected.add(PARTIAL)
    if ledger.close is not None:
        expected |= {ROWS, COMPLETION}
    for attempt in ledger.ended():
        expected |= {f"{attempt.folder}/{name}" for name in (ROW, *(item.name for item in attempt.artifacts))}
    unfinished = tuple(f"{attempt.folder}/" for attempt in ledger.open_attempts())
    irregular = {item.path for item in contents.findings if item.code == "not_regular_file"}
    for name in sorted(expected - set(contents.files) - irregular - {JOURNAL, HEAD, *DERIVED}):
        found.add("file_missing", name, expected="a file", found="none")
    for name in sorted(set(contents.files) - expected - amendments):
        if not name.startswith(unfinished):
            found.add("file_extra", name, expected="no such file", found=f"{contents.files[name]} bytes")
    holding = {parent for name in (*expected, *ledger.amendments.files()) for parent in _parents(name)}
    allowed = holding | {EPISODES} | {name.rstrip("/") for name in unfinished}
    for name in sorted(contents.folders - allowed):
        if not name.startswith(unfinished):
            found.add("file_extra", f"{name}/", expected="no such folder", found="a folder")


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _check_attempt(
    folder: Folder,
    contents: Contents,
    attempt: Attempt,
    columns: tuple[Column, ...] | None,
    run_id: str | None,
    found: _Found,
) -> Row | None:
    row = None
    if f"{attempt.folder}/{ROW}" in contents.files:
        with found.keeping():
            row = read_row(folder, attempt, run_id=run_id)
    for artifact in attempt.artifacts:
        name = f"{attempt.folder}/{artifact.name}"
        size = contents.files.get(name)
        if size is None:
            continue  # a finding already: missing, or not a regular file
        if size != artifact.size:
            found.add("size_mismatch", name, expected=f"{artifact.size} bytes", found=f"{size} bytes")
            continue
        with found.keeping():
            if row is not None and row.trace is not None and row.trace.path == name:
                read_row_trace(folder, row, columns=columns)
            elif (digest := folder.sha256(name)) != artifact.sha256:
                found.add("hash_mismatch", name, expected=artifact.sha256, found=digest)
    return row


def _check_indexes(
    folder: Folder, contents: Contents, plan: Plan, state: Scan, ledger: Ledger, found: _Found
) -> None:
    """Compare ``rows.jsonl``, ``completion.json`` and ``journal.partial`` with what the journal says."""
    with found.keeping():
        if PARTIAL in contents.files:
            check_partial(folder.read(PARTIAL, limit_bytes=MAX_JOURNAL_BYTES), state.records)
    close = ledger.close
    if close is None:
        return
    with found.keeping():
        if ROWS in contents.files:
            _check_rows(folder.read(ROWS, limit_bytes=MAX_JOURNAL_BYTES), close.ended, found)
    with found.keeping():
        if COMPLETION in contents.files:
            document = completion_document(plan, close, state.head(close.seq + 1, lock_sha256=plan.sha256))
            wanted = canonical_json(document)
            data = folder.read(COMPLETION, limit_bytes=MAX_DOCUMENT_BYTES)
            if data != wanted:
                shown = data[:400].decode("utf-8", "backslashreplace")
                found.add("accounting_not_reproduced", COMPLETION, expected=wanted.decode(), found=shown)


def _check_rows(data: bytes, ended: tuple[Attempt, ...], found: _Found) -> None:
    lines = data.split(b"\n")
    last = lines.pop()
    for number, (attempt, line) in enumerate(zip(ended, lines, strict=False)):
        wanted = attempt.end.row_sha256 if attempt.end is not None else ""
        if sha256_hex(line) != wanted:
            place = f"line {number}"
            found.add("rows_digest_mismatch", ROWS, pointer=place, expected=wanted, found=sha256_hex(line))
            return
    if len(lines) != len(ended) or last:
        text = f"{len(lines)} lines and {len(last)} bytes behind the last"
        found.add("rows_digest_mismatch", ROWS, expected=f"{len(ended)} lines", found=text)
