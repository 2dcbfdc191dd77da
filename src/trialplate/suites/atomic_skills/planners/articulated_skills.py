"""The baseline's plans for button, drawer, door and knob: take the handle, move it along its joint, let go."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from trialplate.suites.atomic_skills.planners import grasps
from trialplate.suites.atomic_skills.planners.case_view import (
    Build,
    CaseView,
    GraspBuild,
    first_that_works,
    go_over,
    grasp_builds,
)
from trialplate.suites.atomic_skills.planners.offers import UP, door_width_m, offered_grasps
from trialplate.suites.atomic_skills.planners.path import Along, Path
from trialplate.suites.atomic_skills.planners.table_skills import CLOSED, OPEN, shifted
from trialplate.suites.atomic_skills.rigid import FloatArray, about_z
from trialplate.suites.atomic_skills.settings import world_settings

SLOW_RAD = 0.006
"""Largest joint step while a handle is moved."""
CLOSED_TIP_M = 0.0171
"""How far the closed fingers reach beyond the tool frame."""
FOLLOW = (1.0, 0.7, 0.5)
"""Shares of a door's angle by which the hand may turn along; the bar turns in the fingers for the rest."""


def press(view: CaseView) -> Path:
    """Push the cap down with the closed hand, straight."""
    button = world_settings().button
    base = view.frame("asset")
    cap_m = base[:3, 3] + (button.housing_m[2] + button.cap_height_m) * UP
    travel_m = float(view.case.command["travel_m"])

    def builds() -> Iterator[Build]:
        for angle in (0.0, math.pi / 2, math.pi, -math.pi / 2):
            across = about_z(angle) @ np.array([0.0, 1.0, 0.0])
            yield _bound(grasps.tool_frame(cap_m + CLOSED_TIP_M * UP, out=-UP, across=across))

    def _bound(touching: FloatArray) -> Build:
        def build(path: Path) -> None:
            with path.segment("close"):
                path.grip({0: CLOSED})
            with path.segment("approach"):
                go_over(view, path, touching, distance_m=0.06)
            with path.segment("contact"):
                path.line(grasps.raised(touching, 0.002))
            with path.segment("press", dwell=30):
                path.line(grasps.raised(touching, -travel_m), largest_step_rad=SLOW_RAD)
            with path.segment("retract"):
                path.line(grasps.raised(touching, 0.08))

        return build

    return first_that_works(view, builds(), what="press")


def slide(view: CaseView) -> Path:
    """Take the drawer's bar, draw it straight, let go."""
    outward = -view.frame("asset")[:3, 0]
    way = float(view.case.command["travel_m"]) * outward
    name = "pull" if "pull" in view.case.segments else "push"

    def build(path: Path, before_rad: FloatArray, grasp: FloatArray) -> None:
        _take(path, before_rad, grasp)
        with path.segment(name, dwell=30):
            path.line(shifted(grasp, way), largest_step_rad=SLOW_RAD)
        with path.segment("open"):
            path.grip({0: OPEN})

    return first_that_works(view, grasp_builds(view, offered_grasps(view)[0], build), what="grasp of the bar")


def open_door(view: CaseView) -> Path:
    """Take the door's bar, lead it on its circle with the hand turning along, let go, back off."""
    base = view.frame("asset")
    hinge_m = base[:3, 3] + door_width_m(view) / 2.0 * base[:3, 1]
    angle_rad = float(view.case.command["angle_rad"])

    def builds() -> Iterator[Build]:
        for share in FOLLOW:
            yield from grasp_builds(view, offered_grasps(view)[0], _following(share))

    def _following(share: float) -> GraspBuild:
        def build(path: Path, before_rad: FloatArray, grasp: FloatArray) -> None:
            _take(path, before_rad, grasp)
            with path.segment("open", dwell=30):
                path.along({0: around(grasp, hinge_m, angle_rad, share)}, largest_step_rad=SLOW_RAD)
            with path.segment("release"):
                path.grip({0: OPEN})
            with path.segment("retract"):
                path.line(grasps.backed(path.tool(), 0.08))

        return build

    return first_that_works(view, builds(), what="way around the hinge")


def around(grasp: FloatArray, hinge_m: FloatArray, angle_rad: float, share: float) -> Along:
    """Return the path of a tool on a circle about an upright hinge, clockwise; it turns by a share of the angle."""

    def along(part: float) -> FloatArray:
        made = grasp.copy()
        made[:3, 3] = hinge_m + about_z(-part * angle_rad) @ (grasp[:3, 3] - hinge_m)
        made[:3, :3] = about_z(-part * angle_rad * share) @ grasp[:3, :3]
        return made

    return along


def twist(view: CaseView) -> Path:
    """Take the knob's bar from above, turn the hand about the knob's axis, let go, go up."""
    knob = world_settings().knob
    base = view.frame("asset")
    high = knob.grip_m[2]
    middle_m = base[:3, 3] + (knob.base_height_m + 0.005 + high / 2.0) * UP
    angle_rad = float(view.case.command["angle_rad"])
    frame = grasps.tool_frame(middle_m, out=-UP, across=base[:3, 0])

    def build(path: Path, before_rad: FloatArray, grasp: FloatArray) -> None:
        _take(path, before_rad, grasp)
        with path.segment("twist", dwell=30):
            path.along({0: turning(grasp, angle_rad)}, largest_step_rad=SLOW_RAD)
        with path.segment("open"):
            path.grip({0: OPEN})
        with path.segment("retract"):
            path.line(grasps.backed(path.tool(), 0.08))

    return first_that_works(view, grasp_builds(view, (frame, grasps.flipped(frame)), build), what="turn of the knob")


def turning(grasp: FloatArray, angle_rad: float) -> Along:
    """Return the path of a tool that turns about the vertical where it is."""

    def along(part: float) -> FloatArray:
        made = grasp.copy()
        made[:3, :3] = about_z(part * angle_rad) @ grasp[:3, :3]
        return made

    return along


def _take(path: Path, before_rad: FloatArray, grasp: FloatArray) -> None:
    """Add the segments approach, reach and close."""
    with path.segment("approach"):
        path.to_joints(before_rad)
        path.line(grasps.backed(grasp))
        path.mark_grasp()
    with path.segment("reach"):
        path.line(grasp)
    with path.segment("close"):
        path.grip({0: CLOSED})
