"""A connection carries messages both ways, keeps alive by itself, and says plainly how it ended."""

from __future__ import annotations

import os
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic

import pytest

from lying_servers import BUSY_S, LONG_S, closed_port, silent_server, socket_server, websocket_server
from trialplate.policies.client import line as line_module
from trialplate.policies.client.line import Line, LineExpired, LineLost, LineTooLarge, NoLine, open_line

SECONDS = BUSY_S


MADE: list[Line] = []


@pytest.fixture(autouse=True)
def _none_left_open() -> Iterator[None]:
    """Close what a test that fails has opened."""
    yield
    while MADE:
        MADE.pop().discard()


def opened(uri: str, *, max_message_bytes: int = 2**20) -> Line:
    MADE.append(open_line(uri, deadline_s=monotonic() + SECONDS, max_message_bytes=max_message_bytes))
    return MADE[-1]


def echo(connection: object) -> None:
    for message in connection:  # type: ignore[attr-defined]
        connection.send(message)  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 3_000_000])
def test_a_message_of_any_size_comes_back_as_it_went_out(size: int) -> None:
    message = os.urandom(size)
    with websocket_server(echo) as uri:
        line = opened(uri, max_message_bytes=2**22)
        line.send(message, deadline_s=monotonic() + SECONDS)
        assert line.receive(deadline_s=monotonic() + SECONDS) == message
        line.close(timeout_s=1.0)


def test_a_text_frame_arrives_as_text_and_fragments_arrive_as_one_message() -> None:
    def speak(connection: object) -> None:
        connection.send("Traceback äöü")  # type: ignore[attr-defined]
        connection.send([b"one", b"", b"two"])  # type: ignore[attr-defined]

    with websocket_server(speak) as uri:
        line = opened(uri)
        assert line.receive(deadline_s=monotonic() + SECONDS) == "Traceback äöü"
        assert line.receive(deadline_s=monotonic() + SECONDS) == b"onetwo"
        line.close(timeout_s=1.0)


def test_a_silent_server_ends_the_wait_at_the_deadline() -> None:
    with silent_server() as uri:
        line = opened(uri)
        start_s = monotonic()
        with pytest.raises(LineExpired):
            line.receive(deadline_s=start_s + 0.3)
        assert 0.25 < monotonic() - start_s < BUSY_S  # without a deadline it is LONG_S
        line.discard()


def test_a_close_by_the_server_is_told_with_its_code_and_reason() -> None:
    with websocket_server(lambda connection: connection.close(1011, "out of memory")) as uri:
        line = opened(uri)
        with pytest.raises(LineLost, match="code 1011, out of memory"):
            line.receive(deadline_s=monotonic() + SECONDS)
        line.discard()


def test_a_message_above_the_servers_limit_is_told_as_too_large() -> None:
    with websocket_server(echo, max_size=1000) as uri:
        line = opened(uri)
        with pytest.raises(LineTooLarge):
            line.send(b"x" * 2000, deadline_s=monotonic() + SECONDS)
            line.receive(deadline_s=monotonic() + SECONDS)
        line.discard()


def test_a_message_above_our_own_limit_is_never_taken_in() -> None:
    with websocket_server(lambda connection: connection.send(b"x" * 5000)) as uri:
        line = opened(uri, max_message_bytes=1000)
        with pytest.raises(LineTooLarge, match="5000"):
            line.receive(deadline_s=monotonic() + SECONDS)
        line.discard()


def test_endless_fragments_are_cut_off() -> None:
    def drip(connection: object) -> None:
        connection.send(b"" for _ in range(line_module.MAX_FRAGMENTS + 10))  # type: ignore[attr-defined]

    with websocket_server(drip) as uri:
        line = opened(uri)
        with pytest.raises(LineLost, match="fragments"):
            line.receive(deadline_s=monotonic() + SECONDS)
        line.discard()


def test_no_compression_is_asked_for() -> None:
    asked: list[str | None] = []

    def look(connection: object) -> None:
        asked.append(connection.request.headers.get("Sec-WebSocket-Extensions"))  # type: ignore[attr-defined]
        connection.send(b"seen")  # type: ignore[attr-defined]

    with websocket_server(look, compression="deflate") as uri:
        line = opened(uri)
        line.receive(deadline_s=monotonic() + SECONDS)
        line.close(timeout_s=1.0)
    assert asked == [None]


def test_between_calls_a_ping_of_the_server_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "IDLE_LOOK_S", 0.05)
    answered = threading.Event()

    def ping(connection: object) -> None:
        if connection.ping().wait(SECONDS):  # type: ignore[attr-defined]
            answered.set()

    with websocket_server(ping) as uri:
        line = opened(uri)
        assert answered.wait(SECONDS)
        line.close(timeout_s=1.0)


def test_during_a_call_pings_go_out_and_a_missing_pong_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "PING_INTERVAL_S", 0.1)
    heard: list[bytes] = []

    def pings() -> int:
        return sum(data.count(b"\x89") for data in heard)

    def deaf(peer: object) -> None:
        accept_websocket(peer)
        peer.settimeout(SECONDS)  # type: ignore[attr-defined]
        while pings() < 6:
            heard.append(peer.recv(4096))  # type: ignore[attr-defined]
        peer.sendall(b"\x82\x02ok")  # type: ignore[attr-defined]

    with socket_server(deaf) as port:
        line = opened(f"ws://127.0.0.1:{port}")
        assert line.receive(deadline_s=monotonic() + SECONDS) == b"ok"
        line.discard()
    assert pings() >= 6


def accept_websocket(peer: object) -> None:
    """Answer a handshake by hand and nothing more."""
    from websockets.server import ServerProtocol

    protocol = ServerProtocol()
    while not (events := protocol.events_received()):
        protocol.receive_data(peer.recv(4096))  # type: ignore[attr-defined]
    protocol.send_response(protocol.accept(events[0]))
    for data in protocol.data_to_send():
        peer.sendall(data)  # type: ignore[attr-defined]


def test_a_closed_port_a_silent_one_and_a_wrong_one_each_have_their_reason() -> None:
    with closed_port() as port, pytest.raises(NoLine, match="refused") as refused:
        opened(f"ws://127.0.0.1:{port}")
    assert refused.value.transient
    with socket_server(lambda peer: None) as port, pytest.raises(NoLine, match="does not answer the WebSocket"):
        open_line(f"ws://127.0.0.1:{port}", deadline_s=monotonic() + 0.3, max_message_bytes=1000)
    with (
        socket_server(lambda peer: peer.sendall(b"220 mail.example ESMTP\r\n")) as port,
        pytest.raises(NoLine, match="no WebSocket server") as other,
    ):
        opened(f"ws://127.0.0.1:{port}")
    assert not other.value.transient
    with socket_server(lambda peer: peer.close()) as port, pytest.raises(NoLine):
        opened(f"ws://127.0.0.1:{port}")


def test_a_refusal_over_http_shows_its_status_and_text() -> None:
    body = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 15\r\n\r\none client only"
    with (
        socket_server(lambda peer: peer.sendall(body)) as port,
        pytest.raises(NoLine, match="503: one client") as busy,
    ):
        opened(f"ws://127.0.0.1:{port}")
    assert busy.value.transient


def test_no_thread_outlives_close() -> None:
    before = set(threading.enumerate())
    with websocket_server(echo) as uri:
        lines = [opened(uri) for _ in range(3)]
        kept = [thread for thread in threading.enumerate() if thread.name == "trialplate-line"]
        assert len(set(kept) - before) == 3
        for line in lines:
            line.close(timeout_s=1.0)
        assert not any(thread.is_alive() for thread in set(kept) - before)


# -- servers that talk without end -----------------------------------------------------------------------------------


def until_gone(peer: object, data: bytes) -> None:
    """Send ``data`` over and over after the handshake, until the client has left."""
    accept_websocket(peer)
    with suppress(OSError):
        while True:
            peer.sendall(data)  # type: ignore[attr-defined]


PINGS = b"\x89\x00" * 2000


@pytest.mark.parametrize("data", [PINGS, b"\x8a\x00" * 2000], ids=["pings", "pongs"])
def test_a_server_that_never_stops_pinging_does_not_put_the_deadline_off(data: bytes) -> None:
    with socket_server(lambda peer: until_gone(peer, data)) as port:
        line = opened(f"ws://127.0.0.1:{port}")
        start_s = monotonic()
        with pytest.raises(LineExpired):
            line.receive(deadline_s=start_s + 0.3)
        line.close(timeout_s=0.2)
        assert monotonic() - start_s < BUSY_S  # without a deadline it ends when the server is cut off: LONG_S


def test_a_server_that_never_stops_pinging_does_not_hold_a_look_at_the_connection() -> None:
    with socket_server(lambda peer: until_gone(peer, PINGS)) as port:
        line = opened(f"ws://127.0.0.1:{port}")
        start_s = monotonic()
        assert line.alive()
        assert line.unread() == 0
        assert monotonic() - start_s < BUSY_S  # LONG_S when a look goes on for as long as something comes
        line.discard()


def test_messages_that_nobody_asked_for_are_left_in_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "IDLE_LOOK_S", 0.02)
    frame = b"\x82\x7f" + (2**20).to_bytes(8, "big") + bytes(2**20)
    with socket_server(lambda peer: until_gone(peer, frame)) as port:
        line = opened(f"ws://127.0.0.1:{port}", max_message_bytes=2**20)
        tracemalloc.start()
        time.sleep(0.5)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        ends_s = monotonic() + SECONDS
        while not line.unread() and monotonic() < ends_s:
            time.sleep(0.02)
        assert line.unread() == 1
        assert most < 8 * 2**20
        line.discard()


def test_a_message_that_drips_in_ends_the_wait_at_the_deadline() -> None:
    def drip(peer: object) -> None:
        accept_websocket(peer)
        peer.sendall(b"\x82\x7e\xff\xff")  # type: ignore[attr-defined]
        with suppress(OSError):
            while True:
                peer.sendall(b"x")  # type: ignore[attr-defined]
                time.sleep(0.001)  # the whole message takes more than LONG_S

    with socket_server(drip) as port:
        line = opened(f"ws://127.0.0.1:{port}")
        start_s = monotonic()
        with pytest.raises(LineExpired):
            line.receive(deadline_s=start_s + 0.3)
        assert monotonic() - start_s < BUSY_S
        line.discard()


@pytest.mark.parametrize(
    ("frames", "kind", "told"),
    [
        (b"\x88\x02\x03\xf3", LineLost, "code 1011"),
        (b"\x88\x02\x03\xf1", LineTooLarge, "refuses"),
        (b"\x82\x84abcdefgh", LineLost, "broke the WebSocket protocol"),
        (b"\xf2\x00", LineLost, "broke the WebSocket protocol"),
        (b"\x80\x00", LineLost, "broke the WebSocket protocol"),
        (b"\x89\x7e\x01\x00" + bytes(256), LineLost, "broke the WebSocket protocol"),
        (b"\x82\x7f\x7f" + b"\xff" * 7, LineTooLarge, "sent too much"),
        (b"\x82\x7f\x00\x00\x00\x00\x00\x20\x00\x01", LineTooLarge, "sent too much"),
    ],
    ids=["close", "close as too large", "masked", "reserved bits", "continuation of nothing", "long ping", "2**63",
         "over the limit"],
)  # fmt: skip
def test_what_ends_a_conversation_is_told_at_once_though_the_socket_stays_open(
    frames: bytes, kind: type[LineLost], told: str
) -> None:
    def speak(peer: object) -> None:
        accept_websocket(peer)
        peer.sendall(frames)  # type: ignore[attr-defined]

    with socket_server(speak) as port:
        line = opened(f"ws://127.0.0.1:{port}")
        start_s = monotonic()
        with pytest.raises(kind, match=told):
            line.receive(deadline_s=start_s + LONG_S)
        assert monotonic() - start_s < BUSY_S  # else not before the deadline
        line.discard()


def test_a_message_before_the_close_frame_is_still_read() -> None:
    def speak(peer: object) -> None:
        accept_websocket(peer)
        peer.sendall(b"\x81\x03why\x88\x02\x03\xf3")  # type: ignore[attr-defined]

    with socket_server(speak) as port:
        line = opened(f"ws://127.0.0.1:{port}")
        assert line.receive(deadline_s=monotonic() + SECONDS) == "why"
        with pytest.raises(LineLost, match="1011"):
            line.receive(deadline_s=monotonic() + SECONDS)
        line.discard()


def test_a_server_that_goes_away_between_calls_need_not_wait_for_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_module, "IDLE_LOOK_S", 0.05)
    with websocket_server(echo, close_timeout=LONG_S) as uri:
        line = opened(uri)
        start_s = monotonic()
    assert monotonic() - start_s < BUSY_S  # the server has heard its client's good-bye: without one it waits LONG_S
    assert not line.alive()
    with pytest.raises(LineLost, match="code 1001"):
        line.send(b"x", deadline_s=monotonic() + SECONDS)
    line.discard()


@pytest.mark.parametrize("name", ["a" * 70, "a..b"])
def test_a_name_that_no_host_can_have_is_told(name: str) -> None:
    with pytest.raises(NoLine, match=r"no name of a host|no TCP connection"):
        opened(f"ws://{name}:1")
