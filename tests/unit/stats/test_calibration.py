from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as their_log_loss

from trialplate.errors import StatsInputError
from trialplate.stats import (
    brier_score,
    calibration_error,
    judge_rates,
    log_loss,
    murphy_decomposition,
    ppi_mean_interval,
    rogan_gladen,
    wilson_interval,
)

beliefs = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 100).map(lambda hundredths: hundredths / 100)),
    min_size=1,
    max_size=40,
)


def columns(rows):
    return [list(column) for column in zip(*rows, strict=True)]


@given(beliefs)
@settings(deadline=None)
def test_scores_of_probabilities_agree_with_scikit_learn(rows):
    outcomes, probabilities = columns(rows)
    assert brier_score(outcomes, probabilities).value == pytest.approx(
        brier_score_loss(outcomes, probabilities, pos_label=1)
    )
    ours = log_loss(outcomes, probabilities)
    if ours.value is not None and all(0 < p < 1 for p in probabilities):
        assert ours.value == pytest.approx(their_log_loss(outcomes, probabilities, labels=[0, 1]))


@given(beliefs)
@settings(deadline=None)
def test_the_brier_score_is_reliability_minus_resolution_plus_uncertainty(rows):
    won, p = columns(rows)
    parts = murphy_decomposition(won, p)
    total = parts.reliability - parts.resolution + parts.uncertainty
    assert brier_score(won, p).value == pytest.approx(total, abs=1e-12)
    assert brier_score(won, p).value == pytest.approx(np.mean((np.array(won) - np.array(p)) ** 2))
    assert 0.0 <= parts.resolution <= parts.uncertainty + 1e-12


@given(beliefs)
@settings(deadline=None)
def test_log_loss_is_the_mean_surprise_and_infinite_only_when_the_impossible_happened(rows):
    won, p = columns(rows)
    result = log_loss(won, p)
    of_what_happened = [belief if y else 1 - belief for y, belief in rows]
    if 0 in of_what_happened:
        assert (result.value, result.reason) == (None, "infinite_loss")
    else:
        assert result.value == pytest.approx(-np.mean(np.log(of_what_happened)))


def digit_bins(rows, bins):
    """Bins by whole arithmetic on hundredths: floor(100 p * bins / 100), the last one closed."""
    found = {}
    for y, p in rows:
        place = min(round(p * 100) * bins // 100, bins - 1)
        found.setdefault(place, []).append((y, p))
    return found


@given(beliefs, st.sampled_from([1, 2, 5, 10, 20, 50, 100]))
@settings(deadline=None)
def test_a_belief_on_an_edge_opens_the_bin_above(rows, bins):
    result = calibration_error(*columns(rows), bins=bins)
    wanted = digit_bins(rows, bins)
    assert [row.number for row in result.table] == sorted(wanted)
    gaps = []
    for row in result.table:
        members = wanted[row.number]
        assert (row.n, row.k) == (len(members), sum(y for y, _ in members))
        interval = wilson_interval(row.k, row.n)
        assert (row.rate_low, row.rate_high) == (interval.low, interval.high)
        gaps.append(abs(row.k / row.n - np.mean([p for _, p in members])))
    assert result.mce == pytest.approx(max(gaps), abs=1e-12)
    weighted = sum(row.n * gap for row, gap in zip(result.table, gaps, strict=True))
    assert result.ece == pytest.approx(weighted / len(rows), abs=1e-12)


def test_a_bin_is_not_found_by_cutting_off_a_product():
    assert int(0.29 * 100) == 28
    assert calibration_error([1], [0.29], bins=100).table[0].number == 29
    assert calibration_error([1], [1.0], bins=3).table[0].number == 2


@pytest.mark.parametrize("function", [brier_score, log_loss, calibration_error, murphy_decomposition])
def test_beliefs_that_are_none_are_refused(function):
    for outcomes, probabilities in (
        ([2], [0.5]),
        ([1], [1.5]),
        ([1], [True]),
        ([1, 0], [0.5]),
        ([1], [float("nan")]),
    ):
        with pytest.raises(StatsInputError):
            function(outcomes, probabilities)


def test_a_judge_is_held_against_the_truth_on_both_sides():
    truth, judged = [1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0, 1]
    result = judge_rates(truth, judged)
    assert result.sensitivity == wilson_interval(3, 4)
    assert result.specificity == wilson_interval(2, 3)
    assert judge_rates([1], [1]).specificity.reason == "no_attempts"


@given(st.floats(0, 1), st.floats(0.5, 1), st.floats(0.51, 1))
@settings(deadline=None)
def test_the_corrected_rate_undoes_what_the_judge_did(rate, sensitivity, specificity):
    seen = rate * sensitivity + (1 - rate) * (1 - specificity)
    result = rogan_gladen(min(1.0, seen), sensitivity, specificity=specificity)
    assert result.estimate == pytest.approx(rate, abs=1e-9)


def test_a_perfect_judge_changes_nothing_and_a_coin_says_nothing():
    assert rogan_gladen(0.37, 1.0, specificity=1.0).estimate == 0.37
    assert rogan_gladen(0.37, 0.7, specificity=0.3).reason == "judge_not_informative"
    assert rogan_gladen(0.95, 0.9, specificity=0.9).reason == "outside_unit_interval"


labelled = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=30)


@given(labelled, st.lists(st.integers(0, 1), min_size=2, max_size=60))
@settings(deadline=None)
def test_without_trust_the_prediction_powered_mean_is_the_plain_one(rows, rest):
    y, f = columns(rows)
    result = ppi_mean_interval(y, f, unlabelled_predictions=rest, lam=0)
    assert result.estimate == pytest.approx(np.mean(y))
    if result.low is not None:
        half = scipy.stats.norm.ppf(0.975) * np.sqrt(np.var(y) / len(y))
        assert result.high - result.estimate == pytest.approx(half)
    else:
        assert len(set(y)) == 1 and result.reason == "no_variation"
    tuned = ppi_mean_interval(y, f, unlabelled_predictions=rest)
    assert 0.0 <= tuned.lam <= 1.0


@pytest.mark.parametrize(
    ("lam", "expected"),
    [
        (0.0, (0.58333333, 0.30439369, 0.86227298)),
        (0.5, (0.58805031, 0.33839428, 0.83770635)),
        (1.0, (0.59276730, 0.28305620, 0.90247839)),
        (None, (0.58712121, 0.33913705, 0.83510537)),
    ],
)
def test_the_prediction_powered_mean_is_what_ppi_python_0_2_3_printed(lam, expected):
    y, f = [1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1], [1, 0, 1, 0, 0, 1, 1, 0, 1, 1, 0, 0]
    ours = ppi_mean_interval(y, f, unlabelled_predictions=[1, 0, 0, 1, 1, 1, 0, 1, 0, 0] * 5 + [1, 1, 0], lam=lam)
    assert (ours.estimate, ours.low, ours.high) == pytest.approx(expected, abs=1e-8)


def test_predictions_that_are_always_right_narrow_the_interval():
    y = [0, 1] * 10
    plain = ppi_mean_interval(y, y, unlabelled_predictions=[0, 1] * 500, lam=0)
    tuned = ppi_mean_interval(y, y, unlabelled_predictions=[0, 1] * 500)
    assert tuned.lam == pytest.approx(0.97, abs=0.01)
    assert tuned.high - tuned.low < (plain.high - plain.low) / 5
    with pytest.raises(StatsInputError, match="predictions"):
        ppi_mean_interval([1, 0], [1], unlabelled_predictions=[1])
    with pytest.raises(StatsInputError, match="lam"):
        ppi_mean_interval([1, 0], [1, 1], unlabelled_predictions=[1], lam=1.5)
