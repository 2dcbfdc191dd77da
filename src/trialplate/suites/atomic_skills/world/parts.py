"""The articulated parts: door, drawer, knob, button. Primitive shapes; undriven joints; nothing is welded.

Each is built in its own frame: x away from the robot, z up, origin on the support. The joint ``asset_joint`` is 0 at
one end and grows in the commanded direction. Source: atomic-skills specification, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco

from trialplate.errors import HarnessFault
from trialplate.suites.atomic_skills.settings import WorldSettings
from trialplate.suites.atomic_skills.world_spec import AssetSpec

JOINT = "asset_joint"
TARGET_PREFIX = "target_"
"""Geoms whose name begins so are what the fingers are to take."""

_BOX = mujoco.mjtGeom.mjGEOM_BOX
_CYLINDER = mujoco.mjtGeom.mjGEOM_CYLINDER
_PANEL = [0.75, 0.72, 0.66, 1.0]
_STEEL = [0.35, 0.38, 0.42, 1.0]
_RED = [0.80, 0.12, 0.10, 1.0]
_TOUCHES_NOTHING = {"contype": 0, "conaffinity": 0, "mass": 0.0}


def add_asset(
    scene: mujoco.MjSpec, asset: AssetSpec, *, pose: Sequence[float], settings: WorldSettings, friction_scale: float
) -> None:
    """Build the part at ``pose`` (7,): position in m and wxyz, world frame."""
    base = scene.worldbody.add_body(name="asset_base", pos=list(pose[:3]), quat=list(pose[3:]))
    builder = {"door": _door, "drawer": _drawer, "knob": _knob, "button": _button}[asset.kind]
    builder(base, asset, settings, friction_scale)


def _door(base: mujoco.MjsBody, asset: AssetSpec, settings: WorldSettings, friction_scale: float) -> None:
    """A panel on a hinge at its +y edge; it opens towards the robot, clockwise seen from above."""
    numbers, handle = settings.door, settings.handle
    if asset.width_m is None:
        raise HarnessFault("a door needs a width", code="reset_failed")
    width, height = asset.width_m, numbers.panel_height_m
    panel = base.add_body(name="asset_moving", pos=[0.0, width / 2.0, 0.0])
    panel.add_joint(
        name=JOINT, type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 0, -1], range=[0.0, 2.3], limited=True,
        frictionloss=asset.frictionloss, damping=[numbers.damping_n_m_s, 0, 0],
    )  # fmt: skip
    middle_m = numbers.gap_m + height / 2.0
    panel.add_geom(
        name="asset_panel", type=_BOX, size=[numbers.panel_thickness_m / 2.0, width / 2.0, height / 2.0],
        pos=[0.0, -width / 2.0, middle_m], mass=numbers.panel_mass_kg, rgba=_PANEL, contype=2, conaffinity=1,
    )  # fmt: skip
    at = [-numbers.panel_thickness_m / 2.0, -width + numbers.handle_from_edge_m, middle_m]
    _add_handle(panel, at, handle.friction, settings, friction_scale)
    base.add_geom(
        name="asset_post", type=_CYLINDER, size=[0.012, height / 2.0 + numbers.gap_m, 0.0],
        pos=[0.0, width / 2.0 + 0.02, height / 2.0 + numbers.gap_m], rgba=_STEEL, contype=2, conaffinity=1,
    )  # fmt: skip


def _drawer(base: mujoco.MjsBody, asset: AssetSpec, settings: WorldSettings, friction_scale: float) -> None:
    """A box that slides towards the robot."""
    numbers = settings.drawer
    thick, wide, high = numbers.front_m
    box = base.add_body(name="asset_moving")
    box.add_joint(
        name=JOINT, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[-1, 0, 0], range=[0.0, numbers.range_m], limited=True,
        frictionloss=asset.frictionloss, damping=[numbers.damping_n_s_m, 0, 0],
    )  # fmt: skip
    middle_m = numbers.gap_m + high / 2.0
    box.add_geom(
        name="asset_front", type=_BOX, size=[thick / 2.0, wide / 2.0, high / 2.0], pos=[0.0, 0.0, middle_m],
        mass=numbers.mass_kg / 2.0, rgba=_PANEL, contype=2, conaffinity=1,
    )  # fmt: skip
    box.add_geom(
        name="asset_box", type=_BOX, size=[numbers.depth_m / 2.0, wide / 2.0 - 0.01, high / 2.0 - 0.01],
        pos=[thick / 2.0 + numbers.depth_m / 2.0, 0.0, middle_m], mass=numbers.mass_kg / 2.0, rgba=_PANEL,
        contype=2, conaffinity=1,
    )  # fmt: skip
    _add_handle(box, [-thick / 2.0, 0.0, middle_m], settings.handle.friction, settings, friction_scale)


def _add_handle(
    body: mujoco.MjsBody,
    at: Sequence[float],
    friction: Sequence[float],
    settings: WorldSettings,
    friction_scale: float,
) -> None:
    """An upright bar before the front face at ``at`` (3,), on two short posts."""
    handle = settings.handle
    bar = [at[0] - handle.standoff_m, at[1], at[2]]
    body.add_geom(
        name=f"{TARGET_PREFIX}handle", type=_CYLINDER, size=[handle.radius_m, handle.length_m / 2.0, 0.0], pos=bar,
        mass=0.05, rgba=_STEEL, friction=_scaled(friction, friction_scale), contype=2, conaffinity=1,
    )  # fmt: skip
    for name, sign in (("low", -1.0), ("high", 1.0)):
        body.add_geom(
            name=f"asset_post_{name}", type=_BOX, size=[handle.standoff_m / 2.0, 0.008, 0.008],
            pos=[at[0] - handle.standoff_m / 2.0, at[1], at[2] + sign * (handle.length_m / 2.0 - 0.008)],
            mass=0.02, rgba=_STEEL, contype=2, conaffinity=1,
        )  # fmt: skip
    body.add_site(name="grasp", pos=bar, size=[0.005, 0.005, 0.005], group=4)


def _knob(base: mujoco.MjsBody, asset: AssetSpec, settings: WorldSettings, friction_scale: float) -> None:
    """A bar on a disc that turns about the vertical, counterclockwise seen from above."""
    numbers = settings.knob
    base.add_geom(
        name="asset_housing", type=_CYLINDER, size=[numbers.base_radius_m, numbers.base_height_m / 2.0, 0.0],
        pos=[0.0, 0.0, numbers.base_height_m / 2.0], rgba=_PANEL, contype=2, conaffinity=1,
    )  # fmt: skip
    turning = base.add_body(name="asset_moving", pos=[0.0, 0.0, numbers.base_height_m])
    turning.add_joint(
        name=JOINT, type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 0, 1], limited=True,
        range=[-numbers.range_rad, numbers.range_rad], frictionloss=asset.frictionloss,
        damping=[numbers.damping_n_m_s, 0, 0],
    )  # fmt: skip
    across, along, high = numbers.grip_m
    middle = [0.0, 0.0, 0.005 + high / 2.0]
    turning.add_geom(
        name=f"{TARGET_PREFIX}grip", type=_BOX, size=[across / 2.0, along / 2.0, high / 2.0], pos=middle,
        mass=numbers.mass_kg, rgba=_RED, friction=_scaled(settings.handle.friction, friction_scale),
        contype=2, conaffinity=1,
    )  # fmt: skip
    turning.add_site(name="grasp", pos=middle, size=[0.005, 0.005, 0.005], group=4)


def _button(base: mujoco.MjsBody, asset: AssetSpec, settings: WorldSettings, friction_scale: float) -> None:
    """A cap on a spring, pressed downwards."""
    numbers = settings.button
    long, wide, high = numbers.housing_m
    base.add_geom(
        name="asset_housing", type=_BOX, size=[long / 2.0, wide / 2.0, high / 2.0], pos=[0.0, 0.0, high / 2.0],
        rgba=_PANEL, contype=2, conaffinity=1,
    )  # fmt: skip
    cap = base.add_body(name="asset_moving", pos=[0.0, 0.0, high])
    cap.add_joint(
        name=JOINT, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, 0, -1], range=[0.0, numbers.stroke_m], limited=True,
        stiffness=[numbers.stiffness_n_m, 0, 0], springref=-numbers.preload_m, frictionloss=asset.frictionloss,
        damping=[numbers.damping_n_s_m, 0, 0], solref_limit=[0.004, 1.0], solimp_limit=[0.95, 0.99, 0.001, 0.5, 2.0],
    )  # fmt: skip
    top = [0.0, 0.0, numbers.cap_height_m / 2.0]
    cap.add_geom(
        name=f"{TARGET_PREFIX}cap", type=_CYLINDER, size=[numbers.radius_m, numbers.cap_height_m / 2.0, 0.0], pos=top,
        mass=numbers.mass_kg, rgba=_RED, friction=_scaled(settings.handle.friction, friction_scale),
        contype=2, conaffinity=1,
    )  # fmt: skip
    cap.add_site(name="grasp", pos=[0.0, 0.0, numbers.cap_height_m], size=[0.005, 0.005, 0.005], group=4)


def _scaled(friction: Sequence[float], scale: float) -> list[float]:
    return [friction[0] * scale, *friction[1:]]
