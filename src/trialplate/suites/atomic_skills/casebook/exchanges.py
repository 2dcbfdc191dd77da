"""Held-out objects: what is held becomes a six-sided prism, or a round-ended rod that lies where the other stood.

A new shape keeps the size of the old one as far as it can; start and command turn with it, so that a lying prism
rests on a flat and a rod, which cannot stand, lies. Source: atomic-skills specification, section 11.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from trialplate.suites.atomic_skills.casebook.layout import HALF, product, turned

Case = dict[str, Any]
Pose = list[float]

PRISM_RADIUS_M = 0.028
SMALL = frozenset({"block"})
THIN = frozenset({"pencil"})
SMALL_RADIUS_M, THIN_RADIUS_M = 0.022, 0.0115
ROD_RADIUS_M, ROD_HALF_M = 0.024, 0.040
_X, _Y, _Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
_AS_IT_IS = [1.0, 0.0, 0.0, 0.0]
_TO_LEVEL = turned(_Y, HALF)  # own z along what was own x
_BAR_AXIS = turned(_X, -HALF)  # own z along what was own y
_ON_A_FLAT = turned(_Z, math.pi / 6.0)


def hex_prism(nominal: Mapping[str, Any]) -> Case:
    """Exchange what is held for a prism, as tall or as long as it was."""
    name = nominal["command"]["object"]
    old = _thing(nominal, name)
    radius_m = _radius_m(name)
    half_m = max(old["size_m"]) if name == "bar" else old["size_m"][-1]
    lies = name in ("bar", *THIN) or _lies(nominal["poses"][name])
    own = product(_BAR_AXIS, _ON_A_FLAT) if name == "bar" else _ON_A_FLAT if lies else _AS_IT_IS
    height_m = radius_m * math.cos(math.pi / 6.0) if lies else half_m
    new = {**old, "shape": "hex_prism", "size_m": [radius_m, half_m]}
    return _exchanged(nominal, new, own=own, old_height_m=nominal["poses"][name][2], height_m=height_m)


def capsule(nominal: Mapping[str, Any]) -> Case:
    """Exchange what is held for a rod with round ends. It lies: along x or, for two hands, along y."""
    name = nominal["command"]["object"]
    old = _thing(nominal, name)
    long = name in ("bar", "pencil", "tall_can")
    radius_m = THIN_RADIUS_M if long and name != "bar" else 0.018 if name in SMALL else ROD_RADIUS_M
    half_m = 0.190 if name == "bar" else 0.125 if long else 0.020 if name in SMALL else ROD_HALF_M
    laid = _lies(nominal["poses"][name])
    own = _AS_IT_IS if laid else _BAR_AXIS if long or name in SMALL else _TO_LEVEL
    new = {**old, "shape": "capsule", "size_m": [radius_m, half_m]}
    made = _exchanged(nominal, new, own=own, old_height_m=nominal["poses"][name][2], height_m=radius_m)
    return _lying_command(made, stood=not laid)


def _lying_command(case: Case, *, stood: bool) -> Case:
    """Return the case with what is asked of an axis that now lies."""
    command = dict(case["command"])
    if case["skill"] == "pour":
        command["axis"] = list(_Z)  # along the rod, which points away from the robot
    if case["skill"] == "axis_align" and stood:
        command["world_axis"] = list(_Y)
    if case["skill"] == "pick_up":
        command["grasp"] = "top"
    return {**case, "command": command}


def _exchanged(
    nominal: Mapping[str, Any], new: Mapping[str, Any], *, own: Sequence[float], old_height_m: float, height_m: float
) -> Case:
    """Return the case with another object, whose own frame is turned by ``own``, and rests at another height."""
    name = new["name"]
    up_m = height_m - old_height_m
    things = [dict(new) if thing["name"] == name else thing for thing in nominal["world"]["objects"]]
    command = dict(nominal["command"])
    if "pose" in command:
        command["pose"] = _turned(command["pose"], own, up_m)
    if "target_m" in command:
        command["target_m"] = [*command["target_m"][:2], command["target_m"][2] + up_m]
    if "relative_pose" in command:
        command["relative_pose"] = _turned(command["relative_pose"], own, up_m)
    poses = {**nominal["poses"], name: _turned(nominal["poses"][name], own, up_m)}
    return {**nominal, "poses": poses, "command": command, "world": {**nominal["world"], "objects": things}}


def _turned(pose: Sequence[float], own: Sequence[float], up_m: float) -> Pose:
    return [pose[0], pose[1], pose[2] + up_m, *product(pose[3:], own)]


def _thing(nominal: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(thing for thing in nominal["world"]["objects"] if thing["name"] == name)
    return found


def _lies(pose: Sequence[float]) -> bool:
    """Say whether an object's z axis is level."""
    _, x, y, _ = pose[3:]
    return abs(1.0 - 2.0 * (x * x + y * y)) < 0.5


def _radius_m(name: str) -> float:
    return THIN_RADIUS_M if name in THIN else SMALL_RADIUS_M if name in SMALL else PRISM_RADIUS_M
