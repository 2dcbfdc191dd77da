"""Where a rule on counts rejects, decided in whole numbers, and how often it then ever does.

m trials, c of them failures (pairs of which B alone succeeded, for A's sake), b = m - c. A rule rejects when there
are at most c(m) failures, so when b reaches r(m) = m - c(m). Definitions: statistics specification, sections 7 to 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from trialplate.stats.inputs import ALTERNATIVES, Alternative, count, one_of

Floats = NDArray[np.float64]
Rejects = Callable[[int, int, int, int], bool]
"""(m, c, sum of C(m, i) over i <= c, C(m, c)) -> whether m trials with c failures are rejected."""
MAX_TRIALS = 20_000


def trials(argument: str, value: object, *, minimum: int = 0) -> int:
    """Return a number of trials that the exact sums here can walk through in seconds."""
    return count(argument, value, minimum=minimum, maximum=MAX_TRIALS)


def reject_limits(total: int, rejects: Rejects) -> list[int]:
    """Return r(m) for m = 0 .. ``total``: the fewest successes that are rejected, m + 1 where nothing is.

    Binomial coefficients and their sums are carried from one m to the next as whole numbers, so a value that equals
    the limit exactly is seen as equal.
    """
    limits = [1]
    failures, tail, ways = -1, 0, 0
    for m in range(1, total + 1):
        if failures >= 0:
            tail, ways = 2 * tail - ways, ways * m // (m - failures)
        while failures >= 0 and not rejects(m, failures, tail, ways):
            tail, ways = tail - ways, ways * failures // (m - failures + 1)
            failures -= 1
        while failures < m:
            more = ways * (m - failures) // (failures + 1) if failures >= 0 else 1
            if not rejects(m, failures + 1, tail + more, more):
                break
            failures, tail, ways = failures + 1, tail + more, more
        limits.append(m - failures)
    return limits


def mcnemar_limits(total: int, alpha: Fraction, *, mid_p: bool = False) -> list[int]:
    """Return r(m) of one side of the two-sided McNemar test: twice the tail, for mid-p less one point, <= alpha."""

    def rejects(m: int, _failures: int, tail: int, ways: int) -> bool:
        return (2 * tail - (ways if mid_p else 0)) * alpha.denominator <= alpha.numerator << m

    return reject_limits(total, rejects)


def e_value_limits(total: int, alpha: Fraction, *, two_sided: bool) -> list[int]:
    """Return r(m) where the e-value of m discordant pairs reaches 1/alpha.

    Two-sided: e = 2^m / ((m + 1) C(m, c)). For A only: e = (2^(m+1) - sum_{i <= c} C(m+1, i)) / ((m + 1) C(m, c)).
    """

    def rejects(m: int, _failures: int, tail: int, ways: int) -> bool:
        evidence = 1 << m if two_sided else (2 << m) - 2 * tail + ways
        return evidence * alpha.numerator >= alpha.denominator * (m + 1) * ways

    return reject_limits(total, rejects)


def mixture_limits(total: int, rate: Fraction, alpha: Fraction) -> list[int]:
    """Return r(m) where 1/((m + 1) C(m, c) p^(m-c) (1-p)^c) reaches 1/alpha: the rate p lies below the sequence."""
    hits, misses, whole = [1], [1], [1]
    for powers, base in (
        (hits, rate.numerator),
        (misses, rate.denominator - rate.numerator),
        (whole, rate.denominator),
    ):
        for _ in range(total):
            powers.append(powers[-1] * base)

    def rejects(m: int, failures: int, _tail: int, ways: int) -> bool:
        likelihood = ways * hits[m - failures] * misses[failures]
        return whole[m] * alpha.numerator >= alpha.denominator * (m + 1) * likelihood

    return reject_limits(total, rejects)


def chance_of_crossing(theta: float, upper: Sequence[int], lower: Sequence[int] | None = None) -> Floats:
    """Return, for m = 0 .. total, the chance that b ever reached ``upper`` (or m - b ever ``lower``) within m trials.

    Each trial adds to b with probability ``theta``. One pass over the paths that have not crossed yet.
    """
    total = len(upper) - 1
    alive = np.zeros(total + 2)
    alive[0] = 1.0
    crossed, chances = 0.0, np.zeros(total + 1)
    for m in range(1, total + 1):
        moved = alive[:m] * theta
        alive[:m] *= 1.0 - theta
        alive[1 : m + 1] += moved
        high = min(upper[m], m + 1)
        crossed += float(alive[high : m + 1].sum())
        alive[high : m + 1] = 0.0
        if lower is not None and lower[m] <= m:
            low = m - lower[m] + 1
            crossed += float(alive[:low].sum())
            alive[:low] = 0.0
        chances[m] = crossed
    return chances


def e_process_crossing(total: int, theta: float, level: Fraction, alternative: Alternative) -> Floats:
    """Return the chance of having rejected within m discordant pairs, for m = 0 .. ``total``."""
    one_of("alternative", alternative, ALTERNATIVES)
    limits = e_value_limits(total, level, two_sided=alternative == "two-sided")
    if alternative == "less":
        return chance_of_crossing(1.0 - theta, limits)
    return chance_of_crossing(theta, limits, limits if alternative == "two-sided" else None)
