"""The baseline's plans for one arm in free space and at the table."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from trialplate.errors import PlanningFailed
from trialplate.suites.atomic_skills.planners import grasps
from trialplate.suites.atomic_skills.planners.case_view import (
    Build,
    CaseView,
    GraspBuild,
    command_vector,
    first_that_works,
    go_over,
    grasp_builds,
    reach,
)
from trialplate.suites.atomic_skills.planners.offers import UP, offered_grasps
from trialplate.suites.atomic_skills.planners.path import Path, Unreachable, straight
from trialplate.suites.atomic_skills.rigid import FloatArray, inverse, transform, turn

CLOSED, OPEN = 0.0, 1.0
CLEAR_M = 0.12
"""How far above its place a held object is carried."""
TURN_ABOVE_M = 0.20
TURN_PLACES_M = ((0.46, 0.12), (0.54, 0.0), (0.46, -0.12))
"""Where a held thing is turned: this high, and over the place where it was taken or one of these."""
FINGER_HALF_WIDTH_M, CLOSED_HALF_DEPTH_M = 0.0135, 0.028
"""Half sizes of the closed fingers, along and across the pads."""


def move_joints(view: CaseView) -> Path:
    """Straight to the joint target."""
    path = view.path()
    with path.segment("move", dwell=30):
        path.to_joints(command_vector(view.case, "q_target"))
    return path


def move_end_effector(view: CaseView) -> Path:
    """Straight in joint space to the nearest solution of the tool pose."""
    path = view.path()
    found = view.joints_for(transform(command_vector(view.case, "pose")), near_rad=path.joints())
    if not found:
        raise PlanningFailed("the tool pose has no joint solution")
    with path.segment("move", dwell=30):
        path.to_joints(found[0])
    return path


def pick_up(view: CaseView) -> Path:
    """Take the object from above or from the side, and lift it straight up."""
    command = view.case.command

    def build(path: Path, before_rad: FloatArray, grasp: FloatArray) -> None:
        with path.segment("approach"):
            reach(path, before_rad, grasp)
        with path.segment("close"):
            path.grip({0: CLOSED})
        with path.segment("lift"):
            path.line(grasps.raised(grasp, float(command["lift_m"])))

    return first_that_works(view, grasp_builds(view, offered_grasps(view)[0], build), what="grasp")


def axis_align(view: CaseView) -> Path:
    """Take the can, lift it, and turn hand and can until the can's axis is the world's."""
    command = view.case.command
    axis = view.frame(command["object"])[:3, :3] @ command_vector(view.case, "object_axis")
    wanted = command_vector(view.case, "world_axis")

    def turned_over(place_m: FloatArray | None) -> GraspBuild:
        def build(path: Path, before_rad: FloatArray, grasp: FloatArray) -> None:
            with path.segment("approach"):
                reach(path, before_rad, grasp)
            with path.segment("close"):
                path.grip({0: CLOSED})
            with path.segment("manipulate", dwell=30):
                lifted = grasps.raised(grasp, TURN_ABOVE_M)
                path.line(lifted)
                if place_m is not None:
                    lifted[:2, 3] = place_m
                    path.line(lifted)
                path.along({0: straight(lifted, turned_onto(lifted, axis, wanted))})

        return build

    def builds() -> Iterator[Build]:
        offered = offered_grasps(view)[0]
        for place_m in (None, *(np.array(place) for place in TURN_PLACES_M)):
            yield from grasp_builds(view, offered, turned_over(place_m))

    return first_that_works(view, builds(), what="grasp that can be turned")


def turned_onto(frame: FloatArray, axis: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return a frame turned about its own origin so that a vector that it carries points along another."""
    across = np.cross(axis, wanted)
    sine = float(np.linalg.norm(across))
    made = frame.copy()
    if sine > 1e-9:
        made[:3, :3] = turn(across, math.atan2(sine, float(axis @ wanted))) @ frame[:3, :3]
    return made


def move_held_object(view: CaseView) -> Path:
    """Carry the held object straight to its pose."""
    path = view.path()
    path.holding((0,))
    with path.segment("transport", dwell=30):
        held_to(view, path, transform(command_vector(view.case, "pose")))
    return path


def held_to(view: CaseView, path: Path, target: FloatArray) -> None:
    """Lead the hand so that what it holds gets to ``target`` (4, 4). Raises PlanningFailed."""
    grip = inverse(view.arms[0].forward(np.array(view.case.q_start[:6]))) @ view.frame(view.case.command["object"])
    goal = target @ inverse(grip)
    try:
        path.line(goal)
    except Unreachable as reason:
        raise PlanningFailed(str(reason)) from None


def place(view: CaseView) -> Path:
    """Carry the held object over its place, set it down, open, and go up."""
    path, target = view.path(), transform(command_vector(view.case, "pose"))
    path.holding((0,))
    with path.segment("approach"):
        held_to(view, path, grasps.raised(target, CLEAR_M))
        held_to(view, path, grasps.raised(target, 0.0015))
    with path.segment("release"):
        path.grip({0: OPEN})
    with path.segment("retract"):
        path.line(grasps.backed(path.tool(), 0.12))
    return path


def pour(view: CaseView) -> Path:
    """Turn the held object about its own axis, about where the hand holds it."""
    command, path = view.case.command, view.path()
    path.holding((0,))
    held = view.frame(command["object"])
    axis = held[:3, :3] @ command_vector(view.case, "axis")
    goal = path.tool()
    goal[:3, :3] = turn(axis, float(command["angle_rad"])) @ goal[:3, :3]
    with path.segment("pour", dwell=30):
        try:
            path.line(goal)
        except Unreachable as reason:
            raise PlanningFailed(str(reason)) from None
    return path


def push_object(view: CaseView) -> Path:
    """Go down behind the object with the closed hand, and push it straight to its place."""
    command = view.case.command
    thing, pose, target = (
        view.thing(command["object"]),
        view.frame(command["object"]),
        command_vector(view.case, "pose"),
    )
    way = target[:3] - pose[:3, 3]
    direction = grasps.unit_level(way)
    reach_m = (
        float(np.abs(pose[:3, :3].T @ direction)[:2] @ np.array(thing.size_m[:2]))
        if thing.shape == "box"
        else (float(thing.size_m[0]))
    )
    height_m = view.world.support_height_m + max(0.026, 0.5 * thing.half_height_m)

    def builds() -> Iterator[Build]:
        for across in (np.cross(UP, direction), np.cross(direction, UP), direction, -direction):
            half_m = FINGER_HALF_WIDTH_M if abs(float(across @ direction)) < 0.5 else CLOSED_HALF_DEPTH_M
            touching = pose[:3, 3] - (reach_m + half_m) * direction
            start = np.array([*(touching - 0.05 * direction)[:2], height_m])
            frame = grasps.tool_frame(start, out=-UP, across=across)
            yield lambda path, frame=frame: push(path, frame)  # type: ignore[misc]

    def push(path: Path, frame: FloatArray) -> None:
        with path.segment("close"):
            path.grip({0: CLOSED})
        with path.segment("approach"):
            go_over(view, path, frame)
            path.line(frame)
        with path.segment("contact"):
            path.line(shifted(frame, 0.047 * direction))
        with path.segment("push", dwell=30):
            path.line(shifted(frame, 0.05 * direction + way), largest_step_rad=0.006)
        with path.segment("retract"):
            path.line(shifted(frame, way))
            path.line(grasps.backed(path.tool(), 0.10))

    return first_that_works(view, builds(), what="push")


def shifted(frame: FloatArray, way: FloatArray) -> FloatArray:
    """Return a frame moved in the world."""
    made = frame.copy()
    made[:3, 3] = made[:3, 3] + way
    return made
