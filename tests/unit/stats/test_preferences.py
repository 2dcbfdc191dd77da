from __future__ import annotations

import numpy as np
import pytest

from trialplate.errors import StatsInputError
from trialplate.stats import (
    bradley_terry,
    family_indices,
    preference_ranking,
    rank_agreement,
    rank_agreement_intervals,
)

RNG = np.random.default_rng(4)
SESSIONS = [[[0, 3, 4], [1, 0, 2], [1, 1, 0]], [[0, 1, 2], [1, 0, 3], [0, 1, 0]], [[0, 2, 2], [2, 0, 2], [1, 2, 0]],
            [[0, 4, 3], [1, 0, 1], [1, 1, 0]], [[0, 2, 5], [1, 0, 1], [1, 1, 0]]]  # fmt: skip


def test_every_draw_is_the_ranking_of_its_sessions():
    found = preference_ranking(SESSIONS, draws=60)
    table, drawn = np.array(SESSIONS), []
    for row in family_indices(240926, 60, families=5).tolist():
        drawn.append(bradley_terry(table[row].sum(axis=0).tolist()).log_strengths)
    ordered = np.sort(np.array(drawn), axis=0)
    for arm, interval in enumerate(found.strengths):
        assert (interval.low, interval.high) == pytest.approx((ordered[1, arm], ordered[57, arm]), abs=1e-9)
        assert interval.estimate == pytest.approx(bradley_terry(table.sum(axis=0).tolist()).log_strengths[arm])
    assert found.ranks == (1, 2, 3)
    ranks = np.sort(np.argsort(np.argsort(-np.array(drawn), axis=1), axis=1) + 1, axis=0)
    assert (found.rank_low, found.rank_high) == (tuple(ranks[1]), tuple(ranks[57]))
    assert (found.undefined_draws, found.reason, found.sessions) == (0, None, 5)


def test_a_draw_that_does_not_connect_the_arms_leaves_no_bounds():
    found = preference_ranking([[[0, 3], [0, 0]], [[0, 1], [2, 0]]], draws=200)
    assert found.votes.reason is None
    assert 0 < found.undefined_draws < 200
    assert (found.rank_low, found.strengths[0].low, found.reason) == ((None, None), None, "undefined_draws")
    tied = preference_ranking([[[0, 3], [0, 0]], [[0, 1], [2, 0]]], ridge=0.1, draws=200)
    assert (tied.undefined_draws, tied.reason, tied.votes.regularised) == (0, None, True)


def test_votes_that_order_nobody_and_one_session_say_so():
    assert preference_ranking([[[0, 3], [0, 0]]], draws=20).reason == "not_strongly_connected"
    assert preference_ranking([[[0, 3], [1, 0]]], draws=20).reason == "single_cluster"
    for wrong in ([], [[[0, 1], [1, 0]], [[0, 1, 1], [1, 0, 1], [1, 1, 0]]]):
        with pytest.raises(StatsInputError, match="sessions"):
            preference_ranking(wrong)


def test_arms_of_equal_strength_share_the_better_rank():
    found = preference_ranking([[[0, 2, 2], [2, 0, 2], [1, 1, 0]]] * 3, draws=20)
    assert found.ranks == (1, 1, 3)
    assert (found.rank_low, found.rank_high) == ((1, 1, 3), (1, 1, 3))


def test_every_draw_of_policies_is_their_agreement():
    real = (RNG.integers(0, 12, 9) / 12).tolist()
    sim = (RNG.integers(0, 12, 9) / 12).tolist()
    found = rank_agreement_intervals(real, sim, draws=80)
    drawn = [
        rank_agreement([real[at] for at in row], [sim[at] for at in row])
        for row in family_indices(240926, 80, families=9).tolist()
    ]
    for name in ("mmrv", "pearson", "spearman", "kendall"):
        values = sorted(getattr(one, name) for one in drawn)
        interval = getattr(found, name)
        assert (interval.low, interval.high) == pytest.approx((values[1], values[77]), abs=1e-12)
        assert interval.estimate == getattr(found.agreement, name)


def test_a_draw_of_one_policy_only_has_no_correlation_and_keeps_its_violation():
    found = rank_agreement_intervals([0.1, 0.9], [0.2, 0.3], draws=50)
    assert found.pearson.undefined_draws > 0
    assert (found.pearson.reason, found.mmrv.reason) == ("undefined_draws", None)
    assert rank_agreement_intervals([0.1], [0.2], draws=5).mmrv.reason == "single_cluster"
    with pytest.raises(StatsInputError, match="real"):
        rank_agreement_intervals([], [])
