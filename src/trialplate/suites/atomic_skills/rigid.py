"""Rigid transforms in numpy: poses (7,) as position in m and unit quaternion wxyz, rotations as (3, 3) matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def matrix(quat_wxyz: ArrayLike) -> FloatArray:
    """Return the rotation matrix (3, 3) of a unit quaternion (4,)."""
    w, x, y, z = np.asarray(quat_wxyz, dtype=np.float64)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion(rotation: FloatArray) -> FloatArray:
    """Return the unit quaternion (4,) wxyz with w >= 0 of a rotation matrix (3, 3)."""
    trace = np.array(
        [
            1 + rotation[0, 0] + rotation[1, 1] + rotation[2, 2],
            1 + rotation[0, 0] - rotation[1, 1] - rotation[2, 2],
            1 - rotation[0, 0] + rotation[1, 1] - rotation[2, 2],
            1 - rotation[0, 0] - rotation[1, 1] + rotation[2, 2],
        ]
    )
    skew = (rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1])
    sums = (rotation[1, 0] + rotation[0, 1], rotation[0, 2] + rotation[2, 0], rotation[2, 1] + rotation[1, 2])
    rows = (
        (trace[0], skew[0], skew[1], skew[2]),
        (skew[0], trace[1], sums[0], sums[1]),
        (skew[1], sums[0], trace[2], sums[2]),
        (skew[2], sums[1], sums[2], trace[3]),
    )
    quat = np.array(rows[int(np.argmax(trace))])
    quat = quat / np.sqrt(quat @ quat)
    signed: FloatArray = quat if quat[0] >= 0.0 else -quat
    return signed


def turn(axis: ArrayLike, angle_rad: float) -> FloatArray:
    """Return the rotation (3, 3) by ``angle_rad`` about ``axis`` (3,)."""
    x, y, z = np.asarray(axis, dtype=np.float64) / np.linalg.norm(axis)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    turned: FloatArray = np.eye(3) + math.sin(angle_rad) * cross + (1.0 - math.cos(angle_rad)) * (cross @ cross)
    return turned


def about_z(angle_rad: float) -> FloatArray:
    """Return the rotation (3, 3) about the vertical."""
    return turn((0.0, 0.0, 1.0), angle_rad)


def rotation_vector(rotation: FloatArray) -> FloatArray:
    """Return axis times angle (3,) of a rotation matrix, angle in [0, pi]."""
    w, *xyz = quaternion(rotation)
    vector = np.array(xyz)
    sine = float(np.linalg.norm(vector))
    if sine < 1e-12:
        return 2.0 * vector
    return vector * (2.0 * math.atan2(sine, float(w)) / sine)


def pose(position_m: ArrayLike, rotation: FloatArray) -> list[float]:
    """Return the plain pose (7,) of a position and a rotation matrix."""
    return [float(value) for value in (*np.asarray(position_m, dtype=np.float64), *quaternion(rotation))]


def transform(pose7: Sequence[float] | FloatArray) -> FloatArray:
    """Return the homogeneous transform (4, 4) of a pose (7,)."""
    made = np.eye(4)
    made[:3, :3] = matrix(pose7[3:])
    made[:3, 3] = pose7[:3]
    return made


def from_transform(transform44: FloatArray) -> list[float]:
    """Return the plain pose (7,) of a homogeneous transform."""
    return pose(transform44[:3, 3], transform44[:3, :3])


def inverse(transform44: FloatArray) -> FloatArray:
    """Return the inverse of a rigid transform (4, 4)."""
    made = np.eye(4)
    made[:3, :3] = transform44[:3, :3].T
    made[:3, 3] = -transform44[:3, :3].T @ transform44[:3, 3]
    return made


def look_at(eye_m: ArrayLike, target_m: ArrayLike) -> list[float]:
    """Return the orientation wxyz of an upright camera that looks along its -z at a target."""
    back = np.asarray(eye_m, dtype=np.float64) - np.asarray(target_m, dtype=np.float64)
    back = back / np.linalg.norm(back)
    right = np.cross((0.0, 0.0, 1.0), back)
    right = right / np.linalg.norm(right)
    return [float(value) for value in quaternion(np.column_stack([right, np.cross(back, right), back]))]
