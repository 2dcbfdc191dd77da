from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import StratifiedTable

from trialplate.errors import StatsInputError
from trialplate.stats import (
    clopper_pearson_interval,
    macro_interval,
    macro_rate,
    mantel_haenszel,
    simpson_check,
)

task = st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
tasks = st.lists(task, min_size=1, max_size=8)


@given(tasks, st.randoms())
@settings(deadline=None)
def test_the_macro_mean_weighs_tasks_equally_and_ignores_their_order(rows, random):
    k, n = zip(*rows, strict=True)
    result = macro_rate(k, n)
    assert result.macro == pytest.approx(np.mean(np.array(k) / np.array(n)))
    assert result.pooled == sum(k) / sum(n)
    if min(n) > 1:
        p = np.array(k) / np.array(n)
        assert result.se == pytest.approx(np.sqrt(np.sum(p * (1 - p) / (np.array(n) - 1))) / len(n))
    else:
        assert (result.se, result.reason) == (None, "no_variation")
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert macro_rate(*zip(*shuffled, strict=True)) == result


@pytest.mark.parametrize(
    ("k", "n", "reason"), [([], [], "no_attempts"), ([0], [0], "task_without_attempts"), ([1], [1], "no_variation")]
)
def test_what_is_missing_from_a_macro_rate_has_a_reason(k, n, reason):
    assert macro_rate(k, n).reason == reason
    assert macro_rate(k, n).se is None


@given(tasks, st.data())
@settings(deadline=None)
def test_swapping_the_arms_keeps_the_reversal_and_mirrors_the_strata(rows, data):
    other = data.draw(st.lists(task, min_size=len(rows), max_size=len(rows)))
    (k_a, n_a), (k_b, n_b) = zip(*rows, strict=True), zip(*other, strict=True)
    here, there = simpson_check(k_a, n_a, k_b=k_b, n_b=n_b), simpson_check(k_b, n_b, k_b=k_a, n_b=n_a)
    assert here.reversal == there.reversal
    if len(rows) == 1:
        assert here.reversal is False
    one, two = mantel_haenszel(k_a, n_a, k_b=k_b, n_b=n_b), mantel_haenszel(k_b, n_b, k_b=k_a, n_b=n_a)
    assert one.risk_difference == -two.risk_difference
    assert (one.statistic, one.p_value_corrected) == (two.statistic, two.p_value_corrected)
    if one.odds_ratio and two.odds_ratio:
        assert one.odds_ratio == pytest.approx(1 / two.odds_ratio)


@given(tasks, st.data())
@settings(deadline=None)
def test_mantel_haenszel_agrees_with_statsmodels(rows, data):
    other = data.draw(st.lists(task, min_size=len(rows), max_size=len(rows)))
    (k_a, n_a), (k_b, n_b) = zip(*rows, strict=True), zip(*other, strict=True)
    ours = mantel_haenszel(k_a, n_a, k_b=k_b, n_b=n_b)
    if ours.reason is not None:
        return
    cells = zip(k_a, n_a, k_b, n_b, strict=True)
    theirs = StratifiedTable([np.array([[a, m - a], [b, o - b]], dtype=float) for a, m, b, o in cells])
    assert ours.odds_ratio == pytest.approx(theirs.oddsratio_pooled, rel=1e-9)
    plain = theirs.test_null_odds(correction=False)
    assert (ours.statistic, ours.p_value) == pytest.approx((plain.statistic, plain.pvalue), rel=1e-7, abs=1e-12)


def test_a_correction_larger_than_the_distance_leaves_no_distance():
    balanced = mantel_haenszel([3], [10], k_b=[3], n_b=[10])
    assert (balanced.statistic, balanced.statistic_corrected, balanced.p_value_corrected) == (0.0, 0.0, 1.0)
    near = mantel_haenszel([4], [10], k_b=[4], n_b=[11])
    assert near.statistic > 0.0
    assert near.statistic_corrected == 0.0


def test_strata_without_variation_or_without_failures_say_so():
    same = mantel_haenszel([5, 0], [5, 4], k_b=[6, 0], n_b=[6, 9])
    assert (same.odds_ratio, same.statistic, same.risk_difference, same.reason) == (None, None, 0.0, "no_variation")
    perfect = mantel_haenszel([5], [5], k_b=[3], n_b=[6])
    assert (perfect.odds_ratio, perfect.reason) == (None, "unbounded")
    assert perfect.p_value is not None
    assert mantel_haenszel([1], [2], k_b=[0], n_b=[0]).reason == "task_without_attempts"
    assert mantel_haenszel([], [], k_b=[], n_b=[]).reason == "no_attempts"


def test_an_empty_task_leaves_the_reversal_open():
    result = simpson_check([1, 0], [2, 0], k_b=[1, 1], n_b=[2, 2])
    assert (result.pooled_a, result.macro_a, result.reversal) == (0.5, None, None)
    assert result.reason == "task_without_attempts"


def test_a_tie_in_the_pooled_rate_is_no_reversal():
    assert simpson_check([1, 3], [4, 4], k_b=[2, 2], n_b=[4, 4]).reversal is False


def test_arms_with_different_numbers_of_tasks_are_refused():
    for check in (simpson_check, mantel_haenszel):
        with pytest.raises(StatsInputError, match=r"n_b: has 1 items, n_a has 2"):
            check([1, 1], [2, 2], k_b=[1], n_b=[2])
    with pytest.raises(StatsInputError, match=r"k\[1\]: 3 is more than n\[1\] = 2"):
        macro_rate([1, 3], [2, 2])
    with pytest.raises(StatsInputError, match=r"k: has 1 items, n has 2"):
        macro_rate([1], [2, 2])


weighted = st.lists(st.tuples(task, st.sampled_from([0.1, 0.5, 1, 2.5, 7])), min_size=1, max_size=8)


@given(weighted)
@settings(deadline=None)
def test_registered_weights_are_used_as_written_and_only_their_proportions_count(rows):
    (k, n), w = zip(*(row for row, _ in rows), strict=True), [weight for _, weight in rows]
    result = macro_rate(k, n, weights=w)
    assert result.macro == pytest.approx(np.average(np.array(k) / np.array(n), weights=w))
    assert macro_rate(k, n, weights=[2 * weight for weight in w]) == result
    assert macro_rate(k, n, weights=[1] * len(k)) == macro_rate(k, n)
    if min(n) > 1:
        p = np.array(k) / np.array(n)
        parts = np.square(w) * p * (1 - p) / (np.array(n) - 1) / sum(w) ** 2
        assert result.se == pytest.approx(np.sqrt(parts.sum()))


def test_a_reversal_depends_on_the_registered_weights():
    arms = {"k_a": [81, 192], "n_a": [87, 263], "k_b": [234, 55], "n_b": [270, 80]}
    assert simpson_check(**arms).reversal is True
    swayed = simpson_check(**(arms | {"k_b": [200, 60]}), weights=[1, 99])
    assert swayed.macro_b > swayed.macro_a
    assert simpson_check(**(arms | {"k_b": [200, 60]}), weights=[99, 1]).macro_a > swayed.macro_a


@given(tasks)
@settings(deadline=None)
def test_the_macro_interval_is_welchs_and_names_the_weakest_task(rows):
    k, n = zip(*rows, strict=True)
    result = macro_interval(k, n)
    lows = [clopper_pearson_interval(y, m, side="lower").low for y, m in rows]
    assert result.weakest_low == min(lows) == lows[result.weakest]
    p, m = np.array(k) / np.array(n), np.array(n)
    if min(n) == 1 or not (p * (1 - p)).any():
        assert (result.low, result.degrees, result.reason) == (None, None, "no_variation")
        return
    parts = p * (1 - p) / (m - 1) / len(n) ** 2
    degrees = parts.sum() ** 2 / (parts**2 / (m - 1)).sum()
    reach = scipy.stats.t.ppf(0.975, degrees) * np.sqrt(parts.sum())
    assert result.degrees == pytest.approx(degrees)
    assert (result.low, result.high) == pytest.approx((max(0, p.mean() - reach), min(1, p.mean() + reach)))


def test_two_tasks_have_the_interval_of_welchs_test():
    first, second = [1] * 7 + [0] * 3, [1] * 4 + [0] * 16
    theirs = scipy.stats.ttest_ind(first, [-y for y in second], equal_var=False).confidence_interval()
    ours = macro_interval([7, 4], [10, 20])
    assert (2 * ours.low, 2 * ours.high) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize("weights", [[1], [1, 0], [1, -1], [1, True], [1, float("nan")]])
def test_weights_that_do_not_fit_the_tasks_are_refused(weights):
    with pytest.raises(StatsInputError, match="weights"):
        macro_rate([1, 1], [2, 2], weights=weights)
    with pytest.raises(StatsInputError, match="weights"):
        simpson_check([1, 1], [2, 2], k_b=[1, 1], n_b=[2, 2], weights=weights)
