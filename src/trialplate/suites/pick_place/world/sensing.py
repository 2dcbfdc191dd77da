"""Direct views into one compiled world: what a step writes and what a measurement reads, without a lookup by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import mujoco
import numpy as np
from numpy.typing import NDArray

from trialplate.errors import HarnessFault, nearest
from trialplate.suites.pick_place.channels import COLUMNS, SLICES
from trialplate.suites.pick_place.settings import EstimateNoise
from trialplate.worlds.arm_control import Pose
from trialplate.worlds.panda import PandaNames

FloatArray = NDArray[np.float64]


class Views:
    """Views into model and data of one world. The block's goal and resting height are read from the model."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, *, robot: PandaNames) -> None:
        block = model.joint("block")
        at, dof = int(block.qposadr[0]), int(block.dofadr[0])
        arm = [int(model.joint(name).qposadr[0]) for name in robot.joints]
        fingers = [int(model.joint(name).qposadr[0]) for name in robot.finger_joints]
        self.block_pos_m = data.qpos[at : at + 3]
        self.block_wxyz = data.qpos[at + 3 : at + 7]
        self.block_velocity_m_s = data.qvel[dof : dof + 3]
        self.joint_rad = data.qpos[arm[0] : arm[0] + len(arm)]
        self.fingers_m = data.qpos[fingers[0] : fingers[0] + len(fingers)]
        self.ee_pos_m = data.site_xpos[model.site(robot.ee_site).id]
        self.hand_wxyz = data.xquat[model.body(robot.hand_body).id]
        self.pads_m = tuple(data.geom_xpos[model.geom(pad).id] for pad in robot.pads)
        self.block_force_n = data.xfrc_applied[model.body("block").id, :3]
        self.goal_pos_m = model.body("goal").pos.copy()
        self.resting_m = float(model.geom("block").size[2])
        self.started_m = float(self.block_pos_m[2])


class Reader:
    """Fills measurements of one episode."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._values = np.zeros(sum(column.dim for column in COLUMNS))
        self._goal_x_m, self._goal_y_m = (float(value) for value in views.goal_pos_m[:2])
        self._at: Mapping[str, FloatArray] = {name: self._values[where] for name, where in SLICES.items()}

    def read(self, *, attached: bool, gripper_command: float, commanded: Pose) -> FloatArray:
        """Return the present measurement (D,), a copy in the order of the suite's columns."""
        views, at = self._views, self._at
        x_m, y_m, z_m = views.block_pos_m.tolist()
        left, right = views.pads_m[0].tolist(), views.pads_m[1].tolist()
        centre = [(a + b) / 2.0 for a, b in zip(left, right, strict=True)]
        at["object_pos_m"][:] = views.block_pos_m
        at["object_quat_wxyz"][:] = views.block_wxyz
        at["object_speed_m_s"][0] = math.hypot(*views.block_velocity_m_s.tolist())
        at["object_lift_m"][0] = z_m - views.started_m
        at["object_height_m"][0] = z_m - views.resting_m
        at["goal_offset_m"][0] = math.hypot(x_m - self._goal_x_m, y_m - self._goal_y_m)
        at["finger_centre_pos_m"][:] = centre
        at["finger_object_distance_m"][0] = math.dist(centre, (x_m, y_m, z_m))
        at["finger_gap_m"][0] = views.fingers_m[0] + views.fingers_m[1]
        at["attached"][0] = attached
        at["gripper_command"][0] = gripper_command
        at["ee_pos_m"][:] = views.ee_pos_m
        at["ee_quat_wxyz"][:] = views.hand_wxyz
        at["commanded_pos_m"][:] = commanded.position_m
        at["joint_pos_rad"][:] = views.joint_rad
        at["push_n"][:] = views.block_force_n
        return self._values.copy()


class Proprio:
    """The proprioceptive channels of one episode. Estimates draw from their own streams, one per channel."""

    def __init__(self, views: Views, *, noise: EstimateNoise, seed: int, estimates: bool) -> None:
        self._read: dict[str, Callable[[], FloatArray]] = {
            "joint_pos": views.joint_rad.copy,
            "finger_pos": views.fingers_m.copy,
            "ee_pos": views.ee_pos_m.copy,
            "ee_quat": views.hand_wxyz.copy,
        }
        if estimates:
            self._read["object_estimate"] = _estimate(views.block_pos_m, noise=noise, stream=(seed, 0))
            self._read["goal_estimate"] = _estimate(views.goal_pos_m, noise=noise, stream=(seed, 1))

    def read(self, names: tuple[str, ...]) -> dict[str, FloatArray]:
        """Return the named channels as copies. An unknown name is a HarnessFault."""
        unknown = [name for name in names if name not in self._read]
        if unknown:
            raise HarnessFault(
                f"this profile has no proprioceptive channel {unknown[0]!r}{nearest(unknown[0], self._read)}",
                code="observation_unhealthy",
            )
        return {name: self._read[name]() for name in names}


def _estimate(true_m: FloatArray, *, noise: EstimateNoise, stream: tuple[int, int]) -> Callable[[], FloatArray]:
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(stream)))
    bias_m = generator.normal(0.0, noise.bias_sd_m, 3)

    def read() -> FloatArray:
        reading: FloatArray = true_m + bias_m + generator.normal(0.0, noise.noise_sd_m, 3)
        return reading

    return read
