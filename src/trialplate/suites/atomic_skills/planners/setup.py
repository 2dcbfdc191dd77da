"""The suite's own grasp before a plan, for skills that start with a held object; the same for every planner.

It ends with ``setup_hold_rows`` rows that hold still. Source: atomic-skills specification, sections 5 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trialplate.errors import HarnessFault, PlanningFailed
from trialplate.spec.skills import skill_case
from trialplate.suites.atomic_skills.ladders import SKILLS
from trialplate.suites.atomic_skills.planners import grasps, two_hands
from trialplate.suites.atomic_skills.planners.case_view import CaseView, first_that_works, grasp_builds, reach
from trialplate.suites.atomic_skills.planners.offers import offered_grasps
from trialplate.suites.atomic_skills.planners.path import Path
from trialplate.suites.atomic_skills.rigid import FloatArray
from trialplate.suites.atomic_skills.settings import world_settings

HELD_ABOVE_M, POUR_ABOVE_M = 0.15, 0.28
"""How far a set-up lifts; the whole hand turns in a pour."""


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
    def build(path: Path, before_rad: FloatArray, grasp: FloatArray) -> None:
        reach(path, before_rad, grasp)
        path.hold(10)
        path.grip({0: 0.0})
        path.hold(10)
        path.line(grasps.raised(grasp, POUR_ABOVE_M if view.case.skill == "pour" else HELD_ABOVE_M))
        path.hold(20)

    return first_that_works(view, grasp_builds(view, offered_grasps(view)[0], build), what="grasp")


def _both_hands(view: CaseView) -> Path:
    """Take the block in the middle and the plate at its outer end, from above, and lift both."""

    def build(path: Path, before: two_hands.Pair, taken: two_hands.Pair) -> None:
        two_hands.reach_both(path, before, taken)
        path.hold(10)
        path.grip({0: 0.0, 1: 0.0})
        path.hold(10)
        path.lines({arm: grasps.raised(frame, HELD_ABOVE_M) for arm, frame in taken.items()})
        path.hold(20)

    return first_that_works(view, two_hands.pair_builds(view, offered_grasps(view), build), what="pair of grasps")
