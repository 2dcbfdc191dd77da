"""Pictures for people: H.264 files and filmstrips. Never evidence; made from recorded or re-simulated frames."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Literal

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trialplate.errors import UsageError

Frame = NDArray[np.uint8]  # (H, W, 3)


def encode_video(frames: Iterable[Frame], path: Path, *, rate_hz: Fraction | int, quality_crf: int = 23) -> int:
    """Write frames (H, W, 3) with even H and W as an H.264 mp4 and return how many there were.

    One thread and no clock in the file: the same frames give the same bytes. Raises :class:`UsageError` for no
    frames, odd sizes, or a size that changes.
    """
    stream_frames = iter(frames)
    first = next(stream_frames, None)
    if first is None:
        raise UsageError(f"{path}: no frames to encode")
    height, width = _picture_size(first)
    if height % 2 or width % 2:
        raise UsageError(f"{path}: H.264 needs even sides, got {width}x{height} pixels")
    count = 0
    with av.open(str(path), mode="w", format="mp4", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=Fraction(rate_hz))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.thread_count = 1
        stream.options = {"preset": "veryfast", "crf": str(quality_crf), "threads": "1"}
        for frame in chain((first,), stream_frames):
            if _picture_size(frame) != (height, width):
                raise UsageError(f"{path}: frame {count} has shape {frame.shape}, the first had {first.shape}")
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            count += 1
        container.mux(stream.encode(None))
    return count


def filmstrip(
    frames: Sequence[Frame],
    *,
    columns: int = 6,
    gap_px: int = 4,
    image_format: Literal["PNG", "JPEG"] = "JPEG",
) -> bytes:
    """Return up to ``columns`` evenly spaced frames, first and last among them, side by side as one picture file."""
    if not frames:
        raise UsageError("no frames for a filmstrip")
    picked = sorted({round(n) for n in np.linspace(0, len(frames) - 1, num=min(columns, len(frames)))})
    height, width = _picture_size(frames[0])
    strip = np.full((height, len(picked) * (width + gap_px) - gap_px, 3), 255, dtype=np.uint8)
    for slot, n in enumerate(picked):
        left = slot * (width + gap_px)
        strip[:, left : left + width] = frames[n]
    return encode_image(strip, image_format=image_format)


def encode_image(frame: Frame, *, image_format: Literal["PNG", "JPEG"] = "PNG") -> bytes:
    """Return one picture (H, W, 3) as the bytes of a PNG or JPEG file."""
    _picture_size(frame)
    buffer = io.BytesIO()
    options = {"quality": 88} if image_format == "JPEG" else {"compress_level": 6}
    Image.fromarray(np.ascontiguousarray(frame)).save(buffer, format=image_format, **options)
    return buffer.getvalue()


def _picture_size(frame: Frame) -> tuple[int, int]:
    if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
        raise UsageError(f"expected a picture (H, W, 3) of uint8, got {frame.dtype} {frame.shape}")
    return int(frame.shape[0]), int(frame.shape[1])
