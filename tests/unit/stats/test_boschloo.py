from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import boschloo_power, boschloo_test
from trialplate.stats.inputs import ALTERNATIVES

small_arm = st.integers(1, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def boschloo_on_a_grid(k1: int, n1: int, k2: int, n2: int) -> float:
    """One-sided test (rate 1 below rate 2): all tables at most as likely by Fisher, worst nuisance on a grid."""
    x1, x2 = np.meshgrid(np.arange(n1 + 1), np.arange(n2 + 1), indexing="ij")
    fisher = scipy.stats.hypergeom.cdf(x1, n1 + n2, x1 + x2, n1)
    extreme = fisher <= fisher[k1, k2] * (1 + 1e-13)
    grid = np.linspace(0.0, 1.0, 2001)[:, None, None]
    chance = scipy.stats.binom.pmf(x1, n1, grid) * scipy.stats.binom.pmf(x2, n2, grid)
    return float((chance * extreme).sum(axis=(1, 2)).max())


@pytest.mark.parametrize(("k1", "n1", "k2", "n2"), [(7, 15, 12, 15), (1, 6, 5, 9), (0, 4, 4, 4), (3, 10, 3, 10)])
def test_boschloo_is_the_worst_case_over_the_nuisance_rate(k1, n1, k2, n2):
    less = boschloo_test(k1, n1, k2=k2, n2=n2, alternative="less")
    greater = boschloo_test(k2, n2, k2=k1, n2=n1, alternative="greater")
    assert less.p_value == pytest.approx(boschloo_on_a_grid(k1, n1, k2, n2), abs=1e-5)
    assert less.p_value == greater.p_value


@given(small_arm, small_arm, st.sampled_from(ALTERNATIVES))
@settings(deadline=None, max_examples=40)
def test_boschloo_agrees_with_scipy(first, second, alternative):
    (k1, n1), (k2, n2) = first, second
    ours = boschloo_test(k1, n1, k2=k2, n2=n2, alternative=alternative).p_value
    if k1 + k2 in (0, n1 + n2):
        assert ours == 1.0
        return
    theirs = scipy.stats.boschloo_exact([[k1, k2], [n1 - k1, n2 - k2]], alternative=alternative).pvalue
    assert ours == pytest.approx(theirs, abs=1e-6)


@given(small_arm, small_arm)
@settings(deadline=None, max_examples=60)
def test_boschloo_is_never_weaker_than_fisher_and_swaps_and_mirrors_exactly(first, second):
    (k1, n1), (k2, n2) = first, second
    ours = boschloo_test(k1, n1, k2=k2, n2=n2, alternative="less").p_value
    fisher = scipy.stats.fisher_exact([[k1, k2], [n1 - k1, n2 - k2]], alternative="less").pvalue
    assert ours <= fisher * (1 + 1e-9) or ours == 1.0
    assert boschloo_test(k2, n2, k2=k1, n2=n1).p_value == boschloo_test(k1, n1, k2=k2, n2=n2).p_value
    mirrored = boschloo_test(n2 - k2, n2, k2=n1 - k1, n2=n1, alternative="less").p_value
    assert mirrored == pytest.approx(ours, rel=1e-8)


def test_boschloo_is_one_when_nothing_differs():
    for alternative in ALTERNATIVES:
        assert boschloo_test(5, 5, k2=7, n2=7, alternative=alternative).p_value == 1.0
        assert boschloo_test(0, 5, k2=0, n2=7, alternative=alternative).p_value == 1.0


def test_a_thousand_episodes_a_side_take_no_seconds():
    boschloo_test(3, 10, k2=5, n2=10)
    start_s = perf_counter()
    result = boschloo_test(500, 1000, k2=540, n2=1000)
    assert perf_counter() - start_s < 5.0  # the target of one second stands in benchmarks/exact_tests.py
    assert result.p_value == pytest.approx(0.0761018215, abs=1e-8)


def test_boschloo_refuses_tables_that_would_take_minutes_and_unknown_alternatives():
    with pytest.raises(StatsInputError, match="n1: "):
        boschloo_test(1, 5000, k2=1, n2=5000)
    with pytest.raises(StatsInputError, match="n1: "):
        boschloo_power(5000, 0.5, n2=500, p2=0.6)
    with pytest.raises(StatsInputError, match="alternative: "):
        boschloo_test(1, 5, k2=1, n2=5, alternative="larger")


@pytest.mark.parametrize(("n1", "p1", "n2", "p2"), [(3, 0.1, 3, 0.9), (10, 0.3, 14, 0.8), (12, 0.5, 9, 0.5)])
def test_the_power_is_the_chance_of_every_table_that_the_test_rejects(n1, p1, n2, p2):
    rejected = sum(
        scipy.stats.binom.pmf(k1, n1, p1) * scipy.stats.binom.pmf(k2, n2, p2)
        for k1 in range(n1 + 1)
        for k2 in range(n2 + 1)
        if boschloo_test(k1, n1, k2=k2, n2=n2).p_value <= 0.05
    )
    assert boschloo_power(n1, p1, n2=n2, p2=p2).value == pytest.approx(rejected, rel=1e-9)


@given(st.integers(1, 25), st.integers(1, 25), st.floats(0.02, 0.98), st.sampled_from([0.01, 0.05, 0.1]))
@settings(deadline=None, max_examples=40)
def test_the_type_i_error_never_exceeds_alpha(n1, n2, rate, alpha):
    assert boschloo_power(n1, rate, n2=n2, p2=rate, alpha=alpha).value <= alpha * (1 + 1e-9)


def test_an_arm_without_attempts_cannot_be_compared():
    for result in (boschloo_test(0, 0, k2=1, n2=2), boschloo_test(1, 2, k2=0, n2=0)):
        assert (result.p_value, result.reason) == (None, "no_attempts")
    assert boschloo_power(0, 0.5, n2=5, p2=0.5).reason == "no_attempts"
    with pytest.raises(StatsInputError, match="k2: 3 is more than n2 = 2"):
        boschloo_test(1, 2, k2=3, n2=2)
