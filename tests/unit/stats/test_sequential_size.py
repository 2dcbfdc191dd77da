from __future__ import annotations

import pytest

from trialplate.errors import StatsInputError
from trialplate.stats import group_sequential_power, group_sequential_sample_size, paired_sample_size
from trialplate.stats.sequential_size import even_looks


@pytest.mark.parametrize("spending", ["obrien-fleming", "pocock"])
def test_the_most_pairs_reach_the_power_and_one_less_does_not(spending):
    n = group_sequential_sample_size(0.15, 0.05, looks=3, spending=spending).value

    def power(pairs):
        return group_sequential_power(even_looks(pairs, 3), 0.15, p01=0.05, spending=spending).power

    assert power(n) >= 0.8 > power(n - 1)
    assert group_sequential_sample_size(0.15, 0.05, looks=3, spending=spending, deff=2).value == 2 * n


def test_one_look_is_the_closed_formula_within_its_teeth():
    assert abs(group_sequential_sample_size(0.15, 0.05, looks=1).value - paired_sample_size(0.15, 0.05).n) < 12


def test_looks_are_even_and_no_more_than_the_pairs():
    assert even_looks(100, 3) == [34, 67, 100]
    with pytest.raises(StatsInputError, match="looks: 5 looks at 4 pairs"):
        even_looks(4, 5)
    with pytest.raises(StatsInputError, match="looks"):
        even_looks(100, 0)
