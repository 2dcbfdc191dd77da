"""What the simulator must say about itself, rebuilt from the manifest alone; no simulator is loaded here.

The environment and the verifier of a result each build it for themselves and compare it with what was read back.
Source: fair pick-and-place protocol, section 3, readback schema 1.1.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trialplate.canonical import binary32
from trialplate.suites.pick_place.geometry import rotate
from trialplate.suites.pick_place.scene_spec import Camera, Light, Movable, Scene, Solid, read_scene
from trialplate.suites.pick_place.settings import suite_settings

SHINES_ALONG = (0.0, 0.0, -1.0)
ROBOT_ROOT = "panda_link0"
_UPRIGHT = (1.0, 0.0, 0.0, 0.0)

Difference = tuple[str, Any, Any]
"""JSON pointer, what the manifest promises, what was read back."""

ABSENT = "(absent)"


def numbers(values: Sequence[float]) -> list[float]:
    """Return the binary32 images of ``values``."""
    return [binary32(float(value)) for value in values]


def directions(values: Sequence[float]) -> list[float]:
    """Return the binary32 images of derived direction components: noise below 1e-12 is zero."""
    return [binary32(float(value), direction=True) for value in values]


def expected_scene(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the applied scene that a scenario's ``parameters`` promise. Raises pydantic's ValidationError."""
    scene = read_scene(parameters)
    settings = suite_settings()
    return {
        "schema": settings.readback_schema,
        "physics": {
            "timestep_s": binary32(1.0 / settings.physics.physics_rate_hz),
            "gravity_m_s2": numbers(settings.physics.gravity_m_s2),
            "impratio": binary32(settings.physics.impratio),
        },
        "robot": {
            "joint_pos_rad": numbers(settings.robot.home_joint_pos_rad),
            "finger_pos_m": numbers(settings.robot.home_finger_pos_m),
        },
        "bodies": [name for name, _ in body_names(scene)],
        "floor": {"pos_m": numbers(scene.floor.pos_m), "rgba": numbers(scene.floor.rgba), "collides": True},
        "table": {
            "shape": "box",
            "half_size_m": numbers(scene.table.half_size_m),
            "pos_m": numbers(scene.table.pos_m),
            "quat_wxyz": numbers(_UPRIGHT),
            "rgba": numbers(scene.table.rgba),
            "friction": numbers(scene.table.friction),
            "collides": True,
        },
        "goal": {
            "shape": "cylinder",
            "half_size_m": numbers(scene.goal.half_size_m),
            "pos_m": numbers(scene.goal.pos_m),
            "quat_wxyz": numbers(_UPRIGHT),
            "rgba": numbers(scene.goal.rgba),
            "collides": False,
        },
        "block": _movable(scene.block),
        "lights": [_light(light) for light in scene.lights],
        "cameras": {"primary": _camera(scene.cameras.primary), "wrist": _camera(scene.cameras.wrist)},
        "obstacles": [_solid(solid) for solid in scene.obstacles],
        "occluder": None if scene.occluder is None else _solid(scene.occluder),
        "distractors": [_movable(thing) for thing in scene.distractors],
        "disturbances": [
            {
                "start_step": push.start_step,
                "duration_steps": push.duration_steps,
                "force_n": numbers(push.force_n),
            }
            for push in scene.disturbances
        ],
    }


def body_names(scene: Scene) -> Iterator[tuple[str, Any]]:
    """Yield what stands in the world, in order: body name and its part of the scene (None for the robot)."""
    yield "floor", scene.floor
    yield "table", scene.table
    yield "goal", scene.goal
    for light in scene.lights:
        yield f"light_{light.name}", light
    for n, solid in enumerate(scene.obstacles):
        yield f"obstacle_{n}", solid
    if scene.occluder is not None:
        yield "occluder", scene.occluder
    yield ROBOT_ROOT, None
    yield "block", scene.block
    for n, thing in enumerate(scene.distractors):
        yield f"distractor_{n}", thing


def _solid(solid: Solid) -> dict[str, Any]:
    return {
        "shape": solid.shape,
        "half_size_m": numbers(solid.half_size_m),
        "pos_m": numbers(solid.pos_m),
        "quat_wxyz": numbers(solid.quat_wxyz),
        "rgba": numbers(solid.rgba),
        "friction": numbers(solid.friction),
        "collides": True,
    }


def _movable(thing: Movable) -> dict[str, Any]:
    return {**_solid(thing), "mass_kg": binary32(thing.mass_kg)}


def _light(light: Light) -> dict[str, Any]:
    return {
        "name": light.name,
        "pos_m": numbers(light.pos_m),
        "orientation_wxyz": [float(value) for value in light.orientation_wxyz],
        "direction": directions(rotate(light.orientation_wxyz, SHINES_ALONG)),
        "intensity": binary32(light.intensity),
        "diffuse": numbers(light.diffuse),
        "ambient": numbers(light.ambient),
        "specular": numbers(light.specular),
    }


def _camera(camera: Camera) -> dict[str, Any]:
    return {
        "mount": camera.mount,
        "pos_m": numbers(camera.pos_m),
        "quat_wxyz": numbers(camera.quat_wxyz),
        "fovy_deg": binary32(camera.fovy_deg),
    }


def verify_scene(scenario_document: Mapping[str, Any], applied_scene: Mapping[str, Any]) -> list[Difference]:
    """Compare a recorded readback with what the scenario promises; an empty list means that they are equal.

    Structure, types and values must be equal exactly: one binary32 ulp is a difference, and a bool is no number.
    """
    return list(differences(expected_scene(scenario_document["parameters"]), applied_scene, pointer=""))


def differences(expected: Any, found: Any, *, pointer: str) -> Iterator[Difference]:
    """Yield every place where two plain documents differ."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in sorted(expected.keys() | found.keys()):
            yield from differences(expected.get(key, ABSENT), found.get(key, ABSENT), pointer=f"{pointer}/{key}")
    elif isinstance(expected, (list, tuple)) and isinstance(found, (list, tuple)):
        if len(expected) != len(found):
            yield (pointer, f"{len(expected)} items", f"{len(found)} items")
        for n, (one, other) in enumerate(zip(expected, found, strict=False)):
            yield from differences(one, other, pointer=f"{pointer}/{n}")
    elif _kind(expected) != _kind(found) or expected != found:
        yield (pointer, expected, found)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, (int, float)) else type(value).__name__
