from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from attempts import outcome

from trialplate.record import Outcome
from trialplate.scoring.repeats import repetition


def run(*numbers: int, digest: str = "e", **changes: Any) -> list[Outcome]:
    return [
        replace(outcome("a", n), trace_content_sha256=f"{n:x}" + digest * 63, trial_id=f"{at:06d}", **changes)
        for at, n in enumerate(numbers)
    ]


def test_equal_digests_in_another_order_are_no_flag() -> None:
    found = repetition(run(0, 1, 2), run(2, 0, 1), arm="a")
    assert (found.pairs, found.same, found.differ, found.flag, found.same_order) == (3, 3, 0, None, False)


def test_another_recording_in_another_order_is_flagged_order_dependent() -> None:
    found = repetition(run(0, 1, 2), run(2, 0, digest="d") + run(1), arm="a")
    assert (found.flag, found.differ, found.results_differ) == ("order_dependent", 2, 0)


def test_another_recording_in_the_same_order_is_flagged_not_reproduced() -> None:
    second = [*run(0, 1), replace(outcome("a", 2, "FAIL"), trace_content_sha256="f" * 64)]
    found = repetition(run(0, 1, 2), second, arm="a")
    assert (found.flag, found.differ, found.results_differ) == ("not_reproduced", 1, 1)


def test_worlds_that_began_differently_accuse_nobody() -> None:
    found = repetition(run(0, 1), run(1, 0, digest="d", initial_state_sha256="f" * 64), arm="a")
    assert (found.pairs, found.other_start, found.flag) == (0, 2, None)


@pytest.mark.parametrize("status", ["ERROR", "EXCLUDED"])
def test_an_episode_that_was_not_measured_is_in_no_pair(status: str) -> None:
    found = repetition(run(0, 1), [*run(1), outcome("a", 0, status)], arm="a")
    assert (found.pairs, found.unpaired, found.flag) == (1, 1, None)


def test_only_shared_trials_tell_whether_the_order_is_the_same() -> None:
    found = repetition(run(0, 1, 2), run(0, 5, 2), arm="a")
    assert (found.pairs, found.unpaired, found.same_order) == (2, 2, True)
