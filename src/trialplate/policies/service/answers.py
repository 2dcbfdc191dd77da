"""What goes back over HTTP: messages in the form that was asked for, and faults as errors that tell nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from trialplate.errors import ContractFault, HarnessFault, PolicyFault, TrialplateError
from trialplate.policies.messages import CLASS_OF, HTTP_STATUS, error_message
from trialplate.policies.wire import own, strict_json

JSON, MSGPACK = "application/json", "application/msgpack"
PIECE_BYTES = 65_536

_OF_THE_HARNESS = "the service could not go on with this episode"
_UNTOLD = "the service failed"


class Refusal(TrialplateError):
    """A request that reaches nothing: ``unauthorized``, ``unknown_episode`` or ``shutting_down``."""

    code = "unauthorized"


def unauthorized() -> Refusal:
    """Return the refusal of a request without the management token."""
    return Refusal("this needs the management token as a bearer, and nothing in the address", code="unauthorized")


def unknown_episode() -> Refusal:
    """Return the refusal of an address or id that is not good here and now; it never says why."""
    return Refusal("nothing is there", code="unknown_episode")


def shutting_down() -> Refusal:
    """Return the refusal of a request that came too late."""
    return Refusal("the service is shutting down", code="shutting_down")


def error_of(fault: Exception) -> dict[str, Any]:
    """Return a fault as a message. What happened inside the harness is not told."""
    if isinstance(fault, HarnessFault):
        return error_message(fault.code if fault.code in CLASS_OF else "simulator_crash", _OF_THE_HARNESS)
    if isinstance(fault, (PolicyFault, ContractFault, Refusal)) and fault.code in CLASS_OF:
        return error_message(fault.code, fault.message)
    return error_message("simulator_crash", _UNTOLD)


def refuse(fault: Exception, *, close: bool = False) -> Response:
    """Return a fault as a response. ``close``: what follows on the connection is not read any more."""
    message = error_of(fault)
    headers = {"connection": "close"} if close else {}
    if message["code"] == "unauthorized":
        headers["www-authenticate"] = "Bearer"
    return Pieces(strict_json.dumps(message), status_code=HTTP_STATUS[message["code"]], headers=headers)


def answer(message: Mapping[str, Any], *, form: str = JSON, status: int = 200) -> Response:
    """Return a message as a response."""
    return Pieces(written(message, form=form), status_code=status, media_type=form)


def written(message: Mapping[str, Any], *, form: str) -> bytes:
    """Return a message in one of the two forms."""
    return own.encode(message) if form == MSGPACK else strict_json.dumps(message)


class Pieces(Response):
    """A body that is sent piece by piece: a reader that is slow holds one piece, not a copy of the whole."""

    media_type = JSON

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """Set the headers; nothing that is sent here may be kept by anybody in between."""
        super().init_headers({**(headers or {}), "cache-control": "no-store"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the body; before a WebSocket is accepted this is its refusal."""
        kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
        await send({"type": f"{kind}.start", "status": self.status_code, "headers": self.raw_headers})
        body = memoryview(self.body)
        for start in range(0, len(body), PIECE_BYTES):
            piece = bytes(body[start : start + PIECE_BYTES])
            more = start + PIECE_BYTES < len(body)
            await send({"type": f"{kind}.body", "body": piece, "more_body": more})
        if not body:
            await send({"type": f"{kind}.body", "body": b"", "more_body": False})
        if self.background is not None:
            await self.background()
