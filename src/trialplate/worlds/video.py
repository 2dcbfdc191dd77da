"""Pictures for people: H.264 films and labelled filmstrips. Never evidence; drawn by re-simulating a recording."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Literal

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from trialplate.errors import UsageError

Frame = NDArray[np.uint8]  # (H, W, 3)

_PRESET = "veryfast"
_CONSTANT_RATE_FACTOR = "23"
_JPEG_QUALITY = 88
_GAP_PX = 3
_LABEL_SHARE = 0.1  # of the picture's height
_INK = (40, 44, 50)


def encode_mp4(frames: Iterable[Frame], *, fps: int) -> bytes:
    """Return frames (H, W, 3) with even H and W as an H.264 mp4 that plays ``fps`` of them a second.

    One thread, no clock in the file: the same frames give the same bytes. Raises :class:`UsageError` for no frames,
    odd sides, or a size that changes.
    """
    coming = iter(frames)
    first = next(coming, None)
    if first is None:
        raise UsageError("no frames to encode as video")
    height, width = _picture_size(first)
    if height % 2 or width % 2:
        raise UsageError(f"H.264 needs even sides, got {width}x{height} pixels")
    buffer = io.BytesIO()
    with av.open(buffer, mode="w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=fps)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.thread_count = 1
        stream.options = {"preset": _PRESET, "crf": _CONSTANT_RATE_FACTOR, "threads": "1"}
        for n, frame in enumerate(chain((first,), coming)):
            if _picture_size(frame) != (height, width):
                raise UsageError(f"frame {n} of the video has shape {frame.shape}, the first had {first.shape}")
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def filmstrip(
    frames: Sequence[Frame],
    *,
    labels: Sequence[str] | None = None,
    image_format: Literal["PNG", "JPEG"] = "JPEG",
) -> bytes:
    """Return frames (H, W, 3) of one size side by side as a picture file, each with its label beneath it."""
    if not frames:
        raise UsageError("no frames for a filmstrip")
    if labels is not None and len(labels) != len(frames):
        raise UsageError(f"a filmstrip of {len(frames)} frames got {len(labels)} labels")
    height, width = _picture_size(frames[0])
    foot_px = 0 if labels is None else max(12, round(_LABEL_SHARE * height))
    strip = np.full((height + foot_px, len(frames) * (width + _GAP_PX) - _GAP_PX, 3), 255, dtype=np.uint8)
    for n, frame in enumerate(frames):
        if _picture_size(frame) != (height, width):
            raise UsageError(f"frame {n} of the filmstrip has shape {frame.shape}, the first had {frames[0].shape}")
        left = n * (width + _GAP_PX)
        strip[:height, left : left + width] = frame
    picture = Image.fromarray(strip)
    if labels is not None:
        pen = ImageDraw.Draw(picture)
        font = ImageFont.load_default(size=0.8 * foot_px)
        for n, label in enumerate(labels):
            middle = n * (width + _GAP_PX) + width // 2
            pen.text((middle, height + foot_px // 2), label, fill=_INK, font=font, anchor="mm")
    return _file_bytes(picture, image_format=image_format)


def encode_image(frame: Frame, *, image_format: Literal["PNG", "JPEG"] = "PNG") -> bytes:
    """Return one picture (H, W, 3) as the bytes of a PNG or JPEG file."""
    _picture_size(frame)
    return _file_bytes(Image.fromarray(np.ascontiguousarray(frame)), image_format=image_format)


def _file_bytes(picture: Image.Image, *, image_format: Literal["PNG", "JPEG"]) -> bytes:
    buffer = io.BytesIO()
    if image_format == "JPEG":
        picture.save(buffer, format="JPEG", quality=_JPEG_QUALITY)
    else:
        picture.save(buffer, format="PNG")
    return buffer.getvalue()


def _picture_size(frame: Frame) -> tuple[int, int]:
    if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
        raise UsageError(f"expected a picture (H, W, 3) of uint8, got {frame.dtype} {frame.shape}")
    return int(frame.shape[0]), int(frame.shape[1])
