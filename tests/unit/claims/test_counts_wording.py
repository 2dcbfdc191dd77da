"""How numbers of counts and plans are written: never better than they are."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialplate.claims import counts_wording as words
from trialplate.claims.answers import line

NB = "\u00a0"


@pytest.mark.parametrize(
    ("value", "rounding", "text"),
    [
        (0.0493937, "down", "0.0493"),
        (0.7012, "up", "0.702"),
        (12.5, "nearest", "12.5"),
        (1230.4, "up", "1240"),
        (0.99999, "nearest", "1"),
        (1.0, "up", "1"),
        (0.0, "down", "0"),
        (-0.0713, "nearest", "-0.0713"),
        (None, "nearest", "–"),
    ],
)
def test_three_figures_count_and_bounds_are_rounded_outward(value, rounding, text) -> None:
    assert words.digits(value, rounding=rounding) == text


@given(st.floats(1e-9, 1e9))
def test_rounded_figures_never_cross_the_number(value: float) -> None:
    assert float(words.digits(value, rounding="down")) <= value <= float(words.digits(value, rounding="up"))


def test_what_is_neither_none_nor_all_never_reads_so() -> None:
    assert words.chance(0.0004) == f"< 0.1{NB}%" and words.chance(0.0) == f"0{NB}%"
    assert words.chance(0.7999) == f"79.9{NB}%"
    assert words.at_most(0.9996) == f"> 99.9{NB}%" and words.at_most(1.0) == f"100{NB}%"
    assert words.at_most(0.0001) == f"0.1{NB}%"


def test_differences_and_p_values_are_written_as_they_are_elsewhere() -> None:
    assert words.points_interval(-0.11861, 0.40512) == "−11.9 to +40.6"
    assert words.size(0.44241) == "44.3" and words.size(None) == "–"
    assert words.p_text(0.031) == "p = 0.031" and words.p_text(1e-9) == "p < 0.001"
    assert words.counted(1, "pair") == "1 pair" and words.counted(2, "pair") == "2 pairs"


def test_no_label_or_method_is_wider_than_its_column() -> None:
    assert max(map(len, words.METHODS.values())) <= 22
    plain = [label for label in words.LABELS.values() if "{" not in label]
    assert max(map(len, plain)) <= 30


def test_labels_take_named_values_only() -> None:
    for name, text in words.LABELS.items():
        fields = [field for _, field, _, _ in string.Formatter().parse(text) if field is not None]
        assert all(field.isidentifier() for field in fields), name
    with pytest.raises(KeyError):
        line("no such row", "1", "wilson")
