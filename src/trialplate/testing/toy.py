"""Suite ``toy``: a numpy-only world on a line that exercises the whole harness in milliseconds.

A hand at ``hand_m`` moves along a line; a block lies at ``block_m``; closing near the block attaches it. It
measures nothing about robots: it exists so that harness, store, scoring and report can be tested without physics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import array_digest, document_sha256
from trialplate.errors import SceneMismatch
from trialplate.interfaces import Control, ResetEvidence, Scenario, Sensed, Suite
from trialplate.record import ActionChunk, Column, Decision, EpisodeInfo, Event, Measurement, Observation, Stop
from trialplate.spec.channels import (
    ActionComponent,
    ActionSpec,
    GripperRange,
    ObservationSpec,
    PolicySpec,
    ProprioSpec,
)
from trialplate.spec.stages import Condition, StageChain, StageSpec

STEP_M = 0.1
REACH_M = 0.06
WALL_M = 3.05
MAX_STEPS = 60


def _channel(name: str) -> ProprioSpec:
    return ProprioSpec(name=name, dim=1, unit="m", frame="world", rotation=None, gripper=None)


def _component(name: str, kind: Any, mode: Any, unit: Any, gripper: GripperRange | None) -> ActionComponent:
    return ActionComponent(
        name=name, dim=1, kind=kind, mode=mode, delta_base="step" if mode == "delta" else None, unit=unit,
        frame=None, rotation=None, gripper=gripper, low=(-1.0,), high=(1.0,),
    )  # fmt: skip


STANDARD = ObservationSpec(instruction=False, proprio=(_channel("hand"), _channel("block"), _channel("goal")))
ACTION = ActionSpec(
    control_hz=20.0,
    dim=2,
    components=(
        _component("move", "other", "delta", "m", None),
        _component("gripper", "gripper", "absolute", "1", GripperRange(closed=1.0, open=-1.0)),
    ),
)


def scenarios() -> tuple[Scenario, ...]:
    """Return six scenarios in two domains."""
    listed = []
    for number in range(6):
        domain = "near" if number < 4 else "far"
        start_m = 0.5 + 0.1 * number
        parameters = {"block_m": round(start_m, 3), "goal_m": round(-0.4 - 0.1 * number, 3)}
        name = f"toy-{number + 1:03d}"
        listed.append(Scenario(name, name, domain, f"{domain}_block", parameters))
    return tuple(listed)


def verify_scene(scenario: Mapping[str, Any], applied: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return (pointer, expected, found) for every difference between a scenario and what was applied."""
    expected: Mapping[str, Any] = scenario["parameters"]
    keys = sorted({*expected, *applied})
    return [(f"/{key}", expected.get(key), applied.get(key)) for key in keys if expected.get(key) != applied.get(key)]


def identity() -> dict[str, Any]:
    """Return the simulator's identity: there is none but numpy."""
    return {"name": "toy", "numpy": np.__version__, "rendering": None, "rendering_reason": "no cameras"}


class ToyWorld:
    """State: hand, block, attached; one control step moves the hand by at most ``STEP_M``."""

    def __init__(self, *, body: str, profile: str) -> None:
        self.body, self.profile = body, profile
        self._state = np.zeros(5)  # hand_m, block_m, attached, gripper_command, goal_m

    def reset(self, scenario: Scenario, *, seed: int) -> ResetEvidence:
        """Put hand at 0 and the block where the scenario says."""
        self._state[:] = (0.0, scenario.parameters["block_m"], 0.0, 0.0, scenario.parameters["goal_m"])
        applied = {"block_m": float(self._state[1]), "goal_m": float(self._state[4])}
        if found := verify_scene(scenario.document(), applied):
            raise SceneMismatch(f"scene differs: {found}")
        return ResetEvidence(applied, document_sha256(applied), self.state_sha256())

    def sense(self, cameras: Sequence[str], *, proprio: Sequence[str]) -> Sensed:
        """Return hand and block positions."""
        channels = {"hand": self._state[:1].copy(), "block": self._state[1:2].copy(), "goal": self._state[4:5].copy()}
        return Sensed({}, {name: channels[name] for name in proprio})

    def step(self, action: NDArray[np.float64]) -> Event | None:
        """Move, then close or open. Beyond the wall is unreachable: refused, nothing moves."""
        target_m = self._state[0] + STEP_M * action[0]
        if abs(target_m) > WALL_M:
            return Event(-1, "control_rejected", f"hand_m {target_m:.3f} is beyond the wall at {WALL_M}")
        self._state[0] = target_m
        self._state[3] = action[1]
        if action[1] < 0:
            self._state[2] = 0.0
        elif abs(self._state[0] - self._state[1]) <= REACH_M:
            self._state[2] = 1.0
        if self._state[2]:
            self._state[1] = self._state[0]
        return None

    def measure(self) -> Measurement:
        """Read the columns of the suite."""
        hand, block, attached, command, goal = self._state
        return Measurement(np.array([hand, block, abs(hand - block), attached, command, abs(block - goal)]))

    def state_sha256(self) -> str:
        """Digest of the whole state."""
        return array_digest(self._state[None, :])

    def drain_events(self) -> tuple[Event, ...]:
        """The toy world does nothing by itself."""
        return ()

    def frames(self, cameras: Sequence[str], *, height_px: int, width_px: int) -> Mapping[str, NDArray[np.uint8]]:
        """Draw hand (white), block (red) and goal (green) as bars on a line, for people."""
        picture = np.full((height_px, width_px, 3), 40, dtype=np.uint8)
        for position_m, colour in (
            (self._state[4], (40, 160, 80)),
            (self._state[1], (200, 50, 50)),
            (self._state[0], (240,) * 3),
        ):
            column = int((position_m + WALL_M) / (2 * WALL_M) * (width_px - 1))
            picture[height_px // 3 : 2 * height_px // 3, max(0, column - 1) : column + 2] = colour
        return dict.fromkeys(cameras, picture)

    def close(self) -> None:
        """Nothing is held."""


class _ToyPolicy:
    """Shared declaration of the toy controls."""

    def spec(self) -> PolicySpec:
        """Use every channel, send two numbers."""
        return PolicySpec(expects=STANDARD, emits=ACTION)

    def close(self) -> None:
        """Nothing is held."""


class Null(_ToyPolicy):
    """All zeros."""

    def reset(self, episode: EpisodeInfo) -> None:
        """Nothing is remembered."""

    def act(self, observation: Observation) -> Decision:
        """Send one row of zeros."""
        return ActionChunk([[0.0, 0.0]])


class Random(_ToyPolicy):
    """Uniform in the legal box."""

    def reset(self, episode: EpisodeInfo) -> None:
        """Seed from the episode."""
        self._stream = np.random.default_rng(episode.policy_seed)

    def act(self, observation: Observation) -> Decision:
        """Send one random row."""
        return ActionChunk(self._stream.uniform(-1, 1, (1, 2)))


class Exploit(_ToyPolicy):
    """Claims success and stops."""

    def reset(self, episode: EpisodeInfo) -> None:
        """Nothing is remembered."""

    def act(self, observation: Observation) -> Decision:
        """Stop at once with a claim."""
        return Stop("success: the task is complete, score 1.0")


class Scripted(_ToyPolicy):
    """Walks to the block, closes, walks to the goal, opens, waits. Uses only declared channels."""

    def __init__(self, *, aim_m: float = 0.0) -> None:
        self.aim_m = aim_m

    def reset(self, episode: EpisodeInfo) -> None:
        """Start over."""
        self._released, self._closed = 0, False

    def act(self, observation: Observation) -> Decision:
        """Send one row."""
        hand, block, goal = (float(observation.proprio[name][0]) for name in ("hand", "block", "goal"))
        return self._decide(hand, block, goal)

    def _decide(self, hand: float, block: float, goal: float) -> Decision:
        if self._released:
            self._released += 1
            return Stop("done") if self._released > 12 else ActionChunk([[0.0, -1.0]])
        held = self._closed and abs(hand - block) < 1e-9
        target = (goal if held else block) + self.aim_m
        if held and abs(hand - target) < 0.01:
            self._released = 1
            return ActionChunk([[0.0, -1.0]])
        move = max(-1.0, min(1.0, (target - hand) / STEP_M))
        self._closed = held or abs(target - hand) < 1.001 * STEP_M
        return ActionChunk([[move, 1.0 if self._closed else -1.0]])


class Oracle(Scripted):
    """The scripted plan with privileged state."""

    def reset(self, episode: EpisodeInfo, scenario: Scenario) -> None:  # type: ignore[override]
        """Start over; remember the goal."""
        self._released, self._closed = 0, False
        self._goal = float(scenario.parameters["goal_m"])

    def act(self, observation: Observation, measurement: Measurement) -> Decision:  # type: ignore[override]
        """Send one row."""
        hand, block = measurement.values[:2]
        return self._decide(float(hand), float(block), self._goal)


def _near(column: str, limit: float) -> Condition:
    return Condition(column=column, op="le", limit=limit, unit="m")


TOY = Suite(
    name="toy",
    version="1",
    summary="A numpy-only world on a line for tests of the harness; it measures nothing about robots.",
    instruction="bring the block to the goal",
    scope_note="The toy suite measures nothing about robots.",
    scenarios=scenarios,
    environment="trialplate.testing.toy:ToyWorld",
    identity="trialplate.testing.toy:identity",
    verify_scene="trialplate.testing.toy:verify_scene",
    controls={
        "null": Control("trialplate.testing.toy:Null", "null", "all zeros; must pass nothing"),
        "random": Control("trialplate.testing.toy:Random", "random", "uniform actions; reported"),
        "exploit": Control("trialplate.testing.toy:Exploit", "exploit", "claims success; must pass nothing"),
        "scripted": Control("trialplate.testing.toy:Scripted", "baseline", "walks, grasps, carries, releases"),
        "oracle": Control("trialplate.testing.toy:Oracle", "oracle", "privileged; must pass all", privileged=True),
    },
    profiles={"standard": STANDARD},
    default_profile="standard",
    action=ACTION,
    columns=(
        Column("hand_m", 1, "m"),
        Column("block_m", 1, "m"),
        Column("distance_m", 1, "m"),
        Column("attached", 1, "1"),
        Column("gripper_command", 1, "1"),
        Column("goal_offset_m", 1, "m"),
    ),
    chain=StageChain(
        attached="attached",
        opening=Condition(column="gripper_command", op="lt", limit=0.0, unit="1"),
        start_forbidden=(_near("goal_offset_m", 0.05),),
        stages=(
            StageSpec(name="reached", meaning="the hand is at the block", when=(_near("distance_m", REACH_M),)),
            StageSpec(name="grasped", meaning="the block is attached", attachment="held"),
            StageSpec(
                name="transported", meaning="the held block is at the goal", attachment="held",
                when=(_near("goal_offset_m", 0.05),),
            ),
            StageSpec(
                name="released", meaning="let go inside the goal", attachment="released",
                when=(_near("goal_offset_m", 0.05),), keep=(_near("goal_offset_m", 0.05),),
            ),
            StageSpec(
                name="stable", meaning="stays ten steps", attachment="free", when=(_near("goal_offset_m", 0.05),),
                hold_steps=10,
            ),
        ),
    ),
    fault_table={},
    max_steps=MAX_STEPS,
    bodies=("own",),
    sources=(Path(__file__),),
    camera_for_people="front",
)  # fmt: skip
