"""What must be read back after a reset, computed from the case alone, and compared again when a bundle is verified.

No simulator here. A perturbed mass or friction is part of it: one that was not applied is found at reset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trialplate.canonical import binary32
from trialplate.suites.atomic_skills.settings import world_settings

Difference = tuple[str, Any, Any]
"""JSON pointer, what the case promises, what was read back."""

SCHEMA = "trialplate.skill-scene/1"
ABSENT = "(absent)"
MASS_AND_FRICTION = ("/friction/", "/mass_kg/")
"""Pointers that begin so are perturbed by the axes ``mass`` and ``friction``."""


def expected_scene(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the applied scene that a case promises: physics, start joints, poses, masses and frictions.

    Frictions are sliding coefficients, of pads and of everything that they or an object may touch.
    """
    settings, world = world_settings(), case["world"]
    scale = world["friction_scale"]
    pads = settings.pad_friction[world["hand_model"]]
    friction = {f"{arm['name']}_pads": sorted(binary32(value * scale) for value in pads) for arm in world["arms"]}
    friction |= {thing["name"]: [binary32(thing["friction"][0] * scale)] for thing in world["objects"]}
    if case["scene"] != "free_space":
        friction["support"] = [binary32(settings.table.friction[0] * scale)]
    if world["asset"] is not None:
        friction["asset"] = [binary32(settings.handle.friction[0] * scale)]
    asset = world["asset"]
    return {
        "schema": SCHEMA,
        "physics": {
            "timestep_s": binary32(settings.physics.timestep_s),
            "gravity_m_s2": [binary32(value) for value in settings.physics.gravity_m_s2],
            "impratio": binary32(settings.physics.impratio),
        },
        "q_start": [binary32(value) for value in case["q_start"]],
        "poses": {
            thing["name"]: [binary32(value) for value in case["poses"][thing["name"]]] for thing in world["objects"]
        },
        "mass_kg": {thing["name"]: binary32(thing["mass_kg"]) for thing in world["objects"]},
        "friction": friction,
        "asset": None
        if asset is None
        else {
            "joint": binary32(asset["start"]),
            "frictionloss": binary32(asset["frictionloss"]),
            "pose": [binary32(value) for value in case["poses"]["asset"]],
        },
        "robot_to_object_constraints": 0,
    }


def verify_scene(scenario_document: Mapping[str, Any], applied_scene: Mapping[str, Any]) -> list[Difference]:
    """Compare a recorded readback with what the case promises; an empty list means that they are equal."""
    return list(differences(expected_scene(scenario_document["parameters"]), applied_scene, pointer=""))


def differences(expected: Any, found: Any, *, pointer: str) -> Iterator[Difference]:
    """Yield every place where two plain documents differ."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in sorted(expected.keys() | found.keys()):
            yield from differences(expected.get(key, ABSENT), found.get(key, ABSENT), pointer=f"{pointer}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for n, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, pointer=f"{pointer}/{n}")
    elif not _alike(expected, found):
        yield (pointer, expected, found)


def _alike(expected: Any, found: Any) -> bool:
    """Return whether two plain values are equal; a whole number is one however it was stored, a truth value never."""
    if type(expected) in (int, float) and type(found) in (int, float):
        return bool(expected == found)
    return type(expected) is type(found) and bool(expected == found)
