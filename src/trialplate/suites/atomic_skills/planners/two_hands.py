"""The baseline's plans for two arms: carry a bar together, set a block on a held plate, hand a thing over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from trialplate.suites.atomic_skills.planners import grasps
from trialplate.suites.atomic_skills.planners.case_view import (
    Build,
    CaseView,
    command_vector,
    first_that_works,
    over_before,
)
from trialplate.suites.atomic_skills.planners.offers import UP, meeting_pose, offered_grasps
from trialplate.suites.atomic_skills.planners.path import Along, Path, straight
from trialplate.suites.atomic_skills.planners.table_skills import CLOSED, OPEN
from trialplate.suites.atomic_skills.rigid import FloatArray, inverse, transform

Pair = Mapping[int, FloatArray]
PairBuild = Callable[[Path, Pair, Pair], None]
"""Adds a plan for joints (6,) before the grasps and tool frames (4, 4) of some arms. Raises Unreachable."""

FEW = 2  # joint solutions that are tried for each arm


def coordinated_pickment(view: CaseView) -> Path:
    """Both hands take the bar from above, lift it and carry it to its pose, and hold."""
    command = view.case.command
    pose, target = view.frame(command["object"]), transform(command_vector(view.case, "pose"))
    lifted = grasps.raised(pose, float(command["lift_m"]))

    def build(path: Path, before: Pair, taken: Pair) -> None:
        with path.segment("approach"):
            reach_both(path, before, taken)
        with path.segment("close"):
            path.grip({0: CLOSED, 1: CLOSED})
        with path.segment("lift"):
            path.along(carried(pose, straight(pose, lifted), taken))
        with path.segment("move", dwell=30):
            path.along(carried(pose, straight(lifted, target), taken))
        with path.segment("hold"):
            path.hold(10)

    return first_that_works(view, pair_builds(view, offered_grasps(view), build), what="pair of grasps")


def carried(pose: FloatArray, way: Along, taken: Pair) -> dict[int, Along]:
    """Return the paths of hands that keep what they took in place while it moves along a path from ``pose``."""
    grips = {arm: inverse(pose) @ frame for arm, frame in taken.items()}
    return {arm: _led(way, grip) for arm, grip in grips.items()}


def _led(way: Along, grip: FloatArray) -> Along:
    return lambda share: way(share) @ grip


def coordinated_placement(view: CaseView) -> Path:
    """Bring the block over the plate that the other hand holds, set it down, let go, go up."""
    command, path = view.case.command, view.path()
    placing = int(command["placing_arm"])
    path.holding((0, 1))
    plate, block = view.frame(command["support"]), view.frame(command["object"])
    grip = inverse(block) @ path.tool(placing)
    target = plate @ transform(command_vector(view.case, "relative_pose"))
    over = target.copy()
    over[:3, 3] = over[:3, 3] + 0.08 * UP
    set_down = target.copy()
    set_down[:3, 3] = set_down[:3, 3] + 0.001 * UP

    def build(path: Path) -> None:
        path.holding((0, 1))
        with path.segment("approach"):
            path.line(grasps.raised(block, 0.06) @ grip, arm=placing)
            path.line(over @ grip, arm=placing)
            path.line(set_down @ grip, arm=placing)
        with path.segment("hold"):
            path.hold(15)
        with path.segment("release"):
            path.grip({placing: OPEN})
        with path.segment("retreat"):
            path.line(grasps.raised(path.tool(placing), 0.12), arm=placing)

    return first_that_works(view, (build,), what="way to the plate")


def hand_over(view: CaseView) -> Path:
    """Take the thing, bring it to the middle, let the other hand take it, let go, and set it down there."""
    command = view.case.command
    pose = view.frame(command["object"])
    source, destination = int(command["source_arm"]), int(command["destination_arm"])
    target = pose.copy()
    target[:3, 3] = command_vector(view.case, "target_m")
    meeting = meeting_pose(view, pose)

    def build(path: Path, before: Pair, taken: Pair) -> None:
        give, take = taken[source], taken[destination]
        with path.segment("pickup_approach"):
            reach_both(path, {source: before[source]}, {source: give})
        with path.segment("pickup_close"):
            path.grip({source: CLOSED})
        with path.segment("pickup_transport", dwell=30):
            raised = grasps.raised(pose, meeting[2, 3] - pose[2, 3])
            path.along(carried(pose, straight(pose, raised), {source: give}))
            path.along(carried(raised, straight(raised, meeting), {source: raised @ inverse(pose) @ give}))
        with path.segment("receive_approach", dwell=30):
            reach_both(path, {destination: before[destination]}, {destination: take}, mark=False)
        with path.segment("receive_close"):
            path.grip({destination: CLOSED})
        with path.segment("handover_release"):
            path.grip({source: OPEN})
            path.line(grasps.backed(path.tool(source), 0.12), arm=source)
        with path.segment("place", dwell=30):
            above = grasps.raised(target, meeting[2, 3] - target[2, 3])
            path.along(carried(meeting, straight(meeting, above), {destination: take}))
            path.along(
                carried(
                    above,
                    straight(above, grasps.raised(target, 0.002)),
                    {destination: above @ inverse(meeting) @ take},
                )
            )
        with path.segment("receive_release"):
            path.grip({destination: OPEN})
            path.line(grasps.backed(path.tool(destination), 0.10), arm=destination)

    return first_that_works(view, pair_builds(view, offered_grasps(view), build), what="pair of grasps")


def reach_both(path: Path, before: Pair, taken: Pair, *, mark: bool = True) -> None:
    """Move some arms over the places before their grasps, down, and along the hands. Raises Unreachable."""
    path.joint_path({arm: np.array([path.joints(arm), joint_rad]) for arm, joint_rad in before.items()})
    path.lines({arm: grasps.backed(frame) for arm, frame in taken.items()})
    if mark:
        path.mark_grasp()
    path.lines(taken)


def pair_builds(view: CaseView, listed: Mapping[int, Sequence[FloatArray]], build: PairBuild) -> Iterator[Build]:
    """Yield a plan for each pair of grasps and joint solutions, those that move the arms least first."""
    choices: dict[int, list[tuple[float, int, FloatArray, FloatArray]]] = {}
    for arm, frames in listed.items():
        near = np.array(view.case.q_start[7 * arm : 7 * arm + 6])
        found: list[tuple[float, int, FloatArray, FloatArray]] = []
        for frame in frames:
            grasp = grasps.jittered(frame, view.random) if view.case.grasp_seed else frame
            for solved in view.joints_for(over_before(grasp), near_rad=near, arm=arm)[:FEW]:
                found.append((float(np.abs(solved - near).max()), len(found), solved, grasp))
        choices[arm] = sorted(found, key=lambda item: item[:2])
    pairs = [(one[0] + other[0], i, j) for i, one in enumerate(choices[0]) for j, other in enumerate(choices[1])]
    for _, i, j in sorted(pairs):
        chosen = {0: choices[0][i], 1: choices[1][j]}
        before = {arm: item[2] for arm, item in chosen.items()}
        yield _bound(build, before, {arm: item[3] for arm, item in chosen.items()})


def _bound(build: PairBuild, before: Pair, taken: Pair) -> Build:
    return lambda path: build(path, before, taken)
