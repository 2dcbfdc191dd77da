"""Strict JSON with arrays, for HTTP, files and drivers in any language.

An array is ``{"encoding": "raw", "dtype", "shape", "data_b64"}``, a picture also ``{"encoding": "png", ...}``; a
nested list stays a list. Refused: NaN, Infinity, a key that stands twice, integers beyond 2^53, nesting deeper than
16, text that is not UTF-8. Source: policy contract, section 4.2.
"""

from __future__ import annotations

import io
import json
import math
import re
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from trialplate.errors import ContractFault
from trialplate.policies.wire.arrays import (
    MAX_DEPTH,
    MAX_ITEMS,
    MAX_KEYS,
    PngPicture,
    array_of,
    check_size,
    described,
    malformed,
    sendable,
)

_SURROGATE = re.compile("[\ud800-\udfff]")
_FORM = frozenset(("encoding", "dtype", "shape", "data_b64"))
_PNG_HEAD = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
_PNG_KINDS = {2: b"\x08\x00", 3: b"\x08\x02"}  # rank of the array -> bit depth and colour type of the file
_PNG_LEVEL = 1


def dumps(message: Mapping[str, Any]) -> bytes:
    """Return a message as UTF-8 JSON; floats in the shortest form that reads back to the same bits.

    Raises ContractFault (``wire_malformed``) for NaN, Infinity, or a value that has no place in a message.
    """
    writer = _Writer()
    try:
        text = json.dumps(message, default=writer.form, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return writer.whole(text.encode("utf-8"))
    except (TypeError, ValueError, RecursionError) as error:
        raise malformed(f"a message cannot be written: {error}") from None


def loads(data: bytes, *, max_bytes: int) -> Any:
    """Return the value of a JSON text; arrays are read-only numpy arrays.

    Raises ContractFault: ``message_too_large`` or ``wire_malformed``. Pictures are unpacked only after their header
    has said the declared size, and only up to ``max_bytes`` of pixels in one message.
    """
    check_size(len(data), max_bytes)
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_ITEMS:
        raise malformed(f"more than {MAX_ITEMS} items")
    try:
        value = _parser.decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise malformed(f"not strict JSON: byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise malformed(f"not strict JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise malformed(f"nested deeper than {MAX_DEPTH}") from None
    return _Reader(max_bytes, escapes=b"\\u" in data).read(value, depth=1)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise malformed(f"not strict JSON: key {twice[:40]!r} stands twice")
    return members


def _whole_number(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > _MOST_EXACT:
        raise malformed(f"not strict JSON: integer {text[:24]} is beyond 2^53")
    return int(text)


def _fraction(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise malformed(f"not strict JSON: {text[:24]} overflows")
    return value


def _constant(text: str) -> float:
    raise malformed(f"not strict JSON: {text} is no number")


_MOST_EXACT = 2**53
_parser = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=_whole_number, parse_float=_fraction, parse_constant=_constant
)


class _Reader:
    """What one message may still hold: keys, and bytes of pixels. ``escapes``: texts may hold what UTF-8 cannot."""

    def __init__(self, pixel_bytes: int, *, escapes: bool) -> None:
        self._keys, self._pixel_bytes, self._escapes = MAX_KEYS, pixel_bytes, escapes

    def read(self, value: Any, *, depth: int) -> Any:
        if not isinstance(value, dict | list):
            if self._escapes and isinstance(value, str):
                _check_text(value)
            return value
        if depth > MAX_DEPTH:
            raise malformed(f"nested deeper than {MAX_DEPTH}")
        if isinstance(value, list):
            nested = any(type(item) in (dict, list, str) for item in value)
            return [self.read(item, depth=depth + 1) for item in value] if nested else value
        self._keys -= len(value)
        if self._keys < 0:
            raise malformed(f"more than {MAX_KEYS} keys")
        if "data_b64" in value:
            return self._array(value)
        if self._escapes:
            for key in value:
                _check_text(key)
        return {key: self.read(item, depth=depth + 1) for key, item in value.items()}

    def _array(self, form: dict[str, Any]) -> NDArray[Any]:
        if form.keys() != _FORM:
            raise malformed(f"an array has the keys {sorted(form)}, expected {sorted(_FORM)}")
        text, encoding = form["data_b64"], form["encoding"]
        if type(text) is not str or encoding not in ("raw", "png"):
            raise malformed("an array needs data_b64 as text and encoding 'raw' or 'png'")
        dtype, shape, size_bytes = described(form["dtype"], form["shape"])
        if encoding == "raw":
            needed = 4 * -(-size_bytes // 3)
            if len(text) != needed:
                raise malformed(f"data_b64 has {len(text)} characters, dtype and shape need {needed}")
            return array_of(dtype.str, shape, data=_unpacked(text))
        self._pixel_bytes -= size_bytes
        if self._pixel_bytes < 0:
            raise ContractFault("the pictures of one message unpack to more than the limit", code="message_too_large")
        return _png_pixels(_unpacked(text), dtype=dtype, shape=shape)


def _check_text(text: str) -> None:
    if "\x00" in text or _SURROGATE.search(text):
        raise malformed("not strict JSON: text holds a NUL character or half of a surrogate pair")


def png_of(pixels: NDArray[np.uint8]) -> bytes:
    """Return a picture (H, W, 3) or (H, W) uint8 as PNG bytes."""
    from PIL import Image

    if pixels.dtype != np.uint8 or pixels.ndim not in _PNG_KINDS or (pixels.ndim == 3 and pixels.shape[2] != 3):
        raise malformed(f"a PNG holds (H, W, 3) or (H, W) uint8, got {pixels.dtype} {pixels.shape}")
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(out, format="PNG", compress_level=_PNG_LEVEL)
    return out.getvalue()


class _Writer:
    """Keeps the base64 of arrays out of the JSON writer, which would look at each of their characters.

    A mark that no message can know stands in their place until the text is put together.
    """

    def __init__(self) -> None:
        self._mark = f"@{secrets.token_hex(16)}@"
        self._quoted: list[bytes] = []

    def form(self, value: Any) -> Any:
        if isinstance(value, PngPicture):
            pixels = value.pixels if value.layout == "hwc" else value.pixels.transpose(1, 2, 0)
            return self._array("png", "|u1", shape=pixels.shape, data=png_of(pixels))
        if isinstance(value, np.ndarray):
            array = sendable(value)
            return self._array("raw", array.dtype.str, shape=array.shape, data=array.data)
        if isinstance(value, np.bool | np.integer | np.floating):
            return value.item()
        raise TypeError(f"{type(value).__name__} has no place in it")

    def _array(
        self, encoding: str, dtype: str, *, shape: tuple[int, ...], data: bytes | memoryview
    ) -> dict[str, Any]:
        self._quoted.append(msgspec.json.encode(data))
        return {"encoding": encoding, "dtype": dtype, "shape": list(shape), "data_b64": self._mark}

    def whole(self, text: bytes) -> bytes:
        pieces = text.split(f'"{self._mark}"'.encode())
        return b"".join(piece for pair in zip(pieces, [*self._quoted, b""], strict=True) for piece in pair)


def _unpacked(text: str) -> bytes:
    try:
        return msgspec.convert(text, bytes)
    except msgspec.ValidationError:
        raise malformed("data_b64 is not base64") from None


def _png_pixels(data: bytes, *, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Unpack a PNG whose header says exactly the declared size; a file that unpacks to more is never opened."""
    from PIL import Image

    kind = _PNG_KINDS.get(len(shape))
    if dtype != np.uint8 or kind is None or (len(shape) == 3 and shape[2] != 3):
        raise malformed(f"a PNG holds (H, W, 3) or (H, W) of |u1, declared {dtype.str} {list(shape)}")
    height, width = shape[:2]
    found = (int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big"))
    if data[:16] != _PNG_HEAD or data[24:26] != kind or found != (height, width):
        raise malformed(f"data_b64 is no 8-bit PNG of {height} x {width} in the declared channels")
    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as picture:
            pixels = np.asarray(picture)
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise malformed(f"a PNG cannot be unpacked: {error}") from None
    if pixels.shape != shape:
        raise malformed(f"a PNG unpacks to {pixels.shape}, declared {shape}")
    pixels.flags.writeable = False
    return pixels
