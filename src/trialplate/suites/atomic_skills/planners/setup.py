"""The suite's own grasp before a plan, for skills that start with a held object; the same for every planner.

It ends with ``setup_hold_rows`` rows that hold still. Source: atomic-skills specification, sections 5 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trialplate.errors import HarnessFault, PlanningFailed
from trialplate.spec.skills import SkillCase, skill_case
from trialplate.suites.atomic_skills.ladders import SKILLS
from trialplate.suites.atomic_skills.planners import grasps, two_hands
from trialplate.suites.atomic_skills.planners.case_view import CaseView, first_that_works, grasp_builds, reach
from trialplate.suites.atomic_skills.planners.path import Path
from trialplate.suites.atomic_skills.rigid import FloatArray
from trialplate.suites.atomic_skills.settings import world_settings

HELD_ABOVE_M = 0.15
"""How far a set-up lifts."""


def setup_rows(case: Mapping[str, Any]) -> FloatArray:
    """Return the rows (n, dof) of the set-up, none where nothing is held. Raises HarnessFault ``reset_failed``."""
    if not SKILLS[case["skill"]].starts_held:
        return np.zeros((0, len(case["q_start"])))
    view = CaseView(skill_case(case))
    try:
        path = _both_hands(view) if "support" in case["command"] else _one_hand(view)
    except PlanningFailed as reason:
        raise HarnessFault(
            f"setup_failed: case {case['case_id']}: the suite finds no grasp to start with: {reason.message}",
            code="reset_failed",
        ) from None
    path.hold(world_settings().replay.setup_hold_rows)
    return path.rows


def _one_hand(view: CaseView) -> Path:
    case: SkillCase = view.case
    thing, pose = view.thing(case.command["object"]), view.frame(case.command["object"])
    support_m = view.world.support_height_m
    if case.skill == "pour":
        frames = grasps.from_side(thing, pose, support_m=support_m, tilt_rad=0.0, height=0.4)
    else:
        frames = grasps.from_above(thing, pose, support_m=support_m)

    def build(path: Path, before_rad: FloatArray, grasp: FloatArray) -> None:
        reach(path, before_rad, grasp)
        path.hold(10)
        path.grip({0: 0.0})
        path.hold(10)
        path.line(grasps.raised(grasp, HELD_ABOVE_M))
        path.hold(20)

    return first_that_works(view, grasp_builds(view, frames, build), what="grasp")


def _both_hands(view: CaseView) -> Path:
    """Take the block in the middle and the plate at its outer end, from above, and lift both."""
    command = view.case.command
    block, plate = view.frame(command["object"]), view.frame(command["support"])
    support_m = view.world.support_height_m
    placing, holding = int(command["placing_arm"]), int(command["support_arm"])
    side = 1.0 if view.world.arms[holding].mount_m[1] > 0.0 else -1.0
    outer = plate.copy()
    outer[:3, 3] = outer[:3, 3] + side * two_hands.PLATE_GRIP_M * plate[:3, 1]
    listed = {
        placing: list(grasps.from_above(view.thing(command["object"]), block, support_m=support_m)),
        holding: list(grasps.from_above(view.thing(command["support"]), outer, support_m=support_m)),
    }

    def build(path: Path, before: two_hands.Pair, taken: two_hands.Pair) -> None:
        two_hands.reach_both(path, before, taken)
        path.hold(10)
        path.grip({0: 0.0, 1: 0.0})
        path.hold(10)
        path.lines({arm: grasps.raised(frame, HELD_ABOVE_M) for arm, frame in taken.items()})
        path.hold(20)

    return first_that_works(view, two_hands.pair_builds(view, listed, build), what="pair of grasps")
