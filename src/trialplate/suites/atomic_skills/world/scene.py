"""From a case to a scene: support, floor, objects, the articulated part, one or two arms. Nothing is welded.

Source: atomic-skills specification, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco

from trialplate.canonical import canonical_json
from trialplate.suites.atomic_skills.rigid import look_at
from trialplate.suites.atomic_skills.settings import WorldSettings, world_settings
from trialplate.suites.atomic_skills.world.parts import TARGET_PREFIX, add_asset
from trialplate.suites.atomic_skills.world.robot import ArmNames, add_arm, apply_options
from trialplate.suites.atomic_skills.world_spec import ObjectSpec, WorldSpec

PEOPLE_CAMERA = "people"
_TYPES = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "hex_prism": mujoco.mjtGeom.mjGEOM_MESH,
}
_FROM_BEFORE = ([1.55, -1.05, 0.95], [0.35, 0.05, 0.10])
_FROM_THE_SIDE = ([0.05, -1.45, 0.95], [0.45, 0.0, 0.12])
"""Where the camera for people stands, and what it looks at, m."""
_TABLE_RGBA = [0.45, 0.47, 0.50, 1.0]


@dataclass(frozen=True, slots=True)
class Composed:
    """A scene before compilation, and the names of its arms."""

    spec: mujoco.MjSpec
    arms: tuple[ArmNames, ...]


def read_world(case: Mapping[str, Any]) -> WorldSpec:
    """Return the member ``world`` of a case, checked. Raises pydantic's ValidationError."""
    return WorldSpec.model_validate_json(canonical_json(case["world"]))


def compose(case: Mapping[str, Any], *, pictures: bool = False) -> Composed:
    """Build the scene of a case. ``pictures`` adds what only a camera sees; nothing that touches differs."""
    settings, world = world_settings(), read_world(case)
    spec = mujoco.MjSpec()
    spec.modelname = f"atomic_skills_{case['scene']}"
    apply_options(spec)
    spec.compiler.degree = False
    _surroundings(spec, case["scene"], pictures=pictures)
    if case["scene"] != "free_space":
        _table(spec, world, settings)
    arms = tuple(
        add_arm(spec, arm, arm_model=world.arm_model, hand_model=world.hand_model, pictures=pictures)
        for arm in world.arms
    )
    for arm in world.arms:
        _pedestal(spec, arm.name, arm.mount_m, settings)
    for thing in world.objects:
        _add_object(spec, thing, case["poses"][thing.name], friction_scale=world.friction_scale)
    if world.asset is not None:
        add_asset(
            spec,
            world.asset,
            pose=case["poses"]["asset"],
            settings=settings,
            friction_scale=world.friction_scale,
        )
    for geom in spec.geoms:
        if geom.priority:  # pads decide about friction alone
            geom.friction[0] *= world.friction_scale
            geom.condim = settings.contact.pad_condim
    return Composed(spec, arms)


def _surroundings(spec: mujoco.MjSpec, scene: str, *, pictures: bool) -> None:
    eye_m, target_m = _FROM_THE_SIDE if scene in ("door", "drawer") else _FROM_BEFORE
    spec.worldbody.add_camera(
        name=PEOPLE_CAMERA, pos=eye_m, fovy=45.0, mode=mujoco.mjtCamLight.mjCAMLIGHT_FIXED,
        quat=look_at(eye_m, target_m),
    )  # fmt: skip
    spec.worldbody.add_light(name="lamp", pos=[0.5, -0.8, 2.5], dir=[0.0, 0.3, -1.0], diffuse=[0.7, 0.7, 0.7])
    if pictures:
        spec.visual.headlight.ambient = [0.35, 0.35, 0.35]
        spec.visual.global_.offwidth, spec.visual.global_.offheight = 1280, 960


def _table(spec: mujoco.MjSpec, world: WorldSpec, settings: WorldSettings) -> None:
    table = settings.table
    friction = [table.friction[0] * world.friction_scale, *table.friction[1:]]
    top_m = world.support_height_m
    spec.worldbody.add_geom(
        name="support", type=mujoco.mjtGeom.mjGEOM_BOX, size=list(table.half_size_m), friction=friction,
        pos=[*table.centre_m, top_m - table.half_size_m[2]], rgba=_TABLE_RGBA,
    )  # fmt: skip
    spec.worldbody.add_geom(
        name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[4.0, 4.0, 0.1], pos=[0.0, 0.0, -table.floor_below_m],
        rgba=[0.80, 0.80, 0.78, 1.0], friction=friction,
    )  # fmt: skip


def _pedestal(spec: mujoco.MjSpec, name: str, mount_m: Sequence[float], settings: WorldSettings) -> None:
    half_m = settings.table.floor_below_m / 2.0
    spec.worldbody.add_geom(
        name=f"pedestal_{name}", type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[0.09, half_m - 0.005, 0.0],
        pos=[mount_m[0], mount_m[1], mount_m[2] - half_m - 0.005], rgba=[0.3, 0.3, 0.32, 1.0],
        contype=0, conaffinity=0,
    )  # fmt: skip


def _add_object(spec: mujoco.MjSpec, thing: ObjectSpec, pose: Sequence[float], *, friction_scale: float) -> None:
    body = spec.worldbody.add_body(name=thing.name, pos=list(pose[:3]), quat=list(pose[3:]))
    body.add_freejoint(name=f"{thing.name}_joint")
    friction = [thing.friction[0] * friction_scale, *thing.friction[1:]]
    size = [*thing.size_m, 0.0, 0.0][:3]
    geom = body.add_geom(
        name=f"{TARGET_PREFIX}{thing.name}", type=_TYPES[thing.shape], mass=thing.mass_kg, friction=friction,
        rgba=list(thing.rgba), condim=world_settings().contact.pad_condim,
    )  # fmt: skip
    if thing.shape == "hex_prism":
        radius_m, half_m = thing.size_m
        corners = [
            (radius_m * math.cos(n * math.pi / 3.0), radius_m * math.sin(n * math.pi / 3.0), z)
            for z in (-half_m, half_m)
            for n in range(6)
        ]
        spec.add_mesh(name=f"{thing.name}_mesh", uservert=[value for corner in corners for value in corner])
        geom.meshname = f"{thing.name}_mesh"
    else:
        geom.size = size
