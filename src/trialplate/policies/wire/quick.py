"""Read an ordinary frame at once, and leave every other one to the reader that believes nothing.

A fast decoder reads the frame without its large arrays. Only when its value, encoded again, gives exactly the bytes
that came is it taken: then no key stood twice, nothing followed, and every number was written the one way in which we
write it. Whatever is out of the ordinary, wrong or not, is read again by
:class:`~trialplate.policies.wire.frames.FrameReader`, which decides what it is.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec

from trialplate.errors import ContractFault
from trialplate.policies.wire.arrays import MAX_DEPTH

Shaper = Callable[[dict[Any, Any]], Any]
SMALL_BYTES = 8192
"""The most that is left without the large arrays: it holds no more keys and items than a message may have."""

LARGE_BYTES = 2048
MISSING: Final = object()
_MARK = secrets.token_bytes(16)
_STAND_IN = b"\xc4\x10" + _MARK
"""Stands for the bytes of a large array. Only a text or binary that knows the mark could be taken for it."""

_SIZE_BYTES = {b"\xc5": 2, b"\xc6": 4}
_decode = msgspec.msgpack.Decoder().decode
_encode = msgspec.msgpack.Encoder().encode
_SCALARS = frozenset((type(None), bool, int, float, str, bytes))
_KEYS = frozenset((str, bytes))


class _Unusual(Exception):
    """The frame is for the other reader."""


def quick_read(data: bytes, *, shape: Shaper, data_key: bytes) -> Any:
    """Return the value of a frame, or ``MISSING`` when it is not an ordinary one.

    ``data_key``: how the key before the bytes of an array is written in the dialect of ``shape``.
    """
    small, arrays = _without_arrays(data, data_key)
    if len(small) > SMALL_BYTES:
        return MISSING
    try:
        value = _decode(small)
        if _encode(value) != small:
            return MISSING
        tree = _Tree(shape, arrays)
        found = tree.shaped(value, 1)
    except (_Unusual, ContractFault, msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
        return MISSING
    return found if tree.used == len(arrays) else MISSING


def _without_arrays(data: bytes, data_key: bytes) -> tuple[bytes, list[memoryview]]:
    """Return the frame with a stand-in for each large binary behind ``data_key``, and what they stand for."""
    if len(data) <= LARGE_BYTES:
        return data, []
    pieces: list[bytes] = []
    arrays: list[memoryview] = []
    view, place, done = memoryview(data), 0, 0
    while (found := data.find(data_key, place)) >= 0:
        place = found + len(data_key)
        begin = place + 1 + _SIZE_BYTES.get(data[place : place + 1], len(data))
        end = begin + int.from_bytes(data[place + 1 : begin], "big") if begin < len(data) else begin
        if end - begin >= LARGE_BYTES and end <= len(data):
            pieces += (data[done:place], _STAND_IN)
            arrays.append(view[begin:end])
            place = done = end
    pieces.append(data[done:])
    return b"".join(pieces), arrays


class _Tree:
    """Puts arrays into a decoded value. ``used``: how many of the large ones had their place in it."""

    __slots__ = ("_arrays", "_shape", "used")

    def __init__(self, shape: Shaper, arrays: list[memoryview]) -> None:
        self._shape, self._arrays, self.used = shape, arrays, 0

    def shaped(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is dict:
            return self._map(value, depth)
        if kind is list:
            return self._list(value, depth)
        if kind not in _SCALARS:
            raise _Unusual
        return value

    def _map(self, members: dict[Any, Any], depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _Unusual
        large = False
        for key, value in members.items():
            if type(key) not in _KEYS:
                raise _Unusual
            kind = type(value)
            if kind is bytes and value == _MARK:
                members[key], large = self._next(), True
            elif kind not in _SCALARS:
                members[key] = self.shaped(value, depth + 1)
        shaped = self._shape(members)
        if large and shaped is members:
            raise _Unusual  # a binary that is no array's
        return shaped

    def _list(self, values: list[Any], depth: int) -> list[Any]:
        if depth > MAX_DEPTH:
            raise _Unusual
        for number, value in enumerate(values):
            if type(value) not in _SCALARS:
                values[number] = self.shaped(value, depth + 1)
        return values

    def _next(self) -> memoryview:
        if self.used == len(self._arrays):
            raise _Unusual
        self.used += 1
        return self._arrays[self.used - 1]
