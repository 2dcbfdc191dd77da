"""One rate when episodes share a site, a session or a family: the cluster is the unit, not the episode.

Definitions: statistics specification, section 5. Whether clusters vary at all is decided in whole numbers, so a
zero-width interval can never come out of a rounding error.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from trialplate.stats.distributions import normal_critical, student_critical
from trialplate.stats.inputs import count_table, parts_of, same_length, tail_area
from trialplate.stats.proportions import clopper_pearson_limits, wilson_limits
from trialplate.stats.results import Reason, Result

FEW_CLUSTERS = 6
"""Below this many clusters the result carries the flag ``few_clusters``: it supports no claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteredRate(Result):
    """A pooled rate whose uncertainty comes from the clusters.

    ``clusters`` counts clusters with episodes, ``empty_clusters`` those without. ``deff``: design effect.
    ``n_eff``, ``n_star``: effective numbers of episodes behind the Wilson_t and the Korn-Graubard interval.
    ``t_low``/``t_high``: linear interval, cut at 0 and 1, not for gates. ``wilson_*`` is the headline,
    ``korn_graubard_*`` the gate. ``icc`` may be negative.
    """

    clusters: int
    empty_clusters: int
    episodes: int
    estimate: float | None
    se: float | None
    deff: float | None
    n_eff: float | None
    n_star: float | None
    icc: float | None
    t_low: float | None
    t_high: float | None
    wilson_low: float | None
    wilson_high: float | None
    korn_graubard_low: float | None
    korn_graubard_high: float | None
    flags: tuple[str, ...]
    reason: Reason | None


def clustered_rate(k: Sequence[int], n: Sequence[int], *, confidence: float = 0.95) -> ClusteredRate:
    """Return the pooled rate of clusters with k successes in n episodes each, with cluster-based intervals.

    ``no_attempts``: no episode. ``single_cluster``: one cluster has no between-cluster variance, all intervals
    null. ``no_between_cluster_variation``: all cluster rates equal; the clusters then count as the units, deff
    and t interval are null. ``no_variation``: every cluster has one episode, so only the icc is null and the
    intervals stand. Below six clusters ``flags`` holds ``few_clusters``.
    """
    tail = tail_area(confidence)
    some, totals = parts_of("k", k, whole_argument="n", wholes=n)
    filled = [(y, m) for y, m in zip(some, totals, strict=True) if m]
    empty = len(totals) - len(filled)
    if len(filled) < 2:
        return _without_intervals(filled, empty)
    clusters = len(filled)
    episodes, successes = sum(m for _, m in filled), sum(y for y, _ in filled)
    p = successes / episodes
    spread = sum((y * episodes - successes * m) ** 2 for y, m in filled)
    icc = _icc(filled)
    critical = student_critical(tail, clusters - 1)
    deff: float | None = None
    t_low: float | None = None
    t_high: float | None = None
    se = 0.0
    n_eff = n_star = float(clusters)
    reason: Reason | None = "no_between_cluster_variation"
    if spread:
        variance = Fraction(clusters * spread, (clusters - 1) * episodes**4)
        simple = Fraction(successes * (episodes - successes), episodes**2)
        se, deff = math.sqrt(variance), float(variance * episodes / simple)
        n_eff = float(min(Fraction(episodes), simple / variance))
        shrink = student_critical(tail, episodes - 1) / critical
        n_star = min(float(episodes), n_eff * shrink**2)
        t_low, t_high = max(0.0, p - critical * se), min(1.0, p + critical * se)
        reason = "no_variation" if icc is None else None
    wilson_low, wilson_high = wilson_limits(_share(successes, episodes, n_eff), n_eff, critical)
    exact_low, exact_high = clopper_pearson_limits(_share(successes, episodes, n_star), n_star, tail)
    return ClusteredRate(
        clusters=clusters,
        empty_clusters=empty,
        episodes=episodes,
        estimate=p,
        se=se,
        deff=deff,
        n_eff=n_eff,
        n_star=n_star,
        icc=icc,
        t_low=t_low,
        t_high=t_high,
        wilson_low=wilson_low,
        wilson_high=wilson_high,
        korn_graubard_low=exact_low,
        korn_graubard_high=exact_high,
        flags=_flags(clusters),
        reason=reason,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossedRate(Result):
    """Both one-way results over crossed units, and which one to print: the wider Korn-Graubard interval."""

    by_rows: ClusteredRate
    by_columns: ClusteredRate
    wider: Literal["rows", "columns"] | None
    reason: Reason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRate(Result):
    """The registered variant of atomic-skills: Wilson with z on an effective n between cases and trials."""

    cases: int
    trials: int
    estimate: float | None
    n_eff: float | None
    low: float | None
    high: float | None
    reason: Reason | None


def crossed_rate(k: Sequence[Sequence[int]], n: Sequence[Sequence[int]], *, confidence: float = 0.95) -> CrossedRate:
    """Return the pooled rate over crossed units (site by task): one-way over rows and over columns, and the wider.

    ``k``, ``n``: tables of successes and episodes, a row a site, a column a task; an empty cell has n = 0. Where one
    of the two has no interval there is no wider one either: its reason. Raises ``StatsInputError`` for tables of
    different shape.
    """
    some, totals = count_table("k", k), count_table("n", n)
    same_length("k", some, other_argument="n", other=totals)
    for at, (won, tried) in enumerate(zip(some, totals, strict=True)):
        parts_of(f"k[{at}]", won, whole_argument=f"n[{at}]", wholes=tried)
    by_rows = clustered_rate([sum(row) for row in some], [sum(row) for row in totals], confidence=confidence)
    columns = [[sum(column) for column in zip(*table, strict=True)] for table in (some, totals)]
    by_columns = clustered_rate(*columns, confidence=confidence)
    widths = [_width(result) for result in (by_rows, by_columns)]
    wider: Literal["rows", "columns"] | None = None
    if widths[0] is not None and widths[1] is not None:
        wider = "rows" if widths[0] >= widths[1] else "columns"
    missing = by_rows.reason if widths[0] is None else by_columns.reason
    return CrossedRate(by_rows=by_rows, by_columns=by_columns, wider=wider, reason=None if wider else missing)


def case_wilson_interval(k: Sequence[int], n: Sequence[int], *, confidence: float = 0.95) -> CaseRate:
    """Return Wilson's interval with z and n_eff = p(1 - p)/v clamped to [cases, trials]; n_eff = cases for v = 0.

    v as in ``clustered_rate``; one case has v = 0. It is what atomic-skills registers and is labelled so; elsewhere
    ``clustered_rate`` is used. No trial: null with ``no_attempts``.
    """
    tail = tail_area(confidence)
    some, totals = parts_of("k", k, whole_argument="n", wholes=n)
    filled = [(y, m) for y, m in zip(some, totals, strict=True) if m]
    cases, trials, won = len(filled), sum(m for _, m in filled), sum(y for y, _ in filled)
    if not trials:
        return CaseRate(cases=0, trials=0, estimate=None, n_eff=None, low=None, high=None, reason="no_attempts")
    spread = sum((y * trials - won * m) ** 2 for y, m in filled)
    n_eff = float(cases)
    if spread:
        variance = Fraction(cases * spread, (cases - 1) * trials**4)
        effective = Fraction(won * (trials - won), trials**2) / variance
        n_eff = float(min(Fraction(trials), max(Fraction(cases), effective)))
    low, high = wilson_limits(_share(won, trials, n_eff), n_eff, normal_critical(tail))
    return CaseRate(cases=cases, trials=trials, estimate=won / trials, n_eff=n_eff, low=low, high=high, reason=None)


def _width(result: ClusteredRate) -> float | None:
    if result.korn_graubard_low is None or result.korn_graubard_high is None:
        return None
    return result.korn_graubard_high - result.korn_graubard_low


def _icc(filled: Sequence[tuple[int, int]]) -> float | None:
    """Return the one-way ANOVA intraclass correlation, exactly; null when its denominator is 0.

    Between = sum n_k (p_k - p)^2 and within = sum n_k p_k (1 - p_k) follow from sum y_k^2/n_k, grouped by n_k.
    """
    clusters = len(filled)
    episodes, successes = sum(m for _, m in filled), sum(y for y, _ in filled)
    if clusters == episodes:
        return None
    squares: defaultdict[int, int] = defaultdict(int)
    for y, m in filled:
        squares[m] += y * y
    ratio = sum((Fraction(square, m) for m, square in squares.items()), Fraction(0))
    between = (ratio - Fraction(successes**2, episodes)) / (clusters - 1)
    within = (successes - ratio) / (episodes - clusters)
    size = (episodes - Fraction(sum(m * m for _, m in filled), episodes)) / (clusters - 1)
    total = between + (size - 1) * within
    return float((between - within) / total) if total else None


def _share(successes: int, episodes: int, effective: float) -> float:
    """Return the successes scaled to an effective n: exactly 0 or n when all ended the same way."""
    return effective if successes == episodes else successes / episodes * effective


def _flags(clusters: int) -> tuple[str, ...]:
    return ("few_clusters",) if clusters < FEW_CLUSTERS else ()


def _without_intervals(filled: Sequence[tuple[int, int]], empty: int) -> ClusteredRate:
    return ClusteredRate(
        clusters=len(filled),
        empty_clusters=empty,
        episodes=filled[0][1] if filled else 0,
        estimate=filled[0][0] / filled[0][1] if filled else None,
        se=None,
        deff=None,
        n_eff=None,
        n_star=None,
        icc=None,
        t_low=None,
        t_high=None,
        wilson_low=None,
        wilson_high=None,
        korn_graubard_low=None,
        korn_graubard_high=None,
        flags=_flags(len(filled)),
        reason="single_cluster" if filled else "no_attempts",
    )
