"""What a question about typed counts gets: one sentence, a short table, notes, and the numbers behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, Literal

from trialplate.claims import counts_wording

Role = Literal["headline", "gate", "beside", "live"]
Sides = Literal["two-sided", "lower", "upper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedInterval:
    """An interval that cannot be told without its method. Ends are shares, differences of shares, or rates per hour.

    ``role``: ``headline`` is the one to read, ``gate`` the one that a claim is held against, ``live`` holds at every
    look; ``beside`` is neither. A one-sided bound has the end of the range at its other end.
    """

    method: str
    role: Role
    confidence: float
    low: float | None
    high: float | None
    reason: str | None
    sides: Sides = "two-sided"


@dataclass(frozen=True, slots=True)
class Line:
    """One row for people: what, its value, and the method that gives it."""

    what: str
    value: str
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``numbers``: unrounded, under the names that the JSON document has. ``holds``: False where the answer is no."""

    schema: str
    question: str
    sentence: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    numbers: Mapping[str, Any]
    intervals: tuple[NamedInterval, ...] = ()
    holds: bool = field(default=True)

    def document(self) -> dict[str, Any]:
        """Return the plain document for programs."""
        intervals = {"intervals": [asdict(interval) for interval in self.intervals]} if self.intervals else {}
        return {
            "schema": self.schema,
            "question": self.question,
            "sentence": self.sentence,
            **self.numbers,
            **intervals,
            "notes": list(self.notes),
        }


def line(what: str, value: str, method: str, **values: str) -> Line:
    """Return a row under a label of the closed list, with the name of the method from the closed list."""
    label = counts_wording.LABELS[what].format(**values)
    return Line(label, value, counts_wording.METHODS[method])


def notes(*names: str, **values: Any) -> tuple[str, ...]:
    """Return notes by name."""
    return tuple(counts_wording.sentence(name, **values) for name in names)


def alpha_of(confidence: float) -> float:
    """Return what the confidence leaves, from the decimal as a person wrote it."""
    return float(1 - Fraction(repr(confidence)))


def one_sided(confidence: float) -> float:
    """Return the two-sided confidence whose lower end is the one-sided bound at ``confidence``, 2c - 1."""
    return float(2 * Fraction(repr(confidence)) - 1)


def found(values: Sequence[Any]) -> list[Any]:
    """Return results as plain documents."""
    return [asdict(value) for value in values]
