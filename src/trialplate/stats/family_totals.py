"""From episode columns to family totals: the only thing the bootstrap looks at, in an order nobody chooses.

Definitions: statistics specification, sections 1 and 6. A family is one block: all its robots, conditions, repeats,
of every arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import StatsInputError
from trialplate.stats.inputs import MAX_COUNT, sequence

Measure = Literal["cost", "time"]
MEASURES: tuple[Measure, ...] = ("cost", "time")
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FamilyTotals:
    """Whole totals (families, arms, 4): episodes, successes, cost, time, families in order of the UTF-8 bytes of ids.

    ``unknown``: (arm index, measure) whose total is unknown because one episode's is; its cells are no totals.
    """

    families: tuple[str, ...]
    arms: tuple[str, ...]
    totals: Whole
    unknown: frozenset[tuple[int, Measure]]


def family_totals(
    families: Sequence[str],
    arms: Sequence[str],
    *,
    family: Any,
    arm: Any,
    passed: Any,
    cost: Any | None = None,
    time: Any | None = None,
    cost_known: Any | None = None,
    time_known: Any | None = None,
) -> FamilyTotals:
    """Add up episodes into family totals; the order of the rows and of the ids changes nothing.

    ``family``, ``arm``: whole columns (episodes,) that index the lists of ids. ``passed``: 0 or 1. ``cost`` and
    ``time``: whole units, or ``None`` when unknown throughout. ``cost_known``, ``time_known``: false where that
    episode's is unknown, which makes the arm's total unknown. Raises ``StatsInputError`` for an id given twice (no
    family may count twice), an index without id, columns of unequal length, a value that is not whole or negative,
    and a column that adds up to 2^53 or more.
    """
    names = _ids("families", families)
    order = sorted(range(len(names)), key=lambda at: names[at].encode())
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    named = _ids("arms", arms)
    rows = _column("family", family, below=len(names))
    length = len(rows)
    cell = rank[rows] * len(named) + _column("arm", arm, below=len(named), length=length)
    size = len(names) * len(named)
    totals = np.zeros((size, 4), dtype=np.int64)
    totals[:, 0] = np.bincount(cell, minlength=size)
    totals[:, 1] = _sums(cell, _column("passed", passed, below=2, length=length), size)
    unknown: set[tuple[int, Measure]] = set()
    for at, (name, values, known) in enumerate(zip(MEASURES, (cost, time), (cost_known, time_known), strict=True)):
        if values is None:
            unknown |= {(number, name) for number in range(len(named))}
            continue
        column = _column(name, values, length=length)
        if known is not None:
            present = _column(f"{name}_known", known, below=2, length=length).astype(bool)
            unknown |= {(int(number), name) for number in np.unique(cell[~present] % max(1, len(named)))}
            column = np.where(present, column, 0)
        totals[:, 2 + at] = _sums(cell, column, size)
    cube: Whole = totals.reshape(len(names), len(named), 4)
    return FamilyTotals(tuple(names[at] for at in order), tuple(named), cube, frozenset(unknown))


def _ids(argument: str, values: object) -> list[str]:
    names = []
    for at, name in enumerate(sequence(argument, values)):
        if not isinstance(name, str):
            raise StatsInputError(f"{argument}[{at}]", f"expected the text of an id, got {name!r}")
        names.append(name)
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise StatsInputError(argument, f"{twice[0]!r} is given more than once; an id counts once")
    return names


def _column(argument: str, values: Any, *, below: int = MAX_COUNT + 1, length: int | None = None) -> Whole:
    column = np.asarray(values)
    if column.ndim != 1 or (column.dtype.kind not in "iub" and column.size):
        raise StatsInputError(argument, f"expected a column of whole numbers, got {column.dtype} {column.shape}")
    if length is not None and len(column) != length:
        raise StatsInputError(argument, f"has {len(column)} items, family has {length}")
    if column.dtype.kind == "b" and below != 2:
        raise StatsInputError(argument, "expected whole numbers, got booleans")
    if column.size and not (int(column.min()) >= 0 and int(column.max()) < below):
        raise StatsInputError(argument, f"expected 0 to {below - 1}, got {column.min()} to {column.max()}")
    return column.astype(np.int64, copy=False)


def _sums(cell: Whole, column: Whole, size: int) -> Whole:
    """Return the sum of a column in every cell; exact in float64, because even the whole column stays below 2^53."""
    high, low = int((column >> 26).sum()), int((column & (2**26 - 1)).sum())
    if (high << 26) + low > MAX_COUNT:
        raise StatsInputError("totals", f"a column adds up to {(high << 26) + low}, beyond {MAX_COUNT}")
    return np.bincount(cell, weights=column, minlength=size).astype(np.int64)
