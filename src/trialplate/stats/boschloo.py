"""Boschloo's exact unconditional test of two independent rates, fast enough for thousands of episodes an arm.

Definition: statistics specification, section 7; Boschloo, Statistica Neerlandica 24 (1970) 1. The tables that are
at least as extreme by Fisher's p-value form a staircase, so that the chance of all of them at a nuisance rate needs
one sum over the first arm instead of one over every table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import StatsInputError
from trialplate.stats.inputs import ALTERNATIVES, Alternative, count, error_tail, fraction_inside, one_of, part_of
from trialplate.stats.results import PValue, Value

MAX_BOSCHLOO_TABLES = 25_000_000
"""Tables (n1 + 1)(n2 + 1) beyond which the test is refused: about 5,000 episodes a side, seconds of work."""
MAX_POWER_TABLES = 2_000_000
_TIE = 1e-10
"""Two Fisher p-values this close, relatively, are one: mirrored tables differ by rounding only."""
_EDGE = 1e-7
"""Angles of the nuisance rate stay this far from 0 and from pi/2, where every term but one underflows."""
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


def boschloo_test(k1: int, n1: int, *, k2: int, n2: int, alternative: Alternative = "two-sided") -> PValue:
    """Return Boschloo's exact unconditional test; ``less`` means rate 1 below rate 2.

    p = max over the common rate pi of P[Fisher's p <= the observed one | pi]; two-sided is twice the smaller
    one-sided p. p = 1 by definition when both arms have only successes or only failures. An arm without attempts
    gives null with ``no_attempts``. Raises ``StatsInputError`` beyond 25,000,000 tables (n1 + 1)(n2 + 1).
    """
    some1, total1 = part_of("k1", k1, whole_argument="n1", whole=n1)
    some2, total2 = part_of("k2", k2, whole_argument="n2", whole=n2)
    one_of("alternative", alternative, ALTERNATIVES)
    if total1 == 0 or total2 == 0:
        return PValue(None, "no_attempts")
    _refuse_above(MAX_BOSCHLOO_TABLES, total1, total2)
    if some1 + some2 in (0, total1 + total2):
        return PValue(1.0, None)
    if alternative == "less":
        return PValue(_less(some1, total1, some2, total2), None)
    if alternative == "greater":
        return PValue(_less(some2, total2, some1, total1), None)
    smaller = min(_less(some1, total1, some2, total2), _less(some2, total2, some1, total1))
    return PValue(min(1.0, 2.0 * smaller), None)


def boschloo_power(n1: int, p1: float, *, n2: int, p2: float, alpha: float = 0.05) -> Value:
    """Return the exact chance that the two-sided test at ``alpha`` rejects when the rates are p1 and p2.

    The rejection region of each side is the largest staircase whose size, maximised over the common rate, is at
    most alpha/2. Raises ``StatsInputError`` beyond 2,000,000 tables (n1 + 1)(n2 + 1). An arm without attempts
    gives null with ``no_attempts``.
    """
    rate1, rate2 = fraction_inside("p1", p1), fraction_inside("p2", p2)
    region = rejection_region(n1, n2, side=error_tail(alpha))
    return Value(None, "no_attempts") if region is None else Value(region.chance(rate1, rate2), None)


@dataclass(frozen=True, slots=True)
class Region:
    """The tables that the two-sided test rejects: rate 1 found below rate 2 (``below``), and above it."""

    n1: int
    n2: int
    below: Whole
    above: Whole

    def chance(self, rate1: float, rate2: float) -> float:
        """Return the exact chance of these tables, for rates strictly between 0 and 1."""
        ones, twos = np.array([rate1]), np.array([rate2])
        below = _size(self.below, self.n1, self.n2, ones, twos)
        above = _size(self.above, self.n2, self.n1, twos, ones)
        return min(1.0, float(below[0] + above[0]))


def rejection_region(n1: int, n2: int, *, side: float) -> Region | None:
    """Return the region whose error is at most ``side`` on each side; None for an arm without attempts.

    Raises ``StatsInputError`` beyond 2,000,000 tables (n1 + 1)(n2 + 1).
    """
    total1, total2 = count("n1", n1), count("n2", n2)
    if total1 == 0 or total2 == 0:
        return None
    _refuse_above(MAX_POWER_TABLES, total1, total2)
    below = _largest_staircase(total1, total2, side)
    above = below if total1 == total2 else _largest_staircase(total2, total1, side)
    return Region(total1, total2, below, above)


def _refuse_above(limit: int, n1: int, n2: int) -> None:
    tables = (n1 + 1) * (n2 + 1)
    if tables > limit:
        raise StatsInputError("n1", f"(n1 + 1)(n2 + 1) = {tables}, expected at most {limit}")


def _less(k1: int, n1: int, k2: int, n2: int) -> float:
    """Return the one-sided p-value against rate 1 below rate 2."""
    threshold = _fisher_less(k1, n1, k1 + k2, n2) * (1.0 + _TIE)
    first = np.full(n1 + 1, n2 + 1, dtype=np.int64)
    x2 = 0
    for x1 in range(n1 + 1):
        while x2 <= n2 and _fisher_less(x1, n1, x1 + x2, n2) > threshold:
            x2 += 1
        if x2 > n2:
            break
        first[x1] = x2
    return _worst_size(first, n1, n2)


def _fisher_less(x1: int, n1: int, successes: int, n2: int) -> float:
    """Return P[X <= x1] for X successes in arm 1 given ``successes`` in both: Fisher's one-sided p-value."""
    terms = _fisher_terms(n1, successes, n2)
    return float(terms[: x1 - max(0, successes - n2) + 1].sum() / terms.sum())


def _fisher_terms(n1: int, successes: int, n2: int) -> Floats:
    """Return the hypergeometric chances of every x1 in turn, up to a common factor.

    They fall from 1 at the mode by exact ratios: nothing cancels, and no logarithm of a factorial is rounded.
    """
    low, high = max(0, successes - n2), min(n1, successes)
    x = np.arange(low, high, dtype=np.float64)
    ratio = (n1 - x) * (successes - x) / ((x + 1.0) * (n2 - successes + x + 1.0))
    mode = int(np.searchsorted(-ratio, -1.0))
    terms = np.ones(high - low + 1)
    terms[mode + 1 :] = np.cumprod(ratio[mode:])
    terms[:mode] = np.cumprod(1.0 / ratio[:mode][::-1])[::-1]
    return terms


def _binomial_terms(n: int, rates: Floats) -> Floats:
    """Return P[Binomial(n, rate) = k], one row a rate strictly between 0 and 1, one column a k."""
    from scipy import special

    k = np.arange(n + 1, dtype=np.float64)
    ways = special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0)
    terms: Floats = np.exp(ways + np.outer(np.log(rates), k) + np.outer(np.log1p(-rates), n - k))
    return terms


def _size(first: Whole, n1: int, n2: int, rates1: Floats, rates2: Floats) -> Floats:
    """Return the chance of the staircase {x2 >= first[x1]} for every pair of rates."""
    tail = np.zeros((len(rates2), n2 + 2))
    tail[:, : n2 + 1] = np.cumsum(_binomial_terms(n2, rates2)[:, ::-1], axis=1)[:, ::-1]
    return np.asarray((_binomial_terms(n1, rates1) * tail[:, first]).sum(axis=1))


def _worst_size(first: Whole, n1: int, n2: int) -> float:
    """Return the size of a staircase at the common rate that is worst for it.

    The grid is even in arcsin(sqrt(rate)), where features have the same width everywhere; the best peaks are then
    zoomed in on until they change in the twelfth digit only.
    """

    def size(angles: Floats) -> Floats:
        rates = np.sin(angles) ** 2
        return _size(first, n1, n2, rates, rates)

    if (first > n2).all():
        return 0.0
    points = 48 + int(12 * (n1 + n2) ** 0.5)
    angles = (np.arange(points) + 0.5) * (np.pi / 2.0 / points)
    sizes = np.concatenate([size(part) for part in np.array_split(angles, max(1, points * (n1 + n2) // 2_000_000))])
    inner = np.r_[sizes[0], sizes, sizes[-1]]
    peaks = np.flatnonzero((sizes >= inner[:-2]) & (sizes >= inner[2:]) & (sizes >= 0.9 * sizes.max()))
    peaks = peaks[np.argsort(-sizes[peaks], kind="stable")][:6]
    return min(1.0, max(_peak(size, float(angles[at]), np.pi / 2.0 / points) for at in peaks))


def _peak(size: Callable[[Any], Any], centre: float, reach: float) -> float:
    best = 0.0
    for _ in range(5):
        angles = np.linspace(max(_EDGE, centre - reach), min(np.pi / 2.0 - _EDGE, centre + reach), 17)
        sizes = size(angles)
        at = int(np.argmax(sizes))
        best, centre, reach = max(best, float(sizes[at])), float(angles[at]), reach / 8.0
    return best


def _largest_staircase(n1: int, n2: int, level: float) -> Whole:
    """Return the largest set of tables, most extreme first by Fisher's p, whose worst size is at most ``level``.

    Fisher's test keeps its level, so every table with p <= ``level`` is inside; the search starts there.
    """
    fisher = np.empty((n1 + 1, n2 + 1))
    for successes in range(n1 + n2 + 1):
        terms = _fisher_terms(n1, successes, n2)
        x1 = max(0, successes - n2) + np.arange(len(terms))
        fisher[x1, successes - x1] = np.cumsum(terms) / terms.sum()
    ranked = np.sort(fisher, axis=None)
    inside, step = int(np.searchsorted(ranked, level, side="right")) - 1, 64
    outside = inside + step

    def keeps_level(at: int) -> bool:
        return _worst_size(_staircase(fisher, float(ranked[at])), n1, n2) <= level

    while outside < len(ranked) and keeps_level(outside):
        inside, step = outside, 2 * step
        outside = inside + step
    outside = min(outside, len(ranked))
    while outside - inside > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if keeps_level(middle) else (inside, middle)
    return _staircase(fisher, float(ranked[inside]) if inside >= 0 else -1.0)


def _staircase(fisher: Floats, threshold: float) -> Whole:
    inside = fisher <= threshold * (1.0 + _TIE)
    return np.asarray(np.where(inside.any(axis=1), inside.argmax(axis=1), fisher.shape[1]), dtype=np.int64)
