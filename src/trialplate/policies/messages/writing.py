"""Write the messages of one episode: plain maps with arrays left in, for every encoding of the wire.

Source: policy contract, sections 2 and 6.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import CONTRACT_FAULTS, HARNESS_FAULTS, POLICY_FAULTS, PolicyFault
from trialplate.policies.charging import recordable
from trialplate.policies.wire.arrays import DTYPES, PngPicture
from trialplate.record import Ack, EndReason, EpisodeInfo, History, Issue, Observation, PolicyDecision, Stop, Usage
from trialplate.spec.channels import CameraSpec, ObservationSpec

PROTOCOL = "trialplate.policy/1"
MAX_TEXT_BYTES = 512
_COMPONENT_BYTES = 160

CLASS_OF = {
    **dict.fromkeys(POLICY_FAULTS, "policy"),
    **dict.fromkeys(CONTRACT_FAULTS, "protocol"),
    **dict.fromkeys(HARNESS_FAULTS, "infrastructure"),
    "unauthorized": "protocol",
    "unknown_episode": "protocol",
    "shutting_down": "infrastructure",
}
"""Code of an error -> whose doing it was. The last three exist only between a driver and the service."""

HTTP_STATUS = {
    **dict.fromkeys(HARNESS_FAULTS, 503),
    **dict.fromkeys(POLICY_FAULTS, 400),
    **dict.fromkeys(("wire_malformed", "wire_dialect_mismatch", "version_mismatch"), 400),
    **dict.fromkeys(("stale_observation", "out_of_order", "identity_changed", "registration_missing"), 409),
    **dict.fromkeys(("contract_mismatch", "contract_undeclared", "spec_hash_mismatch"), 409),
    "message_too_large": 413,
    "unauthorized": 401,
    "unknown_episode": 404,
    "shutting_down": 503,
}
"""Code of an error -> HTTP status of the response that carries it."""


# -- texts ---------------------------------------------------------------------------------------------------------


def fitted(text: str, *, limit_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return text of at most ``limit_bytes`` of UTF-8 that every document can hold; cut at a whole character."""
    plain = recordable(text)
    data = plain.encode("utf-8")
    return plain if len(data) <= limit_bytes else data[:limit_bytes].decode("utf-8", "ignore")


def fitted_issue(issue: Issue) -> Issue:
    """Return the issue cut to 512 bytes of UTF-8 as JSON; the rule gives way first, then the component."""
    code = fitted(issue.code, limit_bytes=64)
    component = None if issue.component is None else fitted(issue.component, limit_bytes=_COMPONENT_BYTES)
    rule = None if issue.rule is None else fitted(issue.rule)
    while True:
        fit = Issue(code, issue.row, component, rule)
        excess = len(json.dumps(asdict(fit), ensure_ascii=False, separators=(",", ":")).encode()) - MAX_TEXT_BYTES
        if excess <= 0:
            return fit
        if rule:
            rule = fitted(rule, limit_bytes=max(len(rule.encode()) - excess, 0))
        else:
            component = fitted(component or "", limit_bytes=max(len((component or "").encode()) - excess, 0))


# -- writing -------------------------------------------------------------------------------------------------------


def observation_message(observation: Observation, *, spec: ObservationSpec | None = None) -> dict[str, Any]:
    """Return one look as a message; pictures are the observation's own arrays.

    ``spec``: with it, a camera of ``encoding: png`` is written as PNG where the encoding is JSON.
    """
    png = {camera.name: camera for camera in spec.cameras if camera.encoding == "png"} if spec else {}
    images = {name: _sent(pixels, png.get(name)) for name, pixels in observation.images.items()}
    calls = observation.remaining.calls
    remaining: dict[str, Any] = {"steps": observation.remaining.steps, "calls": calls}
    if calls is None:
        remaining["calls_reason"] = "unlimited"
    return {
        "protocol": PROTOCOL,
        "type": "observation",
        "episode": observation.episode,
        "call_index": observation.call_index,
        "observation_id": observation.observation_id,
        "registration": observation.registration_sha256,
        "step_index": observation.step_index,
        "instruction": observation.instruction,
        "images": images,
        "proprio": {name: values.tolist() for name, values in observation.proprio.items()},
        "history": _history_part(observation.history, png=png),
        "meta": _meta_part(observation.meta),
        "issue": _issue_part(observation.issue),
        "remaining": remaining,
    }


def _sent(pixels: NDArray[np.uint8], camera: CameraSpec | None) -> NDArray[np.uint8] | PngPicture:
    return pixels if camera is None else PngPicture(pixels, layout=camera.layout)


def _history_part(history: History | None, *, png: Mapping[str, CameraSpec]) -> dict[str, Any] | None:
    if history is None:
        return None
    return {
        "images": {
            name: [None if look is None else _sent(look, png.get(name)) for look in looks]
            for name, looks in history.images.items()
        },
        "actions": [None if row is None else row.tolist() for row in history.actions],
    }


def _meta_part(meta: Mapping[str, float | None]) -> dict[str, Any]:
    if "remaining_calls" in meta and meta["remaining_calls"] is None:
        return {**meta, "remaining_calls_reason": "unlimited"}
    return dict(meta)


def _issue_part(issue: Issue | None) -> dict[str, Any] | None:
    if issue is None:
        return None
    fit = fitted_issue(issue)
    return {"code": fit.code, "row": fit.row, "component": fit.component, "rule": fit.rule}


def decision_message(decision: PolicyDecision, observation: Observation) -> dict[str, Any]:
    """Return a decision as the answer to ``observation``, for the side that hosts a policy.

    Raises PolicyFault (``invalid_response_schema``, ``invalid_action``) for a chunk that no message can hold.
    """
    message: dict[str, Any] = {
        "protocol": PROTOCOL,
        "type": "decision",
        "episode": observation.episode,
        "call_index": observation.call_index,
        "observation_id": observation.observation_id,
        "registration": observation.registration_sha256,
        "usage": _usage_part(decision.usage),
        "latency_ms": decision.latency_ms,
    }
    if isinstance(decision.decision, Stop):
        message["stop"] = {"reason": decision.decision.reason}
    else:
        message["chunk"] = {"vectors": sendable_rows(decision.decision.vectors)}
    if decision.usage is None:
        message["usage_reason"] = decision.usage_reason
    if decision.latency_ms is None:
        message["latency_ms_reason"] = decision.latency_ms_reason
    if decision.batch_size is not None:
        message["batch_size"] = decision.batch_size
    return message


def sendable_rows(vectors: Any) -> Any:
    """Return our own copy of rows that can be sent.

    What is wrong with a number is for the receiver to find, as in one process. Raises PolicyFault
    (``invalid_response_schema``, ``invalid_action``) for what no message can hold.
    """
    if isinstance(vectors, np.ndarray):
        if vectors.dtype.str not in DTYPES:
            raise PolicyFault(
                f"expected an array of float32 or float64, got dtype {vectors.dtype}; nothing was executed",
                code="invalid_action",
            )
        return np.array(vectors, copy=True, subok=False)  # an arm's subclass may show other numbers later
    if not isinstance(vectors, list | tuple):
        raise PolicyFault(f"expected rows of numbers, got {type(vectors).__name__}", code="invalid_response_schema")
    for number, row in enumerate(vectors):
        for value in row if isinstance(row, list | tuple) else (row,):
            if not isinstance(value, bool | int | float | str | None) or _is_too_long(value):
                found = "a whole number beyond 64 bits" if isinstance(value, int) else type(value).__name__
                raise PolicyFault(
                    f"row {number}: expected a number, got {found}; nothing of the chunk was executed",
                    code="invalid_action",
                    row=number,
                    rule="a finite number",
                )
    return [[_number(value) for value in row] if isinstance(row, list | tuple) else row for row in vectors]


def _is_too_long(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _number(value: Any) -> Any:
    return float(value) if type(value) is np.float64 else value


def _usage_part(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    part: dict[str, Any] = {}
    for name in ("requests", "input_tokens", "output_tokens", "cost"):
        part[name] = getattr(usage, name)
        if part[name] is None:
            part[f"{name}_reason"] = "not_reported"
    return part


def ack_message(ack: Ack) -> dict[str, Any]:
    """Return what became of a decision."""
    return {
        "protocol": PROTOCOL,
        "type": "ack",
        "episode": ack.episode,
        "call_index": ack.call_index,
        "accepted": ack.accepted,
        "proposed": ack.proposed,
        "executed": ack.executed,
        "dropped_tail": ack.dropped_tail,
        "discarded_after_end": ack.discarded_after_end,
        "issue": _issue_part(ack.issue),
        "next": ack.next,
    }


def episode_end_message(episode: str, reason: EndReason) -> dict[str, Any]:
    """Return the end of an episode; it never carries a score."""
    return {"protocol": PROTOCOL, "type": "episode_end", "episode": episode, "reason": reason}


def error_message(code: str, message: str) -> dict[str, Any]:
    """Return an error with its class; the text is cut to 512 bytes. Raises KeyError for a code that nobody knows."""
    return {
        "protocol": PROTOCOL,
        "type": "error",
        "code": code,
        "class": CLASS_OF[code],
        "message": fitted(message),
    }


def reset_message(info: EpisodeInfo) -> dict[str, Any]:
    """Return the begin of an episode for a policy server."""
    return {
        "protocol": PROTOCOL,
        "type": "reset",
        "episode": info.episode,
        "instruction": info.instruction,
        "control_hz": info.control_hz,
        "replan_interval": info.replan_interval,
        "max_steps": info.max_steps,
        "policy_seed": info.policy_seed,
    }


def ready_message(episode: str) -> dict[str, Any]:
    """Return that a policy has forgotten the previous episode."""
    return {"protocol": PROTOCOL, "type": "ready", "episode": episode}


def close_message(episode: str | None = None) -> dict[str, Any]:
    """Return that a connection ends, or on the service that an episode does."""
    message = {"protocol": PROTOCOL, "type": "close"}
    return message if episode is None else {**message, "episode": episode}
