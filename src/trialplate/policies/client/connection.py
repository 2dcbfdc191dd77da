"""A connection to a policy server as an actor uses it: made at an episode's start, and never again within it.

What goes wrong is typed here. No connection in time: HarnessFault ``connect_failed``. Lost during an episode:
HarnessFault ``transport_lost``. No answer in time: PolicyFault ``policy_timeout``. After any of them, and after an
interrupt, the connection is discarded: a late reply can never be taken for the answer to a later question.

Source: policy contract, sections 3 to 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep

from trialplate.errors import ContractFault, HarnessFault, PolicyFault, UsageError
from trialplate.policies.charging import recordable
from trialplate.policies.client.line import (
    PING_INTERVAL_S,
    Line,
    LineExpired,
    LineLost,
    LineTooLarge,
    NoLine,
    host_and_port,
    open_line,
)
from trialplate.policies.wire.pieces import Written, in_pieces, size_of

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
Greeting = bytes | str


def seconds(name: str, value: float) -> float:
    """Return a time that is one: a finite number above 0. Raises UsageError that names it."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise UsageError(f"{name}: expected seconds above 0, got {value!r}")
    return float(value)


def connect(uri: str, *, timeout_s: float, max_message_bytes: int) -> tuple[Line, Greeting]:
    """Return a connection and the first message, which the server sends unasked.

    One loop of attempts, all of it within ``timeout_s``. Raises HarnessFault ``connect_failed`` with the last reason.
    """
    start_s = monotonic()
    deadline_s, pause_s, attempts = start_s + seconds("connect_timeout_s", timeout_s), _FIRST_PAUSE_S, 0
    while True:
        attempts += 1
        try:
            return _greeted(uri, deadline_s=deadline_s, max_message_bytes=max_message_bytes)
        except NoLine as reason:
            left_s = deadline_s - monotonic()
            if reason.transient and left_s > pause_s:
                sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            tries = f"{attempts} attempt{'s' if attempts > 1 else ''} in {monotonic() - start_s:.1f} s"
            raise HarnessFault(
                f"no policy server at {host_and_port(uri)} ({tries}, connect_timeout_s {timeout_s:g}): {reason}",
                code="connect_failed",
            ) from None


def _greeted(uri: str, *, deadline_s: float, max_message_bytes: int) -> tuple[Line, Greeting]:
    line = open_line(uri, deadline_s=deadline_s, max_message_bytes=max_message_bytes)
    try:
        return line, line.receive(deadline_s=deadline_s)
    except LineTooLarge as error:
        line.discard()
        raise ContractFault(f"the server's first message: {error}", code="message_too_large") from None
    except LineLost as error:
        line.discard()
        raise NoLine(f"connected, then {error}", transient=True) from None
    except LineExpired:
        line.discard()
        raise NoLine("connected, but the server does not send the first message", transient=False) from None
    except BaseException:
        line.discard()
        raise


class Connection:
    """The wire of one actor. ``greet`` is given each server's first message and raises what speaks against it."""

    def __init__(
        self, uri: str, *, connect_timeout_s: float, close_timeout_s: float, max_message_bytes: int,
        greet: Callable[[Greeting], None],
    ) -> None:  # fmt: skip
        self._uri, self._greet = uri, greet
        self._connect_timeout_s, self._close_timeout_s = connect_timeout_s, close_timeout_s
        self._max_message_bytes = self.limit_bytes = max_message_bytes
        self._line: Line | None = None

    def open(self, *, again: bool = False) -> None:
        """Be connected: keep a connection that still stands, unless ``again``; else make one and hear it out."""
        if self._line is not None:
            if not again and self._line.alive() and not self._line.unread():
                return
            self.discard()
        line, greeting = connect(
            self._uri, timeout_s=self._connect_timeout_s, max_message_bytes=self._max_message_bytes
        )
        try:
            self._greet(greeting)
        except BaseException:
            line.discard()
            raise
        self._line = line

    def call(
        self, request: Written, *, doing: str, timeout_s: float, meanwhile: Callable[[], None] | None = None
    ) -> bytes | str:
        """Send a request and return the next message; ``meanwhile`` is called between the two.

        Any exception leaves no connection behind, but for a request above the limit, of which nothing was sent.
        """
        line = self._line
        if line is None:
            raise HarnessFault(f"{doing}: the connection to the policy server is gone", code="transport_lost")
        self._refuse_size(request, doing)
        deadline_s = monotonic() + timeout_s
        try:
            line.send(request, deadline_s=deadline_s)
            if meanwhile is not None:
                meanwhile()
            return line.receive(deadline_s=deadline_s)
        except BaseException as error:
            silence_s = line.silence_s()
            self.discard()
            raise _typed(error, doing=doing, timeout_s=timeout_s, silence_s=silence_s) from None

    def unasked(self) -> bytes | str | None:
        """Return what the server sent without being asked, and drop the connection then; None when it kept still."""
        if self._line is None or not self._line.unread():
            return None
        try:
            return self._line.receive(deadline_s=monotonic() + 1.0)
        finally:
            self.discard()

    def tell(self, message: bytes) -> None:
        """Send what needs no answer. A connection that is gone is noticed by the next call, not here."""
        if self._line is None:
            return
        try:
            self._line.send(message, deadline_s=monotonic() + self._close_timeout_s)
        except (LineLost, LineExpired):
            self.discard()
        except BaseException:
            self.discard()
            raise

    def hold(self, message: bytes) -> None:
        """Send what needs no answer together with the next message."""
        if self._line is not None:
            self._line.hold(message)

    def close(self) -> None:
        """Say good-bye within ``close_timeout_s``."""
        if self._line is not None:
            line, self._line = self._line, None
            line.close(timeout_s=self._close_timeout_s)

    def discard(self) -> None:
        """Drop the connection: whatever is still on its way is never read."""
        if self._line is not None:
            line, self._line = self._line, None
            with suppress(OSError):
                line.discard()

    def _refuse_size(self, request: Written, doing: str) -> None:
        size = size_of(in_pieces(request))
        if size > self.limit_bytes:
            raise ContractFault(
                f"{doing}: a message of {size} bytes, the limit agreed at hello is {self.limit_bytes}",
                code="message_too_large",
            )


def _typed(error: BaseException, *, doing: str, timeout_s: float, silence_s: float) -> BaseException:
    """Return the typed fault for what broke a call; anything else, an interrupt for one, as it is."""
    if isinstance(error, LineExpired):
        quiet = f"; its last sign of life was {silence_s:.0f} s ago" if silence_s > 2 * PING_INTERVAL_S else ""
        return PolicyFault(f"{doing}: no answer within {timeout_s:g} s{quiet}", code="policy_timeout")
    if isinstance(error, LineTooLarge):
        return ContractFault(recordable(f"{doing}: {error}"), code="message_too_large")
    if isinstance(error, LineLost):
        return HarnessFault(recordable(f"{doing}: {error}"), code="transport_lost")
    return error
