"""The reach screen: is there a grasp in a case at all that its arms can take? Made once, when cases are built.

Up to 8 seeded grasps; for each, inverse kinematics to the frame before it and to the grasp; the arms are put there
and driven to stay for 40 iterations of 4 physics steps. Attainable when no arm joint is off by 0.05 rad or more; the
first attainable grasp ends the search. It is independent of any planner's outcome. Source: atomic-skills
specification, section 6, step 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

from trialplate.spec.skills import skill_case
from trialplate.suites.atomic_skills.ladders import SKILLS
from trialplate.suites.atomic_skills.planners import grasps
from trialplate.suites.atomic_skills.planners.case_view import CaseView
from trialplate.suites.atomic_skills.planners.offers import offered_grasps
from trialplate.suites.atomic_skills.rigid import FloatArray
from trialplate.suites.atomic_skills.world.robot import ArmNames
from trialplate.suites.atomic_skills.world.scene import compose

SEEDS = 8
ITERATIONS, STEPS = 40, 4
ATTAINABLE_RAD = 0.05
_DECIMALS = 6


def screen(case: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the evidence for a case: what was tried and how far off the arms were; None where nothing is sampled."""
    if not SKILLS[case["skill"]].samples_grasps:
        return None
    composed = compose(case)
    model = composed.spec.compile()
    drive = _Drive(model, composed.arms, start_rad=case["q_start"])
    tried: list[dict[str, Any]] = []
    for seed in range(case["grasp_seed"], case["grasp_seed"] + SEEDS):
        view = CaseView(skill_case({**case, "grasp_seed": seed}))
        off_rad = _off_rad(view, drive)
        tried.append({"grasp_seed": seed, "max_joint_error_rad": off_rad})
        if off_rad is not None and off_rad < ATTAINABLE_RAD:
            break
    last = tried[-1]["max_joint_error_rad"]
    return {"attainable": last is not None and last < ATTAINABLE_RAD, "tried": tried}


def _off_rad(view: CaseView, drive: _Drive) -> float | None:
    """Return the largest joint error at the frames before and at the grasps; None where one has no solution."""
    worst = 0.0
    for arm, frames in offered_grasps(view).items():
        near = np.array(view.case.q_start[7 * arm : 7 * arm + 6])
        grasp = frames[int(view.random.integers(len(frames)))] if view.case.grasp_seed else frames[0]
        for frame in (grasps.backed(grasp), grasp):
            found = view.joints_for(frame, near_rad=near, arm=arm)
            if not found:
                return None
            near = found[0]
            worst = max(worst, drive.stay(near, arm=arm))
    return round(worst, _DECIMALS)


class _Drive:
    """Puts one arm of a scene somewhere and lets its drives hold it."""

    def __init__(self, model: mujoco.MjModel, arms: Sequence[ArmNames], *, start_rad: Sequence[float]) -> None:
        self._start_rad = start_rad
        self._model, self._data = model, mujoco.MjData(model)
        self._qpos = [[model.joint(name).qposadr[0] for name in arm.joints] for arm in arms]
        self._ctrl = [[model.actuator(name).id for name in arm.actuators] for arm in arms]

    def stay(self, joint_rad: FloatArray, *, arm: int) -> float:
        """Return the largest joint error after the iterations."""
        model, data = self._model, self._data
        mujoco.mj_resetData(model, data)
        for other, (ctrl, qpos) in enumerate(zip(self._ctrl, self._qpos, strict=True)):
            data.qpos[qpos] = data.ctrl[ctrl] = self._start_rad[7 * other : 7 * other + 6]
        data.qpos[self._qpos[arm]] = joint_rad
        data.ctrl[self._ctrl[arm]] = joint_rad
        for _ in range(ITERATIONS):
            mujoco.mj_step(model, data, nstep=STEPS)
        return float(np.abs(data.qpos[self._qpos[arm]] - joint_rad).max())
