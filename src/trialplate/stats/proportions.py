"""One rate, one incident rate: the interval, the bound and the number of trials they need.

Definitions: statistics specification, section 4. Show Wilson, gate on Clopper-Pearson: robots live near the
ceiling, where Wilson covers least.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from trialplate.errors import StatsInputError
from trialplate.stats.distributions import (
    beta_exceeds_beta,
    beta_quantile,
    beta_upper_quantile,
    gamma_quantile,
    gamma_upper_quantile,
    normal_critical,
)
from trialplate.stats.inputs import (
    MAX_COUNT,
    Side,
    as_written,
    count,
    fraction_inside,
    part_of,
    positive,
    real,
    tail_area,
)
from trialplate.stats.results import Interval, Reason, Result, Value

MAX_POSTERIOR_N = 1_000_000


@dataclass(frozen=True, slots=True)
class Posterior(Result):
    """Mean and central interval of a beta posterior. Descriptive: it feeds no gate."""

    mean: float | None
    low: float | None
    high: float | None
    reason: Reason | None


def wilson_interval(k: int, n: int, *, confidence: float = 0.95, side: Side = "two-sided") -> Interval:
    """Return the Wilson score interval of k successes in n independent attempts.

    ``side="lower"`` or ``"upper"`` spends the whole error on that limit and puts 1 or 0 at the other end. n = 0
    gives nulls with ``no_attempts``. Raises ``StatsInputError`` when k, n, confidence or side is not valid.
    """
    return _rate_interval(k, n, side=side, tail=tail_area(confidence, side), limits=_wilson_tails)


def clopper_pearson_interval(k: int, n: int, *, confidence: float = 0.95, side: Side = "two-sided") -> Interval:
    """Return the exact binomial interval of k successes in n independent attempts.

    Its coverage is never below the nominal one. Sides, nulls and errors as in :func:`wilson_interval`.
    """
    return _rate_interval(k, n, side=side, tail=tail_area(confidence, side), limits=clopper_pearson_limits)


def jeffreys_interval(k: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Return the equal-tailed interval of Beta(k + 1/2, n - k + 1/2), with 0 at k = 0 and 1 at k = n."""
    return _rate_interval(k, n, side="two-sided", tail=tail_area(confidence), limits=_jeffreys_limits)


def beta_posterior(
    k: int, n: int, *, confidence: float = 0.95, prior_a: float = 1.0, prior_b: float = 1.0
) -> Posterior:
    """Return mean and equal-tailed interval of the rate under a Beta(prior_a, prior_b) prior.

    n = 0 gives nulls with ``no_attempts``: a prior is not a result. Raises ``StatsInputError`` for a prior
    parameter that is not positive.
    """
    tail = tail_area(confidence)
    some, total = part_of("k", k, whole_argument="n", whole=n)
    a, b = positive("prior_a", prior_a) + some, positive("prior_b", prior_b) + (total - some)
    if total == 0:
        return Posterior(None, None, None, "no_attempts")
    return Posterior(a / (a + b), beta_quantile(tail, a, b), beta_upper_quantile(tail, a, b), None)


def probability_greater(k1: int, n1: int, *, k2: int, n2: int) -> Value:
    """Return the posterior probability that rate 1 exceeds rate 2, uniform priors, independent arms.

    Descriptive: it feeds no gate. An arm without attempts gives null with ``no_attempts``. Raises
    ``StatsInputError`` above 1,000,000 attempts in an arm, where the closed form has too many terms.
    """
    some1, total1 = part_of("k1", k1, whole_argument="n1", whole=n1)
    some2, total2 = part_of("k2", k2, whole_argument="n2", whole=n2)
    for argument, total in (("n1", total1), ("n2", total2)):
        if total > MAX_POSTERIOR_N:
            raise StatsInputError(argument, f"expected at most {MAX_POSTERIOR_N}, got {total}")
    if total1 == 0 or total2 == 0:
        return Value(None, "no_attempts")
    return Value(beta_exceeds_beta(some1 + 1, total1 - some1 + 1, some2 + 1, total2 - some2 + 1), None)


def zero_failure_sample_size(rate: float, confidence: float) -> Value:
    """Return the smallest n for which n successes without a failure demonstrate ``rate``.

    That is the first n with rate^n <= 1 - confidence: 59 for .95 at 95 %. Above 2^53 - 1 trials the answer is
    null with ``out_of_reach``.
    """
    wanted = as_written(fraction_inside("rate", rate))
    return runs_until(wanted, tail_area(confidence, "lower"))


def poisson_rate_interval(events: int, exposure: float, *, confidence: float = 0.95) -> Interval:
    """Return the Garwood interval of ``events`` per unit of ``exposure`` (hours, kilometres, ...).

    Exposure counts excluded episodes too. Exposure 0 gives nulls with ``no_exposure``.
    """
    seen = count("events", events)
    span = real("exposure", exposure, minimum=0.0)
    tail = tail_area(confidence)
    if span == 0.0:
        return Interval(None, None, None, "no_exposure")
    low = gamma_quantile(tail, seen) / span if seen else 0.0
    return Interval(seen / span, low, gamma_upper_quantile(tail, seen + 1) / span, None)


def wilson_limits(x: float, n: float, critical: float) -> tuple[float, float]:
    """Return the two Wilson limits of x successes in n > 0 (neither need be whole) at a critical value.

    The lower root comes from the product of the roots, x^2/(n(n + z^2)), and the upper root above one half from
    its mirror: no cancellation at either end, and never outside [0, 1].
    """
    return _wilson_low(x, n, critical), (
        _wilson_high(x, n, critical) if 2 * x <= n else 1.0 - _wilson_low(n - x, n, critical)
    )


def clopper_pearson_limits(x: float, n: float, tail: float) -> tuple[float, float]:
    """Return the beta quantiles that leave ``tail`` outside each limit for x successes in n > 0."""
    low = beta_quantile(tail, x, n - x + 1) if x > 0 else 0.0
    return low, beta_upper_quantile(tail, x + 1, n - x) if x < n else 1.0


def _rate_interval(
    k: int, n: int, *, side: Side, tail: float, limits: Callable[[float, float, float], tuple[float, float]]
) -> Interval:
    some, total = part_of("k", k, whole_argument="n", whole=n)
    if tail > 0.5:
        raise StatsInputError("confidence", "a one-sided limit needs at least .5, else it passes the estimate")
    if total == 0:
        return Interval(None, None, None, "no_attempts")
    low, high = limits(some, total, tail)
    return Interval(some / total, 0.0 if side == "upper" else low, 1.0 if side == "lower" else high, None)


def _wilson_tails(x: float, n: float, tail: float) -> tuple[float, float]:
    return wilson_limits(x, n, normal_critical(tail))


def _wilson_numerator(x: float, n: float, critical: float) -> float:
    square = critical * critical
    return x + square / 2.0 + critical * math.sqrt(x * ((n - x) / n) + square / 4.0)


def _wilson_low(x: float, n: float, critical: float) -> float:
    return x * (x / n) / _wilson_numerator(x, n, critical) if x > 0 else 0.0


def _wilson_high(x: float, n: float, critical: float) -> float:
    return _wilson_numerator(x, n, critical) / (n + critical * critical)


def _jeffreys_limits(x: float, n: float, tail: float) -> tuple[float, float]:
    a, b = x + 0.5, n - x + 0.5
    low = beta_quantile(tail, a, b) if x > 0 else 0.0
    return low, beta_upper_quantile(tail, a, b) if x < n else 1.0


def runs_until(chance: Fraction, tail: float) -> Value:
    """Return the smallest n with chance^n <= tail; a quotient within rounding of a whole number is that number."""
    log_chance = math.log1p(-float(1 - chance)) if 2 * chance > 1 else math.log(chance)
    runs = math.log(tail) / log_chance
    if not runs <= MAX_COUNT:
        return Value(None, "out_of_reach")
    nearest = round(runs)
    exact = nearest >= 1 and abs(runs - nearest) <= 1e-12 * nearest
    return Value(nearest if exact else math.ceil(runs), None)
