"""The doors of the service over WebSocket: the same messages as binary msgpack frames, each request with its number.

Source: policy contract, sections 2 and 4.2.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from trialplate.errors import ContractFault, TrialplateError
from trialplate.policies.messages import parse_request
from trialplate.policies.messages.reading import text_at
from trialplate.policies.messages.types import CloseMessage
from trialplate.policies.messages.writing import observation_message
from trialplate.policies.service.answers import Refusal, error_of, refuse, unauthorized
from trialplate.policies.service.connections import PASS, TOO_LARGE
from trialplate.policies.service.desk import IN_LOOP_BYTES, MANAGEMENT_BYTES, Desk
from trialplate.policies.service.episode import Call
from trialplate.policies.service.token import bears_token
from trialplate.policies.wire import own

MAX_SOCKETS = 4
"""WebSockets that the holders of one id, or all drivers together, may have open at once."""

GRACE_S = 60.0
SILENT_DRIVER_S = 86_400.0
"""For how long a driver may keep a connection without a word; the run itself may be over before."""

_DRIVERS = "management"
_NORMAL, _GOING_AWAY, _UNREADABLE = 1000, 1001, 1003

Handle = Callable[[Any], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class _Side:
    """Who is at the other end: how large its frames may be, how long it may be silent, and what it may ask for.

    ``lost``: told of a frame that cannot be read. ``sent``: told of each reply that went out. ``last``: after these
    codes there is nothing more to say.
    """

    max_bytes: int
    silence_s: float
    handle: Handle
    lost: Callable[[TrialplateError], Awaitable[None]]
    sent: Callable[[Mapping[str, Any]], Awaitable[None]]
    last: tuple[str, ...]


class Sockets:
    """One method per WebSocket endpoint."""

    def __init__(self, desk: Desk, *, token: str) -> None:
        self._desk, self._token, self._heard = desk, token, desk.rendezvous.hear
        self._open: Counter[str] = Counter()

    async def holder(self, socket: WebSocket) -> None:
        """GET /v1/episodes/{id}/ws."""
        id_ = socket.path_params["id"]
        try:
            self._desk.episode(id_)
        except TrialplateError as fault:
            await socket.send_denial_response(refuse(fault))
            return
        setattr(socket.state, PASS, partial(self._desk.is_present, id_))

        async def handle(message: Any) -> dict[str, Any]:
            return await self._of_holder(id_, message)

        async def lost(fault: TrialplateError) -> None:
            await self._desk.unreadable(self._desk.episode(id_), fault)

        last = ("unknown_episode", "shutting_down")
        side = _Side(self._desk.decision_bytes, self._desk.thinking_s + GRACE_S, handle, lost, _nothing, last)
        await self._serve(socket, id_, side)

    async def management(self, socket: WebSocket) -> None:
        """GET /v1/ws."""
        if not bears_token(socket.headers.raw, self._token):
            await socket.send_denial_response(refuse(unauthorized()))
            return
        setattr(socket.state, PASS, lambda: True)

        async def sent(reply: Mapping[str, Any]) -> None:
            if reply["type"] == "results":
                await self._desk.has_read()

        side = _Side(MANAGEMENT_BYTES, SILENT_DRIVER_S, self._of_driver, _nothing, sent, ("shutting_down",))
        await self._serve(socket, _DRIVERS, side)

    # -- one request -----------------------------------------------------------------------------------------------

    async def _of_holder(self, id_: str, message: Any) -> dict[str, Any]:
        """Answer the holder of an id: a request by its name; anything else came as the decision to the open call."""
        episode = self._desk.episode(id_)
        kind = text_at(message, "type")
        if kind == "describe":
            parse_request(message)
            return self._desk.spec(episode)
        if kind == "observe":
            parse_request(message)
            found = await self._desk.observe(episode)
            return observation_message(found.observation) if isinstance(found, Call) else found
        plain = {key: value for key, value in message.items() if key != "id"}
        return await self._desk.act(episode, own.encode(plain), decode=lambda _: plain)

    async def _of_driver(self, message: Any) -> dict[str, Any]:
        """Answer a driver."""
        self._heard()
        kind = text_at(message, "type")
        if kind == "hello":
            return self._desk.hello(message)
        if kind == "register":
            return self._desk.register(message)
        request = parse_request(message)
        if isinstance(request, CloseMessage):
            if request.episode is None:
                raise ContractFault("close: which episode?", code="wire_malformed")
            return await self._desk.close(request.episode)
        match request.type:
            case "start":
                return await self._desk.start()
            case "abort":
                return self._desk.abort()
            case "status":
                return self._desk.status()
            case "results":
                return await self._desk.results()
            case _:
                raise ContractFault(f"{request.type}: this is for the holder of an episode", code="wire_malformed")

    # -- the conversation ------------------------------------------------------------------------------------------

    async def _serve(self, socket: WebSocket, who: str, side: _Side) -> None:
        if self._open[who] >= MAX_SOCKETS:
            await socket.send_denial_response(
                refuse(Refusal(f"{MAX_SOCKETS} connections of this kind are open already", code="transport_lost"))
            )
            return
        self._open[who] += 1
        try:
            await socket.accept()
            await _converse(socket, side)
        except WebSocketDisconnect:
            pass  # the peer is gone; whoever has the id or the token may come back
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]


async def _converse(socket: WebSocket, side: _Side) -> None:
    """Answer requests one after the other until either side ends it."""
    latest = -1
    while True:
        try:
            async with asyncio.timeout(side.silence_s):
                event = await socket.receive()
        except TimeoutError:
            await socket.close(_GOING_AWAY)
            return
        if event["type"] != "websocket.receive":
            if event.get("code") == TOO_LARGE:
                with suppress(TrialplateError):
                    await side.lost(ContractFault("a frame is above the limit", code="message_too_large"))
            return
        try:
            message, number = await _read(event.get("bytes"), max_bytes=side.max_bytes)
        except ContractFault as fault:
            with suppress(TrialplateError):  # its episode is over: nobody waits for it
                await side.lost(fault)
            await _send(socket, error_of(fault), None)
            await socket.close(_UNREADABLE)
            return
        try:
            if number <= latest:
                raise ContractFault(f"id: expected more than {latest}, got {number}", code="out_of_order")
            latest = number
            reply = await side.handle(message)
        except TrialplateError as fault:
            reply = error_of(fault)
        await _send(socket, reply, number)
        await side.sent(reply)
        if reply.get("code") in side.last:
            await socket.close(_NORMAL)
            return


async def _nothing(_: object) -> None:
    """Take notice of nothing."""


async def _read(frame: bytes | None, *, max_bytes: int) -> tuple[dict[str, Any], int]:
    """Return a message and its number. Raises ContractFault."""
    if frame is None:
        raise ContractFault("a text frame came where a binary frame is expected", code="wire_malformed")

    def decode() -> Any:
        return own.decode(frame, max_bytes=max_bytes)

    message = decode() if len(frame) <= IN_LOOP_BYTES else await asyncio.to_thread(decode)
    if not isinstance(message, dict):
        raise ContractFault(f"a message is a map, got {type(message).__name__}", code="wire_malformed")
    number = message.get("id")
    if type(number) is not int or not 0 <= number <= 2**53:
        raise ContractFault("a request needs id, a whole number that increases", code="wire_malformed")
    return message, number


async def _send(socket: WebSocket, reply: dict[str, Any], number: int | None) -> None:
    await socket.send_bytes(await asyncio.to_thread(own.encode, {**reply, "id": number}))
