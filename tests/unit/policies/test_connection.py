"""A connection is made in time or not at all, and says which of both and why."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lying_servers import BUSY_S, closed_port, silent_server, socket_server, websocket_server
from trialplate.errors import ContractFault, HarnessFault, PolicyFault, UsageError
from trialplate.policies.client.connection import Connection, connect, seconds


def hear(connection: Any) -> None:
    connection.send(b"hello")
    for message in connection:
        connection.send(message)


MADE: list[Connection] = []


@pytest.fixture(autouse=True)
def _none_left_open() -> Iterator[None]:
    """Close what a test that fails has opened."""
    yield
    while MADE:
        MADE.pop().discard()


def connection_to(uri: str, *, greet: Any = lambda greeting: None, limit: int = 2**20) -> Connection:
    made = Connection(uri, connect_timeout_s=BUSY_S, close_timeout_s=0.5, max_message_bytes=limit, greet=greet)
    MADE.append(made)
    return made


def refusal(uri: str, *, timeout_s: float = 0.5) -> tuple[HarnessFault, float]:
    start_s = time.monotonic()
    with pytest.raises(HarnessFault) as refused:
        connect(uri, timeout_s=timeout_s, max_message_bytes=2**20)
    assert refused.value.code == "connect_failed"
    return refused.value, time.monotonic() - start_s


@pytest.mark.parametrize("value", [-1, 0, 0.0, float("nan"), float("inf"), True, "3", None])
def test_a_time_that_is_none_is_refused_by_its_name(value: Any) -> None:
    with pytest.raises(UsageError, match="connect_timeout_s"):
        seconds("connect_timeout_s", value)
    assert seconds("connect_timeout_s", 3) == 3.0


def test_the_first_message_comes_with_the_connection() -> None:
    with websocket_server(hear) as uri:
        line, greeting = connect(uri, timeout_s=BUSY_S, max_message_bytes=2**20)
        assert greeting == b"hello"
        line.close(timeout_s=0.5)


def test_a_closed_port_is_tried_until_the_time_is_over_and_told_with_the_count() -> None:
    with closed_port() as port:
        fault, took_s = refusal(f"ws://127.0.0.1:{port}")
    assert 0.3 < took_s < BUSY_S  # without a limit it goes on for ever
    assert f"127.0.0.1:{port}" in fault.message
    assert "refused" in fault.message.lower()
    assert "attempts in" in fault.message and "connect_timeout_s 0.5" in fault.message


def test_a_server_that_starts_meanwhile_is_reached() -> None:
    with websocket_server(hear) as uri:
        port = int(uri.rpartition(":")[2])
    started: list[Any] = []

    def start() -> None:
        server = websocket_server(hear, port=port)
        server.__enter__()
        started.append(server)

    late = threading.Timer(0.3, start)
    late.start()
    try:
        line, greeting = connect(uri, timeout_s=BUSY_S, max_message_bytes=2**20)
        assert greeting == b"hello"
        line.close(timeout_s=0.5)
    finally:
        late.join()
        started[0].__exit__(None, None, None)


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (lambda peer: None, "does not answer the WebSocket handshake"),
        (lambda peer: peer.close(), "."),
        (lambda peer: peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), "HTTP 200: hi"),
        (lambda peer: peer.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"), "no WebSocket server"),
    ],
    ids=["silent", "hangs up", "plain HTTP", "half a handshake"],
)
def test_what_is_no_policy_server_is_told_in_time(handler: Any, told: str) -> None:
    with socket_server(handler) as port:
        fault, took_s = refusal(f"ws://127.0.0.1:{port}")
    assert told in fault.message
    assert took_s < BUSY_S  # without a limit a silent server is waited for until it is cut off: LONG_S


def test_a_server_that_shakes_hands_and_then_says_nothing_is_told_in_time() -> None:
    with silent_server() as uri:
        fault, took_s = refusal(uri)
    assert "does not send the first message" in fault.message
    assert took_s < BUSY_S  # without a limit LONG_S


def test_a_first_message_above_the_limit_is_refused_at_once() -> None:
    with websocket_server(lambda connection: connection.send(b"x" * 5000)) as uri:
        with pytest.raises(ContractFault) as large:
            connect(uri, timeout_s=BUSY_S, max_message_bytes=1000)
        assert large.value.code == "message_too_large"


def test_an_address_is_told_without_what_stands_before_the_at() -> None:
    with closed_port() as port:
        fault, _ = refusal(f"ws://user:secret@127.0.0.1:{port}", timeout_s=0.1)
    assert "secret" not in fault.message


def test_a_first_message_that_is_refused_leaves_no_connection() -> None:
    def refuse(greeting: Any) -> None:
        raise ContractFault("not you", code="identity_changed")

    with websocket_server(hear) as uri:
        connection = connection_to(uri, greet=refuse)
        with pytest.raises(ContractFault, match="not you"):
            connection.open()
        with pytest.raises(HarnessFault, match="gone"):
            connection.call(b"x", doing="act", timeout_s=BUSY_S)


def test_a_standing_connection_is_kept_unless_another_one_is_asked_for() -> None:
    greetings: list[Any] = []
    with websocket_server(hear) as uri:
        connection = connection_to(uri, greet=greetings.append)
        connection.open()
        connection.open()
        assert greetings == [b"hello"]
        connection.open(again=True)
        assert greetings == [b"hello"] * 2
        assert connection.call(b"x", doing="act", timeout_s=BUSY_S) == b"x"
        connection.close()
        connection.close()


def test_a_request_above_the_limit_is_refused_with_both_sizes_and_nothing_is_sent() -> None:
    with websocket_server(hear) as uri:
        connection = connection_to(uri, limit=1000)
        connection.open()
        with pytest.raises(ContractFault, match=r"1001 bytes.*1000") as large:
            connection.call(b"x" * 1001, doing="act", timeout_s=BUSY_S)
        assert large.value.code == "message_too_large"
        assert connection.call(b"y", doing="act", timeout_s=BUSY_S) == b"y"
        connection.close()


def test_a_timeout_says_how_long_the_server_has_shown_no_life(monkeypatch: pytest.MonkeyPatch) -> None:
    from trialplate.policies.client import connection as connection_module

    monkeypatch.setattr(connection_module, "PING_INTERVAL_S", 0.05)

    with silent_server(b"hello") as uri:
        connection = connection_to(uri)
        connection.open()
        with pytest.raises(PolicyFault, match=r"no answer within 0\.2 s; its last sign of life") as late:
            connection.call(b"x", doing="act", timeout_s=0.2)
        assert late.value.code == "policy_timeout"


def test_a_message_that_nobody_asked_for_is_handed_out_once_and_ends_the_connection() -> None:
    def chatty(connection: Any) -> None:
        connection.send(b"hello")
        connection.send(b"and more")
        connection.recv()

    with websocket_server(chatty) as uri:
        connection = connection_to(uri)
        connection.open()
        ends_s = time.monotonic() + BUSY_S
        while (more := connection.unasked()) is None and time.monotonic() < ends_s:
            time.sleep(0.02)
        assert more == b"and more"
        assert connection.unasked() is None
        with pytest.raises(HarnessFault, match="gone"):
            connection.call(b"x", doing="act", timeout_s=BUSY_S)
