"""One worker's bench: worlds and arms kept warm, trials run one after the other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import array_digest, env_seed, policy_seed, sha256_hex
from trialplate.errors import ContractFault, TrialplateError
from trialplate.inputs import Marks, arm_marks, first_written
from trialplate.interfaces import Environment, Scenario, Suite
from trialplate.record import EpisodeInfo, ExchangeRef, Row, Timing, Trace, TraceRef
from trialplate.registry import load_attribute, load_suite
from trialplate.run.attempt import Attempt, Limits, Recording, Seat, Setting
from trialplate.run.loop import run_attempt
from trialplate.run.memory import keep_freed_memory
from trialplate.run.schedule import Trial
from trialplate.run.seating import ActorFactory, Terms, seat_arm
from trialplate.run.skill_seating import seat_planner
from trialplate.run.skills import run_skill_attempt
from trialplate.spec.protocol import Budgets
from trialplate.spec.registration import Registration
from trialplate.store.layout import exchange_path, trace_path
from trialplate.store.traces import trace_bytes


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What a worker needs to know; plain and picklable. ``lock`` is the lock document.

    ``addresses`` and ``registered``: see :class:`~trialplate.run.seating.Terms`. ``marks``: the files of each arm as
    they lay when the run began (:mod:`trialplate.inputs`).
    """

    lock: Mapping[str, Any]
    lock_sha256: str
    recording: Recording = "minimal"
    addresses: Mapping[str, str] = field(default_factory=dict)
    registered: Mapping[str, Registration] = field(default_factory=dict)
    marks: Marks = field(default_factory=dict)

    def terms(self) -> Terms:
        """Return what the lock says about every arm."""
        return Terms(
            Budgets.model_validate_json(json.dumps(self.lock["protocol"]["budgets"])),
            Path(self.lock["base"]),
            self.lock["suite"]["max_steps"],
            self.addresses,
            self.registered,
        )

    def registration_sha256(self, arm: Mapping[str, Any]) -> str:
        """Return the digest of the identity that an arm of the lock really has in this run."""
        found = self.registered.get(arm["name"])
        locked: str = arm["registration_sha256"]
        return found.sha256() if found is not None else locked


@dataclass(frozen=True, slots=True)
class Finished:
    """A trial that came back: its row, and the bytes of its trace and of what was exchanged."""

    row: Row
    trace: bytes | None
    exchange: bytes | None


class Bench:
    """Runs trials of one lock in this process. ``actors``: scheme -> how an arm that comes by itself is met."""

    def __init__(self, plan: BenchPlan, *, actors: Mapping[str, ActorFactory] | None = None) -> None:
        keep_freed_memory()
        self._plan, self._actors = plan, actors or {}
        self._suite: Suite = load_suite(plan.lock["suite"]["name"])
        self._scenarios: dict[str, Scenario] = {scenario.id: scenario for scenario in self._suite.scenarios()}
        self._arms: dict[str, Mapping[str, Any]] = {arm["name"]: arm for arm in plan.lock["arms"]}
        self._terms = plan.terms()
        self._seats: dict[str, Seat] = {}
        self._worlds: dict[str, Environment] = {}

    def seat(self, arm: str) -> Seat:
        """Return the seated arm, checked against the suite.

        Raises LockError when it does not fit, ContractFault ``identity_changed`` when its files were written since
        the run began: before they are loaded, and after.
        """
        if arm not in self._seats:
            self._refuse_written(arm)
            seat = seat_arm(self._arms[arm], self._suite, self._terms, actors=self._actors)
            try:
                self._refuse_written(arm)
            except ContractFault:
                seat.actor.close()
                raise
            self._seats[arm] = seat
        return self._seats[arm]

    def _refuse_written(self, arm: str) -> None:
        now = arm_marks(self._arms[arm], base=self._terms.base) if arm in self._plan.marks else {}
        written = first_written(self._plan.marks.get(arm, {}), now)
        if written is not None:
            raise ContractFault(
                f"arm {arm!r} is no longer what was locked: {written} was written during the run",
                code="identity_changed",
            )

    def run(self, trial: Trial, *, attempt: int) -> Finished:
        """Run one trial. Its trace is None when the world never came to rest."""
        arm, scenario = self._arms[trial.arm], self._scenarios[trial.scenario]
        setting = Setting(
            self._suite,
            scenario,
            self._info(trial, arm),
            trial_seed(self._plan, trial),
            self._limits(arm),
            self._plan.recording,
            trial.repeat,
        )
        try:
            play = self._player(arm)
            start_ns = perf_counter_ns()
            done = play(setting)
        except ContractFault as fault:
            return lost_trial(self._plan, (trial, attempt), fault=fault)
        wall_us = (perf_counter_ns() - start_ns) // 1000
        trace = done.recorder.trace()
        data = trace_bytes(trace, columns=self._suite.columns_of(scenario)) if trace is not None else None
        exchange = done.exchanges.finish()
        row = self._row(
            trial, attempt, done, trace_ref=_trace_ref(trial, attempt, trace, data),
            exchange_ref=_exchange_ref(trial, attempt, exchange), actions=trace.action if trace else None,
            wall_us=wall_us,
        )  # fmt: skip
        return Finished(row, data, exchange)

    def _player(self, arm: Mapping[str, Any]) -> Callable[[Setting], Attempt]:
        """Return what runs one attempt of an arm. Both raise ContractFault when it is no longer what was locked."""
        name, profile = arm["name"], arm["profile"]
        if self._suite.kind == "control":
            seat = self.seat(name)
            return lambda setting: run_attempt(seat, self._world(profile), setting)
        planner = seat_planner(arm, base=self._terms.base, budgets=self._terms.budgets)

        def play(setting: Setting) -> Attempt:
            self._refuse_written(name)  # each plan loads the planner anew
            done = run_skill_attempt(planner, self._world(profile), setting)
            self._refuse_written(name)
            return done

        return play

    def close(self) -> None:
        """Release worlds and policies."""
        for world in self._worlds.values():
            world.close()
        for seat in self._seats.values():
            seat.actor.close()
        self._worlds.clear()
        self._seats.clear()

    def _world(self, profile: str) -> Environment:
        if profile not in self._worlds:
            factory = load_attribute(self._suite.environment)
            self._worlds[profile] = factory(body=self._plan.lock["suite"]["body"], profile=profile)
        return self._worlds[profile]

    def _info(self, trial: Trial, arm: Mapping[str, Any]) -> EpisodeInfo:
        opaque = f"trialplate/1 episode\n{self._plan.lock_sha256}\n{trial.ordinal}"
        return EpisodeInfo(
            episode=hashlib.sha256(opaque.encode()).hexdigest()[:32],
            instruction=self._suite.instruction,
            control_hz=self._suite.action.control_hz,
            replan_interval=arm["replan_interval"],
            max_steps=self._plan.lock["suite"]["max_steps"],
            policy_seed=policy_seed(self._plan.lock_sha256, trial.ordinal),
        )

    def _limits(self, arm: Mapping[str, Any]) -> Limits:
        budgets = self._terms.budgets
        return Limits(
            max_steps=self._terms.max_steps,
            max_chunk_length=budgets.max_chunk_length,
            replan_interval=arm["replan_interval"],
            call_timeout_s=budgets.call_timeout_s,
            first_call_timeout_s=budgets.first_call_timeout_s,
            max_calls=budgets.max_calls,
            policy_time_limit_s=budgets.policy_time_limit_s,
            feedback=budgets.invalid_action_handling == "feedback",
        )

    def _row(
        self, trial: Trial, attempt: int, done: Attempt, *, trace_ref: TraceRef | None,
        exchange_ref: ExchangeRef | None, actions: NDArray[np.float64] | None, wall_us: int,
    ) -> Row:  # fmt: skip
        calls = done.recorder.calls
        latencies = sorted(int(call["latency_us"]) for call in calls)
        usage, usage_reason = done.usage()
        return Row(
            **_trial_facts(self._plan, trial, self._scenarios[trial.scenario], attempt=attempt),
            termination=done.termination,
            fault_code=done.fault.code if done.fault else None,
            fault_message=done.fault.message if done.fault else None,
            control_steps=done.recorder.steps,
            calls=len(calls),
            rows_proposed=done.rows_proposed,
            rows_executed=done.rows_executed,
            rows_dropped=done.rows_dropped,
            rows_discarded=done.rows_discarded,
            calls_rejected=done.calls_rejected,
            short_chunks=done.short_chunks,
            usage=usage,
            usage_reason=usage_reason,
            echo=done.echo,
            initial_state_sha256=done.evidence.initial_state_sha256 if done.evidence else None,
            applied_scene_sha256=done.evidence.applied_scene_sha256 if done.evidence else None,
            actions_sha256=array_digest(actions) if actions is not None and len(actions) else None,
            trace=trace_ref,
            exchange=exchange_ref,
            events=done.events,
            applied_scene=dict(done.evidence.applied_scene) if done.evidence else None,
            timing=Timing(
                wall_us=wall_us,
                policy_us=sum(latencies),
                reset_us=done.reset_us,
                call_p50_us=_nearest_rank(latencies, 0.50),
                call_p95_us=_nearest_rank(latencies, 0.95),
            ),
        )


def unfinished_row(plan: BenchPlan, trial: Trial, attempt: int, *, fault: TrialplateError | None) -> Row:
    """Return the row of an attempt without a recording: interrupted, or lost with its worker or arm (``fault``)."""
    suite = load_suite(plan.lock["suite"]["name"])
    scenario = next(item for item in suite.scenarios() if item.id == trial.scenario)
    return Row(
        **_trial_facts(plan, trial, scenario, attempt=attempt),
        termination="fault" if fault is not None else "interrupted",
        fault_code=fault.code if fault is not None else None,
        fault_message=fault.message if fault is not None else None,
        control_steps=0,
        calls=0,
        rows_proposed=0,
        rows_executed=0,
        rows_dropped=0,
        initial_state_sha256=None,
        applied_scene_sha256=None,
        actions_sha256=None,
        trace=None,
    )


def lost_trial(plan: BenchPlan, task: tuple[Trial, int], *, fault: TrialplateError | None) -> Finished:
    """Return what is left of a trial whose worker was lost, or whose arm was no longer the locked one."""
    return Finished(unfinished_row(plan, *task, fault=fault), None, None)


def _trial_facts(plan: BenchPlan, trial: Trial, scenario: Scenario, *, attempt: int) -> dict[str, Any]:
    """Return the members of a row that say which planned trial it is of."""
    arm = next(item for item in plan.lock["arms"] if item["name"] == trial.arm)
    return {
        "trial_id": trial.trial_id,
        "ordinal": trial.ordinal,
        "attempt": attempt,
        "arm": trial.arm,
        "scenario": scenario.id,
        "family": scenario.family,
        "domain": scenario.domain,
        "variant": scenario.variant,
        "repeat": trial.repeat,
        "env_seed": trial_seed(plan, trial),
        "scenario_sha256": scenario.sha256(),
        "registration_sha256": plan.registration_sha256(arm),
    }


def trial_seed(plan: BenchPlan, trial: Trial) -> int:
    """Return the environment seed of a trial; the arm is not in it."""
    return env_seed(plan.lock_sha256, plan.lock["suite"]["name"], scenario=trial.scenario, repeat=trial.repeat)


def _trace_ref(trial: Trial, attempt: int, trace: Trace | None, data: bytes | None) -> TraceRef | None:
    if trace is None or data is None:
        return None
    return TraceRef(
        path=trace_path(trial.trial_id, attempt),
        file_sha256=sha256_hex(data),
        content_sha256=trace.content_sha256(),
        size_bytes=len(data),
        steps=trace.steps,
    )


def _exchange_ref(trial: Trial, attempt: int, data: bytes | None) -> ExchangeRef | None:
    if data is None:
        return None
    return ExchangeRef(exchange_path(trial.trial_id, attempt), sha256_hex(data), len(data))


def _nearest_rank(ordered: list[int], q: float) -> int | None:
    """Return the nearest-rank quantile of sorted values, None when there are none."""
    if not ordered:
        return None
    return ordered[max(0, -int(-len(ordered) * q // 1) - 1)]
