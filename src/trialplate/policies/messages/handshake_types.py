"""The messages around the episodes, handshake and management, and the JSON Schema of every message.

Source: policy contract ``trialplate.policy/1``, sections 2, 3 and 4.2.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from trialplate.policies.messages.types import (
    AboveZero,
    AckMessage,
    CloseMessage,
    Count,
    DecisionMessage,
    Digest,
    EpisodeEndMessage,
    ErrorMessage,
    Message,
    ObservationMessage,
    Opaque,
    Positive,
    ReadyMessage,
    Reason,
    Reasoned,
    ResetMessage,
    ShortText,
    Text,
    check_reasons,
)
from trialplate.spec.channels import ActionSpec, Name, ObservationSpec, PolicySpec
from trialplate.spec.registration import Registration


class LimitsPart(Reasoned):
    """Budgets of one episode, as far as a policy is told."""

    unknowable = ("max_calls", "policy_time_limit_s")
    max_steps: Positive
    max_calls: Positive | None
    max_calls_reason: Reason | None = None
    max_chunk_length: Positive
    policy_time_limit_s: AboveZero | None
    policy_time_limit_s_reason: Reason | None = None
    call_timeout_s: AboveZero
    first_call_timeout_s: AboveZero

    _reasons = model_validator(mode="after")(check_reasons)


class Terms(Message):
    """What the service promises about observations, actions and limits."""

    observation_spec: ObservationSpec
    observation_spec_sha256: Digest
    action_spec: ActionSpec
    action_spec_sha256: Digest
    replan_interval: Positive
    invalid_action_handling: Literal["terminal", "feedback"]
    limits: LimitsPart


class Greeting(Message):
    """What every hello has."""

    type: Literal["hello"]
    software: ShortText
    encodings: Annotated[list[Literal["json", "msgpack"]], Field(min_length=1, max_length=2)]
    max_message_bytes: Positive


class DriverHello(Greeting):
    """A driver of the service. ``arm``: which one it plays, where the protocol has several that are served."""

    role: Literal["driver"]
    arm: Name | None = None


class PolicyHello(Greeting):
    """A policy server; ``policy_spec`` null when the operator has declared it."""

    role: Literal["policy"]
    policy_spec: PolicySpec | None
    registration: Registration


class ServiceHello(Greeting, Terms):
    """The service that owns the environment."""

    role: Literal["service"]


class RegisterMessage(Message):
    """Who the policy is, and what it expects and emits; ``policy_spec`` null when the operator has declared it.

    ``arm``: which arm it is, where the protocol has several that are served.
    """

    type: Literal["register"]
    registration: Registration
    policy_spec: PolicySpec | None
    arm: Name | None = None


class RegisteredMessage(Message):
    """The identity is bound. ``exploratory``: the lock was not made for it."""

    type: Literal["registered"]
    registration_sha256: Digest
    exploratory: bool


class EpisodeMessage(Message):
    """The next planned attempt has started, or none will: then ``reason`` says why.

    ``arm``: whose attempt it is, where the protocol has several that are served.
    """

    type: Literal["episode"]
    episode: Opaque | None
    actor: ShortText | None
    arm: Name | None = None
    reason: Literal["complete", "halted", "aborted"] | None


class SpecMessage(Terms):
    """What holds for one whole episode."""

    type: Literal["spec"]
    episode: Opaque
    registration: Digest
    instruction: Text
    control_hz: AboveZero
    policy_seed: Annotated[int, Field(ge=0, lt=2**32)]


class StatusMessage(Message):
    """Counts of a run. ``episode``: the one in flight, null when there is none."""

    type: Literal["status"]
    state: Literal["waiting", "running", "complete", "halted", "aborted"]
    planned: Count
    initiated: Count
    ended: Count
    episode: Opaque | None = None


class AttemptPart(Reasoned):
    """One attempt that ended. ``episode``: null when it was played under an earlier start of the service."""

    attempt: ShortText
    episode: Opaque | None
    status: Literal["PASS", "FAIL", "ERROR", "EXCLUDED"]
    reason: Literal["terminated", "step_limit", "policy_stop", "error", "aborted"]
    code: ShortText | None


class ResultsMessage(Message):
    """Every attempt that ended, scored from its evidence."""

    type: Literal["results"]
    attempts: list[AttemptPart]


class RequestMessage(Message):
    """A request that is only its name."""

    type: Literal["describe", "observe", "start", "abort", "status", "results"]


TYPES: dict[str, type[Message]] = {
    "observation": ObservationMessage,
    "decision": DecisionMessage,
    "ack": AckMessage,
    "episode_end": EpisodeEndMessage,
    "error": ErrorMessage,
    "reset": ResetMessage,
    "ready": ReadyMessage,
    "close": CloseMessage,
    "hello_driver": DriverHello,
    "hello_policy": PolicyHello,
    "hello_service": ServiceHello,
    "register": RegisterMessage,
    "registered": RegisteredMessage,
    "episode": EpisodeMessage,
    "spec": SpecMessage,
    "status": StatusMessage,
    "results": ResultsMessage,
    "request": RequestMessage,
}
"""Name of the schema file -> type."""


def schema_documents() -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of every message, by the name of its file."""
    return {
        name: {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": f"trialplate.policy/1/{name}",
            **model.model_json_schema(by_alias=True),
        }
        for name, model in TYPES.items()
    }
