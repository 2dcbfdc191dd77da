"""Write and read the messages around the episodes: hello, register, what an episode promises, counts of a run.

They are rare, so they are read as strict JSON by the types of the specs themselves. Source: policy contract,
sections 2, 3 and 4.2.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import metadata
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from trialplate.canonical import JsonValue
from trialplate.errors import ContractFault
from trialplate.policies.messages.handshake_types import (
    DriverHello,
    EpisodeMessage,
    PolicyHello,
    RegisteredMessage,
    RegisterMessage,
    RequestMessage,
    ServiceHello,
    SpecMessage,
    Terms,
)
from trialplate.policies.messages.reading import first_mistake, message_type, text_at
from trialplate.policies.messages.types import CloseMessage, Message
from trialplate.policies.messages.writing import PROTOCOL
from trialplate.record import EpisodeInfo
from trialplate.spec.channels import ActionSpec, ObservationSpec, PolicySpec
from trialplate.spec.protocol import Budgets
from trialplate.spec.registration import Registration

AnyMessage = TypeVar("AnyMessage", bound=Message)
Hello = DriverHello | PolicyHello | ServiceHello
Encoding = Literal["json", "msgpack"]
MESSAGE_OVERHEAD_BYTES = 65_536


def software() -> str:
    """Return name and version of this package, as every hello shows them."""
    return f"trialplate {metadata.version('trialplate')}"


def needed_bytes(spec: ObservationSpec) -> int:
    """Return what one observation may take: raw bytes of its channels and 65536. Source: section 5."""
    return spec.size_bytes + MESSAGE_OVERHEAD_BYTES


def agreed_bytes(ours: int, theirs: int, *, spec: ObservationSpec) -> int:
    """Return the smaller limit. Raises ContractFault (``message_too_large``) when an observation may exceed it."""
    smaller, needed = min(ours, theirs), needed_bytes(spec)
    if needed > smaller:
        raise ContractFault(
            f"one observation needs {needed} bytes ({spec.size_bytes} of channels and {MESSAGE_OVERHEAD_BYTES}), "
            f"the agreed max_message_bytes is {smaller} (ours {ours}, theirs {theirs}); send less",
            code="message_too_large",
        )
    return smaller


# -- writing -------------------------------------------------------------------------------------------------------


def _hello(role: str, *, encodings: Sequence[Encoding], max_message_bytes: int) -> dict[str, Any]:
    return {
        "protocol": PROTOCOL,
        "type": "hello",
        "role": role,
        "software": software(),
        "encodings": list(encodings),
        "max_message_bytes": max_message_bytes,
    }


def policy_hello_message(
    policy_spec: PolicySpec | None,
    registration: Registration,
    *,
    encodings: Sequence[Encoding],
    max_message_bytes: int,
) -> dict[str, Any]:
    """Return the hello of a policy server."""
    return {
        **_hello("policy", encodings=encodings, max_message_bytes=max_message_bytes),
        "policy_spec": None if policy_spec is None else policy_spec.model_dump(mode="json"),
        "registration": registration.model_dump(mode="json"),
    }


def service_hello_message(
    terms: dict[str, Any], *, encodings: Sequence[Encoding], max_message_bytes: int
) -> dict[str, Any]:
    """Return the hello of the service; ``terms`` as :func:`terms_part` returns them."""
    return {**_hello("service", encodings=encodings, max_message_bytes=max_message_bytes), **terms}


def driver_hello_message(
    *, encodings: Sequence[Encoding], max_message_bytes: int, arm: str | None = None
) -> dict[str, Any]:
    """Return the hello of a driver; ``arm`` where the protocol has several that are served."""
    return _named(_hello("driver", encodings=encodings, max_message_bytes=max_message_bytes), arm)


def _named(message: dict[str, Any], arm: str | None) -> dict[str, Any]:
    return message if arm is None else {**message, "arm": arm}


def terms_part(
    observation_spec: ObservationSpec,
    action_spec: ActionSpec,
    *,
    replan_interval: int,
    budgets: Budgets,
    max_steps: int,
) -> dict[str, Any]:
    """Return what the service promises, as it stands in its hello and in ``spec``."""
    limits: dict[str, Any] = {"max_steps": max_steps, "max_calls": budgets.max_calls}
    if budgets.max_calls is None:
        limits["max_calls_reason"] = "unlimited"
    limits["max_chunk_length"] = budgets.max_chunk_length
    limits["policy_time_limit_s"] = budgets.policy_time_limit_s
    if budgets.policy_time_limit_s is None:
        limits["policy_time_limit_s_reason"] = "unlimited"
    limits["call_timeout_s"] = budgets.call_timeout_s
    limits["first_call_timeout_s"] = budgets.first_call_timeout_s
    return {
        "observation_spec": observation_spec.model_dump(mode="json"),
        "observation_spec_sha256": observation_spec.sha256(),
        "action_spec": action_spec.model_dump(mode="json"),
        "action_spec_sha256": action_spec.sha256(),
        "replan_interval": replan_interval,
        "invalid_action_handling": budgets.invalid_action_handling,
        "limits": limits,
    }


def spec_message(info: EpisodeInfo, registration_sha256: str, *, terms: dict[str, Any]) -> dict[str, Any]:
    """Return what holds for one whole episode, for the holder of its id."""
    return {
        "protocol": PROTOCOL,
        "type": "spec",
        "episode": info.episode,
        "registration": registration_sha256,
        "instruction": info.instruction,
        "control_hz": info.control_hz,
        "policy_seed": info.policy_seed,
        **terms,
    }


def register_message(
    registration: Registration, policy_spec: PolicySpec | None, *, arm: str | None = None
) -> dict[str, Any]:
    """Return who a policy is, and what it expects and emits; ``arm`` where several are served."""
    message = {
        "protocol": PROTOCOL,
        "type": "register",
        "registration": registration.model_dump(mode="json"),
        "policy_spec": None if policy_spec is None else policy_spec.model_dump(mode="json"),
    }
    return _named(message, arm)


def registered_message(registration_sha256: str, *, exploratory: bool) -> dict[str, Any]:
    """Return that an identity is bound."""
    return {
        "protocol": PROTOCOL,
        "type": "registered",
        "registration_sha256": registration_sha256,
        "exploratory": exploratory,
    }


def episode_message(episode: str, *, arm: str | None = None) -> dict[str, Any]:
    """Return that the next planned attempt has started; ``arm`` whose it is, where several are served."""
    actor = f"/v1/episodes/{episode}"
    return _named({"protocol": PROTOCOL, "type": "episode", "episode": episode, "actor": actor, "reason": None}, arm)


def no_episode_message(reason: Literal["complete", "halted", "aborted"]) -> dict[str, Any]:
    """Return that no attempt will start any more."""
    return {"protocol": PROTOCOL, "type": "episode", "episode": None, "actor": None, "reason": reason}


def status_message(
    state: Literal["waiting", "running", "complete", "halted", "aborted"],
    *,
    planned: int,
    initiated: int,
    ended: int,
    episode: str | None = None,
) -> dict[str, Any]:
    """Return the counts of a run, and which episode is in flight."""
    counts = {"planned": planned, "initiated": initiated, "ended": ended}
    return {"protocol": PROTOCOL, "type": "status", "state": state, **counts, "episode": episode}


def results_message(attempts: Sequence[dict[str, JsonValue]]) -> dict[str, Any]:
    """Return every attempt that ended: each with attempt, episode, status, reason and code."""
    return {"protocol": PROTOCOL, "type": "results", "attempts": list(attempts)}


def request_message(kind: Literal["describe", "observe", "start", "abort", "status", "results"]) -> dict[str, Any]:
    """Return a request that is only its name, for the service's WebSocket."""
    return {"protocol": PROTOCOL, "type": kind}


# -- reading -------------------------------------------------------------------------------------------------------


def read_document(model: type[AnyMessage], message: Any) -> AnyMessage:
    """Return a message that holds specs. Raises ContractFault (``wire_malformed``, ``version_mismatch``)."""
    kind = message_type(message)
    try:
        return model.model_validate_json(json.dumps(message, allow_nan=False))
    except ValidationError as error:
        raise ContractFault(f"{kind[:40]}: {first_mistake(error)}", code="wire_malformed") from None
    except (TypeError, ValueError) as error:
        raise ContractFault(f"{kind[:40]}: {error}", code="wire_malformed") from None


def parse_hello(message: Any) -> Hello:
    """Return the hello of a driver, a policy or the service, by its ``role``.

    Raises ContractFault: ``version_mismatch``, ``wire_malformed``, or ``spec_hash_mismatch`` when a digest is not
    that of the spec beside it.
    """
    kind = message_type(message)
    role = text_at(message, "role")
    models: dict[str, type[Hello]] = {"driver": DriverHello, "policy": PolicyHello, "service": ServiceHello}
    if kind != "hello" or role is None or role not in models:
        raise ContractFault(
            f"expected a hello of role {', '.join(models)}, got type {kind[:40]!r}", code="wire_malformed"
        )
    hello = read_document(models[role], message)
    if isinstance(hello, ServiceHello):
        _check_hashes(hello)
    return hello


def parse_spec(message: Any) -> SpecMessage:
    """Return what holds for one episode. Raises ContractFault as :func:`parse_hello` does."""
    parsed = read_document(SpecMessage, message)
    _check_hashes(parsed)
    return parsed


def info_of(spec: SpecMessage) -> EpisodeInfo:
    """Return what a policy is told at reset, as an actor's ``spec`` says it."""
    return EpisodeInfo(
        episode=spec.episode,
        instruction=spec.instruction,
        control_hz=spec.control_hz,
        replan_interval=spec.replan_interval,
        max_steps=spec.limits.max_steps,
        policy_seed=spec.policy_seed,
    )


def _check_hashes(terms: Terms) -> None:
    for name in ("observation_spec", "action_spec"):
        found, said = getattr(terms, name).sha256(), getattr(terms, f"{name}_sha256")
        if found != said:
            raise ContractFault(f"{name} has the digest {found}, beside it stands {said}", code="spec_hash_mismatch")


def parse_register(message: Any) -> RegisterMessage:
    """Return who a policy is. Raises ContractFault."""
    return read_document(RegisterMessage, message)


def parse_registered(message: Any) -> RegisteredMessage:
    """Return the bound identity. Raises ContractFault."""
    return read_document(RegisteredMessage, message)


def parse_episode(message: Any) -> EpisodeMessage:
    """Return the started episode, or why there is none. Raises ContractFault."""
    parsed = read_document(EpisodeMessage, message)
    if (parsed.episode is None) == (parsed.reason is None) or (parsed.episode is None) != (parsed.actor is None):
        raise ContractFault("episode: either episode and actor are there, or a reason", code="wire_malformed")
    return parsed


def parse_request(message: Any) -> RequestMessage | CloseMessage:
    """Return a request without a body. Raises ContractFault."""
    if message_type(message) == "close":
        return read_document(CloseMessage, message)
    return read_document(RequestMessage, message)
