"""A service among strangers and hostile actors: nothing executes or leaks, memory stays bounded, the rest is intact.

One campaign, one service in its own process. An attack costs at most the episode of the actor that it comes from;
honest episodes are played between attacks, and equal those of the same policy in process, digest for digest.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

import served_campaign as sc
from trialplate import api
from trialplate.policies.wire import own
from trialplate.record import ActionChunk
from trialplate.store.view import read_campaign
from trialplate.testing.reach_controls import Scripted

GROWTH_KIB = 40_000
"""What the service may take at most, at any moment, beyond what it took before anybody was hostile."""

MIB = 2**20
MSGPACK = {"content-type": "application/msgpack"}


class Trap:
    """Leaves a mark on disk when somebody unpickles it."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self._mark),))


class Battle:
    """One campaign under attack. ``attacked``: trial -> the fault that its episode must have ended with."""

    def __init__(self, folder: Path, service: sc.Running) -> None:
        self.folder, self.service, self.mark = folder, service, folder / "executed"
        self.driver, self.actor = service.client(), service.client(token=False)
        self.driver.post("/v1/hello", json=sc.HELLO).raise_for_status()
        self.driver.post("/v1/register", json=sc.REGISTER).raise_for_status()
        self.attacked: dict[int, str] = {}
        self._begun = 0
        self.play_honestly()
        self.before_kib = self.memory_kib("VmHWM")

    def begin(self, *, ends_with: str | None = None) -> str:
        """Start the next planned episode; return the path of its actor."""
        started = self.driver.post("/v1/episodes").raise_for_status().json()
        assert started["episode"] is not None, "too few episodes are planned"
        if ends_with is not None:
            self.attacked[self._begun] = ends_with
        self._begun += 1
        return str(started["actor"])

    def play_honestly(self, base: str | None = None) -> None:
        """Play one episode as the policy in process does."""
        base, policy = base or self.begin(), Scripted()
        policy._there = 0
        while (seen := self.actor.get(f"{base}/observe").json())["type"] == "observation":
            chosen = policy._decide(np.array(seen["proprio"]["ee_pos"]))
            stop = {"chunk": None, "stop": {"reason": "done"}}
            rows = chosen.vectors.tolist() if isinstance(chosen, ActionChunk) else []  # type: ignore[union-attr]
            message = sc.decision(seen, rows, **({} if rows else stop))
            assert self.actor.post(f"{base}/act", json=message).json()["accepted"] is True

    def look(self, base: str) -> dict[str, Any]:
        """Return what lies on the table."""
        return dict(self.actor.get(f"{base}/observe").json())

    def memory_kib(self, name: str) -> int:
        """Return a figure of the service's process."""
        lines = Path(f"/proc/{self.service.process.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name))

    def assert_unharmed(self) -> None:
        """The service answers, has executed nothing, and has never been large."""
        assert self.actor.get("/healthz", timeout=20).json() == {"alive": True}  # one that hangs does not
        assert not self.mark.exists()
        assert self.memory_kib("VmHWM") - self.before_kib < GROWTH_KIB

    def cpu_s(self) -> float:
        """Return the seconds that the service's process has computed, however busy the machine is."""
        stat = Path(f"/proc/{self.service.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def at(self) -> tuple[str, int]:
        host, _, port = self.service.address.removeprefix("http://").rpartition(":")
        return host, int(port)

    @contextmanager
    def socket(self, path: str) -> Iterator[ClientConnection]:
        """Open a WebSocket."""
        address = self.service.address.replace("http://", "ws://") + path
        with connect(address, proxy=None, compression=None, close_timeout=0.5) as line:
            yield line


@pytest.fixture(scope="module")
def battle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Battle]:
    folder = tmp_path_factory.mktemp("battle")
    lock = sc.locked(folder, sc.inside("here", "arms.py:Arm"), sc.served("there"), scenarios=10, repeats=7)
    api.run(lock)
    with sc.serving(folder, "--resume", "--recording", "minimal") as service:
        fought = Battle(folder, service)
        yield fought
        fought.driver.close()
        fought.actor.close()


# -- hostile actors: they hold an id ---------------------------------------------------------------------------------


def lie(dtype: Any, shape: Any, data: Any) -> dict[str, Any]:
    """Return an array in our own form that says of itself whatever it likes."""
    return {"__ndarray__": True, "dtype": dtype, "shape": shape, "data": data}


ROW = struct.pack("<7d", *[0.0] * 7)
LIES: dict[str, tuple[Any, str]] = {
    "an object array": (lie("|O", [1, 7], ROW), "wire_malformed"),
    "a void array": (lie("|V8", [1, 7], ROW), "wire_malformed"),
    "big-endian numbers": (lie(">f8", [1, 7], ROW), "wire_malformed"),
    "a record dtype": (lie([["a", "<f8"]], [1, 7], ROW), "wire_malformed"),
    "a dtype that is code": (lie("__import__('os').getpid()", [1, 7], ROW), "wire_malformed"),
    "complex numbers": (lie("<c16", [1, 7], ROW * 2), "wire_malformed"),
    "a shape beyond all memory": (lie("<f8", [2**40, 2**40], ROW), "wire_malformed"),
    "a shape that wraps around": (lie("<f8", [2**61, 8], b""), "wire_malformed"),
    "a negative dimension": (lie("<f8", [-1, 7], ROW), "wire_malformed"),
    "a dimension that is true": (lie("<f8", [True, 7], ROW), "wire_malformed"),
    "a dimension with a fraction": (lie("<f8", [1.0, 7], ROW), "wire_malformed"),
    "rank 9": (lie("<f8", [1] * 8 + [7], ROW), "wire_malformed"),
    "one byte too few": (lie("<f8", [1, 7], ROW[:-1]), "wire_malformed"),
    "one byte too many": (lie("<f8", [1, 7], ROW + b"\0"), "wire_malformed"),
    "data as text": (lie("<f8", [1, 7], "0" * 56), "wire_malformed"),
    "another dialect": ({"nd": True, "type": "<f4", "kind": b"", "shape": [1], "data": b""}, "wire_dialect_mismatch"),
    "a foreign type": (msgspec.msgpack.Ext(42, ROW), "wire_malformed"),
    "integers": (lie("<i8", [1, 7], ROW), "invalid_action"),
    "eight numbers": (lie("<f8", [1, 8], ROW + ROW[:8]), "invalid_action"),
    "no row": (lie("<f8", [0, 7], b""), "invalid_action"),
    "what is not a number": (lie("<f8", [1, 7], struct.pack("<d", float("nan")) * 7), "invalid_action"),
}  # fmt: skip


@pytest.mark.parametrize("wire", ["http", "ws"])
@pytest.mark.parametrize("name", LIES)
def test_an_array_that_lies_is_refused_and_costs_its_own_episode(battle: Battle, name: str, wire: str) -> None:
    lied, code = LIES[name]
    base = battle.begin(ends_with=code)
    message = sc.decision(battle.look(base), chunk={"vectors": lied})
    if wire == "http":
        sent = battle.actor.post(f"{base}/act", content=msgspec.msgpack.encode(message), headers=MSGPACK)
        reply = sent.json()
    else:
        with battle.socket(f"{base}/ws") as line:
            line.send(msgspec.msgpack.encode({**message, "id": 1}))
            reply = own.decode(line.recv(timeout=5), max_bytes=MIB)
    assert (reply["code"] if reply["type"] == "error" else reply["issue"]["code"]) == code
    assert battle.look(base)["reason"] == "error"
    battle.assert_unharmed()


def test_a_pickle_is_bytes_that_cannot_be_read_whatever_it_calls_itself(battle: Battle) -> None:
    trap = pickle.dumps(Trap(battle.mark))
    for headers in (MSGPACK, {"content-type": "application/octet-stream"}, {"content-type": "application/x-pickle"}):
        base = battle.begin(ends_with="wire_malformed")
        battle.look(base)
        assert battle.actor.post(f"{base}/act", content=trap, headers=headers).status_code == 400
    base = battle.begin(ends_with="wire_malformed")
    message = sc.decision(battle.look(base), chunk={"vectors": lie("|O", [1], trap)})
    sent = battle.actor.post(f"{base}/act", content=msgspec.msgpack.encode(message), headers=MSGPACK)
    assert sent.json()["code"] == "wire_malformed"
    battle.assert_unharmed()


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"[" * 100_000, {}),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, {}),
        (b"\x91" * 100_000, MSGPACK),
        (b"\x81\xa1a" * 30_000, MSGPACK),
        (b"\xdf\xff\xff\xff\xff", MSGPACK),
        (b'{"a":' + b"[1]," * 20_000 + b"1}", {}),
        (b'{"a": 1' + b"0" * 5_000 + b"}", {}),
    ],
    ids=["arrays", "objects", "msgpack arrays", "msgpack maps", "a map of 2^32", "items", "a long number"],
)
def test_depth_and_number_are_refused_before_they_cost_anything(
    battle: Battle, body: bytes, headers: dict[str, str]
) -> None:
    base = battle.begin(ends_with="wire_malformed")
    battle.look(base)
    start_s = battle.cpu_s()
    assert battle.actor.post(f"{base}/act", content=body, headers=headers).json()["code"] == "wire_malformed"
    assert battle.cpu_s() - start_s < 1  # minutes for who goes through 100 000 levels once for each of them
    battle.assert_unharmed()


def test_a_body_of_hundreds_of_megabytes_is_not_taken_in(battle: Battle) -> None:
    base = battle.begin(ends_with="message_too_large")
    battle.look(base)
    head = f"POST {base}/act HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    piece = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    with socket.create_connection(battle.at, timeout=5) as flood, suppress(OSError):
        flood.sendall(head)
        for _ in range(300 * MIB // 65_536):
            flood.sendall(piece)
    sc.eventually(lambda: battle.look(base)["type"] == "episode_end")
    battle.assert_unharmed()


def test_frames_that_are_too_large_or_come_without_end_are_cut_off(battle: Battle) -> None:
    base = battle.begin(ends_with="message_too_large")
    battle.look(base)
    with battle.socket(f"{base}/ws") as line, pytest.raises(ConnectionClosed):
        line.send(b"\xc4" * (8 * MIB))
        line.recv(timeout=5)
    sc.eventually(lambda: battle.look(base)["type"] == "episode_end")
    base = battle.begin(ends_with="message_too_large")
    battle.look(base)
    with battle.socket(f"{base}/ws") as line, suppress(ConnectionClosed):
        line.send(b"\0" * 60_000 for _ in range(2_000))  # one message in pieces
    sc.eventually(lambda: battle.look(base)["type"] == "episode_end")
    battle.assert_unharmed()


def test_frames_that_nobody_waits_for_do_not_pile_up(battle: Battle) -> None:
    base = battle.begin()
    observe = {"protocol": sc.PROTOCOL, "type": "observe"}
    with battle.socket(f"{base}/ws") as line, suppress(ConnectionClosed, TimeoutError, OSError):
        line.socket.settimeout(1.0)
        for number in range(20_000):  # asks and asks, and reads no answer
            line.send(own.encode({**observe, "id": number}))
    battle.assert_unharmed()
    battle.play_honestly(base)


def test_an_actor_cannot_spend_more_than_one_answer_on_one_call(battle: Battle) -> None:
    base = battle.begin()
    seen = battle.look(base)
    for change in ({"observation_id": "0" * 32}, {"call_index": 7}):
        wrong = json.dumps({**sc.decision(seen), **change}).encode()
        head = f"POST {base}/act HTTP/1.1\r\nhost: x\r\ncontent-length: {len(wrong) + 1}\r\n\r\n".encode()
        with socket.create_connection(battle.at, timeout=5) as half:
            half.sendall(head + wrong)  # never whole: no answer, whatever it says
    battle.play_honestly(base)


# -- strangers: they hold nothing ------------------------------------------------------------------------------------


def test_a_token_in_the_wrong_place_opens_nothing(battle: Battle) -> None:
    token, base = battle.service.token, battle.begin()
    hello = {**sc.HELLO, "token": token, "authorization": f"Bearer {token}"}
    attempts = [
        battle.actor.post("/v1/hello", json=hello),
        battle.actor.post("/v1/hello", data={"access_token": token}),
        battle.actor.get(f"/v1/status?access_token={token}"),
        battle.actor.get(f"/v1/results?token={token}"),
        battle.driver.get(f"/v1/status?token={token}"),
        battle.actor.get("/v1/status", headers={"x-token": token, "proxy-authorization": f"Bearer {token}"}),
        battle.actor.get("/v1/status", headers={"cookie": f"authorization=Bearer {token}"}),
        battle.actor.get("/v1/status", headers={"authorization": f"Basic {token}"}),
        battle.actor.get("/v1/status", headers={"authorization": token}),
        battle.actor.get("/v1/status", headers=[("authorization", f"Bearer {token}"), ("authorization", "Bearer x")]),
        battle.actor.get("/v1/status", headers={"authorization": f"Bearer {token[:-1]}"}),
        battle.actor.get("/v1/status", headers={"authorization": f"Bearer {token.upper()}"}),
    ]  # fmt: skip
    assert [(sent.status_code, sent.json()["code"]) for sent in attempts] == [(401, "unauthorized")] * 12
    assert not any(token in sent.text or token in str(sent.headers) for sent in attempts)
    battle.play_honestly(base)


def test_no_way_of_writing_a_path_leaves_the_service_or_reaches_another_door(battle: Battle) -> None:
    base = battle.begin()
    secret = battle.folder / "token"
    paths = [
        "/../../../../etc/passwd", f"/{secret}", f"{base}/../../results", f"{base}/%2e%2e/%2e%2e/results",
        f"{base}/..%2f..%2fresults", f"{base}/observe/../../../status", "/v1/%72esults", f"{base};/observe",
        f"{base}\\observe", "/v1/episodes/*/observe", f"{base}/observe%00.json", f"{base}/observe#", "//v1/results",
        f"{base}/observe/", "/v1/results/.", "file:///etc/passwd", f"http://127.0.0.1:1{base}/observe",
    ]  # fmt: skip
    for path in paths:
        with socket.create_connection(battle.at, timeout=2) as raw:
            raw.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda raw=raw: raw.recv(65_536), b""))  # type: ignore[misc]
        assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400", b"HTTP/1.1 401")), (path, answer[:200])
        assert b"root:" not in answer and battle.service.token.encode() not in answer
    battle.play_honestly(base)
    battle.assert_unharmed()


def test_a_thousand_connections_and_slow_requests_keep_nobody_out(battle: Battle) -> None:
    base = battle.begin()
    most = min(1000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)
    with ExitStack() as crowd:
        for number in range(most):
            peer = crowd.enter_context(socket.create_connection(battle.at, timeout=5))
            with suppress(OSError):
                peer.sendall((b"", b"G", b"POST /v1/hello HTTP/1.1\r\nx-a: ", b"\x16\x03\x01")[number % 4])
        battle.assert_unharmed()
        battle.play_honestly(base)
    battle.assert_unharmed()


# -- the rest --------------------------------------------------------------------------------------------------------


def test_the_campaign_is_intact_and_every_honest_episode_is_what_it_is_in_process(battle: Battle) -> None:
    while (started := battle.driver.post("/v1/episodes").json())["episode"] is not None:
        battle.play_honestly(started["actor"])
    assert started["reason"] == "complete"
    out, errors = battle.service.ended(expected=1)
    assert battle.service.token not in out + errors and "Traceback" not in errors
    here, there = sc.digests(battle.folder, "here"), sc.digests(battle.folder, "there")
    rows = sc.rows(battle.folder, "there")
    assert {number: row.fault_code for number, row in enumerate(rows) if row.fault_code} == battle.attacked
    honest = [number for number in range(len(rows)) if number not in battle.attacked]
    assert len(honest) >= 7 and [there[number] for number in honest] == [here[number] for number in honest]
    assert all(rows[number].control_steps == 0 for number in battle.attacked)
    assert sc.verified(battle.folder)["findings"] == []
    assert read_campaign(battle.folder / "c").complete is True
    assert not battle.mark.exists()
