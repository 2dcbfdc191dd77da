from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import group_sequential_power, group_sequential_test, lan_demets_bounds, mcnemar_power

SPENDINGS = ("obrien-fleming", "pocock")


@pytest.mark.parametrize("spending", ["obrien-fleming", "pocock"])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
def test_two_looks_spend_what_the_bivariate_normal_distribution_says(spending, alpha):
    times = [0.4, 1.0]
    found = lan_demets_bounds(times, alpha=alpha, spending=spending)
    first, second = found.bounds
    joint = scipy.stats.multivariate_normal(cov=[[1.0, math.sqrt(0.4)], [math.sqrt(0.4), 1.0]])
    inside = joint.cdf([first, second], lower_limit=[-first, -second])
    assert 2 * scipy.stats.norm.sf(first) == pytest.approx(found.spent[0], rel=1e-6)
    assert 1 - inside == pytest.approx(alpha, abs=2e-5)
    assert found.spent[1] == pytest.approx(alpha)


def test_one_look_at_the_end_is_the_fixed_test():
    assert lan_demets_bounds([1.0]).bounds[0] == pytest.approx(1.959963984540054, abs=1e-8)
    assert lan_demets_bounds([]).bounds == ()


@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=4, unique=True), st.sampled_from(["obrien-fleming", "pocock"])
)
@settings(deadline=None, max_examples=15)
def test_spending_grows_to_alpha_and_early_obrien_fleming_bounds_are_farthest(hundredths, spending):
    times = [step / 100 for step in sorted(hundredths)]
    found = lan_demets_bounds(times, spending=spending)
    assert list(found.spent) == sorted(found.spent)
    assert found.spent[-1] <= 0.05 + 1e-12
    assert all(bound is None or bound > 1.64 for bound in found.bounds)
    bounded = [(time, bound) for time, bound in zip(times, found.bounds, strict=True) if bound is not None]
    if not bounded:
        return
    (first_time, first), (last_time, last) = bounded[0], bounded[-1]
    if spending == "obrien-fleming" and last_time - first_time >= 0.1:
        assert first > last


def test_of_two_looks_close_together_the_second_bound_may_lie_higher_and_spends_what_it_may():
    early, late = 0.33, 0.34
    first, second = lan_demets_bounds([early, late]).bounds
    assert second > first
    slope, spread = math.sqrt(early / late), math.sqrt(1 - early / late)

    def crossing(z):
        above = scipy.stats.norm.sf((second - slope * z) / spread)
        return scipy.stats.norm.pdf(z) * (above + scipy.stats.norm.cdf((-second - slope * z) / spread))

    spent = 2 * scipy.integrate.quad(crossing, 3.0, first, epsabs=1e-16)[0]
    spent += scipy.integrate.quad(crossing, -3.0, 3.0, epsabs=1e-18)[0]
    farthest = scipy.stats.norm.ppf(1 - 0.05 / 4)
    allowed = [4 * scipy.stats.norm.sf(farthest / math.sqrt(time)) for time in (early, late)]
    assert spent == pytest.approx(allowed[1] - allowed[0], rel=1e-6)


def test_a_look_that_may_spend_nothing_has_no_bound_and_costs_nothing():
    early, late = lan_demets_bounds([0.001, 0.5, 1.0]), lan_demets_bounds([0.5, 1.0])
    assert (early.bounds[0], early.reason) == (None, "unbounded")
    assert early.bounds[1:] == pytest.approx(late.bounds, abs=2e-4)


@pytest.mark.parametrize("information", [[0.0], [0.5, 0.5], [0.5, 0.4], [0.5, 1.01], [0.5, 0.50001]])
def test_looks_that_do_not_increase_are_refused(information):
    with pytest.raises(StatsInputError, match=r"information\[\d\]"):
        lan_demets_bounds(information)


def test_the_test_stops_at_the_first_look_beyond_its_bound():
    going = group_sequential_test([5, 9], [2, 3], pairs=[50, 100], n_max=150)
    assert going.statistics == pytest.approx((3 / math.sqrt(7), 6 / math.sqrt(12)))
    assert (going.rejected, going.decided_after, len(going.bounds)) == (False, 2, 2)
    stopped = group_sequential_test([5, 16, 17], [2, 3, 9], pairs=[50, 100, 150], n_max=150)
    assert (stopped.rejected, stopped.decided_after) == (True, 2)
    mirrored = group_sequential_test([2, 3, 9], [5, 16, 17], pairs=[50, 100, 150], n_max=150)
    assert mirrored.statistics == tuple(-z for z in stopped.statistics)
    assert mirrored.decided_after == 2


def test_a_look_without_a_discordant_pair_has_no_statistic_and_does_not_reject():
    result = group_sequential_test([0, 8], [0, 0], pairs=[50, 100], n_max=150)
    assert (result.statistics[0], result.reason, result.decided_after) == (None, "no_variation", 2)


@pytest.mark.parametrize(
    "looks",
    [
        {"b": [5, 4], "c": [0, 0], "pairs": [50, 100]},
        {"b": [40, 50], "c": [11, 12], "pairs": [50, 100]},
        {"b": [5, 5], "c": [0, 0], "pairs": [50, 151]},
        {"b": [5], "c": [0, 0], "pairs": [50, 100]},
    ],
)
def test_looks_that_contradict_themselves_are_refused(looks):
    with pytest.raises(StatsInputError):
        group_sequential_test(looks["b"], looks["c"], pairs=looks["pairs"], n_max=150)


def simulated_power(looks, p10, p01, bounds, runs=20_000):
    rng = np.random.default_rng(5)
    sizes = np.diff([0, *looks])
    rejected, b, c = np.zeros(runs, dtype=bool), np.zeros(runs), np.zeros(runs)
    for size, bound in zip(sizes, bounds, strict=True):
        drawn = rng.multinomial(size, [p10, p01, 1 - p10 - p01], size=runs)
        b, c = b + drawn[:, 0], c + drawn[:, 1]
        rejected |= np.abs(b - c) >= bound * np.sqrt(np.maximum(b + c, 1))
    return rejected.mean()


def test_the_exact_power_is_that_of_a_simulation_and_its_parts_add_up():
    looks = [40, 80, 120]
    result = group_sequential_power(looks, 0.2, p01=0.06)
    bounds = lan_demets_bounds([1 / 3, 2 / 3, 1.0]).bounds
    assert result.power == pytest.approx(simulated_power(looks, 0.2, 0.06, bounds), abs=0.015)
    assert result.power == pytest.approx(sum(result.rejected_at))
    left = [1.0, 1 - result.rejected_at[0], 1 - result.rejected_at[0] - result.rejected_at[1]]
    assert result.expected_pairs == pytest.approx(40 * sum(left))


def test_equal_arms_give_the_type_i_error_near_alpha():
    result = group_sequential_power([100, 200, 300], 0.1, p01=0.1)
    assert 0.03 < result.power < 0.055
    assert group_sequential_power([100, 200, 300], 0.0, p01=0.0).power == 0.0


def test_one_look_has_the_power_of_the_score_test_in_between_exact_and_mid_p():
    one = group_sequential_power([155], 0.15, p01=0.05).power
    assert mcnemar_power(155, 0.15, p01=0.05).value < one
    assert one == pytest.approx(mcnemar_power(155, 0.15, p01=0.05, variant="mid-p").value, abs=0.02)


def test_power_refuses_looks_out_of_order_and_work_without_end():
    for looks in ([], [0, 10], [10, 10]):
        with pytest.raises(StatsInputError, match="pairs: expected increasing looks"):
            group_sequential_power(looks, 0.1, p01=0.1)
    with pytest.raises(StatsInputError, match="take minutes"):
        group_sequential_power([50_000], 0.4, p01=0.4)
    with pytest.raises(StatsInputError, match="p10 \\+ p01"):
        group_sequential_power([10], 0.6, p01=0.5)
