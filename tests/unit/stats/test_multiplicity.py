from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import cochrans_q
from statsmodels.stats.multitest import multipletests

from trialplate.errors import StatsInputError
from trialplate.stats import adjust_pvalues, cochran_q, compact_letter_display, mcnemar_exact, minimum_draws

THEIR_NAMES = {"holm": "holm", "bonferroni": "bonferroni", "bh": "fdr_bh", "by": "fdr_by"}


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 4), min_size=1, max_size=40))
@settings(deadline=None)
def test_cochrans_q_agrees_with_statsmodels_where_anything_varies(rows):
    ours = cochran_q(rows)
    if all(len(set(row)) == 1 for row in rows):
        assert (ours.statistic, ours.p_value) == (0.0, 1.0)
        return
    theirs = cochrans_q(np.array(rows))
    assert (ours.statistic, ours.p_value, ours.df) == pytest.approx((theirs.statistic, theirs.pvalue, theirs.df))


def test_equal_columns_are_no_difference_where_statsmodels_has_no_number():
    with np.errstate(invalid="ignore"):
        assert np.isnan(cochrans_q(np.ones((5, 3))).pvalue)
    assert cochran_q([[1, 1, 1]] * 5).p_value == 1.0


def test_two_arms_have_the_uncorrected_mcnemar_statistic():
    rows = [[1, 0]] * 9 + [[0, 1]] * 3 + [[1, 1]] * 5
    assert cochran_q(rows).statistic == pytest.approx((9 - 3) ** 2 / 12)
    assert cochran_q(rows).p_value < mcnemar_exact(9, 3).p_value


@pytest.mark.parametrize("rows", [[[1]], [[1, 0], [1]], [[1, 2]], [[]], "no"])
def test_outcomes_that_are_no_table_of_two_arms_are_refused(rows):
    with pytest.raises(StatsInputError):
        cochran_q(rows)


pvalues = st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=12)


@given(pvalues, st.sampled_from(sorted(THEIR_NAMES)))
@settings(deadline=None)
def test_adjusting_agrees_with_statsmodels_and_counts_a_missing_test_as_one(given_p, method):
    ours = adjust_pvalues(given_p, method).value
    theirs = multipletests([1.0 if p is None else p for p in given_p], method=THEIR_NAMES[method])[1]
    assert ours == pytest.approx(tuple(theirs), abs=1e-12)
    assert all(
        before <= after * (1 + 1e-12) for before, after in zip(given_p, ours, strict=True) if before is not None
    )


@given(pvalues, st.randoms(), st.sampled_from(sorted(THEIR_NAMES)))
@settings(deadline=None)
def test_the_order_of_tests_only_moves_their_results(given_p, random, method):
    order = list(range(len(given_p)))
    random.shuffle(order)
    straight, shuffled = (
        adjust_pvalues(given_p, method).value,
        adjust_pvalues([given_p[i] for i in order], method).value,
    )
    assert shuffled == tuple(straight[i] for i in order)


def test_methods_and_p_values_that_are_none_are_refused():
    for wrong in ([1.5], [-0.1], [float("nan")], [True]):
        with pytest.raises(StatsInputError, match=r"pvalues\[0\]"):
            adjust_pvalues(wrong, "holm")
    with pytest.raises(StatsInputError, match="method"):
        adjust_pvalues([0.1], "hochberg")


def test_two_thousand_draws_serve_one_comparison_at_five_percent():
    assert minimum_draws(1).value == 2000
    assert minimum_draws(3).value == 6000
    assert minimum_draws(1, alpha=0.01).value == 10_000


@given(st.integers(2, 8), st.data())
@settings(deadline=None)
def test_two_arms_share_a_letter_if_and_only_if_they_do_not_differ(size, data):
    arms = [f"arm{n}" for n in range(size)]
    differ = (
        data.draw(st.lists(st.sampled_from(list(combinations(arms, 2)) or [None]), unique=True)) if size > 1 else []
    )
    letters = compact_letter_display(arms, differ).value
    for one, other in combinations(arms, 2):
        assert bool(set(letters[one]) & set(letters[other])) == ((one, other) not in differ)
    assert all(letters.values())
    assert compact_letter_display(arms, [pair[::-1] for pair in reversed(differ)]).value == letters


@given(st.integers(2, 8), st.data())
@settings(deadline=None)
def test_no_letter_could_be_left_out_of_a_column_for_another(size, data):
    arms = [f"arm{n}" for n in range(size)]
    differ = data.draw(st.lists(st.sampled_from(list(combinations(arms, 2))), unique=True))
    letters = compact_letter_display(arms, differ).value
    columns = [{arm for arm in arms if letter in letters[arm]} for letter in sorted(set("".join(letters.values())))]
    assert not any(one < other for one in columns for other in columns)
    first = [min(arms.index(arm) for arm in column) for column in columns]
    assert first == sorted(first)


def test_after_z_letters_carry_a_number():
    arms = [f"arm{n:02d}" for n in range(30)]
    letters = compact_letter_display(arms, list(combinations(arms, 2))).value
    assert [letters[arm] for arm in arms[25:28]] == ["z", "a2", "b2"]


@pytest.mark.parametrize("pair", [("A", "A"), ("A", "C"), ("A",), ("A", "B", "B")])
def test_a_pair_that_is_none_is_refused(pair):
    with pytest.raises(StatsInputError, match=r"significant\[0\]"):
        compact_letter_display(["A", "B"], [pair])


def test_an_arm_cannot_be_named_twice():
    with pytest.raises(StatsInputError, match="order"):
        compact_letter_display(["A", "A"], [])
