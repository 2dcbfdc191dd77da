"""Bounds read out of the draws of a bootstrap: registered quantile rule, no draw dropped.

Definitions: statistics specification, section 6. A draw whose statistic is undefined is counted, and one is enough to
leave the statistic without bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trialplate.stats.inputs import as_written, one_of, tail_area
from trialplate.stats.results import Reason, Result

QuantileRule = Literal["order", "linear"]
QUANTILE_RULES: tuple[QuantileRule, ...] = ("order", "linear")
Point = tuple[float | None, Reason | None]
Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapInterval(Result):
    """One statistic with its percentile bounds.

    ``low``/``high``: the registered quantile rule. ``order_*``, ``linear_*``: both rules. ``one_sided_*``: the bound
    that spends the whole error on that side, by the registered rule. ``undefined_draws``: draws without a value.
    """

    estimate: float | None
    low: float | None
    high: float | None
    one_sided_low: float | None
    one_sided_high: float | None
    order_low: float | None
    order_high: float | None
    linear_low: float | None
    linear_high: float | None
    undefined_draws: int
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class DrawQuantiles:
    """Reads bounds out of sorted draws: the order statistic at floor(q (R - 1)), or type 7 between two of them."""

    rule: QuantileRule
    tail: Fraction

    @classmethod
    def of(cls, quantile_rule: str, confidence: float) -> DrawQuantiles:
        """Check both registered parameters."""
        one_of("quantile_rule", quantile_rule, QUANTILE_RULES)
        return cls("order" if quantile_rule == "order" else "linear", as_written(tail_area(confidence)))

    def two_sided(self, ordered: Floats, rule: QuantileRule) -> tuple[Floats, Floats]:
        """Return both ends by ``rule`` for every row of sorted draws (rows, R)."""
        return self._at(ordered, self.tail, rule), self._at(ordered, 1 - self.tail, rule)

    def one_sided(self, ordered: Floats) -> tuple[Floats, Floats]:
        """Return the one-sided bounds at the same confidence by the registered rule."""
        return self._at(ordered, 2 * self.tail, self.rule), self._at(ordered, 1 - 2 * self.tail, self.rule)

    @staticmethod
    def _at(ordered: Floats, level: Fraction, rule: QuantileRule) -> Floats:
        position = level * (ordered.shape[-1] - 1)
        below = math.floor(position)
        value: Floats = ordered[..., below]
        if rule == "linear" and position != below:
            value = value + (ordered[..., below + 1] - value) * float(position - below)
        return value


def bootstrap_intervals(
    values: Floats,
    defined: Truths,
    points: Sequence[Point],
    quantiles: DrawQuantiles,
    *,
    alone: Reason | None = None,
) -> list[BootstrapInterval]:
    """Return one interval per row of draws (rows, R); where ``defined`` is false the value means nothing.

    ``points``: estimate, or null with its reason, of each row. ``alone``: the reason when there is only one unit to
    draw, which bounds nothing.
    """
    ordered = np.sort(values, axis=1)
    by_rule = [quantiles.two_sided(ordered, rule) for rule in QUANTILE_RULES]
    registered = by_rule[QUANTILE_RULES.index(quantiles.rule)]
    columns = np.stack([*registered, *quantiles.one_sided(ordered), *by_rule[0], *by_rule[1]], axis=1).tolist()
    missing = (values.shape[1] - defined.sum(axis=1)).tolist()
    intervals = []
    for (estimate, reason), bounds, undefined in zip(points, columns, missing, strict=True):
        why: Reason | None = reason or ("undefined_draws" if undefined else alone)
        intervals.append(_interval(estimate, [None] * 8 if why else bounds, undefined, why))
    return intervals


def _interval(
    estimate: float | None, bounds: Sequence[float | None], undefined: int, reason: Reason | None
) -> BootstrapInterval:
    return BootstrapInterval(
        estimate=estimate,
        low=bounds[0],
        high=bounds[1],
        one_sided_low=bounds[2],
        one_sided_high=bounds[3],
        order_low=bounds[4],
        order_high=bounds[5],
        linear_low=bounds[6],
        linear_high=bounds[7],
        undefined_draws=undefined,
        reason=reason,
    )
