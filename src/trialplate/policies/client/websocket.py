"""A policy behind ``ws://`` or ``wss://`` that speaks our own dialect.

The server says hello first; then each request is answered under its own id. One connection serves one episode after
another; it is made again only at an episode's start, and only by the same identity. Source: policy contract, sections
3 to 5; the frames are those of docs/wire.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from trialplate.errors import ContractFault, HarnessFault, PolicyFault
from trialplate.interfaces import Scenario
from trialplate.policies.client.connection import Connection, Greeting, connect
from trialplate.policies.declarations import parse_declaration
from trialplate.policies.messages.handshake import agreed_bytes, parse_hello, service_hello_message, terms_part
from trialplate.policies.messages.handshake_types import PolicyHello
from trialplate.policies.messages.reading import fault_of, message_type, parse_decision, parse_ready, text_at
from trialplate.policies.messages.writing import (
    ack_message,
    close_message,
    episode_end_message,
    observation_message,
    reset_message,
)
from trialplate.policies.setting import ActorSetting
from trialplate.policies.wire import own
from trialplate.record import Ack, EndReason, EpisodeInfo, Measurement, Observation, PolicyDecision
from trialplate.spec.channels import PolicySpec
from trialplate.spec.registration import Registration


@dataclass(frozen=True, slots=True)
class RemoteHello:
    """What a policy server said of itself. ``max_message_bytes``: the smaller of its limit and ours.

    ``registration``: its word, so nothing in it counts as verified by this harness.
    """

    policy_spec: PolicySpec
    registration: Registration
    software: str
    max_message_bytes: int


def describe(uri: str, *, connect_timeout_s: float, max_message_bytes: int) -> RemoteHello:
    """Connect, hear the server's hello, and leave.

    Raises HarnessFault ``connect_failed``, and ContractFault: ``version_mismatch``, ``wire_malformed``,
    ``contract_undeclared``, ``contract_mismatch``, or ``message_too_large`` when an observation of what the policy
    expects may not fit.
    """
    line, greeting = connect(uri, timeout_s=connect_timeout_s, max_message_bytes=max_message_bytes)
    try:
        return read_hello(greeting, max_message_bytes=max_message_bytes)
    finally:
        line.close(timeout_s=min(1.0, connect_timeout_s))


def read_hello(greeting: Greeting, *, max_message_bytes: int) -> RemoteHello:
    """Return what a server's first frame says. Raises ContractFault as :func:`describe` does."""
    message = own.decode(_binary(greeting, "the hello"), max_bytes=max_message_bytes)
    if message_type(message) == "error":
        raise fault_of(message)
    declared = parse_declaration(message.get("policy_spec")) if text_at(message, "role") == "policy" else None
    hello = parse_hello(message)
    if not isinstance(hello, PolicyHello) or declared is None:
        raise ContractFault(f"a hello of role {message.get('role')!r}, expected 'policy'", code="wire_malformed")
    return RemoteHello(
        declared,
        unverified(hello.registration),
        hello.software,
        agreed_bytes(max_message_bytes, hello.max_message_bytes, spec=declared.expects),
    )


def unverified(registration: Registration) -> Registration:
    """Return an identity as somebody's word: this harness has seen none of it itself."""
    plain = registration.model_dump(mode="json")
    for key in ("model", "checkpoint", "normalization", "policy_source"):
        if plain[key] is not None:
            plain[key]["verified"] = False
    for role in plain["roles"]:
        role["verified"] = False
    return Registration.model_validate_json(json.dumps(plain))


class WebSocketActor:
    """The arm's side of a rollout over our own WebSocket dialect. Connects at the first reset."""

    def __init__(self, uri: str, setting: ActorSetting) -> None:
        budgets = setting.budgets
        self._setting = setting
        self._connection = Connection(
            uri,
            connect_timeout_s=budgets.connect_timeout_s,
            close_timeout_s=budgets.close_timeout_s,
            max_message_bytes=budgets.max_message_bytes,
            greet=self._greet,
        )
        self._hello: bytes = own.encode(
            service_hello_message(
                terms_part(
                    setting.observation,
                    setting.action,
                    replan_interval=setting.replan_interval,
                    budgets=budgets,
                    max_steps=setting.max_steps,
                ),
                encodings=("msgpack",),
                max_message_bytes=budgets.max_message_bytes,
            )
        )
        self._new = False
        self._episode = ""
        self._last_id = 0

    def reset(self, episode: EpisodeInfo, scenario: Scenario) -> None:
        """Begin an episode, connecting where there is no connection.

        Raises HarnessFault ``connect_failed`` or ``transport_lost``, ContractFault ``identity_changed`` when another
        policy answers than was registered, and what the server says of the reset.
        """
        self._episode = episode.episode
        self._connection.open()
        if self._new:
            self._new = False
            self._connection.tell(self._hello)
        reply = self._request(
            reset_message(episode), doing="reset", timeout_s=self._setting.budgets.first_call_timeout_s
        )
        self._read(reply, lambda message: parse_ready(message, episode=episode.episode))

    def ask(self, observation: Observation, measure: Callable[[], Measurement]) -> PolicyDecision:
        """Return the server's decision.

        Raises PolicyFault (``policy_timeout``, ``policy_exception``, ``invalid_response_schema``), ContractFault
        (``stale_observation`` and what else the reply is not), HarnessFault ``transport_lost``.
        """
        return self.ask_meanwhile(observation, None)

    def ask_meanwhile(self, observation: Observation, work: Callable[[], None] | None) -> PolicyDecision:
        """Return the server's decision; call ``work`` while it is on its way. Raises as :meth:`ask` does."""
        budgets, call = self._setting.budgets, observation.call_index
        reply = self._request(
            observation_message(observation),
            doing=f"act, call {call}",
            timeout_s=budgets.call_timeout_s if call else budgets.first_call_timeout_s,
            meanwhile=work,
        )
        decision: PolicyDecision = self._read(reply, lambda message: parse_decision(message, expected=observation))
        return decision

    def acknowledge(self, ack: Ack) -> None:
        """Tell what became of the last decision, with the next message; not answered."""
        self._connection.hold(own.encode(ack_message(ack)))

    def end(self, reason: EndReason) -> None:
        """Tell that the episode has ended; not answered."""
        self._connection.tell(own.encode(episode_end_message(self._episode, reason)))

    def close(self) -> None:
        """Take leave of the server and close the connection, within ``close_timeout_s``."""
        with suppress(PolicyFault, ContractFault, HarnessFault):
            self._request(close_message(), doing="close", timeout_s=self._setting.budgets.close_timeout_s)
        self._connection.close()

    def _request(
        self, message: dict[str, Any], *, doing: str, timeout_s: float, meanwhile: Callable[[], None] | None = None
    ) -> Any:
        """Send a request and return the reply to it, decoded. A reply to another request: ``stale_observation``."""
        self._last_id += 1
        message["id"] = self._last_id
        data = self._connection.call(own.pieces(message), doing=doing, timeout_s=timeout_s, meanwhile=meanwhile)
        return self._read(data, lambda raw: self._answer(_binary(raw, f"the reply to {doing}")))

    def _answer(self, data: bytes) -> Any:
        reply = own.decode(data, max_bytes=self._setting.budgets.max_message_bytes)
        number = reply.get("id") if isinstance(reply, Mapping) else None
        if type(number) is int and number == self._last_id:
            return reply
        if number is None and message_type(reply) == "error":
            raise fault_of(reply)
        code, found = (
            ("stale_observation", number) if type(number) is int else ("wire_malformed", type(number).__name__)
        )
        raise ContractFault(f"id: a reply must repeat {self._last_id}, got {found}", code=code)

    def _read(self, value: Any, read: Callable[[Any], Any]) -> Any:
        """Read a reply; the connection is kept only where both sides still agree on what was said."""
        try:
            return read(value)
        except PolicyFault:
            raise
        except BaseException:
            self._connection.discard()
            raise

    def _greet(self, greeting: Greeting) -> None:
        """Hold a server's hello against what was locked."""
        hello = read_hello(greeting, max_message_bytes=self._setting.budgets.max_message_bytes)
        locked = self._setting.registration
        found = hello.registration.model_copy(update={"adapters": locked.adapters})
        if found != locked:
            raise ContractFault(
                f"another policy answers than was registered: {_difference(locked, found)}", code="identity_changed"
            )
        if hello.policy_spec != self._setting.declared:
            raise ContractFault(
                "the policy declares something else than when it was registered", code="contract_mismatch"
            )
        self._connection.limit_bytes = hello.max_message_bytes
        self._new = True


def _difference(locked: Registration, found: Registration) -> str:
    """Return the first members of an identity that differ, for people."""
    before, now = locked.model_dump(mode="json"), found.model_dump(mode="json")
    names = [key for key in before if before[key] != now[key]]
    return "; ".join(f"{name} was {before[name]}, is {now[name]}" for name in names)[:400]


def _binary(frame: Greeting, what: str) -> bytes:
    if isinstance(frame, str):
        raise ContractFault(f"{what} is a text frame, expected binary", code="wire_malformed")
    return frame
