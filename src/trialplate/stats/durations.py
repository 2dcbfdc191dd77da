"""Time to success: what competes with it, what merely was not waited for, and how long the mean episode takes.

Definitions: statistics specification, section 11. A terminal failure is a competing event: an episode that failed
will not succeed later, and to censor it would print a success rate that nobody saw.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from trialplate.stats.distributions import chi_square_one_tail, normal_critical
from trialplate.stats.inputs import count, counts, flags, positive, reals, same_length, tail_area
from trialplate.stats.results import Interval, Reason, Result, Value

SUCCESS, FAILURE, TIMEOUT = 1, 2, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CumulativeIncidence(Result):
    """The chance that the event has happened by each time, [time, value] at times with the event; its last value."""

    n: int
    steps: tuple[tuple[float, float], ...]
    final: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KaplanMeier(Result):
    """Survival [time, value, low, high] at each event time; limits are null where nothing survives. The median."""

    NULL_BY_DEFINITION: ClassVar[frozenset[str]] = frozenset({"steps"})

    n: int
    steps: tuple[tuple[float, float, float | None, float | None], ...]
    median: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class LogRank(Result):
    """Log-rank statistic, chi-square with one degree of freedom, and its p-value."""

    statistic: float | None
    p_value: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class _AtRisk:
    """One distinct time: episodes still going just before it, events, and episodes left there without one."""

    time: float
    going: int
    events: int
    left: int


def cumulative_incidence(
    times: Sequence[float], events: Sequence[int], *, cause: int = SUCCESS
) -> CumulativeIncidence:
    """Return the Aalen-Johansen cumulative incidence of ``cause``; 1 success, 2 terminal failure, 0 censored.

    Adds S(t-) d/n at each time, S the share without any event yet; censoring at a time comes after its events. Where
    only timeouts at the limit are censored the last value is exactly k/N. No episode: null with ``no_attempts``.
    """
    when = reals("times", times, minimum=0.0)
    codes = counts("events", events, maximum=2)
    same_length("events", codes, other_argument="times", other=when)
    wanted = count("cause", cause, minimum=1, maximum=2)
    if not when:
        return CumulativeIncidence(n=0, steps=(), final=None, reason="no_attempts")
    ends = [code != 0 for code in codes]
    causes: dict[float, int] = {}
    for time, code in zip(when, codes, strict=True):
        causes[time] = causes.get(time, 0) + (code == wanted)
    steps: list[tuple[float, float]] = []
    base, share, cohort, happened = 0.0, 1.0, len(when), 0
    gone = 0
    for row in _at_risk(when, ends):
        happened += causes[row.time]
        if causes[row.time]:
            steps.append((row.time, base + share * happened / cohort))
        gone += row.events
        if row.left:
            base, share = base + share * happened / cohort, share * (cohort - gone) / cohort
            cohort, happened, gone = row.going - row.events - row.left, 0, 0
            if not cohort:
                break
    return CumulativeIncidence(n=len(when), steps=tuple(steps), final=steps[-1][1] if steps else 0.0, reason=None)


def kaplan_meier(times: Sequence[float], observed: Sequence[int], *, confidence: float = 0.95) -> KaplanMeier:
    """Return the Kaplan-Meier survival with log-log limits; ``observed``: 0 where censored, truly and not by failure.

    Limits S^exp(-+z sd/ln S), sd^2 = sum d/(n (n - d)) (Greenwood). Median: first time with S <= 1/2, null with
    ``median_not_reached``. No episode: ``no_attempts``. Source: Kaplan and Meier, J. Am. Stat. Assoc. 53 (1958) 457.
    """
    when, ends = _checked("times", times, "observed", observed)
    critical = normal_critical(tail_area(confidence))
    if not when:
        return KaplanMeier(n=0, steps=(), median=None, reason="no_attempts")
    steps: list[tuple[float, float, float | None, float | None]] = []
    variance, median = 0.0, None
    for row, survival in _survival(when, ends):
        low: float | None = None
        high: float | None = None
        if survival > 0.0:
            variance += row.events / (row.going * (row.going - row.events))
            reach = critical * math.sqrt(variance) / abs(math.log(survival))
            low, high = survival ** math.exp(reach), survival ** math.exp(-reach)
        steps.append((row.time, survival, low, high))
        if median is None and 2.0 * survival <= 1.0:
            median = row.time
    return KaplanMeier(
        n=len(when), steps=tuple(steps), median=median, reason=None if median is not None else "median_not_reached"
    )


def restricted_mean(times: Sequence[float], observed: Sequence[int], *, horizon: float) -> Value:
    """Return the mean of min(time, horizon): the area under the Kaplan-Meier curve up to ``horizon``.

    Null with ``out_of_reach`` where the curve is not known that far (the last episode is censored before), and
    ``no_attempts`` without any episode.
    """
    when, ends = _checked("times", times, "observed", observed)
    limit = positive("horizon", horizon)
    area, _, reason = _area(when, ends, limit)
    return Value(area, reason)


def restricted_mean_difference(
    times_a: Sequence[float],
    observed_a: Sequence[int],
    *,
    times_b: Sequence[float],
    observed_b: Sequence[int],
    horizon: float,
    confidence: float = 0.95,
) -> Interval:
    """Return the restricted mean of A minus that of B with its normal interval, independent arms.

    Variance of one mean: sum A_t^2 d/(n (n - d)) over its event times, A_t the area from t to the horizon
    (Greenwood). Nulls as in ``restricted_mean``; ``no_variation`` where neither arm varies.
    """
    limit = positive("horizon", horizon)
    first = _area(*_checked("times_a", times_a, "observed_a", observed_a), limit)
    second = _area(*_checked("times_b", times_b, "observed_b", observed_b), limit)
    critical = normal_critical(tail_area(confidence))
    if first[0] is None or second[0] is None:
        return Interval(None, None, None, first[2] or second[2])
    difference, variance = first[0] - second[0], first[1] + second[1]
    if variance == 0.0:
        return Interval(difference, None, None, "no_variation")
    reach = critical * math.sqrt(variance)
    return Interval(difference, difference - reach, difference + reach, None)


def logrank_test(
    times_a: Sequence[float], observed_a: Sequence[int], *, times_b: Sequence[float], observed_b: Sequence[int]
) -> LogRank:
    """Return the log-rank test of equal hazards in two independent arms.

    (sum d_A - d n_A/n)^2 / sum d (n_A/n)(n_B/n)(n - d)/(n - 1). Null with ``no_attempts`` (an arm is empty) and
    ``no_variation`` (no time at which both arms are at risk tells anything). Source: Mantel, Cancer Chemother. Rep.
    50 (1966) 163.
    """
    when_a, ends_a = _checked("times_a", times_a, "observed_a", observed_a)
    when_b, ends_b = _checked("times_b", times_b, "observed_b", observed_b)
    if not when_a or not when_b:
        return LogRank(None, None, "no_attempts")
    of_a = {row.time: row for row in _at_risk(when_a, ends_a)}
    later_a = sorted(when_a)
    excess = variance = 0.0
    below = 0
    for row in _at_risk(when_a + when_b, ends_a + ends_b):
        while below < len(later_a) and later_a[below] < row.time:
            below += 1
        going_a = len(later_a) - below
        share = going_a / row.going
        excess += (of_a[row.time].events if row.time in of_a else 0) - row.events * share
        if row.going > 1:
            variance += row.events * share * (1.0 - share) * (row.going - row.events) / (row.going - 1)
    if variance == 0.0:
        return LogRank(None, None, "no_variation")
    statistic = excess * excess / variance
    return LogRank(statistic, chi_square_one_tail(statistic), None)


def _checked(argument: str, times: object, other: str, observed: object) -> tuple[list[float], list[bool]]:
    when, ends = reals(argument, times, minimum=0.0), flags(other, observed)
    same_length(other, ends, other_argument=argument, other=when)
    return when, ends


def _at_risk(when: Sequence[float], ends: Sequence[bool]) -> Iterator[_AtRisk]:
    """Yield every distinct time in order."""
    going, rows = len(when), sorted(zip(when, ends, strict=True))
    at = 0
    while at < len(rows):
        time, events, left = rows[at][0], 0, 0
        while at < len(rows) and rows[at][0] == time:
            events, left, at = events + rows[at][1], left + (not rows[at][1]), at + 1
        yield _AtRisk(time, going, events, left)
        going -= events + left


def _survival(when: Sequence[float], ends: Sequence[bool]) -> Iterator[tuple[_AtRisk, float]]:
    """Yield the times with events and the survival after each.

    Between two censorings survival is one quotient of whole numbers, so without censoring it is exactly 1 - k/N.
    """
    share, cohort = 1.0, len(when)
    for row in _at_risk(when, ends):
        alive = row.going - row.events
        if row.events:
            yield row, share * alive / cohort
        if row.left:
            share, cohort = share * alive / cohort, alive - row.left
            if not cohort:
                return


def _area(when: Sequence[float], ends: Sequence[bool], horizon: float) -> tuple[float | None, float, Reason | None]:
    """Return the area under the survival curve up to the horizon, its Greenwood variance, or why there is none."""
    if not when:
        return None, 0.0, "no_attempts"
    steps = [(row, survival) for row, survival in _survival(when, ends) if row.time < horizon]
    if max(when) < horizon and (not steps or steps[-1][1] > 0.0):
        return None, 0.0, "out_of_reach"
    starts = [0.0, *(row.time for row, _ in steps)]
    heights = [1.0, *(survival for _, survival in steps)]
    pieces = [h * (b - a) for h, a, b in zip(heights, starts, [*starts[1:], horizon], strict=True)]
    ahead, variance = 0.0, 0.0
    for (row, survival), piece in zip(reversed(steps), reversed(pieces[1:]), strict=True):
        ahead += piece
        if survival > 0.0:
            variance += ahead * ahead * row.events / (row.going * (row.going - row.events))
    return math.fsum(pieces), variance, None
