"""A policy behind a WebSocket: what ``trialplate policy serve`` runs.

One event loop answers handshakes, pings and ``GET /healthz`` at all times; the policy lives in one thread of its own
(:mod:`~trialplate.policies.server.batching`). What a message means is the session's
(:mod:`~trialplate.policies.server.sessions`).
Memory is bounded: a message has the size that the policy needs, there are only so many connections
(:mod:`~trialplate.policies.server.seats`), and one that begins a message and does not finish it is dropped.
Source: policy contract, sections 4.3 and 5.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from trialplate.errors import HarnessFault, Unavailable, UsageError
from trialplate.policies.charging import charged
from trialplate.policies.client.connection import seconds
from trialplate.policies.server.batching import Ask, Batcher, Delivery, Job
from trialplate.policies.server.seats import Guest, Seats
from trialplate.policies.server.sessions import Begin, Decide, Dialect, Say, Session, Step
from trialplate.record import EpisodeInfo
from trialplate.spec.channels import PolicySpec

PING_INTERVAL_S = 20.0
OPEN_TIMEOUT_S = 10.0
MESSAGE_TIMEOUT_S = 60.0
"""How long one message may take to come in."""

LONG_READ_S = 0.01
GOING_AWAY = "the policy server is shutting down"
LOCAL_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})

_QUIET = logging.getLogger("trialplate.policies.server.server")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Where and how a policy is served. ``max_wait_s``: how long a batch waits after its first request."""

    host: str = "127.0.0.1"
    port: int = 8000
    max_batch_size: int = 1
    max_wait_s: float = 0.0
    max_message_bytes: int = 2**26
    close_timeout_s: float = 10.0
    allow_remote: bool = False

    def __post_init__(self) -> None:
        seconds("close_timeout_s", self.close_timeout_s)
        if self.max_wait_s != 0:
            seconds("max_wait_ms", self.max_wait_s)
        for name, most in (("max_batch_size", 4096), ("max_message_bytes", 2**30)):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                raise UsageError(f"{name}: expected a whole number from 1 to {most}, got {value!r}")
        if self.host not in LOCAL_HOSTS and not self.allow_remote:
            raise UsageError(
                f"bind {self.host}: anybody on the network could use the policy; pass --allow-remote if that is meant"
            )


class PolicyServer:
    """Serves one policy. Used as an asynchronous context manager, in a running loop."""

    def __init__(self, batcher: Batcher, declared: PolicySpec, dialect: Dialect, settings: ServeSettings) -> None:
        self._batcher, self._dialect, self._settings = batcher, dialect, settings
        self._seats = Seats(dialect.limit_bytes, single=declared.state == "instance", left=self._leave)
        self._asked: dict[Guest, asyncio.Future[Any]] = {}
        self._reading = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self._server: Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        assert self._server is not None
        port: int = next(iter(self._server.sockets)).getsockname()[1]
        return port

    async def __aenter__(self) -> PolicyServer:
        settings = self._settings
        try:
            self._server = await serve(
                self._converse,
                settings.host,
                settings.port,
                process_request=self._admit,
                create_connection=self._seats.guests(),
                compression=None,
                max_size=self._dialect.limit_bytes,
                max_queue=1,
                open_timeout=OPEN_TIMEOUT_S,
                ping_interval=PING_INTERVAL_S,
                ping_timeout=None,
                close_timeout=settings.close_timeout_s,
                server_header=None,
                logger=_QUIET,
            )
        except OSError as error:
            raise Unavailable(
                f"{settings.host}:{settings.port} cannot be listened on: {error.strerror or error}"
            ) from None
        self._sweeper = self._loop.create_task(self._sweep())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Take no more connections, let requests in progress end within ``close_timeout_s``, then close."""
        assert self._server is not None and self._sweeper is not None
        self._sweeper.cancel()
        self._closing = True
        self._server.close(close_connections=False)
        ends_s = self._loop.time() + self._settings.close_timeout_s
        seated = self._seats.seated
        while self._loop.time() < ends_s and any(connection.working for connection in seated):
            await asyncio.sleep(0.01)
        idle = [connection.close(1001, GOING_AWAY) for connection in seated]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*idle, return_exceptions=True), 1.0)
        self._seats.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._server.wait_closed(), self._settings.close_timeout_s)

    # -- handshake -----------------------------------------------------------------------------------------------

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer ``/healthz``, refuse a page in a browser and a connection too many, give any other its seat."""
        assert isinstance(connection, Guest)
        if request.path == "/healthz":
            return connection.respond(HTTPStatus.OK, "alive\n")
        if "Origin" in request.headers:  # any page that is open on this machine could ask
            return connection.respond(HTTPStatus.FORBIDDEN, "a policy is not served to pages in a browser\n")
        why_not = self._seats.seat(connection)
        return None if why_not is None else connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, f"{why_not}\n")

    def _leave(self, connection: Guest) -> None:
        asked = self._asked.get(connection)
        if asked is not None and not asked.done():
            asked.set_result(HarnessFault("the client has gone", code="transport_lost"))

    async def _sweep(self) -> None:
        """Drop connections whose message does not come to its end."""
        while True:
            await asyncio.sleep(MESSAGE_TIMEOUT_S / 6)
            now_s = self._loop.time()
            for connection in list(self._seats.seated):
                if not connection.inside_a_message() or connection.working:
                    connection.began_s = None
                elif connection.began_s is None:
                    connection.began_s = now_s
                elif now_s - connection.began_s > MESSAGE_TIMEOUT_S:
                    connection.transport.abort()

    # -- conversation --------------------------------------------------------------------------------------------

    async def _converse(self, connection: ServerConnection) -> None:
        assert isinstance(connection, Guest)
        session = self._dialect.session()
        with suppress(ConnectionClosed):
            await connection.send(self._dialect.greeting)
            async for data in connection:
                connection.working = True
                goes_on = await self._answer(connection, session, data)
                connection.working = False
                if not goes_on:
                    return
                if self._closing:
                    await connection.close(1001, GOING_AWAY)

    async def _answer(self, connection: Guest, session: Session, data: str | bytes) -> bool:
        """Carry out one message; return whether the connection goes on."""
        for step in await self._read(session, data):
            outcome = await self._carry_out(connection, step)
            reply = session.reply(step, outcome)
            if reply.data is not None and not (isinstance(reply.data, bytes) and connection.post(reply.data)):
                await connection.send(reply.data)
            if reply.closes:
                await connection.close(reply.code)
                return False
        return True

    async def _read(self, session: Session, data: str | bytes) -> Sequence[Step]:
        """Read one message; after one that took long, everybody else has as much time before the next is read."""
        async with self._reading:
            start_s = self._loop.time()
            steps = session.receive(data)
            took_s = self._loop.time() - start_s
            if took_s > LONG_READ_S:
                await asyncio.sleep(took_s)
            return steps

    async def _carry_out(self, connection: Guest, step: Step) -> Any:
        connection.known = connection.known or not isinstance(step, Say)
        if isinstance(step, Decide):
            return await self._in_the_policys_thread(connection, partial(Ask, step.observation))
        if isinstance(step, Begin):
            return await self._in_the_policys_thread(connection, partial(self._reset, step.info))
        return None

    def _reset(self, info: EpisodeInfo, future: asyncio.Future[Any]) -> Job:
        def done(result: Any) -> None:
            self._from_the_policys_thread(_settle, [(future, result)])

        def reset(policy: Any) -> None:
            if not future.done():  # else the client has gone
                charged(lambda: policy.reset(info), doing="reset")

        return Job(reset, done)

    async def _in_the_policys_thread(
        self, connection: Guest, item: Callable[[asyncio.Future[Any]], Ask | Job]
    ) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()
        request = item(future)
        self._asked[connection] = future
        self._batcher.submit(request)
        try:
            return await future
        finally:
            del self._asked[connection]
            if isinstance(request, Ask):
                request.withdrawn = True

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Take the outcomes of a batch; called in the policy's thread."""
        self._from_the_policys_thread(_settle, [(ask.token, outcome) for ask, outcome in deliveries])

    def _from_the_policys_thread(self, call: Callable[..., None], argument: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits
            self._loop.call_soon_threadsafe(call, argument)


def _settle(outcomes: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, outcome in outcomes:
        if not future.done():
            future.set_result(outcome)
