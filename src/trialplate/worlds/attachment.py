"""Kinematic grasp attachment: the same grasp for every arm and control, switched by contact of both pads.

A weld between the hand and one object waits inactive in the scene. It becomes active when the gripper is commanded
closed while both pads press on the object from opposite sides, and ends at the next open command. Source: fair
pick-and-place protocol, sections 1 and 5.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import mujoco
import numpy as np
from numpy.typing import NDArray

from trialplate.errors import HarnessFault

FloatArray = NDArray[np.float64]
GripperCommand = Literal["open", "close"]
AttachmentChange = Literal["attached", "released"]

_ANCHOR = slice(0, 3)  # point in the object's frame
_POSITION = slice(3, 6)  # the same point in the hand's frame
_ROTATION = slice(6, 10)  # object's orientation in the hand's frame, wxyz
_HELD_FIELDS = 10  # torque scale and what follows keep their compiled values


@dataclass(frozen=True, slots=True)
class AttachmentSettings:
    """When a grasp counts, and how stiff the weld is; part of the suite's digest."""

    pad_tolerance_m: float = 0.001  # largest gap between a pad and the object
    closing_alignment: float = 0.9  # least |cos| between contact normal and the fingers' closing axis
    weld_solref: tuple[float, float] = (0.004, 1.0)
    weld_solimp: tuple[float, float, float] = (0.99, 0.999, 0.0005)
    torque_scale_m: float = 1.0

    def document(self) -> dict[str, Any]:
        """Return the settings as a plain JSON object for a digest."""
        return asdict(self)


def add_attachment(
    spec: mujoco.MjSpec,
    *,
    name: str,
    hand_body: str,
    object_body: str,
    settings: AttachmentSettings | None = None,
) -> None:
    """Add the inactive weld to a scene before it is compiled."""
    chosen = settings if settings is not None else AttachmentSettings()
    weld = spec.add_equality(
        name=name,
        type=mujoco.mjtEq.mjEQ_WELD,
        objtype=mujoco.mjtObj.mjOBJ_BODY,
        name1=hand_body,
        name2=object_body,
        active=False,
        solref=list(chosen.weld_solref),
        solimp=[*chosen.weld_solimp, 0.5, 2.0],
    )
    data = np.array(weld.data)
    data[:_HELD_FIELDS] = 0.0
    data[_ROTATION.start] = 1.0
    data[10] = chosen.torque_scale_m
    weld.data = data


class GraspAttachment:
    """The attachment of one compiled scene. Holds no state of its own: whether it is active is in ``data``."""

    def __init__(
        self,
        model: mujoco.MjModel,
        *,
        name: str,
        pads: tuple[str, str],
        settings: AttachmentSettings | None = None,
    ) -> None:
        self.settings = settings if settings is not None else AttachmentSettings()
        self.name = name
        self._weld = _equality_id(model, name)
        self._hand = int(model.eq_obj1id[self._weld])
        self._object = int(model.eq_obj2id[self._weld])
        first = int(model.body_geomadr[self._object])
        self._object_geoms = range(first, first + int(model.body_geomnum[self._object]))
        self._pads = tuple(int(model.geom(pad).id) for pad in pads)
        if len(self._object_geoms) == 0:
            raise HarnessFault(
                f"attachment {name!r}: body {model.body(self._object).name!r} has no geom to grasp",
                code="reset_failed",
            )

    def is_active(self, data: mujoco.MjData) -> bool:
        """Return whether the object is attached now."""
        return bool(data.eq_active[self._weld])

    def update(
        self, model: mujoco.MjModel, data: mujoco.MjData, *, command: GripperCommand
    ) -> AttachmentChange | None:
        """Switch the weld if this instant asks for it, and say what changed.

        Needs positions up to date (``World.step`` calls it through ``after_interface_step``). The weld takes the
        relative pose of this very instant: with any other the object would jump.
        """
        if self.is_active(data):
            if command == "close":
                return None
            data.eq_active[self._weld] = 0
            return "released"
        if command == "open" or not self.pads_hold(data):
            return None
        model.eq_data[self._weld, :_HELD_FIELDS] = self._present_pose(data)
        data.eq_active[self._weld] = 1
        return "attached"

    def pads_hold(self, data: mujoco.MjData) -> bool:
        """Return whether each pad touches the object along the closing axis: squeezing it, not resting on it."""
        if data.ncon == 0:
            return False
        axis = data.xmat[self._hand].reshape(3, 3)[:, 1]
        contacts = data.contact
        geoms = contacts.geom
        near = contacts.dist <= self.settings.pad_tolerance_m
        aligned = np.abs(contacts.frame[:, :3] @ axis) >= self.settings.closing_alignment
        first, last = self._object_geoms.start, self._object_geoms.stop
        on_object = ((geoms >= first) & (geoms < last)).any(axis=1)
        pressing = geoms[near & aligned & on_object]
        return all(bool((pressing == pad).any()) for pad in self._pads)

    def _present_pose(self, data: mujoco.MjData) -> FloatArray:
        """Return anchor, position and rotation of the object in the hand's frame, in the weld's own layout (10,)."""
        pose = np.zeros(_HELD_FIELDS)
        inverse_position, inverse_wxyz = np.empty(3), np.empty(4)
        mujoco.mju_negPose(inverse_position, inverse_wxyz, data.xpos[self._hand], data.xquat[self._hand])
        position, wxyz = np.empty(3), np.empty(4)
        mujoco.mju_mulPose(
            position,
            wxyz,
            inverse_position,
            inverse_wxyz,
            data.xpos[self._object],
            data.xquat[self._object],
        )
        pose[_POSITION] = position
        pose[_ROTATION] = wxyz
        return pose


def _equality_id(model: mujoco.MjModel, name: str) -> int:
    index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_EQUALITY, name)
    if index < 0 or model.eq_type[index] != mujoco.mjtEq.mjEQ_WELD:
        raise HarnessFault(
            f"the scene has no weld named {name!r}; call add_attachment before compiling it", code="reset_failed"
        )
    return int(index)
