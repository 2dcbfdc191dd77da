"""Perturbation set v1: each axis moves one thing of a nominal case, inside the same assets, scene and embodiment.

Source: atomic-skills specification, section 10.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trialplate.suites.atomic_skills.casebook.layout import about_z, product, sealed
from trialplate.suites.atomic_skills.casebook.skills import STAGINGS
from trialplate.suites.atomic_skills.ladders import SKILLS

VERSION = "1"
Case = dict[str, Any]
Change = tuple[str, Case]
"""What the value of an axis is called, and the changed case, not yet sealed."""

START_SPREAD_RAD = 0.02
START_DRAWS = 3
SHIFTS = ((0.02, 0.0, 10.0), (-0.02, 0.0, -10.0), (0.0, 0.02, -10.0), (0.0, -0.02, 10.0))
"""Metres along x and y, degrees about the vertical."""
AMOUNT_FACTORS = (0.9, 1.1)
FRICTION_FACTORS = (0.7, 1.3)
MASS_FACTORS = (0.7, 1.3)
OTHER_SEEDS = (101, 102, 103)

_LARGEST_AMOUNT = {"press": 0.020, "slide": 0.30, "open_door": 2.2, "twist": 2.8, "pour": math.pi}
"""Where the range of each articulated part ends, m or rad."""


def robustness_cases(nominal: Mapping[str, Any]) -> list[Case]:
    """Return the perturbed cases of one nominal case, over all axes that apply to its skill."""
    made = []
    for axis, (applies, change) in AXES.items():
        if not applies(str(nominal["skill"])):
            continue
        for label, case in change(nominal):
            case |= {"set": "robustness", "axis": axis, "case_id": f"{nominal['case_id']}.{axis}-{label}"}
            made.append(sealed(case))
    return made


def initial_pose(nominal: Mapping[str, Any]) -> Iterator[Change]:
    """Move every arm joint a little: seeded, uniform."""
    for draw in range(START_DRAWS):
        moved = [
            value + (START_SPREAD_RAD * _uniform(nominal["case_id"], draw, column) if dof["unit"] == "rad" else 0.0)
            for column, (value, dof) in enumerate(zip(nominal["q_start"], nominal["dof"], strict=True))
        ]
        yield str(draw), {**nominal, "q_start": moved}


def _uniform(case_id: str, draw: int, column: int) -> float:
    """Return a number in [-1, 1) from a name, the same on every machine."""
    digest = hashlib.sha256(f"{case_id}|{draw}|{column}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2.0**47 - 1.0


def target_pose(nominal: Mapping[str, Any]) -> Iterator[Change]:
    """Shift and turn everything that is grasped or touched on the support plane; commands move along."""
    for number, (x_m, y_m, degrees) in enumerate(SHIFTS):
        move = _Move(_middle(nominal), (x_m, y_m), math.radians(degrees))
        poses = {name: move.pose(pose) for name, pose in nominal["poses"].items()}
        yield str(number), {**nominal, "poses": poses, "command": move.command(nominal["command"])}


def _middle(nominal: Mapping[str, Any]) -> tuple[float, float]:
    """Return the point about which a case is turned: where the target stands."""
    name = nominal["command"].get("object", "asset")
    pose = nominal["poses"][name]
    return pose[0], pose[1]


class _Move:
    """A shift and a turn in the support plane, about a point."""

    def __init__(self, about: tuple[float, float], shift: tuple[float, float], angle_rad: float) -> None:
        self._about, self._shift, self._angle_rad = about, shift, angle_rad

    def point(self, point: list[float]) -> list[float]:
        cosine, sine = math.cos(self._angle_rad), math.sin(self._angle_rad)
        x, y = point[0] - self._about[0], point[1] - self._about[1]
        return [
            self._about[0] + self._shift[0] + cosine * x - sine * y,
            self._about[1] + self._shift[1] + sine * x + cosine * y,
            point[2],
        ]

    def pose(self, pose: list[float]) -> list[float]:
        return [*self.point(pose[:3]), *product(about_z(self._angle_rad), pose[3:])]

    def command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        moved = dict(command)
        if "pose" in command:
            moved["pose"] = self.pose(command["pose"])
        if "target_m" in command:
            moved["target_m"] = self.point(command["target_m"])
        return moved


def command_amount(nominal: Mapping[str, Any]) -> Iterator[Change]:
    """Ask for a little less or more; a value that the part cannot reach is left out."""
    name = "angle_rad" if "angle_rad" in nominal["command"] else "travel_m"
    for factor in AMOUNT_FACTORS:
        wanted = nominal["command"][name] * factor
        if wanted <= _LARGEST_AMOUNT[nominal["skill"]] + 1e-12:
            yield f"x{factor}", {**nominal, "command": {**nominal["command"], name: wanted}}


def friction(nominal: Mapping[str, Any]) -> Iterator[Change]:
    """Scale the sliding friction of both partners of every contact."""
    for factor in FRICTION_FACTORS:
        yield f"x{factor}", {**nominal, "world": {**nominal["world"], "friction_scale": factor}}


def mass(nominal: Mapping[str, Any]) -> Iterator[Change]:
    """Scale the mass of every object; its inertia follows from its shape."""
    for factor in MASS_FACTORS:
        things = [{**thing, "mass_kg": thing["mass_kg"] * factor} for thing in nominal["world"]["objects"]]
        yield f"x{factor}", {**nominal, "world": {**nominal["world"], "objects": things}}


def grasp_seed(nominal: Mapping[str, Any]) -> Iterator[Change]:
    """Let planners choose among other grasps."""
    for seed in OTHER_SEEDS:
        yield str(seed), {**nominal, "grasp_seed": seed}


AXES: Mapping[str, tuple[Callable[[str], bool], Callable[[Mapping[str, Any]], Iterator[Change]]]] = {
    "initial_pose": (lambda skill: True, initial_pose),
    "target_pose": (lambda skill: STAGINGS[skill].grasp_endpoint, target_pose),
    "command": (lambda skill: STAGINGS[skill].commanded_amount, command_amount),
    "friction": (lambda skill: STAGINGS[skill].grasp_endpoint, friction),
    "mass": (lambda skill: SKILLS[skill].holds_object, mass),
    "grasp_seed": (lambda skill: SKILLS[skill].samples_grasps, grasp_seed),
}
"""Axis -> does it apply to a skill, and what it changes."""
