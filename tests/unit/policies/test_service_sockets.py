"""The service over WebSocket: the same messages as msgpack frames, each with its number."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from served_run import HELLO, PROTOCOL, REGISTER, TOKEN, ServedRun, decision, setting
from trialplate.policies.messages import parse_ack, parse_observation, parse_spec
from trialplate.policies.service import connections
from trialplate.policies.service.sockets import MAX_SOCKETS
from trialplate.policies.wire import own


class Talk:
    """One WebSocket that numbers its requests."""

    def __init__(self, line: ClientConnection) -> None:
        self.line, self._number = line, 0

    def ask(self, message: dict[str, Any] | str, **changed: Any) -> dict[str, Any]:
        plain = {"protocol": PROTOCOL, "type": message} if isinstance(message, str) else message
        self._number += 1
        self.line.send(own.encode({**plain, "id": self._number, **changed}))
        reply = own.decode(self.line.recv(timeout=5), max_bytes=2**20)
        assert reply["id"] == changed.get("id", self._number)
        return dict(reply)


@contextmanager
def _open(run: ServedRun, path: str, *, token: str | None = None) -> Iterator[Talk]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    address = run.address.replace("http://", "ws://") + path
    with connect(address, additional_headers=headers, proxy=None, compression=None) as line:
        yield Talk(line)


@pytest.fixture
def run() -> Iterator[ServedRun]:
    with ServedRun() as served:
        yield served


def _begin(run: ServedRun) -> str:
    with run.client() as driver:
        return run.begin(driver)


def test_driver_and_actor_play_every_episode_over_their_sockets(run: ServedRun) -> None:
    with _open(run, "/v1/ws", token=TOKEN) as driver:
        assert driver.ask(HELLO)["role"] == "service"
        assert driver.ask(REGISTER)["exploratory"] is False
        ends, acks = [], []
        while (id_ := driver.ask("start")["episode"]) is not None:
            with _open(run, f"/v1/episodes/{id_}/ws") as actor:
                terms = parse_spec(actor.ask("describe"))
                while (shown := actor.ask("observe"))["type"] == "observation":
                    seen = parse_observation(shown, terms.observation_spec)
                    assert seen.images["front"].dtype == np.uint8
                    acks.append(parse_ack(actor.ask(decision(shown))))
                ends.append(shown["reason"])
        assert (ends, [ack.executed for ack in acks]) == (["step_limit"] * 2, [2] * 6)
        assert driver.ask("status")["state"] == "complete"
        assert driver.ask("results")["attempts"][0]["status"] == "FAIL"


def test_an_action_may_be_an_array_of_float32(run: ServedRun) -> None:
    with _open(run, f"/v1/episodes/{_begin(run)}/ws") as actor:
        chosen = decision(actor.ask("observe"))
        chosen["chunk"] = {"vectors": np.array([[1.0, -1.0]], dtype=np.float32)}
        assert actor.ask(chosen)["executed"] == 1


def test_the_same_decision_again_gets_the_stored_ack_and_another_none(run: ServedRun) -> None:
    with _open(run, f"/v1/episodes/{_begin(run)}/ws") as actor:
        shown = actor.ask("observe")
        first = actor.ask(decision(shown))
        again = actor.ask(decision(shown))
        assert {**first, "id": 0} == {**again, "id": 0}
        assert actor.ask(decision(shown, [[0.1, 0.1]]))["code"] == "out_of_order"
        assert actor.ask("observe")["call_index"] == 1
    assert run.executed == [2]


def test_a_wrong_decision_is_an_error_and_ends_the_attempt(run: ServedRun) -> None:
    with _open(run, f"/v1/episodes/{_begin(run)}/ws") as actor:
        shown = actor.ask("observe")
        assert actor.ask(decision(shown, observation_id="0" * 32))["code"] == "stale_observation"
        assert actor.ask("observe")["reason"] == "error"


@pytest.mark.parametrize("path", ["/v1/ws", "/v1/episodes/{other}/ws", "/v1/nothing", f"/v1/ws?token={TOKEN}"])
def test_no_socket_opens_without_its_key(run: ServedRun, path: str) -> None:
    _begin(run)
    with pytest.raises(InvalidStatus) as refused, _open(run, path.replace("{other}", "0" * 32)):
        pass
    response = refused.value.response
    assert response.status_code == (401 if "/v1/ws" in path else 404)
    assert "date" not in response.headers and "server" not in response.headers


def test_a_handshake_says_nothing_of_the_day_or_the_software(run: ServedRun) -> None:
    with _open(run, f"/v1/episodes/{_begin(run)}/ws") as actor:
        response = actor.line.response
        assert response is not None
        assert "date" not in response.headers and "server" not in response.headers


def test_an_actors_socket_opens_nothing_of_the_management(run: ServedRun) -> None:
    with _open(run, f"/v1/episodes/{_begin(run)}/ws") as actor:
        for kind in ("status", "results", "start", "abort"):
            assert actor.ask(kind)["type"] == "error"


def test_numbers_must_increase(run: ServedRun) -> None:
    with _open(run, f"/v1/episodes/{_begin(run)}/ws") as actor:
        actor.ask("describe", id=7)
        assert actor.ask("observe", id=7)["code"] == "out_of_order"
        assert actor.ask("observe", id=8)["type"] == "observation"


@pytest.mark.parametrize(
    "frame",
    [
        b"", b"\xc1", b"\x81", b"\xdd\xff\xff\xff\xff", b"\x91" * 10_000, own.encode({"type": "observe"}),
        own.encode({"protocol": PROTOCOL, "type": "observe", "id": -1}), b"\x01", "a text frame",
    ],
    ids=repr,
)  # fmt: skip
def test_a_frame_that_cannot_be_read_is_charged_and_the_connection_ends(run: ServedRun, frame: bytes | str) -> None:
    with _open(run, f"/v1/episodes/{_begin(run)}/ws") as actor:
        actor.ask("observe")
        actor.line.send(frame)
        reply = own.decode(actor.line.recv(timeout=5), max_bytes=2**20)
        assert (reply["id"], reply["code"]) == (None, "wire_malformed")
        with pytest.raises(ConnectionClosed):
            actor.line.recv(timeout=5)
    run.table.stop("the test is over")
    run.thread.join(2)
    assert [fault.code for fault in run.faults][:1] == ["wire_malformed"]


def test_a_frame_above_the_limit_is_charged_and_the_connection_ends(run: ServedRun) -> None:
    id_ = _begin(run)
    with _open(run, f"/v1/episodes/{id_}/ws") as actor, pytest.raises(ConnectionClosed) as closed:
        actor.ask("observe")
        actor.line.send(b"\xc4" * (run.desk.decision_bytes * 4))
        actor.line.recv(timeout=5)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
    with _open(run, f"/v1/episodes/{id_}/ws") as actor:
        assert actor.ask("observe")["reason"] == "error"
    assert [fault.code for fault in run.faults] == ["message_too_large"]


def test_a_peer_that_finds_our_frame_too_large_has_given_no_answer(run: ServedRun) -> None:
    id_ = _begin(run)
    with _open(run, f"/v1/episodes/{id_}/ws") as actor:
        actor.ask("observe")
        actor.line.close(1009)
    with _open(run, f"/v1/episodes/{id_}/ws") as actor:
        assert actor.ask("observe")["type"] == "observation"


def test_a_lost_connection_costs_nothing_and_can_be_opened_again(run: ServedRun) -> None:
    id_ = _begin(run)
    with _open(run, f"/v1/episodes/{id_}/ws") as actor:
        shown = actor.ask("observe")
    with _open(run, f"/v1/episodes/{id_}/ws") as actor:
        assert actor.ask("observe")["observation_id"] == shown["observation_id"]
        assert actor.ask(decision(shown))["accepted"] is True


def test_a_past_id_is_refused_and_its_connection_ended(run: ServedRun) -> None:
    with run.client() as driver:
        id_ = run.begin(driver)
        with _open(run, f"/v1/episodes/{id_}/ws") as actor:
            assert actor.ask("observe")["type"] == "observation"
            driver.post(f"/v1/episodes/{id_}/close").raise_for_status()
            assert actor.ask("observe")["reason"] == "aborted"
            driver.post("/v1/episodes").raise_for_status()
            assert actor.ask("observe")["code"] == "unknown_episode"
            with pytest.raises(ConnectionClosed):
                actor.line.recv(timeout=5)


def test_only_a_few_connections_of_one_holder_are_kept(run: ServedRun) -> None:
    address = f"/v1/episodes/{_begin(run)}/ws"
    opened = [_open(run, address) for _ in range(MAX_SOCKETS)]
    talks = [one.__enter__() for one in opened]
    with pytest.raises(InvalidStatus) as refused, _open(run, address):
        pass
    assert refused.value.response.status_code == 503
    assert all(talk.ask("observe")["type"] == "observation" for talk in talks)
    opened.pop().__exit__(None, None, None)
    for one in opened:
        one.__exit__(None, None, None)


def test_under_feedback_the_socket_tells_the_issue() -> None:
    terms = setting(invalid_action_handling="feedback", max_calls=3)
    with ServedRun(terms) as run, _open(run, f"/v1/episodes/{_begin(run)}/ws") as actor:
        first = actor.ask("observe")
        assert actor.ask({"protocol": PROTOCOL, "type": "decision"})["code"] == "invalid_response_schema"
        second = actor.ask("observe")
        assert second["observation_id"] == first["observation_id"]
        assert second["issue"]["code"] == "invalid_response_schema"


def test_the_same_nonsense_on_each_socket_frame_uses_up_a_call_each_time() -> None:
    terms = setting(invalid_action_handling="feedback", max_calls=3)
    with ServedRun(terms) as run, _open(run, f"/v1/episodes/{_begin(run)}/ws") as actor:
        for index in range(3):
            assert actor.ask("observe")["call_index"] == index
            assert actor.ask({"protocol": PROTOCOL, "type": "decision"})["code"] == "invalid_response_schema"
        assert actor.ask("observe")["type"] == "episode_end"


def test_a_socket_outlives_the_deadline_for_headers(run: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_TIMEOUT_S", 0.2)
    with _open(run, f"/v1/episodes/{_begin(run)}/ws") as actor:
        shown = actor.ask("observe")
        threading.Event().wait(0.6)
        assert actor.ask(decision(shown))["accepted"] is True


def test_a_driver_that_closes_a_past_episode_hears_it_and_goes_on(run: ServedRun) -> None:
    with _open(run, "/v1/ws", token=TOKEN) as driver:
        driver.ask(HELLO)
        driver.ask(REGISTER)
        past = driver.ask("start")["episode"]
        close = {"protocol": PROTOCOL, "type": "close", "episode": past}
        assert driver.ask(close)["reason"] == "aborted"
        assert driver.ask("start")["episode"] != past
        assert driver.ask(close)["code"] == "unknown_episode"
        assert driver.ask("status")["state"] == "running"
