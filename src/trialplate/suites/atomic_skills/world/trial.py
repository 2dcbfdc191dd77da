"""One case replayed outside a campaign, the way the run loop does it: for calibration and for tests.

Nothing is recorded and nothing counts; see ``trialplate.run`` for trials that do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trialplate.interfaces import SkillPlanner
from trialplate.record import Event, SkillPlan, StageRecord, Trace
from trialplate.spec.skills import Phase, SkillCase, shown_case, skill_case
from trialplate.suites.atomic_skills.cases import scenario_of
from trialplate.suites.atomic_skills.channels import WAYPOINT, case_slices
from trialplate.suites.atomic_skills.readings import Readings, replayed
from trialplate.suites.atomic_skills.rigid import FloatArray
from trialplate.suites.atomic_skills.scoring import climb
from trialplate.suites.atomic_skills.settings import world_settings
from trialplate.suites.atomic_skills.tolerances import SCORING
from trialplate.suites.atomic_skills.world.environment import AtomicSkills


@dataclass(frozen=True, slots=True)
class Replayed:
    """What one trial left: its trace and what it climbed. ``stages``: name -> record, in order."""

    case: SkillCase
    trace: Trace
    readings: Readings
    events: tuple[Event, ...]
    stages: Mapping[str, StageRecord]
    failure_stage: str | None
    failure_reason: str | None

    @property
    def passed(self) -> bool:
        """Whether every stage was passed."""
        return self.failure_stage is None

    def column(self, name: str) -> FloatArray:
        """Return a recorded column (rows + 1, dim)."""
        return self.trace.measured[name]

    @property
    def tracking_rad(self) -> float:
        """Largest difference between commanded and achieved arm joints over the waypoints."""
        rows = self.column("sample_kind")[1:, 0] == WAYPOINT
        arm = list(self.case.arm_columns)
        return float(np.abs(self.trace.action[rows][:, arm] - self.column("q")[1:][rows][:, arm]).max())


class Trial:
    """A case after reset and set-up. ``seen``: what a planner is shown. Raises what the world raises at reset."""

    def __init__(self, world: AtomicSkills, case: Mapping[str, Any], *, repeat: int = 0) -> None:
        self._world, self._case = world, dict(case)
        self.evidence = world.reset(scenario_of(self._case), seed=0)
        self.actions: list[FloatArray] = []
        self.values = [world.measure().values]
        self.states = [world.state_sha256()]
        self._run("setup", world.setup_actions())
        self.seen = skill_case(shown_case(world.present_case(), repeat=repeat))

    def replay(self, plan: SkillPlan) -> Replayed:
        """Replay a plan and the settle, once, and climb the ladder of the skill."""
        self._run("waypoint", plan.trajectory)
        self._run("settle", np.repeat(plan.trajectory[-1:], world_settings().replay.settle_rows, axis=0))
        values = np.array(self.values)
        segments = {name: [part.start, part.stop] for name, part in plan.segments.items()}
        trace = Trace(
            action=np.array(self.actions),
            measured={name: values[:, where] for name, where in case_slices(self._case).items()},
            state_sha256=tuple(self.states),
            step_wall_us=np.zeros(len(self.states), dtype=np.int64),
            calls=({"proposed": len(plan.trajectory), "segments": json.dumps(segments)},),
        )
        case = skill_case(self._case)
        readings = replayed(trace, case, SCORING)
        climbed = climb(readings)
        stages = {record.stage: record for record in climbed.stages()}
        events = self._world.drain_events()
        return Replayed(case, trace, readings, events, stages, climbed.failure_stage, climbed.failure_reason)

    def _run(self, phase: Phase, rows: Sequence[FloatArray] | FloatArray) -> None:
        self._world.phase(phase)
        for row in rows:
            self._world.step(row)
            self.actions.append(row)
            self.values.append(self._world.measure().values)
            self.states.append(self._world.state_sha256())


def replay_once(world: AtomicSkills, case: Mapping[str, Any], planner: SkillPlanner, *, repeat: int = 0) -> Replayed:
    """Reset a case, plan and replay it. Raises PlanningFailed, and what the world raises."""
    trial = Trial(world, case, repeat=repeat)
    return trial.replay(planner.plan(trial.seen))
