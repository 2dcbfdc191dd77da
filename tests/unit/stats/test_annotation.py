from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialplate.errors import StatsInputError
from trialplate.stats import annotation_coverage

ticks = st.integers(-15, 40)


@given(st.lists(st.tuples(ticks, ticks), max_size=8), st.integers(-5, 10), st.integers(0, 25), st.randoms())
def test_coverage_is_a_count_tick_by_tick_in_any_order(intervals, start, length, random):
    end = start + length
    result = annotation_coverage(intervals, start, end=end)
    labels = [sum(a <= tick < b for a, b in intervals) for tick in range(start, end)]
    covered = sum(label > 0 for label in labels)
    assert (result.covered, result.overlap, result.eligible) == (covered, sum(labels) - covered, length)
    assert result.reversed_intervals == sum(b <= a for a, b in intervals)
    assert result.coverage == (covered / length if length else None)
    random.shuffle(intervals)
    assert annotation_coverage(intervals, start, end=end) == result


def test_an_empty_window_has_no_coverage():
    result = annotation_coverage([[0, 5]], 3, end=3)
    assert (result.coverage, result.covered, result.reason) == (None, 0, "no_eligible_duration")


@pytest.mark.parametrize(
    ("intervals", "start", "end"), [([], 5, 4), ([[0.5, 2]], 0, 5), ([[1]], 0, 5), ([[1, 2, 3]], 0, 5), ([], True, 5)]
)
def test_ticks_that_are_not_whole_are_refused(intervals, start, end):
    with pytest.raises(StatsInputError):
        annotation_coverage(intervals, start, end=end)
