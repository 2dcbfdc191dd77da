from __future__ import annotations

import krippendorff
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.inter_rater import fleiss_kappa as their_fleiss

from trialplate.errors import StatsInputError
from trialplate.stats import (
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
)
from trialplate.stats.agreement import LEVELS

tables = st.integers(2, 4).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 30), min_size=n, max_size=n), min_size=n, max_size=n)
)


@given(tables, st.sampled_from([None, "linear", "quadratic"]))
@settings(deadline=None)
def test_kappa_agrees_with_statsmodels_wherever_it_exists(table, weights):
    counts = np.array(table)
    assume(np.count_nonzero(counts.sum(axis=0) + counts.sum(axis=1)) > 1)
    ours = cohen_kappa(table, weights=weights)
    scheme = {"wt": {"linear": "linear", "quadratic": "quadratic"}[weights]} if weights else {}
    with np.errstate(invalid="ignore", divide="ignore"):
        theirs = cohens_kappa(counts, **scheme)
    assert ours.kappa == pytest.approx(theirs.kappa, abs=1e-10)
    variance = theirs.var_kappa
    assert ours.se == pytest.approx(max(0.0, variance) ** 0.5, abs=1e-6)
    assert ours.agreement == pytest.approx(np.trace(counts) / counts.sum())
    assert ours.n == counts.sum()


@given(tables)
@settings(deadline=None)
def test_swapping_the_raters_changes_nothing(table):
    one, two = cohen_kappa(table), cohen_kappa([list(column) for column in zip(*table, strict=True)])
    assert (one.agreement, one.reason) == (two.agreement, two.reason)
    assert (one.kappa or 0.0, one.ac1 or 0.0) == pytest.approx((two.kappa or 0.0, two.ac1 or 0.0))


def test_few_negatives_make_kappa_small_where_raters_agree():
    result = cohen_kappa([[90, 5], [5, 0]])
    assert (result.agreement, round(result.kappa, 4), round(result.ac1, 4)) == (0.9, -0.0526, 0.8895)


def test_raters_who_never_agree_on_two_classes_have_the_least_kappa():
    assert cohen_kappa([[0, 10], [10, 0]]).kappa == -1.0
    assert cohen_kappa([[0, 10], [0, 0]]).kappa == 0.0


@pytest.mark.parametrize("table", [[], [[1]], [[1, 2]], [[1, 2], [3]], [[1.0, 2], [3, 4]], [[-1, 2], [3, 4]]])
def test_a_table_that_is_not_square_or_not_of_counts_is_refused(table):
    with pytest.raises(StatsInputError, match="table"):
        cohen_kappa(table)
    with pytest.raises(StatsInputError, match="weights"):
        cohen_kappa([[1, 2], [3, 4]], weights="cubic")


@given(st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=2, max_size=12))
@settings(deadline=None)
def test_fleiss_agrees_with_statsmodels(choices):
    table = [[row.count(kind) for kind in range(3)] for row in choices]
    ours = fleiss_kappa(table)
    if len({kind for row in choices for kind in row}) == 1:
        assert ours.reason == "no_variation"
    else:
        assert ours.value == pytest.approx(their_fleiss(np.array(table)))


def test_raters_that_only_use_one_class_have_no_kappa_where_scikit_learn_has_nan():
    with pytest.warns(UndefinedMetricWarning), np.errstate(invalid="ignore"):
        theirs = cohen_kappa_score([1, 1, 1], [1, 1, 1], labels=[0, 1])
    assert np.isnan(theirs)
    ours = cohen_kappa([[3, 0], [0, 0]])
    assert (ours.kappa, ours.reason, ours.agreement) == (None, "no_variation", 1.0)


def test_fleiss_wants_the_same_raters_everywhere():
    with pytest.raises(StatsInputError, match=r"table\[1\]: has 2 ratings"):
        fleiss_kappa([[3, 0], [1, 1]])


ratings = st.integers(2, 8).flatmap(
    lambda units: st.lists(
        st.lists(st.one_of(st.none(), st.integers(1, 4)), min_size=units, max_size=units), min_size=2, max_size=4
    )
)


@given(ratings, st.sampled_from(LEVELS))
@settings(deadline=None)
def test_alpha_agrees_with_the_krippendorff_package(table, level):
    ours = krippendorff_alpha(table, level=level)
    paired = [[item for item in column if item is not None] for column in zip(*table, strict=True)]
    pairable = [item for column in paired if len(column) > 1 for item in column]
    assert ours.pairable == len(pairable)
    assert ours.missing == sum(item is None for row in table for item in row)
    if not pairable:
        assert ours.reason == "no_pairable_units"
    elif len(set(pairable)) == 1:
        assert ours.reason == "no_variation"
    else:
        data = np.array([[np.nan if item is None else item for item in row] for row in table], dtype=float)
        theirs = krippendorff.alpha(reliability_data=data, level_of_measurement=level)
        assert ours.alpha == pytest.approx(theirs, abs=1e-9)


def test_one_value_has_no_alpha_where_the_package_raises():
    with pytest.raises(ValueError):
        krippendorff.alpha(reliability_data=[[1, 1], [1, 1]])
    assert krippendorff_alpha([[1, 1], [1, 1]]).reason == "no_variation"


def test_ratings_that_do_not_fit_their_level_or_length_are_refused():
    with pytest.raises(StatsInputError, match=r"ratings\[0\]\[0\]"):
        krippendorff_alpha([[-1, 2], [1, 2]], level="ratio")
    with pytest.raises(StatsInputError, match=r"ratings\[1\]"):
        krippendorff_alpha([[1, 2], [1]])
    with pytest.raises(StatsInputError, match="level"):
        krippendorff_alpha([[1, 2], [1, 2]], level="exact")
    assert krippendorff_alpha([[-1, 2], [-1, 2]], level="interval").alpha == 1.0
