"""The control loop: one attempt, from reset to its last recorded step. All of it is on this page.

Observation -> act -> validate the whole chunk -> execute up to ``replan_interval`` rows -> again. Every step is
measured and its state hashed. Nothing here decides whether the attempt succeeded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import array_digest
from trialplate.errors import HarnessFault, PolicyFault, TrialplateError
from trialplate.interfaces import Environment, ResetEvidence, Scenario, Sensed, Suite
from trialplate.policies.charging import charged, recordable, said
from trialplate.policies.validation import validate_chunk
from trialplate.record import ActionChunk, EpisodeInfo, Event, Observation, Stop
from trialplate.run.interrupt import asked
from trialplate.run.recorder import Recorder
from trialplate.spec.channels import PolicySpec


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends an attempt from outside."""

    max_steps: int
    max_chunk_length: int
    replan_interval: int
    call_timeout_s: float
    first_call_timeout_s: float


@dataclass(frozen=True, slots=True)
class Seat:
    """A loaded arm at the loop: its declaration, and whether it is a control that may see measurements."""

    policy: Any
    spec: PolicySpec
    privileged: bool
    registration_sha256: str


@dataclass(slots=True)
class Attempt:
    """What the loop leaves behind."""

    recorder: Recorder
    evidence: ResetEvidence | None = None
    termination: str = "fault"
    fault: TrialplateError | None = None
    events: tuple[Event, ...] = ()
    rows_proposed: int = 0
    rows_dropped: int = 0
    reset_us: int = 0


def run_attempt(
    seat: Seat,
    environment: Environment,
    *,
    suite: Suite,
    scenario: Scenario,
    info: EpisodeInfo,
    env_seed: int,
    limits: Limits,
) -> Attempt:
    """Run one attempt. Faults do not escape: they are recorded with their blame; interrupts do."""
    attempt = Attempt(Recorder(suite.columns, action_dim=suite.action.dim, max_steps=limits.max_steps))
    try:
        _reset(attempt, seat, environment, scenario=scenario, info=info, env_seed=env_seed)
        attempt.termination = _control(
            attempt, seat, environment, suite=suite, scenario=scenario, info=info, limits=limits
        )
    except (PolicyFault, HarnessFault) as fault:
        attempt.termination, attempt.fault = "fault", fault
    except TrialplateError:
        raise  # the run itself cannot go on: nothing to charge to this attempt
    except Exception as error:  # whatever the policy raises was charged to it already; this is the world's or ours
        message = f"{type(error).__name__} in the world or the loop: {error}"[:512]
        attempt.termination, attempt.fault = "fault", HarnessFault(message, code="simulator_crash")
    attempt.events += environment.drain_events()
    return attempt


def _reset(
    attempt: Attempt, seat: Seat, environment: Environment, *, scenario: Scenario, info: EpisodeInfo, env_seed: int
) -> None:
    start_ns = perf_counter_ns()
    arguments = (info, scenario) if seat.privileged else (info,)
    charged(lambda: seat.policy.reset(*arguments), doing="reset", genuine=asked)
    attempt.evidence = environment.reset(scenario, seed=env_seed)
    attempt.reset_us = (perf_counter_ns() - start_ns) // 1000
    attempt.recorder.begin(environment.measure(), environment.state_sha256())


def _control(
    attempt: Attempt,
    seat: Seat,
    environment: Environment,
    *,
    suite: Suite,
    scenario: Scenario,
    info: EpisodeInfo,
    limits: Limits,
) -> str:
    recorder = attempt.recorder
    scenario_sha256 = scenario.sha256()
    while recorder.steps < limits.max_steps:
        sensed = environment.sense(seat.spec.cameras, proprio=seat.spec.proprio)
        observation = _observation(attempt, seat, sensed, info=info, scenario_sha256=scenario_sha256)
        shown = seen(sensed)  # before the arm could write into what it is shown
        decision, latency_us = _decide(seat, observation, environment, limits=limits)
        entry = {"index": observation.call_index, "step": recorder.steps, "latency_us": latency_us, **shown}
        if isinstance(decision, Stop):
            recorder.call({**entry, "kind": "stop", "proposed": 0, "executed": 0, "dropped": 0, "rows_sha256": None})
            attempt.events += (Event(recorder.steps, "policy_stop", _reason(decision)),)
            return "policy_stop"
        if not isinstance(decision, ActionChunk):
            raise PolicyFault(
                f"act returned {type(decision).__name__}, expected ActionChunk or Stop",
                code="invalid_response_schema",
            )
        vectors = decision.vectors
        rows = _checked(lambda: validate_chunk(vectors, suite.action, max_rows=limits.max_chunk_length))  # noqa: B023
        executed, refusal = _execute(
            recorder, environment, rows[: limits.replan_interval], max_steps=limits.max_steps
        )
        attempt.rows_proposed += len(rows)
        attempt.rows_dropped += len(rows) - executed
        counts = {"proposed": len(rows), "executed": executed, "dropped": len(rows) - executed}
        recorder.call({**entry, "kind": "chunk", **counts, "rows_sha256": array_digest(rows)})
        if refusal is not None:
            attempt.events += (refusal,)
            return "control_rejected"
    return "step_limit"


def _execute(
    recorder: Recorder, environment: Environment, rows: NDArray[np.float64], *, max_steps: int
) -> tuple[int, Event | None]:
    """Execute rows until they end, the budget ends or the world refuses one; return how many ran."""
    executed = 0
    for action in rows:
        if recorder.steps >= max_steps:
            break
        refusal = environment.step(action)
        if refusal is not None:
            return executed, refusal
        recorder.step(action, environment.measure(), environment.state_sha256())
        executed += 1
    return executed, None


def _observation(
    attempt: Attempt, seat: Seat, sensed: Sensed, *, info: EpisodeInfo, scenario_sha256: str
) -> Observation:
    assert attempt.evidence is not None
    return Observation(
        episode=info.episode,
        call_index=len(attempt.recorder.calls),
        step_index=attempt.recorder.steps,
        instruction=info.instruction,
        images=sensed.images,
        proprio=sensed.proprio,
        scenario_sha256=scenario_sha256,
        applied_scene_sha256=attempt.evidence.applied_scene_sha256,
        registration_sha256=seat.registration_sha256,
    )


def _decide(seat: Seat, observation: Observation, environment: Environment, *, limits: Limits) -> tuple[Any, int]:
    arguments = (observation, environment.measure()) if seat.privileged else (observation,)
    start_ns = perf_counter_ns()
    decision = charged(
        lambda: seat.policy.act(*arguments), doing=f"act, call {observation.call_index}", genuine=asked
    )
    latency_us = (perf_counter_ns() - start_ns) // 1000
    limit_s = limits.call_timeout_s if observation.call_index else limits.first_call_timeout_s
    if latency_us > limit_s * 1e6:
        raise PolicyFault(
            f"call {observation.call_index} took {latency_us / 1e6:.3f} s, at most {limit_s} s is registered",
            code="policy_timeout",
        )
    return decision, latency_us


def _checked(check: Callable[[], NDArray[np.float64]]) -> NDArray[np.float64]:
    """Validate what an arm sent; an answer that makes the check itself fail is the arm's, too."""
    try:
        return check()
    except PolicyFault as fault:
        raise PolicyFault(recordable(fault.message), code=fault.code) from None
    except BaseException as error:
        if asked():
            raise
        message = f"an action that cannot be read: {type(error).__name__}: {said(error)}"
        raise PolicyFault(recordable(message), code="invalid_action") from None


def _reason(stop: Stop) -> str:
    """Return why an arm stopped, as text that can be recorded."""
    return said(stop.reason) if stop.reason is not None else ""


def seen(sensed: Sensed) -> dict[str, str | None]:
    """Digest what was sent, so that a stranger can tell two looks apart without the pictures."""
    if not sensed.images:
        return {"frames_sha256": None}
    digest = hashlib.sha256()
    for name in sorted(sensed.images):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(sensed.images[name]).data)
    return {"frames_sha256": digest.hexdigest()}
