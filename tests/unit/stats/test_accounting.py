from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import episode_accounting, held_out_domains, ratio_per_success, stage_rates
from trialplate.stats.accounting import DENOMINATORS, STATUSES

status_lists = st.lists(st.sampled_from(STATUSES), max_size=60)


@given(status_lists, st.sampled_from(DENOMINATORS), st.randoms())
@settings(deadline=None)
def test_accounting_adds_up_ignores_order_and_brackets_the_rate(statuses, denominator, random):
    result = episode_accounting(60, statuses, denominator=denominator)
    shuffled = list(statuses)
    random.shuffle(shuffled)
    assert episode_accounting(60, shuffled, denominator=denominator) == result
    assert result.initiated == len(statuses)
    assert result.passed + result.failed + result.errored + result.excluded == result.initiated
    if result.rate is None:
        assert result.reason == ("nothing_measured" if statuses else "no_attempts")
        assert result.error_high is None and result.exclusion_low is None
    else:
        assert result.rate == result.passed / result.n
        assert 0.0 <= result.error_low <= result.error_high <= 1.0
        assert 0.0 <= result.exclusion_low <= result.exclusion_high <= 1.0
        if denominator != "initiated":
            assert result.error_low <= result.rate <= result.error_high


def test_the_three_denominators_count_different_episodes():
    statuses = ["PASS"] * 4 + ["FAIL"] * 2 + ["ERROR"] * 3 + ["EXCLUDED"]
    assert [episode_accounting(10, statuses, denominator=d).n for d in DENOMINATORS] == [10, 9, 6]
    assert [episode_accounting(10, statuses, denominator=d).rate for d in DENOMINATORS] == [0.4, 4 / 9, 4 / 6]


@pytest.mark.parametrize("statuses", [["ERROR"] * 4, ["EXCLUDED"] * 4, ["ERROR", "EXCLUDED"]])
@pytest.mark.parametrize("denominator", DENOMINATORS)
def test_nothing_measured_is_never_zero_percent(statuses, denominator):
    result = episode_accounting(4, statuses, denominator=denominator)
    assert (result.rate, result.reason) == (None, "nothing_measured")


def test_episodes_without_a_plan_have_a_rate_but_no_coverage():
    result = episode_accounting(0, ["PASS"])
    assert (result.rate, result.coverage, result.reason) == (1.0, None, "no_attempts")


def test_more_episodes_than_planned_stay_visible_in_the_coverage():
    assert episode_accounting(2, ["PASS", "FAIL", "FAIL"]).coverage == 1.5


def test_an_unknown_status_is_refused_with_its_position():
    with pytest.raises(StatsInputError, match=r"statuses\[1\]: expected one of PASS, FAIL, ERROR, EXCLUDED"):
        episode_accounting(2, ["PASS", "pass"])
    with pytest.raises(StatsInputError, match="denominator"):
        episode_accounting(2, ["PASS"], denominator="valid")
    with pytest.raises(StatsInputError, match="statuses"):
        episode_accounting(2, "PASS")


def test_an_unknown_total_stays_unknown_and_a_known_zero_is_a_value():
    assert ratio_per_success(None, 5).reason == "unknown_total"
    assert ratio_per_success(None, 0).reason == "unknown_total"
    assert ratio_per_success(0, 5).value == 0.0
    assert ratio_per_success(0, 0).reason == "zero_successes"


@pytest.mark.parametrize("total", [-1, math.nan, math.inf, True, "12", 10**400])
def test_a_total_that_is_not_a_cost_is_refused(total):
    with pytest.raises(StatsInputError) as caught:
        ratio_per_success(total, 5)
    assert caught.value.argument == "total"


@given(st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n), max_size=40))))
@settings(deadline=None)
def test_stages_are_counted_as_the_definition_reads(case):
    n_stages, ladders = case
    result = stage_rates(ladders, n_stages)
    assert result.passed == tuple(sum(ladder > stage for ladder in ladders) for stage in range(n_stages))
    assert result.reached == (len(ladders), *result.passed[:-1])
    for reached, passed, rate in zip(result.reached, result.passed, result.rates, strict=True):
        assert rate == (passed / reached if reached else None)
    if ladders:
        assert result.success_rate == sum(ladder == n_stages for ladder in ladders) / len(ladders)
    assert (result.reason == "no_attempts") == (None in result.rates)


def test_a_stage_that_nothing_reached_has_no_rate_and_the_success_rate_is_an_honest_zero():
    result = stage_rates([0, 0], 2)
    assert result.rates == (0.0, None)
    assert (result.success_rate, result.reason) == (0.0, "no_attempts")


def test_a_ladder_longer_than_the_stages_is_refused():
    for ladders, stages, named in (
        ([3], 2, "stages_passed[0]"),
        ([], 0, "n_stages"),
        ([True], 2, "stages_passed[0]"),
    ):
        with pytest.raises(StatsInputError) as caught:
            stage_rates(ladders, stages)
        assert caught.value.argument == named


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.integers(1, 20), st.randoms())
@settings(deadline=None)
def test_held_out_domains_summarise_the_domain_rates_in_any_order(successes, nominal, random):
    result = held_out_domains(nominal, 20, domain_k=successes, domain_n=[20] * len(successes))
    rates = np.array(successes) / 20
    assert result.mean == pytest.approx(rates.mean())
    assert result.variance == pytest.approx(rates.var(), abs=1e-15)
    assert result.worst == min(successes) / 20
    assert result.retention == pytest.approx(min(successes) / nominal)
    shuffled = list(successes)
    random.shuffle(shuffled)
    assert held_out_domains(nominal, 20, domain_k=shuffled, domain_n=[20] * len(successes)) == result


def test_a_domain_without_attempts_is_not_dropped():
    result = held_out_domains(9, 10, domain_k=[5, 0], domain_n=[10, 0])
    assert (result.mean, result.worst, result.reason) == (None, None, "task_without_attempts")
    assert held_out_domains(9, 10, domain_k=[], domain_n=[]).reason == "no_values"


def test_retention_needs_a_nominal_rate_but_the_rest_does_not():
    unmeasured = held_out_domains(0, 0, domain_k=[5], domain_n=[10])
    assert (unmeasured.mean, unmeasured.retention, unmeasured.reason) == (0.5, None, "no_attempts")
