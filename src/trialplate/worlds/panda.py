"""The Franka Emika Panda with hand, from public facts only, and how to put it into a scene.

The body is ``data/panda.xml``: modified DH parameters, limits, masses and inertias of the public data sheet, shapes
of our own. Two services are built on it: :func:`add_panda` attaches the robot to a scene, and
:func:`kinematic_model` compiles the seven joints alone, for inverse kinematics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

import mujoco
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

ARM_JOINTS = 7
HOME_JOINT_RAD = (0.0, -np.pi / 4, 0.0, -3 * np.pi / 4, 0.0, np.pi / 2, np.pi / 4)
"""Ready pose of the public documentation: the hand points down, 0.307 m before the base and 0.487 m above it."""

FINGER_TRAVEL_M = 0.04
"""Travel of one finger; the gripper's opening is twice that."""

JOINT_LOWER_RAD = (-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973)
JOINT_UPPER_RAD = (2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973)
JOINT_VELOCITY_RAD_S = (2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61)
JOINT_EFFORT_N_M = (87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0)

DH_A_M = (0.0, 0.0, 0.0, 0.0825, -0.0825, 0.0, 0.088)
DH_D_M = (0.333, 0.0, 0.316, 0.0, 0.384, 0.0, 0.0)
DH_ALPHA_RAD = (0.0, -np.pi / 2, np.pi / 2, np.pi / 2, -np.pi / 2, np.pi / 2, np.pi / 2)
FLANGE_M = 0.107
TOOL_CENTRE_M = 0.1034
"""From the flange to the finger centre: 0.0584 m to the fingers, 0.045 m along them to the pads' middle."""

WRIST_CAMERA_POSITION_M = (0.05, 0.0, 0.0)
WRIST_CAMERA_WXYZ = (0.0, 0.707108, 0.707108, 0.0)
WRIST_CAMERA_FOVY_DEG = 75.0


@dataclass(frozen=True, slots=True)
class PandaNames:
    """Names of the attached robot's parts inside the compiled scene."""

    joints: tuple[str, ...]  # 7 arm joints
    finger_joints: tuple[str, str]
    actuators: tuple[str, ...]  # 7 arm joint positions (rad)
    gripper_actuator: str  # finger position (m), 0 closed, FINGER_TRAVEL_M open
    ee_site: str  # tool centre between the pads
    base_body: str
    hand_body: str
    finger_bodies: tuple[str, str]
    pads: tuple[str, str]  # left, right collision geoms
    touching_geoms: tuple[str, ...]  # every collision geom of the robot
    wrist_camera: str | None


def panda_spec() -> mujoco.MjSpec:
    """Return the robot alone as a fresh editable specification."""
    return _described().copy()


@cache
def _described() -> mujoco.MjSpec:
    """Return the description, read once: a copy compiles to the same bytes as one that is read again, and sooner."""
    text = resources.files("trialplate.worlds").joinpath("data", "panda.xml").read_text(encoding="utf-8")
    return mujoco.MjSpec.from_string(text)


def panda_xml_bytes() -> bytes:
    """Return the bytes of the robot's description, for digests."""
    return resources.files("trialplate.worlds").joinpath("data", "panda.xml").read_bytes()


def add_panda(
    spec: mujoco.MjSpec,
    *,
    position_m: Sequence[float] = (0.0, 0.0, 0.0),
    prefix: str = "panda_",
    wrist_camera: str | None = None,
) -> PandaNames:
    """Attach the robot to ``spec`` with its base at ``position_m`` (world frame, shape (3,)), unrotated.

    ``wrist_camera`` names a camera that is fixed to the hand and looks along the fingers (the hand-eye pose of
    robosuite's Panda, vertical field of view 75 deg); None adds no camera. Source: fair pick-and-place protocol,
    section 4.
    """
    robot = panda_spec()
    touching = [geom.name for geom in robot.geoms if geom.contype]
    if wrist_camera is not None:
        robot.body("hand").add_camera(
            name=wrist_camera,
            pos=list(WRIST_CAMERA_POSITION_M),
            quat=list(WRIST_CAMERA_WXYZ),
            fovy=WRIST_CAMERA_FOVY_DEG,
        )
    mount = spec.worldbody.add_frame(pos=list(position_m))
    spec.attach(robot, prefix=prefix, frame=mount)

    def named(name: str) -> str:
        return prefix + name

    return PandaNames(
        joints=tuple(named(f"joint{n}") for n in range(1, ARM_JOINTS + 1)),
        finger_joints=(named("finger_joint1"), named("finger_joint2")),
        actuators=tuple(named(f"actuator{n}") for n in range(1, ARM_JOINTS + 1)),
        gripper_actuator=named("gripper"),
        ee_site=named("ee"),
        base_body=named("link0"),
        hand_body=named("hand"),
        finger_bodies=(named("left_finger"), named("right_finger")),
        pads=(named("left_pad"), named("right_pad")),
        touching_geoms=tuple(named(name) for name in touching),
        wrist_camera=None if wrist_camera is None else named(wrist_camera),
    )


@lru_cache(maxsize=16)
def kinematic_model(position_m: tuple[float, float, float]) -> mujoco.MjModel:
    """Return the seven arm joints alone, base at ``position_m``, with the site ``ee``; shared, never changed.

    Fingers, shapes and actuators are left out, so that a kinematics update costs microseconds.
    """
    robot = panda_spec()
    for part in (*robot.actuators, *robot.equalities, *robot.tendons, *robot.geoms):
        robot.delete(part)
    for finger in ("left_finger", "right_finger"):
        robot.delete(robot.body(finger))
    robot.body("link0").pos = list(position_m)
    return robot.compile()


def dh_flange_pose(joint_rad: Sequence[float]) -> FloatArray:
    """Return the flange in the base frame as a (4, 4) transform, by the published DH table alone."""
    pose = np.eye(4)
    for a_m, d_m, alpha_rad, q_rad in zip(DH_A_M, DH_D_M, DH_ALPHA_RAD, joint_rad, strict=True):
        pose = pose @ _dh_step(a_m, d_m, alpha_rad=alpha_rad, q_rad=q_rad)
    return pose @ _dh_step(0.0, FLANGE_M, alpha_rad=0.0, q_rad=0.0)


def _dh_step(a_m: float, d_m: float, *, alpha_rad: float, q_rad: float) -> FloatArray:
    """One modified (Craig) Denavit-Hartenberg transform."""
    cq, sq, ca, sa = np.cos(q_rad), np.sin(q_rad), np.cos(alpha_rad), np.sin(alpha_rad)
    return np.array(
        [
            [cq, -sq, 0.0, a_m],
            [sq * ca, cq * ca, -sa, -d_m * sa],
            [sq * sa, cq * sa, ca, d_m * ca],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )
