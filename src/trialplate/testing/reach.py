"""Suite ``toy-reach``: a numpy-only hand that moves in space, with the action vector of the policy contract.

It measures nothing about robots: it exists so that every transport, adapter and check of the contract can be tested
in milliseconds, pictures included. The hand has to be at the goal with its gripper closed for three steps.

Source: policy contract ``trialplate.policy/1``, sections 10 and 11.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import array_digest, document_sha256
from trialplate.errors import SceneMismatch, UsageError, nearest
from trialplate.interfaces import Control, ResetEvidence, Scenario, Sensed, Suite
from trialplate.record import Column, Event, Measurement
from trialplate.spec.channels import HistorySpec, ObservationSpec
from trialplate.spec.stages import Condition, StageChain, StageSpec
from trialplate.testing.reach_channels import ACTION, ACTIONS_BACK, FRAMES_BACK, PROPRIO, PROPRIO_XYZW, cameras
from trialplate.testing.reach_pictures import card, front, wrist

GOAL_M = (0.5, 0.0, 0.3)
REACH_M = 0.02
CLOSED = 0.05
LOW_M, HIGH_M = (0.2, -0.4, 0.05), (0.8, 0.4, 0.65)
MAX_STEPS = 60
_META: Any = ("step_index", "sim_time_s", "control_hz", "remaining_steps", "remaining_calls")

PROFILES = {
    "standard": ObservationSpec(cameras=cameras(), proprio=PROPRIO, meta=_META),
    "state": ObservationSpec(proprio=PROPRIO),
    "state-xyzw": ObservationSpec(proprio=PROPRIO_XYZW),
    "front": ObservationSpec(cameras=cameras()[:1], proprio=PROPRIO),
    "history": ObservationSpec(
        cameras=cameras(), proprio=PROPRIO, history=HistorySpec(frames=FRAMES_BACK, actions=ACTIONS_BACK), meta=_META
    ),
}
"""What may be sent: pictures and numbers, numbers only, the quaternion in the other order, one camera, the past."""


def scenarios() -> tuple[Scenario, ...]:
    """Return ten scenarios of two families: starts to the left and to the right of the goal, near and far."""
    listed = []
    for number in range(10):
        side = "left" if number % 2 else "right"
        domain = "near" if number < 6 else "far"
        away_m = 0.1 + 0.02 * number
        start_m = [0.45 + 0.01 * number, away_m if side == "left" else -away_m, 0.2 + 0.015 * number]
        parameters = {
            "start_m": [round(value, 3) for value in start_m],
            "yaw_rad": round(0.2 * number - 0.7, 3),
            "goal_m": list(GOAL_M),
        }
        listed.append(Scenario(f"reach-{number + 1:03d}", side, domain, f"{domain}_{side}", parameters))
    return tuple(listed)


def verify_scene(scenario: Mapping[str, Any], applied: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return (pointer, expected, found) for every difference between a scenario and what was applied."""
    expected: Mapping[str, Any] = scenario["parameters"]
    keys = sorted({*expected, *applied})
    return [(f"/{key}", expected.get(key), applied.get(key)) for key in keys if expected.get(key) != applied.get(key)]


def identity() -> dict[str, Any]:
    """Return the simulator's identity: numpy moves the hand and draws it."""
    drawing = {"backend": "numpy", "renderer": "numpy", "version": np.__version__, "reason": None}
    return {"simulator": "toy-reach", "version": np.__version__, "rendering": drawing}


class ReachWorld:
    """State: hand position and orientation, gripper opening (0 closed, 1 open), goal; nothing moves by itself."""

    def __init__(self, *, body: str, profile: str) -> None:
        if profile not in PROFILES:
            raise UsageError(f"no profile {profile!r}{nearest(profile, PROFILES)}", code="unknown_profile")
        self.body, self.profile = body, profile
        self.position_m, self.goal_m = np.zeros(3), np.array(GOAL_M)
        self.quat_wxyz = np.array([1.0, 0.0, 0.0, 0.0])
        self.opening, self.steps = 1.0, 0
        self._card: Mapping[str, tuple[int, int, int]] | None = None

    def reset(self, scenario: Scenario, *, seed: int) -> ResetEvidence:
        """Put the hand where the scenario says, gripper open."""
        parameters = scenario.parameters
        self.position_m, self.goal_m = np.array(parameters["start_m"]), np.array(parameters["goal_m"])
        half_rad = parameters["yaw_rad"] / 2
        self.quat_wxyz = np.array([math.cos(half_rad), 0.0, 0.0, math.sin(half_rad)])
        self.opening, self.steps, self._card = 1.0, 0, None
        applied = {**parameters, "start_m": self.position_m.tolist(), "goal_m": self.goal_m.tolist()}
        if found := verify_scene(scenario.document(), applied):
            raise SceneMismatch(f"scene differs: {found}")
        return ResetEvidence(applied, document_sha256(applied), self.state_sha256())

    def sense(self, cameras: Sequence[str], *, proprio: Sequence[str]) -> Sensed:
        """Return the named channels of the profile."""
        quat = np.roll(self.quat_wxyz, -1) if self.profile == "state-xyzw" else self.quat_wxyz.copy()
        numbers = {"ee_pos": self.position_m.copy(), "ee_quat": quat, "gripper": np.array([self.opening])}
        return Sensed({name: self.picture(name) for name in cameras}, {name: numbers[name] for name in proprio})

    def step(self, action: NDArray[np.float64]) -> Event | None:
        """Move by one row. A pose outside the box of the hand is refused: then nothing moves."""
        target_m = self.position_m + action[:3]
        if not ((target_m >= LOW_M) & (target_m <= HIGH_M)).all():
            return Event(-1, "control_rejected", f"hand at {target_m.round(3).tolist()} m is outside its box")
        self.position_m = target_m
        self.quat_wxyz = _turned(self.quat_wxyz, by_rad=action[3:6])
        self.opening = float(action[6])
        self.steps += 1
        return None

    def measure(self) -> Measurement:
        """Read the columns of the suite."""
        distance_m = float(np.linalg.norm(self.position_m - self.goal_m))
        return Measurement(np.array([*self.position_m, *self.quat_wxyz, self.opening, distance_m]))

    def state_sha256(self) -> str:
        """Digest of the whole state."""
        return array_digest(np.array([[*self.position_m, *self.quat_wxyz, self.opening, *self.goal_m]]))

    def drain_events(self) -> tuple[Event, ...]:
        """Nothing happens by itself."""
        return ()

    def frames(self, cameras: Sequence[str], *, height_px: int, width_px: int) -> Mapping[str, NDArray[np.uint8]]:
        """Draw the same pictures for people, each pixel repeated to the wanted size."""
        rows, columns = (np.arange(n) * 64 // n for n in (height_px, width_px))
        return {name: self.picture(name)[rows][:, columns] for name in cameras}

    def close(self) -> None:
        """Nothing is held."""

    def pose_for_probe(self, wxyz: tuple[float, float, float, float]) -> tuple[str, ...]:
        """Turn the hand; see :class:`trialplate.interfaces.ProbeableEnvironment`."""
        self.quat_wxyz = np.array(wxyz)
        return ("ee_quat",)

    def gripper_for_probe(self, opening: Literal["closed", "open"]) -> tuple[str, ...]:
        """Close or open the gripper."""
        self.opening = 0.0 if opening == "closed" else 1.0
        return ("gripper",)

    def colour_card(self, corners: Mapping[str, tuple[int, int, int]]) -> tuple[str, ...]:
        """Hold a card before both cameras."""
        self._card = dict(corners)
        return ("front", "wrist")

    def picture(self, name: str) -> NDArray[np.uint8]:
        """Return what one camera sees now, (64, 64, 3)."""
        if self._card is not None:
            return card(self._card)
        draw = {"front": front, "wrist": wrist}[name]
        return draw(self.position_m, self.quat_wxyz, opening=self.opening, goal_m=self.goal_m)


def _turned(quat_wxyz: NDArray[np.float64], *, by_rad: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the orientation after a turn by a rotation vector about the axes of the base."""
    angle_rad = float(np.linalg.norm(by_rad))
    if angle_rad == 0.0:
        return quat_wxyz
    a, u = math.cos(angle_rad / 2), by_rad * (math.sin(angle_rad / 2) / angle_rad)
    b, v = quat_wxyz[0], quat_wxyz[1:]
    turned = np.array([a * b - u @ v, *(a * v + b * u + np.cross(u, v))])
    unit: NDArray[np.float64] = turned / np.linalg.norm(turned)
    return unit


def _within(column: str, limit: float, *, unit: str) -> Condition:
    return Condition(column=column, op="le", limit=limit, unit=unit)


_AT_GOAL = _within("distance_m", REACH_M, unit="m")
_CONTROLS = "trialplate.testing.reach_controls"


def reach_suite(name: str, **changes: Any) -> Suite:
    """Return the suite under a name, with some of its fields replaced; for tests that need a variant."""
    facts: dict[str, Any] = {
        "version": "1",
        "summary": "A numpy-only hand in space for tests of the policy contract; it measures nothing about robots.",
        "instruction": "bring the hand to x 0.5 y 0.0 z 0.3 and close the gripper",
        "scope_note": f"The {name} suite measures nothing about robots.",
        "scenarios": scenarios,
        "environment": "trialplate.testing.reach:ReachWorld",
        "identity": "trialplate.testing.reach:identity",
        "verify_scene": "trialplate.testing.reach:verify_scene",
        "controls": {
            "null": Control(f"{_CONTROLS}:Null", "null", "all zeros; must pass nothing"),
            "random": Control(f"{_CONTROLS}:Random", "random", "uniform actions; reported"),
            "exploit": Control(f"{_CONTROLS}:Exploit", "exploit", "claims success; must pass nothing"),
            "scripted": Control(f"{_CONTROLS}:Scripted", "baseline", "goes to the goal, closes"),
            "oracle": Control(f"{_CONTROLS}:Oracle", "oracle", "privileged; must pass all", privileged=True),
        },
        "profiles": PROFILES,
        "default_profile": "standard",
        "action": ACTION,
        "columns": (
            Column("ee_pos_m", 3, "m"),
            Column("ee_quat_wxyz", 4, "1"),
            Column("opening", 1, "1", "0 closed, 1 open"),
            Column("distance_m", 1, "m", "from the hand to the goal"),
        ),
        "chain": StageChain(
            start_forbidden=(_AT_GOAL,),
            stages=(
                StageSpec(name="reached", meaning="the hand is at the goal", when=(_AT_GOAL,)),
                StageSpec(
                    name="held", meaning="closed at the goal for three steps", hold_steps=3,
                    when=(_AT_GOAL, _within("opening", CLOSED, unit="1")),
                ),
            ),
        ),
        "fault_table": {},
        "max_steps": MAX_STEPS,
        "bodies": ("own",),
        "sources": tuple(sorted(Path(__file__).parent.glob("reach*.py"))),
        "camera_for_people": "front",
    }  # fmt: skip
    return Suite(name=name, **{**facts, **changes})


REACH = reach_suite("toy-reach")
