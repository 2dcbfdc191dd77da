"""A few registered looks: Lan-DeMets bounds, the test at those looks, and its exact power on paired outcomes.

Definitions: statistics specification, section 8; Lan and DeMets, Biometrika 70 (1983) 659. Statistic at a look:
(b - c)/sqrt(b + c) over the pairs completed so far; information: completed pairs / n_max.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import StatsInputError
from trialplate.stats.distributions import binomial_quantile, normal_critical, normal_upper_tail
from trialplate.stats.inputs import (
    as_written,
    count,
    counts,
    fraction_inside,
    fraction_within,
    one_of,
    reals,
    same_length,
)
from trialplate.stats.results import Reason, Result

Spending = Literal["obrien-fleming", "pocock"]
SPENDINGS: tuple[Spending, ...] = ("obrien-fleming", "pocock")
POINTS = 4001
HALF = POINTS // 2
FARTHEST = 38.0
"""A bound beyond this many standard deviations has no probability left in float64: null with ``unbounded``."""
SHORTEST_STEP = 1e-4
"""Looks closer than this share of the information are refused: the grid would not resolve what happens in between."""
MAX_STEPS = 3_000_000_000
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GroupSequentialBounds(Result):
    """One bound on |z| per look, and the alpha spent up to it. A look that may spend nothing yet has a null bound."""

    bounds: tuple[float | None, ...]
    spent: tuple[float, ...]
    reason: Reason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSequentialTest(Result):
    """The statistic at each look so far beside its bound.

    A statistic is null with ``no_variation`` where no pair is discordant. ``decided_after``: looks until |z| reached
    its bound, or all of them so far.
    """

    statistics: tuple[float | None, ...]
    bounds: tuple[float | None, ...]
    spent: tuple[float, ...]
    rejected: bool
    decided_after: int
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class GroupSequentialPower(Result):
    """Exact chance of ever rejecting, of rejecting at each look, and the mean number of pairs until the end."""

    power: float
    rejected_at: tuple[float, ...]
    expected_pairs: float
    reason: Reason | None = None


def lan_demets_bounds(
    information: Sequence[float], *, alpha: float = 0.05, spending: Spending = "obrien-fleming"
) -> GroupSequentialBounds:
    """Return the two-sided bounds at looks with increasing ``information`` in (0, 1].

    Spent at t: 4 (1 - Phi(z_{alpha/4}/sqrt t)) (``obrien-fleming``) or alpha ln(1 + (e - 1) t) (``pocock``). Bounds
    by the recursion over independent increments, Simpson's rule on 4001 points, good to four digits. Raises
    ``StatsInputError`` for looks that do not increase by at least .0001.
    """
    level = fraction_inside("alpha", alpha)
    one_of("spending", spending, SPENDINGS)
    times = reals("information", information)
    before = 0.0
    for at, time in enumerate(times):
        if not before + SHORTEST_STEP <= time <= 1.0:
            raise StatsInputError(f"information[{at}]", f"expected above {before} by .0001 and at most 1, got {time}")
        before = time
    spent = [_spent(time, level, spending) for time in times]
    bounds: list[float | None] = []
    grid, density, before, used = np.zeros(1), np.ones(1), 0.0, 0.0
    for time, total in zip(times, spent, strict=True):
        bound = _bound(grid, density, before, time, total - used)
        bounds.append(bound)
        if time < times[-1]:
            reach = min(9.0 if bound is None else bound, 9.0) * math.sqrt(time)
            grid, density = _next_density(grid, density, time - before, reach)
        before, used = time, total
    reason: Reason | None = "unbounded" if None in bounds else None
    return GroupSequentialBounds(tuple(bounds), tuple(spent), reason)


def group_sequential_test(
    b: Sequence[int],
    c: Sequence[int],
    *,
    pairs: Sequence[int],
    n_max: int,
    alpha: float = 0.05,
    spending: Spending = "obrien-fleming",
) -> GroupSequentialTest:
    """Return the test at the looks so far: b, c and completed ``pairs`` at each, all cumulative.

    It rejects at the first look where |b - c|/sqrt(b + c) reaches the Lan-DeMets bound at pairs / n_max. Raises
    ``StatsInputError`` for counts that shrink, b + c above the pairs, and pairs above ``n_max``.
    """
    done = counts("pairs", pairs)
    total = count("n_max", n_max, minimum=1)
    only_a, only_b = counts("b", b), counts("c", c)
    for argument, column in (("b", only_a), ("c", only_b)):
        same_length(argument, column, other_argument="pairs", other=done)
        if any(later < earlier for earlier, later in pairwise(column)):
            raise StatsInputError(argument, "counts at later looks include those of earlier ones, and cannot shrink")
    for at, (x, y, n) in enumerate(zip(only_a, only_b, done, strict=True)):
        if x + y > n or n > total:
            raise StatsInputError(f"pairs[{at}]", f"b + c = {x + y}, pairs = {n}, n_max = {total} must not decrease")
    found = lan_demets_bounds([n / total for n in done], alpha=alpha, spending=spending)
    statistics = tuple((x - y) / math.sqrt(x + y) if x + y else None for x, y in zip(only_a, only_b, strict=True))
    crossed = [
        z is not None and bound is not None and abs(z) >= bound
        for z, bound in zip(statistics, found.bounds, strict=True)
    ]
    return GroupSequentialTest(
        statistics=statistics,
        bounds=found.bounds,
        spent=found.spent,
        rejected=any(crossed),
        decided_after=crossed.index(True) + 1 if any(crossed) else len(done),
        reason="no_variation" if None in statistics else found.reason,
    )


def group_sequential_power(
    pairs: Sequence[int], p10: float, *, p01: float, alpha: float = 0.05, spending: Spending = "obrien-fleming"
) -> GroupSequentialPower:
    """Return the exact power of the rule with looks after ``pairs`` completed pairs, the last of them n_max.

    p10: chance of a pair of which A alone succeeds, p01: B alone; equal ones give the type-I error. The trinomial
    distribution of (b, c) is carried from pair to pair; what lies beyond 1e-13 at its edge is left out. Raises
    ``StatsInputError`` where that would take minutes.
    """
    looks = counts("pairs", pairs)
    if not looks or any(later <= earlier for earlier, later in pairwise([0, *looks])):
        raise StatsInputError("pairs", f"expected increasing looks, got {looks}")
    chance_a, chance_b = fraction_within("p10", p10), fraction_within("p01", p01)
    if as_written(chance_a) + as_written(chance_b) > 1:
        raise StatsInputError("p10", f"p10 + p01 = {chance_a + chance_b!r} is more than 1")
    bounds = lan_demets_bounds([n / looks[-1] for n in looks], alpha=alpha, spending=spending).bounds
    shape = tuple(_edge(looks[-1], chance) + 1 for chance in (chance_a, chance_b))
    if looks[-1] * shape[0] * shape[1] > MAX_STEPS:
        raise StatsInputError("pairs", f"{looks[-1]} pairs of which so many are discordant take minutes")
    difference, sum_of = np.subtract.outer(*map(np.arange, shape)), np.add.outer(*map(np.arange, shape))
    score = difference / np.sqrt(np.maximum(sum_of, 1))
    alive = np.zeros(shape)
    alive[0, 0] = 1.0
    done, rejected, expected = 0, [], 0.0
    for look, bound in zip(looks, bounds, strict=True):
        expected += (look - done) * float(alive.sum())
        for _ in range(look - done):
            alive = _one_more_pair(alive, chance_a, chance_b)
        crossed = np.abs(score) >= (math.inf if bound is None else bound)
        rejected.append(float(alive[crossed].sum()))
        alive[crossed] = 0.0
        done = look
    return GroupSequentialPower(math.fsum(rejected), tuple(rejected), expected)


def _one_more_pair(alive: Floats, chance_a: float, chance_b: float) -> Floats:
    moved = alive * (1.0 - chance_a - chance_b)
    moved[1:, :] += chance_a * alive[:-1, :]
    moved[:, 1:] += chance_b * alive[:, :-1]
    return moved


def _edge(n: int, chance: float) -> int:
    """Return the count that Binomial(n, chance) exceeds with probability below 1e-13."""
    if chance in (0.0, 1.0):
        return int(n * chance)
    return n - binomial_quantile(1e-13, n, 1.0 - chance)


def _spent(time: float, alpha: float, spending: Spending) -> float:
    if spending == "pocock":
        return alpha * math.log1p((math.e - 1.0) * time)
    return 4.0 * normal_upper_tail(normal_critical(alpha / 4.0) / math.sqrt(time))


def _bound(grid: Floats, density: Floats, before: float, time: float, to_spend: float) -> float | None:
    """Return the bound c with chance ``to_spend`` of first leaving +-c sqrt(time) at this look; bisection."""
    from scipy import special

    weights = density * _simpson(grid)
    spread = math.sqrt(time - before)

    def leaving(bound: float) -> float:
        return 2.0 * float((weights * special.ndtr((grid - bound * math.sqrt(time)) / spread)).sum())

    low, high = 0.0, FARTHEST
    if not leaving(high) < to_spend:
        return None
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if leaving(middle) > to_spend else (low, middle)
    return high


def _next_density(grid: Floats, density: Floats, step: float, reach: float) -> tuple[Floats, Floats]:
    """Return the density of the sum after one more increment, on 4001 points within +-reach; it is even."""
    ahead = np.linspace(-reach, reach, POINTS)
    weights = density * _simpson(grid) / math.sqrt(2.0 * math.pi * step)
    half = np.empty(POINTS - HALF)
    for rows in np.array_split(np.arange(POINTS - HALF), 40):
        exponent = np.subtract.outer(ahead[HALF + rows], grid)
        exponent *= exponent
        exponent *= -0.5 / step
        np.exp(np.maximum(exponent, -700.0, out=exponent), out=exponent)
        exponent *= weights
        half[rows] = exponent.sum(axis=1)
    return ahead, np.concatenate([half[:0:-1], half])


def _simpson(grid: Floats) -> Floats:
    if len(grid) == 1:
        return np.ones(1)
    weights = np.full(len(grid), 2.0)
    weights[1::2] = 4.0
    weights[0] = weights[-1] = 1.0
    return np.asarray(weights * ((grid[-1] - grid[0]) / (len(grid) - 1) / 3.0))
