"""Two arms from counts: the exact test decides, arms may swap, and power never looks at what was observed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate import stats
from trialplate.claims.answers import Answer
from trialplate.claims.two_counts import Registered, independent_answer, paired_answer
from trialplate.errors import StatsInputError

MIRROR = {"BETTER": "WORSE", "WORSE": "BETTER", "NOT_DISTINGUISHED": "NOT_DISTINGUISHED"}


@st.composite
def arms(draw: st.DrawFn) -> tuple[int, int, int, int]:
    n_a, n_b = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    return draw(st.integers(0, n_a)), n_a, draw(st.integers(0, n_b)), n_b


@st.composite
def tables(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(1, 120))
    b = draw(st.integers(0, n))
    return b, draw(st.integers(0, n - b)), n


@given(arms())
@settings(deadline=None, max_examples=60)
def test_swapping_independent_arms_mirrors_the_answer(counts: tuple[int, int, int, int]) -> None:
    k_a, n_a, k_b, n_b = counts
    one = independent_answer(k_a, n_a, k_b=k_b, n_b=n_b)
    other = independent_answer(k_b, n_b, k_b=k_a, n_b=n_a)
    assert other.numbers["verdict"] == MIRROR[one.numbers["verdict"]]
    assert other.numbers["difference"] == -one.numbers["difference"]
    assert [(-i.high, -i.low) for i in other.intervals] == [(i.low, i.high) for i in one.intervals]


@given(arms(), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
@settings(deadline=None, max_examples=60)
def test_the_exact_test_alone_decides_independent_arms(counts: tuple[int, int, int, int], confidence: float) -> None:
    k_a, n_a, k_b, n_b = counts
    answer = independent_answer(k_a, n_a, k_b=k_b, n_b=n_b, confidence=confidence)
    rejected = stats.boschloo_test(k_a, n_a, k2=k_b, n2=n_b).p_value <= float(f"{1 - confidence:.2f}")
    assert (answer.numbers["verdict"] != "NOT_DISTINGUISHED") == rejected
    if rejected:
        assert (answer.numbers["verdict"] == "BETTER") == (answer.numbers["difference"] > 0)
    disagrees = (answer.intervals[0].low > 0 or answer.intervals[0].high < 0) != rejected
    assert any("disagree at this edge" in note for note in answer.notes) == disagrees


@given(tables())
@settings(deadline=None, max_examples=60)
def test_swapping_the_arms_of_pairs_mirrors_the_answer(table: tuple[int, int, int]) -> None:
    b, c, n = table
    one, other = paired_answer(b, c, n=n), paired_answer(c, b, n=n)
    assert other.numbers["verdict"] == MIRROR[one.numbers["verdict"]]
    assert (one.numbers["verdict"] != "NOT_DISTINGUISHED") == (stats.mcnemar_exact(b, c).p_value <= 0.05)
    for key in ("detectable", "p_value", "mid_p", "planning_discordance"):
        assert other.numbers[key] == one.numbers[key]


def test_a_word_that_only_a_verdict_licenses_stands_in_no_answer() -> None:
    answers: list[Answer] = [
        independent_answer(19, 20, k_b=5, n_b=20, registered=Registered(effect=0.2)),
        independent_answer(5, 20, k_b=19, n_b=20),
        independent_answer(5, 20, k_b=5, n_b=20),
        paired_answer(12, 1, n=40, registered=Registered(effect=0.2)),
    ]
    for answer in answers:
        said = " ".join((answer.sentence, *answer.notes)).replace("BETTER", "")
        for word in ("best", "significant", "proves", "equal", "outperforms", "better"):
            assert word not in said.lower()


def test_only_a_registered_effect_can_make_an_answer_underpowered() -> None:
    assert paired_answer(5, 3, n=40).numbers["underpowered"] is None
    plan = Registered(effect=0.1, discordance=0.2)
    assert paired_answer(5, 3, n=40, registered=plan).numbers["underpowered"] is True
    assert paired_answer(5, 3, n=168, registered=plan).numbers["underpowered"] is False


def test_an_effect_larger_than_the_pairs_that_differ_takes_the_discordance_that_it_implies() -> None:
    found = paired_answer(1, 1, n=100, registered=Registered(effect=0.1)).numbers
    assert found["planning_discordance"] == 0.1
    assert found["needed"]["value"] == stats.mcnemar_sample_size(0.1, 0.0).value


def test_an_effect_that_does_not_fit_is_refused() -> None:
    with pytest.raises(StatsInputError, match=r"effect: 0\.5 above a baseline"):
        independent_answer(1, 2, k_b=1, n_b=2, registered=Registered(effect=0.5, baseline=0.7))
    with pytest.raises(StatsInputError, match=r"effect: 0\.3 needs at least so many pairs"):
        paired_answer(1, 1, n=9, registered=Registered(effect=0.3, discordance=0.2))
