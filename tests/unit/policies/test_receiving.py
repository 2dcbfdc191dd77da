"""A server takes in what it is sent, however the bytes are cut on their way; only the number of copies differs."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed
from websockets.frames import BINARY, CLOSE, CONT, PING, TEXT, Frame
from websockets.uri import parse_uri

from trialplate.policies.server.receiving import LARGE_BYTES, Lender, ReceivingConnection

SECONDS = 10.0
LIMIT_BYTES = 2**20
Sent = tuple[int, bytes, bool]


@contextmanager
def listening() -> Iterator[tuple[str, list[str | bytes]]]:
    """Serve one connection in a thread; yield its address and the list of what it heard."""
    heard: list[str | bytes] = []
    ready, opened = threading.Event(), []

    async def hear(connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            async for message in connection:
                heard.append(message)
                await connection.send(str(len(heard)))

    async def live() -> None:
        stop = asyncio.Event()
        options = {"create_connection": ReceivingConnection, "compression": None, "max_size": LIMIT_BYTES}
        async with serve(hear, "127.0.0.1", 0, max_queue=1, **options) as server:
            opened.append((server.sockets[0].getsockname()[1], asyncio.get_running_loop(), stop))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    assert ready.wait(SECONDS)
    port, loop, stop = opened[0]
    try:
        yield f"ws://127.0.0.1:{port}", heard
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(SECONDS)


class Client:
    """A client that decides itself where its bytes are cut."""

    def __init__(self, uri: str) -> None:
        address = parse_uri(uri)
        self._protocol = ClientProtocol(address, max_size=None)
        self._socket = socket.create_connection((address.host, address.port), timeout=SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._protocol.send_request(self._protocol.connect())
        self._socket.sendall(b"".join(self._protocol.data_to_send()))
        while self._protocol.state.name == "CONNECTING":
            self._protocol.receive_data(self._socket.recv(4096))
        self._protocol.events_received()

    def bytes_of(self, frames: Sequence[Sent]) -> bytes:
        return b"".join(Frame(code, data, fin).serialize(mask=True) for code, data, fin in frames)

    def send(self, data: bytes, *, cuts: Sequence[int]) -> None:
        for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True):
            self._socket.sendall(data[start:stop])

    def hear(self, count: int) -> list[Frame]:
        """Return frames until ``count`` messages have been acknowledged, or the server closes."""
        found: list[Frame] = []
        while sum(frame.opcode is TEXT for frame in found) < count:
            data = self._socket.recv(65_536)
            if not data:
                break
            self._protocol.receive_data(data)
            found += [event for event in self._protocol.events_received() if isinstance(event, Frame)]
            if any(frame.opcode is CLOSE for frame in found):
                break
        return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def wire() -> Iterator[tuple[Client, list[str | bytes]]]:
    with listening() as (uri, heard):
        client = Client(uri)
        yield client, heard
        client.close()


def binary(size: int) -> Sent:
    return (BINARY, os.urandom(size), True)


MIXED: Sequence[Sent] = (
    binary(180),
    binary(400_000),
    binary(0),
    binary(125),
    binary(126),
    (PING, b"still there?", True),
    binary(LARGE_BYTES - 1),
    binary(LARGE_BYTES),
    binary(65_535),
    binary(65_536),
    (TEXT, b"a text", True),
    (BINARY, os.urandom(50_000), False),
    (CONT, os.urandom(40_000), True),
    binary(3),
    binary(LIMIT_BYTES),
)


def messages(frames: Sequence[Sent]) -> list[str | bytes]:
    """Return what whole messages these frames are."""
    found: list[str | bytes] = []
    for code, data, _ in frames:
        if code == CONT:
            found[-1] += data  # type: ignore[operator]
        elif code != PING:
            found.append(data.decode() if code == TEXT else data)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_messages_arrive_whole_and_in_order_wherever_their_bytes_are_cut(
    wire: tuple[Client, list[str | bytes]], seed: int
) -> None:
    client, heard = wire
    data, source = client.bytes_of(MIXED), random.Random(seed)
    cuts = sorted(source.sample(range(1, len(data)), source.choice([0, 1, 5, 60])))
    client.send(data, cuts=cuts)
    told = client.hear(len(messages(MIXED)))
    assert heard == messages(MIXED)
    assert b"still there?" in [bytes(frame.data) for frame in told]  # the ping was answered


@pytest.mark.parametrize("cut", range(1, 24))
def test_a_header_may_be_cut_anywhere(wire: tuple[Client, list[str | bytes]], cut: int) -> None:
    client, heard = wire
    frames = [binary(9), binary(70_000), binary(200)]
    data = client.bytes_of(frames)
    small = len(client.bytes_of(frames[:1]))
    client.send(data, cuts=[cut, small + cut + 1, len(data) - cut])
    client.hear(3)
    assert heard == messages(frames)


def test_an_ack_and_the_look_behind_it_are_two_messages(wire: tuple[Client, list[str | bytes]]) -> None:
    client, heard = wire
    for turn in range(1, 4):
        frames = [binary(230), binary(393_700)]
        client.send(client.bytes_of(frames), cuts=[])
        client.hear(2)
        assert heard[2 * turn - 2 :] == messages(frames)


def test_a_message_above_the_limit_is_refused_with_its_code(wire: tuple[Client, list[str | bytes]]) -> None:
    client, heard = wire
    client.send(client.bytes_of([binary(10)]), cuts=[])
    client.hear(1)
    too_large = client.bytes_of([binary(LIMIT_BYTES + 1)])
    client.send(too_large[:500], cuts=[])
    (close,) = client.hear(1)
    assert close.opcode is CLOSE and close.data[:2] == (1009).to_bytes(2, "big")
    assert len(heard) == 1


def test_an_unmasked_frame_is_refused(wire: tuple[Client, list[str | bytes]]) -> None:
    client, heard = wire
    client.send(Frame(BINARY, b"x" * 40).serialize(mask=False), cuts=[])
    (close,) = client.hear(1)
    assert close.data[:2] == (1002).to_bytes(2, "big")
    assert heard == []


def test_lent_memory_comes_back_and_only_a_few_pieces_are_kept() -> None:
    lender = Lender()
    pieces = [lender.lend(100_000) for _ in range(10)]
    for piece in pieces:
        lender.take_back(piece)
    again = [lender.lend(100_000) for _ in range(6)]
    assert sum(any(piece is one for piece in pieces) for one in again) == 4
    assert lender.lend(100).size < 100_000  # a small frame does not hold a large piece
