"""What one connection may cost us: seconds until its request is whole, bytes that wait to be read, and its place.

The server's own protocols know no limit for a request that never becomes whole, and keep every connection. These
end such a request, and give the place of the longest idle connection to a new one when all places are taken: of a
stranger's, as long as there is one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame
from websockets.http11 import Response
from websockets.server import ServerProtocol

HEADER_TIMEOUT_S = 10.0
"""From the first byte of a request, or from the connection, until its headers are whole."""

STALL_TIMEOUT_S = 30.0
"""For how long a peer may take nothing of what waits to be sent to it."""

MAX_HEADER_BYTES = 16_384
MAX_CONNECTIONS = 256
MAX_FRAGMENTS = 4096
KNOWN = "known"
"""Set in the state of a request whose sender has shown a token or an id."""

TOO_LARGE = 4009
"""How the end of a WebSocket is told inside when a message of the peer was above the limit: unlike its own 1009."""

_FULL = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Connection(H11Protocol):
    """One HTTP connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.idle_since_s = 0.0
        self.known = False
        self._deadline, self._stalled = _Timer(), _Timer()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, or the place of whoever has been idle longest; refuse when everybody is at work."""
        if len(self.connections) >= MAX_CONNECTIONS:
            idle = [other for other in self.connections if isinstance(other, Connection) and not other.at_work()]
            if not idle:
                transport.write(_FULL)
                transport.close()
            else:
                min(idle, key=lambda other: (other.known, other.idle_since_s)).transport.abort()
        super().connection_made(transport)
        self.idle_since_s = self.loop.time()
        self._arm()

    def data_received(self, data: bytes) -> None:
        """Read on; what is not a whole request by the deadline never will be."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.transport.get_protocol() is not self or self.at_work():  # a WebSocket has its own limits
            self._deadline.stop()
        elif not self._deadline.running:
            self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._deadline.stop()
        self._stalled.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the peer to read, for a while."""
        super().pause_writing()
        self._stalled.start(self.loop, STALL_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on."""
        self._stalled.stop()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Begin to be idle; remember whether the request came with a token or an id that is good."""
        self.idle_since_s = self.loop.time()
        self.known = self.known or bool(self.scope["state"].get(KNOWN))
        super().on_response_complete()

    def at_work(self) -> bool:
        """Return whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _arm(self) -> None:
        self._deadline.start(self.loop, HEADER_TIMEOUT_S, self._expire)

    def _expire(self) -> None:
        if not self.at_work():
            self.transport.abort()


class Socket(WebSocketsSansIOProtocol):
    """One WebSocket connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._stalled = _Timer()
        self.conn = _Undated(max_size=config.ws_max_size, logger=logging.getLogger("uvicorn.error"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._stalled.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the peer to read, for a while."""
        super().pause_writing()
        self._stalled.start(self.loop, STALL_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on."""
        self._stalled.stop()
        super().resume_writing()

    def handle_parser_exception(self) -> None:
        """End the connection; that a message was too large is told first, because it was meant as an answer."""
        sent = self.conn.close_sent
        if sent is not None and sent.code == CloseCode.MESSAGE_TOO_BIG:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": TOO_LARGE})
        super().handle_parser_exception()

    def handle_ping(self) -> None:
        """Answer a ping; a peer that sends them and does not read the answers is cut off."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        """Take a fragment; a message in thousands of them is cut off."""
        if len(self.frames) >= MAX_FRAGMENTS:
            self.frames = []
            self.transport.abort()
        else:
            super().handle_cont(event)


class _Timer:
    """Something that happens later, unless it is stopped before."""

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        return self._handle is not None

    def start(self, loop: asyncio.AbstractEventLoop, after_s: float, do: Callable[[], None]) -> None:
        self.stop()
        self._handle = loop.call_later(after_s, self._fire, do)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self, do: Callable[[], None]) -> None:
        self._handle = None
        do()


class _Undated(ServerProtocol):
    """A handshake that says nothing of the day or of the software."""

    def send_response(self, response: Response) -> None:
        for name in ("Date", "Server"):
            if name in response.headers:
                del response.headers[name]
        super().send_response(response)
