"""What each stage looks at. A criterion reads samples and returns numbers beside their thresholds.

Source: atomic skills, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trialplate.record import StagePart
from trialplate.suites.atomic_skills.readings import Readings, above, at_least, at_most, below
from trialplate.suites.atomic_skills.rotations import (
    Floats,
    conjugate,
    multiply,
    pose_error,
    relative_pose,
    rotate,
    turned_about,
    vector_angle,
)

UP = np.array([0.0, 0.0, 1.0])
Parts = tuple[StagePart, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """Numbers of one stage at its instant, and the reason that stands when one of them does not hold."""

    sample: int
    parts: Parts
    reason: str

    @property
    def passed(self) -> bool:
        """Whether every number holds."""
        return all(part.holds for part in self.parts)


def vector(numbers: object) -> Floats:
    """Return a vector of a case document."""
    return np.asarray(numbers, dtype=np.float64)


# -- contact ---------------------------------------------------------------------------------------------------


def two_pads(r: Readings, arm: int, sample: int) -> Parts:
    """Both fingers of a hand press on the target."""
    left, right = r.pads_n(arm, sample)
    least = r.limits.pad_force_n
    return at_least(f"left_pad_{arm}", left, least, "N"), at_least(f"right_pad_{arm}", right, least, "N")


def one_pad(r: Readings, arm: int, sample: int) -> Parts:
    """At least one finger of a hand presses on the target."""
    return (at_least(f"stronger_pad_{arm}", max(r.pads_n(arm, sample)), r.limits.pad_force_n, "N"),)


def let_go(r: Readings, arm: int, segment: str) -> Parts:
    """The finger joint is nearer to its open than to its close command, and not both fingers press.

    Open command: of the last waypoint of the segment; close command: the one before its first.
    """
    sample, column = r.instant(segment), r.case.gripper_columns[arm]
    achieved = float(r.at("q", sample)[column])
    to_open = abs(achieved - r.commanded(column, sample))
    to_close = abs(achieved - r.commanded(column, r.before(segment)))
    return (
        above(f"nearer_open_{arm}", to_close - to_open, 0.0, "1"),
        below(f"weaker_pad_{arm}", min(r.pads_n(arm, sample)), r.limits.pad_force_n, "N"),
    )


# -- motion of the target --------------------------------------------------------------------------------------


def moved(r: Readings, since: int, until: int) -> StagePart:
    """The object, or the joint of the articulated part, is not where it was."""
    name = r.case.command.get("object")
    if name is None:
        unit = "m" if r.case.skill in ("slide", "press") else "rad"
        return at_least("joint_change", abs(r.joint(until) - r.joint(since)), r.limits.engaged, unit)
    change = np.linalg.norm(r.object_pose(name, until)[:3] - r.object_pose(name, since)[:3])
    return at_least("object_change", float(change), r.limits.engaged, "m")


def lift(r: Readings, since: int, sample: int) -> Parts:
    """The object is higher than it was."""
    name = r.case.command["object"]
    gain = r.object_pose(name, sample)[2] - r.object_pose(name, since)[2]
    return (at_least("z_gain", float(gain), r.limits.lift_m, "m"),)


def in_hand_drift(r: Readings, arm: int, since: int, sample: int) -> Parts:
    """The object did not shift in the hand."""
    name = r.case.command["object"]
    then, now = (relative_pose(r.hand_pose(arm, at), r.object_pose(name, at)) for at in (since, sample))
    return task_pose(r, then, now, kind="drift")


def drift(r: Readings, since: int, sample: int) -> Parts:
    """The object did not move on."""
    name = r.case.command["object"]
    return task_pose(r, r.object_pose(name, since), r.object_pose(name, sample), kind="drift")


# -- where it should be ----------------------------------------------------------------------------------------


def task_pose(r: Readings, wanted: Floats, found: Floats, *, kind: str = "error") -> Parts:
    """A pose is within the TASK tolerances of another."""
    away_m, away_rad = pose_error(wanted, found)
    task = r.limits.task
    return (
        at_most(f"position_{kind}", away_m, task.position_m, "m"),
        at_most(f"rotation_{kind}", away_rad, task.rotation_rad, "rad"),
    )


def joints_at(r: Readings, sample: int) -> Parts:
    """Every arm joint is at its target; the largest single error decides."""
    columns = list(r.case.arm_columns)
    away = np.abs(r.at("q", sample)[columns] - vector(r.case.command["q_target"]))
    return (at_most("joint_error", float(away.max()), r.limits.primitive.rotation_rad, "rad"),)


def hand_at(r: Readings, sample: int) -> Parts:
    """The tool frame is at its target."""
    away_m, away_rad = pose_error(vector(r.case.command["pose"]), r.hand_pose(0, sample))
    primitive = r.limits.primitive
    return (
        at_most("position_error", away_m, primitive.position_m, "m"),
        at_most("rotation_error", away_rad, primitive.rotation_rad, "rad"),
    )


def aligned(r: Readings, sample: int) -> Parts:
    """An axis of the object points along an axis of the world."""
    command = r.case.command
    axis = rotate(r.object_pose(command["object"], sample)[3:], vector(command["object_axis"]))
    angle = vector_angle(axis, vector(command["world_axis"]))
    return (at_most("axis_angle", angle, r.limits.task.rotation_rad, "rad"),)


def object_at(r: Readings, sample: int) -> Parts:
    """The object is at its commanded pose."""
    command = r.case.command
    return task_pose(r, vector(command["pose"]), r.object_pose(command["object"], sample))


def rests_at(r: Readings, sample: int) -> Parts:
    """The object is over its place and at its resting height."""
    return (*over(r, sample), *at_height(r, sample))


def over(r: Readings, sample: int) -> Parts:
    """The object is over its place in the plane; its yaw and height are not looked at."""
    command = r.case.command
    away = np.linalg.norm(r.object_pose(command["object"], sample)[:2] - vector(command["pose"])[:2])
    return (at_most("xy_error", float(away), r.limits.task.position_m, "m"),)


def at_height(r: Readings, sample: int) -> Parts:
    """The object is at its resting height."""
    command = r.case.command
    away = abs(r.object_pose(command["object"], sample)[2] - float(command["pose"][2]))
    return (at_most("height_error", float(away), r.limits.task.position_m, "m"),)


def upright(r: Readings, sample: int) -> Parts:
    """The object is tilted no further from how it stood at sample -1."""
    name = r.case.command["object"]
    turn = multiply(r.object_pose(name, sample)[3:], conjugate(r.object_pose(name, -1)[3:]))
    return (at_most("tilt", vector_angle(rotate(turn, UP), UP), r.limits.task.rotation_rad, "rad"),)


def held_together(r: Readings, sample: int) -> Parts:
    """The object is where it should be as seen from the other one."""
    command = r.case.command
    return task_pose(r, vector(command["relative_pose"]), together(r, sample))


def together(r: Readings, sample: int) -> Floats:
    """Return the pose (7,) of the object in the frame of its support object."""
    command = r.case.command
    return relative_pose(r.object_pose(command["support"], sample), r.object_pose(command["object"], sample))


def delivered(r: Readings, sample: int) -> Parts:
    """The object is at its target in space; one position tolerance for each phase of contact."""
    command = r.case.command
    away = np.linalg.norm(r.object_pose(command["object"], sample)[:3] - vector(command["target_m"]))
    return (at_most("distance", float(away), r.limits.hand_over_phases * r.limits.task.position_m, "m"),)


# -- how far it turned or travelled ----------------------------------------------------------------------------


def poured(r: Readings, peak_rad: float) -> Parts:
    """The largest turn in the commanded sense is the commanded one."""
    wanted = float(r.case.command["angle_rad"])
    away = abs(peak_rad - abs(wanted))
    return (at_most("rotation_error", away, r.limits.task.rotation_rad, "rad"),)


def pour_turns(r: Readings, segment: str) -> Floats:
    """Return the turn about the object's own axis at each sample of a segment, positive as commanded."""
    command = r.case.command
    poses = r.object_poses(command["object"])
    first = r.before(segment) + 1
    quaternions = poses[first : first + len(r.inside(segment)) + 1, 3:]
    turns = turned_about(vector(command["axis"]), multiply(conjugate(quaternions[:1]), quaternions))
    return np.asarray(turns[1:] * np.sign(float(command["angle_rad"])))


def twisted(r: Readings, turned_rad: float) -> Parts:
    """The hand turned as far as was commanded."""
    away = abs(turned_rad - float(r.case.command["angle_rad"]))
    return (at_most("rotation_error", away, r.limits.task.rotation_rad, "rad"),)


def hand_turn_rad(r: Readings, segment: str) -> float:
    """Return how far the hand turned about the knob's axis in a segment."""
    first = r.before(segment) + 1
    quaternions = r.column("ee_pose")[first : first + len(r.inside(segment)) + 1, 3:7]
    turns = turned_about(vector(r.case.command["axis"]), multiply(quaternions, conjugate(quaternions[:1])))
    return float(turns[-1])


def pressed(r: Readings, travel_m: float) -> Parts:
    """The button went in far enough."""
    share = travel_m / float(r.case.command["stroke_m"])
    return (at_least("stroke_fraction", share, r.limits.press_fraction, "1"),)


def press_travel_m(r: Readings, segment: str) -> float:
    """Return the deepest travel inside a segment, in the direction of the command."""
    travel = r.column("asset_joint")[:, 0] - r.joint(-1)
    inside = travel[[sample + 1 for sample in r.inside(segment)]]
    return float((inside * np.sign(float(r.case.command["travel_m"]))).max())


def slid(r: Readings, travel_m: float) -> Parts:
    """The drawer travelled as far as was commanded."""
    away = abs(travel_m - float(r.case.command["travel_m"]))
    return (at_most("travel_error", away, r.limits.task.position_m, "m"),)


def opened(r: Readings, sample: int) -> Parts:
    """The hinge is at the commanded angle."""
    away = abs(r.joint(sample) - float(r.case.command["angle_rad"]))
    return (at_most("hinge_error", away, r.limits.task.rotation_rad, "rad"),)
