"""A server's WebSocket connection that takes a large message in with one copy.

The general way of ``websockets`` reads in pieces, joins them, cuts the frame out and unmasks it: four copies of every
look at the world. Here a large frame is read into memory that is lent for the time of reading, and unmasked once into
the message. Everything else, and every frame that is out of the ordinary, goes the general way. Source: RFC 6455.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.server import ServerConnection
from websockets.frames import BINARY, Frame
from websockets.protocol import OPEN

try:
    from websockets.speedups import apply_mask
except ImportError:  # the same in Python, where the extension was not built
    from websockets.utils import apply_mask

LARGE_BYTES = 2**15
_PIECE_BYTES = 2**20
_SPARE = 4

_WHOLE_BINARY, _MASKED = 0x82, 0x80
_IN_2_BYTES = 126
"""A size below it stands in the second byte itself; else this says that it follows in 2 bytes, one more in 8."""

_LONGEST_HEADER = 14


class Lender:
    """Memory for frames that are being read: as much as has come in of them, and a few spare pieces.

    What is lent is not written to beforehand, so that the machine gives no memory for bytes that never come: a client
    that announces a large message and sends nothing takes nothing. ``piece``: where all connections of one loop read
    what is no large frame; it is read out before the next read.
    """

    def __init__(self) -> None:
        self.piece = memoryview(bytearray(_PIECE_BYTES))
        self._spare: list[NDArray[np.uint8]] = []

    def lend(self, size: int) -> NDArray[np.uint8]:
        """Return memory of at least ``size`` bytes."""
        for index, piece in enumerate(self._spare):
            if size <= piece.size <= 2 * size:
                return self._spare.pop(index)
        return np.empty(size, dtype=np.uint8)

    def take_back(self, piece: NDArray[np.uint8]) -> None:
        """Keep a piece for the next frame."""
        self._spare.append(piece)
        if len(self._spare) > _SPARE:
            self._spare.pop(0)


class ReceivingConnection(ServerConnection, asyncio.BufferedProtocol):
    """A connection whose bytes are read into memory that it names. ``lender``: set by the server."""

    lender = Lender()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._frame: NDArray[np.uint8] | None = None
        self._key = b""
        self._size = self._filled = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        if self._frame is None:
            return self.lender.piece
        return self._frame.data[self._filled : self._size]

    def buffer_updated(self, nbytes: int) -> None:
        """Take in the bytes that were read."""
        if self._frame is None:
            data = self.lender.piece[:nbytes]
            while whole := self._take_whole_frame(data):
                data = data[whole:]
            if data and not self._begins_a_large_frame(data):
                self.data_received(bytes(data))
            return
        self._filled += nbytes
        if self._filled == self._size:
            frame, self._frame = self._frame, None
            self._take(frame.data[: self._size], self._key)
            self.lender.take_back(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a frame that will not be completed."""
        self._frame = None
        super().connection_lost(exc)

    def post(self, message: bytes) -> bool:
        """Send a binary message at once, if nothing is on its way out before it; return whether it was sent.

        What could not be sent at once goes the general way, which waits for a client that reads slowly.
        """
        if self.protocol.state is not OPEN or self.transport.get_write_buffer_size():
            return False
        self.protocol.send_binary(message)
        self.transport.write(b"".join(self.protocol.data_to_send()))
        return True

    def inside_a_message(self) -> bool:
        """Return whether a message has begun to come in and is not complete."""
        protocol = self.protocol
        return self._frame is not None or bool(protocol.reader.buffer) or protocol.current_size is not None

    def _take_whole_frame(self, data: memoryview) -> int:
        """Take in the ordinary frame that ``data`` begins with, if all of it is there; return its size, or 0."""
        header, size = self._ordinary(data)
        if not header or len(data) < header + size:
            return 0
        self._take(data[header : header + size], bytes(data[header - 4 : header]))
        return header + size

    def _begins_a_large_frame(self, data: memoryview) -> bool:
        """Begin to read a large frame in place, if ``data`` is the first part of an ordinary one."""
        header, size = self._ordinary(data)
        if not header or size < LARGE_BYTES:
            return False
        self._key, self._size, self._filled = bytes(data[header - 4 : header]), size, len(data) - header
        self._frame = self.lender.lend(size)
        self._frame[: self._filled] = np.frombuffer(data[header:], dtype=np.uint8)
        return True

    def _ordinary(self, data: memoryview) -> tuple[int, int]:
        """Return the sizes of header and payload of an unfragmented binary frame; 0, 0 for anything else."""
        protocol = self.protocol
        if len(data) < _LONGEST_HEADER or data[0] != _WHOLE_BINARY or not data[1] & _MASKED:
            return 0, 0
        if protocol.state is not OPEN or protocol.extensions or self.inside_a_message():
            return 0, 0
        size, header = data[1] - _MASKED, 6
        if size >= _IN_2_BYTES:
            header = 8 if size == _IN_2_BYTES else _LONGEST_HEADER
            size = int.from_bytes(data[2 : header - 4], "big")
        return (header, size) if size <= (protocol.max_message_size or 0) else (0, 0)

    def _take(self, masked: memoryview, key: bytes) -> None:
        with suppress(EOFError):  # the connection is closing: nobody reads any more
            self.process_event(Frame(BINARY, apply_mask(masked, key)))
