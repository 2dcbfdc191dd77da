"""The messages of one episode, described once: the parser validates with these types, the JSON Schemas are theirs.

An unknown key is refused. An unknown value is null beside ``<field>_reason``; a reason beside a known value is
refused too. Source: policy contract ``trialplate.policy/1``, section 2.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, WithJsonSchema, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from trialplate.record.decision import MOST_METERED

ProtocolName = Literal["trialplate.policy/1"]
Reason = Literal[
    "not_reported", "not_metered", "not_applicable", "withheld", "unavailable", "not_a_checkout", "unlimited"
]
Opaque = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", min_length=32, max_length=32)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", min_length=64, max_length=64)]
Text = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=65_536)]
ShortText = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=512)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Positive = Annotated[int, Field(ge=1, le=2**53)]
Metered = Annotated[int, Field(ge=0, le=MOST_METERED)]
Amount = Annotated[float, Field(ge=0, le=MOST_METERED, allow_inf_nan=False)]
BatchSize = Annotated[int, Field(ge=1, le=2**16)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _array_schema(*, dtypes: list[str], lists: dict[str, Any], png: bool = False) -> dict[str, Any]:
    """Return the schema of an array in JSON: nested lists, or base64 with dtype and shape."""
    shape = {"type": "array", "maxItems": 8, "items": {"type": "integer", "minimum": 0}}
    form = {
        "type": "object",
        "additionalProperties": False,
        "required": ["encoding", "dtype", "shape", "data_b64"],
        "properties": {
            "encoding": {"enum": ["raw", "png"] if png else ["raw"]},
            "dtype": {"enum": dtypes},
            "shape": shape,
            "data_b64": {"type": "string", "contentEncoding": "base64"},
        },
    }
    return {"anyOf": [lists, form]}


def _nested(item: dict[str, Any], *, rank: int, smallest: int = 0) -> dict[str, Any]:
    schema = item
    for _ in range(rank):
        schema = {"type": "array", "items": schema, "minItems": smallest}
    return schema


Rows = Annotated[
    Any,
    WithJsonSchema(_array_schema(dtypes=["<f4", "<f8"], lists=_nested({"type": "number"}, rank=2, smallest=1))),
]
"""Rows of an action chunk, as they came: what is in them is the loop's to judge, row by row."""

Picture = Annotated[
    Any,
    WithJsonSchema(
        _array_schema(
            dtypes=["|u1"], lists=_nested({"type": "integer", "minimum": 0, "maximum": 255}, rank=3), png=True
        )
    ),
]
"""A picture: an array, or nested lists of bytes."""


class Reasoned(BaseModel):
    """A part of a message. Each name in ``unknowable`` may be null, and then says why in ``<name>_reason``."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)
    unknowable: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        rules = [
            {
                "if": {"properties": {name: {"type": "null"}}},
                "then": {"required": [f"{name}_reason"], "properties": {f"{name}_reason": {"type": "string"}}},
                "else": {"properties": {f"{name}_reason": {"type": "null"}}},
            }
            for name in cls.unknowable
        ]
        return {**schema, "allOf": rules} if rules else schema


def check_reasons(part: Any) -> Any:
    for name in part.unknowable:
        if (getattr(part, name) is None) != (getattr(part, f"{name}_reason") is not None):
            raise ValueError(f"{name}: null needs {name}_reason, and nothing else has one")
    return part


class Message(Reasoned):
    """What every message has. ``id``: on a WebSocket, the request's number, repeated by the reply."""

    protocol: ProtocolName
    id: Count | None = None


# -- one episode ---------------------------------------------------------------------------------------------------


class IssuePart(Reasoned):
    """What was wrong with the last decision; the whole is at most 512 bytes of UTF-8."""

    code: ShortText
    row: Count | None
    component: ShortText | None
    rule: ShortText | None


class RemainingPart(Reasoned):
    """What is left of the budgets."""

    unknowable = ("calls",)
    steps: Count
    calls: Count | None
    calls_reason: Reason | None = None

    _reasons = model_validator(mode="after")(check_reasons)


class MetaPart(Reasoned):
    """Facts about time and budget that the specs announce; only those are there."""

    step_index: Count = 0
    sim_time_s: Finite = 0.0
    control_hz: AboveZero = 1.0
    remaining_steps: Count = 0
    remaining_calls: Count | None = None
    remaining_calls_reason: Reason | None = None

    @model_validator(mode="after")
    def _unlimited(self) -> MetaPart:
        unknown = "remaining_calls" in self.model_fields_set and self.remaining_calls is None
        if unknown != (self.remaining_calls_reason is not None):
            raise ValueError("remaining_calls: null needs remaining_calls_reason, and nothing else has one")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        rule = {
            "if": {"required": ["remaining_calls"], "properties": {"remaining_calls": {"type": "null"}}},
            "then": {
                "required": ["remaining_calls_reason"],
                "properties": {"remaining_calls_reason": {"type": "string"}},
            },
            "else": {"properties": {"remaining_calls_reason": {"type": "null"}}},
        }
        return {**schema, "allOf": [rule]}


class HistoryPart(Reasoned):
    """The last looks and the last executed rows, oldest first; null where the episode is too young."""

    images: dict[str, list[Picture | None]]
    actions: list[list[Finite] | None]


class ObservationMessage(Message):
    """One look at the world."""

    type: Literal["observation"]
    episode: Opaque
    call_index: Count
    observation_id: Opaque
    registration: Digest
    step_index: Count
    instruction: Text | None
    images: dict[str, Picture]
    proprio: dict[str, list[Finite]]
    history: HistoryPart | None
    meta: MetaPart
    issue: IssuePart | None
    remaining: RemainingPart


class ChunkPart(Reasoned):
    """Rows of actions (n, dim)."""

    vectors: Rows


class StopPart(Reasoned):
    """The policy ends its episode."""

    reason: Text | None


class UsagePart(Reasoned):
    """What a provider metered for one decision."""

    unknowable = ("requests", "input_tokens", "output_tokens", "cost")
    requests: Metered | None
    requests_reason: Reason | None = None
    input_tokens: Metered | None
    input_tokens_reason: Reason | None = None
    output_tokens: Metered | None
    output_tokens_reason: Reason | None = None
    cost: Amount | None
    cost_reason: Reason | None = None

    _reasons = model_validator(mode="after")(check_reasons)


UnknownReason = Literal["not_reported", "not_metered", "not_applicable", "withheld", "unavailable"]


class DecisionMessage(Message):
    """What a policy decided. Exactly one of ``chunk`` and ``stop``; absent and null are the same for these two."""

    unknowable = ("usage", "latency_ms")
    type: Literal["decision"]
    episode: Opaque
    call_index: Count
    observation_id: Opaque
    registration: Digest
    chunk: ChunkPart | None = None
    stop: StopPart | None = None
    usage: UsagePart | None
    usage_reason: UnknownReason | None = None
    latency_ms: Amount | None
    latency_ms_reason: UnknownReason | None = None
    batch_size: BatchSize | None = None

    _reasons = model_validator(mode="after")(check_reasons)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = super().__get_pydantic_json_schema__(core, handler)
        either = [{"required": [name], "properties": {name: {"type": "object"}}} for name in ("chunk", "stop")]
        return {**schema, "oneOf": either}


class AckMessage(Message):
    """What became of one decision."""

    type: Literal["ack"]
    episode: Opaque
    call_index: Count
    accepted: bool
    proposed: Count
    executed: Count
    dropped_tail: Count
    discarded_after_end: Count
    issue: IssuePart | None
    next: Literal["observation", "episode_end"]


class EpisodeEndMessage(Message):
    """The episode is over; never a score."""

    type: Literal["episode_end"]
    episode: Opaque
    reason: Literal["terminated", "step_limit", "policy_stop", "error", "aborted"]


class ErrorMessage(Message):
    """Something went wrong, and whose doing it was."""

    type: Literal["error"]
    code: Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,63}$")]
    class_: Annotated[Literal["policy", "protocol", "infrastructure"], Field(alias="class")]
    message: ShortText


class ResetMessage(Message):
    """An episode begins. The seed is the policy's own."""

    type: Literal["reset"]
    episode: Opaque
    instruction: Text
    control_hz: AboveZero
    replan_interval: Positive
    max_steps: Positive
    policy_seed: Annotated[int, Field(ge=0, lt=2**32)]


class ReadyMessage(Message):
    """The policy has forgotten the previous episode."""

    type: Literal["ready"]
    episode: Opaque


class CloseMessage(Message):
    """The connection ends; with ``episode`` on the service, that episode does."""

    type: Literal["close"]
    episode: Opaque | None = None
