"""Inverse kinematics of one arm by damped least squares, from several seeds. Poses are those of the tool frame.

The tool frame lies between the fingers: z points out of the hand, y from finger to finger.
"""

from __future__ import annotations

from collections.abc import Iterable

import mujoco
import numpy as np

from trialplate.suites.atomic_skills.rigid import FloatArray, rotation_vector
from trialplate.suites.atomic_skills.world.robot import HAND_PREFIX, KINEMATIC_PREFIX, TOOL_SITE, kinematic_model
from trialplate.suites.atomic_skills.world_spec import ArmSpec

DAMPING = 1e-4
ITERATIONS = 120
STEP_RAD = 0.3
REACHED_M = 2e-5
REACHED_RAD = 2e-4
LIMIT_RAD = 6.2
ELBOW_LIMIT_RAD = 3.0


class ArmKinematics:
    """Forward and inverse kinematics of one mounted arm."""

    def __init__(self, arm: ArmSpec, *, arm_model: str, hand_model: str) -> None:
        self._model = kinematic_model(arm.mount_m, arm.mount_yaw_rad, arm_model=arm_model, hand_model=hand_model)
        self._data = mujoco.MjData(self._model)
        self._site = self._model.site(KINEMATIC_PREFIX + HAND_PREFIX + TOOL_SITE).id
        self._jacobian = np.zeros((6, self._model.nv))
        self._low = np.maximum(self._model.jnt_range[:, 0], -LIMIT_RAD)
        self._high = np.minimum(self._model.jnt_range[:, 1], LIMIT_RAD)

    def forward(self, joint_rad: FloatArray) -> FloatArray:
        """Return the tool frame (4, 4) in the world at joint positions (6,)."""
        self._data.qpos[:] = joint_rad
        mujoco.mj_kinematics(self._model, self._data)
        made = np.eye(4)
        made[:3, :3] = self._data.site_xmat[self._site].reshape(3, 3)
        made[:3, 3] = self._data.site_xpos[self._site]
        return made

    def near(self, target: FloatArray, seed_rad: FloatArray) -> FloatArray | None:
        """Return joint positions (6,) that put the tool frame at ``target`` (4, 4), searched from a seed, or None."""
        joint_rad = np.array(seed_rad, dtype=np.float64)
        for _ in range(ITERATIONS):
            reached = self.forward(joint_rad)
            error = np.concatenate(
                [target[:3, 3] - reached[:3, 3], rotation_vector(target[:3, :3] @ reached[:3, :3].T)]
            )
            if np.linalg.norm(error[:3]) < REACHED_M and np.linalg.norm(error[3:]) < REACHED_RAD:
                inside = ((joint_rad >= self._low) & (joint_rad <= self._high)).all()
                return joint_rad if inside else None
            mujoco.mj_comPos(self._model, self._data)
            mujoco.mj_jacSite(self._model, self._data, self._jacobian[:3], self._jacobian[3:], self._site)
            squared = self._jacobian @ self._jacobian.T + DAMPING * np.eye(6)
            step = self._jacobian.T @ np.linalg.solve(squared, error)
            longest = float(np.abs(step).max())
            joint_rad += step * min(1.0, STEP_RAD / longest) if longest > 0.0 else step
        return None

    def solutions(self, target: FloatArray, seeds: Iterable[FloatArray], *, near_rad: FloatArray) -> list[FloatArray]:
        """Return the different solutions from several seeds, those that move least from ``near_rad`` first."""
        found: list[FloatArray] = []
        for seed in seeds:
            solved = self.near(target, seed)
            if solved is None:
                continue
            solved = near_rad + (solved - near_rad + np.pi) % (2 * np.pi) - np.pi
            if ((solved < self._low) | (solved > self._high)).any():
                continue
            if all(np.abs(solved - other).max() > 0.05 for other in found):
                found.append(solved)
        return sorted(found, key=lambda joint_rad: float(np.abs(joint_rad - near_rad).max()))
