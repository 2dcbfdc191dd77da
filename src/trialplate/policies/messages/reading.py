"""Read the messages of one episode. What is wrong with one is charged to the side that sent it.

Bytes that cannot be read never come here; a map that is no valid decision is the policy's doing, a map of another
protocol, order or identity is nobody's merit. Source: policy contract, sections 2, 3 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from trialplate.errors import (
    CONTRACT_FAULTS,
    HARNESS_FAULTS,
    POLICY_FAULTS,
    ContractFault,
    HarnessFault,
    PolicyFault,
    TrialplateError,
)
from trialplate.policies.charging import recordable
from trialplate.policies.messages.types import (
    AckMessage,
    DecisionMessage,
    EpisodeEndMessage,
    ErrorMessage,
    HistoryPart,
    IssuePart,
    Message,
    ObservationMessage,
    ReadyMessage,
    ResetMessage,
    StopPart,
    UsagePart,
)
from trialplate.policies.messages.writing import PROTOCOL, fitted
from trialplate.record import (
    Ack,
    ActionChunk,
    EndReason,
    EpisodeInfo,
    History,
    Issue,
    Observation,
    PolicyDecision,
    Remaining,
    Stop,
    Usage,
)
from trialplate.spec.channels import CameraSpec, ObservationSpec

AnyMessage = TypeVar("AnyMessage", bound=Message)


def text_at(message: Mapping[str, Any], name: str) -> str | None:
    """Return a member that is text, None for everything else: an array would be compared number by number."""
    found = message.get(name)
    return found if isinstance(found, str) else None


def message_type(message: Any) -> str:
    """Return the type of a decoded message after its protocol was checked.

    Raises ContractFault: ``version_mismatch`` for another protocol string, ``wire_malformed`` for no message at all.
    """
    if not isinstance(message, dict):
        raise ContractFault(f"a message is a map, got {type(message).__name__}", code="wire_malformed")
    _check_protocol(message)
    kind = text_at(message, "type")
    if text_at(message, "protocol") is None or kind is None:
        raise ContractFault("a message needs protocol and type as text", code="wire_malformed")
    return kind


def _check_protocol(message: Mapping[str, Any]) -> None:
    found = text_at(message, "protocol")
    if found is not None and found != PROTOCOL:
        shown = recordable(found)[:80]
        raise ContractFault(f"protocol {shown!r}, this side speaks {PROTOCOL!r}", code="version_mismatch")


def read_as(model: type[AnyMessage], message: Any) -> AnyMessage:
    """Return a message that is not on the policy's account. Raises ContractFault (``wire_malformed``)."""
    kind = message_type(message)
    try:
        return model.model_validate(message)
    except ValidationError as error:
        raise ContractFault(f"{recordable(kind)[:40]}: {first_mistake(error)}", code="wire_malformed") from None


def first_mistake(error: ValidationError) -> str:
    """Return where and what the first mistake of a message is."""
    item = error.errors(include_url=False, include_input=False, include_context=False)[0]
    path = ".".join(str(part) for part in item["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    text = item["msg"].removeprefix("Value error, ")
    return fitted(f"{path}: {text}{more}" if path else f"{text}{more}", limit_bytes=400)


def parse_decision(message: Any, *, expected: Observation) -> PolicyDecision:
    """Return the decision that answers ``expected``, with its rows as they came.

    In this order: PolicyFault ``invalid_response_schema`` for types and unknown keys (ContractFault
    ``version_mismatch`` for another protocol); ContractFault ``out_of_order`` for another episode or call_index,
    ``stale_observation`` for another observation_id, ``identity_changed`` for another registration; PolicyFault
    ``invalid_response_schema`` unless exactly one of chunk and stop is there. An ``error`` in its place is raised.
    """
    if isinstance(message, dict) and text_at(message, "type") == "error" and text_at(message, "protocol") == PROTOCOL:
        raise fault_of(message)
    parsed = _decision(message)
    check_echo(parsed, expected)
    chunk, stop = parsed.chunk, parsed.stop
    if (chunk is None) == (stop is None):
        found = "neither" if chunk is None else "both"
        raise _no_decision(f"a decision has exactly one of chunk and stop, got {found}")
    return PolicyDecision(
        decision=_stop(stop) if chunk is None else ActionChunk(chunk.vectors),
        usage=None if parsed.usage is None else _usage(parsed.usage),
        usage_reason=parsed.usage_reason or "not_metered",
        latency_ms=parsed.latency_ms,
        latency_ms_reason=parsed.latency_ms_reason or "not_metered",
        echo="policy",
        batch_size=parsed.batch_size,
    )


def _decision(message: Any) -> DecisionMessage:
    if not isinstance(message, dict):
        raise _no_decision(f"a decision is a map, got {type(message).__name__}")
    _check_protocol(message)
    try:
        parsed = DecisionMessage.model_validate(message)
    except ValidationError as error:
        raise _no_decision(first_mistake(error)) from None
    if parsed.chunk is not None and not isinstance(parsed.chunk.vectors, list | np.ndarray):
        found = type(parsed.chunk.vectors).__name__
        raise _no_decision(f"chunk.vectors: expected rows of numbers, got {found}")
    return parsed


def check_echo(parsed: DecisionMessage, expected: Observation) -> None:
    """Refuse a decision that does not answer ``expected``. Raises ContractFault."""
    if parsed.episode != expected.episode:
        raise _echo("out_of_order", "episode", expected.episode, got=parsed.episode)
    if parsed.call_index != expected.call_index:
        raise _echo("out_of_order", "call_index", expected.call_index, got=parsed.call_index)
    if parsed.observation_id != expected.observation_id:
        raise _echo("stale_observation", "observation_id", expected.observation_id, got=parsed.observation_id)
    if parsed.registration != expected.registration_sha256:
        raise _echo("identity_changed", "registration", expected.registration_sha256, got=parsed.registration)


def _echo(code: str, field: str, wanted: object, *, got: object) -> ContractFault:
    return ContractFault(f"{field}: a decision must repeat {wanted}, got {got}; nothing was executed", code=code)


def _no_decision(message: str) -> PolicyFault:
    return PolicyFault(f"{message}; nothing was executed", code="invalid_response_schema")


def _stop(part: StopPart | None) -> Stop:
    return Stop(None if part is None else part.reason)


def _usage(part: UsagePart) -> Usage:
    return Usage(part.requests, part.input_tokens, part.output_tokens, part.cost)


def parse_observation(message: Any, spec: ObservationSpec) -> Observation:
    """Return an observation with exactly the channels of ``spec``, for the side that hosts a policy.

    Raises ContractFault: ``wire_malformed``, ``version_mismatch``, or ``contract_mismatch`` when the channels are not
    those that were agreed.
    """
    parsed = read_as(ObservationMessage, message)
    _check_names("images", parsed.images, wanted=spec.camera_names)
    _check_names("proprio", parsed.proprio, wanted=spec.proprio_names)
    if (parsed.instruction is not None) != spec.instruction:
        raise _channels("instruction: sent although not agreed, or agreed and not sent")
    cameras = {camera.name: camera for camera in spec.cameras}
    for channel in spec.proprio:
        if len(parsed.proprio[channel.name]) != channel.dim:
            found = len(parsed.proprio[channel.name])
            raise _channels(f"proprio {channel.name!r}: expected {channel.dim} numbers, got {found}")
    meta = {name: getattr(parsed.meta, name) for name in parsed.meta.model_fields_set if not name.endswith("_reason")}
    _check_names("meta", meta, wanted=spec.meta)
    return Observation(
        episode=parsed.episode,
        call_index=parsed.call_index,
        observation_id=parsed.observation_id,
        registration_sha256=parsed.registration,
        step_index=parsed.step_index,
        instruction=parsed.instruction,
        images={name: _picture(parsed.images[name], cameras[name]) for name in spec.camera_names},
        proprio={name: np.array(parsed.proprio[name], dtype=np.float64) for name in spec.proprio_names},
        remaining=Remaining(parsed.remaining.steps, parsed.remaining.calls),
        history=_history(parsed.history, spec, cameras=cameras),
        meta={name: meta[name] for name in spec.meta},
        issue=_issue(parsed.issue),
    )


def _check_names(kind: str, found: Mapping[str, object], *, wanted: tuple[str, ...]) -> None:
    if found.keys() != set(wanted):
        raise _channels(f"{kind}: expected exactly {sorted(wanted)}, got {sorted(found)[:20]}")


def _channels(message: str) -> ContractFault:
    return ContractFault(f"observation {recordable(message)}", code="contract_mismatch")


def _picture(sent: Any, camera: CameraSpec) -> NDArray[np.uint8]:
    if isinstance(sent, list):
        sent = _from_lists(sent, camera)
    if not isinstance(sent, np.ndarray) or sent.dtype != np.uint8:
        raise ContractFault(f"images {camera.name!r}: expected an array of |u1", code="wire_malformed")
    if camera.layout == "chw" and camera.encoding == "png" and sent.shape == (camera.height, camera.width, 3):
        sent = sent.transpose(2, 0, 1)
    if sent.shape != camera.shape:
        raise _channels(f"images {camera.name!r}: expected shape {camera.shape}, got {sent.shape}")
    pixels: NDArray[np.uint8] = sent
    return pixels


def _from_lists(sent: list[Any], camera: CameraSpec) -> NDArray[np.uint8]:
    """Return nested lists of bytes as a picture; nothing but whole numbers from 0 to 255 passes."""
    values: list[Any] = [sent]
    for size in camera.shape:
        if not all(isinstance(item, list) and len(item) == size for item in values):
            raise _channels(f"images {camera.name!r}: nested lists are not of shape {camera.shape}")
        values = [item for row in values for item in row]
    if not all(type(value) is int and 0 <= value <= 255 for value in values):
        raise _channels(f"images {camera.name!r}: nested lists hold something else than whole numbers in 0..255")
    return np.array(values, dtype=np.uint8).reshape(camera.shape)


def _history(part: HistoryPart | None, spec: ObservationSpec, *, cameras: Mapping[str, CameraSpec]) -> History | None:
    agreed = spec.history
    if part is None or agreed is None:
        if (part is None) != (agreed is None):
            raise _channels("history: sent although not agreed, or agreed and not sent")
        return None
    _check_names("history.images", part.images, wanted=spec.camera_names)
    lengths = {len(looks) for looks in part.images.values()} | ({agreed.frames} if not part.images else set())
    if lengths != {agreed.frames} or len(part.actions) != agreed.actions:
        raise _channels(f"history: expected {agreed.frames} looks and {agreed.actions} rows")
    images = {
        name: tuple(None if look is None else _picture(look, cameras[name]) for look in looks)
        for name, looks in part.images.items()
    }
    return History(images, tuple(None if row is None else np.array(row, dtype=np.float64) for row in part.actions))


def _issue(part: IssuePart | None) -> Issue | None:
    return None if part is None else Issue(part.code, part.row, part.component, part.rule)


def parse_ack(message: Any) -> Ack:
    """Return what became of a decision. Raises ContractFault (``wire_malformed``, ``version_mismatch``)."""
    parsed = read_as(AckMessage, message)
    return Ack(
        episode=parsed.episode,
        call_index=parsed.call_index,
        accepted=parsed.accepted,
        proposed=parsed.proposed,
        executed=parsed.executed,
        dropped_tail=parsed.dropped_tail,
        discarded_after_end=parsed.discarded_after_end,
        issue=_issue(parsed.issue),
        next=parsed.next,
    )


def parse_reset(message: Any) -> EpisodeInfo:
    """Return the begin of an episode. Raises ContractFault (``wire_malformed``, ``version_mismatch``)."""
    parsed = read_as(ResetMessage, message)
    return EpisodeInfo(
        episode=parsed.episode,
        instruction=parsed.instruction,
        control_hz=parsed.control_hz,
        replan_interval=parsed.replan_interval,
        max_steps=parsed.max_steps,
        policy_seed=parsed.policy_seed,
    )


def parse_episode_end(message: Any) -> tuple[str, EndReason]:
    """Return id and reason of the end of an episode. Raises ContractFault."""
    parsed = read_as(EpisodeEndMessage, message)
    return parsed.episode, parsed.reason


def parse_ready(message: Any, *, episode: str) -> None:
    """Accept that a policy is ready for ``episode``. Raises what an ``error`` says, or ContractFault."""
    if message_type(message) == "error":
        raise fault_of(message)
    parsed = read_as(ReadyMessage, message)
    if parsed.episode != episode:
        raise _echo("out_of_order", "episode", episode, got=parsed.episode)


def fault_of(message: Any, *, sender: Literal["policy", "service"] = "policy") -> TrialplateError:
    """Return the fault that an ``error`` message is.

    A policy may not put its failure on the harness: an infrastructure code of its own is ``policy_exception``. A code
    that nobody knows is ContractFault ``wire_malformed``, and so is a message that is no valid error.
    """
    try:
        parsed = read_as(ErrorMessage, message)
    except ContractFault as fault:
        return fault
    code, text = parsed.code, fitted(f"the {sender} answered {parsed.code}: {parsed.message}")
    if code in POLICY_FAULTS:
        return PolicyFault(text, code=code)
    if code in CONTRACT_FAULTS:
        return ContractFault(text, code=code)
    if code in HARNESS_FAULTS or code == "shutting_down":
        if sender == "policy":
            return PolicyFault(text, code="policy_exception")
        return HarnessFault(text, code=code if code in HARNESS_FAULTS else "transport_lost")
    return ContractFault(f"unknown code: {text}", code="wire_malformed")
