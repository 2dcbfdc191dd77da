"""Held-out set v1: domains that informed no case, tolerance or parameter of the baseline. One variation each.

Source: atomic-skills specification, section 11.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from trialplate.suites.atomic_skills.casebook.exchanges import capsule, hex_prism
from trialplate.suites.atomic_skills.casebook.layout import sealed
from trialplate.suites.atomic_skills.casebook.skills import STAGINGS
from trialplate.suites.atomic_skills.ladders import SKILLS

VERSION = "1"
Case = dict[str, Any]
Change = Callable[[Mapping[str, Any]], Case]

RAISED_M = 0.10
WIDE_M, STIFFER = 0.50, 3.0
DOOR_RAD = math.radians(120.0)
ARM, HAND = "universal_robots_ur10e", "franka_emika_panda_hand"


def held_out_cases(heads: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Case]:
    """Yield the cases of every domain, made from the first nominal cases of each skill that it applies to."""
    for domain, (applies, change) in DOMAINS.items():
        for skill, cases in heads.items():
            if not applies(skill):
                continue
            for number, nominal in enumerate(cases):
                case = change(nominal)
                case |= {"set": "adaptability", "domain": domain, "case_id": f"{skill}.{domain}-{number}"}
                yield sealed(case)


def wide_stiff(nominal: Mapping[str, Any]) -> Case:
    """A wider door, a drawer that resists three times as much."""
    asset = dict(nominal["world"]["asset"])
    if asset["kind"] == "door":
        asset["width_m"] = WIDE_M
    else:
        asset["frictionloss"] = asset["frictionloss"] * STIFFER
    return {**nominal, "world": {**nominal["world"], "asset": asset}}


def raised(nominal: Mapping[str, Any]) -> Case:
    """Raise the support, and mirror what stands and what is asked for to the other side of the robot."""
    up_m = RAISED_M if nominal["scene"] != "free_space" else 0.0
    world = {**nominal["world"], "support_height_m": nominal["world"]["support_height_m"] + up_m}
    poses = {name: _mirrored(pose, up_m) for name, pose in nominal["poses"].items()}
    return {**nominal, "poses": poses, "command": _mirrored_command(nominal, up_m), "world": world}


def _mirrored_command(nominal: Mapping[str, Any], up_m: float) -> dict[str, Any]:
    """Return the command seen in the mirror y -> -y; an arm of two changes places with the other."""
    command = dict(nominal["command"])
    if "pose" in command:
        command["pose"] = _mirrored(command["pose"], up_m)
    if "relative_pose" in command:
        command["relative_pose"] = _mirrored(command["relative_pose"], 0.0)
    if "target_m" in command:
        x, y, z = command["target_m"]
        command["target_m"] = [x, -y, z + up_m]
    if "q_target" in command:
        pan, *others = command["q_target"]
        command["q_target"] = [2.0 * nominal["q_start"][0] - pan, *others]
    for name in ("world_axis", "axis"):
        if name in command:
            command[name] = [command[name][0], -command[name][1], command[name][2]]
    for arm in ("placing_arm", "support_arm", "source_arm", "destination_arm"):
        if arm in command:
            command[arm] = 1 - command[arm]
    return command


def _mirrored(pose: Sequence[float], up_m: float) -> list[float]:
    x, y, z, qw, qx, qy, qz = pose
    return [x, -y, z + up_m, qw, -qx, qy, -qz]


def other_hand(nominal: Mapping[str, Any]) -> Case:
    """The same arm with another hand."""
    return {**nominal, **_models(nominal, "hand_model", HAND)}


def other_arm(nominal: Mapping[str, Any]) -> Case:
    """Another arm with the same hand."""
    return {**nominal, **_models(nominal, "arm_model", ARM)}


def _models(nominal: Mapping[str, Any], member: str, model: str) -> dict[str, Any]:
    world = {**nominal["world"], member: model}
    return {"world": world, "model_path": f"{world['arm_model']}+{world['hand_model']}"}


def door_120(nominal: Mapping[str, Any]) -> Case:
    """Ask for more than any nominal case does."""
    return {**nominal, "command": {**nominal["command"], "angle_rad": DOOR_RAD}}


def _holding(skill: str) -> bool:
    return SKILLS[skill].holds_object


DOMAINS: Mapping[str, tuple[Callable[[str], bool], Change]] = {
    "obj_hex_prism": (_holding, hex_prism),
    "obj_capsule": (_holding, capsule),
    "asset_wide_stiff": (lambda skill: skill in ("open_door", "slide"), wide_stiff),
    "layout_raised": (lambda skill: skill in STAGINGS, raised),
    "gripper_panda_hand": (lambda skill: skill in STAGINGS, other_hand),
    "arm_ur10e": (lambda skill: skill in STAGINGS, other_arm),
    "command_door_120": (lambda skill: skill == "open_door", door_120),
}
"""Domain -> does it apply to a skill, and what it changes."""
