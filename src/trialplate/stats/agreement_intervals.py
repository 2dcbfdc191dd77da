"""How sure an agreement is when episodes share a session or a rater pair: whole clusters are drawn.

Definitions: statistics specification, sections 6 and 11. The stream and the quantile rule are those of the family
bootstrap; clusters stand in the order of the UTF-8 bytes of their ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import StatsInputError
from trialplate.stats.agreement import (
    CohenKappa,
    KrippendorffAlpha,
    Level,
    Weights,
    alphas_of,
    checked_ratings,
    cohen_kappa,
    kappas_of,
    krippendorff_alpha,
)
from trialplate.stats.bootstrap_bounds import (
    BootstrapInterval,
    DrawQuantiles,
    Point,
    QuantileRule,
    bootstrap_intervals,
)
from trialplate.stats.inputs import sequence, square_table
from trialplate.stats.resampling import DEFAULT_DRAWS, DEFAULT_SEED, multiplicity_chunks
from trialplate.stats.results import Reason

MAX_CELLS = 10_000_000
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class KappaIntervals:
    """The agreement of all clusters together, and bounds of its three measures over draws of clusters."""

    whole: CohenKappa
    agreement: BootstrapInterval
    kappa: BootstrapInterval
    ac1: BootstrapInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class AlphaInterval:
    """Krippendorff's alpha of all units, and its bounds over draws of clusters of units."""

    whole: KrippendorffAlpha
    alpha: BootstrapInterval


def kappa_intervals(
    tables: Sequence[Sequence[Sequence[int]]],
    *,
    weights: Weights | None = None,
    seed: int = DEFAULT_SEED,
    draws: int = DEFAULT_DRAWS,
    confidence: float = 0.95,
    quantile_rule: QuantileRule = "order",
) -> KappaIntervals:
    """Return ``cohen_kappa`` of the summed tables with cluster bootstrap bounds; one square table a cluster.

    A draw of one class only has no kappa, a draw without items nothing: counted, and ``undefined_draws``. One
    cluster: ``single_cluster``. Raises ``StatsInputError`` without any table and for tables of different size.
    """
    stacked = [square_table(f"tables[{at}]", table) for at, table in enumerate(sequence("tables", tables))]
    if not stacked or any(len(table) != len(stacked[0]) for table in stacked):
        raise StatsInputError("tables", "expected at least one square table, all of the same classes")
    cells = np.array(stacked, dtype=np.int64)
    whole = cohen_kappa(cells.sum(axis=0).tolist(), weights=weights, confidence=confidence)
    totals = _draw_totals(cells.astype(np.float64), seed, draws)
    values, defined = kappas_of(totals, weights)
    empty: Reason | None = "no_values" if whole.n == 0 else None
    points: list[Point] = [(whole.agreement, empty), (whole.kappa, whole.reason), (whole.ac1, empty)]
    alone: Reason | None = "single_cluster" if len(cells) == 1 else None
    quantiles = DrawQuantiles.of(quantile_rule, confidence)
    agreement, kappa, ac1 = bootstrap_intervals(values, defined, points, quantiles, alone=alone)
    return KappaIntervals(whole=whole, agreement=agreement, kappa=kappa, ac1=ac1)


def alpha_interval(
    ratings: Sequence[Sequence[float | None]],
    clusters: Sequence[str],
    *,
    level: Level = "nominal",
    seed: int = DEFAULT_SEED,
    draws: int = DEFAULT_DRAWS,
    confidence: float = 0.95,
    quantile_rule: QuantileRule = "order",
) -> AlphaInterval:
    """Return ``krippendorff_alpha`` with cluster bootstrap bounds; ``clusters``: the id of the cluster of each unit.

    A draw with one value only has no alpha: counted, and ``undefined_draws``. One cluster: ``single_cluster``. Raises
    ``StatsInputError`` for clusters that do not match the units, without any unit, and for so many different values
    that the coincidences of every draw do not fit.
    """
    whole = krippendorff_alpha(ratings, level=level)
    found = checked_ratings(ratings, level)
    names = [str(name) for name in sequence("clusters", clusters)]
    if len(names) != len(found.chosen) or not names:
        raise StatsInputError("clusters", f"expected one id for each of {len(found.chosen)} units, got {len(names)}")
    order = sorted(set(names), key=str.encode)
    kinds = len(found.values)
    if kinds * kinds * max(len(order), draws) > MAX_CELLS:
        raise StatsInputError("ratings", f"{kinds} different values are too many for {draws} draws")
    cells = np.zeros((len(order), kinds, kinds))
    for at, row, weight in zip(names, found.chosen, found.weights(), strict=True):
        cells[order.index(at)] += weight * (np.outer(row, row) - np.diag(row))
    values, defined = alphas_of(_draw_totals(cells, seed, draws), found)
    alone: Reason | None = "single_cluster" if len(order) == 1 else None
    points: list[Point] = [(whole.alpha, whole.reason)]
    quantiles = DrawQuantiles.of(quantile_rule, confidence)
    (alpha,) = bootstrap_intervals(values[None], defined[None], points, quantiles, alone=alone)
    return AlphaInterval(whole=whole, alpha=alpha)


def _draw_totals(cells: Floats, seed: int, draws: int) -> Floats:
    """Return the summed tables (draws, classes, classes) of drawn clusters."""
    flat = cells.reshape(len(cells), -1)
    parts = [chunk @ flat for chunk in multiplicity_chunks(seed, draws, families=len(cells))]
    return np.concatenate(parts).reshape(draws, *cells.shape[1:])
