"""The control loop: one attempt, from reset to its last recorded step, whatever wire the policy is behind.

Observation -> decision -> validate the whole chunk -> execute up to ``replan_interval`` rows -> ack -> again. Every
step is measured and its state hashed. Nothing here decides whether the attempt succeeded.

Source: policy contract, section 3, steps 7 to 14.
"""

from __future__ import annotations

from contextlib import suppress
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import action_sha256
from trialplate.errors import (
    RECOVERABLE_FAULTS,
    ContractFault,
    HarnessFault,
    PolicyFault,
    TrialplateError,
)
from trialplate.interfaces import Environment, ResetEvidence, WitnessActor
from trialplate.policies.charging import recordable, said
from trialplate.policies.validation import validate_chunk
from trialplate.record import (
    Ack,
    ActionChunk,
    EndReason,
    Event,
    Issue,
    PolicyDecision,
    Stop,
)
from trialplate.run.attempt import Answer, Attempt, Seat, Setting, attempted
from trialplate.run.frames import frozen
from trialplate.run.interrupt import asked
from trialplate.run.looking import Looking

END_REASONS: dict[str, EndReason] = {
    "policy_stop": "policy_stop", "step_limit": "step_limit", "control_rejected": "error", "fault": "error",
}  # fmt: skip


def run_attempt(seat: Seat, environment: Environment, setting: Setting) -> Attempt:
    """Run one attempt. Faults do not escape: they are recorded with their blame; interrupts do."""
    with attempted(setting) as attempt:
        _run(attempt, seat, environment, setting)
    return attempt


def _run(attempt: Attempt, seat: Seat, environment: Environment, setting: Setting) -> None:
    try:
        attempt.evidence = _reset(attempt, seat, environment, setting)
        attempt.termination = _control(attempt, seat, environment, setting)
    except (PolicyFault, ContractFault, HarnessFault) as fault:
        attempt.termination, attempt.fault = "fault", fault
    except TrialplateError:
        raise  # the run itself cannot go on: nothing to charge to this attempt
    except Exception as error:  # whatever the policy raises was charged to it already; this is the world's or ours
        message = f"{type(error).__name__} in the world or the loop: {error}"[:512]
        attempt.termination, attempt.fault = "fault", HarnessFault(message, code="simulator_crash")
    with suppress(PolicyFault, ContractFault, HarnessFault):  # the attempt is over: what it is worth stands
        seat.actor.end(END_REASONS[attempt.termination])
    attempt.events += environment.drain_events()
    if isinstance(seat.actor, WitnessActor):
        attempt.events += seat.actor.drain_events()


def _reset(attempt: Attempt, seat: Seat, environment: Environment, setting: Setting) -> ResetEvidence:
    start_ns = perf_counter_ns()
    seat.actor.reset(setting.info, setting.scenario)
    seat.adapters.reset()
    evidence = environment.reset(setting.scenario, seed=setting.env_seed)
    attempt.reset_us = (perf_counter_ns() - start_ns) // 1000
    attempt.recorder.begin(environment.measure(), environment.state_sha256())
    return evidence


def _control(attempt: Attempt, seat: Seat, environment: Environment, setting: Setting) -> str:
    """Ask and execute until the policy stops, the budget ends or the world refuses; return which it was."""
    looking = Looking(attempt, seat, environment, setting)
    issue: Issue | None = None
    while attempt.recorder.steps < setting.limits.max_steps:
        _refuse_spent_budget(attempt, setting)
        observation = looking.look(issue=issue)
        answer = _ask(attempt, seat, environment, setting, looking)
        ended, issue = _carry_out(attempt, seat, environment, setting, looking, answer)
        if ended is not None:
            return ended
        looking.forget(unless_same=issue is not None and attempt.recorder.steps == observation.step_index)
    return "step_limit"


def _refuse_spent_budget(attempt: Attempt, setting: Setting) -> None:
    limits, calls = setting.limits, attempt.recorder.call_count
    if limits.max_calls is not None and calls >= limits.max_calls:
        raise PolicyFault(
            f"all {limits.max_calls} registered calls are used at step {attempt.recorder.steps}",
            code="call_budget_exhausted",
        )
    if limits.policy_time_limit_s is not None and attempt.policy_us > limits.policy_time_limit_s * 1e6:
        raise PolicyFault(
            f"{calls} calls took {attempt.policy_us / 1e6:.3f} s, registered are {limits.policy_time_limit_s} s",
            code="policy_time_exhausted",
        )


def _ask(attempt: Attempt, seat: Seat, environment: Environment, setting: Setting, looking: Looking) -> Answer:
    """Ask once and check the answer whole; a fault comes with the answer, not as an exception."""
    observation, limits = looking.shown, setting.limits
    reply: PolicyDecision | None = None
    sent: NDArray[np.float64] | None = None
    rows: NDArray[np.float64] | None = None
    fault: TrialplateError | None = None
    start_ns = perf_counter_ns()
    latency_us = 0
    try:
        try:
            reply = looking.ask(environment.measure)
        finally:
            latency_us = (perf_counter_ns() - start_ns) // 1000
        limit_s = limits.call_timeout_s if observation.call_index else limits.first_call_timeout_s
        if latency_us > limit_s * 1e6:
            raise PolicyFault(
                f"call {observation.call_index} took {latency_us / 1e6:.3f} s, at most {limit_s} s is registered",
                code="policy_timeout",
            )
        if isinstance(reply.decision, ActionChunk):
            sent, rows = _checked(reply.decision, seat, setting)
    except (PolicyFault, ContractFault, HarnessFault) as error:
        fault = error
    attempt.policy_us += latency_us
    return Answer(reply, sent=sent, rows=rows, fault=fault, latency_us=latency_us)


def _checked(chunk: ActionChunk, seat: Seat, setting: Setting) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rows (n, dim) as sent and as the world takes them; every row was held against both specs."""
    vectors, most = chunk.vectors, setting.limits.max_chunk_length
    try:
        sent = validate_chunk(vectors, seat.action, max_rows=most)
        if seat.adapters.empty:
            return sent, sent
        return sent, validate_chunk(seat.adapters.act(sent), setting.suite.action, max_rows=most)
    except PolicyFault as fault:
        fault.message = recordable(fault.message)
        raise
    except BaseException as error:  # an answer that makes the check itself fail is the arm's, too
        if asked():
            raise
        message = f"an action that cannot be read: {type(error).__name__}: {said(error)}"
        raise PolicyFault(recordable(message), code="invalid_action") from None


def _carry_out(
    attempt: Attempt, seat: Seat, environment: Environment, setting: Setting, looking: Looking, answer: Answer
) -> tuple[str | None, Issue | None]:
    """Execute what may be executed, record the call, tell the policy. Return how the attempt ended, or the issue."""
    limits, before = setting.limits, attempt.recorder.steps
    issue: Issue | None = None
    if answer.fault is not None:
        told = limits.feedback and isinstance(answer.fault, PolicyFault) and answer.fault.code in RECOVERABLE_FAULTS
        issue = issue_of(answer.fault)
        _close_call(attempt, seat, looking, answer, _ack(looking, accepted=False, issue=issue, last=not told))
        if not told:
            raise answer.fault
        return None, issue
    if answer.rows is None:
        assert answer.reply is not None and isinstance(answer.reply.decision, Stop)
        _close_call(attempt, seat, looking, answer, _ack(looking, accepted=True, last=True))
        attempt.events += (Event(before, "policy_stop", answer.reply.decision.reason or ""),)
        return "policy_stop", None
    proposed, prefix = len(answer.rows), answer.rows[: limits.replan_interval]
    refusal, crash = _execute(attempt, environment, prefix, answer, max_steps=limits.max_steps)
    executed = attempt.recorder.steps - before
    if refusal is not None:
        issue = Issue("native_rejected", executed, None, refusal.detail[:400])
        attempt.events += (refusal,)
    refused = refusal is not None and not limits.feedback
    last = crash is not None or refused or attempt.recorder.steps >= limits.max_steps
    ack = Ack(
        looking.shown.episode, looking.shown.call_index, accepted=issue is None and crash is None, proposed=proposed,
        executed=executed, dropped_tail=proposed - len(prefix), discarded_after_end=len(prefix) - executed,
        issue=issue, next="episode_end" if last else "observation",
    )  # fmt: skip
    _close_call(attempt, seat, looking, answer, ack)
    if crash is not None:
        raise crash
    if refused:
        return "control_rejected", None
    return None, issue


def _execute(
    attempt: Attempt, environment: Environment, rows: NDArray[np.float64], answer: Answer, *, max_steps: int
) -> tuple[Event | None, Exception | None]:
    """Execute rows until they end, the budget ends, the world refuses one or breaks; return what stopped it."""
    recorder = attempt.recorder
    assert answer.sent is not None
    for action, sent in zip(rows, answer.sent, strict=False):
        if recorder.steps >= max_steps:
            break
        try:
            refusal = environment.step(action)
            if refusal is not None:
                return refusal, None
            recorder.step(action, environment.measure(), environment.state_sha256())
        except Exception as error:
            return None, error
        attempt.executed.append(frozen(sent))
    return None, None


def _close_call(attempt: Attempt, seat: Seat, looking: Looking, answer: Answer, ack: Ack) -> None:
    """Record one call in the trace and in the exchange, then tell the policy what became of it."""
    attempt.count(answer, ack)
    attempt.recorder.call(
        {
            "index": ack.call_index,
            "step": looking.shown.step_index,
            "latency_us": answer.latency_us,
            "kind": answer.kind(ack),
            "proposed": ack.proposed,
            "executed": ack.executed,
            "dropped": ack.dropped_tail,
            "discarded": ack.discarded_after_end,
            "issue": ack.issue.code if ack.issue is not None else None,
            "rows_sha256": action_sha256(answer.rows) if answer.rows is not None else None,
        },
        looking.digest,
    )
    attempt.exchanges.add(looking.exchange(answer, ack), frames=looking.digest.result)
    seat.actor.acknowledge(ack)


def _ack(looking: Looking, *, accepted: bool, issue: Issue | None = None, last: bool) -> Ack:
    shown = looking.shown
    return Ack(
        shown.episode, shown.call_index, accepted=accepted, proposed=0, executed=0, dropped_tail=0,
        discarded_after_end=0, issue=issue, next="episode_end" if last else "observation",
    )  # fmt: skip


def issue_of(fault: TrialplateError) -> Issue:
    """Return what a policy may be told of a fault: nothing beyond the public contract."""
    if isinstance(fault, PolicyFault):
        return Issue(fault.code, fault.row, fault.component, fault.rule)
    return Issue(fault.code, None, None, None)
