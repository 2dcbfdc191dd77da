"""The pictures of ``toy-reach``, drawn by additions and divisions alone: never blank, never alike."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from trialplate.testing.reach_channels import SIZE_PX

Picture = NDArray[np.uint8]
Vector = NDArray[np.float64]
_ROWS, _COLUMNS = np.mgrid[0:SIZE_PX, 0:SIZE_PX].astype(np.float64)
_FLOOR = np.stack([20 + _COLUMNS * 0.5, 20 + _ROWS * 0.5, 60 - _ROWS * 0.25], axis=-1)
_WALL = np.stack([50 - _ROWS * 0.5, 30 + _COLUMNS * 0.25, 20 + _COLUMNS * 0.5], axis=-1)
_PX_PER_M = 80.0
_GREEN, _WHITE, _ORANGE = (20.0, 90.0, 30.0), (40.0, 40.0, 40.0), (50.0, 30.0, 0.0)


def front(position_m: Vector, quat_wxyz: Vector, *, opening: float, goal_m: Vector) -> Picture:
    """Draw goal (green), hand (white, redder when closed) and where it points (orange), seen from the front."""
    hand = (70.0 + 50.0 * (1.0 - opening), 70.0, 70.0 + 50.0 * opening)
    tip_m = position_m + 0.1 * _axes(quat_wxyz)[:, 0]
    drawn = _FLOOR + _spot(_front_px(goal_m), _GREEN) + _spot(_front_px(position_m), hand)
    return _bytes(drawn + _spot(_front_px(tip_m), _ORANGE))


def wrist(position_m: Vector, quat_wxyz: Vector, *, opening: float, goal_m: Vector) -> Picture:
    """Draw the goal as the hand sees it, between two fingers whose distance is the opening."""
    ahead_m = _axes(quat_wxyz).T @ (goal_m - position_m)
    drawn = _WALL + _spot((32.0 - _PX_PER_M * ahead_m[2], 32.0 + _PX_PER_M * ahead_m[1]), _GREEN)
    drawn += _spot((32.0 - _PX_PER_M * ahead_m[0], 8.0), _ORANGE)
    for side in (-1.0, 1.0):
        drawn += _spot((58.0, 32.0 + side * (4.0 + 16.0 * opening)), _WHITE)
    return _bytes(drawn)


def card(corners: Mapping[str, tuple[int, int, int]]) -> Picture:
    """Fill the view with four coloured quarters."""
    half = SIZE_PX // 2
    picture = np.empty((SIZE_PX, SIZE_PX, 3), dtype=np.uint8)
    picture[:half, :half], picture[:half, half:] = corners["top_left"], corners["top_right"]
    picture[half:, :half], picture[half:, half:] = corners["bottom_left"], corners["bottom_right"]
    return picture


def _front_px(point_m: Vector) -> tuple[float, float]:
    """Row and column: up is up, the hand's left is left; what is nearer stands a little lower."""
    return 56.0 - _PX_PER_M * point_m[2] + 8.0 * point_m[0], 32.0 - 0.75 * _PX_PER_M * point_m[1]


def _spot(centre_px: tuple[float, float], colour: tuple[float, float, float]) -> Vector:
    squared = (_ROWS - centre_px[0]) ** 2 + (_COLUMNS - centre_px[1]) ** 2
    spot: Vector = (6.0 / (6.0 + squared))[..., None] * np.array(colour)
    return spot


def _bytes(drawn: Vector) -> Picture:
    return np.floor(drawn + 0.5).astype(np.uint8)


def _axes(quat_wxyz: Vector) -> Vector:
    """Return the rotation matrix of a unit quaternion."""
    w, x, y, z = quat_wxyz
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
