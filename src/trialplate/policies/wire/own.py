"""The own array form in msgpack: a map with the text keys ``__ndarray__``, ``dtype``, ``shape``, ``data``.

Source: policy contract, sections 4.3 and 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from trialplate.policies.wire.arrays import FORM_KEYS, PngPicture, array_of, foreign, malformed, sendable
from trialplate.policies.wire.frames import read_frame
from trialplate.policies.wire.pieces import Piece, pieces_of

_FORM = frozenset(FORM_KEYS)

_DATA_KEY = b"\xa4data"


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as one binary frame; the pixels of an array are copied once, into the frame.

    Raises ContractFault (``wire_malformed``) for a value that has no place in a message.
    """
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
    """Return the value of one frame; arrays are read-only, large ones views of it.

    Raises ContractFault: ``message_too_large``, ``wire_malformed``, or ``wire_dialect_mismatch`` for an array in
    the openpi or the ``nd`` form. Everything is checked before anything is allocated for it.
    """
    return read_frame(data, max_bytes=max_bytes, shape=_shaped, data_key=_DATA_KEY)


def foreign_form(members: Mapping[Any, Any]) -> str | None:
    """Return which array form with bytes keys a map has, or None."""
    if b"__ndarray__" in members or b"__npgeneric__" in members:
        return "openpi"
    if b"nd" in members or {"nd", "type", "data"} <= members.keys():
        return "nd/type/kind"
    return None


def _form(value: Any) -> Any:
    if isinstance(value, PngPicture):
        value = value.pixels
    if isinstance(value, np.ndarray):
        array = sendable(value)
        return {"__ndarray__": True, "dtype": array.dtype.str, "shape": array.shape, "data": array.data}
    if isinstance(value, np.bool | np.integer | np.floating):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in it")


def _shaped(members: dict[Any, Any]) -> Any:
    if "__ndarray__" in members:
        if members.keys() != _FORM or members["__ndarray__"] is not True:
            raise malformed(f"an array has the keys {sorted(map(str, members))}, expected {sorted(_FORM)}")
        return array_of(members["dtype"], members["shape"], data=members["data"])
    if not all(type(key) is str for key in members) or "nd" in members:
        form = foreign_form(members)
        if form is not None:
            raise foreign(form, expected="own")
        if any(type(key) is not str for key in members):
            raise malformed("a key is binary, expected text")
    return members


_encoder = msgspec.msgpack.Encoder(enc_hook=_form)
