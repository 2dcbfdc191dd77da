from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import (
    confidence_sequence,
    confidence_sequence_error,
    mcnemar_exact,
    paired_e_process,
    paired_e_value,
    paired_e_value_error,
    peeking_error,
    sprt_bounds,
    wilson_interval,
)

SIDES = ("two-sided", "less", "greater")
counts = st.integers(0, 60)


def test_one_look_is_the_exact_test_itself():
    assert peeking_error(10).value == 2 * 11 / 1024
    rejected = sum(math.comb(30, b) for b in range(31) if mcnemar_exact(b, 30 - b).p_value <= 0.05)
    assert peeking_error(30, first_look=30).value == pytest.approx(rejected / 2**30)
    assert peeking_error(9).value == 0.0
    assert peeking_error(0).value == 0.0


def test_every_further_look_costs():
    errors = [peeking_error(n).value for n in (10, 20, 50, 100, 200, 1000)]
    assert errors == sorted(errors)
    assert errors[3] > 4 * 0.05


@given(counts, counts)
@settings(deadline=None)
def test_the_e_value_is_the_mixture_of_likelihood_ratios(b, c):
    m = b + c
    two_sided = Fraction(2**m, (m + 1) * math.comb(m, b))
    assert paired_e_value(b, c).log_e_value == pytest.approx(math.log(two_sided), abs=1e-10)
    one_sided = two_sided * 2 * Fraction(sum(math.comb(m + 1, i) for i in range(b + 1)), 2 ** (m + 1))
    assert paired_e_value(b, c, alternative="greater").log_e_value == pytest.approx(math.log(one_sided), abs=1e-10)
    assert paired_e_value(b, c, alternative="less") == paired_e_value(c, b, alternative="greater")
    assert paired_e_value(b, c) == paired_e_value(c, b)


@given(st.integers(0, 30), st.sampled_from(SIDES))
@settings(deadline=None)
def test_under_the_null_the_mean_e_value_is_one(m, alternative):
    mean = sum(
        math.comb(m, b) / 2**m * paired_e_value(b, m - b, alternative=alternative).e_value for b in range(m + 1)
    )
    assert mean == pytest.approx(1.0)


def test_evidence_beyond_every_float_keeps_its_logarithm():
    result = paired_e_value(3000, 1)
    assert (result.e_value, result.reason) == (None, "out_of_reach")
    assert result.log_e_value > 2000
    against = paired_e_value(0, 5000, alternative="greater")
    assert against.e_value == pytest.approx(1 / 5001)


@given(st.lists(st.integers(0, 1), max_size=40), st.sampled_from(SIDES), st.sampled_from([0.05, 0.0625, 0.2]))
@settings(deadline=None)
def test_the_process_stops_where_the_e_value_first_reaches_one_over_alpha(outcomes, alternative, alpha):
    result = paired_e_process(outcomes, alpha=alpha, alternative=alternative)
    logs = []
    for m in range(1, len(outcomes) + 1):
        b = sum(outcomes[:m])
        logs.append(paired_e_value(b, m - b, alternative=alternative).log_e_value)
    crossed = [m for m, value in enumerate(logs, start=1) if value >= math.log(1 / alpha) - 1e-12]
    assert result.rejected == bool(crossed)
    assert result.decided_after == (crossed[0] if crossed else len(outcomes))
    assert (result.b, result.c) == (sum(outcomes), len(outcomes) - sum(outcomes))
    assert result.max_log_e_value == max([0.0, *logs])
    assert result.p_value == pytest.approx(min(1.0, math.exp(-max([0.0, *logs]))))
    assert (result.p_value <= alpha * (1 + 1e-12)) == result.rejected


@given(st.integers(0, 300), st.sampled_from(SIDES), st.sampled_from([0.01, 0.05, 0.2]))
@settings(deadline=None, max_examples=30)
def test_however_long_one_looks_the_e_process_errs_at_most_alpha(pairs, alternative, alpha):
    assert paired_e_value_error(pairs, alpha=alpha, alternative=alternative).value <= alpha


def test_the_e_process_has_power_on_its_side_only():
    assert paired_e_value_error(100, theta=0.75, alternative="greater").value > 0.99
    assert paired_e_value_error(100, theta=0.25, alternative="less").value == pytest.approx(
        paired_e_value_error(100, theta=0.75, alternative="greater").value
    )
    assert paired_e_value_error(100, theta=0.25, alternative="greater").value < 1e-4
    assert paired_e_value_error(5, theta=1.0, alternative="greater").value == 0.0
    assert paired_e_value_error(8, theta=1.0).value == 1.0


@given(st.integers(0, 80), st.integers(0, 80), st.sampled_from([(0.8, 0.9), (0.9, 0.95), (0.95, 0.99)]))
@settings(deadline=None)
def test_the_sequence_mirrors_nests_and_contains_the_fixed_interval(k, failures, levels):
    n = k + failures
    if n == 0:
        assert confidence_sequence(0, 0).reason == "no_attempts"
        return
    inner, outer = (confidence_sequence(k, n, confidence=level) for level in levels)
    mirrored = confidence_sequence(failures, n, confidence=levels[0])
    assert inner.low == pytest.approx(1 - mirrored.high, abs=1e-15)
    assert 0.0 <= outer.low <= inner.low <= k / n <= inner.high <= outer.high <= 1.0
    fixed = wilson_interval(k, n, confidence=levels[0])
    assert inner.low <= fixed.low + 1e-12 and fixed.high <= inner.high + 1e-12


@given(st.integers(1, 60), st.integers(0, 60), st.sampled_from([0.9, 0.95]))
@settings(deadline=None)
def test_at_its_limits_the_mixture_ratio_is_one_over_alpha(k, failures, confidence):
    result = confidence_sequence(k, k + failures, confidence=confidence)
    p = Fraction(result.low)
    ratio = 1 / ((k + failures + 1) * math.comb(k + failures, k) * p**k * (1 - p) ** failures)
    assert float(ratio) == pytest.approx(1 / (1 - confidence), rel=1e-8)


@given(st.floats(0.01, 0.99), st.integers(0, 120), st.sampled_from([0.9, 0.95]))
@settings(deadline=None, max_examples=40)
def test_the_sequence_ever_misses_with_at_most_alpha(p, n, confidence):
    assert confidence_sequence_error(p, n, confidence=confidence).value <= 1 - confidence + 1e-12


@pytest.mark.parametrize("p", [0.3, 0.77])
def test_the_chance_of_a_miss_is_that_of_the_printed_intervals(p):
    alive, missed = {0: 1.0}, 0.0
    for n in range(1, 31):
        step: dict[int, float] = {}
        for k, chance in alive.items():
            step[k] = step.get(k, 0.0) + chance * (1 - p)
            step[k + 1] = step.get(k + 1, 0.0) + chance * p
        alive = {}
        for k, chance in step.items():
            interval = confidence_sequence(k, n)
            if interval.low < p < interval.high:
                alive[k] = chance
            else:
                missed += chance
    assert confidence_sequence_error(p, 30).value == pytest.approx(missed)


def test_walds_bounds_mirror_when_the_errors_swap():
    one, two = sprt_bounds(0.7, 0.9, alpha=0.05, beta=0.2), sprt_bounds(0.9, 0.7, alpha=0.2, beta=0.05)
    assert (one.upper, one.success_increment) == pytest.approx((-two.lower, -two.success_increment))
    for wrong in ({"p0": 0.7, "p1": 0.7}, {"p0": 0.7, "p1": 0.9, "alpha": 0.5, "beta": 0.5}):
        with pytest.raises(StatsInputError):
            sprt_bounds(**wrong)


def test_more_pairs_than_can_be_summed_exactly_are_refused():
    for call in (peeking_error, paired_e_value_error):
        with pytest.raises(StatsInputError, match="discordant: expected 0 to 20000"):
            call(20_001)
    with pytest.raises(StatsInputError, match=r"only_a\[0\]"):
        paired_e_process([2])
