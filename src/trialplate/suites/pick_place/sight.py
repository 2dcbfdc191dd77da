"""Seeing with two pinhole cameras: find a colour in a picture, and follow its ray down to the table.

Pure numpy on pictures (H, W, 3) uint8; a camera looks along its -z with +y up, pixel (0, 0) is the top left one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trialplate.suites.pick_place.geometry import Quat, Vec3, multiply, rotate

Colour = Literal["red", "green"]
Picture = NDArray[np.uint8]
Mask = NDArray[np.bool_]

_HUE_DEG = {"red": (-24.0, 24.0), "green": (95.0, 165.0)}
_SATURATIONS = (0.60, 0.45, 0.36)
"""Tried from clear to pale: a see-through block is pale, and so is a table under a tinted lamp."""
_DARKEST = 7  # below, a hue is quantisation noise
_FEWEST_PX = 5
_MOST_SHARE = 0.06  # of the picture; more is no block and no target
_SPREAD_PX = 45.0


@dataclass(frozen=True, slots=True)
class Eye:
    """Where a camera is in the world, and its vertical field of view."""

    pos_m: Vec3
    quat_wxyz: Quat
    fovy_deg: float


@dataclass(frozen=True, slots=True)
class Blob:
    """One patch of a colour: its centre and its width and height in pixels, and whether the border cuts it."""

    column_px: float
    row_px: float
    width_px: float
    height_px: float
    pixels: int
    cut: bool


def carried_eye(hand_m: Sequence[float], hand_wxyz: Sequence[float], *, mount: Eye) -> Eye:
    """Return the eye that is fixed to a hand at ``hand_m`` (3,), ``hand_wxyz`` (4,); ``mount`` is in its frame."""
    arm = rotate(hand_wxyz, mount.pos_m)
    pos_m = (hand_m[0] + arm[0], hand_m[1] + arm[1], hand_m[2] + arm[2])
    return Eye(pos_m, multiply(hand_wxyz, mount.quat_wxyz), mount.fovy_deg)


def find(picture: Picture, colour: Colour) -> Blob | None:
    """Return the patch of a colour, or None when nothing in the picture can be it."""
    hue_deg, saturation, value = _hsv(picture)
    low, high = _HUE_DEG[colour]
    coloured = (hue_deg >= low) & (hue_deg <= high) & (value >= _DARKEST)
    for least in _SATURATIONS:
        mask = coloured & (saturation >= least)
        count = int(mask.sum())
        if _FEWEST_PX <= count <= _MOST_SHARE * mask.size:
            return _blob(mask)
    return None


def focal_px(eye: Eye, height_px: int) -> float:
    """Return the focal length in pixels of a picture ``height_px`` high."""
    return 0.5 * height_px / math.tan(math.radians(eye.fovy_deg) / 2.0)


def on_plane(eye: Eye, pixel: tuple[float, float], *, size_px: tuple[int, int], height_m: float) -> Vec3 | None:
    """Return where the ray of ``pixel`` (column, row) meets the plane z = ``height_m``; None when it does not.

    ``size_px`` is the picture's (height, width).
    """
    focal = focal_px(eye, size_px[0])
    across = (pixel[0] + 0.5 - size_px[1] / 2.0) / focal
    down = (pixel[1] + 0.5 - size_px[0] / 2.0) / focal
    ray = rotate(eye.quat_wxyz, (across, -down, -1.0))
    if ray[2] >= -1e-6:
        return None
    reach = (height_m - eye.pos_m[2]) / ray[2]
    if reach <= 0.0:
        return None
    return (eye.pos_m[0] + reach * ray[0], eye.pos_m[1] + reach * ray[1], height_m)


def _hsv(picture: Picture) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int32]]:
    """Return hue (deg, red is 0, in [-60, 300)), saturation and value of each pixel."""
    red, green, blue = (picture[..., channel].astype(np.int32) for channel in range(3))
    value = np.maximum(np.maximum(red, green), blue)
    chroma = value - np.minimum(np.minimum(red, green), blue)
    safe = np.maximum(chroma, 1)
    hue = np.where(
        value == red,
        (green - blue) / safe,
        np.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    return hue * 60.0, chroma / np.maximum(value, 1), value


def _blob(mask: Mask) -> Blob:
    rows, columns = np.nonzero(mask)
    near = np.hypot(rows - np.median(rows), columns - np.median(columns)) <= _SPREAD_PX
    rows, columns = rows[near], columns[near]
    top, bottom, left, right = rows.min(), rows.max(), columns.min(), columns.max()
    cut = top == 0 or left == 0 or bottom == mask.shape[0] - 1 or right == mask.shape[1] - 1
    return Blob(
        column_px=float(columns.mean()),
        row_px=float(rows.mean()),
        width_px=float(right - left + 1),
        height_px=float(bottom - top + 1),
        pixels=len(rows),
        cut=bool(cut),
    )
