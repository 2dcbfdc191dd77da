"""Servers for tests that keep a protocol badly: each does exactly what its handler says, over real sockets."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from trialplate.policies.messages.handshake import policy_hello_message
from trialplate.policies.messages.writing import close_message, ready_message
from trialplate.policies.wire import openpi, own
from trialplate.spec.channels import PolicySpec
from trialplate.spec.registration import Registration

BUSY_S = 20.0
"""What may pass on a busy machine before a test says that something takes too long."""

LONG_S = 60.0
"""How long what is wrong takes: a server here keeps up whatever it does for so long, unless the test ends before."""

QUIET = logging.getLogger("trialplate.tests.quiet")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


@contextmanager
def websocket_server(handler: Callable[[ServerConnection], None], *, port: int = 0, **options: Any) -> Iterator[str]:
    """Serve each connection in a thread by ``handler``; yield the address."""

    def quietly(connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            handler(connection)

    settings = {"compression": None, "max_size": 2**27, "ping_interval": None, "logger": QUIET} | options
    with serve(quietly, "127.0.0.1", port, **settings) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join(5)


@contextmanager
def silent_server(*first: bytes) -> Iterator[str]:
    """Shake hands, send ``first``, and then say nothing for LONG_S, or until this is left; yield the address."""
    enough = threading.Event()

    def keep_still(connection: ServerConnection) -> None:
        for message in first:
            connection.send(message)
        enough.wait(LONG_S)

    with websocket_server(keep_still) as uri:
        try:
            yield uri
        finally:
            enough.set()


@contextmanager
def socket_server(handler: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve one TCP connection after another by ``handler``; yield the port. Nothing but bytes is promised.

    After LONG_S all is cut off, so that a client that would wait for ever makes its test fail.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stop = threading.Event()
        held: list[socket.socket] = []

        def accept() -> None:
            with suppress(OSError):
                while not stop.is_set():
                    peer, _ = listening.accept()
                    held.append(peer)
                    handler(peer)

        def cut_off() -> None:
            stop.set()
            for each in (listening, *held):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        at_the_latest = threading.Timer(LONG_S, cut_off)
        at_the_latest.start()
        try:
            yield listening.getsockname()[1]
        finally:
            at_the_latest.cancel()
            cut_off()
            listening.close()
            thread.join(BUSY_S)  # before the sockets that it works with are closed
            for peer in held:
                peer.close()
            at_the_latest.join()


@contextmanager
def closed_port() -> Iterator[int]:
    """Yield a port on which nobody listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


Answer = Callable[[dict[str, Any]], "bytes | str | dict[str, Any] | None"]


@contextmanager
def own_server(hello: bytes | str, answer: Answer, *, port: int = 0, **options: Any) -> Iterator[str]:
    """Send ``hello``, then answer each request with an id by what ``answer`` returns; a map is encoded."""

    def converse(connection: ServerConnection) -> None:
        connection.send(hello)
        for frame in connection:
            message = own.decode(frame, max_bytes=2**27)
            reply = answer(message)
            if reply is not None:
                connection.send(own.encode(reply) if isinstance(reply, dict) else reply)

    with websocket_server(converse, port=port, **options) as uri:
        yield uri


def hello_of(
    declared: PolicySpec, registration: Registration | None = None, *, max_message_bytes: int = 2**26, **changed: Any
) -> bytes:
    """Return a policy server's hello, with members changed."""
    message = policy_hello_message(
        declared, registration or Registration(), encodings=("msgpack",), max_message_bytes=max_message_bytes
    )
    return own.encode({**message, **changed})


def honest(message: dict[str, Any], **changed: Any) -> dict[str, Any] | None:
    """Return what an honest server answers, with members of a decision changed."""
    if message["type"] == "reset":
        return {**ready_message(message["episode"]), "id": message["id"]}
    if message["type"] == "close":
        return {**close_message(), "id": message["id"]}
    if message["type"] != "observation":
        return None
    echoed = {key: message[key] for key in ("protocol", "episode", "call_index", "observation_id", "registration")}
    decision = {
        **echoed, "type": "decision", "id": message["id"], "chunk": {"vectors": [[1.0, 0.5]]}, "usage": None,
        "usage_reason": "not_metered", "latency_ms": None, "latency_ms_reason": "not_metered",
    }  # fmt: skip
    return {**decision, **changed}


Infer = Callable[[dict[str, Any]], "bytes | str | dict[str, Any] | None"]


@contextmanager
def openpi_server(infer: Infer, *, metadata: Any = None, port: int = 0, **options: Any) -> Iterator[str]:
    """Speak openpi's dialect: metadata, then what ``infer`` returns for each map; a text ends the connection."""
    first = metadata if isinstance(metadata, bytes | str) else openpi.encode(metadata or {})

    def converse(connection: ServerConnection) -> None:
        connection.send(first)
        for frame in connection:
            reply = infer(openpi.decode(frame, max_bytes=2**27))
            if reply is not None:
                connection.send(openpi.encode(reply) if isinstance(reply, dict) else reply)
            if isinstance(reply, str):
                connection.close(1011, "Internal server error")

    with websocket_server(converse, port=port, **options) as uri:
        yield uri
