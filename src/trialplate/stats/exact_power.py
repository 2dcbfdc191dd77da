"""The power of the test that decides, summed over every outcome it could see, and the first n that reaches it.

Definitions: statistics specification, sections 8 and 9. Pairs are matched; p10: chance of a pair of which only A
succeeds, p01: only B. Power has teeth: a few n above the first that reaches the target can lie below it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trialplate.stats.discordant import MAX_TRIALS, e_process_crossing, mcnemar_limits, trials
from trialplate.stats.distributions import normal_critical
from trialplate.stats.inputs import (
    Alternative,
    as_written,
    error_tail,
    fraction_inside,
    fraction_within,
    one_of,
    positive,
)
from trialplate.stats.power import PairChances, paired_sample_size
from trialplate.stats.results import Value

Variant = Literal["exact", "mid-p"]
VARIANTS: tuple[Variant, ...] = ("exact", "mid-p")
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
RESOLUTION = 1e-6
FROM_THE_START = 2000
"""Up to this many pairs by the closed formula, the search for the first n begins at 1."""


def mcnemar_power(n: int, p10: float, *, p01: float, alpha: float = 0.05, variant: Variant = "exact") -> Value:
    """Return the exact power of the two-sided McNemar test on n pairs: the sum over the trinomial distribution.

    Given m discordant pairs, b is binomial with p10/(p10 + p01), and the test rejects in both tails.
    """
    total = trials("n", n)
    pairs = PairChances.of(p10, p01)
    rejected = _mcnemar_given(total, pairs, alpha, variant)
    return Value(_over_discordant(rejected, total, pairs.discordance), None)


def mcnemar_detectable_difference(
    n: int, discordance: float, *, alpha: float = 0.05, power: float = 0.8, variant: Variant = "exact"
) -> Value:
    """Return the smallest difference that the two-sided test on n pairs with this discordance finds with ``power``.

    By exact power; ``minimum_detectable_difference`` is the closed formula. Good to a millionth, rounded up. Null
    with ``out_of_reach`` where even discordant pairs that all go one way are not found.
    """
    total, psi = trials("n", n), fraction_within("discordance", discordance)
    wanted = fraction_inside("power", power)

    failures = _most_failures(total, alpha, variant)

    def found(d: float) -> bool:
        theta = (psi + d) / (2.0 * psi) if psi else 0.5
        return _over_discordant(_rejected(failures, theta), total, psi) >= wanted

    low, high = 0.0, psi
    if not found(high):
        return Value(None, "out_of_reach")
    while high - low > RESOLUTION:
        middle = (low + high) / 2.0
        low, high = (low, middle) if found(middle) else (middle, high)
    return Value(high, None)


def mcnemar_sample_size(
    p10: float, p01: float, *, alpha: float = 0.05, power: float = 0.8, variant: Variant = "exact", deff: float = 1.0
) -> Value:
    """Return the first n at which the exact power reaches ``power``, times ``deff``, rounded up.

    Above 2,000 pairs by Connor's formula the search begins at nine tenths of them. Null with ``out_of_reach`` for
    p10 = p01 and where no n up to 20,000 will do.
    """
    pairs = PairChances.of(p10, p01)
    rough = paired_sample_size(p10, p01, alpha=alpha, power=power)
    limit = MAX_TRIALS if rough.n is None else min(MAX_TRIALS, 4 * rough.n + 200)
    if rough.n is None or rough.n > MAX_TRIALS:
        return Value(None, "out_of_reach")
    rejected = _mcnemar_given(limit, pairs, alpha, variant)
    start = _start(rough.n)
    return _first(lambda n: _over_discordant(rejected, n, pairs.discordance), start, limit, power, deff)


def paired_e_value_power(
    n: int, p10: float, *, p01: float, alpha: float = 0.05, alternative: Alternative = "two-sided"
) -> Value:
    """Return the exact chance that the e-process rejects within n pairs, discordant or not."""
    total = trials("n", n)
    pairs = PairChances.of(p10, p01)
    rejected = e_process_crossing(total, pairs.theta, as_written(fraction_inside("alpha", alpha)), alternative)
    return Value(_over_discordant(rejected, total, pairs.discordance), None)


def paired_e_value_sample_size(
    p10: float,
    p01: float,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    alternative: Alternative = "two-sided",
    deff: float = 1.0,
) -> Value:
    """Return the first n at which the e-process has ``power``, times ``deff``, rounded up; its power never falls.

    Null with ``out_of_reach`` for p10 = p01 and where no n up to 20,000 will do.
    """
    pairs = PairChances.of(p10, p01)
    wanted = fraction_inside("power", power)
    level = as_written(fraction_inside("alpha", alpha))
    low, high = 0, 64
    if pairs.difference == 0.0:
        return Value(None, "out_of_reach")
    while True:
        rejected = e_process_crossing(high, pairs.theta, level, alternative)
        if _over_discordant(rejected, high, pairs.discordance) >= wanted:
            break
        if high == MAX_TRIALS:
            return Value(None, "out_of_reach")
        low, high = high, min(2 * high, MAX_TRIALS)
    while high - low > 1:
        middle = (low + high) // 2
        reached = _over_discordant(rejected, middle, pairs.discordance) >= wanted
        low, high = (low, middle) if reached else (middle, high)
    return Value(math.ceil(high * as_written(positive("deff", deff))), None)


def noninferiority_power(n: int, p10: float, *, p01: float, margin: float, alpha: float = 0.05) -> Value:
    """Return the exact chance that Tango's lower bound at 1 - alpha lies above -margin after n pairs.

    The bound does when the score at -margin exceeds z_{alpha/2}; summed over the trinomial distribution, its far
    edges below 1e-15 left out. No pair: 0.
    """
    total = trials("n", n)
    pairs = PairChances.of(p10, p01)
    allowed = fraction_inside("margin", margin)
    critical = normal_critical(error_tail(alpha))
    return Value(_noninferiority(total, pairs, allowed, critical), None)


def noninferiority_sample_size(
    p10: float, p01: float, *, margin: float, alpha: float = 0.05, power: float = 0.8, deff: float = 1.0
) -> Value:
    """Return the first n at which ``noninferiority_power`` reaches ``power``, times ``deff``, rounded up.

    The search begins at the pairs that the margin needs without any discordant one; above 2,000 pairs by the normal
    approximation at nine tenths of them. Null with ``out_of_reach`` where A is worse by the margin and where no n up
    to 20,000 will do.
    """
    pairs = PairChances.of(p10, p01)
    allowed = fraction_inside("margin", margin)
    tail, wanted = error_tail(alpha), fraction_inside("power", power)
    critical = normal_critical(tail)
    room = allowed + pairs.difference
    if room <= 0.0:
        return Value(None, "out_of_reach")
    ratio = max(0.0, critical - normal_critical(wanted)) / room
    spread = pairs.discordance - pairs.difference**2
    rough = ratio * ratio * spread if spread > 0.0 else 0.0
    if rough > MAX_TRIALS:
        return Value(None, "out_of_reach")
    start = max(math.floor(critical**2 * (1.0 - allowed) / allowed), _start(int(rough)))
    limit = min(MAX_TRIALS, int(4.0 * rough) + 2 * start + 200)
    return _first(lambda n: _noninferiority(n, pairs, allowed, critical), start, limit, wanted, deff)


def _mcnemar_given(total: int, pairs: PairChances, alpha: object, variant: object) -> Floats:
    """Return the chance that m discordant pairs are rejected, for m = 0 .. ``total``."""
    return _rejected(_most_failures(total, alpha, variant), pairs.theta)


def _most_failures(total: int, alpha: object, variant: object) -> Whole:
    """Return the most pairs against an arm with which m discordant ones are rejected; -1 where none are."""
    one_of("variant", variant, VARIANTS)
    level = as_written(fraction_inside("alpha", alpha))
    limits = np.array(mcnemar_limits(total, level, mid_p=variant == "mid-p"), dtype=np.int64)
    return np.asarray(np.arange(total + 1) - limits, dtype=np.int64)


def _rejected(failures: Whole, theta: float) -> Floats:
    """Return the chance of at most that many of m pairs on either side, when each goes A's way with ``theta``."""
    from scipy import special

    some, rejected = failures >= 0, np.zeros(len(failures))
    for side in (theta, 1.0 - theta):
        rejected[some] += special.bdtr(failures[some].astype(np.float64), np.flatnonzero(some), side)
    return rejected


def _over_discordant(given: Floats, n: int, discordance: float) -> float:
    """Return the mean of ``given`` over the binomial number of discordant pairs among n."""
    m = _likely(n, discordance)
    return min(1.0, float((_binomial_point(m, n, discordance) * given[m]).sum()))


def _likely(n: int, chance: float) -> Whole:
    """Return the counts within 13 deviations and 40 of the mean of Binomial(n, chance): all but about 1e-16 of it."""
    reach = 13.0 * math.sqrt(n * chance * (1.0 - chance)) + 40.0
    return np.arange(max(0, math.floor(n * chance - reach)), min(n, math.ceil(n * chance + reach)) + 1)


def _noninferiority(n: int, pairs: PairChances, margin: float, critical: float) -> float:
    """Return the chance of b and c whose Tango score at -margin is above ``critical``.

    For every b that is a range c <= c(b), found by halving for all b at once.
    """
    from scipy import special

    if n == 0:
        return 0.0
    b = _likely(n, pairs.p10)
    low, high = np.full(len(b), -1), n - b + 1
    while (open_ := high - low > 1).any():
        middle = np.where(open_, (low + high) // 2, low)
        clears = _clears_margin(b, middle, n, margin, critical)
        low, high = np.where(open_ & clears, middle, low), np.where(open_ & ~clears, middle, high)
    some = low >= 0
    rest = n - b[some]
    chance_b = _binomial_point(b[some], n, pairs.p10)
    only_b = min(1.0, pairs.p01 / (1.0 - pairs.p10)) if pairs.p10 < 1.0 else 0.0
    return float((chance_b * special.bdtr(np.minimum(low[some], rest).astype(np.float64), rest, only_b)).sum())


def _clears_margin(b: Whole, c: Whole, n: int, margin: float, critical: float) -> NDArray[np.bool_]:
    """Return whether Tango's score at the difference -margin exceeds the critical value."""
    linear = -(2 * n - b + c) * margin - b - c
    constant = c * margin * (1.0 + margin)
    q = (np.sqrt(np.maximum(0.0, linear * linear - 8.0 * n * constant)) - linear) / (4.0 * n)
    variance = n * (2.0 * q - margin * (1.0 + margin))
    return np.asarray((b - c) + n * margin > critical * np.sqrt(np.maximum(0.0, variance)))


def _binomial_point(k: Whole, n: int, chance: float) -> Floats:
    from scipy import special

    if chance in (0.0, 1.0):
        return np.asarray(k == n * chance, dtype=np.float64)
    ways = special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0)
    return np.asarray(np.exp(ways + k * math.log(chance) + (n - k) * math.log1p(-chance)))


def _start(rough: int) -> int:
    return 1 if rough <= FROM_THE_START else 9 * rough // 10


def _first(power_of: Callable[[int], float], start: int, limit: int, wanted: object, deff: object) -> Value:
    target, factor = fraction_inside("power", wanted), as_written(positive("deff", deff))
    for n in range(start, limit + 1):
        if power_of(n) >= target:
            return Value(math.ceil(n * Fraction(factor)), None)
    return Value(None, "out_of_reach")
