from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import (
    case_wilson_interval,
    clopper_pearson_interval,
    clustered_rate,
    crossed_rate,
    wilson_interval,
)

cluster = st.integers(1, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
clusterings = st.lists(cluster, min_size=2, max_size=25)
EIGHT = ([9, 4, 12, 3, 13, 2, 10, 20], [10, 10, 12, 8, 15, 9, 11, 25])


@given(clusterings, st.randoms(), st.sampled_from([0.8, 0.95, 0.99]))
@settings(deadline=None)
def test_the_order_of_the_clusters_changes_no_digit(rows, random, confidence):
    shuffled = list(rows)
    random.shuffle(shuffled)
    results = [clustered_rate(*zip(*r, strict=True), confidence=confidence) for r in (rows, shuffled)]
    assert results[0] == results[1]


@given(clusterings)
@settings(deadline=None)
def test_successes_and_failures_mirror_and_intervals_contain_the_estimate(rows):
    k, n = zip(*rows, strict=True)
    here, there = clustered_rate(k, n), clustered_rate([m - y for y, m in rows], n)
    for low, high in (
        ("wilson_low", "wilson_high"),
        ("korn_graubard_low", "korn_graubard_high"),
        ("t_low", "t_high"),
    ):
        if getattr(here, low) is None:
            assert (low, here.reason) == ("t_low", "no_between_cluster_variation")
            continue
        assert 0.0 <= getattr(here, low) <= here.estimate <= getattr(here, high) <= 1.0
        assert getattr(here, low) == pytest.approx(1.0 - getattr(there, high), abs=1e-9)
    assert here.se == pytest.approx(there.se)
    assert here.icc == (None if there.icc is None else pytest.approx(there.icc))
    assert 0.0 < here.n_star <= here.n_eff * (1 + 1e-12) <= here.episodes * (1 + 1e-12)


@given(clusterings)
@settings(deadline=None)
def test_confidence_nests_every_clustered_interval(rows):
    k, n = zip(*rows, strict=True)
    inner, outer = clustered_rate(k, n, confidence=0.8), clustered_rate(k, n, confidence=0.95)
    assert outer.wilson_low <= inner.wilson_low + 1e-12
    assert inner.wilson_high <= outer.wilson_high + 1e-12


@given(clusterings)
@settings(deadline=None)
def test_the_definition_is_followed_in_plain_floats(rows):
    y, m = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    result = clustered_rate(*zip(*rows, strict=True))
    if result.reason is not None:
        return
    size, p, count = m.sum(), y.sum() / m.sum(), len(y)
    variance = count / (count - 1) * ((y - p * m) ** 2).sum() / size**2
    effective = min(size, p * (1 - p) / variance)
    t = scipy.stats.t.ppf(0.975, count - 1)
    star = min(size, effective * (scipy.stats.t.ppf(0.975, size - 1) / t) ** 2)
    assert result.se == pytest.approx(np.sqrt(variance), rel=1e-9)
    assert (result.n_eff, result.n_star) == pytest.approx((effective, star), rel=1e-9)
    assert result.deff == pytest.approx(variance * size / (p * (1 - p)), rel=1e-9)
    assert result.korn_graubard_low == pytest.approx(
        scipy.stats.beta.ppf(0.025, p * star, star - p * star + 1), abs=1e-9
    )
    between = (m * (y / m - p) ** 2).sum() / (count - 1)
    within = (m * (y / m) * (1 - y / m)).sum() / (size - count)
    typical = (size - (m**2).sum() / size) / (count - 1)
    assert result.icc == pytest.approx((between - within) / (between + (typical - 1) * within), rel=1e-7, abs=1e-9)


def test_equal_cluster_rates_never_give_a_zero_width_interval():
    result = clustered_rate([1, 2, 3], [3, 6, 9])
    assert (result.se, result.n_eff, result.n_star, result.deff) == (0.0, 3.0, 3.0, None)
    assert result.wilson_high - result.wilson_low > 0.5
    assert result.reason == "no_between_cluster_variation"


def test_ten_equal_clusters_are_ten_units():
    result, exact = clustered_rate([8] * 10, [10] * 10), clopper_pearson_interval(8, 10)
    assert (result.korn_graubard_low, result.korn_graubard_high) == pytest.approx((exact.low, exact.high))


def test_clustering_widens_the_interval_that_assumes_independence():
    result, independent = clustered_rate(*EIGHT), wilson_interval(73, 100)
    assert result.wilson_low < independent.low < independent.high < result.wilson_high
    assert result.korn_graubard_low < result.wilson_low


@pytest.mark.parametrize(("clusters", "flags"), [(1, ("few_clusters",)), (5, ("few_clusters",)), (6, ())])
def test_fewer_than_six_clusters_carry_a_flag(clusters, flags):
    assert clustered_rate(list(range(1, clusters + 1)), [8] * clusters).flags == flags


def test_one_cluster_has_an_estimate_and_no_interval_of_any_kind():
    result = clustered_rate([8], [10])
    assert (result.estimate, result.se, result.wilson_low, result.korn_graubard_high) == (0.8, None, None, None)
    assert result.reason == "single_cluster"


def test_a_cluster_without_episodes_is_counted_apart_and_adds_no_certainty():
    with_empty, without = clustered_rate([8, 0, 3], [10, 0, 10]), clustered_rate([8, 3], [10, 10])
    assert (with_empty.clusters, with_empty.empty_clusters) == (2, 1)
    assert with_empty.wilson_low == without.wilson_low
    assert with_empty.flags == ("few_clusters",)


@pytest.mark.parametrize(("k", "n"), [([], []), ([0, 0], [0, 0])])
def test_no_episode_in_any_cluster_is_no_attempt(k, n):
    result = clustered_rate(k, n)
    assert (result.estimate, result.episodes, result.reason) == (None, 0, "no_attempts")


def test_clusters_of_one_episode_have_intervals_but_no_intraclass_correlation():
    result = clustered_rate([1, 1, 1, 1, 1, 0, 1, 1, 1, 0], [1] * 10)
    assert (result.icc, result.reason) == (None, "no_variation")
    assert result.deff == pytest.approx(10 / 9)
    assert result.n_eff == pytest.approx(9.0)
    assert result.wilson_low is not None


def test_negative_dependence_never_makes_more_of_the_episodes_than_there_are():
    result = clustered_rate([4, 5, 5, 5, 5, 6], [10] * 6)
    assert result.icc < 0.0
    assert result.n_eff == 60.0


def test_of_two_crossed_units_the_one_that_varies_more_decides():
    sites, tasks = [[9, 8], [2, 3], [9, 9], [1, 2], [8, 9], [3, 1]], [[10, 10]] * 6
    result = crossed_rate(sites, tasks)
    assert result.by_rows == clustered_rate([17, 5, 18, 3, 17, 4], [20] * 6)
    assert result.by_columns == clustered_rate([32, 32], [60, 60])
    assert result.wider == "columns"  # two tasks tell less than six sites, however alike they are
    table = [[10, 10, 9, 10, 10, 9], [0, 1, 0, 0, 1, 1]] * 3
    six = crossed_rate(table, [[10] * 6] * 6)
    turned = crossed_rate([list(row) for row in zip(*table, strict=True)], [[10] * 6] * 6)
    assert (six.wider, turned.wider) == ("rows", "columns")
    assert six.by_rows == turned.by_columns


def test_a_single_column_leaves_nothing_to_compare_widths_with():
    result = crossed_rate([[3], [4]], [[5], [5]])
    assert (result.wider, result.reason) == (None, "single_cluster")
    with pytest.raises(StatsInputError, match=r"k\[1\]\[0\]: 6 is more than n\[1\]\[0\] = 5"):
        crossed_rate([[3], [6]], [[5], [5]])
    with pytest.raises(StatsInputError):
        crossed_rate([[3, 1], [4, 1]], [[5], [5]])


def test_the_variant_of_atomic_skills_counts_between_cases_and_trials():
    alike = case_wilson_interval([3, 3], [3, 3])
    assert (alike.n_eff, alike.low) == (2.0, wilson_interval(2, 2).low)
    one = case_wilson_interval([2], [3])
    assert (one.n_eff, one.cases, one.trials) == (1.0, 1, 3)
    opposed = case_wilson_interval([5, 0], [5, 5])
    assert opposed.n_eff == 2.0
    spread = case_wilson_interval([4, 5, 5, 5, 5, 6], [10] * 6)
    assert (spread.n_eff, spread.low) == (60.0, wilson_interval(30, 60).low)
    eight = clustered_rate(*EIGHT)
    assert case_wilson_interval(*EIGHT).n_eff == pytest.approx(max(8.0, eight.n_eff))
