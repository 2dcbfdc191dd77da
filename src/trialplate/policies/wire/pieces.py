"""A frame in pieces: the bytes of a message with its large arrays left where they lie.

What is joined is byte for byte what the encoder of the dialect writes, so nobody but the sender knows of pieces. It
spares a look at the world one copy on its way out.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

Piece = bytes | memoryview
Written = bytes | Sequence[Piece]
"""A frame that is ready to be sent, whole or in pieces."""

LARGE_BYTES = 4096
"""Arrays from this size on are pieces of their own."""

_MARK = secrets.token_bytes(16)
"""Stands in the place of an array until the text is cut there; no message can know it."""


def pieces_of(message: Mapping[str, Any], form: Callable[[Any], Any]) -> list[Piece]:
    """Return the pieces of a message. ``form``: the encoder's hook, whose array forms have their bytes in ``data``.

    Raises what the encoder raises, and ValueError when a message holds the mark.
    """
    arrays: list[memoryview] = []

    def split(value: Any) -> Any:
        written = form(value)
        if type(written) is dict:
            for key in ("data", b"data"):
                data = written.get(key)
                if type(data) is memoryview and data.nbytes >= LARGE_BYTES:
                    arrays.append(data.cast("B"))
                    written[key] = msgspec.Raw(_binary_header(data.nbytes) + _MARK)
        return written

    texts = msgspec.msgpack.Encoder(enc_hook=split).encode(message).split(_MARK)
    if len(texts) != len(arrays) + 1:
        raise ValueError("a text that no message may hold")
    found: list[Piece] = [texts[0]]
    for data, text in zip(arrays, texts[1:], strict=True):
        found += (data, text)
    return found


def in_pieces(written: Written) -> Sequence[Piece]:
    """Return a frame as pieces; one that is whole is one piece."""
    return (written,) if isinstance(written, bytes) else written


def size_of(pieces: Sequence[Piece]) -> int:
    """Return how many bytes the pieces are together."""
    return sum(len(piece) for piece in pieces)


def _binary_header(size: int) -> bytes:
    return b"\xc5" + size.to_bytes(2, "big") if size < 2**16 else b"\xc6" + size.to_bytes(4, "big")
