"""What flows in and out of ``toy-reach``: the channels and the action vector of the policy contract, section 11."""

from __future__ import annotations

from trialplate.spec.channels import ActionComponent, ActionSpec, CameraSpec, GripperRange, ProprioSpec, Rotation

SIZE_PX = 64
FRAMES_BACK, ACTIONS_BACK = 2, 3


def _camera(name: str) -> CameraSpec:
    return CameraSpec(
        name=name, height=SIZE_PX, width=SIZE_PX, layout="hwc", color="rgb", orientation="upright"
    )  # fmt: skip


def cameras() -> tuple[CameraSpec, ...]:
    """Return the two cameras: one that stands before the hand, one that is on it."""
    return (_camera("front"), _camera("wrist"))


def _proprio(order: Rotation) -> tuple[ProprioSpec, ...]:
    return (
        ProprioSpec(name="ee_pos", dim=3, unit="m", frame="base", rotation=None, gripper=None),
        ProprioSpec(name="ee_quat", dim=4, unit="1", frame="base", rotation=order, gripper=None),
        ProprioSpec(
            name="gripper", dim=1, unit="1", frame=None, rotation=None, gripper=GripperRange(closed=0.0, open=1.0)
        ),
    )


PROPRIO = _proprio("quat_wxyz")
PROPRIO_XYZW = _proprio("quat_xyzw")

ACTION = ActionSpec(
    control_hz=20.0,
    dim=7,
    components=(
        ActionComponent(
            name="ee_delta_pos", dim=3, kind="ee_position", mode="delta", delta_base="step", unit="m", frame="base",
            rotation=None, gripper=None, low=(-0.05,) * 3, high=(0.05,) * 3,
        ),
        ActionComponent(
            name="ee_delta_rot", dim=3, kind="ee_rotation", mode="delta", delta_base="step", unit="rad", frame="base",
            rotation="axis_angle_pi", gripper=None, low=(-0.5,) * 3, high=(0.5,) * 3,
        ),
        ActionComponent(
            name="gripper", dim=1, kind="gripper", mode="absolute", delta_base=None, unit="1", frame=None,
            rotation=None, gripper=GripperRange(closed=0.0, open=1.0), low=(0.0,), high=(1.0,),
        ),
    ),
)  # fmt: skip
"""Seven numbers: delta position, delta rotation, gripper (0 closed, 1 open)."""
