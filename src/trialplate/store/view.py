"""A campaign as evidence: read only, every digest on the way checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trialplate.canonical import MAX_DOCUMENT_BYTES, MAX_LINE_BYTES, sha256_hex
from trialplate.errors import EvidenceError, UsageError
from trialplate.record import Column, Row, Trace
from trialplate.store.amendments import Amendment
from trialplate.store.chain import HEAD, JOURNAL, Head, Record, Scan, read_head, scan
from trialplate.store.disclosures import Cutover, Leak
from trialplate.store.findings import EvidenceProblem, Finding, finding, problem
from trialplate.store.folder import Folder
from trialplate.store.layout import LOCK, ROW, Plan, Planned, read_plan
from trialplate.store.ledger import Ledger
from trialplate.store.progress import Attempt
from trialplate.store.rows import compare_end, compare_row, parse_row

MAX_JOURNAL_BYTES = 1024**3
MAX_TRACE_BYTES = 256 * 1024**2


@dataclass(frozen=True, slots=True)
class CampaignView:
    """What a campaign holds. ``rows``: ended attempts in schedule order.

    ``started``: every started attempt (trial id, number), in the order of the journal. ``complete``: what the last
    ``run.close`` says, None while the run is open or was cut short; then ``reason`` tells why it is not complete.
    ``leaks``, ``cutovers`` and ``amendments``: what was said beside the lock, in the order of the journal.
    """

    folder: Path
    lock_document: Mapping[str, Any]
    lock_sha256: str
    schedule: tuple[Planned, ...]
    records: tuple[Record, ...]
    head: Head
    rows: tuple[Row, ...]
    started: tuple[tuple[str, int], ...]
    complete: bool | None
    reason: str | None
    leaks: tuple[Leak, ...] = ()
    cutovers: tuple[Cutover, ...] = ()
    amendments: tuple[Amendment, ...] = ()

    @property
    def run_id(self) -> str | None:
        """The name of the run, None while nothing was run."""
        opened = (record for record in self.records if record["type"] == "run.open")
        return next((record["data"]["run_id"] for record in opened), None)

    @property
    def compromised(self) -> frozenset[tuple[str, int]]:
        """Attempts (trial id, number) that a leak was disclosed on: kept, counted, and no longer blind."""
        return frozenset(leak.attempt for leak in self.leaks)

    @property
    def interrupted(self) -> tuple[tuple[str, int], ...]:
        """Attempts (trial id, number) that were started and have no end yet."""
        ended = {(row.trial_id, row.attempt) for row in self.rows}
        return tuple(key for key in self.started if key not in ended)

    def load_trace(self, row: Row) -> Trace:
        """Read the trace of a row and compare both digests. Raises EvidenceError, also for a row without one."""
        if row.trace is None:
            raise EvidenceError(
                f"trial {row.trial_id}, attempt {row.attempt}, has no trace ({row.termination})", code="no_trace"
            )
        with Folder(self.folder) as folder:
            return read_row_trace(folder, row, columns=lock_columns(self.lock_document))


def read_campaign(path: Path, *, known: Mapping[tuple[str, int], Row] | None = None) -> CampaignView:
    """Read a campaign: lock, journal, every row. Traces are read by ``load_trace``.

    An open, incomplete or blocked campaign can be read. Raises UsageError where there is no campaign, EvidenceError
    with the first thing that is wrong: a journal that is torn or broken, a row that is not the one of its
    ``attempt.end``. ``known``: (trial id, number) -> row, of attempts whose rows were read and found good before.
    """
    known = known or {}
    if not path.exists():
        raise UsageError(f"no campaign at {path}: nothing of that name is there", code="no_campaign")
    with Folder(path) as folder:
        if not {LOCK, JOURNAL} & set(folder.names()):
            raise UsageError(f"no campaign at {path}: it has neither {LOCK} nor {JOURNAL}", code="no_campaign")
        lock_bytes = folder.read(LOCK, limit_bytes=MAX_DOCUMENT_BYTES)
        plan = read_plan(lock_bytes)
        state = read_journal(folder, plan.sha256)
        if state.status != "clean":
            raise problem("journal_broken", JOURNAL, expected="a clean journal", found=why(state))
        ledger = Ledger(plan)
        for record in state.records:
            for wrong in ledger.take(record):
                if wrong.exit_code != 3:
                    raise EvidenceProblem(wrong)
        rows = tuple(
            known.get(attempt.key) or read_row(folder, attempt, run_id=ledger.run_id) for attempt in ledger.ended()
        )
    return make_view(path, plan, state, ledger, rows)


def make_view(path: Path, plan: Plan, state: Scan, ledger: Ledger, rows: tuple[Row, ...]) -> CampaignView:
    """Put a view together from parts that were read."""
    closed = ledger.close if not ledger.running else None
    return CampaignView(
        folder=path,
        lock_document=plan.document,
        lock_sha256=plan.sha256,
        schedule=plan.trials,
        records=state.records,
        head=state.head(len(state.records), lock_sha256=plan.sha256),
        rows=rows,
        started=tuple(ledger.attempts),
        complete=closed.complete if closed else None,
        reason=closed.reason if closed else "the run has not ended",
        leaks=tuple(ledger.leaks),
        cutovers=tuple(ledger.cutovers),
        amendments=ledger.amendments.listed(),
    )


def read_journal(folder: Folder, lock_sha256: str) -> Scan:
    """Scan the journal of a folder against its head. A locked campaign that never ran has an empty one."""
    names = folder.names()
    head = read_head(folder.read(HEAD, limit_bytes=MAX_LINE_BYTES)) if HEAD in names else None
    data = folder.read(JOURNAL, limit_bytes=MAX_JOURNAL_BYTES) if JOURNAL in names else b""
    return scan(data, lock_sha256=lock_sha256, head=head)


def why(state: Scan) -> str:
    """Say why a journal is not clean, and what to do."""
    if state.status == "torn":
        return f"an append that was cut short ({state.problem}); `trialplate run --resume` recovers it"
    return f"{state.problem}; damage is never repaired"


def read_row(folder: Folder, attempt: Attempt, *, run_id: str | None) -> Row:
    """Read the row of an ended attempt. Raises EvidenceError with the first thing that ``read_row_bytes`` finds."""
    data = folder.read(f"{attempt.folder}/{ROW}", limit_bytes=MAX_LINE_BYTES)
    row, found = read_row_bytes(data, attempt, run_id=run_id)
    for wrong in found:
        raise EvidenceProblem(wrong)
    assert row is not None  # only findings take it away
    return row


def read_row_bytes(data: bytes, attempt: Attempt, *, run_id: str | None) -> tuple[Row | None, list[Finding]]:
    """Read a stored row: the one of the digest in the journal, of this trial, of this run, with these files.

    A row that is not of this trial is not returned. Raises EvidenceError for what is no row at all, or another's.
    """
    path, end = f"{attempt.folder}/{ROW}", attempt.end
    if end is None:
        raise problem("end_without_start", path, expected="an attempt that has ended", found="one that has not")
    digest = sha256_hex(data)
    if digest != end.row_sha256:
        raise problem("hash_mismatch", path, expected=end.row_sha256, found=digest)
    row = parse_row(data, path)
    found = compare_row(row, attempt.trial, attempt=attempt.attempt, path=path) + compare_end(row, end, path=path)
    usable = not found
    if row.run_id != run_id:
        found.append(finding("mixed_runs", path, pointer="/run_id", expected=run_id, found=row.run_id))
    return row if usable else None, found


def read_row_trace(
    folder: Folder,
    row: Row,
    *,
    columns: tuple[Column, ...] | None,
    compare_content: bool = True,
    limit_bytes: int = MAX_TRACE_BYTES,
) -> Trace:
    """Read the trace that a row refers to; compare file digest, number of steps and content digest.

    ``compare_content``: False where the content digest was compared before, or is not what matters.
    """
    from trialplate.store.traces import read_trace  # pyarrow is loaded only when a trace is read

    reference = row.trace
    if reference is None:
        raise problem("trace_malformed", f"{row.trial_id}-{row.attempt}", expected="a trace", found="none")
    data = folder.read(reference.path, limit_bytes=limit_bytes)
    if (found := sha256_hex(data)) != reference.file_sha256:
        raise problem("hash_mismatch", reference.path, expected=reference.file_sha256, found=found)
    try:
        wanted = columns.of(row.scenario) if isinstance(columns, ColumnSets) else columns
        trace = read_trace(data, columns=wanted, max_rows=max(reference.steps, 0) + 1)
        content = trace.content_sha256() if compare_content else reference.content_sha256
    except EvidenceError as error:
        raise problem("trace_malformed", reference.path, expected="a trace", found=error.message) from None
    if trace.steps != reference.steps:
        raise problem("trace_malformed", reference.path, expected=f"{reference.steps} steps", found=trace.steps)
    if content != reference.content_sha256:
        row_path = f"{reference.path.rpartition('/')[0]}/{ROW}"
        raise problem(
            "rows_digest_mismatch",
            row_path,
            pointer="/trace/content_sha256",
            expected=content,
            found=reference.content_sha256,
        )
    return trace


class ColumnSets(tuple[Column, ...]):
    """The columns of a suite whose scenarios measure different things: those of one are asked for by its name."""

    sets: Mapping[str, tuple[Column, ...]]

    def of(self, scenario: str) -> tuple[Column, ...]:
        """Return the columns of a scenario; of one that the lock does not list, those of the suite."""
        return self.sets.get(scenario, tuple(self))


def lock_columns(document: Mapping[str, Any]) -> tuple[Column, ...] | None:
    """Return the measured columns that the lock declares for its suite, None when it declares none.

    Where every scenario has its own, they are :class:`ColumnSets`.
    """
    suite = document.get("suite")
    suite = suite if isinstance(suite, dict) else {}
    listed = suite.get("columns")
    if not isinstance(listed, list):
        return None
    try:
        columns = _columns(listed)
        if "column_sets" not in suite:
            return columns
        found = ColumnSets(columns)
        found.sets = {
            str(name): _columns(part["columns"]) for part in suite["column_sets"] for name in part["scenarios"]
        }
        return found
    except (TypeError, KeyError) as error:
        raise problem(
            "schema_mismatch", LOCK, pointer="/suite/columns", expected="name, dim, unit", found=error
        ) from None


def _columns(listed: Iterable[Mapping[str, Any]]) -> tuple[Column, ...]:
    return tuple(Column(name=item["name"], dim=item["dim"], unit=item["unit"]) for item in listed)
