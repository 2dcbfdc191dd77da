"""Quantiles by a named rule, and the order statistics that bound them without any assumption on the distribution.

Definitions: statistics specification, section 4. A bound that no observed value can give is null, never the maximum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from trialplate.stats.distributions import binomial_cdf, binomial_quantile
from trialplate.stats.inputs import (
    Side,
    as_written,
    count,
    fraction_inside,
    fraction_within,
    one_of,
    reals,
    tail_area,
)
from trialplate.stats.proportions import runs_until
from trialplate.stats.results import Interval, Reason, Result, Value

_POSITIONS = {
    "interpolated_inverted_cdf": (Fraction(0), Fraction(1)),
    "hazen": (Fraction(1, 2), Fraction(1, 2)),
    "weibull": (Fraction(0), Fraction(0)),
    "linear": (Fraction(1), Fraction(1)),
    "median_unbiased": (Fraction(1, 3), Fraction(1, 3)),
    "normal_unbiased": (Fraction(3, 8), Fraction(3, 8)),
}
QUANTILE_METHODS = ("inverted_cdf", *_POSITIONS)
"""The Hyndman-Fan rules 1 and 4 to 9, under the names that numpy gives them."""


@dataclass(frozen=True, slots=True)
class RankInterval(Result):
    """1-based ranks of the two order statistics around a quantile, and the exact coverage between them.

    ``coverage`` is null when a rank is: half an interval has another coverage than the registered one.
    """

    rank_low: int | None
    rank_high: int | None
    coverage: float | None
    reason: Reason | None


def quantile_bound_min_n(q: float, *, confidence: float = 0.95, side: Side = "two-sided") -> Value:
    """Return the smallest n whose order statistics bound the q-quantile.

    ``"upper"``: q^n <= 1 - c. ``"lower"``: (1 - q)^n <= 1 - c. ``"two-sided"``: both limits finite at half the
    error each, which the end nearer to q decides. Above 2^53 - 1 values it is null with ``out_of_reach``.
    """
    level = as_written(fraction_inside("q", q))
    deciding = {"upper": level, "lower": 1 - level, "two-sided": max(level, 1 - level)}
    tail = tail_area(confidence, side)
    return runs_until(deciding[side], tail)


def order_statistic_interval(n: int, q: float, *, confidence: float = 0.95) -> RankInterval:
    """Return the 1-based ranks whose order statistics enclose the q-quantile of n independent values.

    Ranks are ppf(alpha/2) and ppf(1 - alpha/2) + 1 of Binomial(n, q). A rank outside 1 .. n is null with
    ``no_finite_upper_bound`` (named first when both are) or ``no_finite_lower_bound``, never the extreme value.
    n = 0 gives ``no_values``.
    """
    total = count("n", n)
    level = fraction_inside("q", q)
    tail = tail_area(confidence)
    if total == 0:
        return RankInterval(None, None, None, "no_values")
    low = binomial_quantile(tail, total, level)
    high = binomial_quantile(float(1 - as_written(tail)), total, level) + 1
    if low < 1 or high > total:
        reason: Reason = "no_finite_upper_bound" if high > total else "no_finite_lower_bound"
        return RankInterval(low if low >= 1 else None, high if high <= total else None, None, reason)
    coverage = binomial_cdf(high - 1, total, level) - binomial_cdf(low - 1, total, level)
    return RankInterval(low, high, coverage, None)


def quantile(values: Sequence[float], q: float, *, method: str = "linear") -> Value:
    """Return the q-quantile of finite ``values`` by a named rule of ``QUANTILE_METHODS``; default type 7.

    The position in the sorted values is computed exactly from q as written, so that .07 of 100 values is the
    seventh, not the eighth. Empty values give null with ``no_values``.
    """
    one_of("method", method, QUANTILE_METHODS)
    level = fraction_within("q", q)
    ordered = sorted(reals("values", values))
    if not ordered:
        return Value(None, "no_values")
    last = len(ordered) - 1
    exact = as_written(level)
    if method == "inverted_cdf":
        return Value(ordered[max(0, math.ceil(exact * len(ordered)) - 1)], None)
    alpha, beta = _POSITIONS[method]
    position = exact * len(ordered) + alpha + exact * (1 - alpha - beta) - 1
    position = min(max(position, Fraction(0)), Fraction(last))
    below = math.floor(position)
    start, end = ordered[below], ordered[min(below + 1, last)]
    share = position - below
    step = (end - start) * float(share) if 2 * share < 1 else (end - start) * float(1 - share)
    return Value(start + step if 2 * share < 1 else end - step, None)


def quantile_interval(
    values: Sequence[float], q: float, *, confidence: float = 0.95, method: str = "linear"
) -> Interval:
    """Return the q-quantile of the values with the order statistics that bound it, whatever the distribution.

    A bound that would need more values is null, with ``no_finite_upper_bound`` (named first) or
    ``no_finite_lower_bound``; the estimate stands. Empty values: ``no_values``.
    """
    estimate = quantile(values, q, method=method).value
    ordered = sorted(reals("values", values))
    ranks = order_statistic_interval(len(ordered), q, confidence=confidence)
    low = None if ranks.rank_low is None else ordered[ranks.rank_low - 1]
    high = None if ranks.rank_high is None else ordered[ranks.rank_high - 1]
    return Interval(estimate, low, high, ranks.reason)
