"""A small learned arm: a multilayer perceptron in numpy that turns the declared state estimate into action chunks.

It sees four channels of profile ``object-estimate`` and nothing else; it needs neither torch nor a simulator. The
network decides translation and gripper; the arm never turns its hand. Lengths are m in the world frame.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import UsageError
from trialplate.record import ActionChunk, Decision, EpisodeInfo, Observation, Stop
from trialplate.spec.channels import (
    ActionComponent,
    ActionSpec,
    GripperRange,
    ObservationSpec,
    PolicySpec,
    ProprioSpec,
)

FloatArray = NDArray[np.float64]

CHANNELS = ("finger_pos", "ee_pos", "object_estimate", "goal_estimate")
CHUNK_ROWS = 8
ROW_NUMBERS = 4  # what the network says of each row: dx, dy, dz, gripper
ACTION_DIM = 7
ACTION_M = 0.05  # a translation of 1.0 in an action
ACTION_RAD = 0.5  # a rotation of 1.0 in an action
CONTROL_HZ = 20.0


def _numbers(name: str, dim: int, *, frame: str) -> ProprioSpec:
    return ProprioSpec(name=name, dim=dim, unit="m", frame=frame, rotation=None, gripper=None)


# What the network was trained on, said in full: the harness compares it with what the suite sends, word for word.
EXPECTS = ObservationSpec(
    instruction=False,
    proprio=(
        _numbers("finger_pos", 2, frame="joint"),
        _numbers("ee_pos", 3, frame="world"),
        _numbers("object_estimate", 3, frame="world"),
        _numbers("goal_estimate", 3, frame="world"),
    ),
)
EMITS = ActionSpec(
    control_hz=CONTROL_HZ,
    dim=ACTION_DIM,
    components=(
        ActionComponent(
            name="ee_delta_pos", dim=3, kind="ee_position", mode="delta", delta_base="step", unit="m", frame="world",
            rotation=None, gripper=None, low=(-1.0,) * 3, high=(1.0,) * 3, scale=ACTION_M,
        ),
        ActionComponent(
            name="ee_delta_rot", dim=3, kind="ee_rotation", mode="delta", delta_base="step", unit="rad",
            frame="world", rotation="axis_angle_pi", gripper=None, low=(-1.0,) * 3, high=(1.0,) * 3, scale=ACTION_RAD,
        ),
        ActionComponent(
            name="gripper", dim=1, kind="gripper", mode="absolute", delta_base=None, unit="1", frame=None,
            rotation=None, gripper=GripperRange(closed=1.0, open=-1.0), low=(-1.0,), high=(1.0,),
        ),
    ),
)  # fmt: skip

FRESH = 0.35  # weight of a new reading of the block in the running estimate
MOVED_M = 0.015  # a reading this far from the running estimate means that the block has moved
FINE_M = 0.02  # scale of the features that resolve the last centimetres

GOAL_RADIUS_M = 0.05
OPEN_GAP_M = 0.07
HELD_GAP_M = 0.012
WAIT_STEPS = 16  # control steps after a release before the arm ends its episode


@dataclass(frozen=True, slots=True)
class Situation:
    """What the arm believes at one look.

    ``hand_m`` (3,) is where it has commanded its tool centre, ``lag_m`` (3,) how far the measured one is from there;
    ``block_m`` (3,) and ``goal_m`` (2,) are filtered estimates; ``rest_m`` is the height of the block's centre the
    last time that the gripper was open; ``gripper`` is the last command sent.
    """

    hand_m: FloatArray
    lag_m: FloatArray
    block_m: FloatArray
    goal_m: FloatArray
    rest_m: float
    gap_m: float
    gap_change_m: float
    gripper: float

    def features(self) -> FloatArray:
        """Return the input of the network (25,)."""
        to_block_m = self.block_m - self.hand_m
        to_goal_m = self.goal_m - self.hand_m[:2]
        carry_m = self.goal_m - self.block_m[:2]
        drop_m = self.rest_m - self.hand_m[2]
        coarse = (*self.hand_m, *self.lag_m, *to_block_m, *to_goal_m, *carry_m, drop_m)
        fine = np.tanh(np.array([*to_block_m, *to_goal_m, drop_m]) / FINE_M)
        near = np.tanh(carry_m / GOAL_RADIUS_M)
        return np.array([*coarse, *fine, *near, self.gap_m, self.gap_change_m, self.gripper])


FEATURES = 25


class Memory:
    """What the arm remembers within one episode, and nothing beyond it."""

    def __init__(self) -> None:
        self._readings = 0
        self._sent: FloatArray | None = None
        self._step = 0
        self._gripper = -1.0

    def look(self, proprio: Mapping[str, FloatArray], *, step: int) -> Situation:
        """Take in one reading of ``CHANNELS`` at control step ``step``."""
        ee_m, block_m, goal_m = proprio["ee_pos"], proprio["object_estimate"], proprio["goal_estimate"][:2]
        gap_m = float(proprio["finger_pos"].sum())
        self._readings += 1
        if self._readings == 1:
            self._hand_m, self._block_m, self._goal_m = ee_m.copy(), block_m.copy(), goal_m.copy()
            self._rest_m, self._gap_m = float(block_m[2]), gap_m
        self._move_hand(step)
        self._goal_m = self._goal_m + (goal_m - self._goal_m) / self._readings
        self._block_m = self._filtered(block_m)
        if self._gripper < 0.0:
            self._rest_m = float(self._block_m[2])
        gap_change_m, self._gap_m = gap_m - self._gap_m, gap_m
        return Situation(
            self._hand_m, ee_m - self._hand_m, self._block_m, self._goal_m, self._rest_m, gap_m, gap_change_m,
            self._gripper,
        )  # fmt: skip

    def sent(self, rows: FloatArray) -> None:
        """Remember the rows (n, 7) that were sent; how many of them ran shows at the next look."""
        self._sent = rows

    def _move_hand(self, step: int) -> None:
        ran, self._step = step - self._step, step
        if self._sent is not None and ran > 0:
            self._hand_m = self._hand_m + self._sent[:ran, :3].sum(axis=0) * ACTION_M
            self._gripper = 1.0 if self._sent[min(ran, len(self._sent)) - 1, 6] >= 0.0 else -1.0

    def _filtered(self, block_m: FloatArray) -> FloatArray:
        step_m: FloatArray = block_m - self._block_m
        weight = 1.0 if math.hypot(*step_m) > MOVED_M else FRESH
        filtered: FloatArray = self._block_m + weight * step_m
        return filtered


class Network:
    """Fully connected layers with ReLU between them and tanh at the end, so that every output is a legal action."""

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        missing = sorted({"sizes", "mean", "scale", "metadata"} - arrays.keys())
        if missing:
            raise UsageError(f"checkpoint {path.name} has no {', '.join(missing)}; write it with train.py")
        self.sizes = tuple(int(size) for size in arrays["sizes"])
        if (self.sizes[0], self.sizes[-1]) != (FEATURES, CHUNK_ROWS * ROW_NUMBERS):
            raise UsageError(
                f"checkpoint {path.name} maps {self.sizes[0]} to {self.sizes[-1]} numbers, "
                f"expected {FEATURES} to {CHUNK_ROWS * ROW_NUMBERS}; train it again with this policy.py"
            )
        self.metadata: dict[str, Any] = json.loads(str(arrays["metadata"]))
        self._mean, self._scale = arrays["mean"].astype(np.float64), arrays["scale"].astype(np.float64)
        self._layers = [
            (arrays[f"weight_{n}"].astype(np.float64), arrays[f"bias_{n}"].astype(np.float64))
            for n in range(len(self.sizes) - 1)
        ]

    def said(self, features: FloatArray) -> FloatArray:
        """Return rows (CHUNK_ROWS, 4) of dx, dy, dz and gripper in [-1, 1] for ``features`` (25,)."""
        values = (features - self._mean) / self._scale
        for weight, bias in self._layers[:-1]:
            values = np.maximum(values @ weight + bias, 0.0)
        weight, bias = self._layers[-1]
        said: FloatArray = np.tanh(values @ weight + bias).reshape(CHUNK_ROWS, ROW_NUMBERS)
        return said


def at_rest() -> FloatArray:
    """Return rows (CHUNK_ROWS, 7) that move nothing and keep the gripper open."""
    rows = np.zeros((CHUNK_ROWS, ACTION_DIM))
    rows[:, 6] = -1.0
    return rows


def as_actions(said: FloatArray) -> FloatArray:
    """Return ``said`` (n, 4) as actions (n, 7); the hand is never turned."""
    actions = np.zeros((len(said), ACTION_DIM))
    actions[:, :3] = said[:, :3]
    actions[:, 6] = said[:, 3]
    return actions


class LearnedArm:
    """The arm under test. ``weights`` is one .npz file that ``train.py`` wrote.

    ``stops``: say when the work is done; False holds still instead, for wires that carry no stop (openpi).
    """

    def __init__(self, *, weights: tuple[Path, ...], stops: bool = True) -> None:
        if len(weights) != 1:
            raise UsageError(f"the learned arm needs exactly one checkpoint, got {len(weights)}")
        self._network = Network(weights[0])
        self._stops = stops
        self.metadata = self._network.metadata
        self._memory = Memory()
        self._has_held = False
        self._placed_at: int | None = None

    def spec(self) -> PolicySpec:
        """Four channels, no camera; chunks of eight rows."""
        return PolicySpec(expects=EXPECTS, emits=EMITS, chunk_length=CHUNK_ROWS)

    def reset(self, episode: EpisodeInfo) -> None:
        """Forget the previous episode."""
        self._memory = Memory()
        self._has_held = False
        self._placed_at = None

    def act(self, observation: Observation) -> Decision:
        """Return the next rows, or stop a while after the block was let go on the goal."""
        situation = self._memory.look(observation.proprio, step=observation.step_index)
        done = self._waited(situation, step=observation.step_index)
        if done and self._stops:
            return Stop("let go on the goal and waited")
        rows = at_rest() if done else as_actions(self._network.said(situation.features()))
        self._memory.sent(rows)
        return ActionChunk(rows)

    def close(self) -> None:
        """Nothing to release."""

    def _waited(self, situation: Situation, *, step: int) -> bool:
        """Return whether the gripper has been open over a placed block for ``WAIT_STEPS``."""
        closed = situation.gripper >= 0.0
        self._has_held = self._has_held or (closed and HELD_GAP_M < situation.gap_m < OPEN_GAP_M)
        away_m = math.hypot(*(situation.goal_m - situation.block_m[:2]))
        if closed or not self._has_held or situation.gap_m < OPEN_GAP_M or away_m > GOAL_RADIUS_M:
            self._placed_at = None
            return False
        if self._placed_at is None:
            self._placed_at = step
        return step - self._placed_at >= WAIT_STEPS
