"""Put a world into a state that is known from elsewhere, so that what it sends can be held against what it declares.

A hand is turned by its joints alone, without time, contact or control; a card is drawn before a camera and nothing of
the model is changed. What is used here is read from MuJoCo directly and never through the channels that are probed.
Source: policy contract, section 9 (``probe env``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Corners = Mapping[str, tuple[int, int, int]]

REACHED_RAD = 1e-6
_STARTS = 64
_ITERATIONS = 120
_STEP_RAD = 0.3
_DAMPING = 1e-4
_PATCH = 0.45
"""How far a colour reaches from its corner along both edges. A cross stays open: no two cameras see one picture."""
_SIDES: Mapping[str, tuple[float, float]] = {
    "top_left": (-1.0, 1.0),
    "top_right": (1.0, 1.0),
    "bottom_left": (-1.0, -1.0),
    "bottom_right": (1.0, -1.0),
}  # right and up, as somebody behind the camera sees them


def turn_body(
    model: mujoco.MjModel, data: mujoco.MjData, *, joints: Sequence[str], body: str, wxyz: Sequence[float]
) -> bool:
    """Set hinge joints so that a body has a world-frame orientation, a unit quaternion; its position is free.

    Returns False, with the joints somewhere, when no start within the joints' ranges leads there.
    """
    addresses = np.array([model.joint(name).qposadr[0] for name in joints])
    dofs = np.array([model.joint(name).dofadr[0] for name in joints])
    lower, upper = np.array([model.joint(name).range for name in joints]).T
    body_id = int(model.body(body).id)
    wanted = np.empty(9)
    mujoco.mju_quat2Mat(wanted, np.asarray(wxyz, dtype=np.float64))
    draws = np.random.Generator(np.random.PCG64(0)).uniform(lower, upper, (_STARTS, len(addresses)))
    for start in (data.qpos[addresses].copy(), *draws):
        data.qpos[addresses] = start
        if _turned(model, data, body_id, wanted.reshape(3, 3), addresses=addresses, dofs=dofs, limits=(lower, upper)):
            mujoco.mj_camlight(model, data)
            return True
    return False


def _turned(
    model: mujoco.MjModel, data: mujoco.MjData, body_id: int, wanted: FloatArray, *,
    addresses: NDArray[np.intp], dofs: NDArray[np.intp], limits: tuple[FloatArray, FloatArray],
) -> bool:  # fmt: skip
    """Iterate damped least squares on the orientation alone; return whether it got there."""
    jacobian = np.empty((3, model.nv))
    for _ in range(_ITERATIONS):
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        error_rad = _turn_left(wanted @ data.xmat[body_id].reshape(3, 3).T)
        size_rad = float(np.linalg.norm(error_rad))
        if size_rad <= REACHED_RAD:
            return True
        mujoco.mj_jacBody(model, data, None, jacobian, body_id)
        arm = jacobian[:, dofs]
        step = arm.T @ np.linalg.solve(arm @ arm.T + _DAMPING * size_rad * np.eye(3), error_rad)
        step *= min(1.0, _STEP_RAD / float(np.abs(step).max()))
        data.qpos[addresses] = np.minimum(np.maximum(data.qpos[addresses] + step, limits[0]), limits[1])
    return False


def _turn_left(matrix: FloatArray) -> FloatArray:
    """Return the rotation vector (3,) of a rotation matrix."""
    quaternion, vector = np.empty(4), np.empty(3)
    mujoco.mju_mat2Quat(quaternion, matrix.ravel())
    mujoco.mju_quat2Vel(vector, quaternion, 1.0)
    return vector


def add_card(
    scene: mujoco.MjvScene,
    model: mujoco.MjModel,
    data: mujoco.MjData,
    *,
    camera_id: int,
    corners: Corners,
    aspect: float,
) -> None:
    """Add a card in four glowing colours to a scene, close before one camera. ``aspect``: width over height."""
    away_m = 2.0 * model.vis.map.znear * model.stat.extent
    half_height_m = away_m * math.tan(math.radians(float(model.cam_fovy[camera_id])) / 2)
    half_width_m = half_height_m * aspect
    turn = data.cam_xmat[camera_id].reshape(3, 3)
    size = np.array([_PATCH * half_width_m, _PATCH * half_height_m, 0.01 * away_m])
    for name, (right, up) in _SIDES.items():
        place = np.array([right * (1.0 - _PATCH) * half_width_m, up * (1.0 - _PATCH) * half_height_m, -away_m])
        rgba = np.array([*corners[name], 255], dtype=np.float32) / 255
        geom = scene.geoms[scene.ngeom]
        mujoco.mjv_initGeom(
            geom, mujoco.mjtGeom.mjGEOM_BOX, size, data.cam_xpos[camera_id] + turn @ place, turn.ravel(), rgba
        )
        geom.emission, geom.specular, geom.shininess, geom.reflectance = 1.0, 0.0, 0.0, 0.0
        scene.ngeom += 1
