"""Rows 23, 25, 27, 30, 37, 38 and 48 of the policy contract, at the doors of a `trialplate serve` process."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

import served_campaign as sc
from trialplate import api
from trialplate.policies.in_process import in_process_decision, load_policy
from trialplate.policies.messages import decision_message, info_of, parse_ack, parse_observation, parse_spec
from trialplate.policies.wire import own
from trialplate.store.view import read_campaign

MOVED = [0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
SEEN = ("front", "wrist", "ee_pos")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sc.Running]:
    """One service with a dozen planned episodes; each test begins its own."""
    folder = tmp_path_factory.mktemp("rows")
    sc.locked(folder, sc.served("there", replan_interval="2"), scenarios=10, repeats=2)
    with sc.serving(folder) as running:
        yield running


@pytest.fixture
def driver(service: sc.Running) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


@pytest.fixture
def actor(service: sc.Running) -> Iterator[httpx.Client]:
    with service.client(token=False) as client:
        yield client


def _error(response: httpx.Response) -> tuple[int, str]:
    message = response.json()
    assert message["type"] == "error" and len(message["message"].encode()) <= 512
    return response.status_code, message["code"]


def _leave(driver: httpx.Client, base: str) -> None:
    driver.post(f"{base}/close").raise_for_status()


# -- rows 23, 25, 27 -------------------------------------------------------------------------------------------------


def test_row_23_an_act_sent_again_gets_the_stored_ack_and_another_body_is_out_of_order(
    service: sc.Running, driver: httpx.Client, actor: httpx.Client
) -> None:
    base = service.begin(driver)
    body = json.dumps(sc.decision(actor.get(f"{base}/observe").json(), [MOVED, MOVED, MOVED])).encode()
    first = actor.post(f"{base}/act", content=body)
    ack = parse_ack(first.json())
    assert (ack.executed, ack.dropped_tail) == (2, 1)
    assert [actor.post(f"{base}/act", content=body).content for _ in range(3)] == [first.content] * 3
    assert _error(actor.post(f"{base}/act", content=body.replace(b"0.01", b"0.02"))) == (409, "out_of_order")
    seen = actor.get(f"{base}/observe").json()
    assert (seen["call_index"], seen["remaining"]["steps"]) == (1, 58)
    _leave(driver, base)
    row = sc.last_row(service.folder)
    assert (row.control_steps, row.calls) == (2, 2)  # the second was open when the episode was left


def test_row_23_an_act_whose_reply_was_lost_is_answered_by_sending_it_again(
    service: sc.Running, driver: httpx.Client, actor: httpx.Client
) -> None:
    base = service.begin(driver)
    body = json.dumps(sc.decision(actor.get(f"{base}/observe").json(), [MOVED, MOVED])).encode()
    host, _, port = service.address.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port))) as lost:
        lost.sendall(f"POST {base}/act HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    sc.eventually(lambda: actor.get(f"{base}/observe").json()["call_index"] == 1)
    assert parse_ack(actor.post(f"{base}/act", content=body).json()).executed == 2
    assert actor.get(f"{base}/observe").json()["remaining"]["steps"] == 58
    _leave(driver, base)
    assert sc.last_row(service.folder).control_steps == 2


def test_row_25_nothing_begins_before_register(tmp_path: Path) -> None:
    sc.locked(tmp_path, sc.served("there"))
    with sc.serving(tmp_path) as service, service.client() as driver:
        assert _error(driver.post("/v1/episodes")) == (409, "registration_missing")
        driver.post("/v1/hello", json=sc.HELLO).raise_for_status()
        assert _error(driver.post("/v1/episodes")) == (409, "registration_missing")
    assert read_campaign(tmp_path / "c").records == ()


def test_row_27_the_id_of_an_episode_opens_neither_results_nor_another_episode(
    service: sc.Running, driver: httpx.Client
) -> None:
    past = service.begin(driver)
    _leave(driver, past)
    base = driver.post("/v1/episodes").json()["actor"]
    id_ = base.rsplit("/", 1)[1]
    with httpx.Client(base_url=service.address, headers={"authorization": f"Bearer {id_}"}, trust_env=False) as actor:
        for path in ("/v1/results", "/v1/status"):
            assert _error(actor.get(path)) == (401, "unauthorized")
        for path in ("/v1/episodes", "/v1/abort", f"{base}/close", "/v1/hello", "/v1/register"):
            assert _error(actor.post(path)) == (401, "unauthorized")
        other = "/v1/episodes/" + "0" * 32
        for foreign in (past, other):
            assert _error(actor.get(f"{foreign}/observe")) == (404, "unknown_episode")
            assert _error(actor.get(f"{foreign}/spec")) == (404, "unknown_episode")
            assert _error(actor.post(f"{foreign}/act", json={})) == (404, "unknown_episode")
        assert actor.get(f"{base}/observe").json()["type"] == "observation"
    for path, status in (("/v1/ws", 401), (f"{past}/ws", 404), (f"{other}/ws", 404)):
        with pytest.raises(InvalidStatus) as refused, _socket(service, path, bearer=id_):
            pass
        assert refused.value.response.status_code == status
    _leave(driver, base)


# -- row 30 ----------------------------------------------------------------------------------------------------------


def test_row_30_a_second_client_is_answered_while_the_policy_thinks(
    service: sc.Running, driver: httpx.Client, actor: httpx.Client
) -> None:
    (service.folder / "sleeper.py").write_text("import time\ndef act(seen): time.sleep(60)\n", encoding="utf-8")
    thinking = sc.start_driver(service, "python", "sleeper:act")
    try:
        id_ = sc.eventually(lambda: driver.get("/v1/status").json()["episode"])
        base = f"/v1/episodes/{id_}"
        asked_s: list[float] = []
        for _ in range(5):
            start_s = monotonic()
            assert actor.get("/healthz").status_code == 200
            asked_s.append(monotonic() - start_s)
        start_s = monotonic()
        assert driver.post("/v1/hello", json=sc.HELLO).json()["role"] == "service"
        assert _error(driver.post("/v1/episodes")) == (409, "out_of_order")
        with _socket(service, f"{base}/ws") as second:
            assert _ask(second, {"protocol": sc.PROTOCOL, "type": "observe"}, 1)["type"] == "observation"
        assert monotonic() - start_s < 20  # inference lasts 60
        assert min(asked_s) < 1 and max(asked_s) < 20  # one may find the machine busy, not all of them
        assert thinking.poll() is None
        _leave(driver, base)
    finally:
        thinking.kill()
        thinking.communicate(timeout=10)


# -- row 37 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code", "status"),
    [
        (('"call_index": 0', '"call_index": NaN'), "wire_malformed", "ERROR"),
        (('"call_index": 0', '"call_index": 0, "call_index": 0'), "wire_malformed", "ERROR"),
        (('"call_index": 0', '"call_index": 0, "surprise": 1'), "invalid_response_schema", "FAIL"),
        (('"call_index": 0', '"call_index": 0, "score": Infinity'), "wire_malformed", "ERROR"),
    ],
    ids=["NaN", "duplicate key", "unknown key", "Infinity"],
)
def test_row_37_json_that_is_not_strict_is_a_400_and_charged(
    service: sc.Running, driver: httpx.Client, actor: httpx.Client, change: tuple[str, str], code: str, status: str
) -> None:
    base = service.begin(driver)
    text = json.dumps(sc.decision(actor.get(f"{base}/observe").json()))
    assert _error(actor.post(f"{base}/act", content=text.replace(*change))) == (400, code)
    assert actor.get(f"{base}/observe").json()["reason"] == "error"
    row = sc.last_row(service.folder)
    assert (row.fault_code, row.control_steps) == (code, 0)
    (verdict,) = [o for o in api.score(service.folder / "c") if o.trial_id == row.trial_id]
    assert verdict.status.value == status


# -- row 38 ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One policy that sees pictures, in process and over both wires of the service."""
    folder = tmp_path_factory.mktemp("wires")
    arms = [sc.inside("here", "arms.py:Seeing", profile="standard", replan_interval="4", options="{ rows = 6 }")]
    arms += [sc.served(name, seen=SEEN, profile="standard", replan_interval="4") for name in ("json", "ws")]
    api.run(sc.locked(folder, *arms, scenarios=4))
    with sc.serving(folder, "--resume", arm="json") as service:
        sc.drive(service, "python", *sc.bridge("arms.py:Seeing", rows=6))
        service.ended(expected=1)
    with sc.serving(folder, "--resume", arm="ws") as service:
        _play_over_sockets(service, load_policy("arms.py:Seeing", base=folder, weights=(), options={"rows": 6}))
        service.ended()
    return folder


@pytest.mark.parametrize("wire", ["json", "ws"])
def test_row_38_the_service_gives_the_actions_and_results_of_the_same_policy_in_process(
    everywhere: Path, wire: str
) -> None:
    assert sc.digests(everywhere, wire) == sc.digests(everywhere, "here")
    assert sc.verdicts(everywhere, wire) == sc.verdicts(everywhere, "here")
    assert [status for _, status, _ in sc.verdicts(everywhere, wire)] == ["PASS"] * 4
    for outside, inside in zip(sc.rows(everywhere, wire), sc.rows(everywhere, "here"), strict=True):
        assert outside.rows_executed == inside.rows_executed > 0 and outside.rows_dropped == inside.rows_dropped > 0
        assert (outside.calls, outside.termination) == (inside.calls, inside.termination)
        assert outside.initial_state_sha256 == inside.initial_state_sha256
        assert (outside.echo, outside.usage, outside.usage_reason) == ("policy", None, "not_metered")


def test_row_38_a_campaign_that_was_played_from_outside_verifies(everywhere: Path) -> None:
    assert sc.verified(everywhere)["findings"] == []


def test_row_38_a_driver_in_node_gives_the_actions_of_the_same_policy_in_process(tmp_path: Path) -> None:
    sc.node()
    lock = sc.locked(tmp_path, sc.inside("here", "arms.py:Arm"), sc.served("node"))
    api.run(lock)
    with sc.serving(tmp_path, "--resume") as service:
        sc.drive(service, "node", *sc.bridge("arms.py:Arm"))
        service.ended()
    assert sc.digests(tmp_path, "node") == sc.digests(tmp_path, "here")
    assert sc.verdicts(tmp_path, "node") == sc.verdicts(tmp_path, "here")


# -- row 48 ----------------------------------------------------------------------------------------------------------


def test_row_48_a_service_killed_after_the_first_control_leaves_an_interrupted_attempt_and_replays_nothing(
    tmp_path: Path,
) -> None:
    sc.locked(tmp_path, sc.served("there"), scenarios=3)
    with sc.serving(tmp_path) as service, service.client() as driver, service.client(token=False) as actor:
        base = service.begin(driver)
        ack = actor.post(f"{base}/act", json=sc.decision(actor.get(f"{base}/observe").json(), [MOVED])).json()
        assert (ack["executed"], ack["next"]) == (1, "observation")
        service.kill()
        service.process.wait(10)
    with sc.serving(tmp_path, "--resume") as service, service.client() as driver:
        assert service.told[2].startswith("2 of 3 trials")
        sc.drive(service, "python", *sc.bridge("arms.py:Arm"))
        service.ended(expected=1)
    rows = sc.rows(tmp_path, "there")
    assert [(row.termination, row.attempt) for row in rows] == [
        ("interrupted", 0), ("policy_stop", 0), ("policy_stop", 0),
    ]  # fmt: skip
    started = [r["data"]["trial_id"] for r in read_campaign(tmp_path / "c").records if r["type"] == "attempt.start"]
    assert started == ["000000", "000001", "000002"]
    verdicts = [(status, reason) for _, status, reason in sc.verdicts(tmp_path, "there")]
    assert verdicts[0] == ("ERROR", "interrupted") and [status for status, _ in verdicts[1:]] == ["PASS", "PASS"]
    assert sc.verified(tmp_path)["findings"] == []


# -- the WebSocket of the service ------------------------------------------------------------------------------------


@contextmanager
def _socket(service: sc.Running, path: str, *, bearer: str | None = None) -> Iterator[ClientConnection]:
    headers = {} if bearer is None else {"Authorization": f"Bearer {bearer}"}
    address = service.address.replace("http://", "ws://") + path
    with connect(address, additional_headers=headers, proxy=None, compression=None, max_size=2**26) as line:
        yield line


def _ask(line: ClientConnection, message: dict[str, Any], number: int) -> dict[str, Any]:
    line.send(own.encode({**message, "id": number}))
    reply = own.decode(line.recv(timeout=20), max_bytes=2**26)
    assert reply["id"] == number
    return dict(reply)


def _play_over_sockets(service: sc.Running, policy: Any) -> None:
    """Drive the whole run with msgpack frames: one socket for the driver, one for each episode's actor."""
    with _socket(service, "/v1/ws", bearer=service.token) as driver:
        numbers = iter(range(10_000))
        _ask(driver, sc.HELLO, next(numbers))
        _ask(driver, sc.REGISTER, next(numbers))
        start = {"protocol": sc.PROTOCOL, "type": "start"}
        while (started := _ask(driver, start, next(numbers)))["episode"] is not None:
            with _socket(service, f"{started['actor']}/ws") as actor:
                _play_episode(actor, policy)
        assert started["reason"] == "complete"


def _play_episode(actor: ClientConnection, policy: Any) -> None:
    numbers = iter(range(10_000))
    spec = parse_spec(_ask(actor, {"protocol": sc.PROTOCOL, "type": "describe"}, next(numbers)))
    policy.reset(info_of(spec))
    look = {"protocol": sc.PROTOCOL, "type": "observe"}
    while (seen := _ask(actor, look, next(numbers)))["type"] == "observation":
        observation = parse_observation(seen, spec.observation_spec)
        chosen = decision_message(in_process_decision(policy.act(observation)), observation)
        assert parse_ack(_ask(actor, chosen, next(numbers))).accepted
