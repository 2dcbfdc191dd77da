"""The shipped planners on the smoke case of every skill: the baseline passes, the controls fail where they must."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from trialplate.errors import CaseFault, PlanningFailed
from trialplate.record.plan_check import check_segments
from trialplate.spec.skills import skill_case
from trialplate.suites.atomic_skills.cases import nominal_cases, profile_cases
from trialplate.suites.atomic_skills.ladders import NEGATIVE_STAGES, SKILLS
from trialplate.suites.atomic_skills.planners.baseline import Baseline, Null
from trialplate.suites.atomic_skills.planners.case_view import CaseView
from trialplate.suites.atomic_skills.planners.negative import DEFECTS, Negative
from trialplate.suites.atomic_skills.planners.offers import offered_grasps
from trialplate.suites.atomic_skills.planners.path import DWELL_ROWS, LARGEST_STEP_RAD, minimum_jerk, timed
from trialplate.suites.atomic_skills.rigid import from_transform, matrix, quaternion, rotation_vector, turn
from trialplate.suites.atomic_skills.world.environment import AtomicSkills
from trialplate.suites.atomic_skills.world.trial import Trial

SMOKE = profile_cases("smoke")


@pytest.fixture(scope="module")
def world() -> AtomicSkills:
    return AtomicSkills()


def first(skill: str) -> dict[str, Any]:
    return copy.deepcopy(nominal_cases()[skill][0])


@pytest.mark.parametrize("case", SMOKE, ids=lambda case: case["skill"])
def test_the_baseline_passes_the_smoke_case_of_each_skill_by_a_motion_that_can_be_trusted(
    world: AtomicSkills, case: dict[str, Any]
) -> None:
    trial = Trial(world, case)
    plan = Baseline().plan(trial.seen)
    found = trial.replay(plan)
    assert found.passed, found.stages
    assert found.tracking_rad <= 0.10
    assert found.column("unintended_n").max() <= 1.0, found.events


@pytest.mark.slow
@pytest.mark.parametrize("case", SMOKE, ids=lambda case: case["skill"])
def test_each_negative_control_fails_at_its_stated_stage(world: AtomicSkills, case: dict[str, Any]) -> None:
    trial = Trial(world, case)
    assert trial.replay(Negative().plan(trial.seen)).failure_stage == NEGATIVE_STAGES[case["skill"]]


@pytest.mark.parametrize("case", SMOKE, ids=lambda case: case["skill"])
def test_holding_the_start_pose_passes_nothing(world: AtomicSkills, case: dict[str, Any]) -> None:
    trial = Trial(world, case)
    plan = Null().plan(trial.seen)
    check_segments(plan.segments, case["segments"], waypoints=len(plan.trajectory))
    found = trial.replay(plan)
    assert not found.passed
    first_stage = next(iter(SKILLS[case["skill"]].stages))
    assert found.failure_stage == first_stage


def test_there_is_one_defect_for_each_skill_and_it_names_a_stage_of_it() -> None:
    assert set(DEFECTS) == set(NEGATIVE_STAGES) == set(SKILLS)
    assert all(stage in SKILLS[skill].stages for skill, stage in NEGATIVE_STAGES.items())


def test_a_plan_steps_by_at_most_ten_milliradians_and_dwells_where_a_stage_is_read(world: AtomicSkills) -> None:
    case = first("open_door")
    plan = Baseline().plan(Trial(world, case).seen)
    arm = list(skill_case(case).arm_columns)
    assert np.abs(np.diff(plan.trajectory[:, arm], axis=0)).max() <= LARGEST_STEP_RAD + 1e-12
    assert DWELL_ROWS >= 15
    for name in case["segments"]:
        last = plan.trajectory[plan.segments[name]][-15:]
        assert (last == last[-1]).all(), name


def test_the_plan_of_a_case_is_the_same_each_time(world: AtomicSkills) -> None:
    seen = Trial(world, first("pick_up")).seen
    one, other = Baseline().plan(seen), Baseline().plan(seen)
    assert (one.trajectory == other.trajectory).all()


def test_another_grasp_seed_makes_another_plan_that_passes_too(world: AtomicSkills) -> None:
    trial = Trial(world, first("pick_up"))
    nominal = Baseline().plan(trial.seen)
    moved = Baseline().plan(trial.seen.model_copy(update={"grasp_seed": 3}))
    assert nominal.trajectory.shape != moved.trajectory.shape or (nominal.trajectory != moved.trajectory).any()
    assert trial.replay(moved).passed


def test_a_tool_pose_out_of_reach_is_no_plan() -> None:
    case = first("move_end_effector")
    case["command"]["pose"][0] = 3.0
    with pytest.raises(PlanningFailed, match="no joint solution"):
        Baseline().plan(skill_case(case))


def test_an_unknown_skill_is_no_plan_and_the_nearest_one_is_named() -> None:
    case = first("press")
    case["skill"] = "pres"
    with pytest.raises(PlanningFailed, match="press"):
        Baseline().plan(skill_case(case))


def test_a_skill_that_samples_no_grasp_offers_none() -> None:
    with pytest.raises(PlanningFailed, match="samples no grasps"):
        offered_grasps(CaseView(skill_case(first("twist"))))


def test_a_segment_that_is_misspelled_is_not_replaced_by_the_last_waypoint() -> None:
    plan = Null().plan(skill_case(first("open_door")))
    wrong = {("opne" if name == "open" else name): part for name, part in plan.segments.items()}
    with pytest.raises(CaseFault, match="opne"):
        check_segments(wrong, first("open_door")["segments"], waypoints=len(plan.trajectory))


def test_minimum_jerk_starts_and_ends_at_rest() -> None:
    share = np.array([0.0, 0.5, 1.0])
    assert minimum_jerk(share).tolist() == [0.0, 0.5, 1.0]
    steps = np.abs(np.diff(timed(np.array([[0.0, 0.0], [1.0, -0.5]])), axis=0)).max(axis=1)
    assert steps[0] < 1e-3 and steps[-1] < 1e-3
    assert steps.max() == pytest.approx(LARGEST_STEP_RAD, rel=0.02)


@pytest.mark.parametrize("angle_rad", [0.0, 1e-6, 0.7, 3.0, np.pi])
def test_rotations_go_there_and_back(angle_rad: float) -> None:
    rotation = turn((0.3, -0.5, 0.8), angle_rad)
    assert matrix(quaternion(rotation)) == pytest.approx(rotation, abs=1e-12)
    assert np.linalg.norm(rotation_vector(rotation)) == pytest.approx(angle_rad, abs=1e-7)
    transform = np.eye(4)
    transform[:3, :3] = rotation
    assert len(from_transform(transform)) == 7
