"""The loop: every way an attempt can end, with blame on the right side and nothing of a bad chunk executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trialplate.canonical import canonical_json
from trialplate.errors import HarnessFault
from trialplate.record import ActionChunk, EpisodeInfo, Stop
from trialplate.run.attempt import Attempt, Limits, Setting
from trialplate.run.loop import run_attempt
from trialplate.run.seating import seat_policy
from trialplate.spec.channels import PolicySpec
from trialplate.testing.toy import ACTION, STANDARD, TOY, Oracle, ToyWorld

INFO = EpisodeInfo("0" * 32, TOY.instruction, 20.0, 1, TOY.max_steps, 7)


class Scripted:
    """A policy made of one function of the call index."""

    def __init__(self, act: Callable[[int], Any]) -> None:
        self._act = act
        self.resets = 0

    def spec(self) -> PolicySpec:
        return PolicySpec(expects=STANDARD.only("hand"), emits=ACTION)

    def reset(self, episode: EpisodeInfo) -> None:
        self.resets += 1

    def act(self, observation: Any) -> Any:
        return self._act(observation.call_index)

    def close(self) -> None:
        pass


def _run(
    policy: Any,
    *,
    world: Any = None,
    replan_interval: int = 1,
    privileged: bool = False,
    call_timeout_s: float = 10.0,
    **more: Any,
) -> Attempt:
    limits = Limits(TOY.max_steps, 16, replan_interval, call_timeout_s, call_timeout_s, **more)
    return run_attempt(
        seat_policy(policy, TOY, privileged=privileged),
        world or ToyWorld(body="own", profile="standard"),
        Setting(TOY, TOY.scenarios()[0], INFO, 1, limits),
    )


def test_the_budget_ends_an_attempt_that_does_nothing() -> None:
    attempt = _run(Scripted(lambda call: ActionChunk([[0.0, 0.0]])))
    assert attempt.termination == "step_limit"
    assert attempt.recorder.steps == TOY.max_steps


def test_stop_ends_the_attempt_and_awards_nothing() -> None:
    attempt = _run(Scripted(lambda call: Stop("success!")))
    assert attempt.termination == "policy_stop"
    assert attempt.recorder.steps == 0
    assert attempt.events[0].kind == "policy_stop"


def test_an_oracle_sees_measurements_and_the_scenario() -> None:
    attempt = _run(Oracle(), privileged=True)
    assert attempt.termination == "policy_stop"
    trace = attempt.recorder.trace()
    assert trace is not None
    assert trace.measured["goal_offset_m"][-1, 0] < 0.05


def test_only_the_replan_interval_of_a_chunk_is_executed_and_the_tail_is_counted() -> None:
    attempt = _run(Scripted(lambda call: Stop() if call == 3 else ActionChunk(np.zeros((10, 2)))), replan_interval=4)
    assert attempt.recorder.steps == 12
    assert attempt.rows_proposed == 30
    assert attempt.rows_dropped == 18


def test_a_bad_row_in_the_tail_executes_nothing_of_its_chunk() -> None:
    rows = np.zeros((10, 2))
    rows[9, 1] = np.nan
    attempt = _run(Scripted(lambda call: ActionChunk(rows)), replan_interval=4)
    assert attempt.recorder.steps == 0
    assert attempt.fault is not None
    assert attempt.fault.code == "invalid_action"
    assert "row 9" in attempt.fault.message


def test_an_unreachable_action_ends_the_attempt_as_rejected() -> None:
    attempt = _run(Scripted(lambda call: ActionChunk([[1.0, -1.0]])))
    assert attempt.termination == "control_rejected"
    assert attempt.recorder.steps == 30
    assert "beyond the wall" in attempt.events[-1].detail


@pytest.mark.parametrize("error", [RuntimeError("boom"), HarnessFault("not my fault", code="simulator_crash")])
def test_whatever_a_policy_raises_is_its_own_exception(error: Exception) -> None:
    def act(call: int) -> Any:
        if call == 40:
            raise error
        return ActionChunk([[0.0, 0.0]])

    attempt = _run(Scripted(act))
    assert attempt.fault is not None
    assert attempt.fault.code == "policy_exception"
    assert attempt.recorder.steps == 40


@pytest.mark.parametrize("answer", [None, [[0.0, 0.0]], {"vectors": [[0.0, 0.0]]}, "stop"])
def test_what_is_no_decision_is_a_schema_fault(answer: Any) -> None:
    attempt = _run(Scripted(lambda call: answer))
    assert attempt.fault is not None
    assert attempt.fault.code == "invalid_response_schema"


def test_a_call_over_its_time_is_a_timeout_and_its_answer_is_not_used() -> None:
    from time import sleep

    def act(call: int) -> Any:
        sleep(0.05)
        return ActionChunk([[1.0, 1.0]])

    attempt = _run(Scripted(act), call_timeout_s=0.01)
    assert attempt.fault is not None
    assert attempt.fault.code == "policy_timeout"
    assert attempt.recorder.steps == 0


def test_a_crash_of_the_world_is_charged_to_the_harness_and_the_steps_before_it_are_kept() -> None:
    class Crashing(ToyWorld):
        steps = 0

        def step(self, action: Any) -> Any:
            self.steps += 1
            if self.steps == 5:
                raise HarnessFault("bad acceleration", code="simulator_crash")
            return super().step(action)

    attempt = _run(Scripted(lambda call: ActionChunk([[0.0, 0.0]])), world=Crashing(body="own", profile="standard"))
    assert attempt.fault is not None
    assert attempt.fault.code == "simulator_crash"
    assert attempt.recorder.steps == 4


def test_every_episode_resets_the_policy_before_the_world() -> None:
    policy = Scripted(lambda call: Stop())
    _run(policy)
    _run(policy)
    assert policy.resets == 2


def test_the_recorded_trace_holds_one_state_digest_per_step_and_the_start() -> None:
    trace = _run(Scripted(lambda call: Stop() if call == 5 else ActionChunk([[0.5, -1.0]]))).recorder.trace()
    assert trace is not None
    assert trace.steps == 5
    assert len(trace.state_sha256) == 6
    assert len(set(trace.state_sha256)) == 6
    assert trace.measured["hand_m"][:, 0] == pytest.approx([0.0, 0.05, 0.1, 0.15, 0.2, 0.25])


def test_an_unexpected_error_of_the_world_is_a_fault_of_the_harness_not_a_lost_run() -> None:
    class Broken(ToyWorld):
        def step(self, action: Any) -> Any:
            raise ZeroDivisionError("bad world")

    attempt = _run(Scripted(lambda call: ActionChunk([[0.0, 0.0]])), world=Broken(body="own", profile="standard"))
    assert isinstance(attempt.fault, HarnessFault)
    assert "ZeroDivisionError" in attempt.fault.message


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(0), GeneratorExit(), ValueError("a\x00b\ud800")])
def test_an_arm_cannot_call_its_failure_an_interruption_or_break_the_record(error: BaseException) -> None:
    def act(call: int) -> Any:
        raise error

    attempt = _run(Scripted(act))
    assert attempt.fault is not None
    assert attempt.fault.code == "policy_exception"
    assert canonical_json(attempt.fault.message)


class _Unreadable:
    def __str__(self) -> str:
        raise HarnessFault("not me", code="observation_unhealthy")

    __repr__ = __str__


def test_a_text_that_raises_when_read_is_never_a_fault_of_the_harness() -> None:
    stopped = _run(Scripted(lambda call: Stop(_Unreadable())))  # type: ignore[arg-type]
    assert stopped.termination == "policy_stop"
    sent = _run(Scripted(lambda call: ActionChunk([[_Unreadable(), 0.0]])))
    assert sent.fault is not None
    assert sent.fault.code == "invalid_action"
    large = _run(Scripted(lambda call: ActionChunk([[10**400, 0]])))
    assert large.fault is not None
    assert large.fault.code == "invalid_action"
