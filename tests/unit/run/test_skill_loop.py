from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trialplate.errors import CaseFault, HarnessFault
from trialplate.interfaces import ResetEvidence, Scenario
from trialplate.policies.planning.process import PlannerCard, PlannerSource
from trialplate.record import EpisodeInfo, Event, Measurement
from trialplate.run.attempt import Attempt, Limits, Setting
from trialplate.run.skills import PlannerSeat, run_skill_attempt
from trialplate.spec.skills import shown_case
from trialplate.testing.toy_skills import SETTLE_ROWS, TOY_SKILLS, ToyRail, scenarios

CARD = PlannerCard("toy-baseline", "1", ("parallel_gripper", "single_arm"))
SOURCE = PlannerSource("trialplate.testing.toy_skills:Baseline", Path())


def setting(name: str = "pick_up-1", *, repeat: int = 0, **changes: Any) -> Setting:
    scenario = next(item for item in scenarios() if item.id == name)
    scenario = replace(scenario, parameters={**scenario.parameters, **changes})
    info = EpisodeInfo("0" * 32, "plan", 31.25, 1, TOY_SKILLS.max_steps, 1)
    limits = Limits(TOY_SKILLS.max_steps, 1, 1, 60.0, 60.0)
    return Setting(TOY_SKILLS, scenario, info, 1, limits, repeat=repeat)


def attempt(world: ToyRail, given: Setting | None = None, *, card: PlannerCard = CARD) -> Attempt:
    return run_skill_attempt(PlannerSeat(SOURCE, card, 30.0), world, given or setting())


def details(done: Attempt) -> list[str]:
    return [event.detail for event in done.events if event.kind == "fault_detail"]


class Breaks(ToyRail):
    """Does something wrong at its 20th step."""

    def __init__(self, what: str) -> None:
        super().__init__(body="own", profile="state")
        self.what, self.count = what, 0

    def step(self, action: NDArray[np.float64]) -> Event | None:
        self.count += 1
        if self.count == 20 and self.what == "crash":
            raise RuntimeError("the solver gave up")
        if self.count == 20 and self.what == "fault":
            raise HarnessFault("bad state")
        if self.count == 20 and self.what == "refuse":
            return Event(-1, "control_rejected", "no")
        return super().step(action)

    def measure(self) -> Measurement:
        values = super().measure().values
        if self.count == 20 and self.what == "nan":
            values[1] = np.nan
        return Measurement(values)

    def reset(self, scenario: Scenario, *, seed: int) -> ResetEvidence:
        if self.what in ("initial_contact", "equality_constraint", "perturbation_not_applied"):
            raise HarnessFault(f"{self.what}: pad and block", code="reset_failed")
        if self.what == "asset_missing":
            raise HarnessFault("asset_missing: no such robot", code="reset_failed")
        if self.what == "reset":
            raise HarnessFault("no world", code="reset_failed")
        return super().reset(scenario, seed=seed)


def rail() -> ToyRail:
    return ToyRail(body="own", profile="state")


def test_a_plan_is_replayed_whole_and_then_held() -> None:
    done = attempt(rail())
    trace = done.recorder.trace()
    assert trace is not None and done.termination == "plan_replayed" and done.fault is None
    kinds = trace.measured["sample_kind"][:, 0].tolist()
    assert kinds == [0] + [2] * 45 + [3] * SETTLE_ROWS
    assert (trace.action[-SETTLE_ROWS:] == trace.action[44]).all()
    call = trace.calls[0]
    assert (call["kind"], call["proposed"], call["executed"], call["discarded"]) == ("plan", 45, 45, 0)
    assert call["segments"] == '{"approach":[0,15],"close":[15,30],"lift":[30,45]}'
    assert call["belief"] == '{"grasped":true}' and call["dt_s"] == "0.032"
    assert (done.rows_executed, done.rows_proposed) == (45, 45)


@pytest.mark.parametrize(
    ("what", "detail"),
    [("crash", "replay_crash"), ("fault", "replay_crash"), ("refuse", "replay_crash"), ("nan", "replay_diverged")],
)
def test_row_22_a_world_that_breaks_in_mid_replay_is_nobodys_failure(what: str, detail: str) -> None:
    done = attempt(Breaks(what))
    assert done.termination == "fault" and isinstance(done.fault, CaseFault)
    assert (done.fault.code, details(done)) == ("invalid_case", [detail])
    trace = done.recorder.trace()
    assert trace is not None and trace.steps == 19
    assert np.isfinite(trace.measured["q"]).all()
    assert (trace.calls[0]["executed"], trace.calls[0]["discarded"]) == (19, 26)


@pytest.mark.parametrize("what", ["initial_contact", "equality_constraint", "perturbation_not_applied"])
def test_row_36_row_45_a_case_that_its_world_refuses_is_an_invalid_case(what: str) -> None:
    done = attempt(Breaks(what))
    assert (done.fault.code if done.fault else None, details(done)) == ("invalid_case", [what])
    assert done.recorder.trace() is None


def test_a_reset_that_fails_otherwise_is_the_harness() -> None:
    done = attempt(Breaks("reset"))
    assert isinstance(done.fault, HarnessFault) and done.fault.code == "reset_failed"
    assert details(done) == []


def test_a_robot_that_is_not_on_the_machine_is_told_by_a_detail_of_its_own() -> None:
    done = attempt(Breaks("asset_missing"))
    assert isinstance(done.fault, HarnessFault) and done.fault.code == "reset_failed"
    assert details(done) == ["asset_missing"] and done.recorder.trace() is None


def test_row_35_a_goal_that_is_true_at_the_start_is_found_before_anything_is_planned() -> None:
    done = attempt(rail(), setting("move_joints-1", command={"q_target": [0.3]}))
    assert (done.fault.code if done.fault else None, details(done)) == ("invalid_case", ["vacuous_at_start"])
    assert done.recorder.call_count == 0


def test_row_19_a_planner_without_the_capability_is_not_asked() -> None:
    done = attempt(rail(), setting(required_capabilities=["single_arm", "dual_arm"]))
    assert done.fault is not None and done.fault.code == "unsupported_capability"
    assert "needs dual_arm" in done.fault.message and done.recorder.trace() is None


def test_a_planner_that_is_another_one_than_the_locked_is_not_evidence() -> None:
    done = attempt(rail(), card=replace(CARD, version="2"))
    assert done.fault is not None and done.fault.code == "identity_changed"
    assert done.recorder.call_count == 1


def test_a_planner_that_does_not_know_the_skill_fails_by_its_own_word() -> None:
    done = attempt(rail(), setting(skill="twist", command={"axis": [0, 0, 1], "angle_rad": 1.0}))
    assert done.fault is not None and done.fault.code == "planner_reported_failure"
    assert "no idea how to twist" in done.fault.message
    trace = done.recorder.trace()
    assert trace is not None and (trace.steps, trace.calls[0]["kind"]) == (0, "fault")


def test_every_repeat_is_shown_another_grasp_seed() -> None:
    document = scenarios()[0].parameters
    seeds = [shown_case(document, repeat=repeat)["grasp_seed"] for repeat in range(3)]
    assert seeds == [5, 6, 7]
    shown = shown_case(next(s.parameters for s in scenarios() if s.variant.startswith("robustness")), repeat=0)
    assert (shown["set"], shown["axis"], shown["domain"]) == (None, None, None)
