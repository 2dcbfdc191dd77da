"""The grasps that a case offers, for planners of the suite, its set-up and its screen: tool frames for each arm.

No grasp is chosen here. Skills that take nothing by choice (moves, push, press, twist) offer none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from trialplate.errors import PlanningFailed, nearest
from trialplate.suites.atomic_skills.planners import grasps
from trialplate.suites.atomic_skills.planners.case_view import CaseView
from trialplate.suites.atomic_skills.rigid import FloatArray
from trialplate.suites.atomic_skills.settings import world_settings
from trialplate.suites.atomic_skills.world_spec import AssetSpec, ObjectSpec

Offers = Mapping[int, list[FloatArray]]
"""Arm -> tool frames (4, 4); neighbours in the list differ by which finger is where."""

UP = np.array([0.0, 0.0, 1.0])
MEET_M = (0.46, 0.0, 0.30)
"""Where a thing changes hands."""
BAR_GRIP_M = 0.14
"""From the middle of a bar that two hands lift to each hand."""
PLATE_GRIP_M = 0.080
"""From the middle of the plate to the hand that holds it."""
LEAN_RAD = 0.2
"""By how much hands that take one thing from above lean away from each other."""
CAN_LOW_M, CAN_HIGH_M = -0.018, 0.050
"""Where the first and the second hand take a standing thing, above its centre."""
ROD_GRIP_M = 0.055
"""The same along a lying thing, from its middle."""
TIP_M, PAD_HALF_M = 0.0175, 0.012
"""How far closed fingers reach beyond the tool frame, and half their width."""


def offered_grasps(view: CaseView) -> Offers:
    """Return the grasps of a case. Raises PlanningFailed for a skill that samples none."""
    skill = view.case.skill
    if skill not in _OFFERS:
        raise PlanningFailed(f"skill {skill!r} samples no grasps{nearest(skill, _OFFERS)}")
    return _OFFERS[skill](view)


def _picked(view: CaseView) -> Offers:
    if view.case.command["grasp"] == "top":
        return _from_above(view)
    return {0: list(grasps.from_side(*_object(view), support_m=view.world.support_height_m))}


def _aligned(view: CaseView) -> Offers:
    return _from_above(view) if lies(_object(view)[1]) else _level(view)


def _level(view: CaseView) -> Offers:
    """From the side without looking down, above the middle: such a grasp can be turned about the hand."""
    thing, pose = _object(view)
    if lies(pose):
        return _from_above(view)
    support_m = view.world.support_height_m
    return {0: list(grasps.from_side(thing, pose, support_m=support_m, tilt_rad=0.0, height=0.4))}


def _from_above(view: CaseView) -> Offers:
    return {0: _above(view, *_object(view))}


def _above(view: CaseView, thing: ObjectSpec, pose: FloatArray) -> list[FloatArray]:
    """Return the grasps from above of a thing that stands or lies."""
    make = grasps.of_lying if lies(pose) else grasps.from_above
    return list(make(thing, pose, support_m=view.world.support_height_m))


def lies(pose: FloatArray) -> bool:
    """Say whether the z axis of an object is level."""
    return abs(float(pose[2, 2])) < 0.5


def _drawer_bar(view: CaseView) -> Offers:
    numbers = world_settings().drawer
    base = view.frame("asset")
    front = numbers.front_m[0] / 2.0 + asset_of(view).start
    return {0: list(_of_bar(base, front_m=front, beside_m=0.0, height_m=numbers.gap_m + numbers.front_m[2] / 2.0))}


def _door_bar(view: CaseView) -> Offers:
    numbers = world_settings().door
    beside_m = numbers.handle_from_edge_m - door_width_m(view) / 2.0
    height_m = numbers.gap_m + numbers.panel_height_m / 2.0
    front_m = numbers.panel_thickness_m / 2.0
    return {0: list(_of_bar(view.frame("asset"), front_m=front_m, beside_m=beside_m, height_m=height_m))}


def _of_bar(base: FloatArray, *, front_m: float, beside_m: float, height_m: float) -> Iterator[FloatArray]:
    """Yield level grasps of the upright bar before a front face, in the frame of the part."""
    forward, aside = base[:3, 0], base[:3, 1]
    standoff_m = world_settings().handle.standoff_m
    at = base[:3, 3] - (front_m + standoff_m) * forward + beside_m * aside + height_m * UP
    frame = grasps.tool_frame(at, out=forward, across=aside)
    yield frame
    yield grasps.flipped(frame)


def _bar_ends(view: CaseView) -> Offers:
    thing, pose = _object(view)
    along = pose[:3, 1] if thing.shape == "box" else pose[:3, 2]
    along = grasps.unit_level(along if along[1] > 0.0 else -along)
    listed = {}
    for arm in range(len(view.world.arms)):
        at = pose[:3, 3] + outward(view, arm) * BAR_GRIP_M * along + 0.004 * UP
        frame = grasps.tool_frame(at, out=-UP, across=np.cross(along, UP))
        listed[arm] = [frame, grasps.flipped(frame)]
    return listed


def _block_and_plate(view: CaseView) -> Offers:
    """Return grasps of the block in the middle and of the plate at its outer end, from above."""
    command, support_m = view.case.command, view.world.support_height_m
    placing, holding = int(command["placing_arm"]), int(command["support_arm"])
    plate = view.frame(command["support"])
    outer = plate.copy()
    outer[:3, 3] = outer[:3, 3] + outward(view, holding) * PLATE_GRIP_M * plate[:3, 1]
    return {
        placing: _above(view, *_object(view)),
        holding: list(grasps.from_above(view.thing(command["support"]), outer, support_m=support_m)),
    }


def _both_of_one(view: CaseView) -> Offers:
    """Return grasps of the first hand where the thing stands, of the second where it changes hands."""
    command = view.case.command
    thing, pose = _object(view)
    source, destination = int(command["source_arm"]), int(command["destination_arm"])
    return {
        source: _own_side(view, thing, pose, arm=source, above_m=CAN_LOW_M),
        destination: _own_side(view, thing, meeting_pose(view, pose), arm=destination, above_m=CAN_HIGH_M),
    }


def _own_side(view: CaseView, thing: ObjectSpec, pose: FloatArray, *, arm: int, above_m: float) -> list[FloatArray]:
    """Return level grasps from the arm's own side of a standing thing, leaning ones from above of a lying one."""
    inward = np.array([0.0, -outward(view, arm), 0.0])
    across = np.array([1.0, 0.0, 0.0])
    if not lies(pose):
        frame = grasps.tool_frame(pose[:3, 3] + above_m * UP, out=inward, across=across)
        return [frame, grasps.flipped(frame)]
    out = -math.cos(LEAN_RAD) * UP + math.sin(LEAN_RAD) * inward
    lowest_m = TIP_M * math.cos(LEAN_RAD) + PAD_HALF_M * math.sin(LEAN_RAD) + 0.001
    back_m = max(0.0, (lowest_m - thing.size_m[0]) / math.cos(LEAN_RAD))  # clear of the support when it lies there
    frame = grasps.tool_frame(pose[:3, 3] - ROD_GRIP_M * inward - back_m * out, out=out, across=across)
    return [frame, grasps.flipped(frame)]


def meeting_pose(view: CaseView, pose: FloatArray) -> FloatArray:
    """Return where a thing changes hands, oriented as it is."""
    made = pose.copy()
    made[:3, 3] = np.array(MEET_M) + view.world.support_height_m * UP
    return made


def outward(view: CaseView, arm: int) -> float:
    """Return the sign of the side of the table that an arm stands on."""
    return 1.0 if view.world.arms[arm].mount_m[1] > 0.0 else -1.0


def asset_of(view: CaseView) -> AssetSpec:
    """Return the articulated part of a case. Raises PlanningFailed where there is none."""
    if view.world.asset is None:
        raise PlanningFailed(f"case {view.case.case_id} has no articulated part")
    return view.world.asset


def door_width_m(view: CaseView) -> float:
    """Return the width of the door's panel. Raises PlanningFailed where there is no door."""
    width_m = asset_of(view).width_m
    if width_m is None:
        raise PlanningFailed(f"case {view.case.case_id} has no door")
    return width_m


def _object(view: CaseView) -> tuple[ObjectSpec, FloatArray]:
    name = view.case.command["object"]
    return view.thing(name), view.frame(name)


_OFFERS: Mapping[str, Callable[[CaseView], Offers]] = {
    "pick_up": _picked,
    "axis_align": _aligned,
    "move_held_object": _from_above,
    "place": _from_above,
    "pour": _level,
    "slide": _drawer_bar,
    "open_door": _door_bar,
    "coordinated_pickment": _bar_ends,
    "coordinated_placement": _block_and_plate,
    "hand_over": _both_of_one,
}
