"""Does a plan drive the arms into themselves, each other or what stands fixed? Looked at in the scene's own model.

Objects and the moving part of a door or drawer are left out: they will be elsewhere by then.
"""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

from trialplate.spec.skills import SkillCase
from trialplate.suites.atomic_skills.channels import ARM_DOF
from trialplate.suites.atomic_skills.rigid import FloatArray
from trialplate.suites.atomic_skills.world.contacts import read_touch
from trialplate.suites.atomic_skills.world.scene import compose

EVERY = 4
"""Looked at: each row of this many."""
TOUCHING_M = -5e-4
"""Deeper than this is a contact; rounding is not."""


class Clearance:
    """The scene of a case, without forces."""

    def __init__(self, case: SkillCase) -> None:
        document = case.model_dump(mode="json")
        composed = compose(document)
        self._model = composed.spec.compile()
        self._data = mujoco.MjData(self._model)
        touch = read_touch(self._model, document, composed.arms)
        taken = [np.outer(hand, target) for hand, target in zip(touch.hand, touch.target, strict=True)]
        self._anything = touch.suspect | np.any([pair | pair.T for pair in taken], axis=0)
        self._suspect = touch.suspect.copy()
        loose = [geom for geom in range(self._model.ngeom) if self._is_loose(geom)]
        self._suspect[loose, :] = False
        self._suspect[:, loose] = False
        self._joints = np.array(
            [self._model.joint(name).qposadr[0] for arm in composed.arms for name in arm.joints], dtype=np.intp
        )

    def clear(self, rows: FloatArray, *, before_grasp: int = 0) -> bool:
        """Say whether rows (T, dof) keep clear; the first ``before_grasp`` of them of loose things, too."""
        arms = np.array([n for n in range(rows.shape[1]) if n % ARM_DOF != ARM_DOF - 1])
        if any(self._touches(row[arms], self._anything) for row in rows[:before_grasp:EVERY]):
            return False
        return not any(self._touches(row[arms], self._suspect) for row in rows[before_grasp::EVERY])

    def _touches(self, joint_rad: FloatArray, suspect: NDArray[np.bool_]) -> bool:
        data = self._data
        data.qpos[self._joints] = joint_rad
        mujoco.mj_kinematics(self._model, data)
        mujoco.mj_comPos(self._model, data)
        mujoco.mj_collision(self._model, data)
        if not data.ncon:
            return False
        geoms = data.contact.geom
        return bool((suspect[geoms[:, 0], geoms[:, 1]] & (data.contact.dist < TOUCHING_M)).any())

    def _is_loose(self, geom: int) -> bool:
        body = int(self._model.geom_bodyid[geom])
        name = str(self._model.body(body).name)
        robot = int(self._model.body_rootid[body])
        joints = int(self._model.body_jntnum[robot])
        free = joints == 1 and int(self._model.jnt_type[self._model.body_jntadr[robot]]) == int(
            mujoco.mjtJoint.mjJNT_FREE
        )
        return free or name == "asset_moving"
