"""How far the clock of a policy server may be from ours, read off its answer to a handshake.

An HTTP server says in ``Date`` which second it has (RFC 9110, section 6.6.1). That bounds the difference, to a second
and the time that the handshake took; it costs one connection and asks nothing of the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from time import time

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

RESOLUTION_S = 1.0
"""``Date`` counts whole seconds."""


@dataclass(frozen=True, slots=True)
class ClockLook:
    """What one look told. ``server_date``: as the server wrote it; ``sync_error_s``: the clocks are no further apart.

    Of what is unknown, None: ``reason`` is ``not_reported`` (it wrote none), ``unreadable`` or ``unreachable``.
    """

    server_date: str | None
    sync_error_s: float | None
    reason: str | None


def look_at_clock(uri: str, *, timeout_s: float) -> ClockLook:
    """Connect once and compare the clocks. Never raises for what a server does."""
    before_s = time()
    try:
        with connect(uri, open_timeout=timeout_s, close_timeout=timeout_s, compression=None, proxy=None) as wire:
            after_s = time()
            date = wire.response.headers.get("Date") if wire.response is not None else None
    except (OSError, TimeoutError, WebSocketException):
        return ClockLook(None, None, "unreachable")
    return clock_look(date, before_s=before_s, after_s=after_s)


def clock_look(date: str | None, *, before_s: float, after_s: float) -> ClockLook:
    """Return how far the clocks may be apart when a server wrote ``date`` between two moments of ours."""
    if date is None:
        return ClockLook(None, None, "not_reported")
    try:
        read = parsedate_to_datetime(date)
    except ValueError:
        return ClockLook(date[:100], None, "unreadable")
    moment_s = read.replace(tzinfo=UTC).timestamp() if read.tzinfo is None else read.timestamp()
    apart_s = max(abs(moment_s - after_s), abs(moment_s + RESOLUTION_S - before_s), after_s - before_s)
    return ClockLook(date[:100], round(apart_s, 6), None)
