"""Client frames with a large payload, masked in one pass: the general way of ``websockets`` copies it four times.

Source: RFC 6455, section 5.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Sequence

import numpy as np

from trialplate.policies.wire.pieces import Piece

_BINARY, _MASKED_64_BITS = 0x82, 0xFF
_HEADER = struct.Struct("!BBQ4s")
_KEY_BYTES, _KEYS = 4, 256
_BLOCK_BYTES = 2**16
"""So much is masked at once: it stays in the processor's nearest memory together with its mask."""


class Masker:
    """Makes one frame at a time, in memory that the next frame takes over."""

    def __init__(self) -> None:
        self._memory = np.empty(0, dtype=np.uint8)
        self._keys = b""

    def frame(self, pieces: Sequence[Piece], *, behind: bytes) -> memoryview:
        """Return ``behind``, which is whole frames already, and after it one masked binary frame of the pieces."""
        size = sum(len(piece) for piece in pieces)
        at = len(behind) + _HEADER.size
        if self._memory.size < at + size:
            self._memory = np.empty(at + size + size // 8, dtype=np.uint8)
        key = self._new_key()
        header = behind + _HEADER.pack(_BINARY, _MASKED_64_BITS, size, key)
        self._memory[:at] = np.frombuffer(header, dtype=np.uint8)
        masks = np.frombuffer(key * (_BLOCK_BYTES // _KEY_BYTES + 1), dtype=np.uint8)
        done = 0
        for piece in pieces:
            source = np.frombuffer(piece, dtype=np.uint8)
            for start in range(0, source.size, _BLOCK_BYTES):
                part = source[start : start + _BLOCK_BYTES]
                phase, to = done % _KEY_BYTES, at + done
                np.bitwise_xor(part, masks[phase : phase + part.size], out=self._memory[to : to + part.size])
                done += part.size
        return self._memory.data[: at + size]

    def _new_key(self) -> bytes:
        """Return a key that nobody can foresee; the machine is asked for many at once."""
        if not self._keys:
            self._keys = secrets.token_bytes(_KEYS * _KEY_BYTES)
        key, self._keys = self._keys[:_KEY_BYTES], self._keys[_KEY_BYTES:]
        return key
