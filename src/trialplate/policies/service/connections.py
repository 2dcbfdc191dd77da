"""What one connection may cost us: seconds until its request is whole, bytes that wait to be read, and its place.

The server's own protocols know no limit for a request that never becomes whole, and keep every connection. These
end such a request, and give a place to a new connection when all are taken: that of a stranger who is idle or of
whoever holds on to a past episode, and then that of whoever has been idle longest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame
from websockets.http11 import Response
from websockets.server import ServerProtocol

from trialplate.policies.messages import HTTP_STATUS, error_message
from trialplate.policies.wire import strict_json

HEADER_TIMEOUT_S = 10.0
"""From the first byte of a request, or from the connection, until its headers are whole."""

STALL_TIMEOUT_S = 30.0
"""For how long a peer may take nothing of what waits to be sent to it."""

MAX_HEADER_BYTES = 16_384
MAX_CONNECTIONS = 256
MAX_FRAGMENTS = 4096
PASS = "pass"
"""In the state of a request whose sender has shown a token or an id: says whether that is still good."""

NO_REQUEST = "this is no HTTP request"
TOO_LARGE = 4009
"""How the end of a WebSocket is told inside when a message of the peer was above the limit: unlike its own 1009."""


def _last_words(code: str, text: str, *, reason: str) -> bytes:
    """Return a whole response for a connection on which nothing else is said."""
    body = strict_json.dumps(error_message(code, text))
    head = f"HTTP/1.1 {HTTP_STATUS[code]} {reason}\r\ncontent-type: application/json\r\nconnection: close\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


_FULL = _last_words("transport_lost", "every connection is taken; try again", reason="Service Unavailable")
_NO_REQUEST = _last_words("wire_malformed", NO_REQUEST, reason="Bad Request")


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
        self._pass: Callable[[], bool] | None = None
        self._deadline, self._stalled = _Timer(), _Timer()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, or the place of whoever has been idle longest; refuse when everybody is at work."""
        if len(self.connections) >= MAX_CONNECTIONS:
            ranks = [(*rank, other) for other in self.connections if (rank := _rank(other)) is not None]
            if ranks:
                min(ranks, key=lambda found: found[:2])[2].transport.abort()
            else:
                transport.write(_FULL)
                transport.close()
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
        self._pass = self.scope["state"].get(PASS) or self._pass
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, also in the middle of one or after its answer, and read no further."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_NO_REQUEST)
        self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def shutdown(self) -> None:
        """End at once when a request is not whole: it may never be."""
        if self.at_work() and self.cycle.more_body:
            self.transport.abort()
        else:
            super().shutdown()

    @property
    def admitted(self) -> Callable[[], bool] | None:
        """What the peer has shown, with the present request or one before it: says whether it is still good."""
        found: Callable[[], bool] | None = self.scope["state"].get(PASS) if self.at_work() else None
        return found or self._pass

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
        self._owed: list[bytes] = []
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
        owed, self._owed = self._owed, []
        if not self.transport.is_closing():
            self.transport.write(b"".join(owed))

    def data_received(self, data: bytes) -> None:
        """Read on; a handshake comes whole, and one that cannot be read never will be."""
        super().data_received(data)
        if not self.handshake_initiated:
            self.transport.abort()

    def send_receive_event_to_app(self) -> None:
        """Hand a message on; of a text, which has no place here, only that it came."""
        if self.curr_msg_data_type == "text":
            self.frames = [b""]
        super().send_receive_event_to_app()

    @property
    def admitted(self) -> Callable[[], bool] | None:
        """As of a connection."""
        scope: Mapping[str, Any] = getattr(self, "scope", {})
        found: Callable[[], bool] | None = scope.get("state", {}).get(PASS)
        return found

    def handle_parser_exception(self) -> None:
        """End the connection; that a message was too large is told first, because it was meant as an answer."""
        sent = self.conn.close_sent
        if sent is not None and sent.code == CloseCode.MESSAGE_TOO_BIG:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": TOO_LARGE})
        super().handle_parser_exception()

    def handle_ping(self) -> None:
        """Answer a ping; while the peer reads nothing, only the latest, and once it reads again."""
        pongs = self.conn.data_to_send()
        if self.writable.is_set():
            self.transport.write(b"".join(pongs))
        else:
            self._owed = pongs[-1:] or self._owed

    def handle_cont(self, event: Frame) -> None:
        """Take a fragment; a message in thousands of them is cut off."""
        if len(self.frames) >= MAX_FRAGMENTS:
            self.frames = []
            self.transport.abort()
        else:
            super().handle_cont(event)


def _rank(peer: object) -> tuple[int, float] | None:
    """Return who gives way to a newcomer first: the lowest; None for whoever is at work and may be."""
    if not isinstance(peer, Connection | Socket):
        return None
    admitted = peer.admitted
    if admitted is not None and not admitted():
        return 1, 0.0  # it holds on to a past episode
    if isinstance(peer, Socket) or peer.at_work():
        return None
    return 0 if admitted is None else 1, peer.idle_since_s


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
