"""The replay of a UR5e with a 2F-85 against the golden numbers of the specification, section 17, within 10 %."""

from __future__ import annotations

from functools import cache
from typing import Any

import mujoco
import numpy as np
import pytest

from trialplate.interfaces import Scenario
from trialplate.suites.atomic_skills.cases import nominal_cases
from trialplate.suites.atomic_skills.planners.path import minimum_jerk
from trialplate.suites.atomic_skills.settings import world_settings
from trialplate.suites.atomic_skills.world.environment import AtomicSkills
from trialplate.suites.atomic_skills.world.scene import compose

START_RAD = np.array([-np.pi / 2, -np.pi / 2, np.pi / 2, -np.pi / 2, -np.pi / 2, 0.0])
BY_RAD = np.array([0.6, 0.3, -0.4, 0.2, 0.3, 0.5])
STEP_RAD = 0.010
DWELL_ROWS = 15
RAMP_TRACKING_RAD = {1: 0.453, 2: 0.348, 4: 0.223, 8: 0.119, 16: 0.057, 32: 0.026}


def case() -> dict[str, Any]:
    """Free space, from the start of the golden motion."""
    found = dict(nominal_cases()["move_joints"][0])
    found["q_start"] = [*START_RAD.tolist(), 1.0]
    return found


def jerk_limited_rows() -> np.ndarray:
    count = int(np.ceil(1.875 * np.abs(BY_RAD).max() / STEP_RAD))
    shares = minimum_jerk(np.linspace(0.0, 1.0, count + 1)[1:])
    rows = START_RAD + np.outer(shares, BY_RAD)
    return np.vstack([rows, np.repeat(rows[-1:], DWELL_ROWS, axis=0)])


def ramp_rows() -> np.ndarray:
    count = int(np.ceil(np.abs(BY_RAD).max() / STEP_RAD))
    return START_RAD + np.outer(np.linspace(0.0, 1.0, count + 1)[1:], BY_RAD)


@cache
def replayed(motion: str) -> tuple[float, float, float]:
    """Return tracking error, settled joint error and settled tool error of a motion in the environment."""
    rows = {"minimum_jerk": jerk_limited_rows, "ramp": ramp_rows}[motion]()
    world, document = AtomicSkills(), case()
    world.reset(Scenario("golden", "golden", "move_joints", "nominal", document), seed=0)
    tracking_rad = 0.0
    for kind, listed in (("waypoint", rows), ("settle", np.repeat(rows[-1:], 80, axis=0))):
        world.phase(kind)  # type: ignore[arg-type]
        for row in listed:
            world.step(np.append(row, 1.0))
            if kind == "waypoint":
                tracking_rad = max(tracking_rad, float(np.abs(world.data.qpos[:6] - row).max()))
    tool_m = world.measure().values[8:11].copy()
    settled_rad = float(np.abs(world.data.qpos[:6] - rows[-1]).max())
    world.data.qpos[:6] = rows[-1]
    mujoco.mj_kinematics(world.model, world.data)
    wanted_m = world.data.site("arm_hand_pinch").xpos
    return tracking_rad, settled_rad, float(np.linalg.norm(tool_m - wanted_m))


def stepped(rows: np.ndarray, *, steps: int, gravity_compensation: bool = True) -> tuple[float, float, float]:
    """Replay by hand, for what the environment does not offer: other steps per waypoint, no gravity compensation."""
    spec = compose(case()).spec
    for body in spec.bodies:
        if not gravity_compensation and body.name != "world":
            body.gravcomp = 0.0
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[:6] = data.ctrl[:6] = START_RAD
    tracking_rad = 0.0
    for row in rows:
        data.ctrl[:6] = row
        mujoco.mj_step(model, data, nstep=steps)
        tracking_rad = max(tracking_rad, float(np.abs(data.qpos[:6] - row).max()))
    mujoco.mj_step(model, data, nstep=160)
    settled_rad = float(np.abs(data.qpos[:6] - rows[-1]).max())
    mujoco.mj_kinematics(model, data)
    tool_m = data.site("arm_hand_pinch").xpos.copy()
    data.qpos[:6] = rows[-1]
    mujoco.mj_kinematics(model, data)
    return tracking_rad, settled_rad, float(np.linalg.norm(tool_m - data.site("arm_hand_pinch").xpos))


def test_a_minimum_jerk_motion_with_dwell_tracks_and_settles_as_the_golden_numbers_say() -> None:
    tracking_rad, settled_rad, tool_m = replayed("minimum_jerk")
    assert tracking_rad == pytest.approx(0.0558, rel=0.1)
    assert settled_rad <= 0.0005
    assert settled_rad == pytest.approx(0.00006, rel=0.1)
    assert tool_m <= 0.0005
    assert tool_m == pytest.approx(0.000045, rel=0.1)


def test_a_ramp_without_dwell_ends_too_fast_for_the_primitive_tolerance() -> None:
    tracking_rad, settled_rad, _ = replayed("ramp")
    assert tracking_rad == pytest.approx(0.057, rel=0.1)
    assert settled_rad == pytest.approx(0.0111, rel=0.1)
    assert settled_rad > np.radians(0.3)


def test_without_gravity_compensation_the_primitive_tolerance_cannot_be_met() -> None:
    _, settled_rad, tool_m = stepped(jerk_limited_rows(), steps=16, gravity_compensation=False)
    assert settled_rad == pytest.approx(0.0169, rel=0.1)
    assert tool_m == pytest.approx(0.0152, rel=0.1)
    assert settled_rad > np.radians(0.3)


@pytest.mark.parametrize(("steps", "tracking_rad"), RAMP_TRACKING_RAD.items())
def test_the_tracking_error_of_a_ramp_falls_with_the_steps_per_waypoint(steps: int, tracking_rad: float) -> None:
    assert stepped(ramp_rows(), steps=steps)[0] == pytest.approx(tracking_rad, rel=0.1)


def test_a_waypoint_takes_32_ms_and_the_settle_320_ms() -> None:
    settings = world_settings()
    step_s = settings.physics.timestep_s
    assert settings.replay.waypoint_steps * step_s == pytest.approx(0.032)
    assert settings.replay.settle_rows * settings.replay.settle_steps * step_s == pytest.approx(0.32)


def test_a_replay_by_hand_equals_that_of_the_environment() -> None:
    assert stepped(jerk_limited_rows(), steps=16)[:2] == pytest.approx(replayed("minimum_jerk")[:2], rel=1e-9)
