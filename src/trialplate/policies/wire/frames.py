"""Read one msgpack frame, token by token, believing no length before it is checked against what is there.

Frame size, depth, number of keys and number of items are limited; a container that announces more than the frame
can hold is refused before anything is allocated for it. Extension types are refused. Source: msgpack specification;
limits from the policy contract, section 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from trialplate.policies.wire.arrays import FORM_KEYS, MAX_DEPTH, MAX_ITEMS, MAX_KEYS, check_size, malformed
from trialplate.policies.wire.quick import MISSING, quick_read

Shaper = Callable[[dict[Any, Any]], Any]
_KEYS = {
    name.encode(): name
    for name in (
        *FORM_KEYS,
        *("protocol", "type", "id", "episode", "call_index", "observation_id", "registration", "step_index"),
        *("instruction", "images", "proprio", "history", "meta", "issue", "remaining", "steps", "calls"),
        *("chunk", "vectors", "stop", "reason", "usage", "usage_reason", "latency_ms", "latency_ms_reason"),
    )
}
"""Keys that every message has: looked up instead of decoded. Others are decoded."""

_ROW_MIN = 4  # numbers from which it pays to look whether a whole list is doubles


class FrameReader:
    """One pass over one frame. ``shape`` turns a map that is an array form into an array, others it returns."""

    __slots__ = ("_at", "_data", "_depth", "_end", "_items", "_keys", "_loose", "_shape")

    def __init__(self, data: bytes, *, shape: Shaper) -> None:
        self._data, self._end, self._shape = data, len(data), shape
        self._at = self._depth = self._items = self._keys = self._loose = 0

    def whole(self) -> Any:
        """Return the one value that the frame is. Raises ContractFault."""
        try:
            value = self.value()
        except (IndexError, struct.error):
            raise malformed(f"a frame of {self._end} bytes ends in the middle of a value") from None
        if self._at != self._end:
            raise malformed(f"{self._end - self._at} bytes follow the value of a frame")
        return _owned(value) if self._loose else value

    def value(self) -> Any:
        """Read the next value."""
        head = self._data[self._at]
        self._at += 1
        if head < 0x80:
            return head
        return _READ[head](self, head)

    # -- one method per kind of token ----------------------------------------------------------------------------

    def _take(self, count: int) -> int:
        """Move past ``count`` bytes and return where they began."""
        start = self._at
        self._at = start + count
        if self._at > self._end:
            raise IndexError
        return start

    def _length(self, width: int) -> int:
        start = self._take(width)
        return int.from_bytes(self._data[start : self._at], "big")

    def _text(self, count: int) -> str:
        start = self._take(count)
        try:
            return str(self._data[start : self._at], "utf-8")
        except UnicodeDecodeError:
            raise malformed(f"text at byte {start} is not UTF-8") from None

    def _binary(self, count: int) -> memoryview:
        start = self._take(count)
        self._loose += 1
        return memoryview(self._data)[start : self._at]

    def _enter(self, count: int, *, smallest: int) -> None:
        """Count a container of ``count`` items of at least ``smallest`` bytes, before anything is allocated."""
        if smallest > self._end - self._at:
            raise malformed(f"a container announces {count} items, {self._end - self._at} bytes are left")
        self._items += count
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise malformed(f"nested deeper than {MAX_DEPTH}")
        if self._items > MAX_ITEMS:
            raise malformed(f"more than {MAX_ITEMS} items")

    def _list(self, count: int) -> list[Any]:
        self._enter(count, smallest=count)
        values = self._doubles(count) if count >= _ROW_MIN and self._data[self._at] == 0xCB else None
        if values is None:
            values = [self.value() for _ in range(count)]
        self._depth -= 1
        return values

    def _doubles(self, count: int) -> list[Any] | None:
        """Read a list that is nothing but 64-bit floats at once; None when it is not."""
        start, stop = self._at, self._at + 9 * count
        if stop > self._end or self._data[start:stop:9].count(0xCB) != count:
            return None
        self._at = stop
        return list(_row_format(count).unpack_from(self._data, start))

    def _map(self, count: int) -> Any:
        self._enter(2 * count, smallest=2 * count)
        self._keys += count
        if self._keys > MAX_KEYS:
            raise malformed(f"more than {MAX_KEYS} keys")
        members: dict[Any, Any] = {}
        for _ in range(count):
            key = self._key()
            members[key] = self.value()
        if len(members) != count:
            raise malformed("a key stands twice in one map")
        self._depth -= 1
        shaped = self._shape(members)
        if type(shaped) is np.ndarray:
            self._loose -= 1  # the array holds its binary
        return shaped

    def _key(self) -> str | bytes:
        start = self._at + 1
        length = self._data[self._at] - 0xA0
        if 0 <= length < 32:  # a short text, as almost every key is
            known = _KEYS.get(self._data[start : start + length])
            if known is not None:
                self._at = start + length
                return known
        key = self.value()
        if type(key) is memoryview:
            self._loose -= 1
            return bytes(key)
        if type(key) is not str:
            raise malformed(f"a key is {type(key).__name__}, expected text")
        return key

    def _refused(self, head: int) -> Any:
        kind = "the byte 0xc1" if head == 0xC1 else "an extension type"
        raise malformed(f"{kind} at byte {self._at - 1} has no place in a message")


Read = Callable[[FrameReader, int], Any]


@lru_cache(maxsize=512)
def _row_format(count: int) -> struct.Struct:
    return struct.Struct(">" + "xd" * count)


def _number(code: str) -> Read:
    form = struct.Struct(f">{code}")

    def read(reader: FrameReader, head: int) -> Any:
        return form.unpack_from(reader._data, reader._take(form.size))[0]

    return read


def _sized(method: Callable[[FrameReader, int], Any], width: int) -> Read:
    return lambda reader, head: method(reader, reader._length(width))


def _fixed(method: Callable[[FrameReader, int], Any], mask: int) -> Read:
    return lambda reader, head: method(reader, head & mask)


def _constant(value: Any) -> Read:
    return lambda reader, head: value


def _table() -> list[Read]:
    """Return what to do for each first byte."""
    reads: list[Read] = [FrameReader._refused] * 256
    reads[0x80:0x90] = [_fixed(FrameReader._map, 0x0F)] * 16
    reads[0x90:0xA0] = [_fixed(FrameReader._list, 0x0F)] * 16
    reads[0xA0:0xC0] = [_fixed(FrameReader._text, 0x1F)] * 32
    reads[0xC0], reads[0xC2], reads[0xC3] = _constant(None), _constant(False), _constant(True)
    for first, method, widths in (
        (0xC4, FrameReader._binary, (1, 2, 4)),
        (0xD9, FrameReader._text, (1, 2, 4)),
        (0xDC, FrameReader._list, (2, 4)),
        (0xDE, FrameReader._map, (2, 4)),
    ):
        for offset, width in enumerate(widths):
            reads[first + offset] = _sized(method, width)
    for head, code in enumerate("fdBHIQbhiq", start=0xCA):
        reads[head] = _number(code)
    reads[0xE0:0x100] = [lambda reader, head: head - 256] * 32
    return reads


_READ = _table()


def _owned(value: Any) -> Any:
    """Return the value with binary that belongs to no array as bytes."""
    if type(value) is memoryview:
        return bytes(value)
    if type(value) is list:
        return [_owned(item) for item in value]
    if type(value) is dict:
        return {key: _owned(item) for key, item in value.items()}
    return value


def read_frame(data: bytes, *, max_bytes: int, shape: Shaper, data_key: bytes) -> Any:
    """Return the value of one frame. Raises ContractFault (``message_too_large``, ``wire_malformed``, and whatever
    ``shape`` raises for an array).

    ``data_key``: how the key before the bytes of an array is written in the dialect of ``shape``.
    """
    if not isinstance(data, bytes):
        kind = "a text frame" if isinstance(data, str) else f"{type(data).__name__}"
        raise malformed(f"{kind} came where a binary frame is expected")
    check_size(len(data), max_bytes)
    value = quick_read(data, shape=shape, data_key=data_key)
    return FrameReader(data, shape=shape).whole() if value is MISSING else value
