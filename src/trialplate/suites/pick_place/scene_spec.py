"""One scene of the suite, every number written out, as a document that checks itself.

Lengths in m, masses in kg, forces in N, angles of view in deg; the world origin is the foot of the robot, z up,
and the table top is the plane z = 0. Quaternions are wxyz. Every number is its own binary32 image, except the
orientation of a light, which stays in double precision (fair pick-and-place protocol, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from trialplate.canonical import canonical_json, is_binary32
from trialplate.spec.channels import Frozen

Vec3 = tuple[float, float, float]
Quat = tuple[float, float, float, float]
Rgba = tuple[float, float, float, float]
Shape = Literal["box", "cylinder"]

MAX_FORCE_N = 0.5
MAX_DURATION_STEPS = 6  # 0.3 s at 20 Hz
MIN_CARRY_M = 0.15
ORIENTATION_IN_DOUBLE = "orientation_wxyz"


class Table(Frozen):
    """The table: a box whose top is the plane z = 0. ``friction``: sliding, torsional (m), rolling (m)."""

    half_size_m: Vec3
    pos_m: Vec3
    rgba: Rgba
    friction: Vec3


class Floor(Frozen):
    """The ground under the table: an infinite plane."""

    pos_m: Vec3
    rgba: Rgba


class Solid(Frozen):
    """A rigid thing. A box has three half sizes; a cylinder has radius, radius, half height."""

    shape: Shape
    half_size_m: Vec3
    pos_m: Vec3
    quat_wxyz: Quat
    rgba: Rgba
    friction: Vec3


class Movable(Solid):
    """A rigid thing that can be moved."""

    mass_kg: Annotated[float, Field(gt=0)]


class Goal(Frozen):
    """The green target: a flat disc on the table that touches nothing."""

    half_size_m: Vec3
    pos_m: Vec3
    rgba: Rgba


class Light(Frozen):
    """A lamp. It shines along its local -z; ``orientation_wxyz`` is in double precision.

    ``diffuse``, ``ambient`` and ``specular`` are the colours that reach the renderer; ``intensity`` is in them.
    """

    name: str
    pos_m: Vec3
    orientation_wxyz: Quat
    intensity: Annotated[float, Field(ge=0)]
    diffuse: Vec3
    ambient: Vec3
    specular: Vec3


class Camera(Frozen):
    """A camera that looks along its local -z with +y up; ``mount`` is the body that carries it."""

    mount: Literal["world", "hand"]
    pos_m: Vec3
    quat_wxyz: Quat
    fovy_deg: Annotated[float, Field(gt=0, lt=180)]


class Cameras(Frozen):
    """The two cameras of the suite."""

    primary: Camera
    wrist: Camera


class Disturbance(Frozen):
    """A push on the block's centre during ``duration_steps`` control steps, the first of which is ``start_step``."""

    start_step: Annotated[int, Field(ge=1)]
    duration_steps: Annotated[int, Field(ge=1, le=MAX_DURATION_STEPS)]
    force_n: Vec3


class Scene(Frozen):
    """Everything that differs between scenarios, and what surrounds it."""

    floor: Floor
    table: Table
    block: Movable
    goal: Goal
    lights: Annotated[tuple[Light, ...], Field(min_length=3, max_length=3)]
    cameras: Cameras
    obstacles: tuple[Solid, ...]
    occluder: Solid | None
    distractors: tuple[Movable, ...]
    disturbances: tuple[Disturbance, ...]

    @model_validator(mode="after")
    def _numbers_are_binary32(self) -> Scene:
        for pointer, value in walk(self.model_dump(mode="json"), ""):
            if ORIENTATION_IN_DOUBLE not in pointer and not is_binary32(value):
                raise ValueError(f"{pointer}: {value!r} is not its own binary32 image")
        return self

    @model_validator(mode="after")
    def _pushes_are_bounded(self) -> Scene:
        for push in self.disturbances:
            if math.hypot(*push.force_n) > MAX_FORCE_N:
                raise ValueError(f"a push of {math.hypot(*push.force_n)} N is above {MAX_FORCE_N} N")
        return self

    @model_validator(mode="after")
    def _block_starts_outside_the_goal(self) -> Scene:
        carry_m = math.dist(self.block.pos_m[:2], self.goal.pos_m[:2])
        if carry_m < MIN_CARRY_M:
            raise ValueError(f"the block starts {carry_m:.4f} m from the goal, at least {MIN_CARRY_M} m are needed")
        return self


def walk(value: Any, pointer: str) -> Iterator[tuple[str, float]]:
    """Yield every number of a plain document with its JSON pointer."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from walk(item, f"{pointer}/{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from walk(item, f"{pointer}/{index}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield pointer, float(value)


def read_scene(parameters: Mapping[str, Any]) -> Scene:
    """Return the scene of a scenario's ``parameters``. Raises pydantic's ValidationError when it is not one."""
    return _checked(canonical_json(dict(parameters)))


@lru_cache(maxsize=256)
def _checked(parameters: bytes) -> Scene:
    return Scene.model_validate_json(parameters)
