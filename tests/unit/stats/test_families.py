from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import asdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.canonical import canonical_json
from trialplate.errors import StatsInputError
from trialplate.stats import (
    family_bootstrap,
    family_indices,
    paired_difference_interval,
    paired_family_bootstrap,
    paired_log_ratio_interval,
)

COST_A, WON_A = [120, 340, 200, 150, 410, 90, 260, 310, 180, 220], [9, 7, 8, 10, 6, 10, 8, 7, 9, 8]
COST_B, WON_B = [160, 300, 260, 190, 500, 140, 280, 390, 200, 300], [8, 8, 7, 9, 5, 9, 9, 6, 9, 7]
SIZES = [10] * 10
cell = st.integers(0, 8).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(0, 99), st.integers(0, 99))
)


def golden(**options):
    return paired_family_bootstrap(
        SIZES, WON_A, cost_a=COST_A, n_b=SIZES, k_b=WON_B, cost_b=COST_B, **{"draws": 400, **options}
    )


def tables(arms):
    return st.lists(st.lists(cell, min_size=arms, max_size=arms), min_size=1, max_size=9).map(np.array)


def slow_bounds(table, a, b, column, draws, seed):
    """Fractions, one draw at a time: (low, high, draws without a value) of the difference or the ratio."""
    values, undefined = [], 0
    for row in family_indices(seed, draws, families=len(table)).tolist():
        (n_a, s_a, *rest_a), (n_b, s_b, *rest_b) = (table[row, arm].sum(axis=0).tolist() for arm in (a, b))
        if column is None:
            value = Fraction(s_a, n_a) - Fraction(s_b, n_b) if n_a and n_b else None
        else:
            c_a, c_b = rest_a[column], rest_b[column]
            value = Fraction(c_a * s_b, s_a * c_b) if s_a and s_b and c_b else None
        undefined += value is None
        values.append(value)
    if undefined:
        return None, None, undefined
    values.sort()
    return (
        float(values[int(Fraction(25, 1000) * (draws - 1))]),
        float(values[int(Fraction(975, 1000) * (draws - 1))]),
        0,
    )


@given(tables(3), st.integers(0, 2**32), st.integers(20, 90))
@settings(deadline=None, max_examples=60)
def test_every_bound_is_that_of_exact_resampling_one_draw_at_a_time(table, seed, draws):
    result = family_bootstrap(table, seed=seed, draws=draws)
    assert [(pair.a, pair.b) for pair in result.pairs] == [(0, 1), (0, 2), (1, 2)]
    for pair in result.pairs:
        for column, ours in ((None, pair.difference), (0, pair.cost_ratio), (1, pair.time_ratio)):
            low, high, undefined = slow_bounds(table, pair.a, pair.b, column, draws, seed)
            assert ours.undefined_draws == undefined
            if undefined or len(table) == 1:
                assert (ours.low, ours.high) == (None, None)
                assert ours.reason in (
                    "undefined_draws", "single_family", "zero_successes", "zero_cost", "no_attempts",
                )  # fmt: skip
            else:
                assert (ours.low, ours.high) == pytest.approx((low, high), rel=1e-12, abs=1e-15)
                assert ours.reason is None


@given(tables(3))
@settings(deadline=None, max_examples=40)
def test_adding_an_arm_changes_no_other_number(table):
    alone = family_bootstrap(table[:, :2], draws=60)
    together = family_bootstrap(table, draws=60)
    assert together.pairs[0] == alone.pairs[0]
    assert together.arms[:2] == alone.arms


def test_the_t_bounds_beside_are_those_of_the_functions_of_that_name():
    result = golden()
    assert result.difference_t == paired_difference_interval(WON_A, SIZES, k_b=WON_B, n_b=SIZES)
    assert result.ratio_t == paired_log_ratio_interval(COST_A, WON_A, cost_b=COST_B, k_b=WON_B)


def test_two_arms_are_the_same_alone_and_among_many():
    table = np.array([SIZES, WON_A, COST_A, COST_A, SIZES, WON_B, COST_B, COST_B]).T.reshape(10, 2, 4)
    (pair,) = family_bootstrap(table, draws=400).pairs
    assert pair.difference == golden().difference_bounds
    assert pair.cost_ratio == pair.time_ratio == golden().ratio_bounds


def test_both_quantile_rules_are_computed_and_the_registered_one_decides():
    order, linear = golden(), golden(quantile_rule="linear")
    assert (order.ratio_low, order.ratio_high) == (order.ratio_bounds.order_low, order.ratio_bounds.order_high)
    assert (linear.ratio_low, linear.ratio_high) == (order.ratio_bounds.linear_low, order.ratio_bounds.linear_high)
    assert order.ratio_low < linear.ratio_low


def test_the_one_sided_bound_is_the_two_sided_one_of_twice_the_error():
    wide, narrow = golden(), golden(confidence=0.9)
    assert (wide.ratio_bounds.one_sided_low, wide.ratio_bounds.one_sided_high) == (
        narrow.ratio_low,
        narrow.ratio_high,
    )


def test_scaling_the_costs_leaves_the_ratio():
    scaled = paired_family_bootstrap(
        SIZES, WON_A, cost_a=[7 * c for c in COST_A], n_b=SIZES, k_b=WON_B, cost_b=[7 * c for c in COST_B], draws=400
    )
    assert (scaled.ratio_low, scaled.ratio_high) == pytest.approx((golden().ratio_low, golden().ratio_high))


def test_an_unknown_cost_leaves_the_difference_and_takes_the_ratio():
    for cost in (None, [None, *COST_A[1:]]):
        result = paired_family_bootstrap(SIZES, WON_A, cost_a=cost, n_b=SIZES, k_b=WON_B, cost_b=COST_B, draws=400)
        assert (result.ratio, result.ratio_low, result.ratio_t.low) == (None, None, None)
        assert result.reason == result.ratio_bounds.reason == result.ratio_t.reason == "unknown_total"
        assert result.difference_bounds == golden().difference_bounds


def test_unknown_totals_of_one_arm_touch_its_ratios_only():
    table = np.array([SIZES, WON_A, COST_A, COST_A, SIZES, WON_B, COST_B, COST_B]).T.reshape(10, 2, 4)
    (pair,) = family_bootstrap(table, draws=100, unknown={(1, "time")}).pairs
    assert pair.time_ratio.reason == pair.time_ratio_t.reason == "unknown_total"
    assert pair.cost_ratio.reason is None
    with pytest.raises(StatsInputError, match="unknown"):
        family_bootstrap(table, draws=100, unknown={(2, "time")})


def test_one_family_is_resampled_to_itself_and_bounds_nothing():
    result = paired_family_bootstrap([10], [9], cost_a=[5], n_b=[10], k_b=[8], cost_b=[6], draws=50)
    assert result.difference == pytest.approx(0.1)
    assert (result.difference_low, result.ratio_low, result.reason) == (None, None, "single_family")
    assert result.difference_t.reason == result.ratio_t.reason == "single_family"


def test_a_family_that_one_arm_never_tried_can_leave_the_difference_undefined():
    result = paired_family_bootstrap([0, 4], [0, 3], cost_a=None, n_b=[4, 4], k_b=[2, 3], cost_b=None, draws=50)
    assert result.difference_bounds.undefined_draws > 0
    assert (result.difference_low, result.reason) == (None, "undefined_draws")


@pytest.mark.parametrize(
    "totals",
    [
        [[[1, 2, 0, 0]]],
        [[[1, 1, -1, 0]]],
        [[[1.0, 1, 0, 0]]],
        [[[1, 1, 0]]],
        np.zeros((0, 2, 4), dtype=int),
        [[[1, 1, 2**52, 0]], [[1, 1, 2**52, 0]]],
    ],
)
def test_totals_that_could_not_be_summed_exactly_are_refused(totals):
    with pytest.raises(StatsInputError, match="totals"):
        family_bootstrap(totals, draws=10)


def test_pairs_of_arms_that_are_none_are_refused():
    table = np.ones((3, 2, 4), dtype=np.int64)
    for pair in [(0, 0), (0, 2), (-1, 0), (0,)]:
        with pytest.raises((StatsInputError, ValueError)):
            family_bootstrap(table, draws=10, pairs=[pair])
    assert family_bootstrap(table, draws=10, pairs=[(1, 0)]).pairs[0].a == 1


DIGEST = """
import hashlib, sys
from dataclasses import asdict
import numpy as np
from trialplate.canonical import canonical_json
from trialplate.stats import family_bootstrap, family_totals
order = np.random.default_rng(int(sys.argv[1])).permutation(20_000)
n = np.arange(20_000)
family, arm = n % 301, n // 301 % 5
ids = [f"f{x}" for x in range(301)]
names = np.random.default_rng(int(sys.argv[1]) + 9).permutation(301)
place = np.argsort(names)
columns = dict(family=place[family], arm=arm, passed=n * 7919 % 11 < 8, cost=n * 104729 % 99991, time=n * 31 % 977)
totals = family_totals([ids[x] for x in names], list("abcde"), **{k: v[order] for k, v in columns.items()})
result = family_bootstrap(totals.totals, draws=500)
print(hashlib.sha256(canonical_json(asdict(result))).hexdigest())
"""


def test_a_whole_analysis_has_one_digest_for_any_order_of_rows_and_number_of_threads():
    printed = set()
    for threads, order in (("1", "3"), ("2", "4")):
        environment = os.environ | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        command = [sys.executable, "-c", DIGEST, order]
        printed.add(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    assert len(printed) == 1 and len(printed.pop().strip()) == 64


def test_the_golden_bounds_have_a_digest_that_no_numpy_may_change():
    bounds = [golden(draws=2000).difference_bounds, golden(draws=2000).ratio_bounds]
    digest = hashlib.sha256(canonical_json([asdict(part) for part in bounds])).hexdigest()
    assert digest == "a3061e0116368034161b98142c7e33f158e19aa2c8ccb12c76a667fe86062090"
