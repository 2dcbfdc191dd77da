from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import order_statistic_interval, quantile, quantile_interval

values = st.lists(st.integers(-50, 50), max_size=120)


@given(values, st.sampled_from([0.05, 0.5, 0.9, 0.95]), st.sampled_from([0.8, 0.95]))
@settings(deadline=None)
def test_the_bounds_are_order_statistics_around_the_quantile(numbers, q, confidence):
    result = quantile_interval(numbers, q, confidence=confidence)
    ranks = order_statistic_interval(len(numbers), q, confidence=confidence)
    assert result.reason == ranks.reason
    assert result.estimate == quantile(numbers, q).value
    ordered = sorted(numbers)
    assert result.low == (None if ranks.rank_low is None else ordered[ranks.rank_low - 1])
    assert result.high == (None if ranks.rank_high is None else ordered[ranks.rank_high - 1])
    if result.low is not None and result.high is not None:
        assert result.low <= result.estimate <= result.high


def test_a_p95_from_few_successes_has_no_upper_bound_and_never_the_maximum():
    few, enough = (quantile_interval(list(range(n)), 0.95) for n in (71, 72))
    assert (few.high, few.reason) == (None, "no_finite_upper_bound")
    assert (enough.high, enough.reason) == (71.0, None)


def test_the_bounds_cover_as_often_as_they_say():
    rng = np.random.default_rng(8)
    hits = sum(
        found.low <= 0.5 <= found.high
        for found in (quantile_interval(rng.random(40).tolist(), 0.5) for _ in range(2000))
    )
    assert hits / 2000 == pytest.approx(order_statistic_interval(40, 0.5).coverage, abs=0.015)


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(StatsInputError, match=r"values\[1\]"):
        quantile_interval([1.0, float("inf")], 0.5)
