import json
from pathlib import Path

import mujoco
import numpy as np
import pytest

from trialplate.worlds.panda import (
    HOME_JOINT_RAD,
    JOINT_EFFORT_N_M,
    JOINT_LOWER_RAD,
    JOINT_UPPER_RAD,
    add_panda,
    dh_flange_pose,
    kinematic_model,
    panda_spec,
)

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "panda_golden_poses.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def panda():
    model = panda_spec().compile()
    return model, mujoco.MjData(model)


def _set(panda, joint_rad):
    model, data = panda
    data.qpos[:7] = joint_rad
    mujoco.mj_kinematics(model, data)
    return data


@pytest.mark.parametrize("golden", GOLDEN["poses"])
def test_the_hand_is_where_an_independent_published_model_puts_it(panda, golden):
    hand = _set(panda, golden["joint_rad"]).body("hand")
    assert np.abs(hand.xpos - golden["hand_position_m"]).max() < 5e-9
    assert np.abs(hand.xmat - golden["hand_rotation"]).max() < 1e-7


def test_the_flange_is_where_the_dh_table_puts_it(panda):
    rng = np.random.default_rng(3)
    for joint_rad in rng.uniform(JOINT_LOWER_RAD, JOINT_UPPER_RAD, size=(50, 7)):
        hand = _set(panda, joint_rad).body("hand")
        pose = dh_flange_pose(joint_rad)
        assert np.abs(hand.xpos - pose[:3, 3]).max() < 1e-12
        yaw = np.deg2rad(-45.0)
        turned = pose[:3, :3] @ [[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]]
        assert np.abs(hand.xmat.reshape(3, 3) - turned).max() < 1e-12


def test_the_home_pose_points_the_hand_down_at_the_documented_place(panda):
    data = _set(panda, HOME_JOINT_RAD)
    assert np.allclose(data.site("ee").xpos, [0.30689, 0.0, 0.48688], atol=1e-5)
    assert np.allclose(data.site("ee").xmat.reshape(3, 3)[:, 2], [0, 0, -1], atol=1e-12)


def test_limits_efforts_and_masses_are_the_published_ones(panda):
    model, _ = panda
    assert np.array_equal(model.jnt_range[:7], np.transpose([JOINT_LOWER_RAD, JOINT_UPPER_RAD]))
    assert np.array_equal(model.actuator_ctrlrange[:7], model.jnt_range[:7])
    assert np.array_equal(model.actuator_forcerange[:7, 1], JOINT_EFFORT_N_M)
    masses_kg = [model.body(f"link{n}").mass[0] for n in range(8)]
    assert masses_kg == [0.629769, 4.970684, 0.646926, 3.228604, 3.587895, 1.225946, 1.666555, 0.735522]
    assert model.body("hand").mass[0] == 0.73


def test_the_tool_centre_lies_between_the_pads_at_every_opening(panda):
    model, data = panda
    for opening_m in (0.0, 0.01, 0.04):
        data.qpos[:9] = [*HOME_JOINT_RAD, opening_m, opening_m]
        mujoco.mj_kinematics(model, data)
        left, right = data.geom("left_pad").xpos, data.geom("right_pad").xpos
        assert np.allclose((left + right) / 2, data.site("ee").xpos, atol=1e-12)
        inner_faces_m = np.linalg.norm(left - right) - 2 * model.geom("left_pad").size[1]
        assert inner_faces_m == pytest.approx(2 * opening_m, abs=1e-12)


def test_arm_shapes_never_touch_each_other_but_touch_the_world(panda):
    model, _ = panda
    touching = np.flatnonzero(model.geom_contype)
    assert len(touching) >= 8
    assert not (model.geom_contype[touching, None] & model.geom_conaffinity[touching]).any()
    assert (model.geom_conaffinity[touching] & 1).all()


def test_the_kinematic_model_agrees_with_the_full_robot(panda):
    lean = kinematic_model((0.1, -0.2, 0.3))
    lean_data = mujoco.MjData(lean)
    assert (lean.nq, lean.nv, lean.neq, lean.nu, lean.ngeom) == (7, 7, 0, 0, 0)
    joint_rad = np.array(HOME_JOINT_RAD) + 0.1
    lean_data.qpos[:] = joint_rad
    mujoco.mj_kinematics(lean, lean_data)
    full = _set(panda, joint_rad).site("ee")
    assert np.allclose(lean_data.site("ee").xpos, full.xpos + np.array([0.1, -0.2, 0.3]), atol=1e-12)
    assert np.allclose(lean_data.site("ee").xmat, full.xmat, atol=1e-12)


def test_every_reported_name_exists_in_the_compiled_scene():
    spec = mujoco.MjSpec()
    names = add_panda(spec, prefix="left_", position_m=(1, 2, 3), wrist_camera="eye")
    model = spec.compile()
    for joint in (*names.joints, *names.finger_joints):
        model.joint(joint)
    for actuator in (*names.actuators, names.gripper_actuator):
        model.actuator(actuator)
    for body in (names.base_body, names.hand_body, *names.finger_bodies):
        model.body(body)
    for geom in (*names.pads, *names.touching_geoms):
        model.geom(geom)
    model.site(names.ee_site)
    assert model.camera(names.wrist_camera).fovy[0] == 75.0
    assert np.array_equal(model.body(names.base_body).pos, [1, 2, 3])


def test_two_robots_fit_into_one_scene():
    spec = mujoco.MjSpec()
    add_panda(spec, prefix="a_", position_m=(0, 0.5, 0))
    add_panda(spec, prefix="b_", position_m=(0, -0.5, 0))
    assert spec.compile().nu == 16


def test_the_wrist_camera_turns_with_the_hand():
    spec = mujoco.MjSpec()
    names = add_panda(spec, wrist_camera="eye")
    model = spec.compile()
    data = mujoco.MjData(model)
    poses = []
    for turn_rad in (0.0, 0.6):
        data.qpos[:7] = HOME_JOINT_RAD
        data.qpos[6] += turn_rad
        mujoco.mj_forward(model, data)
        hand = data.body(names.hand_body).xmat.reshape(3, 3)
        camera = data.camera(names.wrist_camera)
        assert np.allclose(-camera.xmat.reshape(3, 3)[:, 2], hand[:, 2], atol=1e-5)
        poses.append(hand.T @ camera.xmat.reshape(3, 3))
        assert np.allclose(hand.T @ (camera.xpos - data.body(names.hand_body).xpos), [0.05, 0, 0], atol=1e-9)
    assert np.allclose(poses[0], poses[1], atol=1e-9)
