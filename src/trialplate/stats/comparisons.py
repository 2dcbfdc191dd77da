"""Two arms without families: matched pairs (McNemar, Tango) and unmatched episodes (the other two).

Definitions: statistics specification, section 7. The exact test of unmatched episodes is in ``boschloo``. Arm 1 or A
comes first, and a positive difference means that it succeeds more often. Swapping the arms negates every interval
exactly, because the lower limit is computed as the negated upper limit of the swapped arms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from trialplate.errors import StatsInputError
from trialplate.stats.distributions import binomial_cdf, normal_critical
from trialplate.stats.inputs import count, part_of, tail_area
from trialplate.stats.proportions import wilson_limits
from trialplate.stats.results import Interval, Reason, Result


@dataclass(frozen=True, slots=True)
class McNemar(Result):
    """The exact p-value, which gates, and the mid-p beside it."""

    p_value: float
    mid_p: float
    reason: Reason | None


def mcnemar_exact(b: int, c: int) -> McNemar:
    """Return the two-sided exact McNemar test: b pairs where only A succeeded, c where only B did.

    p = min(1, 2 P[Binomial(b + c, 1/2) <= min(b, c)]), and 1 by definition without discordant pairs. mid-p takes
    the probability of the observed split off the doubled tail.
    """
    only_a, only_b = count("b", b), count("c", c)
    discordant, fewer = only_a + only_b, min(only_a, only_b)
    tail = binomial_cdf(fewer, discordant, 0.5)
    below = binomial_cdf(fewer - 1, discordant, 0.5)
    return McNemar(min(1.0, 2.0 * tail), min(1.0, tail + below), None)


def tango_interval(b: int, c: int, *, n: int, confidence: float = 0.95) -> Interval:
    """Return Tango's score interval of the paired difference (b - c)/n, n pairs of which b and c are discordant.

    It keeps its width when no pair is discordant (-+z^2/(n + z^2)), where a bootstrap gives [0, 0]. n = 0 gives
    nulls with ``no_pairs``. Raises ``StatsInputError`` when b + c > n.
    """
    pairs, only_a, only_b = count("n", n), count("b", b), count("c", c)
    if only_a + only_b > pairs:
        raise StatsInputError("b", f"b + c = {only_a + only_b} is more than n = {pairs} pairs")
    critical = normal_critical(tail_area(confidence))
    if pairs == 0:
        return Interval(None, None, None, "no_pairs")
    return Interval(
        (only_a - only_b) / pairs,
        -_tango_upper(only_b, only_a, pairs, critical),
        _tango_upper(only_a, only_b, pairs, critical),
        None,
    )


def newcombe_interval(k1: int, n1: int, *, k2: int, n2: int, confidence: float = 0.95) -> Interval:
    """Return Newcombe's interval of p1 - p2 from the two Wilson intervals (his method 10)."""
    arms = _arms(k1, n1, k2, n2)
    critical = normal_critical(tail_area(confidence))
    if arms is None:
        return Interval(None, None, None, "no_attempts")
    some1, total1, some2, total2 = arms
    return Interval(
        (some1 * total2 - some2 * total1) / (total1 * total2),
        -_newcombe_upper(some2, total2, some1, total1, critical),
        _newcombe_upper(some1, total1, some2, total2, critical),
        None,
    )


def miettinen_nurminen_interval(k1: int, n1: int, *, k2: int, n2: int, confidence: float = 0.95) -> Interval:
    """Return the Miettinen-Nurminen score interval of p1 - p2 for independent arms.

    The variance at a difference uses the rates of highest likelihood under that difference (closed cubic), times
    N/(N - 1). An arm without attempts gives nulls with ``no_attempts``. Rounding moves a limit by less than a
    millionth of the width of the interval up to 100,000 episodes an arm.
    """
    arms = _arms(k1, n1, k2, n2)
    critical = normal_critical(tail_area(confidence))
    if arms is None:
        return Interval(None, None, None, "no_attempts")
    some1, total1, some2, total2 = arms
    return Interval(
        (some1 * total2 - some2 * total1) / (total1 * total2),
        -_miettinen_nurminen_upper(some2, total2, some1, total1, critical),
        _miettinen_nurminen_upper(some1, total1, some2, total2, critical),
        None,
    )


def _arms(k1: object, n1: object, k2: object, n2: object) -> tuple[int, int, int, int] | None:
    """Return the four counts, or nothing when an arm has no attempts."""
    some1, total1 = part_of("k1", k1, whole_argument="n1", whole=n1)
    some2, total2 = part_of("k2", k2, whole_argument="n2", whole=n2)
    return (some1, total1, some2, total2) if total1 and total2 else None


def _tango_upper(b: int, c: int, n: int, critical: float) -> float:
    if b == n:
        return 1.0
    if b == c == 0:
        return critical**2 / (n + critical**2)

    def below(d: float) -> bool:
        """Whether the score at difference d lies below -z."""
        linear = (2 * n - b + c) * d - b - c
        constant = -c * d * (1.0 - d)
        root = math.sqrt(max(0.0, linear * linear - 8.0 * n * constant))
        q = (root - linear) / (4.0 * n)
        variance = n * (2.0 * q + d * (1.0 - d))
        return (b - c) - n * d < -critical * math.sqrt(max(0.0, variance))

    return _bisect(below, (b - c) / n)


def _newcombe_upper(k1: int, n1: int, k2: int, n2: int, critical: float) -> float:
    p1, p2 = k1 / n1, k2 / n2
    high1 = wilson_limits(k1, n1, critical)[1]
    low2 = wilson_limits(k2, n2, critical)[0]
    return min(1.0, p1 - p2 + math.hypot(high1 - p1, p2 - low2))


def _miettinen_nurminen_upper(k1: int, n1: int, k2: int, n2: int, critical: float) -> float:
    if k1 == n1 and k2 == 0:
        return 1.0
    difference = (k1 * n2 - k2 * n1) / (n1 * n2)
    inflation = (n1 + n2) / (n1 + n2 - 1)

    def below(d: float) -> bool:
        """Whether the score at difference d lies below -z."""
        p1, p2 = _restricted_rates(k1, n1, k2, n2, d)
        variance = (p1 * (1.0 - p1) / n1 + p2 * (1.0 - p2) / n2) * inflation
        return difference - d < -critical * math.sqrt(variance)

    return _bisect(below, difference)


def _restricted_rates(k1: int, n1: int, k2: int, n2: int, d: float) -> tuple[float, float]:
    """Return the rates (p1, p2) of highest likelihood with p1 - p2 = d, d in [-1, 1].

    p2 is the middle root of a cubic with three real roots, in its trigonometric form.
    """
    total, won = n1 + n2, k1 + k2
    quadratic = ((n1 + 2 * n2) * d - total - won) / (3.0 * total)
    linear = ((n2 * d - total - 2 * k2) * d + won) / total
    constant = k2 * d * (1.0 - d) / total
    half = quadratic**3 - quadratic * linear / 2.0 + constant / 2.0
    radius = math.copysign(math.sqrt(max(0.0, quadratic**2 - linear / 3.0)), half)
    if radius == 0.0:
        p2 = -quadratic
    else:
        angle = (math.pi + math.acos(min(1.0, max(-1.0, half / radius**3)))) / 3.0
        p2 = 2.0 * radius * math.cos(angle) - quadratic
    p2 = min(max(p2, 0.0, -d), 1.0, 1.0 - d)
    return min(1.0, max(0.0, p2 + d)), p2


def _bisect(below: Callable[[float], bool], start: float) -> float:
    """Return where the score falls below -z between ``start``, where it is 0, and 1."""
    low, high = start, 1.0
    while True:
        middle = low + (high - low) / 2.0
        if middle <= low or middle >= high:
            return high
        if below(middle):
            high = middle
        else:
            low = middle
