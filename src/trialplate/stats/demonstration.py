"""Demonstrating a rate: how many of n must pass, and how good a policy must be for that to happen.

Definitions: statistics specification, sections 3 and 4. The rule is the one of the gate: the one-sided
Clopper-Pearson limit of k in n is at least the registered rate. It rises with k, and with n at a fixed number of
failures, so that the first of each is found by halving.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from trialplate.stats.distributions import beta_quantile, binomial_cdf
from trialplate.stats.inputs import as_written, count, fraction_inside, part_of, positive
from trialplate.stats.proportions import clopper_pearson_interval
from trialplate.stats.results import Value

MAX_EPISODES = 2**31


def demonstration_sample_size(rate: float, confidence: float, *, failures: int = 0, deff: float = 1.0) -> Value:
    """Return the smallest n of which n - ``failures`` passes demonstrate ``rate``, times ``deff``, rounded up.

    59 for .95 at 95 % without a failure, 93 with one. Null with ``out_of_reach`` above 2^31 episodes.
    """
    wanted, allowed = fraction_inside("rate", rate), count("failures", failures, maximum=10_000)
    factor = as_written(positive("deff", deff))
    low, high = allowed, allowed + 1
    while not _demonstrates(high - allowed, high, wanted, confidence):
        low, high = high, 2 * high
        if high > MAX_EPISODES:
            return Value(None, "out_of_reach")
    first = _first(lambda n: _demonstrates(n - allowed, n, wanted, confidence), low, high)
    return Value(math.ceil(first * factor), None)


def demonstration_passes(n: int, rate: float, *, confidence: float = 0.95) -> Value:
    """Return the fewest passes in n that demonstrate ``rate``; null (``out_of_reach``) where even n are too few."""
    total, wanted = count("n", n), fraction_inside("rate", rate)
    if total == 0:
        return Value(None, "no_attempts")
    if not _demonstrates(total, total, wanted, confidence):
        return Value(None, "out_of_reach")
    return Value(_first(lambda k: _demonstrates(k, total, wanted, confidence), 0, total), None)


def rate_for_passes(k: int, n: int, *, power: float = 0.8) -> Value:
    """Return the true rate at which k or more of n independent episodes pass with chance ``power``."""
    some, total = part_of("k", k, whole_argument="n", whole=n)
    chance = fraction_inside("power", power)
    if some == 0:
        return Value(None, "no_values" if total else "no_attempts")
    return Value(beta_quantile(chance, some, total - some + 1), None)


def chance_of_passes(k: int, n: int, *, rate: float) -> Value:
    """Return the chance that k or more of n independent episodes pass at a true ``rate``."""
    some, total = part_of("k", k, whole_argument="n", whole=n)
    return Value(binomial_cdf(total - some, total, 1.0 - fraction_inside("rate", rate)), None)


def _demonstrates(k: int, n: int, rate: float, confidence: float) -> bool:
    low = clopper_pearson_interval(k, n, confidence=confidence, side="lower").low
    return low is not None and low >= rate


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first whole number above ``low`` that holds; ``high`` does, and so does everything above it."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
