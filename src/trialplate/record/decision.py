"""What a policy returns, and what it is told about it: closed unions and plain facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

MOST_METERED = 10**9
"""What one decision can have used of anything: more is a mistake, and no sum may outgrow a document."""

UnknownReason = Literal["not_reported", "not_metered", "not_applicable", "withheld", "unavailable"]


@dataclass(frozen=True, slots=True)
class ActionChunk:
    """Rows of actions to run one after the other, ``vectors`` of shape (n, dim), n >= 1.

    The values are whatever the policy sent: the loop validates every row before the first one runs.
    """

    vectors: Any


@dataclass(frozen=True, slots=True)
class Stop:
    """The policy ends its episode. It awards nothing: the scorer decides from what was recorded."""

    reason: str | None = None


Decision = ActionChunk | Stop


@dataclass(frozen=True, slots=True)
class Usage:
    """What a provider metered for one decision. A part that it did not report is None, never 0."""

    requests: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """A decision with what came along. A policy in this process may return one to report its usage.

    ``echo``: who filled in episode, call, observation and registration: the ``policy`` over a wire that has them,
    the ``client`` where the dialect has none, the ``harness`` in this process. ``remarks``: other members of the
    reply, kept as they came. ``latency_ms``: the policy's own word, recorded beside the time that was measured around
    the call, and part of no summary. ``batch_size``: how many requests the server answered together, None when
    unknown.
    """

    decision: Decision
    usage: Usage | None = None
    usage_reason: UnknownReason = "not_metered"
    latency_ms: float | None = None
    latency_ms_reason: UnknownReason = "not_metered"
    echo: Literal["policy", "client", "harness"] = "harness"
    batch_size: int | None = None
    remarks: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Issue:
    """What was wrong with the last decision, as far as the public contract tells it; at most 512 bytes of UTF-8."""

    code: str
    row: int | None
    component: str | None
    rule: str | None


@dataclass(frozen=True, slots=True)
class Ack:
    """What became of one decision.

    ``proposed`` rows were sent, ``executed`` of them ran, ``dropped_tail`` lay behind the replan interval,
    ``discarded_after_end`` were inside it when the episode ended.
    """

    episode: str
    call_index: int
    accepted: bool
    proposed: int
    executed: int
    dropped_tail: int
    discarded_after_end: int
    issue: Issue | None
    next: Literal["observation", "episode_end"]


EndReason = Literal["terminated", "step_limit", "policy_stop", "error", "aborted"]
