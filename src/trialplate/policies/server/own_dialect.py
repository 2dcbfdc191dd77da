"""Our own dialect, as a policy server speaks it: hello first, then a reply to each request under its id.

Source: policy contract, section 4.3; the frames are those of docs/wire.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trialplate.errors import ContractFault, HarnessFault, PolicyFault, TrialplateError
from trialplate.policies.messages.handshake import agreed_bytes, parse_hello, policy_hello_message
from trialplate.policies.messages.reading import (
    message_type,
    parse_ack,
    parse_episode_end,
    parse_observation,
    parse_reset,
)
from trialplate.policies.messages.writing import (
    close_message,
    decision_message,
    error_message,
    fitted,
    ready_message,
)
from trialplate.policies.server.sessions import Begin, Decide, Reply, Say, Step, limit_for
from trialplate.policies.wire import own
from trialplate.spec.channels import PolicySpec
from trialplate.spec.registration import Registration


class OwnDialect:
    """Hello first, then requests with increasing ids, each answered with the same id.

    ``written``: names a file of the policy that was written since it was loaded, None while there is none; asked at
    each reset. Raises ContractFault (``message_too_large``) when ``max_message_bytes`` cannot hold what the policy
    expects.
    """

    def __init__(
        self, declared: PolicySpec, registration: Registration, *, max_message_bytes: int,
        written: Callable[[], str | None] = lambda: None,
    ) -> None:  # fmt: skip
        agreed_bytes(max_message_bytes, max_message_bytes, spec=declared.expects)
        self.limit_bytes = limit_for(declared, max_message_bytes)
        self.declared, self.written = declared, written
        self.greeting = own.encode(
            policy_hello_message(declared, registration, encodings=("msgpack",), max_message_bytes=self.limit_bytes)
        )

    def session(self) -> OwnSession:
        """Begin a conversation."""
        return OwnSession(self)


class OwnSession:
    """One client of our own dialect."""

    def __init__(self, dialect: OwnDialect) -> None:
        self._dialect = dialect
        self._last_id = -1
        self._episode: str | None = None

    def receive(self, data: bytes | str) -> Sequence[Step]:
        """Read one message."""
        number: int | None = None
        try:
            if isinstance(data, str):
                raise ContractFault("a text frame, expected binary", code="wire_malformed")
            message = own.decode(data, max_bytes=self._dialect.limit_bytes)
            kind = message_type(message)
            if kind in ("observation", "reset", "close"):
                number = self._request_id(message)
            return self._steps(kind, message, number)
        except ContractFault as fault:
            return (Say(_error(fault, number), closes=number is None),)

    def reply(self, step: Step, outcome: Any) -> Reply:
        """Return the answer to a step."""
        if isinstance(step, Say):
            return Reply(step.data, closes=step.closes)
        if isinstance(outcome, HarnessFault):  # the server is going away: the client sees the wire end
            return Reply(None, closes=True, code=1001)
        if isinstance(outcome, TrialplateError):
            return Reply(_error(outcome, step.id))
        if isinstance(step, Begin):
            return Reply(own.encode({**ready_message(step.info.episode), "id": step.id}))
        try:
            return Reply(own.encode({**decision_message(outcome, step.observation), "id": step.id}))
        except TrialplateError as fault:
            return Reply(_error(PolicyFault(fault.message, code="invalid_response_schema"), step.id))

    def _request_id(self, message: Mapping[str, Any]) -> int:
        number = message.get("id")
        if type(number) is not int or not self._last_id < number < 2**53:
            found = number if type(number) is int else type(number).__name__
            raise ContractFault(f"id: expected an int above {self._last_id}, got {found}", code="out_of_order")
        self._last_id = number
        return number

    def _steps(self, kind: str, message: Any, number: int | None) -> Sequence[Step]:
        if kind == "observation":
            observation = parse_observation(message, self._dialect.declared.expects)
            if observation.episode != self._episode:
                raise ContractFault(
                    f"episode {observation.episode} was not begun here: reset comes first", code="out_of_order"
                )
            return (Decide(observation, number),)
        if kind == "reset":
            info = parse_reset(message)
            if (written := self._dialect.written()) is not None:
                raise ContractFault(f"{written} was written since the policy was loaded", code="identity_changed")
            self._episode = info.episode
            return (Begin(info, number),)
        if kind == "close":
            return (Say(own.encode({**close_message(), "id": number}), closes=True),)
        readers = {"ack": parse_ack, "episode_end": parse_episode_end, "hello": parse_hello}
        if kind not in readers:
            raise ContractFault(f"a policy server has no answer to {fitted(kind)[:40]!r}", code="wire_malformed")
        readers[kind](message)
        return ()


def _error(fault: TrialplateError, number: int | None) -> bytes:
    code = fault.code if isinstance(fault, PolicyFault | ContractFault) else "policy_exception"
    return own.encode({**error_message(code, fault.message), "id": number})
