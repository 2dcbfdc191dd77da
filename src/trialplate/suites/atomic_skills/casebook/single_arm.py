"""Nominal cases of one arm in free space and at the table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

from trialplate.suites.atomic_skills.casebook import layout
from trialplate.suites.atomic_skills.casebook.layout import (
    DOWN_RAD,
    HALF,
    HOME_RAD,
    OBJECTS,
    Difficulty,
    about_z,
    case,
    half_height_m,
    laid,
    standing,
    turned,
    world,
)

Case = dict[str, Any]

_JOINT_STEPS = (
    (0.6, 0.3, -0.4, 0.2, 0.3, 0.5), (-0.5, 0.2, -0.3, 0.4, -0.2, 0.8), (0.9, -0.3, 0.4, -0.5, 0.6, -0.9),
    (0.2, 0.1, -0.1, 0.1, 0.1, 0.2), (-0.3, -0.2, 0.2, -0.2, 0.3, -0.4), (0.7, 0.4, -0.6, 0.5, -0.5, 0.3),
    (-0.9, 0.3, -0.2, -0.4, 0.4, 1.2), (1.2, -0.2, 0.3, 0.6, -0.6, -1.1), (0.4, 0.4, -0.8, 0.4, 0.2, -0.2),
    (-0.6, -0.4, 0.5, 0.3, 0.5, 0.6), (1.0, 0.2, -0.5, -0.6, 0.8, -1.4), (-1.1, 0.1, 0.2, 0.7, -0.7, 1.5),
)  # fmt: skip
_TOOL_TARGETS = (
    (0.48, -0.15, 0.25), (0.55, 0.20, 0.30), (0.42, 0.05, 0.38), (0.60, -0.05, 0.22),
    (0.50, 0.10, 0.18), (0.45, -0.22, 0.32), (0.58, 0.12, 0.40), (0.40, 0.18, 0.24),
)  # fmt: skip
_TOOL_TILTS = ((0.0, 0.0), (0.35, 0.4), (-0.5, -0.7))  # about the tool's x, about the vertical
SPOTS = (
    (0.42, -0.12, 0.0), (0.44, 0.12, 0.35), (0.56, -0.10, -0.44), (0.56, 0.12, 0.70),
    (0.48, 0.00, 0.17), (0.50, -0.18, -0.26), (0.60, 0.02, 0.52), (0.40, 0.06, -0.61),
)  # fmt: skip
"""Places on the table: x, y, yaw."""
_HELD = ("cube", "box", "can")
_TARGETS = (
    (0.50, -0.15, 0.20, 0.0), (0.44, 0.15, 0.25, 0.4), (0.58, 0.05, 0.18, -0.5), (0.52, 0.10, 0.30, 0.8),
)  # fmt: skip
"""Where a held object goes: x, y, z, turn about the vertical."""
_HELD_FROM = ((0.46, 0.02, 0.0), (0.50, 0.08, 0.3), (0.44, -0.06, -0.3), (0.54, -0.02, 0.5))
POUR_TILT_DEG = (30.0, 45.0, 90.0)


def _grade(*, hard: bool, medium: bool) -> Difficulty:
    return "hard" if hard else "medium" if medium else "simple"


def move_joints() -> Iterator[Case]:
    """Yield joint targets around the home pose; harder ones are farther."""
    for number, steps in enumerate(_JOINT_STEPS):
        farthest = max(abs(step) for step in steps)
        yield case(
            "move_joints", f"q{number:02d}", difficulty=_grade(hard=farthest > 1.0, medium=farthest > 0.6),
            start_rad=(HOME_RAD,), scene_world=world(), poses={},
            command={"q_target": [home + step for home, step in zip(HOME_RAD, steps, strict=True)]},
        )  # fmt: skip


def move_end_effector() -> Iterator[Case]:
    """Yield tool poses; harder ones are tilted."""
    for number, (tilt, target) in enumerate(product(_TOOL_TILTS, _TOOL_TARGETS)):
        down = [0.0, 1.0, 0.0, 0.0]  # tool z down, tool y backwards
        yaw = layout.product(about_z(tilt[1]), down)
        yield case(
            "move_end_effector", f"t{number:02d}", difficulty=_grade(hard=tilt[0] < 0.0, medium=tilt[0] > 0.0),
            start_rad=(DOWN_RAD,), scene_world=world(), poses={},
            command={"pose": [*target, *layout.product(yaw, turned((1.0, 0.0, 0.0), tilt[0]))]},
        )  # fmt: skip


def pick_up() -> Iterator[Case]:
    """Yield objects by places by grasps, the first four places first."""
    for half in (SPOTS[:4], SPOTS[4:]):
        for name, (spot, (x, y, yaw)), grasp in product(("box", "cube", "can"), enumerate(half), ("top", "side")):
            thing = OBJECTS[name]
            place = spot + (0 if half is SPOTS[:4] or half == SPOTS[:4] else 4)
            yield case(
                "pick_up", f"{name}-p{place}-{grasp}",
                difficulty=_grade(hard=grasp == "side" and abs(yaw) > 0.4, medium=grasp == "side" or abs(yaw) > 0.4),
                start_rad=(DOWN_RAD,), scene_world=world(objects=(name,)),
                poses={name: standing(thing, x, y_m=y, yaw_rad=yaw)},
                command={"object": name, "grasp": grasp, "lift_m": 0.10},
            )  # fmt: skip


def axis_align() -> Iterator[Case]:
    """Yield lying things to set upright and standing things to lay over, 90 deg off each."""
    for spot, ((x, y, yaw), way) in enumerate(product(SPOTS[:1] + SPOTS[4:7], ("upright", "horizontal"))):
        thing, upright = OBJECTS["can"], way == "upright"
        lies = laid(thing, x, y_m=y, yaw_rad=yaw)
        yield case(
            "axis_align", f"{way}-p{spot // 2}", difficulty=_grade(hard=abs(yaw) > 0.4, medium=upright),
            start_rad=(DOWN_RAD,), scene_world=world(objects=("can",)),
            poses={"can": lies if upright else standing(thing, x, y_m=y, yaw_rad=yaw)},
            command={
                "object": "can", "object_axis": [0.0, 0.0, 1.0],
                "world_axis": [0.0, 0.0, 1.0] if upright else [0.0, 1.0, 0.0],
            },
        )  # fmt: skip


def _held_cases(skill: str) -> Iterator[tuple[str, int, tuple[float, float, float], tuple[float, ...]]]:
    """Yield object, number, where it is taken and where it goes; the first twelve differ in object and target."""
    for (number, start), name, (aim, target) in product(enumerate(_HELD_FROM), _HELD, enumerate(_TARGETS)):
        yield name, number * len(_TARGETS) + aim, start, target


def move_held_object() -> Iterator[Case]:
    """Yield poses in the air for a held object."""
    for name, number, (x, y, yaw), target in _held_cases("move_held_object"):
        yield case(
            "move_held_object", f"{name}-t{number:02d}",
            difficulty=_grade(hard=abs(target[3]) > 0.6, medium=abs(target[3]) > 0.1),
            start_rad=(DOWN_RAD,), scene_world=world(objects=(name,)),
            poses={name: standing(OBJECTS[name], x, y_m=y, yaw_rad=yaw)},
            command={"object": name, "pose": [*target[:3], *about_z(yaw + target[3])]},
        )  # fmt: skip


def place() -> Iterator[Case]:
    """Yield resting poses on the table for a held object."""
    for name, number, (x, y, yaw), target in _held_cases("place"):
        yield case(
            "place", f"{name}-t{number:02d}",
            difficulty=_grade(hard=abs(target[3]) > 0.6, medium=abs(target[3]) > 0.1),
            start_rad=(DOWN_RAD,), scene_world=world(objects=(name,)),
            poses={name: standing(OBJECTS[name], x, y_m=y, yaw_rad=yaw)},
            command={
                "object": name,
                "pose": [target[0], target[1], half_height_m(OBJECTS[name]), *about_z(yaw + target[3])],
            },
        )  # fmt: skip


def pour() -> Iterator[Case]:
    """Yield angles about an axis of the object that lies level and points away from the robot at the start."""
    for (number, (x, y, yaw)), degrees in product(enumerate(_HELD_FROM[:3]), POUR_TILT_DEG):
        yield case(
            "pour", f"a{degrees:.0f}-p{number}", difficulty=_grade(hard=degrees > 60.0, medium=degrees > 40.0),
            start_rad=(DOWN_RAD,), scene_world=world(objects=("can",)),
            poses={"can": standing(OBJECTS["can"], x, y_m=y, yaw_rad=yaw)},
            command={
                "object": "can", "axis": [math.cos(yaw), -math.sin(yaw), 0.0], "angle_rad": math.radians(degrees),
            },
        )  # fmt: skip


def push_object() -> Iterator[Case]:
    """Yield straight pushes over the table: away from the robot and to the sides."""
    ways = ((0.0, 0.12), (HALF, 0.10), (-HALF, 0.10), (0.5, 0.12))
    for (number, (x, y)), (angle, way_m) in product(
        enumerate(((0.44, 0.0), (0.48, 0.06), (0.42, -0.08), (0.5, 0.0))), ways
    ):
        thing = OBJECTS["cube"]
        end = (x + way_m * math.cos(angle), y + way_m * math.sin(angle))
        direction = {0.0: "away", HALF: "left", -HALF: "right", 0.5: "slanted"}[angle]
        yield case(
            "push_object", f"{direction}-p{number}", difficulty=_grade(hard=angle == 0.5, medium=angle != 0.0),
            start_rad=(DOWN_RAD,), scene_world=world(objects=("cube",)),
            poses={"cube": standing(thing, x, y_m=y, yaw_rad=angle)},
            command={"object": "cube", "pose": standing(thing, end[0], y_m=end[1], yaw_rad=angle)},
        )  # fmt: skip
