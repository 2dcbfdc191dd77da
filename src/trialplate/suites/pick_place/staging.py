"""What stands in a scene: the nominal table, block, lamps and cameras, and how the variants change them.

Plain documents in sensible decimals; :func:`to_binary32` turns them into what the simulator can hold exactly.
"""

from __future__ import annotations

import colorsys
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trialplate.canonical import binary32
from trialplate.suites.pick_place.draw import Draw
from trialplate.suites.pick_place.geometry import (
    about_z,
    from_axis_angle,
    looking,
    multiply,
    shining,
    unit,
    unit_quat,
)
from trialplate.suites.pick_place.placing import Point, Spot
from trialplate.suites.pick_place.scene_spec import ORIENTATION_IN_DOUBLE

NOMINAL_EDGE_M = 0.04
NOMINAL_MASS_KG = 0.1
NOMINAL_FRICTION = 0.4
"""Sliding friction of table and block: low enough that a push of 0.5 N moves a block of 0.1 kg."""
NOMINAL_RED = (0.82, 0.08, 0.07)
GOAL_RADIUS_M = 0.05
REST_SINK_M = 0.00010776
"""How far a resting thing presses into the table here, whatever its mass: so the reset pose is at rest."""

PRIMARY_EYE_M = (1.20, 0.42, 0.70)
PRIMARY_TARGET_M = (0.40, 0.0, 0.15)
PRIMARY_FOVY_DEG = 50.0

_LIT_AT_M = (0.48, 0.0, 0.0)
_TORSION_M, _ROLLING_M = 0.005, 0.0001
_UPRIGHT = (1.0, 0.0, 0.0, 0.0)
_GREY = (0.42, 0.45, 0.50, 1.0)
_DISTRACTOR_RGB = ((0.10, 0.25, 0.80), (0.90, 0.75, 0.10), (0.45, 0.15, 0.60))


@dataclass(frozen=True, slots=True)
class Lamp:
    """A nominal lamp: where it hangs and its colours at intensity 1."""

    name: str
    pos_m: tuple[float, float, float]
    diffuse: float
    ambient: float
    specular: float


LAMPS = (
    Lamp("key", (1.25, -0.70, 1.15), 0.46, 0.12, 0.20),
    Lamp("fill", (1.05, 1.05, 0.95), 0.36, 0.10, 0.05),
    Lamp("back", (-0.35, 0.20, 1.80), 0.26, 0.10, 0.05),
)


@dataclass(frozen=True, slots=True)
class Glow:
    """How a lamp differs from nominal."""

    intensity: float
    tint: tuple[float, float, float] = (1.0, 1.0, 1.0)
    shift_m: tuple[float, float, float] = (0.0, 0.0, 0.0)


def scene(
    spot: Spot,
    *,
    edge_m: float = NOMINAL_EDGE_M,
    mass_kg: float = NOMINAL_MASS_KG,
    rgb: tuple[float, float, float] = NOMINAL_RED,
    alpha: float = 1.0,
    friction: float = NOMINAL_FRICTION,
    lamps: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return a scene that is nominal but for what is named."""
    half_m = edge_m / 2.0
    return {
        "floor": {"pos_m": [0.0, 0.0, -0.72], "rgba": [0.46, 0.49, 0.54, 1.0]},
        "table": {
            "half_size_m": [0.45, 0.60, 0.02],
            "pos_m": [0.35, 0.0, -0.02],
            "rgba": [0.66, 0.60, 0.52, 1.0],
            "friction": [friction, _TORSION_M, _ROLLING_M],
        },
        "block": {
            "shape": "box",
            "half_size_m": [half_m] * 3,
            "pos_m": [*spot.start_m, half_m - REST_SINK_M],
            "quat_wxyz": list(about_z(spot.yaw_rad)),
            "rgba": [*rgb, alpha],
            "friction": [friction, _TORSION_M, _ROLLING_M],
            "mass_kg": mass_kg,
        },
        "goal": {
            "half_size_m": [GOAL_RADIUS_M, GOAL_RADIUS_M, 0.0005],
            "pos_m": [*spot.goal_m, 0.0005],
            "rgba": [0.08, 0.62, 0.18, 1.0],
        },
        "lights": lamps if lamps is not None else lights([Glow(1.0)] * 3),
        "cameras": {
            "primary": _primary(looking(PRIMARY_EYE_M, PRIMARY_TARGET_M), PRIMARY_EYE_M),
            "wrist": {
                "mount": "hand",
                "pos_m": [0.05, 0.0, 0.0],
                "quat_wxyz": list(unit_quat((0.0, 0.707108, 0.707108, 0.0))),
                "fovy_deg": 75.0,
            },
        },
        "obstacles": [],
        "occluder": None,
        "distractors": [],
        "disturbances": [],
    }


def lights(glows: Sequence[Glow]) -> list[dict[str, Any]]:
    """Return the three lamps, each changed by its glow; all shine at the middle of the work area."""
    return [_light(lamp, glow) for lamp, glow in zip(LAMPS, glows, strict=True)]


def _light(lamp: Lamp, glow: Glow) -> dict[str, Any]:
    pos_m = [round(a + b, 4) for a, b in zip(lamp.pos_m, glow.shift_m, strict=True)]
    aim = [a - b for a, b in zip(_LIT_AT_M, pos_m, strict=True)]
    colours = {
        part: [round(getattr(lamp, part) * glow.intensity * tint, 6) for tint in glow.tint]
        for part in ("diffuse", "ambient", "specular")
    }
    return {
        "name": lamp.name,
        "pos_m": pos_m,
        ORIENTATION_IN_DOUBLE: list(shining(aim)),
        "intensity": glow.intensity,
        **colours,
    }


def drawn_glow(draw: Draw) -> Glow:
    """A lamp of drawn place, colour and intensity."""
    return Glow(
        intensity=draw.uniform(0.3, 1.5),
        tint=(draw.uniform(0.75, 1.0), draw.uniform(0.75, 1.0), draw.uniform(0.75, 1.0)),
        shift_m=(draw.uniform(-0.4, 0.4), draw.uniform(-0.4, 0.4), draw.uniform(-0.3, 0.3)),
    )


def drawn_red(draw: Draw) -> tuple[float, float, float]:
    """A colour whose hue is within 15 deg of red."""
    hue = draw.uniform(-15.0, 15.0) / 360.0
    red, green, blue = colorsys.hsv_to_rgb(hue % 1.0, draw.uniform(0.75, 0.95), draw.uniform(0.6, 0.95))
    return (round(red, 4), round(green, 4), round(blue, 4))


def shifted_primary(draw: Draw) -> dict[str, Any]:
    """The primary camera moved by up to 0.03 m along each axis and turned by up to 3 deg about a drawn axis."""
    eye_m = tuple(round(value + draw.uniform(-0.03, 0.03), 4) for value in PRIMARY_EYE_M)
    axis = (draw.uniform(-1.0, 1.0), draw.uniform(-1.0, 1.0), draw.uniform(0.1, 1.0))
    turn = from_axis_angle(axis, math.radians(draw.uniform(-3.0, 3.0)))
    return _primary(multiply(turn, looking(PRIMARY_EYE_M, PRIMARY_TARGET_M)), eye_m)


def _primary(quat_wxyz: Sequence[float], eye_m: Sequence[float]) -> dict[str, Any]:
    return {
        "mount": "world",
        "pos_m": list(eye_m),
        "quat_wxyz": list(unit_quat(quat_wxyz)),
        "fovy_deg": PRIMARY_FOVY_DEG,
    }


def obstacle(draw: Draw, at: Point) -> dict[str, Any]:
    """A fixed box or cylinder that collides, 0.05 to 0.11 m high."""
    shape = "box" if draw.unit() < 0.5 else "cylinder"
    radius_m, half_height_m = draw.uniform(0.015, 0.028), draw.uniform(0.025, 0.055)
    return _solid(shape, (radius_m, radius_m, half_height_m), pos_m=(*at, half_height_m), quat=_UPRIGHT, rgba=_GREY)


def distractor(draw: Draw, at: Point, *, n: int) -> dict[str, Any]:
    """A movable box or cylinder of another colour than red or green."""
    shape = "box" if draw.unit() < 0.5 else "cylinder"
    half_m = draw.uniform(0.016, 0.022)
    rgba = (*_DISTRACTOR_RGB[n % len(_DISTRACTOR_RGB)], 1.0)
    solid = _solid(shape, (half_m, half_m, half_m), pos_m=(*at, half_m - REST_SINK_M), quat=_UPRIGHT, rgba=rgba)
    return {**solid, "mass_kg": NOMINAL_MASS_KG}


def occluder(spot: Spot, *, block_edge_m: float) -> dict[str, Any]:
    """A thin wall square to the nominal line of sight, just high enough to hide the block from the primary camera."""
    to_eye = unit((PRIMARY_EYE_M[0] - spot.start_m[0], PRIMARY_EYE_M[1] - spot.start_m[1], 0.0))
    away_m, margin_m = 0.10, 0.012
    far_m = block_edge_m * math.sqrt(0.5)
    run_m = math.hypot(PRIMARY_EYE_M[0] - spot.start_m[0], PRIMARY_EYE_M[1] - spot.start_m[1]) + far_m
    slope = (PRIMARY_EYE_M[2] - block_edge_m) / run_m
    height_m = round(block_edge_m + slope * (away_m + far_m) + margin_m, 3)
    pos_m = (
        round(spot.start_m[0] + away_m * to_eye[0], 4),
        round(spot.start_m[1] + away_m * to_eye[1], 4),
        height_m / 2.0,
    )
    quat = about_z(math.atan2(to_eye[1], to_eye[0]))
    return _solid("box", (0.003, 0.05, height_m / 2.0), pos_m=pos_m, quat=quat, rgba=(0.30, 0.33, 0.40, 1.0))


def _solid(
    shape: str,
    half_size_m: Sequence[float],
    *,
    pos_m: Sequence[float],
    quat: Sequence[float],
    rgba: Sequence[float],
) -> dict[str, Any]:
    return {
        "shape": shape,
        "half_size_m": list(half_size_m),
        "pos_m": list(pos_m),
        "quat_wxyz": list(quat),
        "rgba": list(rgba),
        "friction": [NOMINAL_FRICTION, _TORSION_M, _ROLLING_M],
    }


def to_binary32(value: Any) -> Any:
    """Return a plain document whose every float is its binary32 image, but for orientations kept in double."""
    if isinstance(value, dict):
        return {key: item if key == ORIENTATION_IN_DOUBLE else to_binary32(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_binary32(item) for item in value]
    return binary32(value) if isinstance(value, float) else value
