"""Pictures turned, reordered and resized by integer arithmetic alone, so that every machine makes the same bytes.

Arrays are (height, width, 3) uint8 for ``hwc`` and (3, height, width) for ``chw``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]

RESIZE_METHODS = ("area", "bilinear", "nearest")
"""``area``: mean over the source area of each pixel. ``bilinear``: between the four nearest pixel centres, edges
repeated, without smoothing. ``nearest``: the pixel whose centre is nearest, the later one of two."""

_FLIPS: Mapping[str, tuple[bool, bool]] = {
    "upright": (False, False),
    "flip_v": (True, False),
    "flip_h": (False, True),
    "rot180": (True, True),
}


def reorient(picture: Picture, source: str, *, to: str, layout: str) -> Picture:
    """Return the picture as it stands under the orientation ``to``: rows upside down, columns mirrored, or both."""
    rows, columns = layout.index("h"), layout.index("w")
    flipped = [
        axis
        for axis, before, after in zip((rows, columns), _FLIPS[source], _FLIPS[to], strict=True)
        if before != after
    ]
    return np.ascontiguousarray(np.flip(picture, axis=tuple(flipped)))


def swap_colours(picture: Picture, *, layout: str) -> Picture:
    """Return the picture with its colour channels in the opposite order."""
    return np.ascontiguousarray(np.flip(picture, axis=layout.index("c")))


def relayout(picture: Picture, source: str, *, to: str) -> Picture:
    """Return the picture with its axes in another order."""
    return np.ascontiguousarray(np.transpose(picture, [source.index(axis) for axis in to]))


def resize(picture: Picture, *, height: int, width: int, method: str, layout: str) -> Picture:
    """Return the picture at another size, each value rounded half up. ``method``: one of ``RESIZE_METHODS``."""
    hwc = picture if layout == "hwc" else np.moveaxis(picture, 0, -1)
    vertical = _taps(hwc.shape[0], height, method)
    horizontal = _taps(hwc.shape[1], width, method)
    total = vertical.total * horizontal.total
    summed = _weigh(_weigh(hwc.astype(np.int64), vertical, axis=0), horizontal, axis=1)
    made = ((2 * summed + total) // (2 * total)).astype(np.uint8)
    return np.ascontiguousarray(made if layout == "hwc" else np.moveaxis(made, -1, 0))


@dataclass(frozen=True, slots=True)
class _Taps:
    """Which source lines make each line, and with which whole weights: (k, n) each; every line's sum is ``total``."""

    lines: NDArray[np.int64]
    weights: NDArray[np.int64]
    total: int


@lru_cache(maxsize=64)
def _taps(before: int, after: int, method: str) -> _Taps:
    target = np.arange(after, dtype=np.int64)
    if method == "nearest":
        lines = (2 * target + 1) * before // (2 * after)
        return _Taps(lines[None], np.ones((1, after), dtype=np.int64), 1)
    if method == "bilinear":
        position = (2 * target + 1) * before - after  # in units of 1 / (2 after)
        first = position // (2 * after)
        share = position - first * 2 * after
        lines = np.stack([np.maximum(first, 0), np.minimum(first + 1, before - 1)])
        return _Taps(lines, np.stack([2 * after - share, share]), 2 * after)
    start, stop = target * before, (target + 1) * before  # in units of 1 / after
    most = (before - 1) // after + 2
    lines = start // after + np.arange(most)[:, None]
    weights = np.maximum(np.minimum(stop, (lines + 1) * after) - np.maximum(start, lines * after), 0)
    return _Taps(np.minimum(lines, before - 1), weights, before)


def _weigh(values: NDArray[np.int64], taps: _Taps, *, axis: int) -> NDArray[np.int64]:
    shape = (-1, 1, 1) if axis == 0 else (1, -1, 1)
    parts = (
        np.take(values, lines, axis=axis) * weights.reshape(shape)
        for lines, weights in zip(taps.lines, taps.weights, strict=True)
    )
    first: NDArray[np.int64] = next(parts)
    for part in parts:
        first += part
    return first
