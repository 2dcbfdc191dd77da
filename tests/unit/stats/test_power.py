from __future__ import annotations

import math

import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import (
    minimum_detectable_difference,
    noninferiority_pairs,
    noninferiority_sample_size,
    paired_sample_size,
    two_proportion_sample_size,
)

chance = st.integers(1, 45).map(lambda hundredths: hundredths / 100)


@given(chance, chance, st.sampled_from([0.01, 0.05, 0.1]), st.sampled_from([0.7, 0.8, 0.9]))
@settings(deadline=None)
def test_at_the_formulas_n_the_normal_power_is_the_target(p10, p01, alpha, power):
    assume(p10 != p01)
    n = paired_sample_size(p10, p01, alpha=alpha, power=power).n_exact
    psi, d = p10 + p01, abs(p10 - p01)
    shift = d * math.sqrt(n) - scipy.stats.norm.isf(alpha / 2) * math.sqrt(psi)
    assert scipy.stats.norm.cdf(shift / math.sqrt(psi - d * d)) == pytest.approx(power)


@given(chance, chance)
@settings(deadline=None)
def test_two_rates_need_the_same_n_in_either_order_and_mirrored(p1, p2):
    one, two = two_proportion_sample_size(p1, p2), two_proportion_sample_size(p2, p1)
    assert one == two
    if p1 == p2:
        assert (one.n, one.reason) == (None, "out_of_reach")
    else:
        assert one.n == math.ceil(one.n_exact)
        assert two_proportion_sample_size(1 - p1, 1 - p2).n_exact == pytest.approx(one.n_exact)


@given(chance, chance, st.floats(1.0, 4.0))
@settings(deadline=None)
def test_the_detectable_difference_inverts_connors_formula_with_its_design_effect(p10, p01, deff):
    assume(p10 > p01)
    n = paired_sample_size(p10, p01, deff=deff).n_exact
    found = minimum_detectable_difference(n, p10 + p01, deff=deff).value
    assert found == pytest.approx(p10 - p01, rel=1e-6)


def test_the_design_effect_multiplies_every_n():
    assert paired_sample_size(0.15, 0.05, deff=2.0).n == 310
    assert noninferiority_pairs(0.05, 0.03, deff=1.5).n == 655
    for deff in (0.0, -1.0, math.inf):
        with pytest.raises(StatsInputError, match="deff"):
            paired_sample_size(0.15, 0.05, deff=deff)


def test_what_cannot_be_found_is_out_of_reach():
    assert paired_sample_size(0.1, 0.1).reason == "out_of_reach"
    assert minimum_detectable_difference(1e9, 0.0).reason == "out_of_reach"
    assert noninferiority_pairs(0.0, 0.03).n == 0
    with pytest.raises(StatsInputError, match=r"p10 \+ p01 = 1.1"):
        paired_sample_size(0.6, 0.5)
    with pytest.raises(StatsInputError, match="margin"):
        noninferiority_pairs(0.05, 0.0)


@pytest.mark.parametrize("power", [1e-300, 0.01])
def test_a_power_that_chance_alone_has_asks_for_no_more_than_the_margin_does(power):
    assert two_proportion_sample_size(0.6, 0.5, power=power).n <= 1
    least = noninferiority_sample_size(0.0, 0.0, margin=0.1, power=power).value
    assert noninferiority_sample_size(0.05, 0.05, margin=0.1, power=power).value <= least + 1
