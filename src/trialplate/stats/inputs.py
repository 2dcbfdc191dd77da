"""The gate of every statistic: what comes in is what the definition needs, or ``StatsInputError`` names it.

Nothing is repaired. Booleans are not counts, floats are not counts, and no number may be so large that float64
arithmetic on it stops being exact (counts) or finite (reals).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from numbers import Real
from typing import Literal

from trialplate.errors import StatsInputError

MAX_COUNT = 2**53 - 1
MAX_MAGNITUDE = 1e300

Side = Literal["two-sided", "lower", "upper"]
Alternative = Literal["two-sided", "less", "greater"]
ALTERNATIVES: tuple[Alternative, ...] = ("two-sided", "less", "greater")
SIDES: tuple[Side, ...] = ("two-sided", "lower", "upper")


def count(argument: str, value: object, *, minimum: int = 0, maximum: int = MAX_COUNT) -> int:
    """Return ``value`` as an int in ``minimum .. maximum``; booleans and floats are refused."""
    if isinstance(value, bool):
        raise StatsInputError(argument, f"expected a whole number, got the boolean {value}")
    try:
        whole = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise StatsInputError(argument, f"expected a whole number, got {value!r}") from None
    if not minimum <= whole <= maximum:
        raise StatsInputError(argument, f"expected {minimum} to {maximum}, got {whole}")
    return whole


def real(argument: str, value: object, *, minimum: float = -MAX_MAGNITUDE) -> float:
    """Return ``value`` as a finite float that is at least ``minimum``; booleans are refused."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise StatsInputError(argument, f"expected a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= MAX_MAGNITUDE:
        raise StatsInputError(argument, f"expected a finite number within +-{MAX_MAGNITUDE:g}, got {value!r}")
    if number < minimum:
        raise StatsInputError(argument, f"expected at least {minimum:g}, got {number!r}")
    return number


def fraction_inside(argument: str, value: object) -> float:
    """Return ``value`` as a float strictly between 0 and 1 (a confidence, a quantile level, a rate)."""
    number = real(argument, value)
    if not 0.0 < number < 1.0:
        raise StatsInputError(argument, f"expected a number strictly between 0 and 1, got {number!r}")
    return number


def fraction_within(argument: str, value: object) -> float:
    """Return ``value`` as a float from 0 to 1, both included (a probability, a belief)."""
    number = real(argument, value)
    if not 0.0 <= number <= 1.0:
        raise StatsInputError(argument, f"expected a number from 0 to 1, got {number!r}")
    return number


def positive(argument: str, value: object) -> float:
    """Return ``value`` as a float above 0."""
    number = real(argument, value)
    if number <= 0.0:
        raise StatsInputError(argument, f"expected a positive number, got {number!r}")
    return number


def as_written(value: float) -> Fraction:
    """Return the decimal that a person wrote for ``value``, exactly.

    .95 in a protocol means 95/100, not the nearest binary number: products such as 100 * .07 must not land just
    above 7 and move a rank.
    """
    return Fraction(repr(value))


def tail_area(confidence: object, side: object = "two-sided") -> float:
    """Return the probability left outside at one end: (1 - confidence)/2, or 1 - confidence for one side."""
    level = as_written(fraction_inside("confidence", confidence))
    ends = 2 if one_of("side", side, SIDES) == "two-sided" else 1
    return float((1 - level) / ends)


def error_tail(alpha: object) -> float:
    """Return half of a two-sided error rate, from the decimal as written."""
    return float(as_written(fraction_inside("alpha", alpha)) / 2)


def one_of(argument: str, value: object, allowed: Sequence[str]) -> str:
    """Return ``value`` when it is one of the ``allowed`` words."""
    if not isinstance(value, str) or value not in allowed:
        raise StatsInputError(argument, f"expected one of {', '.join(allowed)}, got {value!r}")
    return str(value)


def sequence(argument: str, values: object) -> list[object]:
    """Return the items of a list, tuple or one-dimensional array; text, mappings and sets are refused."""
    ordered = hasattr(values, "__len__") and hasattr(values, "__getitem__")
    if not ordered or isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise StatsInputError(argument, f"expected a sequence, got {type(values).__name__}")
    return list(values)


def counts(argument: str, values: object, *, maximum: int = MAX_COUNT) -> list[int]:
    """Return every item as a count; the message names the position. Their sum must be a count too."""
    items = [count(f"{argument}[{at}]", item, maximum=maximum) for at, item in enumerate(sequence(argument, values))]
    if sum(items) > MAX_COUNT:
        raise StatsInputError(argument, f"the items add up to {sum(items)}, beyond {MAX_COUNT}")
    return items


def reals(argument: str, values: object, *, minimum: float = -MAX_MAGNITUDE) -> list[float]:
    """Return every item as a finite float that is at least ``minimum``; the message names the position."""
    return [real(f"{argument}[{at}]", item, minimum=minimum) for at, item in enumerate(sequence(argument, values))]


def flags(argument: str, values: object) -> list[bool]:
    """Return every item as a truth value: 0, 1, False or True. Nothing else counts as one."""
    found = []
    for at, item in enumerate(sequence(argument, values)):
        if getattr(getattr(item, "dtype", None), "kind", None) == "b":
            item = bool(item)
        found.append(bool(item) if isinstance(item, bool) else bool(count(f"{argument}[{at}]", item, maximum=1)))
    return found


def count_table(argument: str, rows: object) -> list[list[int]]:
    """Return a list of equally long rows of counts; their sum must be a count too."""
    table = [counts(f"{argument}[{at}]", row) for at, row in enumerate(sequence(argument, rows))]
    for at, row in enumerate(table):
        same_length(f"{argument}[{at}]", row, other_argument=f"{argument}[0]", other=table[0])
    total = sum(map(sum, table))
    if total > MAX_COUNT:
        raise StatsInputError(argument, f"the cells add up to {total}, beyond {MAX_COUNT}")
    return table


def square_table(argument: str, rows: object) -> list[list[int]]:
    """Return a square table of counts with at least two rows."""
    table = count_table(argument, rows)
    if len(table) < 2 or len(table[0]) != len(table):
        columns = len(table[0]) if table else 0
        raise StatsInputError(argument, f"expected a square table, 2 x 2 or more, got {len(table)} x {columns}")
    return table


def part_of(argument: str, part: object, *, whole_argument: str, whole: object) -> tuple[int, int]:
    """Return (part, whole) as counts with part <= whole: successes among attempts."""
    total = count(whole_argument, whole)
    some = count(argument, part)
    if some > total:
        raise StatsInputError(argument, f"{some} is more than {whole_argument} = {total}")
    return some, total


def parts_of(argument: str, parts: object, *, whole_argument: str, wholes: object) -> tuple[list[int], list[int]]:
    """Return two equally long lists of counts, each part at most its whole."""
    totals = counts(whole_argument, wholes)
    some = counts(argument, parts)
    same_length(argument, some, other_argument=whole_argument, other=totals)
    for at, (few, all_of_them) in enumerate(zip(some, totals, strict=True)):
        if few > all_of_them:
            raise StatsInputError(f"{argument}[{at}]", f"{few} is more than {whole_argument}[{at}] = {all_of_them}")
    return some, totals


def same_length(argument: str, values: Sequence[object], *, other_argument: str, other: Sequence[object]) -> None:
    """Raise unless two sequences have the same length."""
    if len(values) != len(other):
        raise StatsInputError(argument, f"has {len(values)} items, {other_argument} has {len(other)}")
