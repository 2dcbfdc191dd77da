"""Errors between poses and turns about an axis. Quaternions are wxyz, angles rad."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def multiply(a: Floats, b: Floats) -> Floats:
    """Return the product of unit quaternions (..., 4)."""
    aw, ax, ay, az = np.moveaxis(a, -1, 0)
    bw, bx, by, bz = np.moveaxis(b, -1, 0)
    parts = (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )
    return np.stack(parts, axis=-1)


def conjugate(q: Floats) -> Floats:
    """Return the inverse of unit quaternions (..., 4)."""
    return np.asarray(q * np.array([1.0, -1.0, -1.0, -1.0]))


def rotate(q: Floats, v: Floats) -> Floats:
    """Return a vector (3,) turned by a unit quaternion (4,)."""
    pure = np.concatenate(([0.0], v))
    return multiply(multiply(q, pure), conjugate(q))[1:]


def angle_between(a: Floats, b: Floats) -> float:
    """Return the angle of the rotation from one unit quaternion (4,) to the other, in [0, pi]."""
    relative = multiply(conjugate(a), b)
    return float(2.0 * np.arctan2(np.linalg.norm(relative[1:]), abs(relative[0])))


def pose_error(a: Floats, b: Floats) -> tuple[float, float]:
    """Return the distance in m and the angle in rad between two poses (7,)."""
    return float(np.linalg.norm(a[:3] - b[:3])), angle_between(a[3:], b[3:])


def relative_pose(base: Floats, pose: Floats) -> Floats:
    """Return a pose (7,) as seen from the frame of another (7,)."""
    back = conjugate(base[3:])
    return np.concatenate((rotate(back, pose[:3] - base[:3]), multiply(back, pose[3:])))


def vector_angle(a: Floats, b: Floats) -> float:
    """Return the angle between two vectors (3,) that are not zero, in [0, pi]."""
    return float(np.arctan2(np.linalg.norm(np.cross(a, b)), np.dot(a, b)))


def turned_about(axis: Floats, turns: Floats) -> Floats:
    """Return how far unit quaternions (n, 4) turn about a unit axis (3,), followed from one to the next, from 0.

    The first of them is taken for the beginning: it should be no turn at all.
    """
    angles = 2.0 * np.arctan2(turns[:, 1:] @ axis, turns[:, 0])
    return np.asarray(np.unwrap(np.arctan2(np.sin(angles), np.cos(angles))))
