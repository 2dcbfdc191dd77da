"""One trial of a skill: reset, set-up, one plan, its replay, and the settle. Nothing here decides whether it passed.

Source: atomic skills, section 6.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import action_sha256
from trialplate.errors import CaseFault, ContractFault, HarnessFault, PlanFault, PolicyFault, TrialplateError
from trialplate.interfaces import Environment, ResetEvidence, SkillEnvironment
from trialplate.policies.planning.process import Planned, PlannerCard, PlannerProcess, PlannerSource
from trialplate.record import Event, SkillPlan
from trialplate.record.plan_check import check_segments
from trialplate.registry import load_attribute
from trialplate.run.attempt import Attempt, Setting, attempted
from trialplate.run.frames import PendingDigest
from trialplate.spec.skills import ASSET_MISSING, CASE_DETAILS, Phase, SkillCase, shown_case, skill_case

FAULT_DETAIL = "fault_detail"
"""Kind of the event that holds the detail of a fault."""
REPLAYED = "plan_replayed"


@dataclass(frozen=True, slots=True)
class PlannerSeat:
    """A planner at the loop: where it comes from, who it was when it was locked, how long it may take to load."""

    source: PlannerSource
    card: PlannerCard
    load_timeout_s: float


def run_skill_attempt(seat: PlannerSeat, environment: Environment, setting: Setting) -> Attempt:
    """Run one trial of a skill. Faults do not escape: they are recorded with their blame; interrupts do."""
    with attempted(setting) as attempt:
        _run(attempt, seat, environment, setting)
    return attempt


def _run(attempt: Attempt, seat: PlannerSeat, environment: Environment, setting: Setting) -> None:
    assert isinstance(environment, SkillEnvironment)
    trial = _Trial(attempt, seat, environment, setting, skill_case(setting.scenario.parameters))
    try:
        trial.run()
        attempt.termination = REPLAYED
    except (PolicyFault, ContractFault, HarnessFault) as fault:
        attempt.termination, attempt.fault = "fault", fault
        detail = _detail_of(fault)
        if detail is not None:
            attempt.events += (Event(attempt.recorder.steps, FAULT_DETAIL, detail),)
    attempt.events += environment.drain_events()


@dataclass(slots=True)
class _Trial:
    attempt: Attempt
    seat: PlannerSeat
    environment: SkillEnvironment
    setting: Setting
    case: SkillCase

    def run(self) -> None:
        """Do everything in order; raise the fault that ended it."""
        self._refuse_unsupported()
        with PlannerProcess(self.seat.source) as planner:  # it loads while the world is built
            self.attempt.evidence = self._reset()
            for action in self.environment.setup_actions():
                self._step("setup", action)
            self._check_start()
            plan = self._plan(planner)
        self._replay(plan)

    def _refuse_unsupported(self) -> None:
        lacking = sorted(set(self.case.required_capabilities) - set(self.seat.card.capabilities))
        if lacking:
            raise CaseFault(
                f"case {self.case.case_id} needs {', '.join(lacking)}; planner {self.seat.card.id!r} declares"
                f" {', '.join(self.seat.card.capabilities) or 'nothing'}",
                code="unsupported_capability",
            )
        if not self.case.attainable:
            raise CaseFault(
                f"case {self.case.case_id}: the screen of the manifest found no attainable grasp, for any planner",
                code="unsupported_capability",
            )

    def _reset(self) -> ResetEvidence:
        start_ns = perf_counter_ns()
        try:
            evidence = self.environment.reset(self.setting.scenario, seed=self.setting.env_seed)
        except HarnessFault as fault:
            raise _told_at_reset(fault) from None
        except TrialplateError:
            raise
        except Exception as error:  # the world's or ours: no planner has done anything yet
            raise HarnessFault(f"{type(error).__name__} in reset: {error}"[:512], code="reset_failed") from error
        self.attempt.reset_us = (perf_counter_ns() - start_ns) // 1000
        self.attempt.recorder.begin(self.environment.measure(), self.environment.state_sha256())
        return evidence

    def _check_start(self) -> None:
        reference, trace = self.setting.suite.start_check, self.attempt.recorder.trace()
        assert trace is not None
        if reference is not None:
            load_attribute(reference)(trace, self.setting.scenario, self.setting.suite.settings)

    # -- the plan ----------------------------------------------------------------------------------------------

    def _plan(self, planner: PlannerProcess) -> SkillPlan:
        shown = shown_case(self.environment.present_case(), repeat=self.setting.repeat)
        timeout_s, start_ns = self.case.plan_timeout_s, perf_counter_ns()
        planned: Planned | None = None
        try:
            found = planner.card(timeout_s=self.seat.load_timeout_s)
            if found != self.seat.card:
                raise CaseFault(
                    f"the planner says that it is {found.document()}, locked is {self.seat.card.document()}",
                    code="identity_changed",
                )
            start_ns = perf_counter_ns()
            planned = planner.plan(shown, self.case, timeout_s=timeout_s)
            check_segments(planned.plan.segments, self.case.segments, waypoints=len(planned.plan.trajectory))
        except (PlanFault, CaseFault) as fault:
            self._record_call(planned, _micros(start_ns), fault)
            raise
        self._record_call(planned, _micros(start_ns), None)
        return planned.plan

    def _record_call(self, planned: Planned | None, latency_us: int, fault: TrialplateError | None) -> None:
        """Record what the planner did: its plan, or the fault that it was. What ran of it is filled in later."""
        attempt, plan = self.attempt, planned.plan if planned is not None else None
        attempt.policy_us = latency_us
        attempt.calls_rejected = int(fault is not None)
        attempt.rows_proposed = len(plan.trajectory) if plan is not None else 0
        attempt.rows_discarded = attempt.rows_proposed
        attempt.waypoints_executed = 0
        if planned is not None and planned.belief_refused:
            attempt.events += (Event(attempt.recorder.steps, "belief_refused", "expected names with true or false"),)
        attempt.recorder.call(
            {
                "index": 0,
                "step": attempt.recorder.steps,
                "latency_us": latency_us,
                "kind": "plan" if fault is None else "fault",
                "proposed": attempt.rows_proposed,
                "executed": 0,
                "dropped": 0,
                "discarded": attempt.rows_proposed,
                "issue": fault.code if fault is not None else None,
                "rows_sha256": action_sha256(plan.trajectory) if plan is not None else None,
                **_plan_facts(plan),
            },
            PendingDigest({}),
        )

    # -- its replay --------------------------------------------------------------------------------------------

    def _replay(self, plan: SkillPlan) -> None:
        attempt, proposed = self.attempt, len(plan.trajectory)
        try:
            for done, action in enumerate(plan.trajectory, start=1):
                self._step("waypoint", action)
                attempt.waypoints_executed, attempt.rows_discarded = done, proposed - done
        finally:
            attempt.recorder.amend_call(executed=attempt.rows_executed, discarded=attempt.rows_discarded)
        for _ in range(self.setting.suite.settle_rows):
            self._step("settle", plan.trajectory[-1])

    def _step(self, phase: Phase, action: NDArray[np.float64]) -> None:
        """Run and record one row. Raises CaseFault when the world breaks: nobody's failure."""
        attempt, environment = self.attempt, self.environment
        where = f"after row {attempt.recorder.steps} ({phase})"
        try:
            environment.phase(phase)
            refusal = environment.step(action)
            measurement = environment.measure()
        except CaseFault:
            raise
        except Exception as error:
            raise _broken(error, where, detail="replay_crash") from error
        if refusal is not None:
            raise CaseFault(f"the world refuses a row of the {phase}: {refusal.detail}", detail="replay_crash")
        if not np.isfinite(measurement.values).all():
            raise CaseFault(f"what is measured is not finite {where}", detail="replay_diverged")
        try:
            state = environment.state_sha256()
        except HarnessFault as error:  # a state that is not finite has no digest
            raise _broken(error, where, detail="replay_diverged") from error
        except Exception as error:
            raise _broken(error, where, detail="replay_crash") from error
        attempt.recorder.step(action, measurement, state)


def _broken(error: Exception, where: str, *, detail: str) -> CaseFault:
    return CaseFault(f"{type(error).__name__} in the world {where}: {error}"[:512], detail=detail)


def _plan_facts(plan: SkillPlan | None) -> Mapping[str, str | None]:
    """Return spacing, segments and belief as the trace keeps them: texts."""
    if plan is None:
        return {"dt_s": None, "segments": None, "belief": None}
    segments = {name: [part.start, part.stop] for name, part in plan.segments.items()}
    belief = plan.belief
    return {
        "dt_s": repr(float(plan.dt_s)),
        "segments": _text(segments),
        "belief": _text(dict(belief)) if belief is not None else None,
    }


def _text(document: Any) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _told_at_reset(fault: HarnessFault) -> TrialplateError:
    """Return the fault of a case that its world refuses by name; any other as it is."""
    detail = fault.message.partition(":")[0]
    if detail in CASE_DETAILS:
        return CaseFault(fault.message, detail=detail)
    return fault


def _detail_of(fault: TrialplateError) -> str | None:
    """Return the code that goes with a fault, None where there is none."""
    if isinstance(fault, PlanFault | CaseFault):
        return fault.detail
    told = fault.code == "reset_failed" and fault.message.partition(":")[0] == ASSET_MISSING
    return ASSET_MISSING if told else None


def _micros(start_ns: int) -> int:
    return (perf_counter_ns() - start_ns) // 1000
