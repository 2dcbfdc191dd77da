"""Several tasks: the mean with registered weights beside the pooled rate, and the check that they do not contradict.

Definitions: statistics specification, section 5. A task without episodes is never dropped from an average.
All sums are exact fractions, so the order of the tasks changes no digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from trialplate.stats.distributions import chi_square_one_tail, student_critical
from trialplate.stats.inputs import as_written, parts_of, positive, same_length, sequence, tail_area
from trialplate.stats.proportions import clopper_pearson_limits
from trialplate.stats.results import Reason, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class MacroRate(Result):
    """Weighted mean of the task rates, the pooled rate, and the standard error of the mean for fixed tasks."""

    macro: float | None
    pooled: float | None
    se: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpsonCheck(Result):
    """Pooled and macro rates of two arms; ``reversal`` when the two order the arms differently."""

    pooled_a: float | None
    pooled_b: float | None
    macro_a: float | None
    macro_b: float | None
    reversal: bool | None
    reason: Reason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MantelHaenszel(Result):
    """Common odds ratio and risk difference (A minus B) over strata, and the test of no difference.

    ``statistic`` is chi-square with one degree of freedom; the corrected one takes one half off the distance
    between observed and expected successes, down to 0.
    """

    odds_ratio: float | None
    risk_difference: float | None
    statistic: float | None
    p_value: float | None
    statistic_corrected: float | None
    p_value_corrected: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MacroInterval(Result):
    """The weighted mean of the task rates with its t interval, and the weakest task with the bound that gates.

    ``degrees``: Satterthwaite's degrees of freedom. ``weakest``: index of the task with the lowest one-sided
    Clopper-Pearson bound, ``weakest_low`` that bound: every task reaches at least it at the given confidence.
    """

    macro: float | None
    se: float | None
    degrees: float | None
    low: float | None
    high: float | None
    weakest: int | None
    weakest_low: float | None
    reason: Reason | None


def macro_rate(k: Sequence[int], n: Sequence[int], *, weights: Sequence[float] | None = None) -> MacroRate:
    """Return macro mean and pooled rate of tasks with k successes in n episodes each.

    Macro = sum w k/n / sum w with the registered ``weights``, equal ones by default; se = sqrt(sum w^2 p(1 - p)/
    (n - 1)) / sum w treats the tasks as fixed. A task without episodes makes macro and se null
    (``task_without_attempts``), whatever its weight. A task with one episode has no variance: se alone is null
    (``no_variation``). An empty list of tasks: ``no_attempts``.
    """
    some, totals = parts_of("k", k, whole_argument="n", wholes=n)
    shares = _shares(weights, totals)
    pooled, macro = _rates(some, totals, shares)
    if macro is None:
        reason: Reason = "task_without_attempts" if totals else "no_attempts"
        return MacroRate(macro=None, pooled=_number(pooled), se=None, reason=reason)
    if 1 in totals:
        return MacroRate(macro=float(macro), pooled=_number(pooled), se=None, reason="no_variation")
    se = math.sqrt(sum(_variances(some, totals, shares), Fraction(0)))
    return MacroRate(macro=float(macro), pooled=_number(pooled), se=se, reason=None)


def macro_interval(
    k: Sequence[int], n: Sequence[int], *, weights: Sequence[float] | None = None, confidence: float = 0.95
) -> MacroInterval:
    """Return the macro mean with a t interval over fixed-task variance, cut at 0 and 1, and the weakest task.

    Degrees of freedom (sum v)^2 / sum v^2/(n - 1) over the tasks' shares v of the variance. No task varies: interval
    null with ``no_variation``. Other nulls as in ``macro_rate``.
    """
    mean = macro_rate(k, n, weights=weights)
    some, totals = parts_of("k", k, whole_argument="n", wholes=n)
    tail = tail_area(confidence)
    weakest: int | None = None
    weakest_low: float | None = None
    if mean.macro is not None:
        lows = [_lower_bound(y, m, confidence) for y, m in zip(some, totals, strict=True)]
        weakest_low = min(lows)
        weakest = lows.index(weakest_low)
    degrees: float | None = None
    low: float | None = None
    high: float | None = None
    reason: Reason | None = mean.reason or ("no_variation" if mean.se == 0.0 else None)
    if mean.macro is not None and mean.se:
        parts = _variances(some, totals, _shares(weights, totals))
        below = sum((v * v / (m - 1) for v, m in zip(parts, totals, strict=True)), Fraction(0))
        degrees = float(sum(parts, Fraction(0)) ** 2 / below)
        reach = student_critical(tail, degrees) * mean.se
        low, high = max(0.0, mean.macro - reach), min(1.0, mean.macro + reach)
    return MacroInterval(
        macro=mean.macro,
        se=mean.se,
        degrees=degrees,
        low=low,
        high=high,
        weakest=weakest,
        weakest_low=weakest_low,
        reason=reason,
    )


def simpson_check(
    k_a: Sequence[int],
    n_a: Sequence[int],
    *,
    k_b: Sequence[int],
    n_b: Sequence[int],
    weights: Sequence[float] | None = None,
) -> SimpsonCheck:
    """Return whether the pooled rates and the macro means order arms A and B differently.

    Entry i of all four, and of the registered ``weights``, is the same task. A tie in either is no reversal. A task
    without episodes in an arm makes that arm's macro mean and the answer null (``task_without_attempts``).
    """
    some_a, totals_a, some_b, totals_b = _two_arms(k_a, n_a, k_b, n_b)
    shares = _shares(weights, totals_a)
    pooled_a, macro_a = _rates(some_a, totals_a, shares)
    pooled_b, macro_b = _rates(some_b, totals_b, shares)
    reversal: bool | None = None
    reason: Reason | None = "task_without_attempts" if totals_a else "no_attempts"
    if pooled_a is not None and pooled_b is not None and macro_a is not None and macro_b is not None:
        reversal, reason = (pooled_a - pooled_b) * (macro_a - macro_b) < 0, None
    return SimpsonCheck(
        pooled_a=_number(pooled_a),
        pooled_b=_number(pooled_b),
        macro_a=_number(macro_a),
        macro_b=_number(macro_b),
        reversal=reversal,
        reason=reason,
    )


def mantel_haenszel(
    k_a: Sequence[int], n_a: Sequence[int], *, k_b: Sequence[int], n_b: Sequence[int]
) -> MantelHaenszel:
    """Return the Mantel-Haenszel comparison of arms A and B over strata (tasks, sites).

    A stratum without episodes in an arm makes everything null (``task_without_attempts``), no stratum at all
    ``no_attempts``. The odds ratio is null with ``unbounded`` when its denominator is 0; it and the test are null
    with ``no_variation`` when in every stratum all episodes of both arms ended the same way.
    """
    some_a, totals_a, some_b, totals_b = _two_arms(k_a, n_a, k_b, n_b)
    if not totals_a or 0 in totals_a or 0 in totals_b:
        return _undefined("task_without_attempts" if totals_a else "no_attempts")
    up, down, weight, excess, variance = (Fraction(0) for _ in range(5))
    lead = Fraction(0)
    for a, m_a, b, m_b in zip(some_a, totals_a, some_b, totals_b, strict=True):
        size, won = m_a + m_b, a + b
        up += Fraction(a * (m_b - b), size)
        down += Fraction((m_a - a) * b, size)
        lead += Fraction(a * m_b - b * m_a, size)
        weight += Fraction(m_a * m_b, size)
        excess += a - Fraction(m_a * won, size)
        variance += Fraction(m_a * m_b * won * (size - won), size * size * (size - 1))
    risk_difference = float(lead / weight)
    if variance == 0:
        return _undefined("no_variation", risk_difference=risk_difference)
    statistic = float(excess**2 / variance)
    corrected = float(max(abs(excess) - Fraction(1, 2), Fraction(0)) ** 2 / variance)
    return MantelHaenszel(
        odds_ratio=float(up / down) if down else None,
        risk_difference=risk_difference,
        statistic=statistic,
        p_value=chi_square_one_tail(statistic),
        statistic_corrected=corrected,
        p_value_corrected=chi_square_one_tail(corrected),
        reason=None if down else "unbounded",
    )


def _undefined(reason: Reason, *, risk_difference: float | None = None) -> MantelHaenszel:
    return MantelHaenszel(
        odds_ratio=None,
        risk_difference=risk_difference,
        statistic=None,
        p_value=None,
        statistic_corrected=None,
        p_value_corrected=None,
        reason=reason,
    )


def _two_arms(
    k_a: Sequence[int], n_a: Sequence[int], k_b: Sequence[int], n_b: Sequence[int]
) -> tuple[list[int], list[int], list[int], list[int]]:
    some_a, totals_a = parts_of("k_a", k_a, whole_argument="n_a", wholes=n_a)
    some_b, totals_b = parts_of("k_b", k_b, whole_argument="n_b", wholes=n_b)
    same_length("n_b", totals_b, other_argument="n_a", other=totals_a)
    return some_a, totals_a, some_b, totals_b


def _shares(weights: object, tasks: Sequence[int]) -> list[Fraction]:
    """Return what part of the macro mean each task is: equal parts, or the weights as written over their sum."""
    if weights is None:
        return [Fraction(1, len(tasks)) for _ in tasks]
    given = [as_written(positive(f"weights[{at}]", item)) for at, item in enumerate(sequence("weights", weights))]
    same_length("weights", given, other_argument="n", other=tasks)
    total = sum(given, Fraction(0))
    return [weight / total for weight in given]


def _rates(
    some: Sequence[int], totals: Sequence[int], shares: Sequence[Fraction]
) -> tuple[Fraction | None, Fraction | None]:
    """Return the pooled rate (null without episodes) and the macro mean (null with an empty task)."""
    pooled = Fraction(sum(some), sum(totals)) if sum(totals) else None
    if not totals or 0 in totals:
        return pooled, None
    rates = (share * Fraction(y, m) for share, y, m in zip(shares, some, totals, strict=True))
    return pooled, sum(rates, Fraction(0))


def _variances(some: Sequence[int], totals: Sequence[int], shares: Sequence[Fraction]) -> list[Fraction]:
    """Return every task's part of the variance of the macro mean; each task has two episodes or more."""
    rows = zip(shares, some, totals, strict=True)
    return [share**2 * Fraction(y * (m - y), m * m * (m - 1)) for share, y, m in rows]


def _lower_bound(k: int, n: int, confidence: float) -> float:
    return clopper_pearson_limits(k, n, tail_area(confidence, "lower"))[0]


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
