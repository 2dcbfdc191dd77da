from __future__ import annotations

import math

import pytest
from made_skills import good

from trialplate.suites.atomic_skills.calibration import (
    UNREACHABLE,
    Sample,
    calibrated_skills,
    margin,
    margins,
    samples,
)
from trialplate.suites.atomic_skills.tolerances import SCORING, tolerance_set


def one(error: float, unit: str = "rad") -> list[Sample]:
    return [Sample("TASK", unit, error, "pour-1", 0), Sample("TASK", unit, error / 2, "pour-2", 1)]


def test_row_44_a_worst_error_of_0_0532_leaves_too_little_and_the_tolerance_stays() -> None:
    found = margin(one(0.0532), "TASK", "rad", tolerance=SCORING.task.rotation_rad)
    assert found.margin == pytest.approx(1.64, abs=0.005)
    assert (found.reachable, found.note, found.tolerance) == (False, UNREACHABLE, math.radians(5))
    assert (found.worst, found.worst_case, found.worst_repeat, found.n) == (0.0532, "pour-1", 0, 2)
    assert found.calibrated == pytest.approx(1.8 * 0.0532)


@pytest.mark.parametrize(
    ("worst", "tolerance", "expected"),
    [
        (0.001537, 0.003, 1.952),
        (0.002944, math.radians(0.3), 1.779),
        (0.0056, 0.01, 1.786),
        (0.0480, math.radians(5), 1.818),
    ],
)
def test_the_margins_of_the_source_are_all_reachable(worst: float, tolerance: float, expected: float) -> None:
    found = margin(one(worst), "TASK", "rad", tolerance=tolerance)
    assert found.margin == pytest.approx(expected, abs=5e-4)
    assert found.reachable is True and found.note is None


@pytest.mark.parametrize(("worst", "reachable"), [(1.0, True), (math.nextafter(1.0, 2), False)])
def test_a_margin_of_exactly_1_75_is_enough(worst: float, reachable: bool) -> None:
    assert margin(one(worst), "TASK", "m", tolerance=1.75).reachable is reachable


def test_without_a_sample_nothing_is_known_and_without_an_error_nothing_is_divided() -> None:
    empty = margin([], "TASK", "m", tolerance=0.01)
    assert (empty.n, empty.worst, empty.margin, empty.reachable, empty.reason) == (0, None, None, None, "no_samples")
    still = margin(one(0.0), "TASK", "m", tolerance=0.01)
    assert (still.margin, still.reachable, still.reason) == (None, True, "zero_error")


def test_a_sample_enters_when_all_earlier_stages_passed_whatever_its_size() -> None:
    made = good("open_door")
    made.put("asset_joint", 0.5, since=made.end("open"), until=made.end("open"))
    assert [(item.unit, item.case) for item in samples([made.outcome()])] == [("rad", "open_door-1")]
    assert samples([made.outcome()])[0].error == pytest.approx(math.radians(60) - 0.5)
    lost = good("open_door").press(0.0, since=-1)
    assert samples([lost.outcome()]) == ()


def test_only_what_the_arm_still_controls_is_calibrated() -> None:
    assert samples([good("push_object").outcome(), good("press").outcome(), good("pick_up").outcome()]) == ()
    found = samples([good(skill).outcome() for skill in calibrated_skills()])
    assert {(item.set_name, item.unit) for item in found} == {
        ("PRIMITIVE", "m"), ("PRIMITIVE", "rad"), ("TASK", "m"), ("TASK", "rad"),
    }  # fmt: skip
    assert [item.n for item in margins(found, SCORING)] == [1, 2, 2, 5]


def test_the_lever_arms_behind_the_tolerances() -> None:
    assert pytest.approx(0.005263, abs=5e-7) == 0.003 / 0.57
    assert math.degrees(0.003 / 0.57) == pytest.approx(0.3016, abs=5e-5)
    assert pytest.approx(0.086957, abs=5e-7) == 0.01 / 0.115
    assert math.degrees(0.01 / 0.115) == pytest.approx(4.982, abs=5e-4)
    assert SCORING.primitive.rotation_rad == pytest.approx(0.005236, abs=5e-7)
    assert SCORING.task.rotation_rad == pytest.approx(0.087266, abs=5e-7)
    assert (tolerance_set("move_joints"), tolerance_set("pour")) == ("PRIMITIVE", "TASK")
