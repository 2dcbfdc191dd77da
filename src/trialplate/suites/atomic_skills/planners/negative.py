"""One negative control per skill: the baseline, made to leave out what the skill is about.

Each must fail at its stated stage, on the smoke case of its skill. Source: atomic-skills specification, section 13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trialplate.record import SkillPlan
from trialplate.spec.skills import SkillCase
from trialplate.suites.atomic_skills.planners.baseline import CAPABILITIES, Baseline
from trialplate.suites.atomic_skills.rigid import matrix

AWAY_M = 0.03
"""Farther from the target than any position tolerance."""
HALF = 0.5

Command = Callable[[SkillCase], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Defect:
    """``command``: members of the command that the planner is given instead.

    ``left_open``, ``left_closed``: arms whose gripper the plan never closes, or never opens.
    """

    meaning: str
    command: Command | None = None
    left_open: Callable[[SkillCase], tuple[int, ...]] | None = None
    left_closed: Callable[[SkillCase], tuple[int, ...]] | None = None


def _halved(name: str) -> Command:
    return lambda case: {name: HALF * float(case.command[name])}


def _beside(name: str) -> Command:
    return lambda case: {name: [case.command[name][0] + AWAY_M, *case.command[name][1:]]}


def _half_way(case: SkillCase) -> Mapping[str, Any]:
    start, target = case.q_start[:6], case.command["q_target"]
    return {"q_target": [begin + HALF * (end - begin) for begin, end in zip(start, target, strict=True)]}


def _as_it_is(case: SkillCase) -> Mapping[str, Any]:
    axis = matrix(case.poses[case.command["object"]][3:]) @ np.array(case.command["object_axis"])
    return {"world_axis": axis.tolist()}


def _other_way(case: SkillCase) -> Mapping[str, Any]:
    return {"angle_rad": -float(case.command["angle_rad"])}


DEFECTS: Mapping[str, Defect] = {
    "move_joints": Defect("stops half way", _half_way),
    "move_end_effector": Defect("stops 3 cm beside", _beside("pose")),
    "pick_up": Defect("never closes the hand", left_open=lambda case: (0,)),
    "axis_align": Defect("lifts and does not turn", _as_it_is),
    "move_held_object": Defect("stops 3 cm beside", _beside("pose")),
    "place": Defect("puts it 3 cm beside", _beside("pose")),
    "pour": Defect("turns the other way", _other_way),
    "push_object": Defect("pushes 3 cm too far", _beside("pose")),
    "press": Defect("presses half as deep", lambda case: {"travel_m": 0.010}),
    "slide": Defect("pulls half as far", _halved("travel_m")),
    "open_door": Defect("opens half as far", _halved("angle_rad")),
    "twist": Defect("turns half as far", _halved("angle_rad")),
    "coordinated_pickment": Defect("carries it 3 cm too far", _beside("pose")),
    "coordinated_placement": Defect("never lets go", left_closed=lambda case: (int(case.command["placing_arm"]),)),
    "hand_over": Defect(
        "the second hand never closes", left_open=lambda case: (int(case.command["destination_arm"]),)
    ),
}
"""Skill -> what its control leaves out. Where it must then fail stands in ``ladders.NEGATIVE_STAGES``."""


class Negative:
    """The baseline with the defect of the skill. Implements :class:`trialplate.interfaces.SkillPlanner`."""

    id = "negative"
    version = "1"
    capabilities = CAPABILITIES

    def plan(self, case: SkillCase) -> SkillPlan:
        """Return a plan that must fail at the stated stage of its skill. Raises PlanningFailed."""
        defect = DEFECTS[case.skill]
        if defect.command is not None:
            case = case.model_copy(update={"command": {**case.command, **defect.command(case)}})
        plan = Baseline().plan(case)
        rows = plan.trajectory.copy()
        for arms, fraction in ((defect.left_open, 1.0), (defect.left_closed, 0.0)):
            for arm in arms(case) if arms is not None else ():
                rows[:, case.gripper_columns[arm]] = fraction
        return SkillPlan(rows, plan.dt_s, plan.segments, plan.belief)
