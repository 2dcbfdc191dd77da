"""The calibration run: what it jitters, what it is bound to, and that it is told nothing when it may not run."""

from __future__ import annotations

import copy

import pytest

from trialplate.errors import UsageError
from trialplate.suites.atomic_skills.calibration import margins, trial_samples
from trialplate.suites.atomic_skills.cases import nominal_cases
from trialplate.suites.atomic_skills.planners.baseline import Baseline
from trialplate.suites.atomic_skills.tolerances import SCORING
from trialplate.suites.atomic_skills.world.calibrating import calibrate, environment, holds_here, jittered
from trialplate.suites.atomic_skills.world.environment import AtomicSkills
from trialplate.suites.atomic_skills.world.trial import replay_once


def test_a_jitter_moves_every_arm_joint_by_at_most_twenty_milliradians_and_no_gripper() -> None:
    case = nominal_cases()["hand_over"][0]
    moved = [new - old for new, old in zip(jittered(case, seed=2)["q_start"], case["q_start"], strict=True)]
    assert [moved[6], moved[13]] == [0.0, 0.0]
    assert all(0.0 < abs(by) <= 0.02 for column, by in enumerate(moved) if column % 7 != 6)


def test_a_jitter_is_the_same_for_a_seed_and_another_for_another() -> None:
    case = nominal_cases()["pour"][0]
    assert jittered(case, seed=1) == jittered(case, seed=1)
    assert jittered(case, seed=1)["q_start"] != jittered(case, seed=0)["q_start"]


def test_fewer_than_five_repeats_are_no_calibration() -> None:
    with pytest.raises(UsageError, match="at least 5"):
        calibrate(repeats=4)


def test_a_calibration_of_another_simulator_does_not_hold_here() -> None:
    here = {"environment": environment()}
    assert holds_here(here)
    elsewhere = copy.deepcopy(here)
    elsewhere["environment"]["mujoco"] = "3.2.0"
    assert not holds_here(elsewhere)


def test_the_primitive_tolerance_is_reachable_here_with_room_to_spare() -> None:
    world, found = AtomicSkills(), []
    for skill in ("move_joints", "move_end_effector"):
        for seed in range(2):
            case = nominal_cases()[skill][0]
            left = replay_once(world, jittered(case, seed=seed), Baseline())
            found += trial_samples(skill, left.stages.values(), case=case["case_id"], repeat=seed)
    primitive = [margin for margin in margins(found, SCORING) if margin.set_name == "PRIMITIVE"]
    assert {margin.unit: margin.n for margin in primitive} == {"m": 2, "rad": 4}
    assert all(margin.reachable for margin in primitive)
    assert all(margin.margin is not None and margin.margin > 10.0 for margin in primitive)
