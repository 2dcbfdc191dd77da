"""The openpi array form in msgpack: a map with the bytes keys ``__ndarray__``, ``data``, ``dtype``, ``shape``.

A numpy scalar is a map with ``__npgeneric__``, ``data``, ``dtype``. Source: policy contract, sections 4.3 and 11.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from trialplate.policies.wire.arrays import DTYPES, FORM_KEYS, PngPicture, array_of, foreign, malformed, sendable
from trialplate.policies.wire.frames import read_frame
from trialplate.policies.wire.pieces import Piece, pieces_of

_FORM = frozenset(key.encode() for key in FORM_KEYS)
_LARGEST_F4 = float(np.finfo(np.float32).max)
_SCALAR = frozenset((b"__npgeneric__", b"data", b"dtype"))

_DATA_KEY = b"\xc4\x04data"


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as one binary frame. Raises ContractFault (``wire_malformed``)."""
    try:
        return _encoder.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise malformed(f"a message cannot be written: {error}") from None


def pieces(message: Mapping[str, Any]) -> list[Piece]:
    """Return the same frame in pieces, large arrays as they lie. Raises as :func:`encode` does."""
    try:
        return pieces_of(message, _form)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise malformed(f"a message cannot be written: {error}") from None


def decode(data: bytes, *, max_bytes: int) -> Any:
    """Return the value of one frame; arrays are read-only, large ones views of it, scalars are numpy scalars.

    Raises ContractFault: ``message_too_large``, ``wire_malformed``, or ``wire_dialect_mismatch`` for an array in
    the own or the ``nd`` form.
    """
    return read_frame(data, max_bytes=max_bytes, shape=_shaped, data_key=_DATA_KEY)


def _form(value: Any) -> Any:
    if isinstance(value, PngPicture):
        value = value.pixels
    if isinstance(value, np.ndarray):
        array = sendable(value)
        return {b"__ndarray__": True, b"data": array.data, b"dtype": array.dtype.str, b"shape": array.shape}
    if isinstance(value, np.generic) and value.dtype.str in DTYPES:
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}
    raise TypeError(f"{type(value).__name__} has no place in it")


def _shaped(members: dict[Any, Any]) -> Any:
    if b"__ndarray__" in members:
        if members.keys() != _FORM or members[b"__ndarray__"] is not True:
            raise malformed(f"an array has the keys {sorted(map(str, members))}, expected {sorted(map(str, _FORM))}")
        return array_of(members[b"dtype"], members[b"shape"], data=members[b"data"])
    if b"__npgeneric__" in members:
        return _scalar(members)
    if "__ndarray__" in members:
        raise foreign("own", expected="openpi")
    if b"nd" in members or {"nd", "type", "data"} <= members.keys():
        raise foreign("nd/type/kind", expected="openpi")
    if any(type(key) is not str for key in members):
        raise malformed("a key outside an array is binary, expected text")
    return members


def _scalar(members: dict[Any, Any]) -> Any:
    dtype = members.get(b"dtype")
    known = DTYPES.get(dtype) if isinstance(dtype, str) else None
    if members.keys() != _SCALAR or members[b"__npgeneric__"] is not True or known is None:
        raise malformed(f"a scalar has the keys {sorted(map(str, members))} and dtype {str(dtype)[:40]!r}")
    value = members[b"data"]
    if known.kind == "b":
        fits = type(value) is bool
    elif known.kind in "iu":
        limits = np.iinfo(known)
        fits = type(value) is int and limits.min <= value <= limits.max
    else:
        fits = type(value) is float or (type(value) is int and abs(value) <= 2**53)
        fits = fits and (known.itemsize == 8 or not abs(value) > _LARGEST_F4 or math.isinf(value))
    if not fits:
        raise malformed(f"a scalar of dtype {dtype} holds {str(value)[:40]}")
    return known.type(value)


_encoder = msgspec.msgpack.Encoder(enc_hook=_form)
