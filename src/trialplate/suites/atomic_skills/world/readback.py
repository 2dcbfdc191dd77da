"""The applied scene, read from the compiled model and its data after reset, and the checks that refuse a world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np

from trialplate.canonical import binary32
from trialplate.errors import HarnessFault, SceneMismatch
from trialplate.suites.atomic_skills.expected_scene import (
    MASS_AND_FRICTION,
    SCHEMA,
    differences,
)
from trialplate.suites.atomic_skills.world.contacts import Touch, target_geoms
from trialplate.suites.atomic_skills.world.parts import JOINT, TARGET_PREFIX
from trialplate.suites.atomic_skills.world.robot import ArmNames


def read_applied_scene(
    model: mujoco.MjModel, data: mujoco.MjData, *, case: Mapping[str, Any], arms: tuple[ArmNames, ...]
) -> dict[str, Any]:
    """Return what stands in the world now, in the form of ``expected_scene``."""
    world = case["world"]
    friction = {}
    q_start: list[float] = []
    for arm, spec in zip(arms, world["arms"], strict=True):
        pads = {binary32(model.geom(name).friction[0]) for name in (*arm.left_pad, *arm.right_pad)}
        friction[f"{spec['name']}_pads"] = sorted(pads)
        q_start += [binary32(data.joint(name).qpos[0]) for name in arm.joints]
        q_start.append(binary32(1.0 - float(data.joint(arm.driver_joint).qpos[0]) / arm.closed_rad))
    for thing in world["objects"]:
        friction[thing["name"]] = [binary32(model.geom(TARGET_PREFIX + thing["name"]).friction[0])]
    if case["scene"] != "free_space":
        friction["support"] = [binary32(model.geom("support").friction[0])]
    if world["asset"] is not None:
        (target,) = target_geoms(case, 0)
        friction["asset"] = [binary32(model.geom(target).friction[0])]
    return {
        "schema": SCHEMA,
        "physics": {
            "timestep_s": binary32(model.opt.timestep),
            "gravity_m_s2": [binary32(value) for value in model.opt.gravity],
            "impratio": binary32(model.opt.impratio),
        },
        "q_start": q_start,
        "poses": {
            thing["name"]: [binary32(value) for value in data.joint(f"{thing['name']}_joint").qpos]
            for thing in world["objects"]
        },
        "mass_kg": {thing["name"]: binary32(model.body(thing["name"]).mass[0]) for thing in world["objects"]},
        "friction": friction,
        "asset": None if world["asset"] is None else _asset(model, data),
        "robot_to_object_constraints": len(robot_constraints(model, arms)),
    }


def _asset(model: mujoco.MjModel, data: mujoco.MjData) -> dict[str, Any]:
    joint, base = model.joint(JOINT), model.body("asset_base")
    return {
        "joint": binary32(data.joint(JOINT).qpos[0]),
        "frictionloss": binary32(model.dof_frictionloss[joint.dofadr[0]]),
        "pose": [binary32(value) for value in (*base.pos, *base.quat)],
    }


def robot_constraints(model: mujoco.MjModel, arms: tuple[ArmNames, ...]) -> list[str]:
    """Return the active equality constraints that tie a robot to anything outside itself."""
    roots = {int(model.body_rootid[model.body(arm.base_body).id]) for arm in arms}
    found = []
    for number in range(model.neq):
        if not model.eq_active0[number]:
            continue
        first, second = _tied_roots(model, number)
        if first != second and (first in roots or second in roots):
            found.append(f"{model.equality(number).name or number}: {_body(model, first)} to {_body(model, second)}")
    return found


def _tied_roots(model: mujoco.MjModel, number: int) -> tuple[int, int]:
    """Return the root bodies of the two sides of an equality constraint."""
    kind, ends = int(model.eq_type[number]), (int(model.eq_obj1id[number]), int(model.eq_obj2id[number]))
    if kind == int(mujoco.mjtEq.mjEQ_JOINT):
        bodies = [int(model.jnt_bodyid[end]) if end >= 0 else 0 for end in ends]
    elif int(model.eq_objtype[number]) == int(mujoco.mjtObj.mjOBJ_SITE):
        bodies = [int(model.site_bodyid[end]) for end in ends]
    else:
        bodies = [max(end, 0) for end in ends]
    return int(model.body_rootid[bodies[0]]), int(model.body_rootid[bodies[1]])


def _body(model: mujoco.MjModel, number: int) -> str:
    return str(model.body(number).name)


def refuse_constraints(model: mujoco.MjModel, *, case: Mapping[str, Any], arms: tuple[ArmNames, ...]) -> None:
    """Refuse a world in which something holds an object other than friction. Raises HarnessFault ``reset_failed``."""
    found = robot_constraints(model, arms)
    if found:
        raise HarnessFault(
            f"equality_constraint: case {case['case_id']} ties a robot to something else ({'; '.join(found)}); "
            "a grasp holds by friction alone here, take the constraint out of the scene",
            code="reset_failed",
        )


def check_applied_scene(case: Mapping[str, Any], applied: Mapping[str, Any], *, expected: Mapping[str, Any]) -> None:
    """Compare the readback with what the case promises.

    Raises HarnessFault ``reset_failed`` beginning with ``perturbation_not_applied`` where a mass or friction differs,
    else SceneMismatch.
    """
    found = list(differences(expected, applied, pointer=""))
    if not found:
        return
    pointer, promised, read = found[0]
    said = f"case {case['case_id']}: {pointer} is {read!r}, the case promises {promised!r} ({len(found)} in all)"
    if pointer.startswith(MASS_AND_FRICTION):
        raise HarnessFault(f"perturbation_not_applied: {said}", code="reset_failed")
    raise SceneMismatch(said)


def refuse_initial_contact(
    model: mujoco.MjModel, data: mujoco.MjData, *, case: Mapping[str, Any], touch: Touch, threshold_n: float
) -> None:
    """Refuse a start in which the robot already touches what it may not. Raises HarnessFault ``reset_failed``."""
    wrench = np.zeros(6)
    geoms = data.contact.geom
    for index in np.flatnonzero(touch.suspect[geoms[:, 0], geoms[:, 1]]):
        mujoco.mj_contactForce(model, data, int(index), wrench)
        if wrench[0] > threshold_n:
            first, second = (touch.names[geom] for geom in geoms[index])
            raise HarnessFault(
                f"initial_contact: case {case['case_id']} starts with {first} on {second}, {wrench[0]:.2f} N; "
                "move the start joints or the object",
                code="reset_failed",
            )
