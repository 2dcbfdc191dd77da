"""The doors of the service over HTTP: who may come in, how much may be brought, and for how long that may take.

Source: policy contract, section 4.2.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from trialplate.errors import ContractFault, TrialplateError
from trialplate.policies.service.answers import (
    JSON,
    MSGPACK,
    Pieces,
    Refusal,
    answer,
    refuse,
    unauthorized,
    unknown_episode,
)
from trialplate.policies.service.connections import NO_REQUEST, PASS
from trialplate.policies.service.desk import MANAGEMENT_BYTES, Desk
from trialplate.policies.service.episode import Call
from trialplate.policies.service.sockets import Sockets
from trialplate.policies.service.token import bears_token
from trialplate.policies.wire import own, strict_json

BODY_TIMEOUT_S = 30.0
"""From the headers of a request until its body is whole."""

DRAIN_S = 1.0
DRAIN_BYTES = 2**27
"""How much of a body that is refused is read and thrown away, so that its sender hears why."""

BODIES_BYTES = 2**26
"""What all bodies that are being read may take together, beside one that is the largest."""

MAX_HELD = 64
"""Requests of the holders of one id that are answered at once; what waits is theirs, the places are everybody's."""

Handler = Callable[[Request], Awaitable[Response]]


def service_app(desk: Desk, *, token: str) -> ASGIApp:
    """Return the application. ``token``: opens management."""
    doors = _Doors(desk, token=token)
    sockets = Sockets(desk, token=token)
    manage, hold = doors.management, doors.holder
    routes = [
        Route("/healthz", _alive, methods=["GET"]),
        Route("/v1/hello", manage(doors.hello), methods=["POST"]),
        Route("/v1/register", manage(doors.register), methods=["POST"]),
        Route("/v1/episodes", manage(doors.start), methods=["POST"]),
        Route("/v1/episodes/{id}/close", manage(doors.close), methods=["POST"]),
        Route("/v1/abort", manage(doors.abort), methods=["POST"]),
        Route("/v1/status", manage(doors.status), methods=["GET"]),
        Route("/v1/results", manage(doors.results), methods=["GET"]),
        Route("/v1/episodes/{id}/spec", hold(doors.spec), methods=["GET"]),
        Route("/v1/episodes/{id}/observe", hold(doors.observe), methods=["GET"]),
        Route("/v1/episodes/{id}/act", hold(partial(doors.act, only_stop=False)), methods=["POST"]),
        Route("/v1/episodes/{id}/stop", hold(partial(doors.act, only_stop=True)), methods=["POST"]),
        WebSocketRoute("/v1/episodes/{id}/ws", sockets.holder),
        WebSocketRoute("/v1/ws", sockets.management),
        WebSocketRoute("/{rest:path}", _no_socket),
    ]
    handlers: dict[Any, Any] = {
        HTTPException: _nothing_there, ClientDisconnect: _gone, TrialplateError: _fault, Exception: _failed,
    }  # fmt: skip
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return _Guard(app)


class _Guard:
    """Refuses an address with a query or written in another way than ours, and what is no HTTP request, unseen."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal: TrialplateError | None = None
        if scope["type"] in ("http", "websocket"):
            path = scope["path"].encode("utf-8", "surrogateescape")
            if scope.get("query_string") and scope["path"] != "/healthz":
                refusal = unauthorized()
            elif scope.get("raw_path", path) != path:
                refusal = unknown_episode()
            elif scope["type"] == "http" and not _is_framed(scope):
                refusal = ContractFault(NO_REQUEST, code="wire_malformed")
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await refuse(refusal, close=isinstance(refusal, ContractFault))(scope, receive, send)
        else:
            await WebSocket(scope, receive, send).send_denial_response(refuse(refusal))


def _is_framed(scope: Scope) -> bool:
    """Return whether everybody would agree where the body of a request ends; the server takes some that are not.

    Source: RFC 9112, section 6.1: a length beside an encoding, or an encoding in HTTP/1.0, is faulty framing.
    """
    named = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" in named:
        return scope["http_version"] == "1.1" and b"content-length" not in named
    return scope["http_version"] in ("1.0", "1.1")


class _Doors:
    """One method per endpoint."""

    def __init__(self, desk: Desk, *, token: str) -> None:
        self._desk, self._token, self._heard = desk, token, desk.rendezvous.hear
        self._reading_bytes = 0
        self._held: Counter[str] = Counter()

    def management(self, handle: Handler) -> Handler:
        """Return a handler that is behind the token, whatever else the request is."""

        async def guarded(request: Request) -> Response:
            if not bears_token(request.headers.raw, self._token):
                return refuse(unauthorized())
            setattr(request.state, PASS, lambda: True)
            self._heard()
            try:
                return await handle(request)
            finally:
                self._heard()

        return guarded

    def holder(self, handle: Handler) -> Handler:
        """Return a handler that is behind the id of the present episode."""

        async def guarded(request: Request) -> Response:
            id_ = request.path_params["id"]
            try:
                self._desk.episode(id_)
                if self._held[id_] >= MAX_HELD:
                    raise Refusal(f"{MAX_HELD} requests are being answered already", code="transport_lost")
            except TrialplateError as fault:
                return refuse(fault)
            setattr(request.state, PASS, partial(self._desk.is_present, id_))
            self._held[id_] += 1
            try:
                return await handle(request)
            finally:
                self._held[id_] -= 1
                if not self._held[id_]:
                    del self._held[id_]

        return guarded

    async def hello(self, request: Request) -> Response:
        """POST /v1/hello."""
        return answer(self._desk.hello(await self._message(request)))

    async def register(self, request: Request) -> Response:
        """POST /v1/register."""
        return answer(self._desk.register(await self._message(request)))

    async def start(self, request: Request) -> Response:
        """POST /v1/episodes."""
        await self._nothing(request)
        started = await self._desk.start()
        return answer(started, status=200 if started["episode"] is None else 201)

    async def close(self, request: Request) -> Response:
        """POST /v1/episodes/{id}/close."""
        await self._nothing(request)
        return answer(await self._desk.close(request.path_params["id"]))

    async def abort(self, request: Request) -> Response:
        """POST /v1/abort."""
        await self._nothing(request)
        return answer(self._desk.abort())

    async def status(self, request: Request) -> Response:
        """GET /v1/status."""
        return answer(self._desk.status())

    async def results(self, request: Request) -> Response:
        """GET /v1/results."""
        found = answer(await self._desk.results())
        found.background = BackgroundTask(self._desk.has_read)
        return found

    async def spec(self, request: Request) -> Response:
        """GET /v1/episodes/{id}/spec."""
        return answer(self._desk.spec(self._desk.episode(request.path_params["id"])))

    async def observe(self, request: Request) -> Response:
        """GET /v1/episodes/{id}/observe."""
        form = MSGPACK if MSGPACK in request.headers.get("accept", "").lower() else JSON
        episode = self._desk.episode(request.path_params["id"])
        found = await self._desk.observe(episode)
        if not isinstance(found, Call):
            return answer(found, form=form)
        return Pieces(await self._desk.shown(episode, found, form=form), media_type=form)

    async def act(self, request: Request, *, only_stop: bool) -> Response:
        """POST /v1/episodes/{id}/act and stop."""
        limit = self._desk.decision_bytes
        packed = request.headers.get("content-type", "").lower().startswith(MSGPACK)
        decode = partial(own.decode if packed else strict_json.loads, max_bytes=limit)
        episode = self._desk.episode(request.path_params["id"])
        if not {"content-length", "transfer-encoding"} & set(request.headers):
            request.state.unread = True
            raise ContractFault("a decision needs content-length or transfer-encoding", code="wire_malformed")
        try:
            async with self._body(request, limit_bytes=limit) as body:
                return answer(await self._desk.act(episode, body, decode=decode, only_stop=only_stop))
        except ContractFault as fault:
            if fault.code == "message_too_large" and request.state.unread:  # it came as the answer, and is none
                await self._desk.unreadable(episode, fault)
            raise

    # -- bodies ----------------------------------------------------------------------------------------------------

    async def _message(self, request: Request) -> Any:
        async with self._body(request, limit_bytes=MANAGEMENT_BYTES) as body:
            return strict_json.loads(body, max_bytes=MANAGEMENT_BYTES)

    async def _nothing(self, request: Request) -> None:
        """Read a body that says nothing. Raises ContractFault when it does say something."""
        async with self._body(request, limit_bytes=MANAGEMENT_BYTES) as body:
            if body.strip() not in (b"", b"{}"):
                raise ContractFault("expected no body here, or {}", code="wire_malformed")

    @asynccontextmanager
    async def _body(self, request: Request, *, limit_bytes: int) -> AsyncIterator[bytes]:
        """Give the whole body, counted as long as it is needed.

        Raises ContractFault when it is in a coding that nobody here reads, too large or does not come in time,
        Refusal when all bodies together are too large.
        """
        request.state.unread = True
        if (coding := request.headers.get("content-encoding", "identity").strip().lower()) != "identity":
            raise ContractFault(f"content-encoding: expected none, got {coding!r:.40}", code="wire_malformed")
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit_bytes:
            await _drained(request)
            raise _too_large(int(declared), limit_bytes)
        parts: list[bytes] = []
        try:
            await self._read(request, parts, limit_bytes=limit_bytes)
            request.state.unread = False
            yield b"".join(parts)
        finally:
            self._reading_bytes -= sum(len(part) for part in parts)

    async def _read(self, request: Request, parts: list[bytes], *, limit_bytes: int) -> None:
        size = 0
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                async for part in request.stream():
                    size += len(part)
                    self._reading_bytes += len(part)
                    parts.append(part)
                    if size > limit_bytes:
                        raise _too_large(size, limit_bytes)
                    if self._reading_bytes > BODIES_BYTES + limit_bytes:
                        raise Refusal("too much is being sent at once; try again", code="transport_lost")
        except TimeoutError:
            raise ContractFault(f"the body was not whole after {BODY_TIMEOUT_S:g} s", code="wire_malformed") from None


async def _drained(request: Request) -> None:
    """Read on for a moment and throw it away: who is still sending does not hear an answer."""
    size = 0
    try:
        async with asyncio.timeout(DRAIN_S):
            async for part in request.stream():
                size += len(part)
                if size > DRAIN_BYTES:
                    return
    except TimeoutError:
        return


def _too_large(size_bytes: int, limit_bytes: int) -> ContractFault:
    return ContractFault(
        f"a message of {size_bytes} bytes or more, the limit is {limit_bytes}", code="message_too_large"
    )


async def _alive(request: Request) -> Response:
    return answer({"alive": True})


async def _no_socket(socket: WebSocket) -> None:
    await socket.send_denial_response(refuse(unknown_episode()))


async def _nothing_there(request: Request, error: Exception) -> Response:
    return refuse(unknown_episode())


async def _fault(request: Request, error: Exception) -> Response:
    return refuse(error, close=getattr(request.state, "unread", False))


async def _gone(request: Request, error: Exception) -> Response:
    return Response()  # nobody hears it


async def _failed(request: Request, error: Exception) -> Response:
    return refuse(error, close=True)
