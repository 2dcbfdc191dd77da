from __future__ import annotations

import choix
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import bradley_terry, preference_wins, rank_agreement
from trialplate.stats.ranking import strongly_connected


def win_tables(low=0):
    return st.integers(2, 6).flatmap(
        lambda n: st.lists(st.lists(st.integers(low, 9), min_size=n, max_size=n), min_size=n, max_size=n).map(hollow)
    )


def hollow(rows):
    return [[0 if i == j else won for j, won in enumerate(row)] for i, row in enumerate(rows)]


@given(win_tables(low=1))
@settings(deadline=None, max_examples=40)
def test_strengths_agree_with_choix_and_solve_the_likelihood(wins):
    ours = bradley_terry(wins)
    votes = [(i, j) for i, row in enumerate(wins) for j, won in enumerate(row) for _ in range(won)]
    theirs = choix.ilsr_pairwise(len(wins), votes)
    assert ours.log_strengths == pytest.approx(tuple(theirs - np.mean(theirs)), abs=1e-5)
    t, table = np.array(ours.log_strengths), np.array(wins, dtype=float)
    chance = 1 / (1 + np.exp(t[None, :] - t[:, None]))
    assert (table - (table + table.T) * chance).sum(axis=1) == pytest.approx(np.zeros(len(wins)), abs=1e-9)
    assert sum(ours.log_strengths) == pytest.approx(0.0, abs=1e-12)


@given(win_tables(), st.randoms())
@settings(deadline=None, max_examples=60)
def test_strengths_exist_where_wins_connect_everybody_and_follow_the_arms(wins, random):
    found = bradley_terry(wins)
    beats = np.array(wins) > 0
    reach = np.linalg.matrix_power((beats | np.eye(len(wins), dtype=bool)).astype(int), len(wins)) > 0
    assert (found.log_strengths is not None) == bool(reach.all()) == bool(strongly_connected(beats[None])[0])
    assert sorted(arm for part in found.components for arm in part) == list(range(len(wins)))
    assert all((len(part) == 1) or reach[np.ix_(part, part)].all() for part in found.components)
    order = list(range(len(wins)))
    random.shuffle(order)
    moved = bradley_terry([[wins[i][j] for j in order] for i in order])
    assert moved.reason == found.reason
    if found.log_strengths:
        assert moved.log_strengths == pytest.approx([found.log_strengths[i] for i in order], abs=1e-9)


@given(win_tables(), st.sampled_from([0.01, 0.1, 2.0]))
@settings(deadline=None, max_examples=40)
def test_a_ridge_always_has_an_answer_says_so_and_agrees_with_choix(wins, ridge):
    ours = bradley_terry(wins, ridge=ridge)
    assert (ours.regularised, ours.reason) == (True, None)
    votes = [(i, j) for i, row in enumerate(wins) for j, won in enumerate(row) for _ in range(won)]
    if votes:
        theirs = choix.opt_pairwise(len(wins), votes, alpha=ridge)
        assert ours.log_strengths == pytest.approx(tuple(theirs), abs=1e-4)


def test_an_undefeated_arm_has_no_strength_where_choix_gives_a_number_or_an_error():
    result = bradley_terry([[0, 5, 5], [0, 0, 3], [0, 2, 0]])
    assert (result.log_strengths, result.reason) == (None, "not_strongly_connected")
    assert result.components == ((0,), (1, 2))
    with pytest.raises((ValueError, RuntimeError)):
        choix.ilsr_pairwise(2, [(0, 1)] * 5)


def test_ties_are_half_a_win_to_each_and_connect():
    votes = [("a", "b", "a"), ("b", "a", None), ("a", "c", "c"), ("c", "a", "a")]
    wins = preference_wins(["a", "b", "c"], votes)
    assert wins == [[0.0, 1.5, 1.0], [0.5, 0.0, 0.0], [1.0, 0.0, 0.0]]
    assert bradley_terry(wins).reason is None
    for vote in (("a", "a", "a"), ("a", "x", "a"), ("a", "b", "c"), ("a", "b")):
        with pytest.raises((StatsInputError, ValueError)):
            preference_wins(["a", "b", "c"], [vote])
    with pytest.raises(StatsInputError, match="named twice"):
        preference_wins(["a", "a"], [])


@pytest.mark.parametrize("wins", [[[0]], [[0, 1]], [[1, 1], [1, 0]], [[0, -1], [1, 0]], [[0, 0.3], [1, 0]], 5])
def test_a_table_that_holds_no_wins_is_refused(wins):
    with pytest.raises(StatsInputError, match="wins"):
        bradley_terry(wins)


rates = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=12)


@given(rates)
@settings(deadline=None)
def test_the_correlations_are_those_of_scipy_and_mmrv_that_of_its_definition(pairs):
    real, sim = ([value / 20 for value in column] for column in zip(*pairs, strict=True))
    found = rank_agreement(real, sim)
    mmrv = np.mean(
        [max(abs(r - q) for q, t in zip(real, sim, strict=True) if (s < t) != (r < q) or (r, s) == (q, t))
         for r, s in zip(real, sim, strict=True)]
    )  # fmt: skip
    assert found.mmrv == pytest.approx(mmrv)
    if len(set(real)) == 1 or len(set(sim)) == 1:
        assert (found.pearson, found.reason) == (None, "no_variation")
        return
    assert found.pearson == pytest.approx(scipy.stats.pearsonr(real, sim).statistic)
    assert found.spearman == pytest.approx(scipy.stats.spearmanr(real, sim).statistic)
    assert found.kendall == pytest.approx(scipy.stats.kendalltau(real, sim).statistic)
    swapped = rank_agreement(sim, real)
    assert (swapped.pearson, swapped.kendall) == pytest.approx((found.pearson, found.kendall))


def test_rates_that_do_not_pair_up_are_refused():
    with pytest.raises(StatsInputError, match="sim: has 1 items, real has 2"):
        rank_agreement([0.1, 0.2], [0.1])
