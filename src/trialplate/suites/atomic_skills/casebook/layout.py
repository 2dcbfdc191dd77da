"""What the cases are made of: arms, start joints, objects, and the whole document of a case."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from trialplate.canonical import document_sha256
from trialplate.suites.atomic_skills.casebook.skills import STAGINGS
from trialplate.suites.atomic_skills.ladders import SKILLS

ARM_MODEL, HAND_MODEL = "universal_robots_ur5e", "robotiq_2f85"
PLAN_TIMEOUT_S = 60
Difficulty = Literal["simple", "medium", "hard"]
JOINT_NAMES = ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
JOINT_LIMIT_RAD = (6.28319, 6.28319, 3.1415, 6.28319, 6.28319, 6.28319)

HALF = math.pi / 2.0
HOME_RAD = (-HALF, -HALF, HALF, -HALF, -HALF, 0.0)
DOWN_RAD = (-1.8732, -1.7159, 1.7867, -1.6416, -1.5708, -0.3024)  # tool at (0.45, 0, 0.30), pointing down
FORWARD_RAD = (-2.0405, -1.6932, 2.3416, -0.6427, 1.0998, 0.0)  # tool at (0.55, 0, 0.25), pointing forward
LEFT_DOWN_RAD = (-2.1609, -1.7492, 1.8142, -1.6358, -1.5708, -2.1609)  # tool at (0.42, 0.28, 0.30)
RIGHT_DOWN_RAD = (-1.6043, -1.7492, 1.8142, -1.6358, -1.5708, -1.6043)  # tool at (0.42, -0.28, 0.30)
OPEN = 1.0

SINGLE = ({"name": "arm", "mount_m": [0.0, 0.0, 0.0], "mount_yaw_rad": -HALF},)
DUAL = (
    {"name": "left", "mount_m": [0.0, 0.4, 0.0], "mount_yaw_rad": -HALF},
    {"name": "right", "mount_m": [0.0, -0.4, 0.0], "mount_yaw_rad": -HALF},
)

_GRIPPY = [0.8, 0.005, 0.0001]
OBJECTS: Mapping[str, dict[str, Any]] = {
    "box": {
        "name": "box", "shape": "box", "size_m": [0.030, 0.020, 0.045], "mass_kg": 0.15, "friction": _GRIPPY,
        "rgba": [0.16, 0.42, 0.66, 1.0],
    },
    "cube": {
        "name": "cube", "shape": "box", "size_m": [0.025, 0.025, 0.025], "mass_kg": 0.12, "friction": _GRIPPY,
        "rgba": [0.78, 0.22, 0.16, 1.0],
    },
    "can": {
        "name": "can", "shape": "cylinder", "size_m": [0.030, 0.050], "mass_kg": 0.15, "friction": _GRIPPY,
        "rgba": [0.20, 0.58, 0.34, 1.0],
    },
    "tall_can": {
        "name": "tall_can", "shape": "cylinder", "size_m": [0.026, 0.080], "mass_kg": 0.15, "friction": _GRIPPY,
        "rgba": [0.20, 0.58, 0.34, 1.0],
    },
    "pencil": {
        "name": "pencil", "shape": "box", "size_m": [0.010, 0.010, 0.130], "mass_kg": 0.05, "friction": _GRIPPY,
        "rgba": [0.86, 0.66, 0.14, 1.0],
    },
    "bar": {
        "name": "bar", "shape": "box", "size_m": [0.025, 0.200, 0.025], "mass_kg": 0.30, "friction": _GRIPPY,
        "rgba": [0.62, 0.47, 0.30, 1.0],
    },
    "plate": {
        "name": "plate", "shape": "box", "size_m": [0.030, 0.110, 0.015], "mass_kg": 0.15, "friction": _GRIPPY,
        "rgba": [0.62, 0.47, 0.30, 1.0],
    },
    "block": {
        "name": "block", "shape": "box", "size_m": [0.020, 0.020, 0.025], "mass_kg": 0.06, "friction": _GRIPPY,
        "rgba": [0.78, 0.22, 0.16, 1.0],
    },
}  # fmt: skip
"""Our own shapes; standing on z unless a case lays them down."""


def about_z(angle_rad: float) -> list[float]:
    """Return the quaternion wxyz of a turn about the vertical."""
    return [math.cos(angle_rad / 2.0), 0.0, 0.0, math.sin(angle_rad / 2.0)]


def product(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """Return the quaternion that turns by ``b`` first, then by ``a``."""
    return [
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    ]


def lying(yaw_rad: float) -> list[float]:
    """Return the orientation of an object whose z axis lies along the direction ``yaw_rad`` in the plane."""
    return product(about_z(yaw_rad), [math.cos(HALF / 2.0), 0.0, math.sin(HALF / 2.0), 0.0])


def turned(axis: Sequence[float], angle_rad: float) -> list[float]:
    """Return the quaternion of a turn about a unit axis."""
    sine = math.sin(angle_rad / 2.0)
    return [math.cos(angle_rad / 2.0), *(sine * value for value in axis)]


def half_height_m(thing: Mapping[str, Any]) -> float:
    """Return how high the centre of an object is over the support when it stands on z."""
    size = thing["size_m"]
    if thing["shape"] == "box":
        return float(size[2])
    return float(size[1] + (size[0] if thing["shape"] == "capsule" else 0.0))


def standing(thing: Mapping[str, Any], x_m: float, *, y_m: float, yaw_rad: float = 0.0) -> list[float]:
    """Return the pose of an object that stands on the support at height 0."""
    return [x_m, y_m, half_height_m(thing), *about_z(yaw_rad)]


def laid(thing: Mapping[str, Any], x_m: float, *, y_m: float, yaw_rad: float) -> list[float]:
    """Return the pose of an object that lies on the support with its z axis along ``yaw_rad``."""
    return [x_m, y_m, float(thing["size_m"][0]), *lying(yaw_rad)]


def world(
    *, objects: Sequence[str] = (), asset: Mapping[str, Any] | None = None, dual: bool = False
) -> dict[str, Any]:
    """Return the nominal world with some objects and at most one articulated part."""
    return {
        "support_height_m": 0.0,
        "arm_model": ARM_MODEL,
        "hand_model": HAND_MODEL,
        "arms": [dict(arm) for arm in (DUAL if dual else SINGLE)],
        "objects": [dict(OBJECTS[name]) for name in objects],
        "asset": None if asset is None else dict(asset),
        "friction_scale": 1.0,
    }


def dof_of(arms: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the plan's columns: six joints and a gripper for each arm."""
    columns: list[dict[str, Any]] = []
    for arm in arms:
        for name, limit in zip(JOINT_NAMES, JOINT_LIMIT_RAD, strict=True):
            columns.append({"name": f"{arm['name']}_{name}", "unit": "rad", "low": -limit, "high": limit})
        columns.append({"name": f"{arm['name']}_gripper", "unit": "1", "low": 0.0, "high": 1.0})
    return columns


def case(
    skill: str,
    label: str,
    *,
    difficulty: Difficulty,
    start_rad: Sequence[Sequence[float]],
    scene_world: dict[str, Any],
    poses: Mapping[str, Sequence[float]],
    command: Mapping[str, Any],
    variant: int = 0,
) -> dict[str, Any]:
    """Return the nominal case document of a skill, sealed with its digest.

    ``variant``: which of the lists of segments that the skill may have.
    """
    q_start = [value for arm in start_rad for value in (*arm, OPEN)]
    made = {
        "case_id": f"{skill}.{label}",
        "skill": skill,
        "set": "nominal",
        "domain": None,
        "axis": None,
        "difficulty": difficulty,
        "scene": STAGINGS[skill].scene,
        "model_path": f"{scene_world['arm_model']}+{scene_world['hand_model']}",
        "q_start": q_start,
        "dof": dof_of(scene_world["arms"]),
        "poses": {name: [float(value) for value in pose] for name, pose in poses.items()},
        "command": dict(command),
        "segments": list(SKILLS[skill].segments[variant]),
        "required_capabilities": list(STAGINGS[skill].capabilities),
        "grasp_seed": 0,
        "plan_timeout_s": PLAN_TIMEOUT_S,
        "world": scene_world,
        "screen": None,
    }
    return sealed(made)


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case with the digest of everything else in it."""
    plain = {name: value for name, value in document.items() if name != "case_sha256"}
    return {**plain, "case_sha256": document_sha256(plain)}
