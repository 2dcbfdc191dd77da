"""Policies of toy-reach with conventions of their own, to which they keep; copied beside the protocols of tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from trialplate.record import ActionChunk, Decision, EpisodeInfo, Observation
from trialplate.spec.channels import ActionSpec, CameraSpec, GripperRange, ObservationSpec, PolicySpec, ProprioSpec
from trialplate.testing.reach_channels import ACTION, PROPRIO, cameras

GOAL_M = np.array([0.5, 0.0, 0.3])


class Fitting:
    """Goes to the goal and closes. ``closed``, ``open_``: the numbers of its gripper."""

    rotation: Any = "quat_wxyz"

    def __init__(self, *, closed: float = 0.0, open_: float = 1.0, chunk_length: int = 8) -> None:
        self.closed, self.open, self.chunk_length = closed, open_, chunk_length

    def expects(self) -> ObservationSpec:
        """Position and orientation of the hand."""
        quat = PROPRIO[1].model_copy(update={"rotation": self.rotation})
        return ObservationSpec(instruction=False, proprio=(PROPRIO[0], quat))

    def spec(self) -> PolicySpec:
        """Say what the numbers mean."""
        own = GripperRange(closed=self.closed, open=self.open)
        low, high = sorted((self.closed, self.open))
        gripper = ACTION.components[2].model_copy(update={"gripper": own, "low": (low,), "high": (high,)})
        emits = ActionSpec(control_hz=20.0, dim=7, components=(*ACTION.components[:2], gripper))
        return PolicySpec(expects=self.expects(), emits=emits, chunk_length=self.chunk_length)

    def reset(self, episode: EpisodeInfo) -> None:
        """Nothing is remembered."""

    def act(self, observation: Observation) -> Decision:
        """Send one row."""
        quat = observation.proprio["ee_quat"]
        yaw = quat[0:4:3] if self.rotation == "quat_wxyz" else quat[3:1:-1]
        if abs(float(np.hypot(*yaw)) - 1.0) > 1e-9:  # the hand of this suite only turns about z here
            raise RuntimeError(f"a quaternion in another order: {quat}")
        rest_m = GOAL_M - observation.proprio["ee_pos"]
        there = float(np.abs(rest_m).max()) < 1e-9
        move_m = np.minimum(np.maximum(rest_m, -0.05), 0.05)
        return ActionChunk([[*move_m.tolist(), 0.0, 0.0, 0.0, self.closed if there else self.open]])

    def close(self) -> None:
        """Nothing is held."""


class Xyzw(Fitting):
    """The same, for quaternions in the other order."""

    rotation = "quat_xyzw"


class NeedsState(Fitting):
    """Needs a vector that nobody sends."""

    def expects(self) -> ObservationSpec:
        """One channel of the name that most policies use."""
        state = ProprioSpec(name="state", dim=8, unit="1", frame=None, rotation=None, gripper=None)
        return ObservationSpec(instruction=False, proprio=(state,))


class TwoCameras(Fitting):
    """Needs two pictures, under names of its own choice."""

    def __init__(self, *, first: str = "front", second: str = "wrist") -> None:
        super().__init__()
        self.names = (first, second)

    def expects(self) -> ObservationSpec:
        """Two cameras."""
        renamed = (CameraSpec.model_validate({**dict(cameras()[0]), "name": name}) for name in self.names)
        return ObservationSpec(instruction=False, cameras=tuple(renamed))
