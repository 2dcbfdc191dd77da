from __future__ import annotations

import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import (
    mcnemar_exact,
    mcnemar_power,
    mcnemar_sample_size,
    noninferiority_power,
    noninferiority_sample_size,
    paired_e_process,
    paired_e_value_error,
    paired_e_value_power,
    paired_e_value_sample_size,
    tango_interval,
)

effect = st.tuples(st.sampled_from([0.0, 0.05, 0.2, 0.45]), st.sampled_from([0.0, 0.03, 0.3, 0.55]))


def over_tables(n, p10, p01, decides):
    total = 0.0
    for b in range(n + 1):
        for c in range(n - b + 1):
            if decides(b, c):
                total += scipy.stats.multinomial.pmf([b, c, n - b - c], n, [p10, p01, 1 - p10 - p01])
    return total


@given(st.integers(0, 24), effect, st.sampled_from(["exact", "mid-p"]), st.sampled_from([0.05, 0.2]))
@settings(deadline=None, max_examples=40)
def test_the_power_is_the_chance_of_every_table_that_the_exact_test_rejects(n, effects, variant, alpha):
    p10, p01 = effects

    def rejects(b, c):
        result = mcnemar_exact(b, c)
        return (result.p_value if variant == "exact" else result.mid_p) <= alpha + 1e-12

    ours = mcnemar_power(n, p10, p01=p01, alpha=alpha, variant=variant).value
    assert ours == pytest.approx(over_tables(n, p10, p01, rejects), abs=1e-12)


@pytest.mark.parametrize(("p10", "p01", "variant"), [(0.15, 0.05, "exact"), (0.3, 0.1, "mid-p"), (0.2, 0.0, "exact")])
def test_the_sample_size_is_the_first_n_that_reaches_the_target(p10, p01, variant):
    n = mcnemar_sample_size(p10, p01, variant=variant).value
    powers = [mcnemar_power(size, p10, p01=p01, variant=variant).value for size in range(n + 1)]
    assert max(powers[:-1]) < 0.8 <= powers[-1]
    assert mcnemar_sample_size(p01, p10, variant=variant).value == n
    assert mcnemar_sample_size(p10, p01, variant=variant, deff=1.5).value == -(-3 * n // 2)


@given(st.integers(0, 300), st.sampled_from([0.0, 0.02, 0.2, 0.5]))
@settings(deadline=None, max_examples=30)
def test_the_exact_test_of_equal_arms_keeps_its_level(n, chance):
    assert mcnemar_power(n, chance, p01=chance).value <= 0.05
    assert paired_e_value_power(n, chance, p01=chance).value <= 0.05


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_the_power_of_the_e_process_averages_over_the_discordant_pairs(alternative):
    n, p10, p01 = 60, 0.3, 0.1
    wanted = sum(
        scipy.stats.binom.pmf(m, n, p10 + p01)
        * paired_e_value_error(m, theta=p10 / (p10 + p01), alternative=alternative).value
        for m in range(n + 1)
    )
    assert paired_e_value_power(n, p10, p01=p01, alternative=alternative).value == pytest.approx(wanted)


def test_looking_after_every_pair_needs_more_pairs_than_looking_once():
    n = paired_e_value_sample_size(0.15, 0.05).value
    assert paired_e_value_power(n, 0.15, p01=0.05).value >= 0.8 > paired_e_value_power(n - 1, 0.15, p01=0.05).value
    assert n > mcnemar_sample_size(0.15, 0.05).value
    assert paired_e_process([1] * 9).rejected


@given(st.integers(1, 22), effect, st.sampled_from([0.03, 0.1, 0.3]))
@settings(deadline=None, max_examples=40)
def test_noninferiority_power_is_the_chance_of_every_table_whose_tango_bound_clears_the_margin(n, effects, margin):
    p10, p01 = effects
    wanted = over_tables(n, p10, p01, lambda b, c: tango_interval(b, c, n=n).low > -margin)
    assert noninferiority_power(n, p10, p01=p01, margin=margin).value == pytest.approx(wanted, abs=1e-12)


def test_two_identical_arms_without_any_discordance_need_125_pairs():
    assert noninferiority_sample_size(0.0, 0.0, margin=0.03).value == 125
    assert noninferiority_power(124, 0.0, p01=0.0, margin=0.03).value == 0.0
    assert noninferiority_power(125, 0.0, p01=0.0, margin=0.03).value == 1.0


def test_the_noninferiority_size_is_the_first_that_reaches_the_target():
    n = noninferiority_sample_size(0.05, 0.05, margin=0.1).value
    powers = [noninferiority_power(size, 0.05, p01=0.05, margin=0.1).value for size in range(n + 1)]
    assert max(powers[:-1]) < 0.8 <= powers[-1]


def test_what_cannot_be_found_is_out_of_reach():
    assert mcnemar_sample_size(0.1, 0.1).reason == "out_of_reach"
    assert mcnemar_sample_size(0.1, 0.0999).reason == "out_of_reach"
    assert paired_e_value_sample_size(0.1, 0.1).reason == "out_of_reach"
    assert paired_e_value_sample_size(0.0, 0.0).reason == "out_of_reach"
    assert noninferiority_sample_size(0.02, 0.1, margin=0.03).reason == "out_of_reach"
    assert noninferiority_sample_size(0.3, 0.3, margin=0.001).reason == "out_of_reach"


def test_more_pairs_than_can_be_summed_and_unknown_variants_are_refused():
    with pytest.raises(StatsInputError, match="n: expected 0 to 20000"):
        mcnemar_power(20_001, 0.1, p01=0.1)
    with pytest.raises(StatsInputError, match="variant"):
        mcnemar_power(20, 0.1, p01=0.1, variant="corrected")
