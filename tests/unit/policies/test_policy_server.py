"""A policy server answers everybody at all times, keeps its memory, and ends in order; over real sockets."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from lying_servers import BUSY_S, LONG_S
from served_policies import DECLARED, Instance, Stub, asked, begin, camera, look, nothing, setting
from trialplate.errors import ContractFault, HarnessFault, PolicyFault, Unavailable, UsageError
from trialplate.policies.client.websocket import WebSocketActor
from trialplate.policies.messages.writing import observation_message, reset_message
from trialplate.policies.server import server as server_module
from trialplate.policies.server.hosting import serving
from trialplate.policies.server.server import ServeSettings
from trialplate.policies.wire import own
from trialplate.record import EpisodeInfo
from trialplate.spec.channels import ObservationSpec


def port_of(uri: str) -> int:
    return int(uri.rpartition(":")[2])


def health(uri: str) -> tuple[int, str]:
    """Return status and text; raises TimeoutError when there is no answer within BUSY_S."""
    with closing(HTTPConnection("127.0.0.1", port_of(uri), timeout=BUSY_S)) as connection:
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        return response.status, response.read().decode()


@contextmanager
def actor(uri: str, **budgets: Any) -> Iterator[WebSocketActor]:
    """Yield an actor that has begun an episode."""
    made = WebSocketActor(uri, setting(**budgets))
    try:
        made.reset(begin(), None)  # type: ignore[arg-type]
        yield made
    finally:
        made.close()


@contextmanager
def raw(uri: str, **options: Any) -> Iterator[ClientConnection]:
    """Yield a plain WebSocket that has heard the hello."""
    with connect(uri, compression=None, max_size=2**27, **options) as connection:
        connection.recv(timeout=BUSY_S)
        yield connection


class Gated(Stub):
    """Decides when the gate is open, and says that it is at work."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.at_work = threading.Event(), threading.Event()
        self.words: list[str] = []

    def act(self, observation: Any) -> Any:
        self.at_work.set()
        assert self.gate.wait(LONG_S)
        self.words.append(observation.instruction)
        return super().act(observation)


@dataclass
class InThread:
    """A call in a thread of its own."""

    call: Any
    result: Any = None

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.result = self.call()
        except BaseException as error:
            self.result = error

    def wait(self) -> Any:
        self.thread.join(BUSY_S)
        assert not self.thread.is_alive()
        return self.result


# -- at all times ---------------------------------------------------------------------------------------------------


def test_health_handshake_and_pings_are_answered_while_the_policy_thinks() -> None:
    policy = Gated()
    with serving(lambda: policy) as uri, actor(uri, first_call_timeout_s=2 * LONG_S) as busy:
        thinking = InThread(lambda: asked(busy, look()))
        try:  # it thinks for LONG_S, or until all have been answered
            assert policy.at_work.wait(BUSY_S)
            assert health(uri) == (200, "alive\n")
            with raw(uri, open_timeout=BUSY_S) as other:
                assert other.ping().wait(BUSY_S)
            assert thinking.thread.is_alive()
        finally:
            policy.gate.set()
        assert thinking.wait().shape == (2, 2)


def test_a_policy_with_a_state_of_its_own_has_one_client_and_the_next_one_hears_why() -> None:
    with serving(Instance) as uri:
        with raw(uri):
            with pytest.raises(InvalidStatus) as refused:
                connect(uri, open_timeout=BUSY_S)  # one that had to wait for its turn would wait for ever
            assert refused.value.response.status_code == 503
            assert b"one client at a time (state: instance)" in (refused.value.response.body or b"")
            assert health(uri)[0] == 200
            waiting = WebSocketActor(uri, setting(Instance.declared, connect_timeout_s=0.3))
            with pytest.raises(HarnessFault, match="one client at a time") as no_seat:
                waiting.reset(begin(), None)  # type: ignore[arg-type]
            assert no_seat.value.code == "connect_failed"
        with raw(uri):
            pass  # the seat is free again


def test_a_client_that_waits_for_the_seat_gets_it_when_the_first_one_leaves() -> None:
    with serving(Instance) as uri, raw(uri) as first:
        threading.Timer(0.2, first.close).start()
        later = WebSocketActor(uri, setting(Instance.declared))
        later.reset(begin(), None)  # type: ignore[arg-type]
        assert asked(later, look()).shape == (2, 2)
        later.close()


def test_a_client_that_leaves_in_mid_thought_frees_its_seat_and_its_waiting_question_is_not_decided() -> None:
    policy = Gated()
    with serving(lambda: policy) as uri:
        with raw(uri) as gone, actor(uri) as busy:
            gone.send(own.encode({**reset_message(begin("f" * 32)), "id": 0}))
            gone.recv(timeout=BUSY_S)
            thinking = InThread(lambda: asked(busy, look(word="left")))
            assert policy.at_work.wait(BUSY_S)
            gone.send(own.encode({**observation_message(look(word="right", episode="f" * 32)), "id": 1}))
            time.sleep(0.1)
            gone.close_socket()
            time.sleep(0.1)
            policy.gate.set()
            thinking.wait()
            asked(busy, look(word="up", call_index=1))
        assert policy.words == ["left", "up"]


# -- sizes and frames -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [8, 100, 104, 105, 148, 149, 300])
def test_an_observation_of_any_size_arrives_as_it_was_sent(side: int) -> None:
    declared = DECLARED.model_copy(
        update={"expects": ObservationSpec(instruction=True, cameras=(camera("a", side, side), camera("b", side, 8)))}
    )
    seen: list[Any] = []

    class Keeping(Stub):
        def spec(self) -> Any:
            return declared

        def act(self, observation: Any) -> Any:
            seen.append({name: pixels.copy() for name, pixels in observation.images.items()})
            return super().act(observation)

    with serving(Keeping) as uri:
        client = WebSocketActor(uri, setting(declared))
        client.reset(begin(), None)  # type: ignore[arg-type]
        sent = [look(declared, call_index=number) for number in range(3)]
        for observation in sent:
            asked(client, observation)
        client.close()
    for observation, images in zip(sent, seen, strict=True):
        assert all(np.array_equal(observation.images[name], images[name]) for name in images)


def test_a_message_in_pieces_and_two_messages_in_one_packet_are_read_like_any_other() -> None:
    reset = own.encode({**reset_message(begin()), "id": 0})
    first, second = (own.encode({**observation_message(look(call_index=n)), "id": n + 1}) for n in range(2))
    with serving(Stub) as uri, raw(uri) as client:
        client.send([reset[:7], b"", reset[7:]])
        assert own.decode(client.recv(timeout=BUSY_S), max_bytes=2**20)["type"] == "ready"
        client.send(first)
        client.send(second)
        answers = [own.decode(client.recv(timeout=BUSY_S), max_bytes=2**20) for _ in range(2)]
        assert [(answer["type"], answer["id"]) for answer in answers] == [("decision", 1), ("decision", 2)]


def test_a_message_above_the_limit_closes_the_connection_with_its_code_before_it_is_taken_in() -> None:
    with serving(Stub) as uri, raw(uri) as client:
        with pytest.raises(ConnectionClosed) as closed:
            client.send(b"\0" * (2**20 + 1))
            client.recv(timeout=BUSY_S)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009


def test_an_actor_hears_that_its_message_is_too_large() -> None:
    with serving(Stub) as uri, actor(uri) as client:
        client._connection.limit_bytes = 2**26  # as if hello had promised more
        with pytest.raises(ContractFault) as large:
            asked(client, look(word="x" * 2**21))
        assert large.value.code == "message_too_large"


def test_a_client_that_begins_a_message_and_does_not_finish_it_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MESSAGE_TIMEOUT_S", 0.3)
    with serving(Stub) as uri, raw(uri) as idle, raw(uri) as slow, raw(uri) as large:
        slow.socket.sendall(b"\x82\xfe\xff\xff" + os.urandom(4) + b"x" * 100)
        large.socket.sendall(b"\x82\xff" + (2**19).to_bytes(8, "big") + os.urandom(4) + b"x" * 100_000)
        for connection in (slow, large):
            with pytest.raises(ConnectionClosed):
                connection.recv(timeout=BUSY_S)
        assert idle.ping().wait(BUSY_S)


def test_a_client_that_does_not_finish_its_handshake_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "OPEN_TIMEOUT_S", 0.3)
    with serving(Stub) as uri, socket.create_connection(("127.0.0.1", port_of(uri)), timeout=BUSY_S) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
        start_s = time.monotonic()
        while slow.recv(4096):
            pass
        assert time.monotonic() - start_s < 3.3  # the library's own limit, which counts without ours, is 10 s


@pytest.mark.parametrize(
    "data",
    [b"\x80\x04\x95garbage", b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\r\n" * 5000, os.urandom(9000)],
)
def test_what_is_no_websocket_is_refused_and_nobody_else_notices(data: bytes) -> None:
    with serving(Stub) as uri, actor(uri) as client:
        with socket.create_connection(("127.0.0.1", port_of(uri)), timeout=5) as peer:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                while peer.recv(4096):
                    pass
        assert asked(client, look()).shape == (2, 2)


# -- faults of the policy -------------------------------------------------------------------------------------------


def test_whatever_reset_raises_or_returns_is_the_policys_own() -> None:
    class Odd(Stub):
        def reset(self, episode: EpisodeInfo) -> Any:
            if episode.instruction == "raise":
                raise HarnessFault("the simulator broke", code="simulator_crash")
            return HarnessFault("the wire broke", code="transport_lost")

    with serving(Odd) as uri:
        client = WebSocketActor(uri, setting())
        with pytest.raises(PolicyFault) as charged:
            client.reset(begin(word="raise"), None)  # type: ignore[arg-type]
        assert charged.value.code == "policy_exception"
        client.reset(begin(), None)  # type: ignore[arg-type]
        assert asked(client, look()).shape == (2, 2)
        client.close()


def test_a_policy_that_raises_costs_one_answer_and_the_connection_stays() -> None:
    with serving(Stub) as uri, actor(uri) as client:
        with pytest.raises(PolicyFault, match="no plan for this word") as raised:
            client.ask(look(word="raise"), nothing)
        assert raised.value.code == "policy_exception"
        assert asked(client, look(call_index=1)).shape == (2, 2)


# -- beginning and end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"max_batch_size": 0}, "max_batch_size"), ({"max_batch_size": True}, "max_batch_size"),
        ({"max_batch_size": 1.0}, "max_batch_size"), ({"max_wait_s": -0.001}, "max_wait_ms"),
        ({"max_wait_s": float("nan")}, "max_wait_ms"), ({"max_wait_s": float("inf")}, "max_wait_ms"),
        ({"max_message_bytes": 2**40}, "max_message_bytes"), ({"close_timeout_s": 0}, "close_timeout_s"),
        ({"close_timeout_s": "3"}, "close_timeout_s"), ({"host": "0.0.0.0"}, "allow-remote"),
        ({"host": "192.0.2.1"}, "allow-remote"),
    ],
)  # fmt: skip
def test_a_setting_that_is_none_is_refused_by_its_name(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        ServeSettings(**changed)


def test_a_wait_of_zero_and_a_remote_address_that_is_meant_are_taken() -> None:
    assert ServeSettings(max_wait_s=0, host="0.0.0.0", allow_remote=True).host == "0.0.0.0"


def test_a_busy_port_is_told_and_the_policy_is_closed() -> None:
    closed = threading.Event()

    class Closing(Stub):
        def close(self) -> None:
            closed.set()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(Unavailable, match=f"127.0.0.1:{port} cannot be listened on"),
            serving(Closing, settings=ServeSettings(port=port)),
        ):
            pass
    assert closed.wait(BUSY_S)


def test_a_server_that_is_stopped_lets_the_open_question_end_and_says_goodbye_to_the_others() -> None:
    policy = Gated()
    with ExitStack() as clients:
        with serving(lambda: policy) as uri:
            busy, idle = clients.enter_context(actor(uri)), clients.enter_context(raw(uri))
            thinking = InThread(lambda: asked(busy, look()))
            assert policy.at_work.wait(BUSY_S)
            threading.Timer(0.3, policy.gate.set).start()
        assert thinking.wait().shape == (2, 2)
        with pytest.raises(ConnectionClosed) as closed:
            idle.recv(timeout=BUSY_S)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1001, "the policy server is shutting down")
        with pytest.raises(HarnessFault) as gone:
            asked(busy, look(call_index=1))
        assert gone.value.code == "transport_lost"


def test_a_policy_that_does_not_come_back_does_not_hold_the_end_of_the_server() -> None:
    policy = Gated()
    try:
        with serving(lambda: policy, settings=ServeSettings(port=0, close_timeout_s=0.2)) as uri, raw(uri) as client:
            client.send(own.encode({**reset_message(begin()), "id": 0}))
            client.recv(timeout=BUSY_S)
            client.send(own.encode({**observation_message(look()), "id": 1}))
            assert policy.at_work.wait(BUSY_S)
            start_s = time.monotonic()
        assert time.monotonic() - start_s < BUSY_S  # the policy comes back after LONG_S
    finally:
        policy.gate.set()


def test_no_thread_outlives_a_server() -> None:
    before = set(threading.enumerate())
    with serving(Stub) as uri, actor(uri) as client:
        asked(client, look())
    assert {thread.name for thread in set(threading.enumerate()) - before} == set()
