from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest

from trialplate.errors import CaseFault, LockError, PlanFault
from trialplate.policies.planning.process import Planned, PlannerProcess, PlannerSource, describe_planner
from trialplate.record.plan_check import check_segments
from trialplate.spec.skills import SkillCase, case_sha256, shown_case, skill_case

TESTS = Path(__file__).parents[2]


def document(**changes: Any) -> dict[str, Any]:
    dof = [{"name": f"joint_{n}", "unit": "rad", "low": -3.0, "high": 3.0} for n in range(6)]
    dof.append({"name": "gripper", "unit": "1", "low": 0.0, "high": 1.0})
    found = {
        "case_id": "open_door-1", "skill": "open_door", "set": "robustness", "domain": None, "axis": "friction",
        "difficulty": "simple", "scene": "door", "model_path": "m", "q_start": [0.1] * 6 + [1.0], "dof": dof,
        "poses": {"door": [0.0, 0, 0, 1.0, 0, 0, 0]}, "command": {"angle_rad": 0.5},
        "segments": ["approach", "reach", "close", "open", "release", "retract"],
        "required_capabilities": ["single_arm"], "grasp_seed": 3, "plan_timeout_s": 60.0,
        "world": {"support_height_m": 0.0}, "screen": None, **changes,
    }  # fmt: skip
    return {**found, "case_sha256": case_sha256(found)}


CASE: SkillCase = skill_case(document())


def source(name: str, **options: Any) -> PlannerSource:
    return PlannerSource(f"planners.py:{name}", TESTS, options=options)


@pytest.fixture
def processes() -> Iterator[list[PlannerProcess]]:
    started: list[PlannerProcess] = []
    yield started
    for process in started:
        process.end()


def plan_of(name: str, *, timeout_s: float = 20.0, **options: Any) -> Planned:
    with PlannerProcess(source(name, **options)) as process:
        process.card(timeout_s=20.0)
        return process.plan(shown_case(document(), repeat=0), CASE, timeout_s=timeout_s)


def refusal(name: str, *, timeout_s: float = 20.0, **options: Any) -> PlanFault:
    with pytest.raises(PlanFault) as caught:
        plan_of(name, timeout_s=timeout_s, **options)
    return caught.value


def test_a_plan_comes_back_as_it_was_made() -> None:
    planned = plan_of("Still")
    assert planned.plan.trajectory.shape == (24, 7)
    assert (planned.plan.trajectory == np.array(CASE.q_start)).all()
    assert planned.plan.segments["open"] == slice(12, 16)
    assert planned.plan.dt_s == 0.032 and planned.plan.belief is None


def test_a_planner_is_made_with_its_options_and_says_who_it_is() -> None:
    card = describe_planner(source("Options", word="seven"), timeout_s=20.0)
    assert card.document() == {
        "id": "still", "version": "seven-0", "capabilities": ["parallel_gripper", "single_arm"],
    }  # fmt: skip


@pytest.mark.parametrize("name", ["NoPlan", "Strings", "Nobody"])
def test_what_is_no_planner_is_refused_before_the_lock(name: str) -> None:
    with pytest.raises(LockError) as caught:
        describe_planner(source(name), timeout_s=20.0)
    assert caught.value.code == "planner_load"


def test_a_planner_that_is_never_made_is_given_up() -> None:
    start = monotonic()
    with pytest.raises(LockError, match="no answer within 1 s"):
        describe_planner(source("SleepsAtImport"), timeout_s=1.0)
    assert monotonic() - start < 10


def test_a_planner_that_mutates_its_case_changes_its_own_copy() -> None:
    shown = shown_case(document(), repeat=0)
    before = repr(shown)
    with PlannerProcess(source("Mutates")) as process:
        process.card(timeout_s=20.0)
        process.plan(shown, CASE, timeout_s=20.0)
    assert repr(shown) == before


def test_row_17_a_planner_that_takes_too_long_is_ended() -> None:
    start = monotonic()
    fault = refusal("Sleeps", timeout_s=1.0)
    assert fault.code == "timeout"
    assert monotonic() - start < 15


@pytest.mark.parametrize(
    ("name", "options", "code", "words"),
    [
        ("Raises", {"what": "ValueError"}, "planner_exception", "ValueError: no idea"),
        ("Raises", {"what": "SystemExit"}, "planner_exception", "SystemExit"),
        ("Raises", {"what": "KeyboardInterrupt"}, "planner_exception", "KeyboardInterrupt"),
        ("Raises", {"what": "HarnessFault"}, "planner_exception", "the simulator broke"),
        ("Raises", {"what": "PlanningFailed"}, "planner_reported_failure", "out of reach"),
        ("Dies", {}, "planner_exception", "exit code 3"),
        ("Crashes", {}, "planner_exception", "exit code -11"),
        ("Unsupported", {}, "planner_reported_failure", "returned str, expected trialplate.SkillPlan"),
    ],
)
def test_row_17_row_18_whatever_a_planner_does_is_its_own_failure(
    name: str, options: dict[str, Any], code: str, words: str
) -> None:
    fault = refusal(name, **options)
    assert fault.code == code
    assert words in fault.message


@pytest.mark.parametrize(
    ("what", "detail"),
    [
        ("nan", "non_finite_trajectory"),
        ("one_joint_less", "wrong_dof"),
        ("integers", "wrong_dtype"),
        ("list", "wrong_dtype"),
        ("no_rows", "empty_trajectory"),
        ("one_row", "empty_trajectory"),
        ("gripper", "gripper_out_of_range"),
        ("gripper_255", "gripper_out_of_range"),
        ("dt", "bad_dt"),
        ("no_segments", None),
    ],
)
def test_row_11_row_12_row_13_a_plan_that_is_none_is_rejected_and_never_repaired(
    what: str, detail: str | None
) -> None:
    fault = refusal("Shaped", what=what)
    assert (fault.code, fault.detail) == ("planner_reported_failure", detail)


def test_ten_million_waypoints_are_told_and_never_sent() -> None:
    fault = refusal("Huge")
    assert (fault.code, fault.detail) == ("planner_reported_failure", "too_long")
    assert "10000000" in fault.message


def test_a_plan_in_single_precision_is_taken_as_it_is() -> None:
    rows = plan_of("Shaped", what="float32").plan.trajectory
    assert rows.dtype == np.float64
    assert rows[0, 0] == np.float32(0.1)


def test_a_belief_is_recorded_and_nonsense_is_left_out_and_told() -> None:
    assert plan_of("Shaped", what="believes").plan.belief == {"grasped": True}
    planned = plan_of("Shaped", what="believes_nonsense")
    assert planned.plan.belief is None and planned.belief_refused


def test_row_09_a_misspelt_segment_is_not_guessed_and_the_nearest_name_is_offered() -> None:
    plan = plan_of("Shaped", what="misspelt").plan
    with pytest.raises(CaseFault, match=r"no segment 'open'; it has 'opne', did you mean 'open'\?") as caught:
        check_segments(plan.segments, CASE.segments, waypoints=len(plan.trajectory))
    assert (caught.value.code, caught.value.detail) == ("invalid_case", "missing_segment")


def test_what_a_planner_prints_is_no_answer(capfd: pytest.CaptureFixture[str]) -> None:
    assert plan_of("Prints").plan.trajectory.shape == (24, 7)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("what", ["garbage", "header", "closes"])
def test_a_planner_that_writes_into_the_pipe_itself_only_fails(what: str) -> None:
    fault = refusal("Forges", what=what)
    assert fault.code == "planner_exception"


def test_an_ended_process_leaves_nothing_behind(processes: list[PlannerProcess]) -> None:
    process = PlannerProcess(source("Sleeps"))
    processes.append(process)
    process.end()
    process.end()
    assert process._process.returncode is not None
    assert sys.modules.get("planners") is None
