"""Looking while the trials run: what peeking costs, and the rules that may be applied after every pair.

Definitions: statistics specification, section 8. Discordant pairs are taken in schedule order; b: only A succeeded,
c: only B did. The e-values are valid when, given the past, a discordant pair goes either way with probability 1/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trialplate.errors import StatsInputError
from trialplate.stats.discordant import (
    chance_of_crossing,
    e_process_crossing,
    e_value_limits,
    mcnemar_limits,
    mixture_limits,
    trials,
)
from trialplate.stats.distributions import log_half_binomial_cdf
from trialplate.stats.inputs import (
    ALTERNATIVES,
    Alternative,
    as_written,
    count,
    flags,
    fraction_inside,
    fraction_within,
    one_of,
    part_of,
    tail_area,
)
from trialplate.stats.results import Interval, Reason, Result, Value

MAX_E_VALUE = 2.0**53
"""Above this the e-value itself is null with ``out_of_reach``: JSON cannot tell it from a neighbour."""
MAX_MIXTURE_TRIALS = 10_000
SMALLEST_P = 5e-324
"""What a p-value that underflows is printed as: it is small, never 0."""


@dataclass(frozen=True, slots=True)
class EValue(Result):
    """The e-value and its natural logarithm; the e-value alone is null where it is beyond 2^53."""

    e_value: float | None
    log_e_value: float
    reason: Reason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EProcess(Result):
    """Evidence over the discordant pairs in their order.

    ``p_value``: min(1, 1/max e), valid whenever one looks. ``rejected``: e reached 1/alpha; ``decided_after``:
    the discordant pairs until then, or all of them.
    """

    b: int
    c: int
    log_e_value: float
    max_log_e_value: float
    p_value: float
    rejected: bool
    decided_after: int
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class SprtBounds(Result):
    """Wald's two bounds on the log-likelihood ratio, and what a success and a failure add to it."""

    upper: float
    lower: float
    success_increment: float
    failure_increment: float
    reason: Reason | None = None


def peeking_error(discordant: int, *, first_look: int = 10, alpha: float = 0.05) -> Value:
    """Return the exact type-I error of the exact McNemar test looked at after every discordant pair.

    Looks begin with pair ``first_look`` and end with pair ``discordant``. Raises ``StatsInputError`` above 20,000.
    """
    total = trials("discordant", discordant)
    first = count("first_look", first_look, minimum=1)
    limits = mcnemar_limits(total, as_written(fraction_inside("alpha", alpha)))
    limits[:first] = [m + 1 for m in range(min(first, total + 1))]
    return Value(float(chance_of_crossing(0.5, limits, limits)[total]), None)


def paired_e_value(b: int, c: int, *, alternative: Alternative = "two-sided") -> EValue:
    """Return the e-value against discordant pairs that go either way alike, uniform mixture.

    Two-sided: 2^m B(1 + b, 1 + c), m = b + c. ``greater`` (A succeeds more often): 2^(m+1) B(1 + b, 1 + c) times
    P[Beta(1 + b, 1 + c) > 1/2]; ``less`` is its mirror. Without discordant pairs it is 1.
    """
    only_a, only_b = count("b", b, maximum=10**9), count("c", c, maximum=10**9)
    one_of("alternative", alternative, ALTERNATIVES)
    log_e = _log_e_value(only_a, only_b, alternative)
    if log_e > math.log(MAX_E_VALUE):
        return EValue(None, log_e, "out_of_reach")
    return EValue(math.exp(log_e), log_e, None)


def paired_e_process(
    only_a: Sequence[int], *, alpha: float = 0.05, alternative: Alternative = "two-sided"
) -> EProcess:
    """Return the e-process over discordant pairs in schedule order: 1 where A alone succeeded, 0 where B alone did.

    Rejection is decided in whole numbers. No discordant pair yet: e = 1, p = 1. Raises ``StatsInputError`` above
    20,000 pairs.
    """
    one_of("alternative", alternative, ALTERNATIVES)
    level = as_written(fraction_inside("alpha", alpha))
    outcomes = flags("only_a", only_a)
    total = trials("only_a", len(outcomes))
    limits = e_value_limits(total, level, two_sided=alternative == "two-sided")
    b = c = decided = 0
    log_e = highest = 0.0
    for m, won in enumerate(outcomes, start=1):
        b, c = b + won, c + (not won)
        log_e = _log_e_value(b, c, alternative)
        highest = max(highest, log_e)
        best = {"two-sided": max(b, c), "greater": b, "less": c}[alternative]
        if not decided and best >= limits[m]:
            decided = m
    return EProcess(
        b=b,
        c=c,
        log_e_value=log_e,
        max_log_e_value=highest,
        p_value=max(math.exp(-highest), SMALLEST_P),
        rejected=decided > 0,
        decided_after=decided or total,
    )


def paired_e_value_error(
    discordant: int, *, theta: float = 0.5, alpha: float = 0.05, alternative: Alternative = "two-sided"
) -> Value:
    """Return the exact chance that e reaches 1/alpha within ``discordant`` pairs that go A's way with ``theta``.

    theta = 1/2: the type-I error, at most alpha however many pairs. Otherwise the power.
    """
    total = trials("discordant", discordant)
    chance = fraction_within("theta", theta)
    level = as_written(fraction_inside("alpha", alpha))
    return Value(float(e_process_crossing(total, chance, level, alternative)[total]), None)


def confidence_sequence(k: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Return the interval of a rate that holds at every n at once: {p: B(1+k, 1+n-k)/(p^k (1-p)^(n-k)) < 1/alpha}.

    It may be printed while trials run. No attempts: null with ``no_attempts``.
    """
    some, total = part_of("k", k, whole_argument="n", whole=n)
    tail = tail_area(confidence, "lower")
    if total == 0:
        return Interval(None, None, None, "no_attempts")
    low, high = _sequence_low(some, total, tail), 1.0 - _sequence_low(total - some, total, tail)
    return Interval(some / total, low, high, None)


def confidence_sequence_error(p: float, n: int, *, confidence: float = 0.95) -> Value:
    """Return the exact chance that the confidence sequence ever misses the true rate p within n episodes."""
    rate = as_written(fraction_inside("p", p))
    total = count("n", n, maximum=MAX_MIXTURE_TRIALS)
    alpha = 1 - as_written(fraction_inside("confidence", confidence))
    above, below = mixture_limits(total, rate, alpha), mixture_limits(total, 1 - rate, alpha)
    return Value(float(chance_of_crossing(float(rate), above, below)[total]), None)


def sprt_bounds(p0: float, p1: float, *, alpha: float = 0.05, beta: float = 0.2) -> SprtBounds:
    """Return Wald's bounds ln((1-beta)/alpha), ln(beta/(1-alpha)) and increments ln(p1/p0), ln((1-p1)/(1-p0)).

    For qualification only. Raises ``StatsInputError`` for p0 = p1 and for alpha + beta >= 1.
    """
    rate0, rate1 = fraction_inside("p0", p0), fraction_inside("p1", p1)
    first, second = fraction_inside("alpha", alpha), fraction_inside("beta", beta)
    if rate0 == rate1:
        raise StatsInputError("p1", f"is p0 = {rate0!r}: there is nothing to tell apart")
    if first + second >= 1.0:
        raise StatsInputError("beta", f"alpha + beta = {first + second!r}, expected less than 1")
    return SprtBounds(
        math.log((1.0 - second) / first),
        math.log(second / (1.0 - first)),
        math.log(rate1 / rate0),
        math.log((1.0 - rate1) / (1.0 - rate0)),
    )


def _log_e_value(b: int, c: int, alternative: Alternative) -> float:
    if alternative == "less":
        return _log_e_value(c, b, "greater")
    m = b + c
    log_beta = math.lgamma(b + 1.0) + math.lgamma(c + 1.0) - math.lgamma(m + 2.0)
    if alternative == "two-sided":
        return m * math.log(2.0) + log_beta
    return (m + 1) * math.log(2.0) + log_beta + log_half_binomial_cdf(b, m + 1)


def _sequence_low(k: int, n: int, alpha: float) -> float:
    """Return the lower limit; the mixture likelihood ratio falls from infinity at 0 to its least at k/n."""
    if k == 0:
        return 0.0
    level = math.lgamma(k + 1.0) + math.lgamma(n - k + 1.0) - math.lgamma(n + 2.0) + math.log(alpha)

    def inside(p: float) -> bool:
        return level < k * math.log(p) + ((n - k) * math.log1p(-p) if k < n else 0.0)

    return _first_inside(inside, k / n)


def _first_inside(inside: Callable[[float], bool], top: float) -> float:
    low, high = 0.0, top
    while True:
        middle = low + (high - low) / 2.0
        if middle <= low or middle >= high:
            return high
        low, high = (low, middle) if inside(middle) else (middle, high)
