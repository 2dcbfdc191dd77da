"""How sure a ranking is: strengths and ranks over resampled sessions, agreement over resampled policies.

Definitions: statistics specification, section 10. Votes of one session share an evaluator and a day: sessions are
drawn, not votes. The stream and the quantile rule are those of the family bootstrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import StatsInputError
from trialplate.stats.bootstrap_bounds import (
    BootstrapInterval,
    DrawQuantiles,
    Point,
    QuantileRule,
    bootstrap_intervals,
)
from trialplate.stats.inputs import real, reals, sequence
from trialplate.stats.ranking import (
    BradleyTerry,
    RankAgreement,
    bradley_terry,
    fitted_strengths,
    rank_agreement,
    strongly_connected,
    win_table,
)
from trialplate.stats.resampling import DEFAULT_DRAWS, DEFAULT_SEED, index_chunks, multiplicity_chunks
from trialplate.stats.results import Reason, Result

Floats = NDArray[np.float64]
_CELLS_AT_ONCE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceRanking(Result):
    """Bradley-Terry over all votes, with bounds of every strength and rank from draws of whole sessions.

    Rank 1 is the strongest; equal strengths share the better rank. ``undefined_draws``: draws whose votes do not
    connect all arms both ways.
    """

    votes: BradleyTerry
    strengths: tuple[BootstrapInterval, ...]
    ranks: tuple[int | None, ...]
    rank_low: tuple[int | None, ...]
    rank_high: tuple[int | None, ...]
    undefined_draws: int
    sessions: int
    reason: Reason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAgreementIntervals:
    """The agreement and, for each measure, its bounds over draws of whole policies."""

    agreement: RankAgreement
    mmrv: BootstrapInterval
    pearson: BootstrapInterval
    spearman: BootstrapInterval
    kendall: BootstrapInterval


def preference_ranking(
    sessions: Sequence[Sequence[Sequence[float]]],
    *,
    ridge: float = 0.0,
    seed: int = DEFAULT_SEED,
    draws: int = DEFAULT_DRAWS,
    confidence: float = 0.95,
    quantile_rule: QuantileRule = "order",
) -> PreferenceRanking:
    """Return strengths and ranks of the arms from one table of wins per session.

    Null with ``not_strongly_connected`` where the votes do not order the arms, ``undefined_draws`` where those of a
    draw do not, ``single_cluster`` with one session. ``ridge`` > 0 defines every draw and is labelled so in
    ``votes``. Raises ``StatsInputError`` without any session and for tables of different size.
    """
    tables = [win_table(table) for table in sequence("sessions", sessions)]
    if not tables or any(table.shape != tables[0].shape for table in tables):
        raise StatsInputError("sessions", "expected at least one table of wins, all of the same arms")
    quantiles = DrawQuantiles.of(quantile_rule, confidence)
    penalty = real("ridge", ridge, minimum=0.0)
    arms, stacked = len(tables[0]), np.array(tables)
    whole = bradley_terry(stacked.sum(axis=0).tolist(), ridge=penalty)
    flat = stacked.reshape(len(tables), -1)
    parts = [
        _draw_strengths((chunk @ flat).reshape(-1, arms, arms), penalty)
        for chunk in multiplicity_chunks(seed, draws, families=len(tables))
    ]
    strengths, defined = (np.concatenate(part) for part in zip(*parts, strict=True))
    points: list[Point] = [
        (None if whole.log_strengths is None else whole.log_strengths[arm], whole.reason) for arm in range(arms)
    ]
    alone: Reason | None = "single_cluster" if len(tables) == 1 else None
    every = np.broadcast_to(defined, (arms, draws))
    intervals = bootstrap_intervals(strengths.T, every, points, quantiles, alone=alone)
    reason = intervals[0].reason
    ranks = (
        _ranks(np.array([whole.log_strengths]))[0].astype(np.int64).tolist() if whole.log_strengths else [None] * arms
    )
    low, high = ([None] * arms, [None] * arms)
    if reason is None:
        ordered = np.sort(_ranks(strengths), axis=0).T
        low, high = (bound.astype(np.int64).tolist() for bound in quantiles.two_sided(ordered, "order"))
    return PreferenceRanking(
        votes=whole,
        strengths=tuple(intervals),
        ranks=tuple(ranks),
        rank_low=tuple(low),
        rank_high=tuple(high),
        undefined_draws=int(draws - defined.sum()),
        sessions=len(tables),
        reason=reason,
    )


def rank_agreement_intervals(
    real: Sequence[float],
    sim: Sequence[float],
    *,
    seed: int = DEFAULT_SEED,
    draws: int = DEFAULT_DRAWS,
    confidence: float = 0.95,
    quantile_rule: QuantileRule = "order",
) -> RankAgreementIntervals:
    """Return ``rank_agreement`` with bounds over draws of whole policies.

    A draw in which either side is constant has no correlation: it is counted and leaves all three without bounds
    (``undefined_draws``), which few policies often do. One policy: ``single_cluster``. Raises ``StatsInputError``
    without any policy.
    """
    agreement = rank_agreement(real, sim)
    quantiles = DrawQuantiles.of(quantile_rule, confidence)
    truth, model = np.array(reals("real", real)), np.array(reals("sim", sim))
    if not len(truth):
        raise StatsInputError("real", "expected at least one policy, got none")
    size = max(1, _CELLS_AT_ONCE // len(truth) ** 2)
    parts = [
        _draw_agreement(truth[rows], model[rows])
        for chunk in index_chunks(seed, draws, families=len(truth))
        for rows in np.array_split(chunk, -(-len(chunk) // size))
    ]
    values, varied = (np.concatenate(part) for part in zip(*parts, strict=True))
    defined = np.stack([np.ones(draws, dtype=np.bool_), varied, varied, varied])
    points: list[Point] = [(agreement.mmrv, None)]
    points += [(value, agreement.reason) for value in (agreement.pearson, agreement.spearman, agreement.kendall)]
    alone: Reason | None = "single_cluster" if len(truth) == 1 else None
    mmrv, pearson, spearman, kendall = bootstrap_intervals(values.T, defined, points, quantiles, alone=alone)
    return RankAgreementIntervals(agreement=agreement, mmrv=mmrv, pearson=pearson, spearman=spearman, kendall=kendall)


def _draw_strengths(tables: Floats, penalty: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return strengths (draws, arms), zeros where undefined, and whether they are defined."""
    defined = np.ones(len(tables), dtype=np.bool_) if penalty else strongly_connected(tables > 0.0)
    strengths = np.zeros(tables.shape[:2])
    if defined.any():
        strengths[defined] = fitted_strengths(tables[defined], penalty)
    return strengths, defined


def _ranks(strengths: Floats) -> Floats:
    """Return 1 + the number of stronger arms, by more than rounding, for every arm (draws, arms)."""
    stronger = strengths[:, None, :] > strengths[:, :, None] + 1e-9
    return np.asarray(1.0 + stronger.sum(axis=2))


def _draw_agreement(r: Floats, s: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return MMRV, Pearson, Spearman, Kendall of every draw (draws, 4), and whether both sides vary."""
    gap_r, gap_s = r[:, :, None] - r[:, None, :], s[:, :, None] - s[:, None, :]
    wrong = (gap_s < 0.0) != (gap_r < 0.0)
    mmrv = np.where(wrong, np.abs(gap_r), 0.0).max(axis=2).mean(axis=1)
    varied = (np.ptp(r, axis=1) > 0.0) & (np.ptp(s, axis=1) > 0.0)
    sign_r, sign_s = np.sign(gap_r), np.sign(gap_s)
    rank_r, rank_s = sign_r.sum(axis=2) / 2.0, sign_s.sum(axis=2) / 2.0
    columns = [
        _correlation(r - r.mean(axis=1, keepdims=True), s - s.mean(axis=1, keepdims=True), varied),
        _correlation(rank_r, rank_s, varied),
        _correlation(sign_r.reshape(len(r), -1), sign_s.reshape(len(s), -1), varied),
    ]
    return np.stack([mmrv, *columns], axis=1), varied


def _correlation(x: Floats, y: Floats, varied: NDArray[np.bool_]) -> Floats:
    """Return sum xy / sqrt(sum x^2 sum y^2) of every draw, 0 to hold the place where a side does not vary."""
    scale = np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    products = (x * y).sum(axis=1)
    found = np.divide(products, scale, out=np.zeros(len(x)), where=varied & (scale > 0.0))
    return np.asarray(np.minimum(1.0, np.maximum(-1.0, found)))
