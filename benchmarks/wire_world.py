"""Suite ``bench-wire``: two 256x256 cameras and eight numbers, drawn beforehand, so that only the harness costs time.

The pictures are drawn in numpy, like renders of a table-top scene: a shaded table and wall, an arm of capsules, a
block and a disc, all moving a little from picture to picture. They are not noise: zstd shrinks one to about a tenth,
as it does the pictures of ``pick-place``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import array_digest, document_sha256
from trialplate.interfaces import ResetEvidence, Scenario, Sensed, Suite
from trialplate.record import Column, Event, Measurement
from trialplate.spec.channels import (
    ActionComponent,
    ActionSpec,
    CameraSpec,
    GripperRange,
    ObservationSpec,
    ProprioSpec,
)
from trialplate.spec.stages import Condition, StageChain, StageSpec

SIZE_PX = 256
PICTURES = 32
CAMERAS = ("front", "wrist")
STATE_DIM, ACTION_DIM = 8, 7
MAX_STEPS = 300
INSTRUCTION = "put the block on the disc"


@cache
def pictures() -> Mapping[str, NDArray[np.uint8]]:
    """Return name -> (PICTURES, 256, 256, 3): what each camera sees at each step of a round trip of the arm."""
    phase = np.linspace(0.0, 2.0 * np.pi, PICTURES, endpoint=False)
    return {
        "front": np.stack([_scene(p, zoom=1.0) for p in phase]),
        "wrist": np.stack([_scene(p + 0.7, zoom=2.2) for p in phase]),
    }


def _scene(phase: float, *, zoom: float) -> NDArray[np.uint8]:
    row, column = np.mgrid[0:SIZE_PX, 0:SIZE_PX].astype(float)
    x, y = (column / SIZE_PX - 0.5) / zoom, (row / SIZE_PX - 0.5) / zoom
    picture = np.empty((SIZE_PX, SIZE_PX, 3))
    picture[:] = (np.array([70.0, 78.0, 92.0]) * (0.6 + 0.5 * (y[..., None] + 0.5))).round()
    table = y > -0.1 + 0.15 * x
    light = 1.05 - 0.5 * np.hypot(x - 0.1, y - 0.1)
    picture[table] = (np.array([186.0, 158.0, 122.0]) * light[..., None])[table].round()
    hand = np.array([0.12 * np.cos(phase), 0.05 + 0.08 * np.sin(phase)])
    joints = [np.array([0.05, -0.45]), np.array([-0.08, -0.2]), hand]
    for start, end in itertools.pairwise(joints):
        _capsule(picture, x, y, start=start, end=end, radius=0.035, colour=(225.0, 227.0, 230.0))
    _disc(picture, x, y, centre=(0.18, 0.2), radius=0.06, colour=(40.0, 165.0, 70.0))
    _capsule(picture, x, y, start=hand, end=hand + 0.02, radius=0.03, colour=(200.0, 45.0, 40.0))
    bounded: NDArray[np.uint8] = np.minimum(np.maximum(picture, 0.0), 255.0).astype(np.uint8)
    return bounded


def _capsule(
    picture: NDArray[Any], x: NDArray[Any], y: NDArray[Any], *, start: NDArray[Any], end: NDArray[Any], radius: float,
    colour: tuple[float, float, float],
) -> None:  # fmt: skip
    along = end - start
    share = ((x - start[0]) * along[0] + (y - start[1]) * along[1]) / (along @ along)
    share = np.minimum(np.maximum(share, 0.0), 1.0)
    distance = np.hypot(x - start[0] - share * along[0], y - start[1] - share * along[1]) / radius
    shade = 0.55 + 0.45 * np.sqrt(np.maximum(1.0 - distance**2, 0.0))
    inside = distance < 1.0
    picture[inside] = (np.array(colour) * shade[..., None])[inside].round()


def _disc(
    picture: NDArray[Any], x: NDArray[Any], y: NDArray[Any], *, centre: tuple[float, float], radius: float,
    colour: tuple[float, float, float],
) -> None:  # fmt: skip
    picture[np.hypot(x - centre[0], (y - centre[1]) * 1.6) < radius] = colour


class WireWorld:
    """Counts steps; the camera pictures follow the count. Nothing is simulated."""

    def __init__(self, *, body: str, profile: str) -> None:
        self._pictures = pictures() if profile == "pictures" else {}
        self._state = np.zeros(STATE_DIM)
        self._steps = 0

    def reset(self, scenario: Scenario, *, seed: int) -> ResetEvidence:
        """Begin at the scenario's picture."""
        self._steps = int(scenario.parameters["first"])
        self._state[:] = 0.0
        applied = {"first": self._steps}
        return ResetEvidence(applied, document_sha256(applied), self.state_sha256())

    def sense(self, cameras: Sequence[str], *, proprio: Sequence[str]) -> Sensed:
        """Return the pictures of this step and the state."""
        number = self._steps % PICTURES
        return Sensed({c: self._pictures[c][number] for c in cameras}, dict.fromkeys(proprio, self._state))

    def step(self, action: NDArray[np.float64]) -> Event | None:
        """Take the action for the new state."""
        self._state[:ACTION_DIM] = action
        self._state[ACTION_DIM] = self._steps = self._steps + 1
        return None

    def measure(self) -> Measurement:
        """Return the state."""
        return Measurement(self._state.copy())

    def state_sha256(self) -> str:
        """Digest of the state."""
        return array_digest(self._state[None, :])

    def drain_events(self) -> tuple[Event, ...]:
        """Nothing happens by itself."""
        return ()

    def frames(self, cameras: Sequence[str], *, height_px: int, width_px: int) -> Mapping[str, NDArray[np.uint8]]:
        """Return the pictures of this step, in their own size."""
        return {name: pictures()[name][self._steps % PICTURES] for name in cameras}

    def close(self) -> None:
        """Nothing is held."""


def identity() -> dict[str, Any]:
    """Return what draws: numpy."""
    return {"name": "bench-wire", "numpy": np.__version__, "rendering": {"renderer": "numpy"}}


def verify_scene(scenario: Mapping[str, Any], applied: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return every difference between a scenario and what was applied."""
    expected = scenario["parameters"]
    return [
        (f"/{k}", expected.get(k), applied.get(k)) for k in {*expected, *applied} if expected.get(k) != applied.get(k)
    ]


def scenarios() -> tuple[Scenario, ...]:
    """Return sixteen scenarios that begin at different pictures."""
    return tuple(Scenario(f"first-{n:02d}", f"first-{n:02d}", "bench", "plain", {"first": 2 * n}) for n in range(16))


def _camera(name: str) -> CameraSpec:
    return CameraSpec(
        name=name, height=SIZE_PX, width=SIZE_PX, layout="hwc", color="rgb", orientation="upright"
    )  # fmt: skip


def _component(name: str, dim: int, kind: Any, gripper: GripperRange | None = None) -> ActionComponent:
    mode: Any = "absolute" if gripper else "delta"
    return ActionComponent(
        name=name, dim=dim, kind=kind, mode=mode, delta_base=None if gripper else "step",
        unit="1" if gripper else "rad", frame=None if gripper else "joint", rotation=None, gripper=gripper,
        low=(-1.0,) * dim, high=(1.0,) * dim,
    )  # fmt: skip


STATE = ProprioSpec(name="arm", dim=STATE_DIM, unit="rad", frame="joint", rotation=None, gripper=None)
_NEVER = Condition(column="state", op="ge", limit=1e9, unit="1", index=0)
SUITE = Suite(
    name="bench-wire",
    version="1",
    summary="Two cameras and eight numbers, drawn beforehand; it measures the harness and nothing else.",
    instruction=INSTRUCTION,
    scope_note="The suite bench-wire measures the harness, no policy.",
    scenarios=scenarios,
    environment="wire_world:WireWorld",
    identity="wire_world:identity",
    verify_scene="wire_world:verify_scene",
    controls={},
    profiles={
        "pictures": ObservationSpec(cameras=tuple(_camera(name) for name in CAMERAS), proprio=(STATE,)),
        "numbers": ObservationSpec(proprio=(STATE,)),
    },
    default_profile="pictures",
    action=ActionSpec(
        control_hz=20.0,
        dim=ACTION_DIM,
        components=(
            _component("joints", 6, "joint_position"),
            _component("gripper", 1, "gripper", GripperRange(closed=-1.0, open=1.0)),
        ),
    ),
    columns=(Column("state", STATE_DIM, "1"),),
    chain=StageChain(
        start_forbidden=(),
        stages=(StageSpec(name="never", meaning="nothing is to be achieved", when=(_NEVER,)),),
    ),
    fault_table={},
    max_steps=MAX_STEPS,
    bodies=("own",),
    sources=(Path(__file__),),
    camera_for_people="front",
)
