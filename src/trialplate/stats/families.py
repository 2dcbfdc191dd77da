"""The paired family bootstrap: differences of success and ratios of cost or time per success, t bounds beside them.

Definitions: statistics specification, section 6. Families are drawn, not episodes, and the same draws serve every
arm, so that adding an arm changes no other number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trialplate.errors import StatsInputError
from trialplate.stats.bootstrap_bounds import BootstrapInterval, DrawQuantiles, QuantileRule
from trialplate.stats.family_draws import (
    COST,
    EPISODES,
    SUCCESSES,
    TIME,
    FamilyDraws,
    Pair,
    checked_totals,
    differences,
    draw_families,
    per_success,
    ratios,
    success_rates,
)
from trialplate.stats.family_intervals import (
    DifferenceInterval,
    LogRatioInterval,
    difference_of,
    known_costs,
    log_ratio_of,
)
from trialplate.stats.family_totals import Measure
from trialplate.stats.inputs import count, parts_of, same_length, sequence, tail_area
from trialplate.stats.resampling import DEFAULT_DRAWS, DEFAULT_SEED
from trialplate.stats.results import Reason, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmBootstrap:
    """One arm by itself, secondary: its gate is ``clustered_rate``, and ``fieller_interval`` bounds what it costs."""

    rate: BootstrapInterval
    cost_per_success: BootstrapInterval
    time_per_success: BootstrapInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class PairBootstrap:
    """Arm ``a`` against arm ``b`` (indices): percentile bounds, and the t bounds that must hold too."""

    a: int
    b: int
    difference: BootstrapInterval
    cost_ratio: BootstrapInterval
    time_ratio: BootstrapInterval
    difference_t: DifferenceInterval
    cost_ratio_t: LogRatioInterval
    time_ratio_t: LogRatioInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyBootstrap:
    """Every arm and every pair from one index matrix, and what that matrix was drawn with."""

    families: int
    seed: int
    draws: int
    confidence: float
    quantile_rule: QuantileRule
    arms: tuple[ArmBootstrap, ...]
    pairs: tuple[PairBootstrap, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedBootstrap(Result):
    """Two arms over the same families. ``undefined_draws``: draws without a ratio. The rest stands in the four parts.

    ``reason``: why the difference, or else the ratio, lacks a number.
    """

    difference: float | None
    difference_low: float | None
    difference_high: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    undefined_draws: int
    families: int
    draws: int
    quantile_rule: QuantileRule
    difference_bounds: BootstrapInterval
    ratio_bounds: BootstrapInterval
    difference_t: DifferenceInterval
    ratio_t: LogRatioInterval
    reason: Reason | None


def paired_family_bootstrap(
    n_a: Sequence[int],
    k_a: Sequence[int],
    *,
    cost_a: Sequence[int | None] | None,
    n_b: Sequence[int],
    k_b: Sequence[int],
    cost_b: Sequence[int | None] | None,
    seed: int = DEFAULT_SEED,
    draws: int = DEFAULT_DRAWS,
    confidence: float = 0.95,
    quantile_rule: QuantileRule = "order",
) -> PairedBootstrap:
    """Return S_A/n_A - S_B/n_B and (C_A/S_A)/(C_B/S_B) over the same families with bootstrap and t bounds.

    One entry per family, families in order of the UTF-8 bytes of their ids (``family_totals`` sees to it). A cost of
    ``None`` is unknown and makes the ratio null (``unknown_total``). Other reasons: ``no_attempts``,
    ``zero_successes``, ``zero_cost``, ``undefined_draws``, ``single_family``. Raises ``StatsInputError`` without any
    family, and where K times the largest total is 2^53 or more.
    """
    won_a, tried_a = parts_of("k_a", k_a, whole_argument="n_a", wholes=n_a)
    won_b, tried_b = parts_of("k_b", k_b, whole_argument="n_b", wholes=n_b)
    same_length("n_b", tried_b, other_argument="n_a", other=tried_a)
    spent_a, spent_b = _costs("cost_a", cost_a, tried_a), _costs("cost_b", cost_b, tried_a)
    if not tried_a:
        raise StatsInputError("n_a", "expected at least one family, got none")
    zeros = [0] * len(tried_a)
    arms = [[tried_a, won_a, spent_a or zeros, zeros], [tried_b, won_b, spent_b or zeros, zeros]]
    unknown: list[tuple[int, Measure]] = [
        (arm, "cost") for arm, known in enumerate((spent_a, spent_b)) if known is None
    ]
    table = checked_totals(np.array(arms, dtype=np.int64).transpose(2, 0, 1))
    found = draw_families(table, seed, draws, DrawQuantiles.of(quantile_rule, confidence), unknown)
    tail = tail_area(confidence)
    difference, ratio = differences(found, [(0, 1)])[0], ratios(found, [(0, 1)], COST)[0]
    return PairedBootstrap(
        difference=difference.estimate,
        difference_low=difference.low,
        difference_high=difference.high,
        ratio=ratio.estimate,
        ratio_low=ratio.low,
        ratio_high=ratio.high,
        undefined_draws=ratio.undefined_draws,
        families=len(table),
        draws=draws,
        quantile_rule=quantile_rule,
        difference_bounds=difference,
        ratio_bounds=ratio,
        difference_t=_difference_t(found, 0, 1, tail),
        ratio_t=_ratio_t(found, 0, 1, COST, tail),
        reason=difference.reason or ratio.reason,
    )


def family_bootstrap(
    totals: Any,
    *,
    seed: int = DEFAULT_SEED,
    draws: int = DEFAULT_DRAWS,
    confidence: float = 0.95,
    quantile_rule: QuantileRule = "order",
    pairs: Sequence[tuple[int, int]] | None = None,
    unknown: Collection[tuple[int, Measure]] = (),
) -> FamilyBootstrap:
    """Return every arm and every pair of arms from one index matrix; adding an arm changes no other number.

    ``totals``: whole numbers (families, arms, 4): episodes, successes, cost, time. ``pairs``: arm indices, default
    each arm against each later one. ``unknown``: (arm, "cost" or "time") whose totals are unknown, as
    ``family_totals`` returns it. Raises ``StatsInputError`` for totals that are not whole, successes above episodes,
    and K times the largest total at 2^53 or more, where sums would not be exact.
    """
    table = checked_totals(totals)
    arms = table.shape[1]
    wanted = [(a, b) for a in range(arms) for b in range(a + 1, arms)] if pairs is None else _pairs(pairs, arms)
    found = draw_families(table, seed, draws, DrawQuantiles.of(quantile_rule, confidence), unknown)
    tail = tail_area(confidence)
    singles = zip(success_rates(found), per_success(found, COST), per_success(found, TIME), strict=True)
    doubles = zip(
        wanted,
        differences(found, wanted),
        ratios(found, wanted, COST),
        ratios(found, wanted, TIME),
        strict=True,
    )
    return FamilyBootstrap(
        families=len(table),
        seed=seed,
        draws=draws,
        confidence=confidence,
        quantile_rule=quantile_rule,
        arms=tuple(ArmBootstrap(rate=r, cost_per_success=c, time_per_success=t) for r, c, t in singles),
        pairs=tuple(
            PairBootstrap(
                a=a,
                b=b,
                difference=difference,
                cost_ratio=cost,
                time_ratio=time,
                difference_t=_difference_t(found, a, b, tail),
                cost_ratio_t=_ratio_t(found, a, b, COST, tail),
                time_ratio_t=_ratio_t(found, a, b, TIME, tail),
            )
            for (a, b), difference, cost, time in doubles
        ),
    )


def _costs(argument: str, values: Sequence[int | None] | None, families: Sequence[int]) -> list[int] | None:
    if values is None:
        return None
    same_length(argument, sequence(argument, values), other_argument="n_a", other=families)
    return known_costs(argument, values)


def _pairs(pairs: Sequence[Pair], arms: int) -> list[Pair]:
    wanted = []
    for at, pair in enumerate(sequence("pairs", pairs)):
        a, b = (count(f"pairs[{at}]", arm, maximum=arms - 1) for arm in sequence(f"pairs[{at}]", pair))
        if a == b:
            raise StatsInputError(f"pairs[{at}]", f"arm {a} against itself")
        wanted.append((a, b))
    return wanted


def _difference_t(found: FamilyDraws, a: int, b: int, tail: float) -> DifferenceInterval:
    k_a, n_a, k_b, n_b = (found.column(arm, column) for arm in (a, b) for column in (SUCCESSES, EPISODES))
    return difference_of(k_a, n_a, k_b, n_b, tail=tail)


def _ratio_t(found: FamilyDraws, a: int, b: int, column: int, tail: float) -> LogRatioInterval:
    if not (found.known(a, column) and found.known(b, column)):
        return LogRatioInterval(None, None, None, None, "unknown_total")
    cost_a, k_a, cost_b, k_b = (found.column(arm, part) for arm in (a, b) for part in (column, SUCCESSES))
    return log_ratio_of(cost_a, k_a, cost_b, k_b, tail=tail)
