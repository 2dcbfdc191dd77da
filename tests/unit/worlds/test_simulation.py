import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from trialplate.canonical import array_digest
from trialplate.errors import HarnessFault
from trialplate.worlds.panda import HOME_JOINT_RAD
from trialplate.worlds.simulation import (
    InitialState,
    PhysicsSettings,
    World,
    apply_physics,
    model_digest,
    state_digest,
)

HOME_CTRL = np.array([*HOME_JOINT_RAD, 0.04])


def _state(world):
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(world.model, kind))
    mujoco.mj_getState(world.model, world.data, state, kind)
    return state


def test_one_control_step_is_three_interface_steps_of_a_sixtieth_of_a_second(scene):
    times_s = []
    scene.world.step(HOME_CTRL, after_interface_step=lambda _: times_s.append(scene.world.data.time))
    assert times_s == pytest.approx([1 / 60, 2 / 60, 3 / 60], abs=1e-12)
    assert PhysicsSettings().control_rate_hz == 20.0


def test_the_reset_pose_is_already_at_rest(scene):
    world = scene.world
    start = world.data.qpos.copy()
    for _ in range(20):
        world.step(HOME_CTRL)
    assert np.abs(world.data.qpos[:9] - start[:9]).max() < 1e-9
    assert np.abs(world.data.qpos[9:12] - start[9:12]).max() < 2e-4


def test_the_state_digest_is_the_canonical_array_digest(scene):
    scene.world.step(HOME_CTRL)
    expected = array_digest(_state(scene.world)[None], dtype="f64")
    assert scene.world.state_digest() == expected == state_digest(scene.world.model, scene.world.data)


def test_negative_zero_and_zero_digest_alike(scene):
    scene.world.data.qvel[3] = 0.0
    plain = scene.world.state_digest()
    scene.world.data.qvel[3] = -0.0
    assert scene.world.state_digest() == plain


def test_the_smallest_change_of_the_state_changes_the_digest(scene):
    before = scene.world.state_digest()
    scene.world.data.qpos[0] = np.nextafter(scene.world.data.qpos[0], 1.0)
    assert scene.world.state_digest() != before


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_state_that_is_not_finite_has_no_digest(scene, value):
    scene.world.data.qvel[2] = value
    with pytest.raises(HarnessFault, match="not finite") as caught:
        scene.world.state_digest()
    assert caught.value.code == "simulator_crash"


def test_a_bad_state_is_a_crash_and_is_not_reset_silently(scene):
    scene.world.step(HOME_CTRL)
    scene.world.data.qvel[0] = np.nan
    with pytest.raises(HarnessFault, match="bad_q") as caught:
        scene.world.step(HOME_CTRL)
    assert caught.value.code == "simulator_crash"


@pytest.mark.parametrize("value", [2.8974, np.nan, np.inf])
def test_a_control_value_out_of_range_is_refused_and_names_the_actuator(scene, value):
    ctrl = HOME_CTRL.copy()
    ctrl[2] = value
    before = scene.world.state_digest()
    with pytest.raises(HarnessFault, match="panda_actuator3"):
        scene.world.step(ctrl)
    assert scene.world.state_digest() == before


def test_a_control_vector_of_the_wrong_length_is_refused(scene):
    with pytest.raises(HarnessFault, match="8 actuators"):
        scene.world.step(HOME_CTRL[:7])


def test_reset_restores_the_digest_after_an_episode(scene):
    first = scene.reset()
    for _ in range(5):
        scene.act((0.02, 0.0, -0.02), gripper="close")
    assert scene.world.state_digest() != first
    assert scene.reset() == first


def test_a_force_of_an_episode_is_gone_after_reset(scene):
    first = scene.reset()
    scene.world.push("block", force_n=(0.3, 0.0, 0.0))
    scene.world.step(HOME_CTRL)
    assert scene.world.data.body("block").xpos[0] > 0.5
    assert scene.reset() == first


def test_a_push_that_is_not_finite_is_refused(scene):
    with pytest.raises(HarnessFault, match="block"):
        scene.world.push("block", force_n=(np.nan, 0.0, 0.0))


def test_a_model_compiled_with_another_timestep_is_refused():
    model = mujoco.MjModel.from_xml_string("<mujoco><option timestep='0.002'/></mujoco>")
    with pytest.raises(HarnessFault, match="apply_physics"):
        World(model, initial=InitialState())


def test_the_settings_reach_the_compiled_model():
    spec = mujoco.MjSpec()
    apply_physics(spec, replace(PhysicsSettings(), impratio=7.0))
    option = spec.compile().opt
    assert option.timestep == 1 / 540
    assert option.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert option.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    assert option.impratio == 7.0


def test_the_model_digest_sees_one_changed_number(scene):
    before = model_digest(scene.world.model)
    scene.world.model.geom("block").friction[0] = 0.1
    assert model_digest(scene.world.model) != before


_CHILD = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from conftest import build_scene
from trialplate.worlds.model_cache import trajectory_digests
from trialplate.worlds.simulation import model_digest
world = build_scene().world
controls = np.tile(world.data.ctrl, (20, 1)) + 0.01 * np.sin(np.arange(20))[:, None] * [1, 1, 1, 1, 1, 1, 1, 0]
print(model_digest(world.model), *trajectory_digests(world, controls))
"""


def test_model_and_trajectory_digests_are_the_same_in_every_process():
    code = _CHILD.format(folder=str(Path(__file__).parent))
    outputs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0].split())) == 22


def test_the_digest_header_names_type_and_shape(scene):
    state = _state(scene.world) + 0.0
    body = f"f64|1|{state.size}\n".encode() + state.astype("<f8").tobytes()
    assert scene.world.state_digest() == hashlib.sha256(body).hexdigest()


def test_a_step_is_bit_identical_whether_or_not_somebody_watches_its_interface_steps(make_scene):
    watched, alone, seen = make_scene().world, make_scene().world, []
    ctrl = watched.data.ctrl.copy()
    for move_rad in (0.02, -0.05, 0.03):
        ctrl[1] += move_rad
        watched.step(ctrl, after_interface_step=seen.append)
        alone.step(ctrl)
        assert watched.state_digest() == alone.state_digest()
        assert (watched.data.xpos == alone.data.xpos).all()
    assert seen == [0, 1, 2] * 3
