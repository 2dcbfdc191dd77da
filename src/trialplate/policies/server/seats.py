"""Who is in the house of a policy server: connections at the door, and those that have a seat.

A seat is a WebSocket. At the door stands whoever has not finished the handshake, or has asked for nothing but
``/healthz``. What all of them together can take in memory is limited, and nobody keeps others out by doing nothing:
of too many at the door the oldest goes, and where no seat is left one is taken back from a client that has held it
for ``STRANGER_S`` without ever asking the policy anything.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from trialplate.policies.server.receiving import Lender, ReceivingConnection

MOST_SEATS = 1024
MOST_AT_THE_DOOR = 256
REQUEST_MOST_BYTES = 2**14
"""What may be said at the door: a handshake of half a KiB, and what a proxy adds."""

BUFFER_BYTES = 2**32
MESSAGES_OF_A_SEAT = 3
"""One that the policy decides on, one that waits, one that comes in."""

STRANGER_S = 60.0
OUTGOING_MOST_BYTES = 2**22
"""What may wait for a client to read it, above anything that it is sent by itself: the answers to its pings."""

UNACKNOWLEDGED_MS = 120_000
"""How long a client's machine may leave bytes unacknowledged; one that vanished is let go after that."""


class Guest(ReceivingConnection):
    """A connection that the house knows of from its first byte to its last.

    ``working``: one of its messages is being carried out. ``known``: the policy has been asked by it. ``house``: set
    for all guests of a server by :meth:`Seats.guests`.
    """

    house: Seats

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.lender = self.house.lender
        self.working = self.known = False
        self.began_s: float | None = None
        self.seated_s: float | None = None
        self._said_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Come to the door."""
        with suppress(OSError, AttributeError):
            sock = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
        super().connection_made(transport)
        self.house.arrive(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the house."""
        super().connection_lost(exc)
        self.house.leave(self)

    def buffer_updated(self, nbytes: int) -> None:
        """Take in the bytes that were read; drop who talks at the door, or is sent answers and reads none of them."""
        self._said_bytes += nbytes if self.seated_s is None else 0
        if self._said_bytes > REQUEST_MOST_BYTES:
            self.transport.abort()
            return
        super().buffer_updated(nbytes)
        if self.transport.get_write_buffer_size() > OUTGOING_MOST_BYTES:
            self.transport.abort()


class Seats:
    """The connections of one server, in one loop. ``single``: the policy serves one client at a time.

    ``left``: called with each connection that is gone.
    """

    def __init__(self, limit_bytes: int, *, single: bool, left: Callable[[Guest], None]) -> None:
        self.lender = Lender()
        self.seated: set[Guest] = set()
        self._single, self._left = single, left
        self._most = 1 if single else most_seats(limit_bytes)
        self._door: dict[Guest, None] = {}
        self._now_s = asyncio.get_running_loop().time

    def guests(self) -> type[Guest]:
        """Return the class of this server's connections."""
        return type("GuestOfOneServer", (Guest,), {"house": self})

    def arrive(self, guest: Guest) -> None:
        """Let a connection stand at the door; of too many, the one that has stood there longest goes."""
        if len(self._door) >= MOST_AT_THE_DOOR:
            next(iter(self._door)).transport.abort()
        self._door[guest] = None

    def seat(self, guest: Guest) -> str | None:
        """Give a connection its seat; return why not where none is left."""
        if len(self.seated) >= self._most and not self._one_is_free():
            why = "this policy serves one client at a time (state: instance)" if self._single else "no seat is left"
            return f"{why}: {len(self.seated)} connected, at most {self._most}"
        self._door.pop(guest, None)
        self.seated.add(guest)
        guest.seated_s = self._now_s()
        return None

    def leave(self, guest: Guest) -> None:
        """Forget a connection that is gone."""
        self._door.pop(guest, None)
        self.seated.discard(guest)
        self._left(guest)

    def clear(self) -> None:
        """Let nobody stay, with a seat or at the door."""
        for guest in (*self.seated, *self._door):
            guest.transport.abort()

    def _one_is_free(self) -> bool:
        """Take the seat of the stranger who has had it longest, if there is one."""
        strangers = [(guest.seated_s or 0.0, guest) for guest in self.seated if not guest.known]
        since_s, longest = min(strangers, key=lambda pair: pair[0], default=(0.0, None))
        if longest is None or self._now_s() - since_s < STRANGER_S:
            return False
        self.seated.discard(longest)
        longest.transport.abort()
        return True


def most_seats(limit_bytes: int) -> int:
    """Return how many connections may have a seat, by the memory and the descriptors that they may take."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_SEATS if descriptors == resource.RLIM_INFINITY else min(MOST_SEATS, descriptors // 2)
    return max(16, min(most, BUFFER_BYTES // (MESSAGES_OF_A_SEAT * limit_bytes)))
