"""What the messages of one connection to a policy server mean: a conversation without sockets.

A dialect makes one session per connection. ``receive`` turns a message into steps; the server carries each out in the
policy's thread and gives the outcome back to ``reply``. Source: policy contract, section 4.3.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from trialplate.canonical import sha256_hex
from trialplate.errors import ContractFault, HarnessFault, PolicyFault, TrialplateError
from trialplate.policies.messages.handshake import agreed_bytes, needed_bytes, parse_hello, policy_hello_message
from trialplate.policies.messages.openpi_mapping import OpenpiMapping
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
from trialplate.policies.wire import openpi, own
from trialplate.record import ActionChunk, EpisodeInfo, Observation, PolicyDecision, Remaining
from trialplate.spec.channels import PolicySpec
from trialplate.spec.registration import Registration

SMALLEST_LIMIT_BYTES = 2**20
LAST_STEP = 1_000_000
"""``max_steps`` of an episode whose client does not say how long it is."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The policy forgets the episode before."""

    info: EpisodeInfo
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Decide:
    """The policy decides."""

    observation: Observation
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Say:
    """The policy is not asked; ``closes``: the connection ends after it."""

    data: bytes | str | None
    closes: bool = False


Step = Begin | Decide | Say


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back. ``code``: the WebSocket close code when ``closes``."""

    data: bytes | str | None
    closes: bool = False
    code: int = 1000


class Session(Protocol):
    """One connection's conversation."""

    def receive(self, data: bytes | str) -> Sequence[Step]:
        """Read one message. Raises nothing: a message that cannot be read is answered."""
        ...

    def reply(self, step: Step, outcome: Any) -> Reply:
        """Return the answer to a step: ``outcome`` is a decision, a fault, or None."""
        ...


class Dialect(Protocol):
    """How clients are spoken to."""

    greeting: bytes
    limit_bytes: int

    def session(self) -> Session:
        """Begin a conversation."""
        ...


def limit_for(declared: PolicySpec, max_message_bytes: int) -> int:
    """Return the largest message that this policy needs, at least 1 MiB and at most ``max_message_bytes``."""
    expects = declared.expects
    past = 9 * expects.history.actions * declared.emits.dim if expects.history else 0
    return min(max_message_bytes, max(SMALLEST_LIMIT_BYTES, needed_bytes(expects) + past))


# -- our own dialect -----------------------------------------------------------------------------------------------


class OwnDialect:
    """Hello first, then requests with increasing ids, each answered with the same id.

    Raises ContractFault (``message_too_large``) when ``max_message_bytes`` cannot hold what the policy expects.
    """

    def __init__(self, declared: PolicySpec, registration: Registration, *, max_message_bytes: int) -> None:
        agreed_bytes(max_message_bytes, max_message_bytes, spec=declared.expects)
        self.limit_bytes = limit_for(declared, max_message_bytes)
        self.declared = declared
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
            return (Decide(parse_observation(message, self._dialect.declared.expects), number),)
        if kind == "reset":
            return (Begin(parse_reset(message), number),)
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


# -- openpi's ------------------------------------------------------------------------------------------------------


class OpenpiDialect:
    """A metadata frame first, then one map in and one map out; each connection is an episode of its own.

    The dialect has no reset and says nothing of an episode's length or rate: the policy is told its own rate, one
    decision per chunk, and a seed drawn from the episode's random id.
    """

    def __init__(
        self, declared: PolicySpec, registration: Registration, *, mapping: OpenpiMapping, max_message_bytes: int
    ) -> None:
        agreed_bytes(max_message_bytes, max_message_bytes, spec=declared.expects)
        self.limit_bytes = limit_for(declared, max_message_bytes)
        self.declared, self.mapping = declared, mapping
        self.registration_sha256 = registration.sha256()
        self.greeting = openpi.encode(
            {
                "server": "trialplate",
                "registration_sha256": self.registration_sha256,
                "registration": registration.model_dump(mode="json"),
                "policy_spec": declared.model_dump(mode="json"),
            }
        )

    def session(self) -> OpenpiSession:
        """Begin a conversation."""
        return OpenpiSession(self)


class OpenpiSession:
    """One client of openpi's dialect."""

    def __init__(self, dialect: OpenpiDialect) -> None:
        self._dialect = dialect
        self._episode = secrets.token_hex(16)
        self._calls = 0

    def receive(self, data: bytes | str) -> Sequence[Step]:
        """Read one map; the first one begins the episode."""
        try:
            if isinstance(data, str):
                raise ContractFault("a text frame, expected binary", code="wire_malformed")
            look = self._dialect.mapping.read(openpi.decode(data, max_bytes=self._dialect.limit_bytes))
        except ContractFault as fault:
            return (Say(f"{fault.code}: {fault.message}", closes=True),)
        observation = Observation(
            episode=self._episode,
            call_index=self._calls,
            observation_id=secrets.token_hex(16),
            registration_sha256=self._dialect.registration_sha256,
            step_index=self._calls * (self._dialect.declared.chunk_length or 1),
            instruction=look.instruction,
            images=look.images,
            proprio=look.proprio,
            remaining=Remaining(LAST_STEP, None),
        )
        self._calls += 1
        if observation.call_index > 0:
            return (Decide(observation),)
        return (Begin(self._info(look.instruction or "")), Decide(observation))

    def reply(self, step: Step, outcome: Any) -> Reply:
        """Return the answer to a step; a failure is a text frame, and the connection ends."""
        if isinstance(step, Say):
            return Reply(step.data, closes=step.closes, code=1011)
        if isinstance(outcome, TrialplateError):
            return Reply(f"{outcome.code}: {outcome.message}", closes=True, code=1011)
        if isinstance(step, Begin):
            return Reply(None)
        try:
            return Reply(openpi.encode(_openpi_reply(outcome)))
        except TrialplateError as fault:
            return Reply(f"{fault.code}: {fault.message}", closes=True, code=1011)

    def _info(self, instruction: str) -> EpisodeInfo:
        declared = self._dialect.declared
        return EpisodeInfo(
            episode=self._episode,
            instruction=instruction,
            control_hz=declared.emits.control_hz,
            replan_interval=declared.chunk_length or 1,
            max_steps=LAST_STEP,
            policy_seed=int(sha256_hex(bytes.fromhex(self._episode))[:8], 16),
        )


def _openpi_reply(decision: PolicyDecision) -> dict[str, Any]:
    if not isinstance(decision.decision, ActionChunk):
        raise PolicyFault("the policy stopped; the openpi dialect has no stop", code="invalid_response_schema")
    try:
        actions = np.array(decision.decision.vectors, copy=True, subok=False)
    except (TypeError, ValueError) as error:
        raise PolicyFault(f"the policy's rows are no array: {error}", code="invalid_response_schema") from None
    if actions.dtype.kind == "i":
        actions = actions.astype(np.float64)
    if actions.ndim != 2 or actions.dtype.kind != "f":
        raise PolicyFault(
            f"the policy's rows are {actions.dtype} of shape {actions.shape}", code="invalid_response_schema"
        )
    return {"actions": actions, "server_timing": {"infer_ms": decision.latency_ms}}
