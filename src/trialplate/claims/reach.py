"""What so many episodes can find: by the exact test up to a size, and by a closed formula beyond it.

Definitions: statistics specification, section 9. The size decides which, never the results; the method is named.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from trialplate import stats
from trialplate.stats.discordant import MAX_TRIALS
from trialplate.stats.exact_unpaired import MAX_EXACT_EPISODES
from trialplate.stats.power import around_half


@dataclass(frozen=True, slots=True)
class Planned:
    """A number and the method that gave it, a key of ``counts_wording.METHODS``."""

    value: float | None
    method: str
    reason: str | None


def registered_rates(effect: float, baseline: float | None) -> tuple[float, float]:
    """Return the rates of A and B that lie ``effect`` apart: B at the baseline, or both around one half."""
    return around_half(effect) if baseline is None else (baseline + effect, baseline)


def pair_chances(discordance: float, effect: float) -> tuple[float, float]:
    """Return the chances of a pair of which only A, and of which only B passes."""
    psi, d = Fraction(repr(discordance)), Fraction(repr(effect))
    return float((psi + d) / 2), float((psi - d) / 2)


def detectable(n_a: int, n_b: int, *, baseline: float | None, alpha: float, power: float) -> Planned:
    """Return the smallest difference that so many independent episodes find."""
    if max(n_a, n_b) <= MAX_EXACT_EPISODES:
        exact = stats.boschloo_detectable_difference(n_a, n_b, baseline=baseline, alpha=alpha, power=power)
        return Planned(exact.value, "boschloo_power", exact.reason)
    rough = stats.two_proportion_detectable_difference(n_a, n_b, baseline=baseline, alpha=alpha, power=power)
    return Planned(rough.value, "normal", rough.reason)


def needed(p_a: float, p_b: float, *, alpha: float, power: float, deff: float = 1.0) -> Planned:
    """Return the episodes of each arm that tell the two rates apart."""
    exact = None
    if 0.0 < p_a < 1.0 and 0.0 < p_b < 1.0:
        exact = stats.boschloo_sample_size(p_a, p_b, alpha=alpha, power=power, deff=deff)
    if exact is not None and exact.value is not None:
        return Planned(exact.value, "boschloo_power", None)
    rough = stats.two_proportion_sample_size(p_a, p_b, alpha=alpha, power=power, deff=deff)
    return Planned(rough.n, "normal", rough.reason)


def chance(n_a: int, p_a: float, n_b: int, p_b: float, *, alpha: float) -> Planned:
    """Return the chance that so many episodes tell the two rates apart."""
    if max(n_a, n_b) <= MAX_EXACT_EPISODES and 0.0 < p_a < 1.0 and 0.0 < p_b < 1.0:
        exact = stats.boschloo_power(n_a, p_a, n2=n_b, p2=p_b, alpha=alpha)
        return Planned(exact.value, "boschloo_power", exact.reason)
    rough = stats.two_proportion_power(n_a, p_a, n2=n_b, p2=p_b, alpha=alpha)
    return Planned(rough.value, "normal", rough.reason)


def detectable_pairs(n: int, discordance: float, *, alpha: float, power: float) -> Planned:
    """Return the smallest difference that n matched pairs find, of which ``discordance`` differ."""
    if n <= MAX_TRIALS:
        exact = stats.mcnemar_detectable_difference(n, discordance, alpha=alpha, power=power)
        return Planned(exact.value, "mcnemar_power", exact.reason)
    rough = stats.minimum_detectable_difference(n, discordance, alpha=alpha, power=power)
    return Planned(rough.value, "connor", rough.reason)
