"""A connection carries messages both ways, keeps alive by itself, and says plainly how it ended."""

from __future__ import annotations

import os
import threading
import time
from time import monotonic

import pytest

from lying_servers import closed_port, socket_server, websocket_server
from trialplate.policies.client import line as line_module
from trialplate.policies.client.line import Line, LineExpired, LineLost, LineTooLarge, NoLine, open_line

SECONDS = 5.0


def opened(uri: str, *, max_message_bytes: int = 2**20) -> Line:
    return open_line(uri, deadline_s=monotonic() + SECONDS, max_message_bytes=max_message_bytes)


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
    with websocket_server(lambda connection: time.sleep(1.0)) as uri:
        line = opened(uri)
        start_s = monotonic()
        with pytest.raises(LineExpired):
            line.receive(deadline_s=start_s + 0.3)
        assert 0.25 < monotonic() - start_s < 0.9
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

    def deaf(peer: object) -> None:
        accept_websocket(peer)
        end_s = monotonic() + 0.8
        peer.settimeout(0.1)  # type: ignore[attr-defined]
        while monotonic() < end_s:
            try:
                heard.append(peer.recv(4096))  # type: ignore[attr-defined]
            except TimeoutError:
                continue
        peer.sendall(b"\x82\x02ok")  # type: ignore[attr-defined]

    with socket_server(deaf) as port:
        line = opened(f"ws://127.0.0.1:{port}")
        assert line.receive(deadline_s=monotonic() + SECONDS) == b"ok"
        line.discard()
    assert sum(data.count(b"\x89") for data in heard) >= 3


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
    before = threading.active_count()
    with websocket_server(echo) as uri:
        lines = [opened(uri) for _ in range(3)]
        for line in lines:
            line.close(timeout_s=1.0)
    assert threading.active_count() <= before
