"""The shipped planner for all fifteen skills, and the planner that does nothing.

Source: atomic-skills specification, sections 5 and 13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from trialplate.errors import PlanningFailed, nearest
from trialplate.record import SkillPlan
from trialplate.spec.skills import SkillCase
from trialplate.suites.atomic_skills.planners import articulated_skills, table_skills, two_hands
from trialplate.suites.atomic_skills.planners.case_view import CaseView
from trialplate.suites.atomic_skills.planners.path import Path
from trialplate.suites.atomic_skills.settings import world_settings

CAPABILITIES = frozenset({"single_arm", "dual_arm", "parallel_gripper"})
GRASPS = ("close", "pickup_close")

PLANS: Mapping[str, Callable[[CaseView], Path]] = {
    "move_joints": table_skills.move_joints,
    "move_end_effector": table_skills.move_end_effector,
    "pick_up": table_skills.pick_up,
    "axis_align": table_skills.axis_align,
    "move_held_object": table_skills.move_held_object,
    "place": table_skills.place,
    "pour": table_skills.pour,
    "push_object": table_skills.push_object,
    "press": articulated_skills.press,
    "slide": articulated_skills.slide,
    "open_door": articulated_skills.open_door,
    "twist": articulated_skills.twist,
    "coordinated_pickment": two_hands.coordinated_pickment,
    "coordinated_placement": two_hands.coordinated_placement,
    "hand_over": two_hands.hand_over,
}


class Baseline:
    """Damped least squares, minimum jerk, friction grasps. Implements :class:`trialplate.interfaces.SkillPlanner`."""

    id = "baseline"
    version = "1"
    capabilities = CAPABILITIES

    def plan(self, case: SkillCase) -> SkillPlan:
        """Return a plan for any skill of the suite. Raises PlanningFailed where the arm cannot do it."""
        if case.skill not in PLANS:
            raise PlanningFailed(f"no plan for skill {case.skill!r}{nearest(case.skill, PLANS)}")
        path = PLANS[case.skill](CaseView(case))
        belief = {"grasped": True} if any(name in path.segments for name in GRASPS) else None
        return SkillPlan(path.rows, waypoint_s(), dict(path.segments), belief)


class Null:
    """Holds the start pose through valid segments; must pass nothing."""

    id = "null"
    version = "1"
    capabilities = CAPABILITIES
    rows_per_segment = 16

    def plan(self, case: SkillCase) -> SkillPlan:
        """Return rows of the start pose, one piece for each required segment."""
        count = self.rows_per_segment
        rows = np.tile(np.array(case.q_start, dtype=np.float64), (count * len(case.segments), 1))
        for column in case.gripper_columns:
            rows[:, column] = np.minimum(1.0, np.maximum(0.0, rows[:, column]))  # achieved, and so a little off
        segments = {name: slice(count * n, count * (n + 1)) for n, name in enumerate(case.segments)}
        return SkillPlan(rows, waypoint_s(), segments)


def waypoint_s() -> float:
    """Return how long a waypoint is held in a scored replay, s."""
    settings = world_settings()
    return settings.replay.waypoint_steps * settings.physics.timestep_s
