"""Nobody keeps others out of a policy server, or takes its memory, by doing nothing, by talking or by not reading."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from lying_servers import BUSY_S, LONG_S
from served_policies import DECLARED, Instance, Stub, asked, begin, look, setting
from trialplate.errors import HarnessFault
from trialplate.policies.client.websocket import WebSocketActor
from trialplate.policies.messages.writing import reset_message
from trialplate.policies.server import seats
from trialplate.policies.server import server as server_module
from trialplate.policies.server.hosting import serving
from trialplate.policies.server.own_dialect import OwnDialect, OwnSession
from trialplate.policies.server.server import ServeSettings
from trialplate.policies.wire import own
from trialplate.spec.channels import PolicySpec
from trialplate.spec.registration import Registration

FEWEST = 16
REQUEST = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)


@contextmanager
def plain(uri: str) -> Iterator[socket.socket]:
    """Yield a TCP connection."""
    host, _, port = uri.removeprefix("ws://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=BUSY_S) as peer:
        yield peer


@contextmanager
def stranger(uri: str) -> Iterator[ClientConnection]:
    """Yield a WebSocket that says nothing."""
    with connect(uri, compression=None, ping_interval=None, close_timeout=1) as connection:
        connection.recv(timeout=BUSY_S)
        yield connection


def answered(uri: str, *, within_s: float = BUSY_S) -> WebSocketActor:
    """Return a client that has had an answer of the policy; it tries to get in for ``within_s``."""
    actor = WebSocketActor(uri, setting(connect_timeout_s=within_s))
    actor.reset(begin(), None)  # type: ignore[arg-type]
    asked(actor, look())
    return actor


def ends(peer: socket.socket) -> bool:
    """Read what is left; return whether the other side has ended the connection."""
    with suppress(ConnectionError):
        while peer.recv(2**16):
            continue
    return True


def health(uri: str) -> int:
    connection = HTTPConnection(uri.removeprefix("ws://"), timeout=BUSY_S)
    connection.request("GET", "/healthz")
    status = connection.getresponse().status
    connection.close()
    return status


# -- at the door ----------------------------------------------------------------------------------------------------


def test_of_too_many_at_the_door_the_oldest_goes_and_everybody_who_shakes_hands_comes_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seats, "MOST_AT_THE_DOOR", 3)
    with serving(Stub) as uri, ExitStack() as held:
        silent = [held.enter_context(plain(uri)) for _ in range(3)]
        time.sleep(0.05)
        answered(uri).close()
        assert health(uri) == 200
        assert ends(silent[0])
        silent[1].sendall(REQUEST + b"\r\n")
        assert silent[1].recv(4096).startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize("line", [b"X-Long: " + b"a" * 8000 + b"\r\n", b"X: y\r\n"])
def test_a_request_that_goes_on_and_on_is_not_taken_in(line: bytes) -> None:
    with serving(Stub) as uri, plain(uri) as peer:
        peer.sendall(REQUEST)
        with suppress(ConnectionError):
            for _ in range(0, 2**20, len(line)):
                peer.sendall(line)
        assert ends(peer)
        assert health(uri) == 200


def test_a_page_in_a_browser_is_refused_and_takes_no_seat() -> None:
    with serving(Instance) as uri:
        with pytest.raises(InvalidStatus) as refused:
            connect(uri, origin="http://localhost:3000")  # type: ignore[arg-type]
        assert refused.value.response.status_code == 403
        actor = WebSocketActor(uri, setting(Instance.declared))
        actor.reset(begin(), None)  # type: ignore[arg-type]
        actor.close()


def test_who_only_stands_at_the_door_does_not_hold_the_end_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "OPEN_TIMEOUT_S", LONG_S)
    with ExitStack() as held:
        with serving(Stub, settings=ServeSettings(port=0, close_timeout_s=LONG_S)) as uri:
            peer = held.enter_context(plain(uri))
            peer.sendall(b"GET / HT")
            assert health(uri) == 200
            start_s = time.monotonic()
        assert time.monotonic() - start_s < BUSY_S  # LONG_S for who waits for the handshake
        assert ends(peer)


# -- seats ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server have as few seats as it ever has."""
    monkeypatch.setattr(seats, "MOST_SEATS", FEWEST)


@pytest.mark.usefixtures("few")
def test_where_no_seat_is_left_the_stranger_who_has_had_one_longest_gives_it_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(Stub) as uri, ExitStack() as held:
        known = answered(uri)
        silent = [held.enter_context(stranger(uri)) for _ in range(FEWEST - 1)]
        with pytest.raises(HarnessFault, match="no seat is left: 16 connected, at most 16"):
            answered(uri, within_s=0.5)
        monkeypatch.setattr(seats, "STRANGER_S", 0.0)
        newcomer = answered(uri)
        with pytest.raises(ConnectionClosed):
            silent[0].recv(timeout=BUSY_S)
        silent[1].ping().wait(BUSY_S)
        asked(known, look(call_index=1))
        newcomer.close()
        known.close()


@pytest.mark.usefixtures("few")
def test_a_client_that_has_asked_the_policy_keeps_its_seat_however_long_it_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seats, "STRANGER_S", 0.0)
    with serving(Stub) as uri:
        known = [answered(uri) for _ in range(FEWEST)]
        with pytest.raises(HarnessFault, match="no seat is left"):
            answered(uri, within_s=0.5)
        for actor in known:
            asked(actor, look(call_index=1))
            actor.close()


def test_a_stranger_does_not_hold_the_only_seat_of_a_policy_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seats, "STRANGER_S", 0.2)
    with serving(Instance) as uri:
        start_s = time.monotonic()
        with stranger(uri):
            actor = WebSocketActor(uri, setting(Instance.declared, connect_timeout_s=BUSY_S))
            actor.reset(begin(), None)  # type: ignore[arg-type]
        assert time.monotonic() - start_s > 0.15  # if the stranger kept the seat, the reset would raise
        actor.close()


@pytest.mark.parametrize(
    ("limit_bytes", "descriptors", "most"),
    [
        (2**20, 20_000, 1024), (2**26, 20_000, 21), (2**30, 20_000, 16), (2**20, 1024, 512), (2**20, 8, 16),
        (2**20, resource.RLIM_INFINITY, 1024),
    ],
)  # fmt: skip
def test_there_are_as_many_seats_as_memory_and_descriptors_allow(
    monkeypatch: pytest.MonkeyPatch, limit_bytes: int, descriptors: int, most: int
) -> None:
    monkeypatch.setattr(seats.resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert seats.most_seats(limit_bytes) == most


# -- with a seat ----------------------------------------------------------------------------------------------------


def test_a_client_that_is_sent_answers_and_reads_none_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seats, "OUTGOING_MOST_BYTES", 2**16)
    ping = b"\x89\xfd\0\0\0\0" + bytes(125)
    with serving(Stub) as uri, plain(uri) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.sendall(REQUEST + b"\r\n")
        with pytest.raises(ConnectionError):
            for _ in range(1000):
                peer.sendall(ping * 500)
        answered(uri).close()


def test_a_machine_that_vanished_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    arrive: Callable[..., None] = seats.Seats.arrive

    def seen(self: seats.Seats, guest: seats.Guest) -> None:
        sock = guest.transport.get_extra_info("socket")
        found.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
        arrive(self, guest)

    monkeypatch.setattr(seats.Seats, "arrive", seen)
    with serving(Stub) as uri, stranger(uri):
        assert found == [120_000]


class SlowSession(OwnSession):
    """Takes long to read a message."""

    read = 0

    def receive(self, data: bytes | str) -> Any:
        """Read slowly."""
        time.sleep(0.05)
        type(self).read += 1
        return super().receive(data)


class SlowDialect(OwnDialect):
    """Makes sessions that take long to read."""

    def session(self) -> OwnSession:
        """Begin a conversation."""
        return SlowSession(self)


def test_messages_that_take_long_to_read_leave_time_for_everybody_else() -> None:
    def slow(declared: PolicySpec) -> SlowDialect:
        return SlowDialect(declared, Registration(), max_message_bytes=2**26)

    SlowSession.read = 0
    with serving(Stub, dialect=slow) as uri, ExitStack() as held:
        for client in [held.enter_context(stranger(uri)) for _ in range(12)]:
            client.send(b"\xc0")
        assert health(uri) == 200
        assert SlowSession.read < 10


class Gated(Stub):
    """Decides when the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.at_work = threading.Event(), threading.Event()

    def act(self, observation: Any) -> Any:
        """Wait for the gate."""
        self.at_work.set()
        assert self.gate.wait(10)
        return super().act(observation)


def test_a_reset_whose_client_has_gone_is_not_carried_out() -> None:
    policy = Gated()
    with serving(lambda: policy, settings=ServeSettings(port=0)) as uri:
        actor = WebSocketActor(uri, setting(DECLARED))
        actor.reset(begin(), None)  # type: ignore[arg-type]
        waiting = threading.Thread(target=asked, args=(actor, look()))
        waiting.start()
        assert policy.at_work.wait(BUSY_S)
        for number in range(5):
            with stranger(uri) as client:
                client.send(own.encode({**reset_message(begin(f"{number:032x}")), "id": 1}))
        time.sleep(0.1)
        policy.gate.set()
        waiting.join(5)
        asked(actor, look(call_index=1))
        actor.close()
    assert [episode.episode for episode in policy.episodes] == ["e" * 32]
