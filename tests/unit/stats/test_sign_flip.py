from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import sign_flip_test, sign_flip_tests
from trialplate.stats.resampling import flip_chunks


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=9), st.sampled_from(["two-sided", "less", "greater"]))
@settings(deadline=None, max_examples=60)
def test_all_patterns_are_those_of_scipys_permutation_test(differences, alternative):
    ours = sign_flip_test(differences, alternative=alternative).p_value
    if any(differences):
        wanted = scipy.stats.permutation_test(
            (np.array(differences),), np.sum, permutation_type="samples", n_resamples=10**4, alternative=alternative
        ).pvalue
        # scipy doubles the smaller side; the sums are symmetric, so both mean the same thing
        assert ours == pytest.approx(wanted)
    else:
        assert ours == 1.0


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=12))
@settings(deadline=None)
def test_swapping_the_arms_swaps_the_sides_and_families_that_tie_change_nothing(differences):
    swapped = [-step for step in differences]
    assert sign_flip_test(differences) == sign_flip_test(swapped)
    assert sign_flip_test(differences, alternative="less") == sign_flip_test(swapped, alternative="greater")
    assert sign_flip_test([*differences, 0]) == sign_flip_test(differences)
    assert sign_flip_test(differences[::-1]) == sign_flip_test(differences)


def test_above_sixteen_families_the_registered_stream_counts_and_the_observed_pattern_too():
    steps = [3, 1, 1, -1, 2, 0, 1, -2, 1, 1, 1, -1, 2, 1, 0, 1, 1]
    sampled = sign_flip_test(steps)
    exact = sign_flip_test([step for step in steps if step])
    assert exact.p_value == pytest.approx(sampled.p_value, abs=0.002)
    assert sampled == sign_flip_test(steps)
    assert sampled != sign_flip_test(steps, seed=7)
    assert sign_flip_test([1] * 40).p_value == 1 / 100_001
    assert sign_flip_test([0] * 40).p_value == 1.0


def test_no_family_has_no_p_value():
    assert sign_flip_test([]).reason == "no_pairs"


@pytest.mark.parametrize("differences", [[0.5], [True], ["1"], [2**52, 2**52], 7])
def test_differences_that_are_not_whole_are_refused(differences):
    with pytest.raises(StatsInputError, match="differences"):
        sign_flip_test(differences)


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_several_columns_at_once_give_the_numbers_of_one_at_a_time(alternative):
    columns = [[3, -1, 2] * 3, [1, 0, 2, -1] * 5, [0] * 20, [-2, 1, 0, 0] * 5, [1] * 25, []]
    together = sign_flip_tests(columns, alternative=alternative, seed=5, patterns=2000)
    alone = [sign_flip_test(column, alternative=alternative, seed=5, patterns=2000) for column in columns]
    assert list(together) == alone and together[-1].reason == "no_pairs"
    assert together[2].p_value == 1.0


def test_a_flip_is_the_highest_bit_of_a_word():
    (flips,) = flip_chunks(9, 3, families=40)
    raw = np.random.PCG64(9).random_raw(120).reshape(3, 40)
    u = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
    assert np.array_equal(flips, np.floor(2 * u).astype(bool))
