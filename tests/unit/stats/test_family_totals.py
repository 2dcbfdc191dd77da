from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import family_totals

episode = st.tuples(
    st.integers(0, 3), st.integers(0, 1), st.integers(0, 1), st.integers(0, 10**12), st.integers(0, 10**9)
)
NAMES = ("zebra", "ähre", "apple", "Zoo")


def collect(rows, names=NAMES, **options):
    family, arm, passed, cost, time = (list(column) for column in zip(*rows, strict=True))
    return family_totals(names, ("a", "b"), family=family, arm=arm, passed=passed, cost=cost, time=time, **options)


@given(st.lists(episode, min_size=1, max_size=60), st.randoms(), st.permutations(range(4)))
@settings(deadline=None)
def test_the_order_of_rows_and_of_ids_changes_nothing(rows, random, order):
    here = collect(rows)
    place = {old: new for new, old in enumerate(order)}
    shuffled = [(place[row[0]], *row[1:]) for row in rows]
    random.shuffle(shuffled)
    there = collect(shuffled, names=[NAMES[at] for at in order])
    assert here.families == there.families == ("Zoo", "apple", "zebra", "ähre")
    assert (here.totals == there.totals).all()
    for family, arm in np.ndindex(4, 2):
        mine = [row for row in rows if NAMES[row[0]] == here.families[family] and row[1] == arm]
        wanted = [len(mine), *(sum(row[column] for row in mine) for column in (2, 3, 4))]
        assert here.totals[family, arm].tolist() == wanted


def test_one_unknown_cost_makes_the_total_of_that_arm_unknown_and_no_other():
    rows = [(0, 0, 1, 5, 1), (0, 1, 1, 7, 1), (1, 0, 1, 5, 1), (1, 1, 1, 7, 1)]
    assert collect(rows).unknown == frozenset()
    assert collect(rows, cost_known=[True, True, True, False]).unknown == {(1, "cost")}
    whole = family_totals(("f",), ("a", "b"), family=[0, 0], arm=[0, 1], passed=[1, 1])
    assert whole.unknown == {(0, "cost"), (0, "time"), (1, "cost"), (1, "time")}


def test_a_family_cannot_be_given_twice_to_count_twice():
    with pytest.raises(StatsInputError, match="families: 'f' is given more than once"):
        family_totals(("f", "g", "f"), ("a",), family=[0, 2], arm=[0, 0], passed=[1, 1])
    with pytest.raises(StatsInputError, match="arms: 'a' is given more than once"):
        family_totals(("f",), ("a", "a"), family=[0, 0], arm=[0, 1], passed=[1, 1])


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"family": [0, 4]}, "family"),
        ({"family": [-1, 0]}, "family"),
        ({"arm": [0, 2]}, "arm"),
        ({"arm": [0]}, "arm"),
        ({"passed": [0, 2]}, "passed"),
        ({"passed": [0.0, 1.0]}, "passed"),
        ({"cost": [1.5, 2.0]}, "cost"),
        ({"cost": [-1, 2]}, "cost"),
        ({"cost": [True, False]}, "cost"),
        ({"cost": [2**52, 2**52]}, "totals"),
        ({"time": [[1, 2]]}, "time"),
    ],
)
def test_a_column_that_is_not_what_it_says_is_refused(changed, where):
    plain = {"family": [0, 1], "arm": [0, 0], "passed": [1, 0], "cost": [1, 2], "time": [3, 4]}
    with pytest.raises(StatsInputError, match=f"^{where}"):
        family_totals(NAMES, ("a", "b"), **(plain | changed))
