"""What stands in the scene of a case, as plain data: arms, objects and at most one articulated part.

It is the member ``world`` of a case. Poses stand beside it, in the case's ``poses``.
"""

from __future__ import annotations

from typing import Literal

from trialplate.spec.channels import Frozen

Shape = Literal["box", "cylinder", "capsule", "hex_prism"]
Scene = Literal["free_space", "table", "door", "drawer", "knob", "button", "dual_table"]


class ArmSpec(Frozen):
    """One arm with its hand, on its own pedestal. ``mount_m`` (3,) world frame; turned about the vertical."""

    name: str
    mount_m: tuple[float, float, float]
    mount_yaw_rad: float


class ObjectSpec(Frozen):
    """One free body. ``size_m``: box half sizes; cylinder, capsule and prism: radius and half length along z."""

    name: str
    shape: Shape
    size_m: tuple[float, ...]
    mass_kg: float
    friction: tuple[float, float, float]
    rgba: tuple[float, float, float, float]

    @property
    def half_height_m(self) -> float:
        """From centre to support when it stands on its z axis."""
        if self.shape == "box":
            return self.size_m[2]
        return self.size_m[1] + (self.size_m[0] if self.shape == "capsule" else 0.0)


class AssetSpec(Frozen):
    """The articulated part. Its joint is 0 at one end and grows in the commanded direction.

    ``width_m``: of a door panel, else None. ``frictionloss``: N m or N. ``start``: joint value at reset.
    """

    kind: Literal["door", "drawer", "knob", "button"]
    width_m: float | None
    frictionloss: float
    start: float


class WorldSpec(Frozen):
    """All of it. ``friction_scale`` multiplies the sliding friction of every geom, the fingers' pads included."""

    support_height_m: float
    arm_model: str
    hand_model: str
    arms: tuple[ArmSpec, ...]
    objects: tuple[ObjectSpec, ...]
    asset: AssetSpec | None
    friction_scale: float
