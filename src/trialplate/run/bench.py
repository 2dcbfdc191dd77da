"""One worker's bench: worlds and arms kept warm, trials run one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from trialplate.canonical import array_digest, env_seed, policy_seed, sha256_hex
from trialplate.errors import HarnessFault, LockError, PolicyFault, Unavailable
from trialplate.interfaces import Environment, Scenario, Suite
from trialplate.policies.charging import charged
from trialplate.policies.in_process import load_policy
from trialplate.policies.matching import refuse_mismatch
from trialplate.record import EpisodeInfo, Row, Timing, Trace, TraceRef
from trialplate.registry import load_attribute, load_suite
from trialplate.run.interrupt import asked
from trialplate.run.loop import Attempt, Limits, Seat, run_attempt
from trialplate.run.schedule import Trial
from trialplate.spec.channels import PolicySpec
from trialplate.spec.protocol import Budgets
from trialplate.store.layout import trace_path
from trialplate.store.traces import trace_bytes


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What a worker needs to know; plain and picklable. ``lock`` is the lock document."""

    lock: Mapping[str, Any]
    lock_sha256: str


class Bench:
    """Runs trials of one lock in this process."""

    def __init__(self, plan: BenchPlan) -> None:
        self._plan = plan
        self._suite: Suite = load_suite(plan.lock["suite"]["name"])
        self._scenarios: dict[str, Scenario] = {scenario.id: scenario for scenario in self._suite.scenarios()}
        self._arms: dict[str, Mapping[str, Any]] = {arm["name"]: arm for arm in plan.lock["arms"]}
        self._budgets = Budgets.model_validate(plan.lock["protocol"]["budgets"])
        self._seats: dict[str, Seat] = {}
        self._worlds: dict[str, Environment] = {}

    def seat(self, arm: str) -> Seat:
        """Return the loaded arm, checked against the suite. Raises LockError when it does not fit."""
        if arm not in self._seats:
            self._seats[arm] = seat_arm(
                self._arms[arm],
                self._suite,
                base=Path(self._plan.lock["base"]),
                simulator=self._plan.lock["simulator"],
            )
        return self._seats[arm]

    def run(self, trial: Trial, *, attempt: int) -> tuple[Row, bytes | None]:
        """Run one trial; return its row and the bytes of its trace (None when the world never came to rest)."""
        scenario = self._scenarios[trial.scenario]
        seat = self.seat(trial.arm)
        arm = self._arms[trial.arm]
        info = self._info(trial, arm)
        start_ns = perf_counter_ns()
        done = run_attempt(
            seat,
            self._world(arm["profile"]),
            suite=self._suite,
            scenario=scenario,
            info=info,
            env_seed=trial_seed(self._plan, trial),
            limits=self._limits(arm),
        )
        wall_us = (perf_counter_ns() - start_ns) // 1000
        trace = done.recorder.trace()
        data = trace_bytes(trace, columns=self._suite.columns) if trace is not None else None
        row = self._row(trial, attempt, scenario, done, trace=trace, data=data, wall_us=wall_us)
        return row, data

    def close(self) -> None:
        """Release worlds and policies."""
        for world in self._worlds.values():
            world.close()
        for seat in self._seats.values():
            release(seat)
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
        return Limits(
            max_steps=self._plan.lock["suite"]["max_steps"],
            max_chunk_length=self._budgets.max_chunk_length,
            replan_interval=arm["replan_interval"],
            call_timeout_s=self._budgets.call_timeout_s,
            first_call_timeout_s=self._budgets.first_call_timeout_s,
        )

    def _row(
        self, trial: Trial, attempt: int, scenario: Scenario, done: Attempt, *, trace: Trace | None,
        data: bytes | None, wall_us: int,
    ) -> Row:  # fmt: skip
        calls = done.recorder.calls
        latencies = sorted(int(call["latency_us"]) for call in calls)
        return Row(
            **_trial_facts(self._plan, trial, scenario, attempt=attempt),
            termination=done.termination,
            fault_code=done.fault.code if done.fault else None,
            fault_message=done.fault.message if done.fault else None,
            control_steps=done.recorder.steps,
            calls=len(calls),
            rows_proposed=done.rows_proposed,
            rows_executed=done.recorder.steps,
            rows_dropped=done.rows_dropped,
            initial_state_sha256=done.evidence.initial_state_sha256 if done.evidence else None,
            applied_scene_sha256=done.evidence.applied_scene_sha256 if done.evidence else None,
            actions_sha256=array_digest(trace.action) if trace is not None and trace.steps else None,
            trace=_trace_ref(trial, attempt, trace, data),
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


def release(seat: Seat) -> None:
    """Close an arm; what it raises then comes after its last episode and changes nothing."""
    with suppress(PolicyFault):
        charged(seat.policy.close, doing="close", genuine=asked)


def seat_arm(arm: Mapping[str, Any], suite: Suite, *, base: Path, simulator: Mapping[str, Any]) -> Seat:
    """Load an arm of the lock and check its declaration against the suite.

    Raises LockError when it does not fit, Unavailable when it wants cameras and nothing can draw here.
    """
    weights = tuple(shard["path"] for shard in arm["weights"])
    policy = load_policy(arm["reference"], base=base, weights=weights, options=arm["options"])
    try:
        spec = charged(lambda: PolicySpec.model_validate(policy.spec().model_dump()), doing="spec")  # our own copy
    except PolicyFault as fault:
        raise LockError(f"arm {arm['name']!r}: {fault.message}", code="policy_spec") from None
    refuse_mismatch(
        arm["name"],
        spec,
        suite.profiles[arm["profile"]],
        action=suite.action,
        replan_interval=arm["replan_interval"],
    )
    drawing = simulator.get("rendering")
    if spec.cameras and (drawing is None or drawing["renderer"] is None):
        why = drawing["reason"] if drawing else "this suite has no cameras"
        raise Unavailable(f"arm {arm['name']!r} wants cameras {', '.join(spec.cameras)}: {why}")
    return Seat(policy, spec, privileged=arm["privileged"], registration_sha256=arm["registration_sha256"])


def unfinished_row(plan: BenchPlan, trial: Trial, attempt: int, *, fault: HarnessFault | None) -> Row:
    """Return the row of an attempt that left no recording: interrupted, or lost with its worker (``fault``)."""
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
        "registration_sha256": arm["registration_sha256"],
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


def _nearest_rank(ordered: list[int], q: float) -> int | None:
    """Return the nearest-rank quantile of sorted values, None when there are none."""
    if not ordered:
        return None
    return ordered[max(0, -int(-len(ordered) * q // 1) - 1)]
