"""What flows between a world and a policy, and what each number means.

Source: policy contract ``trialplate.policy/1``, section 2.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from trialplate.canonical import document_sha256


class Part(BaseModel):
    """Base of every part of a promised document: immutable, strict types, unknown members refused."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Frozen(Part):
    """Base of every promised document: a part that has a digest of its own."""

    def sha256(self) -> str:
        """Digest of the canonical form."""
        return document_sha256(self.model_dump(mode="json"))


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
Bound = Annotated[float, Field(allow_inf_nan=False)] | None
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
        "simulator_state", "sim_state", "qpos", "qvel", "oracle_plan", "scenario", "seed", "task_ordinal", "score",
    }
)  # fmt: skip
"""Names that no observation channel may bear: they would show a policy what only scorers may see."""
_PRIVILEGED_WORDS = frozenset({"segmentation", "reward", "success", "seed", "oracle", "scorer", "score"})
"""Words that no such name may contain either."""


def is_privileged(name: str) -> bool:
    """Return whether a channel of this name would show what only scorers may see, however it is spelt."""
    plain = re.sub(r"[.-]", "_", name)
    words = set(plain.split("_"))
    words |= {word.removesuffix("s") for word in words}
    return bool({plain, plain.removesuffix("s")} & PRIVILEGED_CHANNELS or words & _PRIVILEGED_WORDS)


class CameraSpec(Frozen):
    """One camera as sent: (height, width, channels) uint8 for ``hwc``. What changes its meaning has no default."""

    name: Name
    height: Annotated[int, Field(ge=1, le=4096)]
    width: Annotated[int, Field(ge=1, le=4096)]
    channels: Literal[3] = 3
    dtype: Literal["uint8"] = "uint8"
    layout: Literal["hwc", "chw"]
    color: Literal["rgb", "bgr"]
    orientation: Literal["upright", "flip_v", "flip_h", "rot180"]
    encoding: Literal["raw", "png"] = "raw"
    resize: str | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the array as sent."""
        size = (self.height, self.width)
        return (*size, self.channels) if self.layout == "hwc" else (self.channels, *size)

    @property
    def size_bytes(self) -> int:
        """Bytes of the raw picture."""
        return self.height * self.width * self.channels


class GripperRange(Frozen):
    """Polarity and range of a gripper number in one."""

    closed: float
    open: float


class ProprioSpec(Frozen):
    """One vector of numbers as sent. Unit, frame, rotation and gripper must be said, None where none applies.

    ``low``, ``high``: the range that the numbers are known to keep, None when it is not limited.
    """

    name: Name
    dim: Annotated[int, Field(ge=1, le=4096)]
    unit: str
    frame: str | None
    rotation: Rotation | None
    gripper: GripperRange | None
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    meaning: str = ""


class HistorySpec(Frozen):
    """How much of the past is sent with each look: the last ``frames`` looks, the last ``actions`` executed rows."""

    frames: Annotated[int, Field(ge=0, le=64)]
    actions: Annotated[int, Field(ge=0, le=4096)]


MetaName = Literal["step_index", "sim_time_s", "control_hz", "remaining_steps", "remaining_calls"]


class ObservationSpec(Frozen):
    """Everything that a policy may be sent under one named profile of a suite, or the part that it uses."""

    version: Literal[1] = 1
    instruction: bool = True
    cameras: tuple[CameraSpec, ...] = ()
    proprio: tuple[ProprioSpec, ...] = ()
    history: HistorySpec | None = None
    meta: tuple[MetaName, ...] = ()

    @model_validator(mode="after")
    def _no_privileged_channel(self) -> ObservationSpec:
        for name in self.names:
            if is_privileged(name):
                raise ValueError(f"privileged_channel: {name!r} would show the policy what only scorers see")
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"channel names repeat: {sorted(self.names)}")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the cameras, then of the proprioceptive channels."""
        return self.camera_names + self.proprio_names

    @property
    def camera_names(self) -> tuple[str, ...]:
        """Names of the cameras, in order."""
        return tuple(camera.name for camera in self.cameras)

    @property
    def proprio_names(self) -> tuple[str, ...]:
        """Names of the proprioceptive channels, in order."""
        return tuple(channel.name for channel in self.proprio)

    @property
    def size_bytes(self) -> int:
        """Raw bytes of one look: every picture and eight for every number."""
        pictures = sum(camera.size_bytes for camera in self.cameras)
        numbers = 8 * sum(channel.dim for channel in self.proprio)
        past = self.history.frames * pictures if self.history else 0
        return pictures + numbers + past

    def only(self, *names: str, instruction: bool = False) -> ObservationSpec:
        """Return the part that a policy uses: the named channels exactly as they are sent, in this order of names.

        Raises KeyError for a name that is not here.
        """
        by_name: dict[str, CameraSpec | ProprioSpec] = {camera.name: camera for camera in self.cameras}
        by_name |= {channel.name: channel for channel in self.proprio}
        picked = [by_name[name] for name in names]
        return ObservationSpec(
            instruction=instruction,
            cameras=tuple(c for c in picked if isinstance(c, CameraSpec)),
            proprio=tuple(c for c in picked if isinstance(c, ProprioSpec)),
        )


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
    low: tuple[Bound, ...]
    high: tuple[Bound, ...]
    bounds_reason: Literal["unlimited"] | None = None
    scale: float = 1.0
    meaning: str = ""

    @model_validator(mode="after")
    def _bounds_fit(self) -> ActionComponent:
        if not len(self.low) == len(self.high) == self.dim:
            raise ValueError(f"{self.name}: {self.dim} scalars need {self.dim} low and high bounds")
        limits = list(zip(self.low, self.high, strict=True))
        if any(low is not None and high is not None and low >= high for low, high in limits):
            raise ValueError(f"{self.name}: every low must be below its high")
        open_ended = any(low is None or high is None for low, high in limits)
        if open_ended != (self.bounds_reason is not None):
            raise ValueError(f"{self.name}: a missing bound needs bounds_reason 'unlimited', and nothing else has it")
        if (self.mode == "delta") != (self.delta_base is not None):
            raise ValueError(f"{self.name}: delta_base is required for a delta, and only there")
        if (self.kind == "gripper") != (self.gripper is not None):
            raise ValueError(f"{self.name}: closed and open are required for a gripper, and only there")
        return self

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what a component does not use, so that the canonical form is that of the contract."""
        plain: dict[str, Any] = write(self)
        unused: dict[str, Any] = {"bounds_reason": None, "scale": 1.0, "meaning": ""}
        return {key: value for key, value in plain.items() if key not in unused or value != unused[key]}


class ActionSpec(Frozen):
    """The action vector, component by component."""

    version: Literal[1] = 1
    control_hz: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    dim: Annotated[int, Field(ge=1)]
    components: Annotated[tuple[ActionComponent, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _components_fill_the_vector(self) -> ActionSpec:
        found = sum(component.dim for component in self.components)
        if found != self.dim:
            raise ValueError(f"dim: the components have {found} scalars, dim says {self.dim}")
        names = [component.name for component in self.components]
        if len(set(names)) != len(names):
            raise ValueError(f"component names repeat: {names}")
        return self

    @property
    def low(self) -> tuple[float, ...]:
        """Lowest legal value of each scalar, -inf where there is no limit."""
        bounds = (value for component in self.components for value in component.low)
        return tuple(-math.inf if value is None else value for value in bounds)

    @property
    def high(self) -> tuple[float, ...]:
        """Highest legal value of each scalar, inf where there is no limit."""
        bounds = (value for component in self.components for value in component.high)
        return tuple(math.inf if value is None else value for value in bounds)

    def scalar_name(self, index: int) -> str:
        """Return ``component[i]`` for scalar ``index`` of the vector."""
        for component in self.components:
            if index < component.dim:
                return f"{component.name}[{index}]"
            index -= component.dim
        raise IndexError(index)


class PolicySpec(Frozen):
    """What a policy declares that it uses and sends; matched against the suite before anything runs.

    ``state``: ``none`` remembers nothing; ``episode_keyed`` keeps what it remembers apart by episode, so one
    instance serves several; ``instance`` serves one episode at a time. ``declared_by``: whose word this is.
    """

    version: Literal[1] = 1
    expects: ObservationSpec = ObservationSpec(instruction=False)
    emits: ActionSpec
    chunk_length: Annotated[int, Field(ge=1)] | None = None
    state: Literal["none", "episode_keyed", "instance"] = "instance"
    max_batch_size: Annotated[int, Field(ge=1, le=4096)] = 1
    needs_reset: bool = True
    declared_by: Literal["policy", "operator"] = "policy"
