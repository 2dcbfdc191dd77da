"""The whole extension surface: what a suite, a world, a policy and an executor must be.

Everything here is found by name through entry points (``trialplate.registry``) and loaded when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import document_sha256
from trialplate.record import (
    Ack,
    Column,
    Decision,
    EndReason,
    EpisodeInfo,
    Event,
    Measurement,
    Observation,
    PolicyDecision,
    SkillPlan,
)
from trialplate.spec.channels import ActionSpec, ObservationSpec, PolicySpec
from trialplate.spec.plan import ErrorsRule
from trialplate.spec.skills import Phase, SkillCase
from trialplate.spec.stages import StageChain

ReadbackForm = Literal["binary64", "direction"]
"""How a member of a readback is stored that is not plain binary32."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One concrete world setting with every number written out.

    ``parameters`` is plain JSON data. ``family`` is the unit of resampling.
    """

    id: str
    family: str
    domain: str
    variant: str
    parameters: Mapping[str, Any]

    def document(self) -> dict[str, Any]:
        """Return the plain form that stands in the manifest."""
        return {
            "id": self.id,
            "family": self.family,
            "domain": self.domain,
            "variant": self.variant,
            "parameters": dict(self.parameters),
        }

    def sha256(self) -> str:
        """Digest of the canonical form."""
        return document_sha256(self.document())


@dataclass(frozen=True, slots=True)
class ResetEvidence:
    """What the world is, read back from the simulator after reset.

    ``applied_scene`` has already been compared with the scenario by the environment (SceneMismatch otherwise);
    verification compares it again, independently.
    """

    applied_scene: Mapping[str, Any]
    applied_scene_sha256: str
    initial_state_sha256: str


@dataclass(frozen=True, slots=True)
class Sensed:
    """The channels of one look: ``images`` name -> (H, W, 3) uint8, ``proprio`` name -> (dim,) float64."""

    images: Mapping[str, NDArray[np.uint8]]
    proprio: Mapping[str, NDArray[np.float64]]


class Environment(Protocol):
    """One world; one episode at a time; no randomness but the seed it is given."""

    def reset(self, scenario: Scenario, *, seed: int) -> ResetEvidence:
        """Build or reuse the scenario's world at rest. Raises HarnessFault."""
        ...

    def sense(self, cameras: Sequence[str], *, proprio: Sequence[str]) -> Sensed:
        """Read the named channels; nothing else is rendered. Raises SensorInvalid."""
        ...

    def step(self, action: NDArray[np.float64]) -> Event | None:
        """Run one control step with a validated action (dim,).

        Returns None when it ran, or the event ``control_rejected`` when the action is legal but cannot be
        executed: then nothing moved. Raises HarnessFault.
        """
        ...

    def measure(self) -> Measurement:
        """Read the privileged columns, in the order of the suite's ``columns``."""
        ...

    def state_sha256(self) -> str:
        """Digest of the full simulator state."""
        ...

    def drain_events(self) -> tuple[Event, ...]:
        """Return and forget what the world did by itself since the last call (a disturbance began, ...)."""
        ...

    def frames(self, cameras: Sequence[str], *, height_px: int, width_px: int) -> Mapping[str, NDArray[np.uint8]]:
        """Render pictures for people; never shown to a policy and without effect on the state."""
        ...

    def close(self) -> None:
        """Release what the world holds."""
        ...


@runtime_checkable
class ProbeableEnvironment(Environment, Protocol):
    """A world that can be put into known states, so that what it sends can be held against what it declares.

    Not every world has this second interface; one without it is reported as not probed, never as right. All three are
    called after a reset; what they set is seen from the next ``sense`` on, until the next reset. Each returns the
    names of the channels that must now show it.
    """

    def pose_for_probe(self, wxyz: tuple[float, float, float, float]) -> tuple[str, ...]:
        """Turn the hand to an orientation, a unit quaternion in the frame that its channel declares."""
        ...

    def gripper_for_probe(self, opening: Literal["closed", "open"]) -> tuple[str, ...]:
        """Close or open the gripper fully."""
        ...

    def colour_card(self, corners: Mapping[str, tuple[int, int, int]]) -> tuple[str, ...]:
        """Fill each camera's view with a card in four colours (red, green, blue).

        ``corners``: ``top_left``, ``top_right``, ``bottom_left``, ``bottom_right`` as somebody behind the camera
        sees them; each reaches from its corner at least a quarter of the way along both edges.
        """
        ...


@runtime_checkable
class Policy(Protocol):
    """An arm under test."""

    def spec(self) -> PolicySpec:
        """Declare what it uses and sends."""
        ...

    def reset(self, episode: EpisodeInfo) -> None:
        """Forget the previous episode."""
        ...

    def act(self, observation: Observation) -> Decision | PolicyDecision:
        """Decide. Whatever it raises is charged to the arm."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


@runtime_checkable
class BatchPolicy(Policy, Protocol):
    """A policy that decides for several episodes in one call (``max_batch_size`` above 1)."""

    def act_batch(self, observations: Sequence[Observation]) -> Sequence[Decision | PolicyDecision | Exception]:
        """Decide for each; an exception in its place fails that item alone."""
        ...


class Actor(Protocol):
    """The arm's side of a rollout, whatever carries the messages: the run loop knows nothing else of an arm.

    Each transport is one implementation. Faults are typed where they are found: PolicyFault for what the arm did,
    ContractFault for messages that do not keep the contract, HarnessFault for a lost wire. Nothing else escapes.
    """

    def reset(self, episode: EpisodeInfo, scenario: Scenario) -> None:
        """Begin an episode; only a privileged control is shown the scenario."""
        ...

    def ask(self, observation: Observation, measure: Callable[[], Measurement]) -> PolicyDecision:
        """Return the decision to one observation; only a privileged control calls ``measure``."""
        ...

    def acknowledge(self, ack: Ack) -> None:
        """Tell what became of the last decision."""
        ...

    def end(self, reason: EndReason) -> None:
        """Tell that the episode has ended; never a score."""
        ...

    def close(self) -> None:
        """Release connection, process or object."""
        ...


@runtime_checkable
class WaitingActor(Actor, Protocol):
    """An actor that waits for an answer from elsewhere, and lets the loop do something meanwhile."""

    def ask_meanwhile(self, observation: Observation, work: Callable[[], None]) -> PolicyDecision:
        """Send the observation, call ``work``, which is short and raises nothing, and return the decision."""
        ...


@runtime_checkable
class WitnessActor(Actor, Protocol):
    """An actor that sees more than decisions: answers that came too late, under a wrong number, or as a link."""

    def drain_events(self) -> tuple[Event, ...]:
        """Return and forget what it saw since the last call; asked after ``end``."""
        ...


class PrivilegedControl(Protocol):
    """A control that may see measurements and the scenario. Never ranked; a different type from Policy."""

    def spec(self) -> PolicySpec:
        """Declare what it uses and sends."""
        ...

    def reset(self, episode: EpisodeInfo, scenario: Scenario) -> None:
        """Forget the previous episode; see the scenario."""
        ...

    def act(self, observation: Observation, measurement: Measurement) -> Decision:
        """Decide with privileged state."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


class SkillPlanner(Protocol):
    """An arm of a suite of skills: one plan for one case, made in a process of its own.

    ``capabilities``: what it can do, for example ``single_arm``, ``dual_arm``, ``parallel_gripper``; a case that
    needs another is not put to it. Raise :class:`trialplate.PlanningFailed` for "no plan".
    """

    id: str
    version: str
    capabilities: frozenset[str]

    def plan(self, case: SkillCase) -> SkillPlan:
        """Return a plan for a case as it stands after its set-up."""
        ...


@runtime_checkable
class SkillEnvironment(Environment, Protocol):
    """A world that replays plans: it is told what each row is, and so how long it takes."""

    def phase(self, name: Phase) -> None:
        """Say what the next steps are, until it is said again; after a reset, ``setup``."""
        ...

    def setup_actions(self) -> NDArray[np.float64]:
        """Return the rows (n, dof) that bring the case of the last reset to its start; none where it is there."""
        ...

    def present_case(self) -> Mapping[str, Any]:
        """Return the case document with ``q_start`` and ``poses`` as they are now."""
        ...


@dataclass(frozen=True, slots=True)
class Control:
    """A shipped control of a suite. ``policy`` is ``module:attr``. ``role`` says what the exam expects of it.

    ``fails_at``: domain -> the stage at which it must fail in every scenario of it; empty: it may fail anywhere.
    """

    policy: str
    role: str  # null | random | exploit | oracle | baseline
    meaning: str
    privileged: bool = False
    profile: str | None = None
    fails_at: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suite:
    """A packaged benchmark. Importing one imports no simulator: heavy parts are ``module:attr`` names.

    ``environment``: called as ``factory(body=..., profile=...)``. ``identity``: called without arguments, returns
    the simulator and rendering facts that belong into the lock; its ``rendering`` is None, or has ``renderer`` (None
    where nothing can draw, with ``reason``). ``sources``: folders or files that can change a
    number; they are hashed by content. ``errors_rule``: what an errored episode does to an arm's rate where the
    protocol does not say. ``schedule_verified``: the document that the suite's own schedule of scenarios was checked
    against; None when nobody did, and then there is no ``full`` plan. ``replayable``: False where no simulator stands
    behind the recordings (trials of a real robot, imported ones). ``computed_by``: the distributions whose code
    computes a state; a replay compares their digests with those of the lock. ``exam``: the scenarios of a
    qualification; None: all. ``readback``: the numbers of an applied scene are stored in binary32, but for the
    members named here (``binary64``: as they are; ``direction``: without noise below 1e-12); None: of their form
    nothing is said.

    A suite of skills (``kind`` ``skill``) has planners for arms, and no chain. Its ``environment`` is a
    :class:`SkillEnvironment`, ``action`` and ``columns`` stand for a case with one arm; ``columns_for`` and
    ``action_for`` give those of a scenario. ``ladders``: skill -> stage -> meaning. ``scorer`` (see
    :mod:`trialplate.scoring.own`) says what a recording is worth; ``start_check``, called with trace, scenario and
    settings, raises CaseFault where a start is none. ``settle_rows``: rows that hold the last waypoint.
    ``remappable``: reason -> the statuses that a protocol may give it. ``calibration``: called with ``repeats`` and
    ``progress``, returns the document of a calibration run. ``assets``: called without arguments, returns the models
    of others that the suite can use, each with its identity here.
    """

    name: str
    version: str
    summary: str
    instruction: str
    scope_note: str
    scenarios: Callable[[], tuple[Scenario, ...]]
    environment: str
    identity: str
    verify_scene: str
    controls: Mapping[str, Control]
    profiles: Mapping[str, ObservationSpec]
    default_profile: str
    action: ActionSpec
    columns: tuple[Column, ...]
    chain: StageChain | None
    fault_table: Mapping[str, str]
    max_steps: int
    bodies: tuple[str, ...]
    sources: tuple[Path, ...]
    camera_for_people: str
    filmstrip_note: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    errors_rule: ErrorsRule = "bounds"
    schedule_verified: str | None = None
    replayable: bool = True
    computed_by: tuple[str, ...] = ("numpy",)
    exam: Callable[[], tuple[Scenario, ...]] | None = None
    readback: Mapping[str, ReadbackForm] | None = None
    kind: Literal["control", "skill"] = "control"
    scorer: str | None = None
    start_check: str | None = None
    settle_rows: int = 0
    ladders: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    remappable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    calibration: str | None = None
    assets: str | None = None
    columns_for: Callable[[Scenario], tuple[Column, ...]] | None = None
    action_for: Callable[[Scenario], ActionSpec] | None = None

    def examined(self) -> tuple[str, ...]:
        """Return the ids of the scenarios that a qualification runs."""
        return tuple(scenario.id for scenario in (self.exam or self.scenarios)())

    def columns_of(self, scenario: Scenario) -> tuple[Column, ...]:
        """Return what is measured in a scenario."""
        return self.columns if self.columns_for is None else self.columns_for(scenario)

    def action_of(self, scenario: Scenario) -> ActionSpec:
        """Return the action space of a scenario."""
        return self.action if self.action_for is None else self.action_for(scenario)

    @property
    def stage_meanings(self) -> Mapping[str, str]:
        """Stage -> meaning, in order; of several ladders ``skill.stage``."""
        if self.chain is not None:
            return {stage.name: stage.meaning for stage in self.chain.stages}
        return {f"{skill}.{name}": what for skill, stages in self.ladders.items() for name, what in stages.items()}

    def manifest_document(self, scenarios: Iterable[Scenario] | None = None) -> dict[str, Any]:
        """Return the scenario manifest as a plain document."""
        listed = self.scenarios() if scenarios is None else tuple(scenarios)
        return {
            "schema": "trialplate.manifest/1",
            "suite": self.name,
            "version": self.version,
            "scenarios": [scenario.document() for scenario in listed],
        }
