"""Small rotation formulas in plain Python, for the manifest and for verification, which load no simulator.

Quaternions are wxyz. Those that need only square roots are the same on every IEEE machine, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Vec3 = tuple[float, float, float]
Quat = tuple[float, float, float, float]


def unit(vector: Sequence[float]) -> Vec3:
    """Return ``vector`` (3,) at length 1."""
    length = _length(vector)
    return (vector[0] / length, vector[1] / length, vector[2] / length)


def unit_quat(quat: Sequence[float]) -> Quat:
    """Return ``quat`` (4,) wxyz at length 1."""
    length = _length(quat)
    return (quat[0] / length, quat[1] / length, quat[2] / length, quat[3] / length)


def _length(vector: Sequence[float]) -> float:
    total = 0.0
    for value in vector:
        total += value * value
    return math.sqrt(total)


def cross(a: Sequence[float], b: Sequence[float]) -> Vec3:
    """Return the cross product of two vectors (3,)."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def rotate(quat_wxyz: Sequence[float], vector: Sequence[float]) -> Vec3:
    """Return ``vector`` (3,) turned by a unit quaternion."""
    w, axis = quat_wxyz[0], quat_wxyz[1:]
    once = cross(axis, vector)
    inner = (once[0] + w * vector[0], once[1] + w * vector[1], once[2] + w * vector[2])
    twice = cross(axis, inner)
    return (vector[0] + 2.0 * twice[0], vector[1] + 2.0 * twice[1], vector[2] + 2.0 * twice[2])


def multiply(a: Sequence[float], b: Sequence[float]) -> Quat:
    """Return the quaternion that turns by ``b`` first, then by ``a``."""
    return (
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


def about_z(angle_rad: float) -> Quat:
    """Return a turn about the vertical."""
    return (math.cos(angle_rad / 2.0), 0.0, 0.0, math.sin(angle_rad / 2.0))


def from_axis_angle(axis: Sequence[float], angle_rad: float) -> Quat:
    """Return a turn by ``angle_rad`` about ``axis`` (3,)."""
    x, y, z = unit(axis)
    sine = math.sin(angle_rad / 2.0)
    return (math.cos(angle_rad / 2.0), x * sine, y * sine, z * sine)


def shining(direction: Sequence[float]) -> Quat:
    """Return the shortest turn that takes -z to ``direction``; square roots only. ``direction`` must not be +z."""
    x, y, z = unit(direction)
    return unit_quat((1.0 - z, y, -x, 0.0))


def looking(eye_m: Sequence[float], target_m: Sequence[float]) -> Quat:
    """Return the orientation of an upright camera at ``eye_m`` that looks along its -z at ``target_m``."""
    back = unit((eye_m[0] - target_m[0], eye_m[1] - target_m[1], eye_m[2] - target_m[2]))
    right = unit(cross((0.0, 0.0, 1.0), back))
    up = cross(back, right)
    return from_axes(right, up, z=back)


def from_axes(x: Sequence[float], y: Sequence[float], *, z: Sequence[float]) -> Quat:
    """Return the quaternion of the frame with these axes (3,) each; square roots only."""
    w2 = 1.0 + x[0] + y[1] + z[2]
    x2 = 1.0 + x[0] - y[1] - z[2]
    y2 = 1.0 - x[0] + y[1] - z[2]
    z2 = 1.0 - x[0] - y[1] + z[2]
    largest = max(w2, x2, y2, z2)
    if largest == w2:
        return unit_quat((w2, y[2] - z[1], z[0] - x[2], x[1] - y[0]))
    if largest == x2:
        return unit_quat((y[2] - z[1], x2, x[1] + y[0], z[0] + x[2]))
    if largest == y2:
        return unit_quat((z[0] - x[2], x[1] + y[0], y2, y[2] + z[1]))
    return unit_quat((x[1] - y[0], z[0] + x[2], y[2] + z[1], z2))
