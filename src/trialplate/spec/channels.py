"""What flows between a world and a policy, and what each number means.

Source: policy contract ``trialplate.policy/1``, section 2.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trialplate.canonical import document_sha256


class Frozen(BaseModel):
    """Base of every promised document: immutable, strict types, unknown members refused."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    def sha256(self) -> str:
        """Digest of the canonical form."""
        return document_sha256(self.model_dump(mode="json"))


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
Rotation = Literal[
    "quat_wxyz",
    "quat_xyzw",
    "axis_angle_pi",
    "axis_angle_2pi",
    "euler_xyz_intrinsic",
    "euler_xyz_extrinsic",
    "rot6d_columns",
    "rot6d_interleaved",
]

PRIVILEGED_CHANNELS = frozenset(
    {
        "object_pose", "object_pos", "object_quat", "goal_pose", "goal_pos", "segmentation", "reward", "success",
        "simulator_state", "state", "qpos", "qvel", "oracle_plan", "scenario", "seed", "task_ordinal", "score",
    }
)  # fmt: skip
"""Names that no observation channel may bear: they would show a policy what only scorers may see."""


class CameraSpec(Frozen):
    """One camera as sent: (height, width, channels) uint8."""

    name: Name
    height: Annotated[int, Field(ge=1, le=4096)]
    width: Annotated[int, Field(ge=1, le=4096)]
    channels: Literal[3] = 3
    dtype: Literal["uint8"] = "uint8"
    layout: Literal["hwc", "chw"] = "hwc"
    color: Literal["rgb", "bgr"] = "rgb"
    orientation: Literal["upright", "flip_v", "flip_h", "rot180"] = "upright"
    encoding: Literal["raw", "png"] = "raw"
    resize: str | None = None


class GripperRange(Frozen):
    """Polarity and range of a gripper number in one."""

    closed: float
    open: float


class ProprioSpec(Frozen):
    """One vector of numbers as sent, with unit, frame and rotation representation."""

    name: Name
    dim: Annotated[int, Field(ge=1, le=4096)]
    unit: str
    frame: str | None
    rotation: Rotation | None = None
    gripper: GripperRange | None = None
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    meaning: str = ""


class ObservationSpec(Frozen):
    """Everything that a policy may be sent under one named profile of a suite."""

    version: int = 1
    instruction: bool = True
    cameras: tuple[CameraSpec, ...] = ()
    proprio: tuple[ProprioSpec, ...] = ()

    @model_validator(mode="after")
    def _no_privileged_channel(self) -> ObservationSpec:
        names = [c.name for c in self.cameras] + [p.name for p in self.proprio]
        for name in names:
            if name in PRIVILEGED_CHANNELS:
                raise ValueError(f"privileged_channel: {name!r} would show the policy what only scorers see")
        if len(set(names)) != len(names):
            raise ValueError(f"channel names repeat: {sorted(names)}")
        return self


class ActionComponent(Frozen):
    """A named run of scalars of the action vector."""

    name: Name
    dim: Annotated[int, Field(ge=1)]
    kind: Literal[
        "joint_position", "joint_velocity", "ee_position", "ee_rotation", "gripper", "base_velocity", "other"
    ]
    mode: Literal["absolute", "delta", "velocity"]
    delta_base: Literal["step", "chunk_start"] | None
    unit: Literal["rad", "deg", "m", "rad/s", "m/s", "1"]
    frame: str | None
    rotation: Rotation | None
    gripper: GripperRange | None
    low: tuple[float, ...]
    high: tuple[float, ...]
    scale: float = 1.0
    meaning: str = ""

    @model_validator(mode="after")
    def _bounds_fit(self) -> ActionComponent:
        if not len(self.low) == len(self.high) == self.dim:
            raise ValueError(f"{self.name}: {self.dim} scalars need {self.dim} low and high bounds")
        if any(low >= high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError(f"{self.name}: every low must be below its high")
        if (self.mode == "delta") != (self.delta_base is not None):
            raise ValueError(f"{self.name}: delta_base is required for a delta, and only there")
        return self


class ActionSpec(Frozen):
    """The action vector, component by component."""

    version: int = 1
    control_hz: Annotated[float, Field(gt=0)]
    components: tuple[ActionComponent, ...]

    @property
    def dim(self) -> int:
        """Scalars per row."""
        return sum(component.dim for component in self.components)

    @property
    def low(self) -> tuple[float, ...]:
        """Lowest legal value of each scalar."""
        return tuple(value for component in self.components for value in component.low)

    @property
    def high(self) -> tuple[float, ...]:
        """Highest legal value of each scalar."""
        return tuple(value for component in self.components for value in component.high)

    def scalar_name(self, index: int) -> str:
        """Return ``component[i]`` for scalar ``index`` of the vector."""
        for component in self.components:
            if index < component.dim:
                return f"{component.name}[{index}]"
            index -= component.dim
        raise IndexError(index)


class PolicySpec(Frozen):
    """What a policy declares that it uses and sends; matched against the suite before anything runs."""

    cameras: tuple[Name, ...] = ()
    proprio: tuple[Name, ...] = ()
    action_dim: Annotated[int, Field(ge=1)]
    control_hz: Annotated[float, Field(gt=0)]
    chunk_length: Annotated[int, Field(ge=1)] | None = None
    state: Literal["none", "episode_keyed", "instance"] = "instance"
