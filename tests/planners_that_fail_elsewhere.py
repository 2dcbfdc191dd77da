"""Controls of the toy skills that do not fail where they state it."""

from __future__ import annotations

from trialplate.errors import PlanningFailed
from trialplate.record import SkillPlan
from trialplate.spec.skills import SkillCase
from trialplate.testing import toy_skills
from trialplate.testing.toy_skills import Baseline, Negative

__all__ = ["Baseline", "Misspells", "Null", "Refuses"]


class Null(Negative):
    """Never gets to what it should fail at."""

    def plan(self, case: SkillCase) -> SkillPlan:
        """Hold the start, where something is to be lifted."""
        return toy_skills.Null().plan(case) if case.skill == "pick_up" else super().plan(case)


class Refuses(Baseline):
    """Has no plan: nothing is measured at any stage."""

    def plan(self, case: SkillCase) -> SkillPlan:
        """Raise."""
        raise PlanningFailed("no plan")


class Misspells(Baseline):
    """Sends segments that are none of the skill's."""

    def plan(self, case: SkillCase) -> SkillPlan:
        """Return the plan of the baseline under other names."""
        plan = super().plan(case)
        return SkillPlan(plan.trajectory, plan.dt_s, {f"{name}x": part for name, part in plan.segments.items()})
