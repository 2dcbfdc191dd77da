import sys
from dataclasses import replace

import numpy as np
import pytest

from trialplate.errors import HarnessFault
from trialplate.worlds.arm_control import CartesianController, IkSettings, JointTarget, Unreachable
from trialplate.worlds.panda import HOME_JOINT_RAD, JOINT_LOWER_RAD, JOINT_UPPER_RAD

ZERO = np.zeros(3)


def _drive(controller, *, seed, steps):
    rng = np.random.default_rng(seed)
    targets = []
    for _ in range(steps):
        homeward = 0.05 * (np.array([0.5, 0.0, 0.3]) - controller.commanded_pose.position_m)
        result = controller.command(rng.uniform(-0.02, 0.02, 3) + homeward, rng.uniform(-0.05, 0.05, 3))
        assert isinstance(result, JointTarget), result
        targets.append(result.joint_rad)
    return np.array(targets)


def test_a_command_moves_the_pose_by_the_world_frame_delta():
    controller = CartesianController()
    start = controller.reset()
    result = controller.command(np.array([0.03, -0.02, 0.01]), np.array([0.0, 0.0, 0.4]))
    assert isinstance(result, JointTarget)
    assert result.position_error_m <= 1e-3
    assert result.rotation_error_rad <= 1e-2
    reached = CartesianController().reset(result.joint_rad)
    assert np.allclose(reached.position_m, start.position_m + np.array([0.03, -0.02, 0.01]), atol=1e-3)
    # A world-frame turn about z composes on the left, also for a hand that points down.
    half = 0.2
    turn = np.array([np.cos(half), 0, 0, np.sin(half)])
    w, x, y, z = start.wxyz
    expected = np.array(
        [
            turn[0] * w - turn[3] * z,
            turn[0] * x - turn[3] * y,
            turn[0] * y + turn[3] * x,
            turn[0] * z + turn[3] * w,
        ]
    )
    assert abs(float(expected @ reached.wxyz)) > np.cos(0.005)


def test_the_command_accumulates_from_the_commanded_pose_and_never_creeps():
    controller = CartesianController()
    start = controller.reset()
    for _ in range(200):
        assert isinstance(controller.command(ZERO, ZERO), JointTarget)
    assert np.array_equal(controller.commanded_pose.position_m, start.position_m)
    for delta_m in (0.01, -0.01) * 20:
        controller.command(np.array([0.0, 0.0, delta_m]), ZERO)
    assert np.allclose(controller.commanded_pose.position_m, start.position_m, atol=1e-12)


def test_every_joint_target_respects_the_limits():
    controller = CartesianController()
    for seed in range(3):
        controller.reset()
        targets = _drive(controller, seed=seed, steps=80)
        assert (targets > JOINT_LOWER_RAD).all()
        assert (targets < JOINT_UPPER_RAD).all()


def test_the_same_commands_give_the_same_bits_after_another_episode():
    controller = CartesianController()
    controller.reset()
    first = _drive(controller, seed=1, steps=40)
    controller.reset()
    _drive(controller, seed=2, steps=25)
    controller.reset()
    again = _drive(controller, seed=1, steps=40)
    fresh = CartesianController()
    fresh.reset()
    assert first.tobytes() == again.tobytes() == _drive(fresh, seed=1, steps=40).tobytes()


def test_a_pose_outside_the_workspace_is_reported_and_the_command_stays():
    controller = CartesianController()
    controller.reset()
    held = controller.commanded_pose
    result = controller.command(np.array([1.0, 0.0, 0.0]), ZERO)
    assert isinstance(result, Unreachable)
    assert result.position_error_m > 0.1
    assert "mm" in result.reason
    assert controller.commanded_pose is held
    assert np.array_equal(controller.joint_target_rad, HOME_JOINT_RAD)


def test_walking_out_of_the_workspace_ends_in_a_report_not_in_a_hold():
    controller = CartesianController()
    controller.reset()
    results = [controller.command(np.array([0.05, 0.0, 0.0]), ZERO) for _ in range(20)]
    first_bad = next(n for n, result in enumerate(results) if isinstance(result, Unreachable))
    assert 4 < first_bad < 14
    assert all(isinstance(result, JointTarget) for result in results[:first_bad])


def test_a_jump_to_another_arm_configuration_is_refused():
    controller = CartesianController(settings=replace(IkSettings(), jump_rad=0.05))
    controller.reset()
    result = controller.command(np.array([0.0, 0.2, 0.0]), ZERO)
    assert isinstance(result, Unreachable)
    assert "in one command" in result.reason


def test_the_base_position_shifts_the_workspace():
    shifted = CartesianController(base_position_m=(-0.4, 0.1, 0.2)).reset()
    plain = CartesianController().reset()
    assert np.allclose(shifted.position_m - plain.position_m, [-0.4, 0.1, 0.2], atol=1e-12)


@pytest.mark.parametrize("package", ["daqp", "mink"])
def test_a_missing_solver_is_a_harness_fault(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(HarnessFault, match=package) as caught:
        CartesianController()
    assert caught.value.code == "solver_failure"


def test_a_failing_quadratic_program_is_a_harness_fault(monkeypatch):
    controller = CartesianController()
    controller.reset()
    monkeypatch.setattr(controller._solver, "_qp", lambda *_: (np.zeros(7), 0.0, -1, {}))
    with pytest.raises(HarnessFault, match="flag -1") as caught:
        controller.command(np.array([0.01, 0.0, 0.0]), ZERO)
    assert caught.value.code == "solver_failure"


def test_a_pose_that_is_not_finite_never_reaches_the_solver():
    controller = CartesianController()
    controller.reset()
    with pytest.raises(HarnessFault, match="not finite"):
        controller.command(np.array([np.nan, 0.0, 0.0]), ZERO)


def test_a_start_of_the_wrong_length_is_refused():
    with pytest.raises(HarnessFault, match="7 finite joint positions"):
        CartesianController().reset((0.0, 0.0))


def test_settings_write_every_number_into_their_document():
    assert IkSettings().document() != replace(IkSettings(), accepted_m=2e-3).document()
    assert set(IkSettings().document()) == set(IkSettings.__dataclass_fields__)
