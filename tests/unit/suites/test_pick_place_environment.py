"""The live world: actions are checked, rejections move nothing, reuse equals fresh, pictures leave no trace."""

import numpy as np
import pytest

from trialplate.errors import HarnessFault, PolicyFault, SensorInvalid, UsageError
from trialplate.suites.pick_place import SUITE
from trialplate.suites.pick_place.oracle import Oracle
from trialplate.suites.pick_place.settings import suite_settings
from trialplate.suites.pick_place.world.environment import PickPlace
from trialplate.worlds.arm_control import IkSettings
from trialplate.worlds.attachment import AttachmentSettings
from trialplate.worlds.panda import HOME_JOINT_RAD
from trialplate.worlds.simulation import PhysicsSettings

FIRST = SUITE.scenarios()[0]


def _action(*, xyz=(0.0, 0.0, 0.0), turn=(0.0, 0.0, 0.0), gripper=-1.0):
    return np.array([*xyz, *turn, gripper])


def _script(seed, steps=25):
    return np.random.default_rng(seed).uniform(-0.3, 0.3, (steps, 7))


def _digests(world, scenario, actions):
    digests = [world.reset(scenario, seed=3).initial_state_sha256, world.state_sha256()]
    for action in actions:
        assert world.step(action) is None
        digests.append(world.state_sha256())
    return digests


def test_the_reset_pose_is_at_rest(world, read):
    for scenario in SUITE.scenarios()[::7]:
        world.reset(scenario, seed=0)
        for _ in range(4):
            world.step(_action())
            assert abs(read("object_lift_m")[0]) < 1e-7
            assert read("object_speed_m_s")[0] < 1e-6
            assert np.abs(read("joint_pos_rad") - HOME_JOINT_RAD).max() < 1e-8


@pytest.mark.parametrize("value", [1.0001, -1.0001, np.nan, np.inf, -np.inf])
def test_a_number_outside_the_range_is_refused_and_nothing_moves(world, value):
    world.reset(FIRST, seed=0)
    before = world.state_sha256()
    with pytest.raises(PolicyFault, match=r"ee_delta_rot\[1\]") as caught:
        world.step(_action(turn=(0.0, value, 0.0)))
    assert caught.value.code == "invalid_action"
    assert world.state_sha256() == before


def test_an_action_of_another_length_is_refused(world):
    world.reset(FIRST, seed=0)
    with pytest.raises(PolicyFault, match=r"shape \(6,\), expected \(7,\)"):
        world.step(np.zeros(6))


def test_a_pose_out_of_reach_is_rejected_and_nothing_moves(world, read):
    world.reset(FIRST, seed=0)
    for _ in range(40):
        before, commanded = world.state_sha256(), read("commanded_pos_m")
        event = world.step(_action(xyz=(1.0, 1.0, 1.0)))
        if event is not None:
            break
    assert event is not None and event.kind == "control_rejected"
    assert event.step == world.world.control_step + 1 and "misses by" in event.detail
    assert world.state_sha256() == before
    assert read("commanded_pos_m").tolist() == commanded.tolist()


def test_a_full_deflection_moves_the_command_by_the_documented_scale(world, read):
    world.reset(FIRST, seed=0)
    start = read("commanded_pos_m")
    world.step(_action(xyz=(0.0, 1.0, -0.5)))
    assert read("commanded_pos_m") - start == pytest.approx([0.0, 0.05, -0.025])
    for _ in range(5):
        world.step(_action())
    assert read("ee_pos_m") - start == pytest.approx([0.0, 0.05, -0.025], abs=5e-4)


@pytest.mark.gl
def test_the_wrist_camera_turns_with_the_hand(world):
    world.reset(FIRST, seed=0)
    data, hand = world.world.data, world.robot.hand_body

    def pose():
        rotation = data.body(hand).xmat.reshape(3, 3)
        camera = data.camera("wrist").xmat.reshape(3, 3)
        offset = rotation.T @ (data.camera("wrist").xpos - data.body(hand).xpos)
        return rotation.copy(), camera.copy(), offset

    hand_before, camera_before, offset_before = pose()
    before = world.sense(("primary", "wrist"), proprio=()).images
    for _ in range(2):
        world.step(_action(turn=(0.0, 0.0, 0.5)))
    for _ in range(6):
        world.step(_action())
    hand_after, camera_after, offset_after = pose()
    turn = hand_after @ hand_before.T
    assert np.arccos((np.trace(turn) - 1) / 2) == pytest.approx(0.5, abs=0.005)
    assert camera_after == pytest.approx(turn @ camera_before, abs=1e-9)
    assert offset_after == pytest.approx(offset_before, abs=1e-12)
    assert offset_after == pytest.approx([0.05, 0.0, 0.0], abs=1e-8)
    assert camera_after[:, 2] == pytest.approx(-hand_after[:, 2], abs=1e-6)  # it looks along the fingers
    after = world.sense(("primary", "wrist"), proprio=()).images
    assert (before["wrist"] != after["wrist"]).mean() > 0.05


def test_a_reused_world_runs_exactly_as_a_fresh_one(world):
    actions, other = _script(1), SUITE.scenarios()[43]
    fresh = PickPlace()
    expected = _digests(fresh, FIRST, actions)
    fresh.close()
    _digests(world, FIRST, _script(2))
    _digests(world, other, _script(3, steps=5))
    assert _digests(world, FIRST, actions) == expected


def test_a_reused_world_forgets_a_grasp(world, read):
    first = _digests(world, FIRST, ())
    oracle = Oracle()
    oracle.reset(None, FIRST)  # type: ignore[arg-type]
    while not read("attached")[0]:
        for action in oracle.act(None, world.measure()).vectors:  # type: ignore[arg-type, union-attr]
            world.step(action)
    assert _digests(world, FIRST, ()) == first
    assert read("attached")[0] == 0.0


@pytest.mark.gl
def test_pictures_leave_no_trace_in_the_state(world):
    actions = _script(4, steps=10)
    expected = _digests(world, FIRST, actions)
    world.reset(FIRST, seed=3)
    for n, action in enumerate(actions):
        world.sense(("primary", "wrist"), proprio=("ee_pos",))
        large = world.frames(("primary",), height_px=120, width_px=160)
        assert large["primary"].shape == (120, 160, 3)
        world.step(action)
        assert world.state_sha256() == expected[n + 2]


@pytest.mark.gl
def test_only_the_named_cameras_are_rendered_in_the_declared_size(world):
    world.reset(FIRST, seed=0)
    seen = world.sense(("wrist",), proprio=("joint_pos", "finger_pos", "ee_pos", "ee_quat"))
    assert list(seen.images) == ["wrist"]
    assert seen.images["wrist"].shape == (256, 256, 3) and seen.images["wrist"].dtype == np.uint8
    assert {name: value.shape for name, value in seen.proprio.items()} == {
        "joint_pos": (7,), "finger_pos": (2,), "ee_pos": (3,), "ee_quat": (4,),
    }  # fmt: skip


def test_what_a_policy_is_handed_is_a_copy(world, read):
    world.reset(FIRST, seed=0)
    before = world.state_sha256()
    for values in world.sense((), proprio=("joint_pos", "finger_pos", "ee_pos", "ee_quat")).proprio.values():
        values[:] = 9.0
    world.measure().values[:] = 9.0
    assert world.state_sha256() == before
    assert read("object_pos_m")[0] < 1.0


def test_a_state_that_is_not_finite_is_an_invalid_sensor(world):
    world.reset(FIRST, seed=0)
    world.world.data.qpos[0] = np.nan
    with pytest.raises(SensorInvalid, match="joint_pos"):
        world.sense((), proprio=("joint_pos",))
    with pytest.raises(HarnessFault) as caught:
        world.state_sha256()
    assert caught.value.code == "simulator_crash"


def test_a_held_load_does_not_creep(world, read, of_variant):
    scenario = of_variant("heavy_objects")[0]
    world.reset(scenario, seed=0)
    oracle = Oracle()
    oracle.reset(None, scenario)  # type: ignore[arg-type]
    while read("object_lift_m")[0] < 0.06:
        for action in oracle.act(None, world.measure()).vectors:  # type: ignore[arg-type, union-attr]
            world.step(action)
    for _ in range(10):
        world.step(_action(gripper=1.0))
    start, commanded = read("ee_pos_m"), read("commanded_pos_m")
    for _ in range(60):
        world.step(_action(gripper=0.0))
    assert np.abs(read("ee_pos_m") - start).max() < 1e-4
    assert np.abs(read("ee_pos_m") - commanded).max() < 2e-3
    assert read("commanded_pos_m").tolist() == commanded.tolist()
    assert read("attached")[0] == 1.0


def test_an_unknown_body_or_profile_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="Known: own"):
        PickPlace(body="ur5e")
    with pytest.raises(UsageError, match="did you mean 'standard'"):
        PickPlace(profile="standart")


def test_the_state_estimate_is_noisy_reproducible_and_only_in_its_profile(world):
    estimating = PickPlace(profile="object-estimate")
    names = ("object_estimate", "goal_estimate")

    def readings(seed, count):
        estimating.reset(FIRST, seed=seed)
        return np.array(
            [np.concatenate(list(estimating.sense((), proprio=names).proprio.values())) for _ in range(count)]
        )

    assert np.array_equal(readings(5, 4), readings(5, 4))
    assert not np.array_equal(readings(5, 4), readings(6, 4))
    truth = np.concatenate([FIRST.parameters["block"]["pos_m"], FIRST.parameters["goal"]["pos_m"]])
    errors = np.array([readings(seed, 30) for seed in range(60)]) - truth
    bias_m = errors.mean(axis=1)
    assert np.std(bias_m) == pytest.approx(0.003, rel=0.15)
    assert np.std(errors - bias_m[:, None]) == pytest.approx(0.002, rel=0.05)
    alone = (
        estimating.reset(FIRST, seed=5) and estimating.sense((), proprio=("goal_estimate",)).proprio["goal_estimate"]
    )
    assert np.array_equal(alone, readings(5, 1)[0, 3:])
    estimating.close()
    world.reset(FIRST, seed=5)
    with pytest.raises(HarnessFault, match="object_estimate"):
        world.sense((), proprio=("object_estimate",))


def test_the_shipped_settings_are_those_of_the_machinery():
    settings = suite_settings()
    assert settings.robot.home_joint_pos_rad == HOME_JOINT_RAD
    assert IkSettings(**settings.inverse_kinematics) == IkSettings()
    assert PhysicsSettings(**settings.physics.model_dump(exclude={"gravity_m_s2"})) == PhysicsSettings()
    shipped = AttachmentSettings(**settings.attachment).document()
    assert {
        key: tuple(v) if isinstance(v, list) else v for key, v in shipped.items()
    } == AttachmentSettings().document()
