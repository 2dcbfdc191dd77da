"""What goes through the pipe between a run and a planner's process: a JSON header, and a plan's numbers behind it.

Neither side ever unpickles anything.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

MAX_HEADER_BYTES = 2**20
MAX_DATA_BYTES = 20_000 * 64 * 8
"""No plan has more: at most 20,000 waypoints, and no case has 64 columns."""
_LENGTHS = struct.Struct("<II")


class MalformedFrame(ValueError):
    """What came through the pipe is no frame. The message says why."""


def packed(header: Mapping[str, Any], data: bytes = b"") -> bytes:
    """Return the bytes of a frame. Raises ValueError for a header that is too long or no JSON."""
    text = json.dumps(header, allow_nan=False).encode()
    if len(text) > MAX_HEADER_BYTES:
        raise ValueError(f"{len(text)} bytes of header, expected at most {MAX_HEADER_BYTES}")
    return _LENGTHS.pack(len(text), len(data)) + text + data


def read_frame(read: Callable[[int], bytes]) -> tuple[dict[str, Any], bytes]:
    """Read one frame. ``read(n)`` returns exactly n bytes or raises. Raises MalformedFrame."""
    header_bytes, data_bytes = _LENGTHS.unpack(read(_LENGTHS.size))
    if header_bytes > MAX_HEADER_BYTES or data_bytes > MAX_DATA_BYTES:
        raise MalformedFrame(f"it announces {header_bytes} and {data_bytes} bytes")
    text = read(header_bytes)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedFrame(f"its header is no JSON: {str(error)[:100]}") from None
    if not isinstance(header, dict):
        raise MalformedFrame("its header is no object")
    return header, read(data_bytes)
