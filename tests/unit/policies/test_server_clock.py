"""A server's clock is read off its answer to a handshake, to a second and the time that the handshake took."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.sync.server import serve

from trialplate.policies.client import clock
from trialplate.policies.client.clock import ClockLook, clock_look, look_at_clock

NOW_S = 1_790_000_000


@given(st.floats(-1e6, 1e6), st.floats(0, 0.999), st.floats(0, 5), st.floats(0, 1))
def test_the_clocks_are_never_further_apart_than_is_said(
    apart_s: float, part_s: float, took_s: float, at: float
) -> None:
    before_s = NOW_S + part_s
    server_s = before_s + at * took_s + apart_s  # its clock when it wrote
    seen = clock_look(formatdate(int(server_s), usegmt=True), before_s=before_s, after_s=before_s + took_s)
    assert seen.sync_error_s is not None
    assert abs(apart_s) <= seen.sync_error_s + 1e-6 <= abs(apart_s) + took_s + 1.001


def test_a_server_that_tells_no_time_or_none_that_can_be_read_is_unknown() -> None:
    assert clock_look(None, before_s=NOW_S, after_s=NOW_S) == ClockLook(None, None, "not_reported")
    assert clock_look("yesterday", before_s=NOW_S, after_s=NOW_S) == ClockLook("yesterday", None, "unreadable")
    assert clock_look("x" * 9000, before_s=NOW_S, after_s=NOW_S) == ClockLook("x" * 100, None, "unreadable")


@contextmanager
def served(date: str | None) -> Iterator[str]:
    """A server that answers a handshake with this date."""

    def answered(connection: Any, request: Any, response: Any) -> None:
        del response.headers["Date"]
        if date is not None:
            response.headers["Date"] = date

    with serve(lambda connection: None, "127.0.0.1", 0, process_response=answered) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("behind_s", [0, 3600, -86_400])
def test_a_server_whose_clock_is_set_otherwise_is_told(behind_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "time", lambda: NOW_S + 0.5)
    with served(formatdate(NOW_S - behind_s, usegmt=True)) as uri:
        seen = look_at_clock(uri, timeout_s=5.0)
    assert seen.reason is None and seen.sync_error_s == pytest.approx(abs(behind_s) + 0.5)


def test_a_server_without_a_date_and_no_server_at_all_are_unknown() -> None:
    with served(None) as uri:
        assert look_at_clock(uri, timeout_s=5.0) == ClockLook(None, None, "not_reported")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert look_at_clock(f"ws://127.0.0.1:{port}", timeout_s=1.0) == ClockLook(None, None, "unreachable")
