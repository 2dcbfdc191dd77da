"""A published arm with a published hand, put into a scene: what touches, what is driven, where the tool is.

Source: atomic-skills specification, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import mujoco

from trialplate.suites.atomic_skills.assets import check_digest, files_digest, model_path
from trialplate.suites.atomic_skills.settings import world_settings
from trialplate.suites.atomic_skills.world_spec import ArmSpec

ARM_JOINTS = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
)
HAND_PREFIX = "hand_"
KINEMATIC_PREFIX = "k_"
ATTACHMENT_SITE = "attachment_site"
TOOL_SITE = "pinch"
LEFT_PAD = ("left_pad1", "left_pad2")
RIGHT_PAD = ("right_pad1", "right_pad2")
DRIVER_JOINT = "right_driver_joint"
HAND_ACTUATOR = "fingers_actuator"


@dataclass(frozen=True, slots=True)
class ArmNames:
    """Names of one arm's parts inside a compiled scene, and what its hand's numbers mean.

    ``closed_ctrl``: control value that closes the hand; 0 opens it. ``closed_rad``: driver joint when closed.
    """

    joints: tuple[str, ...]  # (6,)
    actuators: tuple[str, ...]  # (6,)
    hand_actuator: str
    driver_joint: str
    tool_site: str
    base_body: str
    hand_body: str
    left_pad: tuple[str, ...]
    right_pad: tuple[str, ...]
    closed_ctrl: float
    closed_rad: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model's description and the files that it was loaded from, path inside the model root -> file."""

    spec: mujoco.MjSpec
    files: Mapping[str, Path]

    def sha256(self) -> str:
        """Identity of the model: SHA-256 over the sorted (path, file digest) list."""
        return files_digest(self.files)


@cache
def load_model(model: str, *, pictures: bool = False) -> Loaded:
    """Read a robot's description. Without ``pictures`` everything that cannot touch is left out.

    Raises Unavailable: ``asset_missing``; ``asset_mismatch`` where the files are not those of the suite.
    """
    path = model_path(model)
    spec = mujoco.MjSpec.from_file(str(path))
    if not pictures:
        _strip_pictures(spec)
    for part in (*spec.lights, *spec.keys):
        spec.delete(part)
    apply_options(spec)
    files = {f"{model}/{path.name}": path}
    folder = spec.meshdir
    for mesh in spec.meshes:
        files[f"{model}/{folder}/{mesh.file}"] = path.parent / folder / mesh.file
    loaded = Loaded(spec, files)
    expected = world_settings().models.get(model)
    if not pictures and expected is not None:  # a held-out robot is recorded, whichever files it has
        check_digest(model, loaded.sha256(), expected=expected)
    return loaded


def apply_options(spec: mujoco.MjSpec) -> None:
    """Write the suite's time stepping and solver into a specification; attaching a robot does not carry them over."""
    physics = world_settings().physics
    option = spec.option
    option.timestep = physics.timestep_s
    option.gravity = list(physics.gravity_m_s2)
    option.integrator = {"implicitfast": mujoco.mjtIntegrator.mjINT_IMPLICITFAST}[physics.integrator]
    option.cone = {"elliptic": mujoco.mjtCone.mjCONE_ELLIPTIC}[physics.cone]
    option.impratio = physics.impratio
    option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)


def _strip_pictures(spec: mujoco.MjSpec) -> None:
    """Leave out geoms that touch nothing, and meshes that nothing else uses."""
    for geom in tuple(spec.geoms):
        if not geom.contype and not geom.conaffinity:
            spec.delete(geom)
    used = {geom.meshname for geom in spec.geoms if geom.meshname}
    for mesh in tuple(spec.meshes):
        if (mesh.name or Path(mesh.file).stem) not in used:
            spec.delete(mesh)


def model_identities(arm_model: str, hand_model: str) -> dict[str, str]:
    """Return the identity of each robot model as it is loaded here."""
    return {name: load_model(name).sha256() for name in (arm_model, hand_model)}


def robot_spec(arm_model: str, hand_model: str, *, pictures: bool = False) -> mujoco.MjSpec:
    """Return a fresh specification of the arm with the hand on its attachment site, every touching geom named."""
    arm = load_model(arm_model, pictures=pictures).spec.copy()
    hand = load_model(hand_model, pictures=pictures).spec.copy()
    arm.attach(hand, prefix=HAND_PREFIX, site=arm.site(ATTACHMENT_SITE))
    for body in arm.bodies:
        for number, geom in enumerate(body.geoms):
            if not geom.name:
                geom.name = f"{body.name}_geom{number}"
    for body in arm.bodies:
        if body.name != "world":
            body.gravcomp = 1.0
    for actuator in arm.actuators:
        if actuator.name != HAND_PREFIX + HAND_ACTUATOR:
            actuator.ctrllimited = mujoco.mjtLimited.mjLIMITED_FALSE
    return arm


def add_arm(
    scene: mujoco.MjSpec, arm: ArmSpec, *, arm_model: str, hand_model: str, pictures: bool = False
) -> ArmNames:
    """Attach one arm to the scene under the prefix ``NAME_`` and return the names of its parts."""
    robot = robot_spec(arm_model, hand_model, pictures=pictures)
    half = arm.mount_yaw_rad / 2.0
    frame = scene.worldbody.add_frame(pos=list(arm.mount_m), quat=[math.cos(half), 0.0, 0.0, math.sin(half)])
    prefix = f"{arm.name}_"
    scene.attach(robot, prefix=prefix, frame=frame)
    hand = prefix + HAND_PREFIX
    return ArmNames(
        joints=tuple(prefix + name for name in ARM_JOINTS),
        actuators=tuple(prefix + name.removesuffix("_joint") for name in ARM_JOINTS),
        hand_actuator=hand + HAND_ACTUATOR,
        driver_joint=hand + DRIVER_JOINT,
        tool_site=hand + TOOL_SITE,
        base_body=prefix + "base",
        hand_body=hand + "base",
        left_pad=tuple(hand + name for name in LEFT_PAD),
        right_pad=tuple(hand + name for name in RIGHT_PAD),
        closed_ctrl=255.0,
        closed_rad=0.8,
    )


@lru_cache(maxsize=8)
def kinematic_model(
    mount_m: tuple[float, float, float], mount_yaw_rad: float, *, arm_model: str, hand_model: str
) -> mujoco.MjModel:
    """Return the six arm joints alone with the site ``k_hand_pinch``; shared, never changed.

    Shapes, actuators and the hand's own joints are left out, so that a kinematics update costs microseconds.
    """
    robot = robot_spec(arm_model, hand_model)
    for part in (*robot.actuators, *robot.equalities, *robot.tendons, *robot.geoms, *robot.excludes, *robot.meshes):
        robot.delete(part)
    for joint in tuple(robot.joints):
        if joint.name not in ARM_JOINTS:
            robot.delete(joint)
    half = mount_yaw_rad / 2.0
    scene = mujoco.MjSpec()
    apply_options(scene)
    frame = scene.worldbody.add_frame(pos=list(mount_m), quat=[math.cos(half), 0.0, 0.0, math.sin(half)])
    scene.attach(robot, prefix=KINEMATIC_PREFIX, frame=frame)
    return scene.compile()


def names_under(spec: mujoco.MjSpec, body: str) -> Iterator[str]:
    """Yield the geom names of a body and everything attached to it."""
    for geom in spec.body(body).find_all("geom"):
        yield geom.name
