"""From a scene document to a compiled world: table, lamps, things, cameras, the robot and the grasp attachment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mujoco

from trialplate.suites.pick_place.expected_scene import SHINES_ALONG
from trialplate.suites.pick_place.geometry import looking
from trialplate.suites.pick_place.scene_spec import Camera, Light, Movable, Scene, Solid
from trialplate.suites.pick_place.settings import SuiteSettings
from trialplate.worlds.attachment import AttachmentSettings, add_attachment
from trialplate.worlds.drawing import RenderSettings, apply_rendering
from trialplate.worlds.panda import PandaNames, add_panda
from trialplate.worlds.simulation import PhysicsSettings, apply_physics

ATTACHMENT = "grasp"
DISTURBANCE_NUMERIC = "disturbances"
DISTURBANCE_FIELDS = 5  # start step, duration in steps, force (3,) in N
PRIMARY = "primary"
WRIST = "wrist"

_GEOM_TYPE = {"box": mujoco.mjtGeom.mjGEOM_BOX, "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER}
_UPRIGHT = (1.0, 0.0, 0.0, 0.0)
_LOOK_GROUP = 2  # what a camera sees
PEOPLE = "people"
"""Camera of films and filmstrips: near enough to see the fingers. No policy is ever sent it."""
_PEOPLE_EYE_M, _PEOPLE_TARGET_M, _PEOPLE_FOVY_DEG = (1.25, -0.8, 0.75), (0.46, 0.0, 0.16), 36.0


@dataclass(frozen=True, slots=True)
class Composed:
    """An editable scene, and the names of the robot's parts in it."""

    spec: mujoco.MjSpec
    robot: PandaNames


def compose(scene: Scene, settings: SuiteSettings) -> Composed:
    """Return the world of one scene, not yet compiled. The block and the distractors move; the rest is fixed."""
    spec = mujoco.MjSpec()
    spec.modelname = "pick-place"
    apply_physics(spec, physics_settings(settings))
    spec.option.gravity = list(settings.physics.gravity_m_s2)
    apply_rendering(spec, render_settings(settings))
    _look(spec)
    floor = spec.worldbody.add_body(name="floor", pos=list(scene.floor.pos_m))
    floor.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[4, 4, 1], rgba=list(scene.floor.rgba), group=_LOOK_GROUP)
    table = scene.table
    _add_fixed(
        spec, "table", shape="box", half_size_m=table.half_size_m, pos_m=table.pos_m, quat_wxyz=_UPRIGHT,
        rgba=table.rgba, friction=table.friction,
    )  # fmt: skip
    goal = scene.goal
    _add_fixed(
        spec, "goal", shape="cylinder", half_size_m=goal.half_size_m, pos_m=goal.pos_m, quat_wxyz=_UPRIGHT,
        rgba=goal.rgba, friction=None,
    )  # fmt: skip
    for light in scene.lights:
        _add_light(spec, light)
    for n, solid in enumerate(scene.obstacles):
        _add_solid(spec, f"obstacle_{n}", solid)
    if scene.occluder is not None:
        _add_solid(spec, "occluder", scene.occluder)
    robot = add_panda(spec)
    _add_camera(spec.worldbody, PRIMARY, scene.cameras.primary)
    _add_camera(spec.body(robot.hand_body), WRIST, scene.cameras.wrist)
    spec.worldbody.add_camera(
        name=PEOPLE,
        pos=list(_PEOPLE_EYE_M),
        quat=list(looking(_PEOPLE_EYE_M, _PEOPLE_TARGET_M)),
        fovy=_PEOPLE_FOVY_DEG,
    )
    _add_movable(spec, "block", scene.block)
    for n, thing in enumerate(scene.distractors):
        _add_movable(spec, f"distractor_{n}", thing)
    add_attachment(
        spec, name=ATTACHMENT, hand_body=robot.hand_body, object_body="block", settings=attachment_settings(settings)
    )
    if scene.disturbances:
        rows = [(push.start_step, push.duration_steps, *push.force_n) for push in scene.disturbances]
        flat = [float(value) for row in rows for value in row]
        spec.add_numeric(name=DISTURBANCE_NUMERIC, data=flat, size=len(flat))
    return Composed(spec, robot)


def physics_settings(settings: SuiteSettings) -> PhysicsSettings:
    """Return the time and solver settings of the suite in the form that worlds take."""
    return PhysicsSettings(**settings.physics.model_dump(exclude={"gravity_m_s2"}))


def attachment_settings(settings: SuiteSettings) -> AttachmentSettings:
    """Return the attachment tolerances of the suite in the form that worlds take."""
    return AttachmentSettings(**settings.attachment)


def render_settings(settings: SuiteSettings) -> RenderSettings:
    """Return how pictures are made, in the form that worlds take."""
    return RenderSettings(**settings.rendering)


def _look(spec: mujoco.MjSpec) -> None:
    """Sky, no headlight, and clipping planes that suit a wrist camera. No lamp but the scene's own shines."""
    spec.visual.headlight.active = 0
    spec.visual.map.znear = 0.005
    spec.visual.map.zfar = 20.0
    spec.stat.extent = 1.0
    spec.stat.center = [0.4, 0.0, 0.1]
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.20, 0.23, 0.27],
        rgb2=[0.10, 0.11, 0.13],
        width=64,
        height=384,
    )


def _add_fixed(
    spec: mujoco.MjSpec,
    name: str,
    *,
    shape: str,
    half_size_m: Sequence[float],
    pos_m: Sequence[float],
    quat_wxyz: Sequence[float],
    rgba: Sequence[float],
    friction: Sequence[float] | None,
) -> None:
    """Add a fixed body with one geom; without ``friction`` it touches nothing."""
    body = spec.worldbody.add_body(name=name, pos=list(pos_m), quat=list(quat_wxyz))
    geom = body.add_geom(name=name, type=_GEOM_TYPE[shape], size=_size(shape, half_size_m), rgba=list(rgba))
    geom.group = _LOOK_GROUP
    if friction is None:
        geom.contype = geom.conaffinity = 0
    else:
        geom.friction = list(friction)


def _add_solid(spec: mujoco.MjSpec, name: str, solid: Solid) -> None:
    _add_fixed(
        spec, name, shape=solid.shape, half_size_m=solid.half_size_m, pos_m=solid.pos_m, quat_wxyz=solid.quat_wxyz,
        rgba=solid.rgba, friction=solid.friction,
    )  # fmt: skip


def _add_movable(spec: mujoco.MjSpec, name: str, thing: Movable) -> None:
    body = spec.worldbody.add_body(name=name, pos=list(thing.pos_m), quat=list(thing.quat_wxyz))
    body.add_freejoint(name=name)
    body.add_geom(
        name=name,
        type=_GEOM_TYPE[thing.shape],
        size=_size(thing.shape, thing.half_size_m),
        rgba=list(thing.rgba),
        friction=list(thing.friction),
        mass=thing.mass_kg,
        group=_LOOK_GROUP,
    )


def _size(shape: str, half_size_m: Sequence[float]) -> list[float]:
    """MuJoCo's size of a shape: a cylinder has radius and half height."""
    return [half_size_m[0], half_size_m[2], 0.0] if shape == "cylinder" else list(half_size_m)


def _add_light(spec: mujoco.MjSpec, light: Light) -> None:
    """A lamp sits on a body of its own, whose orientation is kept in double precision."""
    body = spec.worldbody.add_body(
        name=f"light_{light.name}", pos=list(light.pos_m), quat=list(light.orientation_wxyz)
    )
    body.add_light(
        name=light.name,
        dir=list(SHINES_ALONG),
        type=mujoco.mjtLightType.mjLIGHT_SPOT,
        cutoff=75.0,
        exponent=1.0,
        attenuation=[1.0, 0.0, 0.0],
        castshadow=False,
        intensity=light.intensity,
        diffuse=list(light.diffuse),
        ambient=list(light.ambient),
        specular=list(light.specular),
    )


def _add_camera(body: Any, name: str, camera: Camera) -> None:
    body.add_camera(name=name, pos=list(camera.pos_m), quat=list(camera.quat_wxyz), fovy=camera.fovy_deg)
