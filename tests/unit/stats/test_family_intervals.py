from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import fieller_interval, paired_difference_interval, paired_log_ratio_interval

family = st.integers(1, 12).flatmap(
    lambda n: st.tuples(st.integers(0, n), st.just(n), st.integers(0, 500), st.integers(0, n), st.integers(1, 500))
)
families = st.lists(family, min_size=2, max_size=15)


def columns(rows):
    return [list(column) for column in zip(*rows, strict=True)]


@given(families)
@settings(deadline=None)
def test_with_equal_sizes_the_difference_has_the_one_sample_t_interval(rows):
    y_a, n, _, y_b, _ = columns(rows)
    size = max(n)
    result = paired_difference_interval(y_a, [size] * len(n), k_b=y_b, n_b=[size] * len(n))
    gaps = (np.array(y_a) - np.array(y_b)) / size
    assert result.estimate == pytest.approx(gaps.mean(), abs=1e-12)
    if np.ptp(gaps) == 0:
        assert (result.se, result.low, result.reason) == (0.0, None, "no_between_family_variation")
        return
    theirs = scipy.stats.ttest_1samp(gaps, 0.0).confidence_interval(0.95)
    assert result.low == pytest.approx(max(-1.0, theirs.low), abs=1e-9)
    assert result.high == pytest.approx(min(1.0, theirs.high), abs=1e-9)


def numeric_se(rows, log_ratio: bool) -> float:
    """Infinitesimal jackknife by differentiating the statistic in the weights of the families."""
    y_a, n, c_a, y_b, c_b = (np.array(column, dtype=float) for column in columns(rows))

    def statistic(weights):
        s_a, s_b = weights @ y_a, weights @ y_b
        if log_ratio:
            return np.log((weights @ c_a / s_a) / (weights @ c_b / s_b))
        return s_a / (weights @ n) - s_b / (weights @ n)

    count, step, slopes = len(n), 1e-5, []
    for at in range(count):
        nudge = np.zeros(count)
        nudge[at] = step
        slopes.append((statistic(1.0 + nudge) - statistic(1.0 - nudge)) / (2 * step))
    return float(np.sqrt(count / (count - 1) * np.sum(np.square(slopes))))


@given(families)
@settings(deadline=None)
def test_the_standard_errors_are_those_of_numeric_derivatives(rows):
    y_a, n, c_a, y_b, c_b = columns(rows)
    assume(sum(y_a) and sum(y_b) and sum(c_a))
    difference = paired_difference_interval(y_a, n, k_b=y_b, n_b=n)
    ratio = paired_log_ratio_interval(c_a, y_a, cost_b=c_b, k_b=y_b)
    assert difference.se == pytest.approx(numeric_se(rows, log_ratio=False), rel=1e-4, abs=1e-7)
    assert ratio.se_log == pytest.approx(numeric_se(rows, log_ratio=True), rel=1e-4, abs=1e-7)


@given(families, st.integers(2, 1000))
@settings(deadline=None)
def test_swapping_inverts_and_negates_and_the_unit_of_cost_does_not_matter(rows, unit):
    y_a, n, c_a, y_b, c_b = columns(rows)
    here = paired_difference_interval(y_a, n, k_b=y_b, n_b=n)
    there = paired_difference_interval(y_b, n, k_b=y_a, n_b=n)
    assert here.estimate == -there.estimate
    assert (here.reason, here.low is None) == (there.reason, there.high is None)
    if here.low is not None:
        assert (here.low, here.high) == pytest.approx((-there.high, -there.low), abs=1e-12)
    assume(sum(y_a) and sum(y_b) and sum(c_a))
    one = paired_log_ratio_interval(c_a, y_a, cost_b=c_b, k_b=y_b)
    two = paired_log_ratio_interval(c_b, y_b, cost_b=c_a, k_b=y_a)
    scaled = paired_log_ratio_interval([c * unit for c in c_a], y_a, cost_b=[c * unit for c in c_b], k_b=y_b)
    assert one.ratio == pytest.approx(1 / two.ratio)
    assert scaled.ratio == one.ratio
    if one.low is not None:
        assert (one.low, one.high) == pytest.approx((1 / two.high, 1 / two.low))
        assert (scaled.low, scaled.high) == pytest.approx((one.low, one.high))
        assert one.low <= one.ratio <= one.high


def test_families_that_differ_by_rounding_only_do_not_vary():
    sizes = [1, 2, 3, 5, 7, 11]
    result = paired_difference_interval(sizes, [3 * n for n in sizes], k_b=sizes, n_b=[7 * n for n in sizes])
    assert (result.se, result.low, result.reason) == (0.0, None, "no_between_family_variation")
    ratio = paired_log_ratio_interval([10 * n for n in sizes], sizes, cost_b=[30 * n for n in sizes], k_b=sizes)
    assert (ratio.ratio, ratio.se_log, ratio.reason) == (1 / 3, 0.0, "no_between_family_variation")


def test_a_real_variation_below_rounding_is_not_called_none():
    large = 10**12
    result = paired_log_ratio_interval([large, large + 1], [1, 1], cost_b=[large, large], k_b=[1, 1])
    assert result.reason is None
    assert result.se_log == pytest.approx(2**0.5 * 0.25e-12 * 2**0.5, rel=1e-9)


@pytest.mark.parametrize(
    ("cost_a", "k_a", "cost_b", "k_b", "reason"),
    [
        ([], [], [], [], "no_pairs"),
        ([None, 1], [1, 1], [1, 1], [1, 1], "unknown_total"),
        ([1, 1], [0, 0], [1, 1], [1, 1], "zero_successes"),
        ([1, 1], [1, 1], [1, 1], [0, 0], "zero_successes"),
        ([1, 1], [1, 1], [0, 0], [1, 1], "zero_cost"),
        ([0, 0], [1, 1], [1, 1], [1, 1], "zero_cost"),
        ([5], [1], [4], [1], "single_family"),
    ],
)
def test_a_ratio_without_bounds_says_why(cost_a, k_a, cost_b, k_b, reason):
    result = paired_log_ratio_interval(cost_a, k_a, cost_b=cost_b, k_b=k_b)
    assert (result.low, result.high, result.reason) == (None, None, reason)
    assert (result.ratio is None) == (reason != "single_family" and cost_a != [0, 0])


@pytest.mark.parametrize(
    ("n", "reason"), [([], "no_pairs"), ([0, 0], "no_attempts"), ([4], "single_family"), ([4, 4], None)]
)
def test_a_difference_without_bounds_says_why(n, reason):
    won = [1, 0][: len(n)] if any(n) else [0] * len(n)
    assert paired_difference_interval(won, n, k_b=[0] * len(n), n_b=n).reason == reason


@given(families)
@settings(deadline=None)
def test_at_a_fieller_limit_the_studentised_difference_is_t(rows):
    _, n, cost, won, _ = columns(rows)
    assume(sum(won))
    result = fieller_interval(cost, won)
    assert result.estimate == pytest.approx(sum(cost) / sum(won))
    if result.low is None:
        assert result.reason in ("unbounded", "no_between_family_variation")
        return
    t = scipy.stats.t.ppf(0.975, len(n) - 1)
    for limit in (result.low, result.high):
        rest = np.array(cost) - limit * np.array(won)
        assert abs(rest.mean()) == pytest.approx(t * rest.std(ddof=1) / len(n) ** 0.5, rel=1e-5, abs=1e-6)
    assert result.low <= result.estimate <= result.high


@pytest.mark.parametrize(
    ("cost", "k", "reason"),
    [
        ([], [], "no_attempts"),
        ([None, 3], [1, 1], "unknown_total"),
        ([1, 3], [0, 0], "zero_successes"),
        ([3], [2], "single_family"),
        ([3, 6], [1, 2], "no_between_family_variation"),
        ([0, 0], [1, 2], "no_between_family_variation"),
    ],
)
def test_a_cost_per_success_without_bounds_says_why(cost, k, reason):
    result = fieller_interval(cost, k)
    assert (result.low, result.high, result.reason) == (None, None, reason)


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(StatsInputError, match="k_b: has 1 items, cost_a has 2"):
        paired_log_ratio_interval([1, 2], [1, 1], cost_b=[1, 1], k_b=[1])
    with pytest.raises(StatsInputError, match="cost_b: has 1 items"):
        paired_log_ratio_interval([1, 2], [1, 1], cost_b=[None], k_b=[1, 1])
    with pytest.raises(StatsInputError, match="n_b: has 1 items"):
        paired_difference_interval([1, 1], [1, 1], k_b=[1], n_b=[1])
