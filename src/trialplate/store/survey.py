"""A campaign but for what its attempts left: lock, journal, names and indexes, read once, one record at a time.

Reads only; never raises for what it finds. Every file is accounted for: the lock by the chain, the journal by its
chain and head, indexes by what the journal says. Source: evidence specification, section 10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trialplate.canonical import canonical_json, sha256_hex
from trialplate.store.amendments import AMENDMENTS, Amendment
from trialplate.store.chain import (
    HEAD,
    HEADLESS_TYPES,
    JOURNAL,
    PARTIAL,
    Head,
    Record,
    Walk,
    anchor,
    check_partial,
    head_contradicts,
    read_head,
)
from trialplate.store.disclosures import Leak
from trialplate.store.findings import Collector, problem, read_document
from trialplate.store.folder import Caps, Contents, Folder
from trialplate.store.index import check_rows
from trialplate.store.layout import COMPLETION, DERIVED, EPISODES, LOCK, ROWS, Plan, Planned, read_plan
from trialplate.store.ledger import Ledger
from trialplate.store.progress import Attempt, completion_document
from trialplate.store.view import MAX_JOURNAL_BYTES

OF_ATTEMPTS = frozenset({"attempt.start", "attempt.end"})
"""Record types that there are many of: of these a survey keeps what the ledger keeps."""

MALFORMED = 2
"""Exit code of findings on records that do not have their shape: what these account for is not known."""

Belongs = Callable[[str], bool]
"""Whether a path of a bundle is accounted for elsewhere, and no part of the campaign."""


def in_campaign(path: str) -> bool:
    """Nothing lies beside the files of a campaign that is not sealed."""
    return False


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found. ``records``: all but those of attempts; ``head``: behind the last record.

    ``ended``: every attempt that has ended, in schedule order. ``derived``: names of derived files that lie there.
    """

    plan: Plan
    ledger: Ledger
    records: tuple[Record, ...]
    head: Head
    last_utc: str | None
    ended: tuple[Attempt, ...]
    derived: frozenset[str]

    @property
    def lock_document(self) -> Mapping[str, Any]:
        """The lock."""
        return self.plan.document

    @property
    def lock_sha256(self) -> str:
        """Digest of the lock."""
        return self.plan.sha256

    @property
    def schedule(self) -> tuple[Planned, ...]:
        """The planned trials."""
        return self.plan.trials

    @property
    def run_id(self) -> str | None:
        """The name of the run, None while nothing was run."""
        return self.ledger.run_id

    @property
    def complete(self) -> bool | None:
        """What the last ``run.close`` says, None while the run is open or was cut short."""
        return self.ledger.close.complete if self.ledger.close and not self.ledger.running else None

    @property
    def reason(self) -> str | None:
        """Why the campaign is not complete."""
        ended = self.ledger.close if not self.ledger.running else None
        return ended.reason if ended else "the run has not ended"

    @property
    def leaks(self) -> tuple[Leak, ...]:
        """Disclosed leaks, in the order of the journal."""
        return tuple(self.ledger.leaks)

    @property
    def amendments(self) -> tuple[Amendment, ...]:
        """Amendments of the lock, in the order of the journal."""
        return self.ledger.amendments.listed()

    @property
    def first_start(self) -> int | None:
        """Which record is the first ``attempt.start``, None without one."""
        return self.ledger.first_start

    @property
    def last_end(self) -> int | None:
        """Which record is the last ``attempt.end``, None without one."""
        return self.ledger.last_end


def survey(folder: Folder, found: Collector, *, caps: Caps, belongs: Belongs = in_campaign) -> Survey | None:
    """Read everything of a campaign but its attempts; what is wrong goes to ``found``.

    None when lock or journal cannot be read at all. ``belongs``: which paths are no part of the campaign.
    """
    contents = folder.contents(caps=caps, counted=EPISODES)
    found.take(contents.findings)
    plan = None
    with found.keeping():
        plan = _read_lock(folder, contents, found, caps=caps)
    if plan is None:
        return None
    story = _Story(plan, found)
    with found.keeping():
        _refuse_giant(contents, JOURNAL)
        story.read(folder, contents, caps=caps)
    _check_lock_time(plan, story.ledger, found)
    if story.whole:  # else what the lost records account for cannot be told from what is extra
        found.take(story.ledger.coverage())
        _check_names(folder, contents, story, found, belongs=belongs)
        _check_amendments(folder, contents, story.ledger, found, caps=caps)
    _check_indexes(folder, contents, story, found, caps=caps)
    return Survey(
        plan,
        story.ledger,
        tuple(story.records),
        story.walk.head,
        story.last_utc,
        story.ledger.ended(),
        frozenset(DERIVED).intersection(contents.files),
    )


def _refuse_giant(contents: Contents, name: str) -> None:
    size = contents.files.get(name, 0)
    if size > MAX_JOURNAL_BYTES:
        raise problem("size_limit", name, expected=f"at most {MAX_JOURNAL_BYTES} bytes", found=f"{size} bytes")


def _read_lock(folder: Folder, contents: Contents, found: Collector, *, caps: Caps) -> Plan | None:
    """A changed lock is told by the digest in the chain; what it says is then no longer looked at."""
    lock_bytes = folder.read(LOCK, limit_bytes=caps.document_bytes)
    locked = None
    if JOURNAL in contents.files:
        locked = anchor(next(folder.lines(JOURNAL, limit_bytes=caps.line_bytes), b""))
    digest = sha256_hex(lock_bytes)
    if locked is not None and locked != digest:
        found.add("lock_digest_mismatch", LOCK, expected=locked, found=digest)
        return None
    return read_plan(lock_bytes)


class _Story:
    """The journal, read once: the ledger that follows, the records that are kept, and heads at places that matter."""

    def __init__(self, plan: Plan, found: Collector) -> None:
        self.ledger, self.walk, self.found = Ledger(plan), Walk(plan.sha256), found
        self.records: list[Record] = []
        self.last_utc: str | None = None
        self.durable = self.walk.head
        self.closed = self.walk.head
        self.whole, self.shaped = False, True

    def read(self, folder: Folder, contents: Contents, *, caps: Caps) -> None:
        """Follow the chain; the head must stand exactly behind the last record that ended something."""
        head = None
        with self.found.keeping():
            if HEAD in contents.files:
                head = read_head(folder.read(HEAD, limit_bytes=caps.line_bytes))
        if JOURNAL not in contents.files:
            missed = EPISODES in contents.folders or bool(set(contents.files) & {HEAD, PARTIAL, ROWS, COMPLETION})
            if missed:
                self.found.add("file_missing", JOURNAL, expected="a file", found="none")
            self.whole = not contents.findings and not missed
            return
        at_head = self.walk.head if head is not None and head.count == 0 else None
        for line in folder.lines(JOURNAL, limit_bytes=caps.line_bytes):
            record = self.walk.take(line)
            if record is not None:
                self._take(record)
                if head is not None and head.count == self.walk.head.count:
                    at_head = self.walk.head
        clean = self._check_chain(head, at_head) and self._check_head(head, HEAD in contents.files)
        self.whole = clean and self.shaped

    def _take(self, record: Record) -> None:
        wrong = self.ledger.take(record)
        self.found.take(wrong)
        self.shaped = self.shaped and all(item.exit_code != MALFORMED for item in wrong)
        self.last_utc = record["utc"]
        if record["type"] not in OF_ATTEMPTS:
            self.records.append(record)
        if record["type"] not in HEADLESS_TYPES:
            self.durable = self.walk.head
        if record["type"] == "run.close":
            self.closed = self.walk.head

    def _check_chain(self, head: Head | None, at_head: Head | None) -> bool:
        walk = self.walk
        if not walk.complaint:
            return True
        told = "" if head is None else self._told(head, at_head)
        if told or walk.holds_more:
            why = f"{told or walk.complaint}; damage is never repaired"
        else:
            why = f"an append that was cut short ({walk.complaint}); `trialplate run --resume` recovers it"
        self.found.add("journal_broken", JOURNAL, expected="a clean journal", found=why)
        return False

    def _told(self, head: Head, at_head: Head | None) -> str:
        if at_head is None:
            return f"the head says that {head.count} records were durable, {self.walk.head.count} good ones are there"
        return head_contradicts(head, at_head)

    def _check_head(self, head: Head | None, present: bool) -> bool:
        expected, records = self.durable, self.walk.head.count
        if expected.count and not present:
            self.found.add("file_missing", HEAD, expected="a file", found="none")
        if head is None or head == expected:
            return True
        if head.count > records and (head.head_sha256, head.size) != (expected.head_sha256, expected.size):
            said = f"{head.count} records, as the head says"
            self.found.add("journal_broken", JOURNAL, expected=said, found=records)
            return False
        wanted, got = (canonical_json(item.document()).decode() for item in (expected, head))
        self.found.add("journal_broken", HEAD, expected=wanted, found=got)
        return True


def _check_lock_time(plan: Plan, ledger: Ledger, found: Collector) -> None:
    created, started = plan.document.get("created_utc"), ledger.first_start_utc
    if isinstance(created, str) and started is not None and created > started:
        expected = f"a time before the first attempt, {started}"
        found.add("late_lock", LOCK, pointer="/created_utc", expected=expected, found=created)


def _check_names(folder: Folder, contents: Contents, story: _Story, found: Collector, *, belongs: Belongs) -> None:
    """Nothing may be missing, and nothing may lie there that nobody recorded. Attempts look after their folders."""
    ledger = story.ledger
    optional = {JOURNAL, HEAD, *DERIVED}  # those that must be there were missed already
    wanted = {LOCK}
    if any(record["type"] == "recovered" for record in story.records):
        wanted.add(PARTIAL)
    if ledger.close is not None:
        wanted |= {ROWS, COMPLETION}
    irregular = {item.path for item in contents.findings if item.code == "not_regular_file"}
    for name in sorted(wanted - contents.files.keys() - irregular):
        found.add("file_missing", name, expected="a file", found="none")
    for name in sorted(contents.files.keys() - wanted - optional):
        if not name.startswith(f"{AMENDMENTS}/") and not belongs(name):
            found.add("file_extra", name, expected="no such file", found=f"{contents.files[name]} bytes")
    known = {attempt.folder for attempt in ledger.attempts.values()} | {EPISODES}
    known |= {AMENDMENTS} if any(name.startswith(f"{AMENDMENTS}/") for name in contents.files) else set()
    for name in sorted(contents.folders - known):
        if not belongs(f"{name}/"):
            found.add("file_extra", f"{name}/", expected="no such folder", found="a folder")
            for path in folder.below(name) if name.startswith(f"{EPISODES}/") else ():
                found.add("file_extra", path, expected="no such file", found="a file")


def _check_amendments(folder: Folder, contents: Contents, ledger: Ledger, found: Collector, *, caps: Caps) -> None:
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
                read_document(folder.read(path, limit_bytes=caps.document_bytes), path)
    for path in sorted(contents.files):
        if path.startswith(f"{AMENDMENTS}/") and path not in files:
            expected, got = "an amendment of the journal", "one of none of its records"
            found.add("amendment_chain", path, expected=expected, found=got)
            with found.keeping():
                read_document(folder.read(path, limit_bytes=caps.document_bytes), path)


def _check_indexes(folder: Folder, contents: Contents, story: _Story, found: Collector, *, caps: Caps) -> None:
    """Compare ``rows.jsonl``, ``completion.json`` and ``journal.partial`` with what the journal says."""
    with found.keeping():
        if PARTIAL in contents.files:
            limit = min(caps.file_bytes, MAX_JOURNAL_BYTES)
            check_partial(folder.read(PARTIAL, limit_bytes=limit), tuple(story.records))
    close = story.ledger.close
    if close is None:
        return
    with found.keeping():
        if ROWS in contents.files:
            _refuse_giant(contents, ROWS)
            found.take(check_rows(lambda: folder.lines(ROWS, limit_bytes=caps.line_bytes), story.ledger, close))
    with found.keeping():
        if COMPLETION in contents.files:
            wanted = canonical_json(completion_document(story.ledger.plan, close, story.closed))
            data = folder.read(COMPLETION, limit_bytes=caps.document_bytes)
            if data != wanted:
                read_document(data, COMPLETION)
                shown = data[:400].decode("utf-8", "backslashreplace")
                found.add("accounting_not_reproduced", COMPLETION, expected=wanted.decode(), found=shown)
