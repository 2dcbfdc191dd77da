"""Do raters agree, beyond what their habits alone would bring about: kappa, AC1, Fleiss, Krippendorff.

Definitions: statistics specification, section 11. The table belongs beside every coefficient: few negatives make
kappa small where raters agree on nearly everything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import StatsInputError
from trialplate.stats.distributions import normal_critical
from trialplate.stats.inputs import (
    MAX_MAGNITUDE,
    count_table,
    one_of,
    real,
    same_length,
    sequence,
    square_table,
    tail_area,
)
from trialplate.stats.results import Reason, Result, Value

Weights = Literal["linear", "quadratic"]
WEIGHTS: tuple[Weights, ...] = ("linear", "quadratic")
Level = Literal["nominal", "ordinal", "interval", "ratio"]
LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval", "ratio")
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CohenKappa(Result):
    """Raw agreement, kappa with its asymptotic interval, and AC1. ``n``: items that both raters judged."""

    n: int
    agreement: float | None
    kappa: float | None
    se: float | None
    low: float | None
    high: float | None
    ac1: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KrippendorffAlpha(Result):
    """Alpha, the values that have a partner in their unit, and the ratings that are missing."""

    alpha: float | None
    pairable: int
    missing: int
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Ratings:
    """How often each value was given to each unit (units, values), the values in order, and the missing ratings."""

    chosen: Floats
    values: Floats
    level: Level
    missing: int

    def weights(self) -> Floats:
        """Return 1/(m - 1) for a unit with m ratings, 0 for a unit without a pair."""
        given = self.chosen.sum(axis=1)
        return np.asarray(np.divide(1.0, given - 1.0, out=np.zeros(len(given)), where=given > 1.0))

    def coincidences(self) -> Floats:
        """Return the coincidence matrix of all units."""
        weighted = self.chosen * self.weights()[:, None]
        return np.asarray(self.chosen.T @ weighted - np.diag(weighted.sum(axis=0)))


def cohen_kappa(
    table: Sequence[Sequence[int]], *, weights: Weights | None = None, confidence: float = 0.95
) -> CohenKappa:
    """Return the agreement of two raters from their square table (rater 1 by rater 2).

    kappa = (p_o - p_e)/(1 - p_e) with p_e from the two margins; ``weights`` count a disagreement by its distance or
    its square. se and normal interval: Fleiss, Cohen and Everitt, Psychol. Bull. 72 (1969) 323. AC1 =
    (p_o - g)/(1 - g), g = sum pi (1 - pi)/(classes - 1), pi the mean of the margins: Gwet, Br. J. Math. Stat.
    Psychol. 61 (2008) 29; always unweighted, as is ``agreement``. One class only: kappa null with ``no_variation``.
    No item: ``no_values``.
    """
    counts = np.array(square_table("table", table), dtype=np.float64)
    if weights is not None:
        one_of("weights", weights, WEIGHTS)
    tail = tail_area(confidence)
    n = int(counts.sum())
    if n == 0:
        return CohenKappa(n=0, agreement=None, kappa=None, se=None, low=None, high=None, ac1=None, reason="no_values")
    shares = counts / n
    agreement = float(np.trace(counts)) / n
    mean_margin = (counts.sum(axis=0) + counts.sum(axis=1)) / (2 * n)
    chance = float((mean_margin * (1.0 - mean_margin)).sum()) / (len(counts) - 1)
    ac1 = (agreement - chance) / (1.0 - chance)
    if _one_class(counts):
        return CohenKappa(
            n=n, agreement=agreement, kappa=None, se=None, low=None, high=None, ac1=ac1, reason="no_variation"
        )
    kappa, se = _kappa_and_error(shares, _agreement_weights(len(counts), weights), n)
    reach = normal_critical(tail) * se
    return CohenKappa(
        n=n, agreement=agreement, kappa=kappa, se=se, low=kappa - reach, high=kappa + reach, ac1=ac1, reason=None
    )


def fleiss_kappa(table: Sequence[Sequence[int]]) -> Value:
    """Return Fleiss' kappa: one row an item, one column a class, how many raters chose it; equal row sums.

    (P - P_e)/(1 - P_e), P = mean of sum n (n - 1)/(r (r - 1)), P_e = sum of squared class shares. One class only:
    null with ``no_variation``; no item: ``no_values``; one rater: ``no_pairable_units``. Source: Fleiss, Psychol.
    Bull. 76 (1971) 378.
    """
    rows = count_table("table", table)
    if not rows:
        return Value(None, "no_values")
    raters = sum(rows[0])
    for at, row in enumerate(rows):
        if sum(row) != raters:
            raise StatsInputError(f"table[{at}]", f"has {sum(row)} ratings, table[0] has {raters}")
    if raters < 2:
        return Value(None, "no_pairable_units")
    everything = len(rows) * raters
    of_class = [sum(column) for column in zip(*rows, strict=True)]
    by_chance = sum(chosen * chosen for chosen in of_class) / everything**2
    if max(of_class) == everything:
        return Value(None, "no_variation")
    observed = sum(n * (n - 1) for row in rows for n in row) / (everything * (raters - 1))
    return Value((observed - by_chance) / (1.0 - by_chance), None)


def krippendorff_alpha(ratings: Sequence[Sequence[float | None]], *, level: Level = "nominal") -> KrippendorffAlpha:
    """Return Krippendorff's alpha: one row a rater, one column a unit, ``None`` where a rating is missing.

    1 - D_o/D_e from the coincidence matrix; a unit with m ratings adds 1/(m - 1) for every ordered pair. Squared
    difference: nominal 0 or 1; interval (a - b)^2; ratio ((a - b)/(a + b))^2; ordinal by the ranks between. Units
    with one rating are left out. Null with ``no_pairable_units`` or, with one value only, ``no_variation``. Raises
    ``StatsInputError`` for negative values at level ratio. Source: Krippendorff, Computing Krippendorff's
    Alpha-Reliability (2011).
    """
    found = checked_ratings(ratings, level)
    total = found.coincidences()
    pairable = round(float(total.sum()))
    if pairable == 0:
        return KrippendorffAlpha(alpha=None, pairable=0, missing=found.missing, reason="no_pairable_units")
    alphas, defined = alphas_of(total[None], found)
    return KrippendorffAlpha(
        alpha=float(alphas[0]) if defined[0] else None,
        pairable=pairable,
        missing=found.missing,
        reason=None if defined[0] else "no_variation",
    )


def checked_ratings(ratings: object, level: object) -> Ratings:
    """Return the ratings of a table of raters by units, or raise ``StatsInputError``."""
    one_of("level", level, LEVELS)
    rows = [sequence(f"ratings[{at}]", row) for at, row in enumerate(sequence("ratings", ratings))]
    for at, items in enumerate(rows):
        same_length(f"ratings[{at}]", items, other_argument="ratings[0]", other=rows[0])
    lowest = 0.0 if level == "ratio" else -MAX_MAGNITUDE
    given = [
        (unit, real(f"ratings[{rater}][{unit}]", item, minimum=lowest))
        for rater, items in enumerate(rows)
        for unit, item in enumerate(items)
        if item is not None
    ]
    values = sorted({value for _, value in given})
    place = {value: at for at, value in enumerate(values)}
    chosen = np.zeros((len(rows[0]) if rows else 0, len(values)))
    for unit, value in given:
        chosen[unit, place[value]] += 1.0
    missing = sum(map(len, rows)) - len(given)
    return Ratings(chosen, np.array(values), cast(Level, level), missing)


def alphas_of(totals: Floats, found: Ratings) -> tuple[Floats, NDArray[np.bool_]]:
    """Return alpha of coincidence matrices (draws, values, values), 0 to hold the place where it is undefined."""
    margins = totals.sum(axis=2)
    size = margins.sum(axis=1)
    distances = _distances(margins, found)
    observed = (totals * distances).sum(axis=(1, 2))
    expected = (margins[:, :, None] * margins[:, None, :] * distances).sum(axis=(1, 2))
    defined = (margins > 0.0).sum(axis=1) > 1
    ratio = np.divide(observed * (size - 1.0), expected, out=np.ones(len(totals)), where=defined)
    return 1.0 - ratio, defined


def _distances(margins: Floats, found: Ratings) -> Floats:
    """Return squared differences of all pairs of values; only at level ordinal do they depend on the margins."""
    a, b = found.values[:, None], found.values[None, :]
    if found.level == "ordinal":
        to_middle = np.cumsum(margins, axis=1) - margins / 2.0
        return np.asarray((to_middle[:, :, None] - to_middle[:, None, :]) ** 2)
    if found.level == "nominal":
        return np.asarray(a != b, dtype=np.float64)[None]
    if found.level == "interval":
        return np.asarray((a - b) ** 2)[None]
    return np.asarray((np.divide(a - b, a + b, out=np.zeros((len(a), len(a))), where=a + b > 0.0)) ** 2)[None]


def _one_class(counts: Floats) -> bool:
    return int(np.count_nonzero(counts.sum(axis=0) + counts.sum(axis=1))) == 1


def _agreement_weights(classes: int, weights: str | None) -> Floats:
    """Return how much each cell counts as agreement: 1 on the diagonal."""
    apart = np.abs(np.subtract.outer(np.arange(classes), np.arange(classes))).astype(np.float64)
    if weights is None:
        return np.asarray(apart == 0.0, dtype=np.float64)
    return np.asarray(1.0 - (apart / (classes - 1)) ** (1 if weights == "linear" else 2))


def kappas_of(totals: Floats, weights: str | None) -> tuple[Floats, NDArray[np.bool_]]:
    """Return agreement, kappa and AC1 of tables (draws, classes, classes) as (3, draws), and which are defined."""
    n = totals.sum(axis=(1, 2))
    some = n > 0.0
    shares = totals / np.where(some, n, 1.0)[:, None, None]
    rows, columns = shares.sum(axis=2), shares.sum(axis=1)
    agreement = np.trace(shares, axis1=1, axis2=2)
    count_as = _agreement_weights(totals.shape[1], weights)
    observed = (shares * count_as).sum(axis=(1, 2))
    by_chance = (rows[:, :, None] * columns[:, None, :] * count_as).sum(axis=(1, 2))
    varied = ((rows + columns) > 0.0).sum(axis=1) > 1
    kappa = np.divide(observed - by_chance, 1.0 - by_chance, out=np.zeros(len(n)), where=varied)
    middle = (rows + columns) / 2.0
    chance = (middle * (1.0 - middle)).sum(axis=1) / (totals.shape[1] - 1)
    ac1 = (agreement - chance) / (1.0 - chance)
    return np.stack([agreement, kappa, ac1]), np.stack([some, varied, some])


def _kappa_and_error(shares: Floats, weights: Floats, n: int) -> tuple[float, float]:
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    observed = float((weights * shares).sum())
    by_chance = float((weights * np.outer(rows, columns)).sum())
    kappa = (observed - by_chance) / (1.0 - by_chance)
    usual = (weights @ columns)[:, None] + (weights.T @ rows)[None, :]
    spread = float((shares * (weights - usual * (1.0 - kappa)) ** 2).sum())
    variance = (spread - (kappa - by_chance * (1.0 - kappa)) ** 2) / ((1.0 - by_chance) ** 2 * n)
    return kappa, math.sqrt(max(0.0, variance))
