"""The listening side against peers that are slow, many, or up to no good."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic

import httpx
import pytest

from lying_servers import BUSY_S, LONG_S
from served_run import ServedRun, decision, setting
from trialplate.errors import UsageError
from trialplate.policies.service import connections, http
from trialplate.policies.service.listener import Listener, is_loopback, parse_bind


@pytest.fixture
def run() -> Iterator[ServedRun]:
    with ServedRun() as served:
        yield served


def _at(run: ServedRun) -> tuple[str, int]:
    host, _, port = run.address.removeprefix("http://").rpartition(":")
    return host, int(port)


def _ends_within(peer: socket.socket, limit_s: float = BUSY_S) -> bool:
    """Return whether the service closes a connection within ``limit_s``; one that is kept stays for ever."""
    deadline_s = monotonic() + limit_s
    with suppress(ConnectionError):
        while (left_s := deadline_s - monotonic()) > 0:
            peer.settimeout(left_s)
            try:
                if not peer.recv(65_536):
                    return True
            except TimeoutError:
                return False
    return monotonic() < deadline_s


def _memory_kib() -> int:
    """Return the resident memory of this process, in which the service runs."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def _crowd() -> int:
    """Return a thousand, or as many connections as this process may open."""
    return min(1000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 2 * connections.MAX_CONNECTIONS)


def _alive(run: ServedRun) -> bool:
    """Return whether the service answers; raises TimeoutException when it does not within BUSY_S."""
    with run.client(token=None) as client:
        client.timeout = httpx.Timeout(BUSY_S)
        return bool(client.get("/healthz").status_code == 200)


def _eventually(happens: Callable[[], bool]) -> bool:
    """Wait for something that happens at once unless the machine is busy."""
    ends_s = monotonic() + BUSY_S
    while not happens() and monotonic() < ends_s:
        threading.Event().wait(0.01)
    return happens()


# -- where it listens ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bind", "expected"),
    [("127.0.0.1:8712", ("127.0.0.1", 8712)), ("[::1]:0", ("::1", 0)), ("localhost:80", ("localhost", 80))],
)
def test_an_address_is_host_and_port(bind: str, expected: tuple[str, int]) -> None:
    assert parse_bind(bind) == expected


@pytest.mark.parametrize("bind", ["", "8712", ":8712", "127.0.0.1", "127.0.0.1:", "h:65536", "h:-1", "h:x", "::1:80"])
def test_what_is_no_address_is_refused(bind: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        parse_bind(bind)


def test_only_loopback_is_loopback() -> None:
    assert is_loopback("127.0.0.1") and is_loopback("127.8.9.10") and is_loopback("::1") and is_loopback("localhost")
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "192.168.1.1", "no-such-host.invalid", "a..b"))


@pytest.mark.parametrize("host", ["a..b", "x" * 70])
def test_what_can_be_no_name_of_a_host_is_refused(host: str) -> None:
    for allow_remote in (False, True):
        with pytest.raises(UsageError, match="--bind"):
            Listener(None, f"{host}:0", allow_remote=allow_remote, max_frame_bytes=1)


def test_another_address_than_loopback_needs_to_be_meant() -> None:
    with pytest.raises(UsageError, match="--allow-remote"):
        Listener(None, "0.0.0.0:0", allow_remote=False, max_frame_bytes=1)
    listener = Listener(None, "0.0.0.0:0", allow_remote=True, max_frame_bytes=1)
    assert int(listener.address.rpartition(":")[2]) > 0
    listener.stop()


def test_an_address_that_is_taken_is_refused_before_anything_runs(run: ServedRun) -> None:
    with pytest.raises(UsageError, match="in use"):
        Listener(None, run.address.removeprefix("http://"), allow_remote=False, max_frame_bytes=1)


def test_after_stop_nothing_listens_and_no_thread_is_left() -> None:
    before = threading.active_count()
    with ServedRun() as run:
        address = _at(run)
        assert _alive(run)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=BUSY_S)
    assert threading.active_count() == before


# -- slow peers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent", [b"", b"G", b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-", b"GET /healthz HTTP/1.1\r\n" * 2]
)
def test_a_request_that_never_becomes_whole_is_cut_off(
    run: ServedRun, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEADER_TIMEOUT_S", 0.3)
    with socket.create_connection(_at(run)) as slow:
        slow.sendall(sent)
        assert _ends_within(slow)


def test_headers_that_drip_in_do_not_buy_more_time(run: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_TIMEOUT_S", 0.4)
    with socket.create_connection(_at(run)) as slow:
        start_s = monotonic()
        with pytest.raises(ConnectionError):
            slow.sendall(b"GET /healthz HTTP/1.1\r\n")
            while monotonic() - start_s < LONG_S:
                slow.sendall(b"x")
                threading.Event().wait(0.05)
        assert monotonic() - start_s < BUSY_S  # LONG_S if each byte bought time


def test_a_second_request_on_a_connection_has_the_same_deadline(
    run: ServedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_TIMEOUT_S", 0.3)
    with socket.create_connection(_at(run)) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert slow.recv(1000).startswith(b"HTTP/1.1 200")
        slow.sendall(b"GET /heal")
        assert _ends_within(slow)


def test_a_connection_that_rests_between_requests_stays(run: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    request = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    with socket.create_connection(_at(run), timeout=BUSY_S) as resting:
        for rest_s in (0.0, 0.5, 0.0):  # the deadline counts from the first answer on: a busy machine keeps it
            resting.sendall(request)
            answer = b""
            while not answer.endswith(b"}"):
                answer += resting.recv(1000)
            assert answer.startswith(b"HTTP/1.1 200")
            monkeypatch.setattr(connections, "HEADER_TIMEOUT_S", 0.2)
            threading.Event().wait(rest_s)


def test_a_connection_may_rest_for_as_long_as_a_policy_may_think(run: ServedRun) -> None:
    assert run.listener._server.config.timeout_keep_alive > run.desk.thinking_s


def test_a_body_that_drips_in_is_refused_after_a_while(run: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_TIMEOUT_S", 0.3)
    with run.client() as driver:
        head = f"POST /v1/episodes/{run.begin(driver)}/act HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n"
    with socket.create_connection(_at(run)) as slow:
        slow.sendall(head.encode() + b"{")
        slow.settimeout(BUSY_S)
        assert slow.recv(1000).startswith(b"HTTP/1.1 400")
        assert _ends_within(slow)
    assert run.faults == []


def test_a_peer_that_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALL_TIMEOUT_S", 0.3)
    lost, losing = threading.Event(), connections.Connection.connection_lost

    def lose(connection: connections.Connection, error: Exception | None) -> None:
        losing(connection, error)
        lost.set()

    monkeypatch.setattr(connections.Connection, "connection_lost", lose)
    with ServedRun(setting(height=1500)) as run, run.client() as driver:
        path = f"/v1/episodes/{run.begin(driver)}/observe"
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(_at(run))
            deaf.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            assert lost.wait(BUSY_S)  # nobody else leaves
            deaf.settimeout(BUSY_S)
            received = 0
            with suppress(ConnectionError):
                while data := deaf.recv(65_536):
                    received += len(data)
        assert received < 8_000_000, "the whole observation came"
        assert len(driver.get(path).content) > 9_000_000  # everybody else gets it


# -- many peers ----------------------------------------------------------------------------------------------------


def test_a_thousand_idle_connections_do_not_keep_anybody_out(run: ServedRun) -> None:
    with run.client() as driver, run.client(token=None) as actor, ExitStack() as crowd:
        base = f"/v1/episodes/{run.begin(driver)}"
        peers = [crowd.enter_context(socket.create_connection(_at(run))) for _ in range(_crowd())]
        assert _alive(run)
        assert _ends_within(peers[0]) and not _ends_within(peers[-1], 0.1)  # the oldest made room
        shown = actor.get(f"{base}/observe").json()
        assert actor.post(f"{base}/act", json=decision(shown)).json()["accepted"] is True


def test_strangers_do_not_push_out_whoever_has_shown_an_id(run: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    with run.client() as driver:
        path = f"/v1/episodes/{run.begin(driver)}/spec"
    stranger = f"GET {path.replace('spec', 'none')} HTTP/1.1\r\nhost: x\r\n\r\n".encode()
    actor = HTTPConnection(*_at(run), timeout=BUSY_S)
    with closing(actor), ExitStack() as crowd:
        for _ in range(2):
            actor.request("GET", path)
            assert actor.getresponse().read().startswith(b"{")
            threading.Event().wait(0.05)
            for _ in range(8):
                crowd.enter_context(socket.create_connection(_at(run))).sendall(stranger)
            threading.Event().wait(0.1)


def test_when_everybody_is_at_work_a_new_connection_is_refused_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    with ServedRun(executing_s=LONG_S) as run, run.client() as driver, ExitStack() as waiting:
        base = f"/v1/episodes/{run.begin(driver)}"
        shown = driver.get(f"{base}/observe").json()
        driver.close()
        body = httpx.Request("POST", run.address, json=decision(shown)).content
        request = f"POST {base}/act HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
        for _ in range(3):
            waiting.enter_context(socket.create_connection(_at(run))).sendall(request)
        found = run.listener._server.server_state.connections
        assert _eventually(lambda: sum(one.at_work() for one in tuple(found)) == 3)
        with socket.create_connection(_at(run), timeout=BUSY_S) as late:
            assert late.recv(1000).startswith(b"HTTP/1.1 503")


def test_hostile_peers_do_not_make_the_service_grow(run: ServedRun) -> None:
    with run.client() as driver:
        path = f"/v1/episodes/{run.begin(driver)}/act"
    huge = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 9223372036854775807\r\n\r\n".encode()
    requests = [
        b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * 200_000,
        b"\x00\xff" * 50_000,
        huge + b"[" * 500_000,
        b"POST /v1/hello HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n"
        + b"z" * 500_000,
        b"GET /v1/status HTTP/1.1\r\nhost: x\r\nauthorization: Bearer " + b"0" * 60_000 + b"\r\n\r\n",
        b"GET " + b"/a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ]
    for warm in (True, False):
        before = _memory_kib()
        for _ in range(2 if warm else 6):
            for request in requests:
                with socket.create_connection(_at(run), timeout=0.2) as hostile, suppress(OSError):
                    hostile.sendall(request)
                    hostile.recv(1000)
    assert _memory_kib() - before < 20_000
    assert _alive(run)
