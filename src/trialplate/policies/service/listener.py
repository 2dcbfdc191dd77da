"""The server of the environment service: a bound socket, and an event loop in a thread of its own."""

from __future__ import annotations

import ipaddress
import socket
import threading
from typing import Any

import uvicorn

from trialplate.errors import UsageError
from trialplate.policies.service.connections import MAX_HEADER_BYTES, Connection, Socket

PING_INTERVAL_S = 20.0
KEEP_ALIVE_S = 3600
"""For how long a connection may rest while a policy thinks; one that is idle gives its place to who needs it."""

GRACE_S = 2
START_TIMEOUT_S = 10.0
BACKLOG = 128
"""Connections that are taken in at once, before any gives way: file descriptors that the run could lack."""


def parse_bind(bind: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT`` or ``[IPv6]:PORT``. Raises UsageError."""
    host, separator, port = bind.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        separator = ""
    if not separator or not host or not (port.isascii() and port.isdecimal() and int(port) < 65_536):
        raise UsageError(f"--bind: expected HOST:PORT, for instance 127.0.0.1:8712, got {bind!r}")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Return whether every address of a host is this machine's own loopback."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # the second one: it cannot be the name of a host
        return False
    return all(ipaddress.ip_address(str(item[4][0]).partition("%")[0]).is_loopback for item in found)


class Listener:
    """Serves one ASGI application until :meth:`stop`. The socket is bound, and so its port known, at once.

    Raises UsageError when the address is not loopback and ``allow_remote`` is not set, or cannot be bound.
    """

    def __init__(self, app: Any, bind: str, *, allow_remote: bool, max_frame_bytes: int) -> None:
        host, port = parse_bind(bind)
        if not allow_remote and not is_loopback(host):
            raise UsageError(
                f"--bind {bind}: {host} is not a loopback address, and everybody who reaches it could try its doors; "
                "say --allow-remote if that is meant"
            )
        self._socket = _bound(host, port)
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(
            app, http=Connection, ws=Socket, loop="asyncio", lifespan="off", log_config=None, log_level="error",
            access_log=False, server_header=False, date_header=False, proxy_headers=False,
            ws_max_size=max_frame_bytes, ws_ping_interval=PING_INTERVAL_S, ws_ping_timeout=None,
            ws_per_message_deflate=False, timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=GRACE_S,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES, backlog=BACKLOG,
        )  # fmt: skip
        self._ready = threading.Event()
        self._server = _Server(config, self._ready)
        self._thread = threading.Thread(target=self._serve, name="trialplate-service", daemon=True)

    def start(self) -> None:
        """Begin to answer. Raises UsageError when the server does not come up."""
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S) or not self._server.started:
            self.stop()
            raise UsageError(f"{self.address}: the server did not come up within {START_TIMEOUT_S} s")

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._server.server_state.connections)

    def stop(self) -> None:
        """Stop answering: requests that wait get a moment to hear it, then every connection is closed."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(GRACE_S + 3.0)
        self._socket.close()

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._ready.set()


class _Server(uvicorn.Server):
    """A server that says when it is up."""

    def __init__(self, config: uvicorn.Config, ready: threading.Event) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._ready.set()


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, number)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--bind {host}:{port}: {getattr(error, 'strerror', None) or error}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise UsageError(f"--bind {host}:{port}: {error.strerror or error}; is another service there?") from None
    return bound
