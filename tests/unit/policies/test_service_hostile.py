"""Whoever holds the id of an episode can harm that episode, and nothing else: neither the run nor the next one."""

from __future__ import annotations

import base64
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from lying_servers import BUSY_S, LONG_S
from served_run import HELLO, PROTOCOL, REGISTER, ServedRun, decision, setting
from trialplate.errors import PolicyFault
from trialplate.policies.in_process import in_process_decision
from trialplate.policies.service import connections, http, listener
from trialplate.policies.service.sockets import MAX_SOCKETS
from trialplate.policies.wire import own
from trialplate.record import ActionChunk, PolicyDecision, Usage

MSGPACK = {"content-type": "application/msgpack"}
ARRAYS = [np.array([1.0, 2.0]), np.array([]), np.array(0.0), np.array([[True], [False]])]
MEMBERS = [
    "protocol",
    "type",
    "episode",
    "call_index",
    "observation_id",
    "registration",
    "stop",
    "usage",
    "latency_ms",
]
METERED = {"requests": 1, "input_tokens": 2, "output_tokens": 3, "cost": 0.5}


@pytest.fixture
def run() -> Iterator[ServedRun]:
    with ServedRun(episodes=100) as served:
        yield served


@pytest.fixture
def small_house(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave few places."""
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 12)


@pytest.fixture(scope="module")
def held() -> Iterator[ServedRun]:
    """Give a run for tests that change nothing."""
    with ServedRun() as served:
        yield served


@pytest.fixture
def driver(run: ServedRun) -> Iterator[httpx.Client]:
    with run.client() as client:
        client.post("/v1/hello", json=HELLO).raise_for_status()
        client.post("/v1/register", json=REGISTER).raise_for_status()
        yield client


def _begin(driver: httpx.Client) -> tuple[str, dict[str, Any]]:
    """Start an episode; return its address and the first observation."""
    base = str(driver.post("/v1/episodes").raise_for_status().json()["actor"])
    return base, driver.get(f"{base}/observe").json()


def _plays(driver: httpx.Client) -> bool:
    """Return whether the next episode is played to its end like any other."""
    base, seen = _begin(driver)
    while seen["type"] == "observation":
        if not driver.post(f"{base}/act", json=decision(seen)).json()["accepted"]:
            return False
        seen = driver.get(f"{base}/observe").json()
    return str(seen["reason"]) == "step_limit"


def _as_json(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    data = base64.b64encode(array.tobytes()).decode()
    return {"encoding": "raw", "dtype": array.dtype.str, "shape": list(array.shape), "data_b64": data}


def _frame(kind: int, data: bytes) -> bytes:
    """Return one short frame of a client, masked with nothing."""
    return struct.pack(">BB4x", 0x80 | kind, 0x80 | len(data)) + data


# -- messages that lie -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_an_array_in_place_of_something_else_is_charged_to_the_policy_and_the_run_goes_on(
    run: ServedRun, driver: httpx.Client, member: str, encoding: str
) -> None:
    for array in ARRAYS:
        base, seen = _begin(driver)
        sent: dict[str, Any]
        if encoding == "json":
            sent = {"json": decision(seen, **{member: _as_json(array)})}
        else:
            sent = {"content": own.encode(decision(seen, **{member: array})), "headers": MSGPACK}
        answer = driver.post(f"{base}/act", **sent)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_response_schema")
        assert driver.get(f"{base}/observe").json()["reason"] == "error"
    assert [fault.code for fault in run.faults] == ["invalid_response_schema"] * len(ARRAYS)
    assert run.executed == [] and _plays(driver)


@pytest.mark.parametrize("member", ["role", "arm", "type", "protocol", "registration", "policy_spec"])
def test_an_array_in_a_drivers_message_is_refused(driver: httpx.Client, member: str) -> None:
    for array in ARRAYS:
        for path, message in (("/v1/hello", HELLO), ("/v1/register", REGISTER)):
            answer = driver.post(path, json={**message, member: _as_json(array)})
            assert (answer.status_code, answer.json()["code"]) == (400, "wire_malformed")


@pytest.mark.parametrize(
    "more",
    [
        *({"usage": {**METERED, name: 10**9 + 1}, "usage_reason": None} for name in METERED),
        {"usage": {**METERED, "cost": 1.7e308}, "usage_reason": None},
        {"usage": {**METERED, "requests": 2**53}, "usage_reason": None},
        *({"latency_ms": wrong, "latency_ms_reason": None} for wrong in (1e300, 1e9 + 1, -1.0)),
        {"batch_size": 2**31},
        {"batch_size": 2**53},
    ],
    ids=repr,
)
def test_a_count_that_no_evidence_can_hold_is_charged_to_the_policy(
    run: ServedRun, driver: httpx.Client, more: dict[str, Any]
) -> None:
    base, seen = _begin(driver)
    answer = driver.post(f"{base}/act", json=decision(seen, **more))
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_response_schema")
    assert [fault.code for fault in run.faults] == ["invalid_response_schema"]
    assert _plays(driver)


@pytest.mark.parametrize("usage", [Usage(requests=10**9 + 1), Usage(output_tokens=2**53), Usage(cost=1.7e308)])
def test_a_policy_in_this_process_has_the_same_limit(usage: Usage) -> None:
    with pytest.raises(PolicyFault, match="usage: expected 0 to 1000000000"):
        in_process_decision(PolicyDecision(ActionChunk([[0.0]]), usage=usage))


@pytest.mark.parametrize("latency_ms", [1e300, 1e9 + 1, -1.0, float("nan"), float("inf"), True, np.float64(1)])
def test_a_latency_that_no_call_can_have_is_charged_in_this_process_too(latency_ms: Any) -> None:
    with pytest.raises(PolicyFault, match="latency_ms: expected 0 to 1000000000") as caught:
        in_process_decision(PolicyDecision(ActionChunk([[0.0]]), latency_ms=latency_ms))
    assert caught.value.code == "invalid_response_schema"


# -- requests and sockets without end --------------------------------------------------------------------------------


def test_the_sockets_of_past_episodes_give_way(driver: httpx.Client, run: ServedRun, small_house: None) -> None:
    with ExitStack() as kept:
        for _ in range(8):
            base, _ = _begin(driver)
            for _ in range(MAX_SOCKETS):
                kept.enter_context(suppress(ConnectionClosed, OSError))
                address = run.address.replace("http://", "ws://") + f"{base}/ws"
                kept.callback(connect(address, proxy=None, compression=None).socket.close)
            driver.post(f"{base}/close").raise_for_status()
        assert _plays(driver)


def test_the_requests_of_past_episodes_give_way(
    driver: httpx.Client, run: ServedRun, small_house: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_HELD", 4)
    with ExitStack() as kept:
        for _ in range(8):
            base, _ = _begin(driver)
            for _ in range(4):
                _half_a_body(kept.enter_context(socket.create_connection(_at(run))), base)
            driver.post(f"{base}/close").raise_for_status()
        assert _plays(driver)


def test_an_actor_has_so_many_requests_at_once_and_the_driver_is_answered_beside_them(
    driver: httpx.Client, run: ServedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_HELD", 4)
    base, _ = _begin(driver)
    with ExitStack() as kept:
        for _ in range(4):
            _half_a_body(kept.enter_context(socket.create_connection(_at(run))), base)
        threading.Event().wait(0.2)
        refused = driver.get(f"{base}/observe")
        assert (refused.status_code, refused.json()["code"]) == (503, "transport_lost")
        assert driver.get("/v1/status").json()["state"] == "running"
        driver.post(f"{base}/close").raise_for_status()
        assert _plays(driver)


def test_looks_that_nobody_waits_for_any_more_do_not_pile_up(
    driver: httpx.Client, run: ServedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_HELD", 4)
    run.executing_s = LONG_S
    base, seen = _begin(driver)
    body = json.dumps(decision(seen)).encode()
    head = f"POST {base}/act HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(_at(run)) as acting:
        acting.sendall(head + body)
        threading.Event().wait(0.2)
        for _ in range(50):
            with socket.create_connection(_at(run)) as gone:
                gone.sendall(f"GET {base}/observe HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        threading.Event().wait(0.2)
        assert 1 <= len(run.table._sleepers) <= 4
        run.hurry.set()
        acting.settimeout(BUSY_S)
        assert acting.recv(1000).startswith(b"HTTP/1.1 200")


def test_a_crowd_that_comes_at_once_takes_no_more_file_descriptors_than_there_are_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 16)
    monkeypatch.setattr(listener, "BACKLOG", 8)
    most, over = [0], threading.Event()

    def watch() -> None:
        while not over.is_set():
            most[0] = max(most[0], _open_files())

    watcher = threading.Thread(target=watch)
    with ServedRun() as run, ExitStack() as crowd:
        before = _open_files()
        loop = run.listener._server.servers[0].get_loop()
        loop.call_soon_threadsafe(time.sleep, 0.3)  # all of them are there when it looks again
        watcher.start()
        for _ in range(200):
            peer = crowd.enter_context(socket.socket())
            peer.setblocking(False)
            with suppress(BlockingIOError):
                peer.connect(_at(run))
        threading.Event().wait(0.8)
        over.set()
        watcher.join()
        with run.client(token=None) as client:
            assert client.get("/healthz").status_code == 200
    assert most[0] - before - 200 < 80


def test_when_all_places_are_taken_the_refusal_can_be_read(run: ServedRun, driver: httpx.Client) -> None:
    message = json.loads(connections._FULL.partition(b"\r\n\r\n")[2])
    assert (message["type"], message["code"]) == ("error", "transport_lost")
    assert connections._FULL.startswith(b"HTTP/1.1 503")


# -- bytes that are not what they seem -------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [b"x: 1\r\n" * 300, b"x: " + b"y" * 9000 + b"\r\n", b"content-length: 5\r\n"])
def test_a_handshake_that_cannot_be_read_is_ended_at_once(held: ServedRun, more: bytes) -> None:
    with socket.create_connection(_at(held), timeout=BUSY_S) as stranger:
        stranger.sendall(b"GET /v1/ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n")
        stranger.sendall(more + b"\r\nhello")
        with suppress(ConnectionResetError):
            assert stranger.recv(1000) == b""


def test_a_text_that_is_no_utf_8_is_charged_like_any_text_and_leaves_no_trace(
    run: ServedRun, driver: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    base, _ = _begin(driver)
    with _raw_socket(run, base) as line:
        line.sendall(_frame(1, b"\xff\xfe"))
        line.settimeout(BUSY_S)
        assert b"wire_malformed" in line.recv(1000)
    assert driver.get(f"{base}/observe").json()["reason"] == "error"
    assert [fault.code for fault in run.faults] == ["wire_malformed"]
    assert caplog.records == []


@pytest.mark.parametrize(
    ("path", "declared"), [("/v1/nothing", b""), ("{base}/act", b""), ("{base}/act", b"content-length: 99999999\r\n")]
)
def test_a_request_that_stops_making_sense_in_its_middle_leaves_no_trace(
    run: ServedRun, driver: httpx.Client, caplog: pytest.LogCaptureFixture, path: str, declared: bytes
) -> None:
    base, _ = _begin(driver)
    head = f"POST {path.replace('{base}', base)} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n".encode()
    with socket.create_connection(_at(run), timeout=BUSY_S) as peer:
        peer.sendall(head + declared + b"\r\n5\r\n[1,2,\r\n")
        threading.Event().wait(0.2)
        with suppress(OSError):
            peer.sendall(b"zzz\r\n")
            assert peer.recv(1000).startswith(b"HTTP/1.1 4")
            while peer.recv(1000):
                pass
    threading.Event().wait(0.1)
    assert caplog.records == [] and run.faults == []


@pytest.mark.parametrize(
    ("version", "framing", "more"),
    [
        ("1.1", "transfer-encoding: chunked\r\ncontent-length: {size}\r\n", "0\r\n\r\n{body}"),
        ("1.1", "content-length: {size}\r\ntransfer-encoding: chunked\r\n", "{hex}\r\n{body}\r\n0\r\n\r\n"),
        ("1.1", "content-length: {size}\r\ncontent-length: 2\r\n", "{body}"),
        ("1.1", "content-length: +{size}\r\n", "{body}"),
        ("1.1", "transfer-encoding: gzip\r\n", "{body}"),
        ("1.1", "transfer-encoding: identity\r\ncontent-length: {size}\r\n", "{body}"),
        ("1.1", "transfer-encoding: gzip, chunked\r\n", "{hex}\r\n{body}\r\n0\r\n\r\n"),
        ("1.0", "transfer-encoding: chunked\r\n", "0\r\n\r\n{body}"),
        ("2.0", "content-length: 2\r\n", "{{}}"),
        ("1.1", "", "{body}"),
        ("1.0", "", "{body}"),
        ("1.1", "content-encoding: gzip\r\ncontent-length: 2\r\n", "\x1f\x02"),
    ],
)
@pytest.mark.parametrize("door", ["act", "stop"])
def test_a_request_whose_body_nobody_can_mark_off_is_no_answer_and_costs_the_policy_nothing(
    run: ServedRun, driver: httpx.Client, version: str, framing: str, more: str, door: str
) -> None:
    base, seen = _begin(driver)
    body = json.dumps(decision(seen))
    known = {"size": len(body), "hex": f"{len(body):x}", "body": body}
    head = f"POST {base}/{door} HTTP/{version}\r\nhost: x\r\n" + framing.format(**known)
    with socket.create_connection(_at(run), timeout=BUSY_S) as peer:
        peer.sendall(f"{head}\r\n{more.format(**known)}".encode())
        answer = b"".join(iter(lambda: peer.recv(10_000), b""))  # until it is closed
    assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1") == 1
    assert b"wire_malformed" in answer and b"connection: close" in answer.lower()
    assert driver.get(f"{base}/observe").json() == seen
    assert driver.post(f"{base}/act", json=decision(seen)).json()["accepted"] is True
    assert run.faults == []


@pytest.mark.parametrize(
    "sent",
    [
        _frame(2 | 0x40, b"packed"),
        _frame(3, b"of no kind"),
        _frame(0, b"goes on with nothing"),
        b"\x82\x02{}",  # not masked
        b"\x02\x82\0\0\0\0{}" + _frame(2, b"another one in its middle"),
        b"\x09\x80\0\0\0\0",  # half a ping
        _frame(8, b"\x03"),
    ],
    ids=["packed", "kind", "continued", "bare", "mixed", "ping", "goodbye"],
)
def test_frames_that_are_none_end_the_connection_and_are_no_answer(
    run: ServedRun, driver: httpx.Client, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    base, seen = _begin(driver)
    with _raw_socket(run, base) as line, suppress(ConnectionResetError):
        line.settimeout(BUSY_S)
        line.sendall(sent)
        while line.recv(1000):
            pass
    assert driver.post(f"{base}/act", json=decision(seen)).json()["accepted"] is True
    assert run.faults == [] and caplog.records == []


@pytest.mark.parametrize("form", ["Application/MsgPack", "application/msgpack; v=1", "application/msgpack;v=1"])
def test_a_media_type_means_the_same_however_it_is_written(driver: httpx.Client, form: str) -> None:
    base, seen = _begin(driver)
    answer = driver.post(f"{base}/act", content=own.encode(decision(seen)), headers={"content-type": form})
    assert answer.json()["accepted"] is True
    look = driver.get(f"{base}/observe", headers={"accept": form.upper()})
    assert own.decode(look.content, max_bytes=len(look.content))["call_index"] == 1


def test_a_body_that_is_not_whole_does_not_hold_up_the_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "GRACE_S", LONG_S)
    monkeypatch.setattr(http, "BODY_TIMEOUT_S", LONG_S)
    with ServedRun() as run, run.client() as driver, socket.create_connection(_at(run)) as slow:
        _half_a_body(slow, f"/v1/episodes/{run.begin(driver)}")
        threading.Event().wait(0.2)
        start_s = monotonic()
        run.table.stop("the test is over")
        run.listener.stop()
        assert monotonic() - start_s < BUSY_S  # LONG_S for who waits for the body or for all the grace
    assert caplog.records == []


def test_a_slow_reader_that_pings_gets_its_observation_and_one_answer() -> None:
    with ServedRun(setting(height=1500)) as run, run.client() as driver:
        base = f"/v1/episodes/{run.begin(driver)}"
        with _raw_socket(run, base, receive_bytes=4096) as line:
            line.sendall(_frame(2, own.encode({"protocol": PROTOCOL, "type": "observe", "id": 1})))
            threading.Event().wait(0.5)
            for number in range(50):
                line.sendall(_frame(9, b"%04d" % number))
            threading.Event().wait(0.3)
            line.settimeout(BUSY_S)
            received = b""
            while not received.endswith(b"\x8a\x040049"):
                received += line.recv(2**20)
    assert len(received) > 3 * 1500**2 and b"\x8a\x040048" not in received


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _at(run: ServedRun) -> tuple[str, int]:
    host, _, port = run.address.removeprefix("http://").rpartition(":")
    return host, int(port)


def _half_a_body(peer: socket.socket, base: str) -> None:
    peer.sendall(f"POST {base}/act HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n{{".encode())


@contextmanager
def _raw_socket(run: ServedRun, base: str, *, receive_bytes: int | None = None) -> Iterator[socket.socket]:
    """Open a WebSocket by hand, with a small window when asked."""
    with socket.socket() as line:
        if receive_bytes is not None:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        line.connect(_at(run))
        line.sendall(
            f"GET {base}/ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += line.recv(1)
        assert head.startswith(b"HTTP/1.1 101")
        yield line
