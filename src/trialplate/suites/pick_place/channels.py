"""What flows in and out: the two observation profiles, the action vector, the recorded columns. No simulator here."""

from __future__ import annotations

from functools import lru_cache

from trialplate.record import Column
from trialplate.spec.channels import (
    ActionComponent,
    ActionSpec,
    CameraSpec,
    GripperRange,
    ObservationSpec,
    ProprioSpec,
)
from trialplate.suites.pick_place.settings import SuiteSettings, suite_settings

STANDARD = "standard"
OBJECT_ESTIMATE = "object-estimate"

COLUMNS: tuple[Column, ...] = (
    Column("object_pos_m", 3, "m", "block centre, world frame"),
    Column("object_quat_wxyz", 4, "1", "block orientation, world frame"),
    Column("object_speed_m_s", 1, "m/s", "linear speed of the block centre"),
    Column("object_lift_m", 1, "m", "block centre above its own initial height"),
    Column("object_height_m", 1, "m", "block centre above where it rests on the table"),
    Column("goal_offset_m", 1, "m", "horizontal distance from block centre to goal centre"),
    Column("finger_centre_pos_m", 3, "m", "middle between the two finger pads, world frame"),
    Column("finger_object_distance_m", 1, "m", "from finger centre to block centre"),
    Column("finger_gap_m", 1, "m", "opening between the pads"),
    Column("attached", 1, "1", "1 while the grasp attachment holds the block, else 0"),
    Column("gripper_command", 1, "1", "last executed gripper command; -1 (open) before the first, as the gripper is"),
    Column("ee_pos_m", 3, "m", "tool centre, world frame"),
    Column("ee_quat_wxyz", 4, "1", "hand orientation, world frame"),
    Column("commanded_pos_m", 3, "m", "tool centre that the last accepted command asked for"),
    Column("joint_pos_rad", 7, "rad", "arm joints"),
    Column("push_n", 3, "N", "disturbance force on the block during the step that led here"),
)
"""The recorded columns, in the order of a measurement."""


def column_slices() -> dict[str, slice]:
    """Return where each column lies in a measurement's values."""
    slices: dict[str, slice] = {}
    first = 0
    for column in COLUMNS:
        slices[column.name] = slice(first, first + column.dim)
        first += column.dim
    return slices


SLICES = column_slices()


def action_spec(settings: SuiteSettings) -> ActionSpec:
    """Return the seven-number action: world-frame translation, world-frame axis-angle, gripper."""
    scale = settings.action
    return ActionSpec(
        control_hz=settings.control_hz,
        dim=7,
        components=(
            ActionComponent(
                name="ee_delta_pos", dim=3, kind="ee_position", mode="delta", delta_base="step", unit="m",
                frame="world", rotation=None, gripper=None, low=(-1.0,) * 3, high=(1.0,) * 3,
                scale=scale.translation_m, meaning="moves the commanded tool centre",
            ),
            ActionComponent(
                name="ee_delta_rot", dim=3, kind="ee_rotation", mode="delta", delta_base="step", unit="rad",
                frame="world", rotation="axis_angle_pi", gripper=None, low=(-1.0,) * 3, high=(1.0,) * 3,
                scale=scale.rotation_rad, meaning="turns the commanded tool centre about world axes",
            ),
            ActionComponent(
                name="gripper", dim=1, kind="gripper", mode="absolute", delta_base=None, unit="1", frame=None,
                rotation=None, gripper=GripperRange(closed=1.0, open=-1.0), low=(-1.0,), high=(1.0,),
                meaning="below 0 opens, 0 and above closes; an all-zero action closes",
            ),
        ),
    )  # fmt: skip


def profiles(settings: SuiteSettings) -> dict[str, ObservationSpec]:
    """Return the observation profiles: ``standard``, and the same with a declared noisy state estimate."""
    height_px, width_px = settings.rendering["height_px"], settings.rendering["width_px"]
    cameras = tuple(
        CameraSpec(name=name, height=height_px, width=width_px, layout="hwc", color="rgb", orientation="upright")
        for name in ("primary", "wrist")
    )
    own_state = (
        _numbers("joint_pos", 7, "rad", frame="joint", meaning="arm joint positions"),
        _numbers("finger_pos", 2, "m", frame="joint", meaning="travel of each finger, 0 closed"),
        _numbers("ee_pos", 3, "m", frame="world", meaning="tool centre between the pads"),
        ProprioSpec(
            name="ee_quat", dim=4, unit="1", frame="world", rotation="quat_wxyz", gripper=None,
            meaning="orientation of the hand",
        ),
    )  # fmt: skip
    noise = settings.estimate
    how = f"per axis a bias of sd {noise.bias_sd_m} m per episode and noise of sd {noise.noise_sd_m} m per reading"
    estimates = (
        _numbers("object_estimate", 3, "m", frame="world", meaning=f"block centre with {how}"),
        _numbers("goal_estimate", 3, "m", frame="world", meaning=f"goal centre with {how}"),
    )
    return {
        STANDARD: ObservationSpec(cameras=cameras, proprio=own_state),
        OBJECT_ESTIMATE: ObservationSpec(cameras=cameras, proprio=own_state + estimates),
    }


def _numbers(name: str, dim: int, unit: str, *, frame: str, meaning: str) -> ProprioSpec:
    """Return a channel of plain numbers: neither a rotation nor a gripper."""
    return ProprioSpec(name=name, dim=dim, unit=unit, frame=frame, rotation=None, gripper=None, meaning=meaning)


@lru_cache(maxsize=1)
def standard_profile() -> ObservationSpec:
    """Return what the suite sends by default; its own arms declare parts of it."""
    return profiles(suite_settings())[STANDARD]
