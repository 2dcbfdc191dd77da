"""Many arms at once: is there any difference, what is left of each p-value, and which arms may share a letter.

Definitions: statistics specification, section 10. A test that is missing stays in its family and counts as p = 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Literal

from trialplate.errors import StatsInputError
from trialplate.stats.distributions import chi_square_tail
from trialplate.stats.inputs import (
    as_written,
    count,
    flags,
    fraction_inside,
    fraction_within,
    one_of,
    same_length,
    sequence,
)
from trialplate.stats.results import Reason, Result, Value

Method = Literal["holm", "bonferroni", "bh", "by"]
METHODS: tuple[Method, ...] = ("holm", "bonferroni", "bh", "by")
DRAWS_BEYOND_A_BOUND = 50
MAX_COLUMNS = 10_000
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class CochranQ(Result):
    """Cochran's Q with its degrees of freedom and chi-square p-value."""

    statistic: float | None
    df: int
    p_value: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class AdjustedPValues(Result):
    """The adjusted p-values in the order of the given ones."""

    value: tuple[float, ...]
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class CompactLetters(Result):
    """The letters of every arm, in the given order: two arms share one if and only if they do not differ."""

    value: Mapping[str, str]
    reason: Reason | None = None


def cochran_q(outcomes: Sequence[Sequence[int]]) -> CochranQ:
    """Return Cochran's Q over matched trials: one row a trial, one column an arm, 1 a success.

    Q = (k - 1)(k sum G^2 - T^2)/(k T - sum L^2), G: successes of an arm, L: of a trial, T: all. Where every trial is
    all successes or all failures Q = 0 and p = 1. No trial: null with ``no_pairs``. Source: Cochran, Biometrika 37
    (1950) 256.
    """
    rows = [flags(f"outcomes[{at}]", row) for at, row in enumerate(sequence("outcomes", outcomes))]
    if not rows:
        return CochranQ(None, 0, None, "no_pairs")
    arms = count("arms", len(rows[0]), minimum=2)
    for at, row in enumerate(rows):
        same_length(f"outcomes[{at}]", row, other_argument="outcomes[0]", other=rows[0])
    of_arm = [sum(column) for column in zip(*rows, strict=True)]
    of_trial = [sum(row) for row in rows]
    total = sum(of_trial)
    below = arms * total - sum(won * won for won in of_trial)
    if below == 0:
        return CochranQ(0.0, arms - 1, 1.0, None)
    statistic = (arms - 1) * (arms * sum(won * won for won in of_arm) - total * total) / below
    return CochranQ(statistic, arms - 1, chi_square_tail(statistic, arms - 1), None)


def adjust_pvalues(pvalues: Sequence[float | None], method: Method) -> AdjustedPValues:
    """Return p-values adjusted for their number m, never above 1.

    ``holm``: running maximum of (m - i) p_(i); ``bonferroni``: m p; ``bh``: running minimum from above of m p_(i)/i;
    ``by``: the same times 1 + 1/2 + ... + 1/m. ``None``, a test that could not be made, counts as 1 and stays in the
    family.
    """
    one_of("method", method, METHODS)
    given = [
        1.0 if item is None else fraction_within(f"pvalues[{at}]", item)
        for at, item in enumerate(sequence("pvalues", pvalues))
    ]
    size = len(given)
    order = sorted(range(size), key=given.__getitem__)
    ranked = [given[at] for at in order]
    if method == "bonferroni":
        adjusted = [size * p for p in ranked]
    elif method == "holm":
        adjusted = list(accumulate(((size - rank) * p for rank, p in enumerate(ranked)), max))
    else:
        factor = float(sum(Fraction(1, rank) for rank in range(1, size + 1))) if method == "by" else 1.0
        steps = [size * factor * p / rank for rank, p in enumerate(ranked, start=1)]
        adjusted = list(accumulate(reversed(steps), min))[::-1]
    found = [0.0] * size
    for at, p in zip(order, adjusted, strict=True):
        found[at] = min(1.0, p)
    return AdjustedPValues(tuple(found))


def minimum_draws(comparisons: int, *, alpha: float = 0.05) -> Value:
    """Return the fewest bootstrap draws for m intervals at 1 - alpha/m: R alpha/(2m) >= 50 beyond each bound."""
    number = count("comparisons", comparisons, minimum=1)
    level = as_written(fraction_inside("alpha", alpha))
    return Value(math.ceil(DRAWS_BEYOND_A_BOUND * 2 * number / level), None)


def compact_letter_display(order: Sequence[str], significant: Sequence[Sequence[str]]) -> CompactLetters:
    """Return letters such that two arms share one if and only if their pair is not in ``significant``.

    Insert-absorb: every pair splits the columns that hold both, and columns inside another go. Columns are named by
    the positions of their members in ``order``; after z follow a2, b2, ... Raises ``StatsInputError`` for an arm
    named twice, an unknown arm, an arm paired with itself, and more than 10,000 columns. Source: Piepho, J. Comput.
    Graph. Stat. 13 (2004) 456.
    """
    arms = [str(arm) for arm in sequence("order", order)]
    place = {arm: at for at, arm in enumerate(arms)}
    if len(place) < len(arms):
        raise StatsInputError("order", "an arm is named twice")
    columns = [(1 << len(arms)) - 1] if arms else []
    for at, pair in enumerate(sequence("significant", significant)):
        names = sequence(f"significant[{at}]", pair)
        if (
            len(names) != 2
            or len({str(name) for name in names}) != 2
            or not {str(name) for name in names} <= set(arms)
        ):
            raise StatsInputError(f"significant[{at}]", f"expected two different arms of order, got {pair!r}")
        columns = _split(columns, *(1 << place[str(name)] for name in names))
        if len(columns) > MAX_COLUMNS:
            raise StatsInputError("significant", f"needs more than {MAX_COLUMNS} letters: print the pairs instead")
    members = sorted([at for at in range(len(arms)) if column >> at & 1] for column in columns)
    letters = dict.fromkeys(arms, "")
    for number, column in enumerate(members):
        again, letter = divmod(number, len(_LETTERS))
        for at in column:
            letters[arms[at]] += _LETTERS[letter] + (str(again + 1) if again else "")
    return CompactLetters(letters)


def _split(columns: Sequence[int], one: int, other: int) -> list[int]:
    """Return the columns with no column holding both arms, without those that lie inside another."""
    both = one | other
    kept = [column for column in columns if column & both != both]
    parts = [column & ~arm for column in columns if column & both == both for arm in (one, other)]
    for part in parts:
        if not any(part & column == part for column in kept):
            kept = [column for column in kept if column & part != column]
            kept.append(part)
    return kept
