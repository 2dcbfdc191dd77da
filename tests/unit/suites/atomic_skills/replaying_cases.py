"""Replays a plan of a skill by hand, the way the run loop does, and climbs its ladder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trialplate.interfaces import Scenario
from trialplate.record import SkillPlan, Trace
from trialplate.spec.skills import SkillCase, skill_case
from trialplate.suites.atomic_skills.channels import case_slices
from trialplate.suites.atomic_skills.readings import replayed
from trialplate.suites.atomic_skills.scoring import climb
from trialplate.suites.atomic_skills.settings import world_settings
from trialplate.suites.atomic_skills.tolerances import SCORING
from trialplate.suites.atomic_skills.world.environment import AtomicSkills


def scenario_of(case: Mapping[str, Any]) -> Scenario:
    return Scenario(case["case_id"], case["case_id"], case["skill"], "nominal", dict(case))


@dataclass
class Replayed:
    """What one trial left: ``stages`` name -> passed, and what the environment told."""

    case: SkillCase
    trace: Trace
    events: tuple[Any, ...]
    stages: dict[str, Any]
    climb: Any

    @property
    def passed(self) -> bool:
        return self.climb.failure_stage is None

    def column(self, name: str) -> np.ndarray:
        return self.trace.measured[name]

    @property
    def tracking_rad(self) -> float:
        kinds = self.column("sample_kind")[1:, 0]
        arm = list(self.case.arm_columns)
        rows = kinds == 2
        return float(np.abs(self.trace.action[rows][:, arm] - self.column("q")[1:][rows][:, arm]).max())


class Trial:
    """One reset case; ``seen`` is what a planner is shown, after the set-up."""

    def __init__(self, world: AtomicSkills, case: Mapping[str, Any]) -> None:
        self.world, self.document = world, dict(case)
        self.evidence = world.reset(scenario_of(case), seed=0)
        self.actions: list[np.ndarray] = []
        self.values = [world.measure().values]
        self.states = [world.state_sha256()]
        world.phase("setup")
        for row in world.setup_actions():
            self._step(row)
        self.seen = skill_case(world.present_case())

    def _step(self, row: np.ndarray) -> None:
        self.world.step(row)
        self.actions.append(row)
        self.values.append(self.world.measure().values)
        self.states.append(self.world.state_sha256())

    def replay(self, plan: SkillPlan) -> Replayed:
        self.world.phase("waypoint")
        for row in plan.trajectory:
            self._step(row)
        self.world.phase("settle")
        for _ in range(world_settings().replay.settle_rows):
            self._step(plan.trajectory[-1])
        values = np.array(self.values)
        measured = {name: values[:, where] for name, where in case_slices(self.document).items()}
        segments = {name: [part.start, part.stop] for name, part in plan.segments.items()}
        call = {"proposed": len(plan.trajectory), "segments": json.dumps(segments)}
        trace = Trace(
            np.array(self.actions), measured, tuple(self.states), np.zeros(len(self.states), dtype=np.int64), (call,)
        )
        case = skill_case(self.document)
        readings = replayed(trace, case, SCORING)
        climbed = climb(readings)
        stages = {record.stage: record for record in climbed.stages()}
        return Replayed(case, trace, self.world.drain_events(), stages, climbed)
