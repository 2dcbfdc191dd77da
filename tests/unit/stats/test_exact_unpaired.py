from __future__ import annotations

import numpy as np
import pytest

from trialplate.errors import StatsInputError
from trialplate.stats import (
    boschloo_detectable_difference,
    boschloo_power,
    boschloo_sample_size,
    mcnemar_detectable_difference,
    mcnemar_power,
    minimum_detectable_difference,
    two_proportion_detectable_difference,
    two_proportion_power,
    two_proportion_sample_size,
)
from trialplate.stats.boschloo import rejection_region


@pytest.mark.parametrize(("n1", "n2", "baseline"), [(20, 20, None), (13, 40, None), (40, 13, None), (30, 30, 0.5)])
def test_the_detectable_difference_has_the_power_and_a_smaller_one_has_not(n1, n2, baseline):
    d = boschloo_detectable_difference(n1, n2, baseline=baseline).value

    def power(difference):
        rates = (
            (0.5 + difference / 2, 0.5 - difference / 2) if baseline is None else (baseline + difference, baseline)
        )
        return boschloo_power(n1, rates[0], n2=n2, p2=rates[1]).value

    assert power(d) >= 0.8 > power(d - 1e-5)


@pytest.mark.parametrize(("n1", "n2", "slack"), [(40, 40, 0.0), (13, 40, 0.005), (30, 31, 0.005)])
def test_around_one_half_a_difference_is_hardest_to_find(n1, n2, slack):
    d = boschloo_detectable_difference(n1, n2).value
    region = rejection_region(n1, n2, side=0.025)
    for mean in np.linspace(d / 2 + 1e-6, 1 - d / 2 - 1e-6, 41):
        assert region.chance(mean + d / 2, mean - d / 2) >= 0.8 - slack
        assert region.chance(mean - d / 2, mean + d / 2) >= 0.8 - slack


def test_a_difference_beyond_the_room_above_the_baseline_is_out_of_reach():
    found = boschloo_detectable_difference(20, 20, baseline=0.7)
    assert (found.value, found.reason) == (None, "out_of_reach")
    assert two_proportion_detectable_difference(20, 20, baseline=0.95).reason == "out_of_reach"


@pytest.mark.parametrize(("p1", "p2"), [(0.85, 0.7), (0.6, 0.4), (0.95, 0.5)])
def test_the_sample_size_reaches_the_power_and_one_episode_less_does_not(p1, p2):
    n = boschloo_sample_size(p1, p2).value
    assert boschloo_power(n, p1, n2=n, p2=p2).value >= 0.8 > boschloo_power(n - 1, p1, n2=n - 1, p2=p2).value
    assert abs(n - two_proportion_sample_size(p1, p2).n) <= 6
    assert boschloo_sample_size(p1, p2, deff=2).value == 2 * n


def test_beyond_the_exact_search_there_is_only_the_closed_formula():
    assert boschloo_sample_size(0.50, 0.51).reason == "out_of_reach"
    assert two_proportion_sample_size(0.50, 0.51).n == 39_240
    with pytest.raises(StatsInputError, match="expected at most 2000000"):
        boschloo_detectable_difference(5000, 5000)


@pytest.mark.parametrize("baseline", [None, 0.6])
def test_the_closed_difference_inverts_the_closed_sample_size(baseline):
    d = two_proportion_detectable_difference(500, 500, baseline=baseline).value
    rates = (0.5 + d / 2, 0.5 - d / 2) if baseline is None else (baseline + d, baseline)
    assert two_proportion_sample_size(*rates).n_exact == pytest.approx(500, abs=0.01)


@pytest.mark.parametrize(("n", "psi"), [(68, 0.2), (200, 0.1), (30, 0.5)])
def test_the_paired_detectable_difference_is_exact_and_a_little_above_the_formula(n, psi):
    d = mcnemar_detectable_difference(n, psi).value
    assert mcnemar_power(n, (psi + d) / 2, p01=(psi - d) / 2).value >= 0.8
    assert mcnemar_power(n, (psi + d) / 2 - 1e-5, p01=(psi - d) / 2 + 1e-5).value < 0.8
    assert 0 < d - minimum_detectable_difference(n, psi).value < 0.06


@pytest.mark.parametrize("rates", [(0.85, 0.7), (0.4, 0.6)])
def test_the_closed_power_inverts_the_closed_sample_size_and_is_near_the_exact_one(rates):
    n = two_proportion_sample_size(*rates).n_exact
    assert two_proportion_power(n, rates[0], n2=n, p2=rates[1]).value == pytest.approx(0.8, abs=1e-9)
    exact = boschloo_power(300, rates[0], n2=150, p2=rates[1]).value
    assert two_proportion_power(300, rates[0], n2=150, p2=rates[1]).value == pytest.approx(exact, abs=0.02)
