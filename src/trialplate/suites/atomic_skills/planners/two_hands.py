"""The baseline's plans for two arms: carry a bar together, set a block on a held plate, hand a thing over."""

from __future__ import annotations

import math
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
from trialplate.suites.atomic_skills.planners.path import Along, Path, straight
from trialplate.suites.atomic_skills.planners.table_skills import CLOSED, OPEN, UP
from trialplate.suites.atomic_skills.rigid import FloatArray, inverse, transform
from trialplate.suites.atomic_skills.world_spec import ObjectSpec

Pair = Mapping[int, FloatArray]
PairBuild = Callable[[Path, Pair, Pair], None]
"""Adds a plan for joints (6,) before the grasps and tool frames (4, 4) of some arms. Raises Unreachable."""

BAR_GRIP_M = 0.14
"""From the middle of the bar to each hand."""
PLATE_GRIP_M = 0.080
"""From the middle of the plate to the hand that holds it."""
MEET_M = (0.46, 0.0, 0.30)
"""Where a thing changes hands."""
TIP_M, PAD_HALF_M = 0.0175, 0.012
"""How far closed fingers reach beyond the tool frame, and half their width."""
LEAN_RAD = 0.2
"""By how much hands that take one thing from above lean away from each other."""
CAN_LOW_M, CAN_HIGH_M = -0.018, 0.050
"""Where the first and the second hand take the can, above its centre."""
PENCIL_GRIP_M = 0.055
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

    return first_that_works(view, pair_builds(view, bar_grasps(view, pose), build), what="pair of grasps")


def bar_grasps(view: CaseView, pose: FloatArray) -> dict[int, list[FloatArray]]:
    """Return the grasps of each arm on its own end of the bar."""
    listed = {}
    for arm, mount in enumerate(view.world.arms):
        sign = 1.0 if mount.mount_m[1] > 0.0 else -1.0
        at = pose[:3, 3] + sign * BAR_GRIP_M * pose[:3, 1] + 0.004 * UP
        frame = grasps.tool_frame(at, out=-UP, across=grasps.unit_level(pose[:3, 0]))
        listed[arm] = [frame, grasps.flipped(frame)]
    return listed


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
    thing, pose = view.thing(command["object"]), view.frame(command["object"])
    source, destination = int(command["source_arm"]), int(command["destination_arm"])
    target = pose.copy()
    target[:3, 3] = command_vector(view.case, "target_m")
    meeting = pose.copy()
    meeting[:3, 3] = MEET_M

    def build(path: Path, before: Pair, taken: Pair) -> None:
        give, take = taken[source], taken[destination]
        with path.segment("pickup_approach"):
            reach_both(path, {source: before[source]}, {source: give})
        with path.segment("pickup_close"):
            path.grip({source: CLOSED})
        with path.segment("pickup_transport", dwell=30):
            raised = grasps.raised(pose, MEET_M[2] - pose[2, 3])
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

    listed = {
        source: hand_over_grasps(view, thing, pose, arm=source, first=True),
        destination: hand_over_grasps(view, thing, meeting, arm=destination, first=False),
    }
    return first_that_works(view, pair_builds(view, listed, build), what="pair of grasps")


def hand_over_grasps(
    view: CaseView, thing: ObjectSpec, pose: FloatArray, *, arm: int, first: bool
) -> list[FloatArray]:
    """Return the grasps of one arm: level from its own side for a standing thing, from above for a lying one."""
    side = 1.0 if view.world.arms[arm].mount_m[1] > 0.0 else -1.0
    inward = np.array([0.0, -side, 0.0])
    if abs(float(pose[2, 2])) > 0.5:
        at = pose[:3, 3] + (CAN_LOW_M if first else CAN_HIGH_M) * UP
        frame = grasps.tool_frame(at, out=inward, across=np.array([1.0, 0.0, 0.0]))
        return [frame, grasps.flipped(frame)]
    out = -math.cos(LEAN_RAD) * UP + math.sin(LEAN_RAD) * inward
    lowest_m = TIP_M * math.cos(LEAN_RAD) + PAD_HALF_M * math.sin(LEAN_RAD) + 0.001
    back_m = max(0.0, (lowest_m - thing.size_m[0]) / math.cos(LEAN_RAD))  # clear of the support when it lies there
    at = pose[:3, 3] - PENCIL_GRIP_M * inward - back_m * out
    frame = grasps.tool_frame(at, out=out, across=np.array([1.0, 0.0, 0.0]))
    return [frame, grasps.flipped(frame)]


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
