"""Bounds from the t distribution over families, beside the bootstrap: ratio, difference, cost per success of one arm.

Definitions: statistics specification, section 6. A family's influence is what the statistic gains from a little more
of that family. Whether families vary at all is decided in whole numbers, so no interval has zero width by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from trialplate.stats.distributions import student_critical
from trialplate.stats.inputs import count, counts, parts_of, same_length, sequence, tail_area
from trialplate.stats.results import Reason, Result

_SUSPECT = 1e-11
"""Influences this small beside their largest part are computed again in fractions: they may be zero."""
MAX_EXPONENT = 700.0
Whole = NDArray[np.int64]
Column = tuple[Fraction, Whole]


@dataclass(frozen=True, slots=True)
class LogRatioInterval(Result):
    """Ratio of the arms' costs per success, the standard error of its logarithm, and its t interval."""

    ratio: float | None
    se_log: float | None
    low: float | None
    high: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class DifferenceInterval(Result):
    """Difference of two pooled rates over the same families, its standard error and t interval, cut at -1 and 1."""

    estimate: float | None
    se: float | None
    low: float | None
    high: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class FiellerInterval(Result):
    """Cost per success of one arm with Fieller's interval. ``g`` at 1 or above: the set is no interval."""

    estimate: float | None
    g: float | None
    low: float | None
    high: float | None
    reason: Reason | None


def paired_log_ratio_interval(
    cost_a: Sequence[int | None],
    k_a: Sequence[int],
    *,
    cost_b: Sequence[int | None],
    k_b: Sequence[int],
    confidence: float = 0.95,
) -> LogRatioInterval:
    """Return (C_A/S_A)/(C_B/S_B) over the same families with R exp(-+ t(K-1) se).

    Influence of family k: C_Ak/C_A - S_Ak/S_A - C_Bk/C_B + S_Bk/S_B; se^2 = K/(K-1) sum of squares. Null with
    ``unknown_total`` (a cost is ``None``), ``zero_successes``, ``zero_cost`` (of B: no ratio; of A: no bounds),
    ``no_pairs`` (no family), ``single_family``, ``no_between_family_variation`` (all influences exactly 0), and
    ``unbounded`` where exp overflows.
    """
    spent_a, won_a = known_costs("cost_a", cost_a), counts("k_a", k_a)
    spent_b, won_b = known_costs("cost_b", cost_b), counts("k_b", k_b)
    families = sequence("cost_a", cost_a)
    for argument, column in (("k_a", k_a), ("cost_b", cost_b), ("k_b", k_b)):
        same_length(argument, column, other_argument="cost_a", other=families)
    tail = tail_area(confidence)
    if spent_a is None or spent_b is None:
        return LogRatioInterval(None, None, None, None, "unknown_total")
    return log_ratio_of(*map(_whole, (spent_a, won_a, spent_b, won_b)), tail=tail)


def log_ratio_of(cost_a: Whole, k_a: Whole, cost_b: Whole, k_b: Whole, *, tail: float) -> LogRatioInterval:
    """Return the interval for checked columns; ``tail`` is left outside at each end."""
    columns = (cost_a, k_a, cost_b, k_b)
    spent_a, won_a, spent_b, won_b = (int(column.sum()) for column in columns)
    missing: Reason | None = None
    if not len(cost_a):
        missing = "no_pairs"
    elif not won_a or not won_b:
        missing = "zero_successes"
    elif not spent_b:
        missing = "zero_cost"
    if missing:
        return LogRatioInterval(None, None, None, None, missing)
    ratio = float(Fraction(spent_a * won_b, won_a * spent_b))
    if not spent_a:
        return LogRatioInterval(ratio, None, None, None, "zero_cost")
    signs = ((1, spent_a), (-1, won_a), (-1, spent_b), (1, won_b))
    se = _standard_error([(Fraction(sign, total), c) for (sign, total), c in zip(signs, columns, strict=True)])
    if not se:
        reason: Reason = "single_family" if se is None else "no_between_family_variation"
        return LogRatioInterval(ratio, se, None, None, reason)
    reach = student_critical(tail, len(cost_a) - 1) * se
    if reach > MAX_EXPONENT:
        return LogRatioInterval(ratio, se, None, None, "unbounded")
    return LogRatioInterval(ratio, se, ratio * math.exp(-reach), ratio * math.exp(reach), None)


def paired_difference_interval(
    k_a: Sequence[int], n_a: Sequence[int], *, k_b: Sequence[int], n_b: Sequence[int], confidence: float = 0.95
) -> DifferenceInterval:
    """Return S_A/N_A - S_B/N_B over the same families, D -+ t(K-1) se, cut at -1 and 1.

    Influence of family k: (y_Ak - p_A n_Ak)/N_A - (y_Bk - p_B n_Bk)/N_B; se^2 = K/(K-1) sum of squares; with equal
    sizes that is the one-sample t interval of the family differences. Null with ``no_pairs`` (no family),
    ``no_attempts`` (an arm has none), ``single_family``, ``no_between_family_variation``.
    """
    won_a, tried_a = parts_of("k_a", k_a, whole_argument="n_a", wholes=n_a)
    won_b, tried_b = parts_of("k_b", k_b, whole_argument="n_b", wholes=n_b)
    same_length("n_b", tried_b, other_argument="n_a", other=tried_a)
    return difference_of(*map(_whole, (won_a, tried_a, won_b, tried_b)), tail=tail_area(confidence))


def difference_of(k_a: Whole, n_a: Whole, k_b: Whole, n_b: Whole, *, tail: float) -> DifferenceInterval:
    """Return the interval for checked columns; ``tail`` is left outside at each end."""
    won_a, tried_a, won_b, tried_b = (int(column.sum()) for column in (k_a, n_a, k_b, n_b))
    if not tried_a or not tried_b:
        return DifferenceInterval(None, None, None, None, "no_attempts" if len(n_a) else "no_pairs")
    difference = (won_a * tried_b - won_b * tried_a) / (tried_a * tried_b)
    se = _standard_error(
        [
            (Fraction(1, tried_a), k_a),
            (Fraction(-won_a, tried_a**2), n_a),
            (Fraction(-1, tried_b), k_b),
            (Fraction(won_b, tried_b**2), n_b),
        ]
    )
    if not se:
        reason: Reason = "single_family" if se is None else "no_between_family_variation"
        return DifferenceInterval(difference, se, None, None, reason)
    reach = student_critical(tail, len(n_a) - 1) * se
    return DifferenceInterval(difference, se, max(-1.0, difference - reach), min(1.0, difference + reach), None)


def fieller_interval(cost: Sequence[int | None], k: Sequence[int], *, confidence: float = 0.95) -> FiellerInterval:
    """Return one arm's cost per success C/S over families with Fieller's interval.

    The limits are the roots r of (mean cost - r mean successes)^2 = t(K-1)^2 var(mean cost - r mean successes);
    g = t^2 var(mean successes)/mean successes^2. g >= 1: the set is no interval (``unbounded``). Null with
    ``unknown_total``, ``no_attempts`` (no family), ``zero_successes``, ``single_family``, and
    ``no_between_family_variation`` when cost minus estimate times successes is 0 in every family.
    Source: Fieller, J. R. Stat. Soc. B 16 (1954) 175.
    """
    spent, won = known_costs("cost", cost), counts("k", k)
    same_length("k", won, other_argument="cost", other=sequence("cost", cost))
    tail = tail_area(confidence)
    if spent is None:
        return FiellerInterval(None, None, None, None, "unknown_total")
    families, total, successes = len(won), sum(spent), sum(won)
    if not successes:
        return FiellerInterval(None, None, None, None, "zero_successes" if families else "no_attempts")
    if families == 1:
        return FiellerInterval(total / successes, None, None, None, "single_family")
    estimate = Fraction(total, successes)
    square = student_critical(tail, families - 1) ** 2 / (families - 1)
    cost_spread, both_spread, won_spread = _moments(spent, won)
    g = square * float(won_spread * families / Fraction(successes) ** 2)
    if all(Fraction(c) == estimate * s for c, s in zip(spent, won, strict=True)):
        return FiellerInterval(float(estimate), g, None, None, "no_between_family_variation")
    if g >= 1.0:
        return FiellerInterval(float(estimate), g, None, None, "unbounded")
    residual = float(cost_spread - 2 * estimate * both_spread + estimate**2 * won_spread)
    leftover = float(cost_spread - both_spread**2 / won_spread) if won_spread else float(cost_spread)
    root = math.sqrt(max(0.0, residual - g * leftover) * square * families) / successes
    centre = float(estimate) - (g * float(both_spread / won_spread) if won_spread else 0.0)
    return FiellerInterval(float(estimate), g, (centre - root) / (1.0 - g), (centre + root) / (1.0 - g), None)


def known_costs(argument: str, values: object) -> list[int] | None:
    """Return the costs, or nothing when one of them is unknown."""
    items = sequence(argument, values)
    known = [count(f"{argument}[{at}]", item) for at, item in enumerate(items) if item is not None]
    counts(argument, known)
    return known if len(known) == len(items) else None


def _whole(values: Sequence[int]) -> Whole:
    return np.array(values, dtype=np.int64)


def _moments(spent: Sequence[int], won: Sequence[int]) -> tuple[Fraction, Fraction, Fraction]:
    """Return the sums of squares and products about the means, exactly."""
    families, total, successes = len(won), sum(spent), sum(won)
    return (
        sum(c * c for c in spent) - Fraction(total * total, families),
        sum(c * s for c, s in zip(spent, won, strict=True)) - Fraction(total * successes, families),
        sum(s * s for s in won) - Fraction(successes * successes, families),
    )


def _standard_error(columns: Sequence[Column]) -> float | None:
    """Return sqrt(K/(K-1) sum u^2) of the influences u = sum of coefficient times column; null for one family.

    The squares are added without rounding in between, so that no order and no machine changes the sum.
    """
    families = len(columns[0][1])
    if families == 1:
        return None
    parts = [float(factor) * values.astype(np.float64) for factor, values in columns]
    influence = parts[0] + parts[1] + parts[2] + parts[3]
    largest = max(float(np.abs(part).max()) for part in parts)
    if float(np.abs(influence).max()) <= _SUSPECT * largest:
        influence = np.array([float(exact) for exact in _exact_influence(columns)])
    return math.sqrt(families / (families - 1) * math.fsum((influence * influence).tolist()))


def _exact_influence(columns: Sequence[Column]) -> Iterator[Fraction]:
    factors = [factor for factor, _ in columns]
    for row in zip(*(values.tolist() for _, values in columns), strict=True):
        yield sum((factor * value for factor, value in zip(factors, row, strict=True)), Fraction(0))
