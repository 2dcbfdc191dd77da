"""Everything that a check wants of the recordings of a campaign, from one reading of each.

To read a recording costs more than all that is computed from it. So row and trace of an attempt are read once, and
whatever looks at them does so then: digests, the rules for rows, the score, the times of calls. Attempts have nothing
to do with each other, so several processes may share them; the findings are the same for any number.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from trialplate.coherence import RowRules
from trialplate.errors import EvidenceError, HarnessFault, TrialplateError
from trialplate.record import Column, Outcome, Row, Trace
from trialplate.registry import load_suite
from trialplate.result_identity import Timed, trace_times_us
from trialplate.store.attempts import Look, look
from trialplate.store.findings import EvidenceProblem, Finding, problem
from trialplate.store.folder import CAPS, Folder
from trialplate.store.layout import trace_path
from trialplate.store.progress import Attempt
from trialplate.store.survey import Survey
from trialplate.store.view import CampaignView, read_row_trace
from trialplate.verification.locked import locked_findings
from trialplate.verification.outcomes import Scorer, score_view

GROUP = 32
"""Attempts that a worker takes at once."""
GROUPS_WORTH_A_WORKER = 4
"""Fewer are read sooner than a process has started."""
_COUNT = (int, type(None))
_CALL: Mapping[str, tuple[type, ...]] = {
    "kind": (str,),
    "issue": (str, type(None)),
    "latency_us": _COUNT,
    **dict.fromkeys(("proposed", "executed", "dropped", "discarded"), _COUNT),
}
"""Members of a recorded call that are counted, and their types."""
Key = tuple[str, int]
T = TypeVar("T")
Found = tuple[tuple[Outcome, ...], Timed]
Stamp = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one attempt gave. ``findings``: of its files; ``row``: None when it cannot be used.

    ``compared``: where the row differs from what it must agree with; ``outcome``; ``times_us`` of its calls. A text
    in their place says why there are none.
    """

    findings: tuple[Finding, ...]
    row: Row | None
    compared: tuple[Finding, ...] | str = ()
    outcome: Outcome | str = ""
    times_us: Sequence[int] | str = ()


class Recordings:
    """The recordings of one campaign folder; ``look`` reads them, and then everything can be asked for.

    Asked for what an attempt did not give, the methods raise the EvidenceError that kept it from giving it.
    """

    def __init__(self, folder: Path, *, workers: int = 1) -> None:
        self._folder, self._workers = folder, workers
        self._readings: dict[Key, Reading] = {}

    def look(self, seen: Survey, columns: tuple[Column, ...] | None) -> Iterator[tuple[Finding, ...]]:
        """Read every ended attempt and yield what was found in its files, in the order of the schedule."""
        reader = Reader.of(self._folder, seen, columns)
        groups = [seen.ended[start : start + GROUP] for start in range(0, len(seen.ended), GROUP)]
        for attempts, readings in zip(groups, _everywhere(reader, groups, workers=self._workers), strict=True):
            for attempt, reading in zip(attempts, readings, strict=True):
                self._readings[attempt.key] = replace(reading, findings=())
                yield reading.findings

    def rows(self) -> Mapping[Key, Row]:
        """Return the rows that nothing is wrong with."""
        return {key: reading.row for key, reading in self._readings.items() if reading.row is not None}

    def compared(self, row: Row) -> tuple[Finding, ...]:
        """Return where a row differs from what it must agree with."""
        return _given(self._readings[row.trial_id, row.attempt].compared)

    def outcome(self, row: Row) -> Outcome:
        """Return what an attempt is worth."""
        return _given(self._readings[row.trial_id, row.attempt].outcome)

    def times_us(self, row: Row) -> Sequence[int]:
        """Return how long the calls of an attempt took."""
        return _given(self._readings[row.trial_id, row.attempt].times_us)


def score_and_time(view: CampaignView) -> Found:
    """Score a campaign and note the times of all calls on the way: one reading of each recording for both.

    Asked again for the same evidence, whose recordings nobody has touched since, it remembers: so a program that
    scores a campaign and then reports it reads the recordings once. Raises EvidenceError as
    :func:`trialplate.verification.outcomes.score_view` does.
    """
    stamp = _stamp(view)
    if stamp is not None and _LAST and _LAST[0][0] == stamp:
        return _LAST[0][1]
    found = _score_and_time(view)
    if stamp is not None:
        _LAST[:] = [(stamp, found)]
    return found


_LAST: list[tuple[Stamp, Found]] = []  # the last campaign that was scored in this process, if any


def _stamp(view: CampaignView) -> Stamp | None:
    """Return what changes whenever the evidence does: the head of the journal holds all but recordings to it.

    A file that is written, replaced or set back to an older time changes its number, size or times.
    """
    try:
        files = [(view.folder / row.trace.path).stat() for row in view.rows if row.trace is not None]
    except OSError:
        return None
    stats = tuple((file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns) for file in files)
    return str(view.folder.resolve()), view.lock_sha256, view.head, view.rows, stats


def _score_and_time(view: CampaignView) -> Found:
    scorer = Scorer(view.lock_document)
    times_us: dict[Key, Sequence[int]] = {}

    def scored(row: Row) -> Outcome:
        trace = view.load_trace(row) if row.trace is not None else None
        times_us[row.trial_id, row.attempt] = trace_times_us(trace) if trace is not None else ()
        return scorer.score(row, trace)

    outcomes = score_view(view, scored=scored)
    return outcomes, lambda row: times_us[row.trial_id, row.attempt]


def _given(value: T | str) -> T:
    if isinstance(value, str):
        raise EvidenceError(value)
    return value


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads attempts of one campaign. ``rules`` and ``scorer`` are None where lock or suite give none."""

    folder: Path
    run_id: str | None
    columns: tuple[Column, ...] | None
    rules: RowRules | None
    scorer: Scorer | None

    @classmethod
    def of(cls, folder: Path, seen: Survey, columns: tuple[Column, ...] | None) -> Reader:
        """Return the reader of a campaign; what is wrong with its lock is told elsewhere."""
        if locked_findings(seen.lock_document):
            return cls(folder, seen.run_id, columns, None, None)
        try:
            rules = RowRules(seen, load_suite(seen.lock_document["suite"]["name"]))
        except TrialplateError:
            rules = None
        return cls(folder, seen.run_id, columns, rules, Scorer(seen.lock_document))

    def read(self, attempts: Sequence[Attempt]) -> list[Reading]:
        """Read a few attempts, one after the other."""
        with Folder(self.folder) as folder:
            return [self._read(folder, attempt) for attempt in attempts]

    def _read(self, folder: Folder, attempt: Attempt) -> Reading:
        seen = look(folder, attempt, run_id=self.run_id, columns=self.columns, caps=CAPS)
        row = seen.row
        if row is None or row.run_id != self.run_id:
            return Reading(seen.findings, None)
        told, trace = seen.findings, self._trace(folder, row, seen)
        if seen.trace is not None and isinstance(trace, EvidenceProblem):
            told += (trace.finding,)
        return Reading(told, row, self._compared(row, trace), self._outcome(row, trace), _times_us(row, trace))

    def _trace(self, folder: Folder, row: Row, seen: Look) -> Trace | EvidenceError:
        """Return the trace that was read, or the error of what is wrong with it."""
        try:
            trace = seen.trace if seen.trace is not None else read_row_trace(folder, row, columns=self.columns)
        except EvidenceError as error:
            return error
        wrong = _misshapen(trace)
        return _bad_call(row, wrong) if wrong else trace

    def _compared(self, row: Row, trace: Trace | EvidenceError) -> tuple[Finding, ...] | str:
        if self.rules is None:
            return ()
        try:
            return tuple(self.rules.findings(row, lambda: _sound(trace)))
        except EvidenceError as error:
            return error.message

    def _outcome(self, row: Row, trace: Trace | EvidenceError) -> Outcome | str:
        if self.scorer is None:
            return "the lock cannot be read"
        try:
            return self.scorer.score(row, _sound(trace) if row.trace is not None else None)
        except EvidenceError as error:
            return error.message


def _times_us(row: Row, trace: Trace | EvidenceError) -> Sequence[int] | str:
    if row.trace is None:
        return ()
    return trace.message if isinstance(trace, EvidenceError) else trace_times_us(trace)


def _sound(trace: Trace | EvidenceError) -> Trace:
    if isinstance(trace, EvidenceError):
        raise trace
    return trace


# -- in which process --------------------------------------------------------------------------------------------


def _everywhere(reader: Reader, groups: Sequence[Sequence[Attempt]], *, workers: int) -> Iterator[list[Reading]]:
    workers = min(workers, len(groups) // GROUPS_WORTH_A_WORKER)
    if workers <= 1:
        yield from map(reader.read, groups)
        return
    spawn = multiprocessing.get_context("spawn")  # fork after a GL context exists hangs the child
    pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_begin, initargs=(reader,))
    try:
        yield from pool.map(_read_group, groups)
    except BrokenProcessPool:
        raise HarnessFault(
            "a worker of the check died; the evidence says nothing about it. Try again with fewer --workers",
            code="worker_lost",
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


_HERE: list[Reader] = []  # the one reader of a worker process


def _begin(reader: Reader) -> None:
    _HERE.append(reader)


def _read_group(attempts: Sequence[Attempt]) -> list[Reading]:
    return _HERE[0].read(attempts)


def _misshapen(trace: Trace) -> str:
    """Name the first recorded call that lacks what is counted in calls; nothing when none does."""
    for number, call in enumerate(trace.calls):
        for name, kinds in _CALL.items():
            if type(call.get(name, 0.0)) not in kinds:
                return f"call {number}"
    return ""


def _bad_call(row: Row, pointer: str) -> EvidenceProblem:
    path = trace_path(row.trial_id, row.attempt)
    expected = f"{', '.join(_CALL)} of a recorded call"
    return problem("trace_malformed", path, pointer=pointer, expected=expected, found="others, or of other types")
