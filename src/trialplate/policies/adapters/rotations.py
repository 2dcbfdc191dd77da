"""Every representation of a rotation that a channel may declare, and the way from each to each.

Inside, a rotation is a quaternion wxyz *with its sign as it was given*: q and -q turn a body alike, but they are
two different rows of numbers, and ``axis_angle_2pi`` tells them apart. All functions take a leading batch shape.

Source: policy contract ``trialplate.policy/1``, sections 2 and 11.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

DIMS: Mapping[str, int] = {
    "quat_wxyz": 4,
    "quat_xyzw": 4,
    "axis_angle_pi": 3,
    "axis_angle_2pi": 3,
    "euler_xyz_intrinsic": 3,
    "euler_xyz_extrinsic": 3,
    "rot6d_columns": 6,
    "rot6d_interleaved": 6,
}
"""How many numbers each representation has."""

NORM_TOLERANCE = 1e-3
"""How far a quaternion's length may be from 1: four decimals and float32 pass, a forgotten normalisation does not."""
ANGLE_TOLERANCE_RAD = 1e-5
"""By how much an axis-angle may be longer than its declaration allows: rounding, not another convention."""
_TINY = 1e-12
_HUGE = 1e100
"""The square of a number below it is finite, and so is the length of a row."""
_GIMBAL = 1e-9


def convert(values: FloatArray, source: str, *, to: str) -> FloatArray:
    """Return rotations (..., DIMS[source]) in the representation ``to``, shape (..., DIMS[to]).

    Between the two quaternion orders numbers only change place. Raises ValueError when a row is no rotation under
    the declared representation: it is never repaired.
    """
    if source == to:
        return np.array(values, dtype=np.float64)
    if {source, to} == {"quat_wxyz", "quat_xyzw"}:
        return reorder_quaternion(values, source, to=to)
    if {source, to} == {"rot6d_columns", "rot6d_interleaved"}:
        return relayout_rot6d(values, source, to=to)
    return from_quaternion(to_quaternion(values, source), to)


def reorder_quaternion(values: FloatArray, source: str, *, to: str) -> FloatArray:
    """Return quaternions (..., 4) in the other order, nothing else changed. Raises ValueError for a wrong pair."""
    _pair(source, to, known=("quat_wxyz", "quat_xyzw"))
    return np.roll(_rows(values, 4), -1 if source == "quat_wxyz" else 1, axis=-1)


def relayout_rot6d(values: FloatArray, source: str, *, to: str) -> FloatArray:
    """Return the six numbers (..., 6) in the other layout, nothing else changed. Raises ValueError for a wrong pair.

    ``rot6d_columns`` is the first column of the matrix and then the second; ``rot6d_interleaved`` goes through
    the three rows and takes the first two numbers of each.
    """
    _pair(source, to, known=("rot6d_columns", "rot6d_interleaved"))
    six = _rows(values, 6)
    shape = (2, 3) if source == "rot6d_columns" else (3, 2)
    return np.ascontiguousarray(np.swapaxes(six.reshape(*six.shape[:-1], *shape), -1, -2)).reshape(six.shape)


def to_quaternion(values: FloatArray, source: str) -> FloatArray:
    """Return rotations as unit quaternions wxyz (..., 4). Raises ValueError for what is no rotation."""
    return _reader(source)(_rows(values, DIMS[source]))


def from_quaternion(wxyz: FloatArray, to: str) -> FloatArray:
    """Return unit quaternions wxyz (..., 4) in the representation ``to``."""
    _known(to)
    return _WRITERS[to](_unit(_rows(wxyz, 4))) + 0.0  # no negative zeros


def matrix(wxyz: FloatArray) -> FloatArray:
    """Return the rotation matrices (..., 3, 3) of unit quaternions (..., 4)."""
    w, x, y, z = np.moveaxis(wxyz, -1, 0)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quaternion_of_matrix(matrices: FloatArray) -> FloatArray:
    """Return the unit quaternions wxyz (..., 4), w >= 0, of rotation matrices (..., 3, 3)."""
    diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
    trace = diagonal.sum(axis=-1)
    choices = np.concatenate([trace[..., None], diagonal], axis=-1)
    best = np.argmax(choices, axis=-1)
    skew = np.stack(
        [
            matrices[..., 2, 1] - matrices[..., 1, 2],
            matrices[..., 0, 2] - matrices[..., 2, 0],
            matrices[..., 1, 0] - matrices[..., 0, 1],
        ],
        axis=-1,
    )
    both = matrices + np.swapaxes(matrices, -1, -2)
    candidates = [np.concatenate([(1 + trace)[..., None], skew], axis=-1)]
    for axis in range(3):
        vector = both[..., axis, :].copy()
        vector[..., axis] = 1 - trace + 2 * diagonal[..., axis]
        candidates.append(np.concatenate([skew[..., axis, None], vector], axis=-1))
    stacked = np.stack(candidates, axis=-2)
    found = np.take_along_axis(stacked, best[..., None, None], axis=-2)[..., 0, :]
    found = found / np.linalg.norm(found, axis=-1, keepdims=True)
    positive: FloatArray = np.where(found[..., :1] < 0, -found, found)
    return positive


def multiply(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the quaternion wxyz of turning by ``right`` and then by ``left`` about fixed axes, (..., 4)."""
    a, u = left[..., :1], left[..., 1:]
    b, v = right[..., :1], right[..., 1:]
    scalar = a * b - (u * v).sum(axis=-1, keepdims=True)
    return np.concatenate([scalar, a * v + b * u + np.cross(u, v)], axis=-1)


def angle_between_rad(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the angle in [0, pi] between rotations given as unit quaternions; q and -q are the same rotation."""
    between = multiply(left * np.array([1.0, -1.0, -1.0, -1.0]), right)
    angle: FloatArray = 2 * np.arctan2(np.linalg.norm(between[..., 1:], axis=-1), np.abs(between[..., 0]))
    return angle


def _from_wxyz(values: FloatArray) -> FloatArray:
    return _unit(values)


def _from_xyzw(values: FloatArray) -> FloatArray:
    return _unit(np.roll(values, 1, axis=-1))


def _from_axis_angle(values: FloatArray, *, limit_rad: float) -> FloatArray:
    angle = np.linalg.norm(values, axis=-1, keepdims=True)
    if (angle > limit_rad + ANGLE_TOLERANCE_RAD).any():
        raise ValueError(
            f"an axis-angle of at most {limit_rad:.5f} rad is declared, got {float(angle.max()):.5f} rad"
        )
    half = angle / 2
    return np.concatenate([np.cos(half), values * _sine_over(half) / 2], axis=-1)


def _from_euler(values: FloatArray, *, order: tuple[int, int, int]) -> FloatArray:
    """Multiply the turns about x, y, z from left to right in ``order``."""
    turns = []
    for axis in range(3):
        turn = np.zeros((*values.shape[:-1], 4))
        turn[..., 0], turn[..., axis + 1] = np.cos(values[..., axis] / 2), np.sin(values[..., axis] / 2)
        turns.append(turn)
    first, second, third = (turns[axis] for axis in order)
    return multiply(multiply(first, second), third)


def _from_columns(values: FloatArray) -> FloatArray:
    """Read two columns, made orthonormal in the usual order: the first keeps its direction."""
    first, second = values[..., :3], values[..., 3:]
    length = np.linalg.norm(first, axis=-1, keepdims=True)
    if (length < _TINY).any():
        raise ValueError("the first column of a rot6d is zero: no rotation can be read from it")
    x = first / length
    rest = second - (x * second).sum(axis=-1, keepdims=True) * x
    length = np.linalg.norm(rest, axis=-1, keepdims=True)
    if (length < _TINY).any():
        raise ValueError("the columns of a rot6d are parallel: no rotation can be read from them")
    y = rest / length
    return quaternion_of_matrix(np.stack([x, y, np.cross(x, y)], axis=-1))


def _from_interleaved(values: FloatArray) -> FloatArray:
    return _from_columns(relayout_rot6d(values, "rot6d_interleaved", to="rot6d_columns"))


def _to_axis_angle_2pi(wxyz: FloatArray) -> FloatArray:
    """Angle 2 arccos(w) in [0, 2 pi] about the vector part: the sign of the quaternion is kept."""
    vector = wxyz[..., 1:]
    length = np.linalg.norm(vector, axis=-1, keepdims=True)
    angle = 2 * np.arctan2(length, wxyz[..., :1])
    straight = np.where(length < _TINY, 1.0, length)
    return np.where(length < _TINY, 2.0, angle / straight) * vector


def _to_axis_angle_pi(wxyz: FloatArray) -> FloatArray:
    """Angle in [0, pi]: the quaternion of the pair whose w is not negative."""
    return _to_axis_angle_2pi(np.where(wxyz[..., :1] < 0, -wxyz, wxyz))


def _to_euler_intrinsic(wxyz: FloatArray) -> FloatArray:
    """Angles (a, b, c) of R = Rx(a) Ry(b) Rz(c); b in [-pi/2, pi/2], and c = 0 where the axes fall together."""
    r = matrix(wxyz)
    level = np.hypot(r[..., 0, 0], r[..., 0, 1])
    b = np.arctan2(r[..., 0, 2], level)
    locked = level < _GIMBAL
    a = np.where(locked, np.arctan2(r[..., 2, 1], r[..., 1, 1]), np.arctan2(-r[..., 1, 2], r[..., 2, 2]))
    c = np.where(locked, 0.0, np.arctan2(-r[..., 0, 1], r[..., 0, 0]))
    return np.stack([a, b, c], axis=-1)


def _to_euler_extrinsic(wxyz: FloatArray) -> FloatArray:
    """Angles (a, b, c) of R = Rz(c) Ry(b) Rx(a); b in [-pi/2, pi/2], and c = 0 where the axes fall together."""
    r = matrix(wxyz)
    level = np.hypot(r[..., 0, 0], r[..., 1, 0])
    b = np.arctan2(-r[..., 2, 0], level)
    locked = level < _GIMBAL
    a = np.where(locked, np.arctan2(-r[..., 1, 2], r[..., 1, 1]), np.arctan2(r[..., 2, 1], r[..., 2, 2]))
    c = np.where(locked, 0.0, np.arctan2(r[..., 1, 0], r[..., 0, 0]))
    return np.stack([a, b, c], axis=-1)


def _to_columns(wxyz: FloatArray) -> FloatArray:
    r = matrix(wxyz)
    return np.concatenate([r[..., :, 0], r[..., :, 1]], axis=-1)


def _to_interleaved(wxyz: FloatArray) -> FloatArray:
    return relayout_rot6d(_to_columns(wxyz), "rot6d_columns", to="rot6d_interleaved")


_READERS: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "quat_wxyz": _from_wxyz,
    "quat_xyzw": _from_xyzw,
    "axis_angle_pi": lambda values: _from_axis_angle(values, limit_rad=np.pi),
    "axis_angle_2pi": lambda values: _from_axis_angle(values, limit_rad=2 * np.pi),
    "euler_xyz_intrinsic": lambda values: _from_euler(values, order=(0, 1, 2)),
    "euler_xyz_extrinsic": lambda values: _from_euler(values, order=(2, 1, 0)),
    "rot6d_columns": _from_columns,
    "rot6d_interleaved": _from_interleaved,
}
_WRITERS: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "quat_wxyz": lambda wxyz: wxyz,
    "quat_xyzw": lambda wxyz: np.roll(wxyz, -1, axis=-1),
    "axis_angle_pi": _to_axis_angle_pi,
    "axis_angle_2pi": _to_axis_angle_2pi,
    "euler_xyz_intrinsic": _to_euler_intrinsic,
    "euler_xyz_extrinsic": _to_euler_extrinsic,
    "rot6d_columns": _to_columns,
    "rot6d_interleaved": _to_interleaved,
}


def _reader(source: str) -> Callable[[FloatArray], FloatArray]:
    _known(source)
    return _READERS[source]


def _known(name: str) -> None:
    if name not in DIMS:
        raise ValueError(f"unknown rotation {name!r}; known: {', '.join(DIMS)}")


def _pair(source: str, to: str, *, known: tuple[str, str]) -> None:
    if {source, to} != set(known):
        raise ValueError(f"expected {known[0]} to {known[1]} or back, got {source} to {to}")


def _rows(values: FloatArray, dim: int) -> FloatArray:
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim < 1 or rows.shape[-1] != dim:
        raise ValueError(f"expected {dim} numbers in the last axis, got shape {rows.shape}")
    if not (np.abs(rows) < _HUGE).all():  # NaN compares false
        raise ValueError(f"expected finite numbers below {_HUGE:g}, got {rows.tolist()}")
    return rows


def _unit(quaternions: FloatArray) -> FloatArray:
    length = np.linalg.norm(quaternions, axis=-1, keepdims=True)
    if (np.abs(length - 1) > NORM_TOLERANCE).any():
        worst = float(length.flat[int(np.argmax(np.abs(length - 1)))])
        raise ValueError(f"expected a unit quaternion, got one of length {worst:.6g}")
    unit: FloatArray = quaternions / length
    return unit


def _sine_over(half: FloatArray) -> FloatArray:
    """Return sin(half) / half, 1 at 0."""
    straight = np.where(half < _TINY, 1.0, half)
    return np.where(half < _TINY, 1.0, np.sin(straight) / straight)
