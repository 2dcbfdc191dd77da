from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from trialplate.errors import StatsInputError
from trialplate.stats import (
    beta_posterior,
    clopper_pearson_interval,
    jeffreys_interval,
    order_statistic_interval,
    poisson_rate_interval,
    probability_greater,
    quantile,
    quantile_bound_min_n,
    wilson_interval,
    zero_failure_sample_size,
)
from trialplate.stats.quantiles import QUANTILE_METHODS

INTERVALS = (wilson_interval, clopper_pearson_interval, jeffreys_interval)
RATES = np.arange(2, 1999) / 2000.0


@st.composite
def successes_of(draw: st.DrawFn, smallest: int = 1, largest: int = 3000) -> tuple[int, int]:
    n = draw(st.integers(smallest, largest))
    return draw(st.integers(0, n)), n


confidences = st.floats(0.5, 0.9999)


def smallest_coverage(interval, n: int, rates: np.ndarray) -> float:
    results = [interval(k, n) for k in range(n + 1)]
    low, high = (np.array([getattr(result, end) for result in results])[:, None] for end in ("low", "high"))
    chance = scipy.stats.binom.pmf(np.arange(n + 1)[:, None], n, rates)
    return float((chance * ((low <= rates) & (rates <= high))).sum(axis=0).min())


# The specification prints three digits, the last of them as .951.
@pytest.mark.parametrize(
    ("n", "wilson", "exact"),
    [(10, 0.8382, 0.9610), (20, 0.8431, 0.9580), (50, 0.8392, 0.9509), (100, 0.8606, 0.9504)],
)
def test_the_smallest_exact_coverage_from_one_per_mille_on_is_the_known_one(n, wilson, exact):
    assert smallest_coverage(wilson_interval, n, RATES) == pytest.approx(wilson, abs=0.00006)
    assert smallest_coverage(clopper_pearson_interval, n, RATES) == pytest.approx(exact, abs=0.00006)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 10, 13, 20, 30, 50, 75, 100])
def test_clopper_pearson_never_covers_less_than_it_promises(n):
    limits = [clopper_pearson_interval(k, n).low for k in range(n + 1)]
    limits += [clopper_pearson_interval(k, n).high for k in range(n + 1)]
    edges = np.array(limits)
    worst = np.concatenate([np.nextafter(edges, 0.0), edges, np.nextafter(edges, 1.0), RATES])
    assert smallest_coverage(clopper_pearson_interval, n, worst) >= 0.95


def test_wilson_covers_far_less_than_it_promises_just_outside_its_first_limit():
    edge = np.nextafter(wilson_interval(1, 100).low, 0.0)
    assert smallest_coverage(wilson_interval, 100, np.array([edge])) == pytest.approx(0.8379, abs=0.0001)


@given(successes_of(), confidences)
@settings(deadline=None)
def test_swapping_successes_and_failures_mirrors_every_interval(counts, confidence):
    k, n = counts
    for interval in INTERVALS:
        here, there = interval(k, n, confidence=confidence), interval(n - k, n, confidence=confidence)
        assert here.low == pytest.approx(1.0 - there.high, abs=1e-12)
        assert here.high == pytest.approx(1.0 - there.low, abs=1e-12)


@given(successes_of(), confidences)
@settings(deadline=None)
def test_the_upper_and_the_lower_limit_mirror_each_other(counts, confidence):
    k, n = counts
    for interval in (wilson_interval, clopper_pearson_interval):
        upper = interval(k, n, confidence=confidence, side="upper")
        lower = interval(n - k, n, confidence=confidence, side="lower")
        assert (upper.low, lower.high) == (0.0, 1.0)
        assert upper.high == pytest.approx(1.0 - lower.low, abs=1e-12)


@given(successes_of(), confidences)
@settings(deadline=None)
def test_every_interval_contains_its_estimate_and_stays_in_the_unit_range(counts, confidence):
    k, n = counts
    for interval in INTERVALS:
        result = interval(k, n, confidence=confidence)
        slack = 0.0 if interval is not jeffreys_interval or confidence >= 0.9 else 1.0
        assert 0.0 <= result.low <= result.estimate + slack
        assert result.estimate - slack <= result.high <= 1.0
        assert result.estimate == k / n


@given(successes_of(), confidences, confidences)
@settings(deadline=None)
def test_a_higher_confidence_never_gives_a_narrower_interval(counts, one, other):
    k, n = counts
    small, large = min(one, other), max(one, other)
    for interval in INTERVALS:
        inner, outer = interval(k, n, confidence=small), interval(k, n, confidence=large)
        assert outer.low <= inner.low + 1e-12
        assert inner.high <= outer.high + 1e-12


@given(successes_of(), confidences)
@settings(deadline=None)
def test_a_one_sided_limit_is_the_two_sided_one_at_twice_the_error(counts, confidence):
    k, n = counts
    for interval in (wilson_interval, clopper_pearson_interval):
        two = interval(k, n, confidence=1.0 - 2.0 * (1.0 - confidence)) if confidence > 0.5 else None
        if two is not None:
            assert interval(k, n, confidence=confidence, side="lower").low == pytest.approx(two.low, abs=1e-9)
            assert interval(k, n, confidence=confidence, side="upper").high == pytest.approx(two.high, abs=1e-9)


@given(successes_of(largest=500), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
@settings(deadline=None)
def test_wilson_and_clopper_pearson_agree_with_scipy(counts, confidence):
    k, n = counts
    for interval, method in ((wilson_interval, "wilson"), (clopper_pearson_interval, "exact")):
        for side, alternative in (("two-sided", "two-sided"), ("lower", "greater"), ("upper", "less")):
            ours = interval(k, n, confidence=confidence, side=side)
            theirs = scipy.stats.binomtest(k, n, alternative=alternative).proportion_ci(confidence, method)
            assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-10)


@given(successes_of(smallest=2, largest=500))
@settings(deadline=None)
def test_jeffreys_agrees_with_statsmodels_away_from_the_ends(counts):
    k, n = counts
    ours, (low, high) = jeffreys_interval(k, n), proportion_confint(k, n, method="jeffreys")
    assert ours.low == (0.0 if k == 0 else pytest.approx(low, abs=1e-10))
    assert ours.high == (1.0 if k == n else pytest.approx(high, abs=1e-10))


def test_jeffreys_without_successes_starts_at_zero_where_statsmodels_does_not():
    assert jeffreys_interval(0, 10).low == 0.0
    assert proportion_confint(0, 10, method="jeffreys")[0] > 1e-5


def test_the_exact_upper_limit_without_successes_is_the_closed_form():
    for n in (1, 7, 59, 10**6):
        assert clopper_pearson_interval(0, n).high == pytest.approx(-math.expm1(math.log(0.025) / n), rel=1e-12)


@pytest.mark.parametrize("interval", INTERVALS)
def test_no_attempts_give_no_interval_and_no_estimate(interval):
    result = interval(0, 0)
    assert (result.estimate, result.low, result.high, result.reason) == (None, None, None, "no_attempts")


def test_no_attempts_give_no_posterior_although_there_is_a_prior():
    assert beta_posterior(0, 0).reason == "no_attempts"
    assert beta_posterior(0, 0).mean is None
    assert probability_greater(0, 0, k2=1, n2=2).reason == "no_attempts"
    assert probability_greater(1, 2, k2=0, n2=0).value is None


@given(successes_of(), st.floats(0.1, 20.0), st.floats(0.1, 20.0))
@settings(deadline=None)
def test_the_posterior_is_the_beta_distribution_of_scipy(counts, prior_a, prior_b):
    k, n = counts
    ours = beta_posterior(k, n, prior_a=prior_a, prior_b=prior_b, confidence=0.9)
    theirs = scipy.stats.beta(prior_a + k, prior_b + n - k)
    assert (ours.low, ours.mean, ours.high) == pytest.approx(
        (theirs.ppf(0.05), theirs.mean(), theirs.ppf(0.95)), abs=1e-9
    )


@given(successes_of(smallest=0, largest=200), successes_of(smallest=0, largest=200))
@settings(deadline=None, max_examples=50)
def test_one_of_two_rates_is_the_greater_one_with_probabilities_that_add_to_one(first, second):
    (k1, n1), (k2, n2) = first, second
    one = probability_greater(k1, n1, k2=k2, n2=n2)
    other = probability_greater(k2, n2, k2=k1, n2=n1)
    if n1 == 0 or n2 == 0:
        assert one == other and one.value is None
        return
    assert one.value + other.value == pytest.approx(1.0, abs=1e-15)
    grid = (np.arange(200_000) + 0.5) / 200_000
    a, b = scipy.stats.beta(k1 + 1, n1 - k1 + 1), scipy.stats.beta(k2 + 1, n2 - k2 + 1)
    assert one.value == pytest.approx(float((a.pdf(grid) * b.cdf(grid)).mean()), abs=2e-6)


def test_equal_arms_are_a_coin_flip_and_a_million_attempts_still_are():
    assert probability_greater(7, 9, k2=7, n2=9).value == 0.5
    assert probability_greater(500_000, 10**6, k2=500_000, n2=10**6).value == 0.5


@given(st.integers(1, 9999), st.integers(1, 999))
@settings(deadline=None)
def test_the_zero_failure_sample_size_is_the_first_that_demonstrates_the_rate(rate, confidence):
    p, c = rate / 10_000, confidence / 1000
    n = zero_failure_sample_size(p, c).value
    assert n * math.log(p) <= math.log(1 - c) + 1e-9
    assert n == 1 or (n - 1) * math.log(p) > math.log(1 - c) - 1e-9


def test_a_sample_size_that_is_whole_on_paper_is_not_pushed_up_by_rounding():
    assert zero_failure_sample_size(0.9, 0.19).value == 2
    assert zero_failure_sample_size(0.5, 0.875).value == 3
    assert quantile_bound_min_n(0.5, confidence=0.75).value == 3


def test_a_sample_size_beyond_counting_is_out_of_reach():
    assert zero_failure_sample_size(1 - 2**-53, 0.95).reason == "out_of_reach"
    assert quantile_bound_min_n(1e-300).reason == "out_of_reach"


@given(st.integers(1, 99), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
@settings(deadline=None)
def test_both_ranks_are_finite_from_the_minimum_n_on_and_not_before(percent, confidence):
    q = percent / 100
    n = quantile_bound_min_n(q, confidence=confidence).value
    enough = order_statistic_interval(n, q, confidence=confidence)
    assert enough.reason is None and 1 <= enough.rank_low < enough.rank_high <= n
    if n > 1:
        assert order_statistic_interval(n - 1, q, confidence=confidence).reason is not None


def test_one_sided_minimum_numbers_mirror_at_the_median():
    upper = quantile_bound_min_n(0.9, side="upper").value
    assert upper == quantile_bound_min_n(0.1, side="lower").value == 29
    assert quantile_bound_min_n(0.9, side="lower").value == 2


@given(st.integers(1, 2000), st.integers(1, 99))
@settings(deadline=None)
def test_ranks_agree_with_scipy_and_cover_what_they_promise(n, percent):
    q = percent / 100
    result = order_statistic_interval(n, q)
    low, high = int(scipy.stats.binom.ppf(0.025, n, q)), int(scipy.stats.binom.ppf(0.975, n, q)) + 1
    assert result.rank_low == (low if low >= 1 else None)
    assert result.rank_high == (high if high <= n else None)
    if low >= 1 and high <= n:
        exact = scipy.stats.binom.cdf(high - 1, n, q) - scipy.stats.binom.cdf(low - 1, n, q)
        assert result.coverage == pytest.approx(exact, abs=1e-10)
        assert result.coverage >= 0.95 - 1e-12


def test_a_missing_bound_is_named_and_is_never_the_extreme_value():
    assert order_statistic_interval(71, 0.95).rank_high is None
    assert order_statistic_interval(71, 0.95).reason == "no_finite_upper_bound"
    assert order_statistic_interval(71, 0.05).reason == "no_finite_lower_bound"
    assert order_statistic_interval(72, 0.95).rank_high == 72
    assert order_statistic_interval(1, 0.5).reason == "no_finite_upper_bound"
    assert order_statistic_interval(0, 0.5).reason == "no_values"


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40),
    st.integers(0, 1000),
    st.sampled_from(QUANTILE_METHODS),
)
@settings(deadline=None)
def test_quantiles_agree_with_numpy_away_from_ties(values, permille, method):
    q = permille / 1000
    if method == "inverted_cdf" and (permille * len(values)) % 1000 == 0:
        q = max(0.0, q - 0.0003)
    ours = quantile(values, q, method=method).value
    assert ours == pytest.approx(float(np.quantile(values, q, method=method)), abs=1e-6, rel=1e-9)
    assert min(values) <= ours <= max(values)
    assert quantile(list(reversed(values)), q, method=method).value == ours


def test_a_rank_that_is_whole_on_paper_is_not_moved_by_binary_rounding():
    values = list(range(1, 101))
    assert quantile(values, 0.07, method="inverted_cdf").value == 7
    assert 100 * 0.07 > 7, "the reason for this test"


def test_a_quantile_needs_a_known_method_a_level_in_range_and_finite_values():
    for arguments, named in (
        (([1.0], 0.5, "nearest"), "method"),
        (([1.0], 1.5, "linear"), "q"),
        (([1.0, math.nan], 0.5, "linear"), "values[1]"),
        (([1.0, math.inf], 0.5, "linear"), "values[1]"),
        (("12", 0.5, "linear"), "values"),
    ):
        with pytest.raises(StatsInputError) as caught:
            quantile(arguments[0], arguments[1], method=arguments[2])
        assert caught.value.argument == named


@given(st.integers(0, 5000), st.floats(1e-3, 1e6), confidences)
@settings(deadline=None)
def test_an_incident_rate_has_the_chi_square_limits_of_garwood(events, exposure, confidence):
    result = poisson_rate_interval(events, exposure, confidence=confidence)
    tail = (1 - confidence) / 2
    low = scipy.stats.chi2.ppf(tail, 2 * events) / 2 / exposure if events else 0.0
    high = scipy.stats.chi2.isf(tail, 2 * events + 2) / 2 / exposure
    assert (result.low, result.high) == pytest.approx((low, high), rel=1e-8)
    assert result.low <= result.estimate <= result.high


def test_without_exposure_there_is_no_incident_rate():
    for events in (0, 3):
        result = poisson_rate_interval(events, 0.0)
        assert (result.estimate, result.low, result.high, result.reason) == (None, None, None, "no_exposure")


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: wilson_interval(-1, 5), "k"),
        (lambda: wilson_interval(6, 5), "k"),
        (lambda: wilson_interval(True, 5), "k"),
        (lambda: wilson_interval(2.0, 5), "k"),
        (lambda: wilson_interval(2, None), "n"),
        (lambda: wilson_interval(2, 5, confidence=1.0), "confidence"),
        (lambda: wilson_interval(2, 5, confidence=math.nan), "confidence"),
        (lambda: wilson_interval(2, 5, side="both"), "side"),
        (lambda: clopper_pearson_interval(2, 5, confidence=0.4, side="lower"), "confidence"),
        (lambda: jeffreys_interval(2, 2**53), "n"),
        (lambda: beta_posterior(1, 2, prior_a=0.0), "prior_a"),
        (lambda: probability_greater(1, 10**7, k2=1, n2=2), "n1"),
        (lambda: zero_failure_sample_size(1.0, 0.95), "rate"),
        (lambda: quantile_bound_min_n(0.0), "q"),
        (lambda: order_statistic_interval(3, 1.0), "q"),
        (lambda: poisson_rate_interval(2, -1.0), "exposure"),
        (lambda: poisson_rate_interval(2, True), "exposure"),
        (lambda: poisson_rate_interval(2, "3"), "exposure"),
    ],
)
def test_a_bad_argument_is_refused_by_name(call, argument):
    with pytest.raises(StatsInputError) as caught:
        call()
    assert caught.value.argument == argument
    assert str(caught.value).startswith(f"{argument}: ")
