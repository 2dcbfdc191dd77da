"""Is what the world sent a picture, and are its numbers numbers? Asked of every suite, whatever its world checks."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import SensorInvalid

Frame = NDArray[np.uint8]


def check_frames(images: Mapping[str, Frame], step: int) -> None:
    """Raise SensorInvalid (``observation_unhealthy``) for a camera of one colour, or two that sent the same bytes.

    ``images``: name -> (H, W, C) or (C, H, W) uint8, as captured at one control step. A still picture is no fault: a
    world at rest looks the same. Source: policy contract, section 6.
    """
    for name, frame in images.items():
        if _one_colour(frame):
            raise SensorInvalid(
                f"step {step}: camera {name!r} sent one colour in every pixel; look at its light, lens and cable"
            )
    for first, second in combinations(images, 2):
        if _same(images[first], images[second]):
            raise SensorInvalid(f"step {step}: cameras {first!r} and {second!r} sent the same picture, byte by byte")


def check_numbers(proprio: Mapping[str, NDArray[np.float64]], step: int) -> None:
    """Raise SensorInvalid for a reading that is not finite: a policy that answers with one would be charged for it.

    ``proprio``: name -> (dim,), as read at one control step.
    """
    for name, values in proprio.items():
        if not np.isfinite(values).all():
            raise SensorInvalid(f"step {step}: channel {name!r} is not finite: {np.asarray(values).tolist()}")


def _one_colour(frame: Frame) -> bool:
    """Whether every pixel has the colour of its neighbour; shifted views compare faster than one pixel with all."""
    last = _channels_last(frame)
    if not _repeats(_sample(frame).tobytes(), channels=frame.shape[-1 if last else 0], last=last):
        return False  # a few pixels tell almost every picture apart from a blank one
    planes = frame.reshape(1, -1) if last else frame.reshape(frame.shape[0], -1)
    stride = frame.shape[-1] if last else 1
    return bool(np.array_equal(planes[:, stride:], planes[:, :-stride]))


def _repeats(few: bytes, *, channels: int, last: bool) -> bool:
    """Whether a few pixels have one colour; bytes compare faster than arrays of this size."""
    if last:
        return few == few[:channels] * (len(few) // channels)
    size = len(few) // channels
    return all(few[at : at + size] == few[at : at + 1] * size for at in range(0, len(few), size))


def _same(first: Frame, second: Frame) -> bool:
    if first.shape != second.shape or _sample(first).tobytes() != _sample(second).tobytes():
        return False
    return bool(np.array_equal(first, second))


def _sample(frame: Frame) -> Frame:
    """Return every 32nd pixel of every 32nd row, all channels."""
    return frame[::32, ::32] if _channels_last(frame) else frame[:, ::32, ::32]


def _channels_last(frame: Frame) -> bool:
    return bool(frame.shape[-1] <= 4)
