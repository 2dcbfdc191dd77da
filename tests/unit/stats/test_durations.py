from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from lifelines import KaplanMeierFitter
from lifelines.utils import restricted_mean_survival_time
from statsmodels.duration.survfunc import CumIncidenceRight, SurvfuncRight, survdiff

from trialplate.errors import StatsInputError
from trialplate.stats import (
    cumulative_incidence,
    kaplan_meier,
    logrank_test,
    restricted_mean,
    restricted_mean_difference,
)

censored = st.lists(st.tuples(st.integers(1, 15), st.integers(0, 1)), min_size=1, max_size=40)
competing = st.lists(st.tuples(st.integers(1, 15), st.integers(0, 2)), min_size=1, max_size=40)


def columns(rows):
    return [list(column) for column in zip(*rows, strict=True)]


@given(competing, st.sampled_from([1, 2]))
@settings(deadline=None)
def test_the_cumulative_incidence_agrees_with_statsmodels(rows, cause):
    times, events = columns(rows)
    ours = cumulative_incidence(times, events, cause=cause)
    assert [time for time, _ in ours.steps] == sorted({t for t, e in rows if e == cause})
    if not any(events):
        assert ours.final == 0.0
        return
    codes = sorted({event for event in events if event})
    relabelled = [codes.index(event) + 1 if event else 0 for event in events]
    with np.errstate(divide="ignore", invalid="ignore"):
        theirs = CumIncidenceRight(np.array(times, dtype=float), np.array(relabelled))
    if cause in codes:
        at = dict(zip(theirs.times.tolist(), theirs.cinc[codes.index(cause)].tolist(), strict=True))
        assert [value for _, value in ours.steps] == pytest.approx([at[time] for time, _ in ours.steps])


@given(st.lists(st.tuples(st.integers(1, 59), st.integers(1, 2)), max_size=30), st.integers(0, 10))
@settings(deadline=None)
def test_where_only_timeouts_are_censored_the_last_value_is_exactly_k_of_n(rows, timeouts):
    times = [time for time, _ in rows] + [60] * timeouts
    events = [event for _, event in rows] + [0] * timeouts
    for cause in (1, 2):
        result = cumulative_incidence(times, events, cause=cause)
        if times:
            assert result.final == events.count(cause) / len(times)
        else:
            assert (result.final, result.reason) == (None, "no_attempts")


def test_calling_failures_censored_would_print_a_success_nobody_saw():
    times, events = [12, 15, 18, 20, 22, 25, 30, 30, 60, 60], [1, 1, 2, 1, 2, 1, 1, 2, 0, 0]
    assert cumulative_incidence(times, events).final == 0.5
    naive = 1 - kaplan_meier(times, [event == 1 for event in events]).steps[-1][1]
    assert round(naive, 3) == 0.589


@given(censored)
@settings(deadline=None)
def test_the_two_causes_and_survival_share_out_everything(rows):
    times, events = columns([(time, event * (1 + time % 2)) for time, event in rows])
    survival = [step[1] for step in kaplan_meier(times, [int(event > 0) for event in events]).steps]
    total = sum(cumulative_incidence(times, events, cause=cause).final for cause in (1, 2))
    assert total + (survival[-1] if survival else 1.0) == pytest.approx(1.0)


@given(censored)
@settings(deadline=None)
def test_survival_agrees_with_scipy_and_statsmodels(rows):
    times, observed = columns(rows)
    ours = kaplan_meier(times, observed)
    if not any(observed):
        assert (ours.steps, ours.reason) == ((), "median_not_reached")
        return
    data = scipy.stats.CensoredData(
        uncensored=[t for t, seen in rows if seen], right=[t for t, seen in rows if not seen]
    )
    curve = scipy.stats.ecdf(data).sf
    at = dict(zip(curve.quantiles.tolist(), curve.probabilities.tolist(), strict=True))
    assert [step[1] for step in ours.steps] == pytest.approx([at[step[0]] for step in ours.steps], abs=1e-12)
    theirs = SurvfuncRight(np.array(times, dtype=float), np.array(observed))
    for time, survival, low, high in ours.steps:
        if survival == 0.0:
            assert (low, high) == (None, None)
            continue
        sd = theirs.surv_prob_se[theirs.surv_times == time][0]
        z = 1.959963984540054 * sd / (survival * np.log(survival))
        assert (low, high) == pytest.approx((survival ** np.exp(-z), survival ** np.exp(z)), abs=1e-9)
        assert 0.0 <= low <= survival <= high <= 1.0
    reached = [time for time, survival, _, _ in ours.steps if survival <= 0.5 + 1e-12]
    assert ours.median == (reached[0] if reached else None)


@given(censored, st.floats(0.5, 15))
@settings(deadline=None)
def test_survival_its_limits_and_its_restricted_mean_agree_with_lifelines(rows, horizon):
    times, observed = columns(rows)
    theirs = KaplanMeierFitter().fit(times, observed)
    for time, survival, low, high in kaplan_meier(times, observed).steps:
        assert survival == pytest.approx(theirs.survival_function_.loc[time].item(), abs=1e-12)
        if low is not None:
            assert (low, high) == pytest.approx(tuple(theirs.confidence_interval_.loc[time]), abs=1e-9)
    ours = restricted_mean(times, observed, horizon=horizon)
    if ours.value is not None:
        assert ours.value == pytest.approx(restricted_mean_survival_time(theirs, t=horizon))


@given(censored, st.floats(0.5, 15))
@settings(deadline=None)
def test_the_restricted_mean_is_the_area_under_the_curve(rows, horizon):
    times, observed = columns(rows)
    result = restricted_mean(times, observed, horizon=horizon)
    steps = [(0.0, 1.0), *((time, survival) for time, survival, _, _ in kaplan_meier(times, observed).steps)]
    if max(times) < horizon and steps[-1][1] > 0.0:
        assert (result.value, result.reason) == (None, "out_of_reach")
        return
    grid = [time for time, _ in steps if time < horizon] + [horizon]
    area = sum(steps[at][1] * (end - start) for at, (start, end) in enumerate(pairwise(grid)))
    assert result.value == pytest.approx(area)


@given(st.lists(st.integers(1, 9), min_size=2, max_size=20), st.lists(st.integers(1, 9), min_size=2, max_size=20))
@settings(deadline=None)
def test_without_censoring_the_difference_is_that_of_two_means_with_their_errors(a, b):
    horizon = 6.0
    result = restricted_mean_difference(a, [1] * len(a), times_b=b, observed_b=[1] * len(b), horizon=horizon)
    x, y = np.minimum(a, horizon), np.minimum(b, horizon)
    assert result.estimate == pytest.approx(x.mean() - y.mean(), abs=1e-12)
    variance = x.var() / len(x) + y.var() / len(y)
    if variance == 0.0:
        assert (result.low, result.reason) == (None, "no_variation")
        return
    assert result.high - result.estimate == pytest.approx(scipy.stats.norm.ppf(0.975) * np.sqrt(variance))
    mirrored = restricted_mean_difference(b, [1] * len(b), times_b=a, observed_b=[1] * len(a), horizon=horizon)
    assert (mirrored.low, mirrored.high) == pytest.approx((-result.high, -result.low))


@given(censored, censored)
@settings(deadline=None)
def test_the_log_rank_test_agrees_with_statsmodels(rows_a, rows_b):
    (times_a, seen_a), (times_b, seen_b) = columns(rows_a), columns(rows_b)
    ours = logrank_test(times_a, seen_a, times_b=times_b, observed_b=seen_b)
    swapped = logrank_test(times_b, seen_b, times_b=times_a, observed_b=seen_a)
    assert (ours.reason, ours.p_value is None) == (swapped.reason, swapped.p_value is None)
    if ours.p_value is None:
        assert ours.reason == "no_variation"
        return
    assert ours.p_value == pytest.approx(swapped.p_value, abs=1e-9)
    group = np.array([0] * len(times_a) + [1] * len(times_b))
    statistic, p_value = survdiff(np.array(times_a + times_b, dtype=float), np.array(seen_a + seen_b), group)
    assert (ours.statistic, ours.p_value) == pytest.approx((statistic, p_value), rel=1e-7, abs=1e-9)


@given(competing, st.randoms())
@settings(deadline=None)
def test_the_order_of_episodes_changes_no_digit(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert cumulative_incidence(*columns(rows)) == cumulative_incidence(*columns(shuffled))
    plain, moved = ([(t, int(e > 0)) for t, e in part] for part in (rows, shuffled))
    assert kaplan_meier(*columns(plain)) == kaplan_meier(*columns(moved))


def test_times_and_codes_that_are_none_are_refused():
    for call in (
        lambda: cumulative_incidence([1], [3]),
        lambda: cumulative_incidence([1], [1], cause=0),
        lambda: cumulative_incidence([-1], [1]),
        lambda: kaplan_meier([1, 2], [1]),
        lambda: kaplan_meier([1], [2]),
        lambda: restricted_mean([1], [1], horizon=0.0),
    ):
        with pytest.raises(StatsInputError):
            call()
