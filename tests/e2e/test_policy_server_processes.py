"""Policy servers as processes of their own: killed in mid-thought, replaced, stopped in order, crowded, attacked."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from lying_servers import openpi_server
from served_policies import asked, begin, look, process, setting
from trialplate import api
from trialplate.errors import HarnessFault
from trialplate.policies.client.websocket import WebSocketActor, describe
from trialplate.policies.wire import own
from wire_campaign import arm, command, protocol, rows, served

MIB = 2**20


def locked(folder: Path, uri: str, *, scenarios: int = 5) -> Path:
    """Lock a protocol whose only arm is behind an address; return the campaign folder."""
    path = protocol(folder, arm("wire", uri), scenarios=scenarios)
    api.lock(api.load_protocol(path), into=folder / "c")
    return folder / "c"


@contextmanager
def running(campaign: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a campaign by the command line in a process of its own."""
    arguments = [sys.executable, "-m", "trialplate.cli", "run", str(campaign), "--json"]
    run = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield run
    finally:
        run.kill()
        run.communicate(timeout=10)


def finished(run: subprocess.Popen[str], *, expected: int) -> dict[str, Any]:
    out, errors = run.communicate(timeout=60)
    assert run.returncode == expected, out + errors
    found: dict[str, Any] = json.loads(out)
    return found


def wait_for(path: Path) -> None:
    ends_s = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < ends_s, f"{path.name} does not come"
        time.sleep(0.01)


def killed_in_mid_thought(server: subprocess.Popen[str], folder: Path) -> None:
    """Kill a server as soon as its policy pauses in the second episode."""
    wait_for(folder / "paused")
    server.send_signal(signal.SIGKILL)
    server.wait(10)


# -- killed ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_server_killed_in_mid_thought_costs_that_episode_and_the_restarted_one_plays_the_others(
    tmp_path: Path,
) -> None:
    protocol(tmp_path, arm("wire", "ws://127.0.0.1:1"))
    with ExitStack() as stack:
        uri, server = stack.enter_context(served(tmp_path / "arms.py", "Pausing"))
        campaign = locked(tmp_path, uri)
        run = stack.enter_context(running(campaign))
        killed_in_mid_thought(server, tmp_path)
        stack.enter_context(served(tmp_path / "arms.py", "Pausing", port=int(uri.rsplit(":", 1)[1])))
        done = finished(run, expected=1)
    found = rows(campaign, "wire")
    assert [row.fault_code for row in found] == [None, "transport_lost", None, None, None]
    assert found[1].control_steps == 3
    assert done["complete"]
    assert sorted(outcome.status for outcome in api.score(campaign)) == ["ERROR", "PASS", "PASS", "PASS", "PASS"]
    assert command("verify", str(campaign))["findings"] == []


@pytest.mark.slow
def test_a_server_killed_and_not_restarted_leaves_the_later_episodes_unreached(tmp_path: Path) -> None:
    protocol(tmp_path, arm("wire", "ws://127.0.0.1:1"))
    with served(tmp_path / "arms.py", "Pausing") as (uri, server):
        path = protocol(tmp_path, arm("wire", uri), scenarios=4)
        path.write_text(
            path.read_text(encoding="utf-8").replace("connect_timeout_s = 5.0", "connect_timeout_s = 0.5")
        )
        api.lock(api.load_protocol(path), into=tmp_path / "c")
        with running(tmp_path / "c") as run:
            killed_in_mid_thought(server, tmp_path)
            finished(run, expected=1)
    found = rows(tmp_path / "c", "wire")
    assert [row.fault_code for row in found] == [None, "transport_lost", "connect_failed", "connect_failed"]
    assert [row.control_steps for row in found[2:]] == [0, 0]


def test_row_26_a_server_that_comes_back_with_another_checkpoint_invalidates_the_arm(tmp_path: Path) -> None:
    protocol(tmp_path, arm("wire", "ws://127.0.0.1:1"))
    weights = tmp_path / "w.npz"
    weights.write_bytes(b"before")
    with ExitStack() as stack:
        arguments = ("Weighed", "--weights", str(weights))
        uri, server = stack.enter_context(served(tmp_path / "arms.py", *arguments))
        campaign = locked(tmp_path, uri, scenarios=4)
        run = stack.enter_context(running(campaign))
        killed_in_mid_thought(server, tmp_path)
        weights.write_bytes(b"after")
        stack.enter_context(served(tmp_path / "arms.py", *arguments, port=int(uri.rsplit(":", 1)[1])))
        finished(run, expected=1)
    assert [row.fault_code for row in rows(campaign, "wire")] == [
        None, "transport_lost", "identity_changed", "identity_changed",
    ]  # fmt: skip
    (analysed,) = api.analyse(api.score(campaign), campaign / "lock.json").arms
    assert analysed.rate.rate is None and "identity_changed" in analysed.state_reasons


def test_row_34_an_openpi_server_that_fails_three_times_before_any_control_halts_the_run(tmp_path: Path) -> None:
    more = (
        '\nas_suite = { channels = ["ee_pos"], chunk_length = 1 }\nidentity = { kind = "fixed_program" }'
        '\nmapping = { "observation/state" = "proprio:ee_pos" }'
    )
    trace = "Traceback (most recent call last):\nCudaError: out of memory"
    with openpi_server(lambda message: trace) as uri:
        path = protocol(tmp_path, arm("wire", f"openpi+{uri}") + more)
        lock = api.lock(api.load_protocol(path), into=tmp_path / "c")
        with running(tmp_path / "c") as run:
            done = finished(run, expected=1)
    assert (done["stopped_by"], done["complete"]) == ("systematic_error", False)
    found = rows(tmp_path / "c", "wire")
    assert [(row.fault_code, row.control_steps) for row in found] == [("policy_exception", 0)] * 3
    assert all("CudaError: out of memory" in (row.fault_message or "") for row in found)
    (analysed,) = api.analyse(api.score(tmp_path / "c"), lock).arms
    assert analysed.rate.rate is None and "systematic_error" in analysed.state_reasons


def test_row_39_a_policy_that_counts_its_calls_gives_four_workers_the_traces_of_one(tmp_path: Path) -> None:
    path = protocol(tmp_path, arm("inside", "arms.py:Stepping"), scenarios=10)
    lock = api.lock(api.load_protocol(path), into=tmp_path / "lock")
    for name, workers in (("serial", 1), ("four", 4)):
        api.run(lock, into=tmp_path / name, workers=workers)
    serial, four = (
        {row.scenario: (row.actions_sha256, row.trace and row.trace.content_sha256) for row in rows(folder, "inside")}
        for folder in (tmp_path / "serial", tmp_path / "four")
    )
    assert serial == four and len(set(serial.values())) == 10
    with served(tmp_path / "arms.py", "Stepping") as (uri, _):
        lock = api.lock(api.load_protocol(protocol(tmp_path, arm("wire", uri))), into=tmp_path / "wire")
        refused = subprocess.run(
            [sys.executable, "-m", "trialplate.cli", "run", str(tmp_path / "wire"), "--workers", "2", "--json"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert refused.returncode == 2
    assert "one instance" in json.loads(refused.stdout)["message"]


# -- stopped --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_asked_to_stop_answers_the_open_question_and_takes_no_other(number: signal.Signals) -> None:
    with process("Stub", option="sleep_s=1.0") as (uri, server):
        heard = describe(uri, connect_timeout_s=5.0, max_message_bytes=2**26)
        actor = WebSocketActor(uri, setting(registration=heard.registration))
        actor.reset(begin(), None)  # type: ignore[arg-type]
        digest = heard.registration.sha256()
        asked(actor, look(registration_sha256=digest))
        answers: list[np.ndarray] = []
        question = look(word="slow", call_index=1, registration_sha256=digest)
        asking = threading.Thread(target=lambda: answers.append(asked(actor, question)))
        asking.start()
        time.sleep(0.3)
        server.send_signal(number)
        time.sleep(0.2)
        with pytest.raises(HarnessFault) as closed:
            describe(uri, connect_timeout_s=0.2, max_message_bytes=2**26)
        assert closed.value.code == "connect_failed"
        asking.join(5)
        assert answers[0].shape == (2, 2)
        assert server.wait(10) == 0
        assert server.stderr is not None and server.stderr.read() == ""
        actor.close()


def test_a_server_whose_policy_does_not_come_back_ends_all_the_same() -> None:
    with process("Stub", option="sleep_s=60.0", close_timeout_s=0.3) as (uri, server):
        heard = describe(uri, connect_timeout_s=5.0, max_message_bytes=2**26)
        actor = WebSocketActor(uri, setting(registration=heard.registration, call_timeout_s=0.3))
        actor.reset(begin(), None)  # type: ignore[arg-type]
        question = look(word="slow", call_index=1, registration_sha256=heard.registration.sha256())
        with suppress(Exception):
            asked(actor, question)
        actor.close()
        server.terminate()
        assert server.wait(10) == 0


# -- crowded and attacked -------------------------------------------------------------------------------------------


class Trap:
    """Leaves a mark on disk when somebody unpickles it."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._mark),)


def memory_bytes(pid: int, what: str = "VmHWM") -> int:
    found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) * 1024


def port_of(uri: str) -> int:
    return int(uri.rsplit(":", 1)[1])


def healthy(uri: str) -> bool:
    connection = HTTPConnection("127.0.0.1", port_of(uri), timeout=2)
    with suppress(OSError):
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    return False


@contextmanager
def honest_client(uri: str) -> Iterator[Any]:
    """Yield a function that asks once and says whether the answer was right."""
    registration = describe(uri, connect_timeout_s=5.0, max_message_bytes=2**26).registration
    actor = WebSocketActor(uri, setting(registration=registration, call_timeout_s=5.0))
    actor.reset(begin(), None)  # type: ignore[arg-type]
    count = iter(range(10**6))

    def right() -> bool:
        question = look(word="up", call_index=next(count), registration_sha256=registration.sha256())
        return bool(asked(actor, question)[0, 0] == 3.0)

    try:
        yield right
    finally:
        actor.close()


async def crowd(uri: str, count: int, *, during: Any) -> tuple[int, int]:
    """Hold ``count`` connections open at once, call ``during``; return how many had a seat, how many were refused."""
    gate = asyncio.Semaphore(50)
    async with asyncio.TaskGroup() as group, _Seats() as seats:
        tasks = [group.create_task(seats.take(uri, gate)) for _ in range(count)]
        await asyncio.gather(*tasks)
        await asyncio.to_thread(during)
        return len(seats.taken), seats.refused


class _Seats:
    """Connections that are held open."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.refused = 0

    async def take(self, uri: str, gate: asyncio.Semaphore) -> None:
        async with gate:
            try:
                connection = await connect(uri, compression=None, ping_interval=None, open_timeout=30)
            except InvalidStatus as refused:
                assert refused.response.status_code == 503
                self.refused += 1
                return
            assert own.decode(await connection.recv(), max_bytes=MIB)["type"] == "hello"  # type: ignore[arg-type]
            self.taken.append(connection)

    async def __aenter__(self) -> _Seats:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self.taken:
            connection.transport.abort()


@pytest.fixture
def many_files() -> Iterator[int]:
    """Allow 4096 open files, as far as this machine does; yield how many seats a server then has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    yield min(1024, most // 2)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_connections_are_held_more_are_refused_and_an_earlier_client_is_answered_meanwhile(
    many_files: int,
) -> None:
    with process("Stub") as (uri, server), honest_client(uri) as right:
        before = memory_bytes(server.pid)
        meanwhile: list[bool] = []
        held, refused = asyncio.run(
            crowd(uri, many_files + 76, during=lambda: meanwhile.extend([right(), right(), healthy(uri)]))
        )
        assert (held, refused) == (many_files - 1, 77)
        assert meanwhile == [True, True, True]
        assert memory_bytes(server.pid) - before < 100 * MIB
        assert right()
        ends_s = time.monotonic() + 5
        while not asyncio.run(crowd(uri, 1, during=lambda: None))[0]:  # the seats are free again
            assert time.monotonic() < ends_s
        assert server.poll() is None


def test_slow_and_hostile_bytes_execute_nothing_and_hold_nobody_up(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    trap = pickle.dumps(Trap(mark))
    upgrade = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
    beginnings = (b"", b"G", upgrade, upgrade + b"X: " + b"y" * 4000, trap, b"\x00" * 100, b"\x16\x03\x01\x00\xa5")
    with process("Stub") as (uri, server), honest_client(uri) as right, ExitStack() as stack:
        before = memory_bytes(server.pid)
        for number in range(300):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", port_of(uri)), timeout=5))
            slow.sendall(beginnings[number % len(beginnings)])
        assert right() and healthy(uri)
        for _ in range(20):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port_of(uri)), timeout=5) as rude:
                rude.sendall(os.urandom(100_000))
        asyncio.run(send_and_hear(uri, trap))
        asyncio.run(send_and_hear(uri, own.encode({"protocol": "trialplate.policy/1", "type": "reset", "x": trap})))
        assert right() and healthy(uri)
        assert memory_bytes(server.pid) - before < 50 * MIB
        assert server.poll() is None
    assert not mark.exists()


async def send_and_hear(uri: str, data: bytes) -> None:
    """Send bytes as a message; the server must answer with an error."""
    async with connect(uri, compression=None) as connection:
        await connection.recv()
        await connection.send(data)
        with suppress(ConnectionClosed):
            assert own.decode(await connection.recv(), max_bytes=MIB)["type"] == "error"  # type: ignore[arg-type]
