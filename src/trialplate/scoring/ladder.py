"""Read an ordered success chain over recorded columns, with attribution.

Source: fair pick-and-place protocol, section 5. Pure: plain data in, a frozen record out; no world, no policy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import EvidenceError, nearest
from trialplate.record import StageResult, Trace
from trialplate.spec.stages import Condition, StageChain, StageSpec

BoolRows = NDArray[np.bool_]  # (T+1,)

_OPERATORS: Mapping[str, Callable[[NDArray[np.float64], float], BoolRows]] = {
    "le": operator.le,
    "ge": operator.ge,
    "lt": operator.lt,
    "gt": operator.gt,
}


@dataclass(frozen=True, slots=True)
class Ladder:
    """How far a recording climbed.

    ``stages``: the furthest climb that was seen; of the last stage only what is still true at the end counts, so
    every stage is passed exactly when ``success_final``. ``success_once``: the whole chain was complete at some row.
    ``start_invalid``: why row 0 is no fair start, else None. ``notes``: what was lost, when and why.
    """

    stages: tuple[StageResult, ...]
    success_once: bool
    success_final: bool
    first_failed_stage: str | None
    notes: tuple[str, ...] = ()
    start_invalid: str | None = None

    def forfeited(self, why: str) -> Ladder:
        """Return the ladder of an attempt that ended by the arm's own fault: the last stage does not stand."""
        if not self.success_final:
            return self
        last = replace(self.stages[-1], passed=False, step=None)
        return replace(
            self,
            stages=(*self.stages[:-1], last),
            success_final=False,
            first_failed_stage=last.name,
            notes=(*self.notes, why),
        )


def climb(trace: Trace, chain: StageChain) -> Ladder:
    """Return how far a recording climbs the chain.

    Stage i counts only at or after the step of stage i-1. Held, released and free stages must belong to one
    unbroken carry (see :mod:`trialplate.spec.stages`). Raises EvidenceError when a column that the chain reads is
    missing, has another length than T+1, is not finite, or an attachment is neither 0 nor 1.
    """
    reading = _read(trace, chain)
    climber = _Climber(chain, reading)
    for row in range(trace.steps + 1):
        climber.visit(row)
    return climber.ladder(_invalid_start(trace, chain, reading))


@dataclass(frozen=True, slots=True)
class _Reading:
    """Each stage's conditions, each row's attachment and opening command, and the keep rule: T+1 truth values."""

    holds: tuple[list[bool], ...]
    attached: list[bool]
    opening: list[bool]
    keep: list[bool]


def _read(trace: Trace, chain: StageChain) -> _Reading:
    rows = trace.steps + 1
    nothing = np.zeros(rows, dtype=np.bool_)
    kept = next((stage.keep for stage in chain.stages if stage.attachment == "released"), ())
    return _Reading(
        holds=tuple(_all_hold(trace, stage.when).tolist() for stage in chain.stages),
        attached=(nothing if chain.attached is None else _attachment(trace, chain.attached)).tolist(),
        opening=(nothing if chain.opening is None else _holds(trace, chain.opening)).tolist(),
        keep=_all_hold(trace, kept).tolist(),
    )


def _all_hold(trace: Trace, conditions: Sequence[Condition]) -> BoolRows:
    every = np.ones(trace.steps + 1, dtype=np.bool_)
    for condition in conditions:
        every &= _holds(trace, condition)
    return every


def _holds(trace: Trace, condition: Condition) -> BoolRows:
    values = _column(trace, condition.column, index=condition.index)
    return _OPERATORS[condition.op](values, condition.limit)


def _attachment(trace: Trace, name: str) -> BoolRows:
    values = _column(trace, name, index=0)
    strange = np.flatnonzero((values != 0.0) & (values != 1.0))
    if strange.size:
        row = int(strange[0])
        raise EvidenceError(f"column {name!r} row {row}: an attachment is 0 or 1, got {float(values[row])!r}")
    return np.asarray(values == 1.0)


def _column(trace: Trace, name: str, *, index: int) -> NDArray[np.float64]:
    """Return one scalar column (T+1,) or raise EvidenceError that names what is wrong with it."""
    if name not in trace.measured:
        raise EvidenceError(f"the trace has no column {name!r} that the chain reads{nearest(name, trace.measured)}")
    values = trace.measured[name]
    if values.ndim != 2 or len(values) != trace.steps + 1 or index >= values.shape[1]:
        raise EvidenceError(
            f"column {name!r}: expected {trace.steps + 1} rows and an element {index}, got shape {values.shape}"
        )
    column = values[:, index]
    if not np.isfinite(column).all():
        row = int(np.flatnonzero(~np.isfinite(column))[0])
        raise EvidenceError(f"column {name!r} row {row}: {float(column[row])!r} is not a finite measurement")
    return column


def _invalid_start(trace: Trace, chain: StageChain, reading: _Reading) -> str | None:
    if reading.attached[0]:
        return "the object is attached before the first action"
    if chain.start_forbidden and bool(_all_hold(trace, chain.start_forbidden)[0]):
        return "success conditions hold before the first action: " + ", ".join(
            f"{condition.column} {condition.op} {condition.limit:g} {condition.unit}"
            for condition in chain.start_forbidden
        )
    return None


class _Climber:
    """The state of one climb, row by row. ``steps[i]`` is the row at which stage i of this climb was passed."""

    def __init__(self, chain: StageChain, reading: _Reading) -> None:
        self.stages: tuple[StageSpec, ...] = chain.stages
        self.reading = reading
        self.carry_start = sum(stage.attachment == "any" for stage in chain.stages)  # index of the first held stage
        self.steps: list[int] = []
        self.furthest: tuple[int, ...] = ()
        self.first_complete: int | None = None
        self.complete_now = False
        self.released_at: int | None = None
        self.notes: list[str] = []

    def visit(self, row: int) -> None:
        """Take in one row: first what it loses, then what it earns."""
        held = self.reading.attached[row]
        held_before = row > 0 and self.reading.attached[row - 1]
        if held and not held_before:
            self._lose(row, "the object was taken hold of again")
        if held_before and not held:
            self._end_attachment(row)
        elif self.released_at is not None and not self.reading.keep[row]:
            self._lose(row, "the object left the release region")
        self._earn(row, held)
        self.complete_now = len(self.steps) == len(self.stages) and self._holds_window(len(self.stages) - 1, row)
        if self.complete_now and self.first_complete is None:
            self.first_complete = row
        if len(self.steps) > len(self.furthest):
            self.furthest = tuple(self.steps)

    def _earn(self, row: int, held: bool) -> None:
        while len(self.steps) < len(self.stages):
            index = len(self.steps)
            role = self.stages[index].attachment
            if role == "released" or (role == "held" and not held) or not self._holds_window(index, row):
                return
            self.steps.append(row)

    def _holds_window(self, index: int, row: int) -> bool:
        """Whether stage ``index`` holds over the ``hold_steps`` rows that end at ``row``, none too early."""
        stage = self.stages[index]
        first = row - stage.hold_steps + 1
        earliest = self.steps[index - 1] if index else 0
        if stage.attachment == "free":
            earliest += 1  # steps after the release, not the step of the release
        if stage.attachment == "released":
            return self.released_at is not None
        if first < earliest or not all(self.reading.holds[index][first : row + 1]):
            return False
        attached = self.reading.attached[first : row + 1]
        return stage.attachment == "any" or (all(attached) if stage.attachment == "held" else not any(attached))

    def _end_attachment(self, row: int) -> None:
        index = len(self.steps)
        due = index < len(self.stages) and self.stages[index].attachment == "released"
        opened = self.reading.opening[row]
        if due and opened and self.reading.holds[index][row] and self.reading.keep[row]:
            self.steps.append(row)
            self.released_at = row
        elif not opened:
            self._lose(row, "the attachment ended without an opening command")
        elif due:
            self._lose(row, "the object was let go outside the release conditions")
        else:
            missing = self.stages[index].name if index < len(self.stages) else "nothing"
            self._lose(row, f"the object was let go before {missing!r}")

    def _lose(self, row: int, why: str) -> None:
        self.released_at = None
        if len(self.steps) > self.carry_start:
            lost = ", ".join(stage.name for stage in self.stages[self.carry_start : len(self.steps)])
            self.notes.append(f"step {row}: {why}; lost: {lost}")
            del self.steps[self.carry_start :]

    def ladder(self, start_invalid: str | None) -> Ladder:
        """Return the record of the finished climb."""
        final = self.complete_now
        best = self.steps if final else self.furthest
        passed = len(best) if final else min(len(best), len(self.stages) - 1)
        results = tuple(
            StageResult(name=stage.name, passed=index < passed, step=best[index] if index < passed else None)
            for index, stage in enumerate(self.stages)
        )
        if self.first_complete is not None and not final:
            self.notes.append(f"the chain was complete at step {self.first_complete}, and is not at the end")
        return Ladder(
            stages=results,
            success_once=self.first_complete is not None,
            success_final=final,
            first_failed_stage=None if final else self.stages[passed].name,
            notes=tuple(self.notes),
            start_invalid=start_invalid,
        )
