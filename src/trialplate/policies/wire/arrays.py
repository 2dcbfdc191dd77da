"""What an array may be on a wire, checked before anything is allocated.

Source: policy contract, section 4.3.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import ContractFault

MAX_DEPTH = 16
MAX_KEYS = 4096
MAX_RANK = 8
MAX_ITEMS = 2**20
"""Items in all containers of one message together: what bounds the memory of nested lists."""

DTYPES = {name: np.dtype(name) for name in ("|b1", "|u1", "<u2", "<i2", "<i4", "<i8", "<f4", "<f8")}
"""Every dtype that crosses a wire. Object, void, text and complex never do."""

_MOST_NUMBERS = 2**40

FORM_KEYS = ("__ndarray__", "dtype", "shape", "data")


class PngPicture:
    """A picture uint8 that the JSON writer sends as PNG; the binary dialects send ``pixels`` raw, as they are.

    A PNG holds (H, W, 3) or (H, W): of a ``chw`` picture the axes are exchanged for it. No dataclass: the msgpack
    writer would take one for a map.
    """

    __slots__ = ("layout", "pixels")

    def __init__(self, pixels: NDArray[np.uint8], *, layout: Literal["hwc", "chw"] = "hwc") -> None:
        self.pixels, self.layout = pixels, layout


def malformed(message: str) -> ContractFault:
    """Return the fault for bytes that cannot be read."""
    return ContractFault(message, code="wire_malformed")


def foreign(found: str, *, expected: str) -> ContractFault:
    """Return the fault for an array in another project's form."""
    return ContractFault(
        f"an array came in the {found} form; this connection speaks the {expected} form. "
        "Use the URI scheme of the dialect that the other side speaks",
        code="wire_dialect_mismatch",
    )


def check_size(size_bytes: int, max_bytes: int) -> None:
    """Refuse a message that is empty or above the limit (``message_too_large``), naming both sizes."""
    if size_bytes > max_bytes:
        raise ContractFault(f"a message of {size_bytes} bytes, the limit is {max_bytes}", code="message_too_large")
    if size_bytes == 0:
        raise malformed("an empty message, 0 bytes")


def described(dtype: Any, shape: Any) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return dtype, shape and size in bytes of an array that a message describes; nothing is allocated.

    The product is taken in unbounded integers. Raises ContractFault (``wire_malformed``).
    """
    known = DTYPES.get(dtype) if isinstance(dtype, str) else None
    if known is None:
        raise malformed(f"array dtype {_shown(dtype)} is not one of {', '.join(DTYPES)}")
    if not isinstance(shape, list | tuple) or len(shape) > MAX_RANK:
        raise malformed(f"array shape {_shown(shape)} is not a list of at most {MAX_RANK} numbers")
    for size in shape:
        if type(size) is not int or size < 0:
            raise malformed(f"array shape {_shown(shape)} holds {_shown(size)}; expected whole numbers from 0 up")
    if math.prod(size or 1 for size in shape) > _MOST_NUMBERS:  # also of an array without numbers: [0, 2**63]
        raise malformed(f"array shape {_shown(shape)} is larger than any message")
    return known, tuple(shape), math.prod(shape) * known.itemsize


def array_of(dtype: Any, shape: Any, *, data: Any) -> NDArray[Any]:
    """Return a read-only array over ``data``; copied only where the bytes are not aligned for their numbers.

    Raises ContractFault (``wire_malformed``) for a dtype that is not allowed, a shape that is none, or bytes that
    are not exactly as many as dtype and shape say.
    """
    if not isinstance(data, bytes | memoryview):
        raise malformed(f"array data is {type(data).__name__}, expected binary")
    known, sizes, size_bytes = described(dtype, shape)
    if size_bytes != len(data):
        raise malformed(f"array {dtype} of shape {_shown(shape)} needs {size_bytes} bytes, got {len(data)}")
    array: NDArray[Any] = np.frombuffer(data, dtype=known).reshape(sizes)
    if known.kind == "b" and array.size and int(array.view(np.uint8).max()) > 1:
        raise malformed("an array of booleans holds a byte above 1")
    if not array.flags.aligned:
        array = array.copy()
    array.flags.writeable = False
    return array


def sendable(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array contiguous and little-endian, itself where it already is.

    Raises ContractFault (``wire_malformed``) for a dtype that never crosses a wire.
    """
    if array.dtype.str not in DTYPES:
        array = array.astype(array.dtype.newbyteorder("<"), copy=False) if array.dtype.kind in "biuf" else array
        if array.dtype.str not in DTYPES:
            raise malformed(f"an array of dtype {array.dtype} cannot be sent; allowed: {', '.join(DTYPES)}")
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str | int | float | list | tuple | bytes | None) else type(value).__name__
    return text if len(text) <= 80 else f"{text[:77]}..."
