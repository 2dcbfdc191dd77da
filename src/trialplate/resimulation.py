"""Recorded actions simulated again: the one way, for pictures of an attempt and to compare it with its recording.

Compared: the world after reset, the digest of its full state and every measured column after each control step, and
what scoring makes of the measurements. Of a state only its digest is recorded, so the size of a difference is told in
the measured columns. Not simulated again: what a policy was shown, and an action that the world refused.

A world is found by the name of its installed suite; nothing that lies beside a recording is loaded.
Source: evidence specification, section 10, "Replay".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import EvidenceError, TrialplateError
from trialplate.interfaces import Environment, ResetEvidence, Scenario, SkillEnvironment, Suite
from trialplate.record import Column, Outcome, Row, Trace
from trialplate.registry import load_attribute, load_suite
from trialplate.scoring.own import own_scorer
from trialplate.scoring.score import outcome_of
from trialplate.spec.skills import PHASES, Phase
from trialplate.spec.stages import StageChain
from trialplate.store.findings import EvidenceProblem, Finding, finding
from trialplate.store.folder import Folder
from trialplate.store.view import lock_columns, read_row_trace

MISMATCH = "replay_mismatch"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One attempt as it was recorded, and the ``body`` and observation ``profile`` that its world had."""

    row: Row
    trace: Trace
    body: str
    profile: str


@dataclass(frozen=True, slots=True)
class Moment:
    """The world again, after reset (``step`` 0) or after a control step.

    ``measured``: the privileged columns (D,) in the order of the suite. ``evidence``: of the reset, else None.
    """

    step: int
    state_sha256: str
    measured: NDArray[np.float64]
    evidence: ResetEvidence | None = None


class Worlds:
    """The worlds of one suite in this process, one for each body and profile, kept warm."""

    def __init__(self, suite_name: str) -> None:
        self.suite: Suite = load_suite(suite_name)
        self.scenarios: dict[str, Scenario] = {scenario.id: scenario for scenario in self.suite.scenarios()}
        self._kept: dict[tuple[str, str], Environment] = {}

    def world(self, body: str, profile: str) -> Environment:
        """Return the world. Raises UsageError for a body or profile that the suite does not have."""
        key = (body, profile)
        if key not in self._kept:
            self._kept[key] = load_attribute(self.suite.environment)(body=body, profile=profile)
        return self._kept[key]

    def scenario(self, name: str) -> Scenario:
        """Return a scenario. Raises EvidenceError when the installed suite has none of that name."""
        if name not in self.scenarios:
            raise EvidenceError(f"suite {self.suite.name} has no scenario {name!r}", code="scenario_unknown")
        return self.scenarios[name]

    def close(self) -> None:
        """Release every world."""
        for world in self._kept.values():
            world.close()
        self._kept.clear()


def simulate_again(recording: Recorded, environment: Environment, scenario: Scenario) -> Iterator[Moment]:
    """Reset with the recorded seed, execute the recorded actions, and yield the world after reset and each step.

    The environment stands at the moment that was yielded last. Raises EvidenceError ``replay_mismatch`` where the
    world refuses a recorded action, and whatever fault the world itself raises.
    """
    phases = _phases(recording, environment)
    skilled = environment if isinstance(environment, SkillEnvironment) else None  # asked once: it is slow to tell
    evidence = environment.reset(scenario, seed=recording.row.env_seed)
    measured = environment.measure().values
    yield Moment(0, environment.state_sha256(), measured, evidence)
    for step, action in enumerate(recording.trace.action, start=1):
        if skilled is not None:
            skilled.phase(phases[step - 1])
        refusal = environment.step(action)
        if refusal is not None:
            raise EvidenceError(
                f"trial {recording.row.trial_id}: the world refuses the action that was recorded as executed at"
                f" control step {step}: {refusal.detail}",
                code=MISMATCH,
            )
        measured = environment.measure().values
        yield Moment(step, environment.state_sha256(), measured)


def _phases(recording: Recorded, environment: Environment) -> tuple[Phase, ...]:
    """Return what each recorded row was to a world that replays plans; nothing for any other world."""
    if not isinstance(environment, SkillEnvironment):
        return ()
    kinds = recording.trace.measured["sample_kind"][1:, 0].tolist()
    strange = [kind for kind in kinds if kind not in PHASES]
    if strange:
        raise EvidenceError(f"trial {recording.row.trial_id}: unknown kind of row {strange[0]!r}", code=MISMATCH)
    return tuple(PHASES[int(kind)] for kind in kinds)


# -- one attempt compared with its recording -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Repeat:
    """One attempt simulated again. ``reason``: why there was nothing to simulate; None when it was.

    ``last_state_sha256``: where the simulation ended, None when it did not begin.
    """

    trial_id: str
    attempt: int
    findings: tuple[Finding, ...] = ()
    last_state_sha256: str | None = None
    reason: str | None = None


class Repeater:
    """Simulates attempts of one campaign again in this process; all it needs is the lock and the suite."""

    def __init__(self, folder: Path, lock: Mapping[str, Any]) -> None:
        suite = lock["suite"]
        self._folder, self._body = folder, suite["body"]
        self._max_steps: int = suite["max_steps"]
        self._profiles = {arm["name"]: arm["profile"] for arm in lock["arms"]}
        self._own = own_scorer(lock)
        self._chain = StageChain.model_validate_json(json.dumps(suite["chain"])) if self._own is None else None
        self._fault_table: Mapping[str, str] = suite["fault_table"]
        self._locked_columns = lock_columns(lock)
        self._worlds = Worlds(suite["name"])

    def repeat_all(self, rows: Sequence[Row]) -> list[Repeat]:
        """Simulate a few attempts again, one after the other."""
        return [self.repeat(row) for row in rows]

    def close(self) -> None:
        """Release the worlds."""
        self._worlds.close()

    def repeat(self, row: Row) -> Repeat:
        """Simulate one attempt again and compare it with its recording."""
        if row.trace is None:
            return Repeat(
                row.trial_id, row.attempt, reason=f"nothing was recorded: {row.fault_code or row.termination}"
            )
        try:
            with Folder(self._folder) as folder:
                trace = read_row_trace(folder, row, columns=self._locked_columns, compare_content=False)
        except EvidenceProblem as error:
            return Repeat(row.trial_id, row.attempt, (error.finding,), reason="its recording cannot be read")
        if trace.steps > self._max_steps:
            many = _different(row, f"/step/{self._max_steps + 1}", f"at most {self._max_steps} steps", trace.steps)
            return Repeat(row.trial_id, row.attempt, (many,))
        recorded = Recorded(row, trace, self._body, self._profiles[row.arm])
        try:
            scenario = self._worlds.scenario(row.scenario)
            world = self._worlds.world(recorded.body, recorded.profile)
        except TrialplateError as error:
            return Repeat(row.trial_id, row.attempt, (_different(row, "/scenario", row.scenario, error.message),))
        again = _Again.run(recorded, world, scenario)
        found = [*self._reset_findings(row, again), *self._step_findings(recorded, again)]
        if found and again.stopped is None:  # equal measurements are worth the same
            found += self._outcome_findings(recorded, again)
        return Repeat(row.trial_id, row.attempt, tuple(found), again.states[-1] if again.states else None)

    def _reset_findings(self, row: Row, again: _Again) -> Iterator[Finding]:
        """Compare what the row says about the world after reset with what is there."""
        evidence = again.first.evidence if again.first is not None else None
        if evidence is None:
            return
        for name in ("initial_state_sha256", "applied_scene_sha256"):
            if getattr(row, name) != getattr(evidence, name):
                path = f"episodes/{row.trial_id}-{row.attempt}/row.json"
                yield finding(
                    MISMATCH, path, pointer=f"/{name}", expected=getattr(row, name), found=getattr(evidence, name)
                )

    def _step_findings(self, recorded: Recorded, again: _Again) -> Iterator[Finding]:
        """Name the first control step that differs, and by how much what was measured there differs at most."""
        trace, reached = recorded.trace, len(again.states)
        columns = self._columns(recorded.row)
        then = np.concatenate([trace.measured[column.name] for column in columns], axis=1)
        unequal = (again.measured[:reached] != then[:reached]).any(axis=1)
        unequal |= np.array(again.states) != np.array(trace.state_sha256[:reached])
        if unequal.any():
            step = int(np.flatnonzero(unequal)[0])
            state, found = trace.state_sha256[step], again.states[step]
            largest = _largest(columns, then[step], again.measured[step])
            yield _different(recorded.row, f"/state_sha256/{step}", f"state {state} at control step {step}",
                             f"state {found}; {largest}")  # fmt: skip
        elif again.stopped is not None:
            where = f"/action/{reached - 1}" if reached else "/reset"
            yield _different(recorded.row, where, f"control step {reached} of {trace.steps}", again.stopped)

    def _columns(self, row: Row) -> tuple[Column, ...]:
        return self._worlds.suite.columns_of(self._worlds.scenario(row.scenario))

    def _outcome_findings(self, recorded: Recorded, again: _Again) -> Iterator[Finding]:
        """Score what was measured again and compare status and stages with those of the recording."""
        row, trace = recorded.row, recorded.trace
        columns = self._columns(row)
        ends = np.cumsum([column.dim for column in columns])[:-1]
        parts = np.split(again.measured, ends, axis=1)
        names = (column.name for column in columns)
        now = Trace(
            trace.action, dict(zip(names, parts, strict=True)), tuple(again.states), trace.step_wall_us, trace.calls
        )
        try:
            before, after = (self._worth(row, seen) for seen in (trace, now))
        except EvidenceError:
            return  # it cannot be scored at all: recomputation has said so
        if _told(before) != _told(after):
            where = f"{row.trial_id}-{row.attempt}"
            yield finding(MISMATCH, "results.jsonl", pointer=where, expected=_told(before), found=_told(after))

    def _worth(self, row: Row, trace: Trace) -> Outcome:
        if self._own is not None:
            return self._own(row, trace)
        assert self._chain is not None  # a suite has one or the other
        return outcome_of(row, trace, chain=self._chain, fault_table=self._fault_table)


def _largest(columns: Sequence[Column], then: NDArray[np.float64], now: NDArray[np.float64]) -> str:
    """Say which measured number (of rows (D,) then and now) differs most."""
    away = np.abs(now - then)
    index = int(np.argmax(away))
    if away[index] == 0.0:
        return "every measured column is equal there"
    names = [
        (column.name, f"[{at}]" if column.dim > 1 else "", column.unit)
        for column in columns
        for at in range(column.dim)
    ]
    name, component, unit = names[index]
    return (
        f"of what is measured, {name}{component} differs most, by {away[index]:.6g} {unit}"
        f" (recorded {then[index]:.6g}, now {now[index]:.6g})"
    )


@dataclass(slots=True)
class _Again:
    """An attempt simulated again as far as it went. ``stopped``: what the world said when it went no further."""

    states: list[str]
    measured: NDArray[np.float64]  # (T + 1, D)
    first: Moment | None = None
    stopped: str | None = None

    @classmethod
    def run(cls, recorded: Recorded, environment: Environment, scenario: Scenario) -> _Again:
        width = sum(values.shape[1] for values in recorded.trace.measured.values())
        again = cls([], np.empty((recorded.trace.steps + 1, width)))
        try:
            for moment in simulate_again(recorded, environment, scenario):
                again.first = again.first or moment
                again.measured[moment.step] = moment.measured
                again.states.append(moment.state_sha256)
        except TrialplateError as error:
            again.stopped = error.message
        except Exception as error:  # a world that anybody wrote may raise anything: told as where it went no further
            again.stopped = f"{type(error).__name__} in the world: {error}"[:512]
        return again


def _told(outcome: Outcome) -> str:
    """Return status and stages in one line."""
    stages = ", ".join(f"{s.name} {s.step if s.passed else 'not passed'}" for s in outcome.stages)
    return f"{outcome.status.value} ({outcome.reason}); {stages or 'no stages'}"


def _different(row: Row, pointer: str, expected: object, found: object) -> Finding:
    path = row.trace.path if row.trace is not None else f"episodes/{row.trial_id}-{row.attempt}"
    return finding(MISMATCH, path, pointer=pointer, expected=expected, found=found)
