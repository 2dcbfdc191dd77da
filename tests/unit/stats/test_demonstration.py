from __future__ import annotations

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import (
    chance_of_passes,
    clopper_pearson_interval,
    demonstration_passes,
    demonstration_sample_size,
    rate_for_passes,
    zero_failure_sample_size,
)


@given(st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999]), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_without_a_failure_it_is_the_closed_form(rate, confidence):
    assert demonstration_sample_size(rate, confidence).value == zero_failure_sample_size(rate, confidence).value


@given(st.integers(0, 9), st.sampled_from([0.5, 0.9, 0.95]))
def test_one_episode_less_does_not_demonstrate_the_rate(failures, rate):
    n = demonstration_sample_size(rate, 0.95, failures=failures).value
    assert clopper_pearson_interval(n - failures, n, side="lower").low >= rate
    assert clopper_pearson_interval(n - 1 - failures, n - 1, side="lower").low < rate


@given(st.integers(1, 400), st.sampled_from([0.3, 0.9, 0.99]))
def test_the_fewest_passes_are_those_whose_gate_holds(n, rate):
    k = demonstration_passes(n, rate).value
    if k is None:
        assert clopper_pearson_interval(n, n, side="lower").low < rate
        return
    assert clopper_pearson_interval(k, n, side="lower").low >= rate
    assert clopper_pearson_interval(k - 1, n, side="lower").low < rate


@given(st.integers(1, 60), st.integers(0, 60))
def test_at_the_rate_for_so_many_passes_they_come_with_the_chance_that_was_asked_for(k, more):
    rate = rate_for_passes(k, k + more, power=0.8).value
    assert chance_of_passes(k, k + more, rate=rate).value == pytest.approx(0.8, abs=1e-9)
    assert chance_of_passes(k, k + more, rate=rate).value == pytest.approx(
        scipy.stats.binom.sf(k - 1, k + more, rate), abs=1e-12
    )


def test_a_design_effect_multiplies_and_bad_counts_are_refused():
    assert demonstration_sample_size(0.95, 0.95, deff=1.5).value == 89  # 88.5, rounded up
    with pytest.raises(StatsInputError, match="failures"):
        demonstration_sample_size(0.95, 0.95, failures=-1)
    with pytest.raises(StatsInputError, match="k: 4 is more than n = 3"):
        rate_for_passes(4, 3)
