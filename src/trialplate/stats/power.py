"""How many trials: closed formulas, for a first idea and for what the exact sums do not reach.

Definitions: statistics specification, section 9. Effects are registered before the trials; power is never computed
from an observed one. ``deff`` is the registered design effect, by which every n is multiplied.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trialplate.errors import StatsInputError
from trialplate.stats.distributions import normal_critical, normal_upper_tail
from trialplate.stats.inputs import (
    MAX_COUNT,
    as_written,
    error_tail,
    fraction_inside,
    fraction_within,
    positive,
)
from trialplate.stats.results import Reason, Result, Value


@dataclass(frozen=True, slots=True)
class SampleSize(Result):
    """What the formula gives, and the whole number of trials (pairs, episodes of each arm) at or above it."""

    n_exact: float | None
    n: int | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class PairChances:
    """The registered effect: chance of a pair of which only A, and of which only B succeeds."""

    p10: float
    p01: float

    @classmethod
    def of(cls, p10: object, p01: object) -> PairChances:
        """Check both; together they are at most 1."""
        a, b = fraction_within("p10", p10), fraction_within("p01", p01)
        if as_written(a) + as_written(b) > 1:
            raise StatsInputError("p10", f"p10 + p01 = {a + b!r} is more than 1")
        return cls(a, b)

    @property
    def discordance(self) -> float:
        """Chance of a discordant pair, psi."""
        return float(as_written(self.p10) + as_written(self.p01))

    @property
    def difference(self) -> float:
        """How much more often A succeeds, d."""
        return float(as_written(self.p10) - as_written(self.p01))

    @property
    def theta(self) -> float:
        """Chance that a discordant pair is one of A."""
        return self.p10 / self.discordance if self.discordance else 0.5


def two_proportion_sample_size(
    p1: float, p2: float, *, alpha: float = 0.05, power: float = 0.8, deff: float = 1.0
) -> SampleSize:
    """Return the episodes of each arm that tell rate p1 from p2, unmatched, two-sided, pooled variance.

    n = (z_{alpha/2} sqrt(2 p q) + z_beta sqrt(p1 q1 + p2 q2))^2 / (p1 - p2)^2, p = (p1 + p2)/2. Equal rates: null
    with ``out_of_reach``. The exact test needs its own power: ``boschloo_power``.
    """
    first, second = fraction_within("p1", p1), fraction_within("p2", p2)
    mean = (first + second) / 2.0
    z_alpha, z_beta = _criticals(alpha, power)
    null = math.sqrt(2.0 * mean * (1.0 - mean))
    alternative = math.sqrt(first * (1.0 - first) + second * (1.0 - second))
    return _sample_size(z_alpha * null + z_beta * alternative, first - second, deff)


def paired_sample_size(
    p10: float, p01: float, *, alpha: float = 0.05, power: float = 0.8, deff: float = 1.0
) -> SampleSize:
    """Return the pairs that tell p10 from p01, two-sided: Connor's formula, Biometrics 43 (1987) 207.

    n = (z_{alpha/2} sqrt(psi) + z_beta sqrt(psi - d^2))^2 / d^2, psi = p10 + p01, d = p10 - p01. The exact test needs
    more: ``mcnemar_sample_size``. d = 0: null with ``out_of_reach``.
    """
    pairs = PairChances.of(p10, p01)
    z_alpha, z_beta = _criticals(alpha, power)
    psi, d = pairs.discordance, pairs.difference
    return _sample_size(z_alpha * math.sqrt(psi) + z_beta * math.sqrt(max(0.0, psi - d * d)), d, deff)


def noninferiority_pairs(
    discordance: float, margin: float, *, alpha: float = 0.05, power: float = 0.8, deff: float = 1.0
) -> SampleSize:
    """Return the pairs that show "not worse by more than ``margin``" of two equal arms.

    n = (z_{alpha/2} + z_beta)^2 psi / margin^2, the lower end of a two-sided interval deciding. Without discordant
    pairs the formula gives 0, where Tango's bound still needs more than z^2 (1 - margin)/margin pairs: see
    ``noninferiority_sample_size``.
    """
    psi = fraction_within("discordance", discordance)
    allowed = fraction_inside("margin", margin)
    z_alpha, z_beta = _criticals(alpha, power)
    return _sample_size((z_alpha + z_beta) * math.sqrt(psi), allowed, deff)


def minimum_detectable_difference(
    n: float, discordance: float, *, deff: float = 1.0, alpha: float = 0.05, power: float = 0.8
) -> Value:
    """Return the smallest difference that n pairs with this discordance would find: Connor's formula, inverted.

    Null with ``out_of_reach`` where even d = psi, all discordant pairs one way, is not found.
    """
    pairs = positive("n", n) / positive("deff", deff)
    psi = fraction_within("discordance", discordance)
    z_alpha, z_beta = _criticals(alpha, power)

    def found(d: float) -> bool:
        needed = z_alpha * math.sqrt(psi) + z_beta * math.sqrt(max(0.0, psi - d * d))
        return needed <= d * math.sqrt(pairs)

    if psi == 0.0 or not found(psi):
        return Value(None, "out_of_reach")
    low, high = 0.0, psi
    while low < (middle := low + (high - low) / 2.0) < high:
        low, high = (low, middle) if found(middle) else (middle, high)
    return Value(high, None)


def around_half(difference: float) -> tuple[float, float]:
    """Return the two rates that lie ``difference`` apart, evenly around one half."""
    return 0.5 + difference / 2.0, 0.5 - difference / 2.0


def two_proportion_detectable_difference(
    n1: float, n2: float, *, baseline: float | None = None, alpha: float = 0.05, power: float = 0.8
) -> Value:
    """Return the smallest difference that n1 and n2 independent episodes would find, by the normal approximation.

    For arms too large for ``boschloo_detectable_difference``, with the same meaning of ``baseline``. The variance
    under the null is that of the mean rate. Null with ``out_of_reach`` where no possible difference is found.
    """
    first, second = positive("n1", n1), positive("n2", n2)
    fixed = None if baseline is None else fraction_inside("baseline", baseline)
    z_alpha, z_beta = _criticals(alpha, power)

    def found(d: float) -> bool:
        p1, p2 = around_half(d) if fixed is None else (fixed + d, fixed)
        mean = (first * p1 + second * p2) / (first + second)
        null = math.sqrt(max(0.0, mean * (1.0 - mean) * (1.0 / first + 1.0 / second)))
        spread = math.sqrt(max(0.0, p1 * (1.0 - p1) / first + p2 * (1.0 - p2) / second))
        return z_alpha * null + z_beta * spread <= d

    low, high = 0.0, 1.0 if fixed is None else 1.0 - fixed
    if not found(high):
        return Value(None, "out_of_reach")
    while low < (middle := low + (high - low) / 2.0) < high:
        low, high = (low, middle) if found(middle) else (middle, high)
    return Value(high, None)


def two_proportion_power(n1: float, p1: float, *, n2: float, p2: float, alpha: float = 0.05) -> Value:
    """Return the chance that n1 and n2 independent episodes tell rate p1 from p2, by the normal approximation.

    The side that the difference points to, as in the sample size. For arms too large for ``boschloo_power``.
    """
    first, second = positive("n1", n1), positive("n2", n2)
    rate1, rate2 = fraction_within("p1", p1), fraction_within("p2", p2)
    mean = (first * rate1 + second * rate2) / (first + second)
    null = normal_critical(error_tail(alpha)) * math.sqrt(mean * (1.0 - mean) * (1.0 / first + 1.0 / second))
    spread = math.sqrt(rate1 * (1.0 - rate1) / first + rate2 * (1.0 - rate2) / second)
    room = abs(rate1 - rate2) - null
    if spread == 0.0:
        return Value(1.0 if room > 0.0 else 0.0, None)
    return Value(normal_upper_tail(-room / spread), None)


def _criticals(alpha: object, power: object) -> tuple[float, float]:
    return normal_critical(error_tail(alpha)), -normal_critical(fraction_inside("power", power))


def _sample_size(root: float, effect: float, deff: object) -> SampleSize:
    factor = positive("deff", deff)
    if effect == 0.0:
        return SampleSize(None, None, "out_of_reach")
    ratio = max(0.0, root) / effect  # a power below the error rate asks for nothing
    needed = ratio * ratio * factor
    if not needed <= MAX_COUNT:
        return SampleSize(None, None, "out_of_reach")
    return SampleSize(needed, math.ceil(needed), None)
