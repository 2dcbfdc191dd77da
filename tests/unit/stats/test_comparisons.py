from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import confint_proportions_2indep

from trialplate.errors import StatsInputError
from trialplate.stats import (
    mcnemar_exact,
    miettinen_nurminen_interval,
    newcombe_interval,
    tango_interval,
)

Z = scipy.stats.norm.ppf(0.975)
UNMATCHED = (newcombe_interval, miettinen_nurminen_interval)
arm = st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
pairs = st.integers(1, 300).flatmap(
    lambda n: st.integers(0, n).flatmap(lambda b: st.tuples(st.just(b), st.integers(0, n - b), st.just(n)))
)


@given(st.integers(0, 400), st.integers(0, 400))
@settings(deadline=None)
def test_the_exact_test_is_the_binomial_test_on_the_discordant_pairs(b, c):
    result = mcnemar_exact(b, c)
    assert result == mcnemar_exact(c, b)
    if b + c == 0:
        assert (result.p_value, result.mid_p) == (1.0, 1.0)
        return
    assert result.p_value == pytest.approx(scipy.stats.binomtest(b, b + c).pvalue, rel=1e-10)
    point = scipy.stats.binom.pmf(min(b, c), b + c, 0.5)
    doubled = 2 * scipy.stats.binom.cdf(min(b, c), b + c, 0.5)
    assert result.mid_p == pytest.approx(min(1.0, doubled - point), rel=1e-9)
    assert 0.0 < result.mid_p <= result.p_value <= 1.0


def test_no_discordant_pair_is_not_the_certainty_that_statsmodels_computes():
    with np.errstate(divide="ignore"):
        theirs = mcnemar([[5, 0], [0, 5]], exact=False, correction=True)
    assert theirs.pvalue == 0.0
    assert mcnemar_exact(0, 0).p_value == 1.0


def score_of_paired_difference(b: int, c: int, n: int, d: float) -> float:
    """The score with the nuisance parameter maximised numerically instead of in closed form."""

    def loss(p01: float) -> float:
        p10 = p01 + d
        rest = 1.0 - p10 - p01
        parts = [(b, p10), (c, p01), (n - b - c, rest)]
        return -sum(count * math.log(max(chance, 1e-300)) for count, chance in parts if count)

    best = minimize_scalar(loss, bounds=(max(0.0, -d), (1.0 - d) / 2.0), method="bounded", options={"xatol": 1e-12}).x
    return (b - c - n * d) / math.sqrt(n * (2 * best + d * (1 - d)))


@given(pairs)
@settings(deadline=None, max_examples=60)
def test_at_a_tango_limit_the_score_is_the_critical_value(table):
    b, c, n = table
    result = tango_interval(b, c, n=n)
    if result.low > -0.999 and b + c > 0:
        assert score_of_paired_difference(b, c, n, result.low) == pytest.approx(Z, abs=2e-3)
    if result.high < 0.999 and b + c > 0:
        assert score_of_paired_difference(b, c, n, result.high) == pytest.approx(-Z, abs=2e-3)


@given(pairs, st.sampled_from([(0.8, 0.9), (0.9, 0.95), (0.95, 0.99)]))
@settings(deadline=None)
def test_tango_negates_when_arms_swap_nests_in_confidence_and_contains_the_estimate(table, confidences):
    b, c, n = table
    inner, outer = (tango_interval(b, c, n=n, confidence=level) for level in confidences)
    swapped = tango_interval(c, b, n=n, confidence=confidences[0])
    assert (inner.low, inner.high) == (-swapped.high, -swapped.low)
    assert -1.0 <= outer.low <= inner.low <= inner.estimate <= inner.high <= outer.high <= 1.0
    assert inner.low < inner.high


def test_without_discordant_pairs_the_margin_is_cleared_from_125_pairs_and_not_before():
    assert tango_interval(0, 0, n=124).low < -0.03 < tango_interval(0, 0, n=125).low
    assert tango_interval(0, 0, n=5).low < -0.4


def test_more_discordant_pairs_than_pairs_are_refused():
    with pytest.raises(StatsInputError, match=r"b: b \+ c = 6 is more than n = 5 pairs"):
        tango_interval(3, 3, n=5)


@given(arm, arm, st.sampled_from([(0.8, 0.9), (0.9, 0.95), (0.95, 0.99)]))
@settings(deadline=None)
def test_unmatched_intervals_negate_nest_and_contain_the_estimate(first, second, confidences):
    (k1, n1), (k2, n2) = first, second
    for interval in UNMATCHED:
        inner, outer = (interval(k1, n1, k2=k2, n2=n2, confidence=level) for level in confidences)
        swapped = interval(k2, n2, k2=k1, n2=n1, confidence=confidences[0])
        assert (inner.low, inner.high) == (-swapped.high, -swapped.low)
        assert inner.estimate == -swapped.estimate
        assert -1.0 <= outer.low <= inner.low <= inner.estimate <= inner.high <= outer.high <= 1.0
        assert inner.low < inner.high


@given(arm, arm)
@settings(deadline=None)
def test_newcombe_agrees_with_statsmodels(first, second):
    (k1, n1), (k2, n2) = first, second
    ours = newcombe_interval(k1, n1, k2=k2, n2=n2)
    theirs = confint_proportions_2indep(k1, n1, k2, n2, method="newcomb", compare="diff")
    assert (ours.low, ours.high) == pytest.approx(theirs, abs=1e-9)


def score_of_difference(k1: int, n1: int, k2: int, n2: int, d: float) -> float:
    """The score with the restricted rates found by halving the derivative of the likelihood."""
    low, high = max(0.0, -d), min(1.0, 1.0 - d)
    for _ in range(200):
        p2 = (low + high) / 2
        slope = 0.0
        for count, chance, sign in ((k1, p2 + d, 1), (n1 - k1, 1 - p2 - d, -1), (k2, p2, 1), (n2 - k2, 1 - p2, -1)):
            slope += sign * count / max(chance, 1e-300) if count else 0.0
        low, high = (p2, high) if slope > 0 else (low, p2)
    p1 = p2 + d
    variance = (p1 * (1 - p1) / n1 + p2 * (1 - p2) / n2) * (n1 + n2) / (n1 + n2 - 1)
    return (k1 / n1 - k2 / n2 - d) / math.sqrt(variance)


@given(arm, arm)
@settings(deadline=None)
def test_at_a_miettinen_nurminen_limit_the_score_is_the_critical_value(first, second):
    (k1, n1), (k2, n2) = first, second
    result = miettinen_nurminen_interval(k1, n1, k2=k2, n2=n2)
    if result.low > -0.999:
        assert score_of_difference(k1, n1, k2, n2, result.low) == pytest.approx(Z, abs=1e-5)
    if result.high < 0.999:
        assert score_of_difference(k1, n1, k2, n2, result.high) == pytest.approx(-Z, abs=1e-5)


def test_the_published_limits_are_ours_and_not_those_of_statsmodels():
    ours = miettinen_nurminen_interval(56, 70, k2=48, n2=80)
    theirs = confint_proportions_2indep(56, 70, 48, 80, method="score", compare="diff")
    assert (round(ours.low, 4), round(ours.high, 4)) == (0.0528, 0.3382)
    assert abs(theirs[1] - ours.high) > 0.005


@pytest.mark.parametrize("comparison", UNMATCHED)
def test_an_arm_without_attempts_cannot_be_compared(comparison):
    for result in (comparison(0, 0, k2=1, n2=2), comparison(1, 2, k2=0, n2=0)):
        assert result.reason == "no_attempts"
    with pytest.raises(StatsInputError, match="k2: 3 is more than n2 = 2"):
        comparison(1, 2, k2=3, n2=2)


def test_no_pairs_give_no_paired_interval():
    result = tango_interval(0, 0, n=0)
    assert (result.estimate, result.low, result.high, result.reason) == (None, None, None, "no_pairs")
