"""What one attempt is made of: the seat of the arm, the setting of the trial, and what the loop leaves behind."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import TrialplateError
from trialplate.interfaces import Actor, ResetEvidence, Scenario, Suite
from trialplate.policies.adapters.chain import AdapterChain
from trialplate.record import USAGE_MEMBERS, Ack, EpisodeInfo, Event, PolicyDecision, Usage
from trialplate.run.frames import FrameHasher
from trialplate.run.recorder import Recorder
from trialplate.spec.channels import ActionSpec, ObservationSpec
from trialplate.store.exchanges import ExchangeWriter

Recording = Literal["minimal", "detailed"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends an attempt from outside. ``feedback``: an invalid decision is told back instead of ending it."""

    max_steps: int
    max_chunk_length: int
    replan_interval: int
    call_timeout_s: float
    first_call_timeout_s: float
    max_calls: int | None = None
    policy_time_limit_s: float | None = None
    feedback: bool = False


@dataclass(frozen=True, slots=True)
class Seat:
    """An arm at the loop. ``expects`` and ``action`` are as the arm sees them, behind its adapters.

    ``cameras``, ``proprio``: the channels of the environment that have to be read for it.
    """

    actor: Actor
    expects: ObservationSpec
    action: ActionSpec
    adapters: AdapterChain
    cameras: tuple[str, ...]
    proprio: tuple[str, ...]
    registration_sha256: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One planned trial, ready to run."""

    suite: Suite
    scenario: Scenario
    info: EpisodeInfo
    env_seed: int
    limits: Limits
    recording: Recording = "minimal"
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one observation: rows as sent and as executed (n, dim), or the fault that it was."""

    reply: PolicyDecision | None
    sent: NDArray[np.float64] | None
    rows: NDArray[np.float64] | None
    fault: TrialplateError | None
    latency_us: int

    def kind(self, ack: Ack) -> Literal["chunk", "stop", "rejected", "fault"]:
        """Return how the call is recorded: ``rejected`` when another may follow, ``fault`` when none does."""
        if self.fault is not None:
            return "rejected" if ack.next == "observation" else "fault"
        return "stop" if self.rows is None else "chunk"


@dataclass(slots=True)
class Attempt:
    """What the loop leaves behind. ``executed``: the last rows that ran, as the policy sent them.

    ``waypoints_executed``: rows of a plan that ran; None where every executed row is the policy's.
    """

    recorder: Recorder
    exchanges: ExchangeWriter
    hasher: FrameHasher
    executed: deque[NDArray[np.float64]]
    replan_interval: int
    evidence: ResetEvidence | None = None
    termination: str = "fault"
    fault: TrialplateError | None = None
    events: tuple[Event, ...] = ()
    rows_proposed: int = 0
    rows_dropped: int = 0
    rows_discarded: int = 0
    calls_rejected: int = 0
    short_chunks: int = 0
    policy_us: int = 0
    waypoints_executed: int | None = None
    reset_us: int = 0
    echo: str | None = None
    usages: list[Usage | str] = field(default_factory=list)

    @classmethod
    def begin(cls, setting: Setting) -> Attempt:
        """Return an attempt with nothing recorded yet."""
        history = max((p.history.actions for p in setting.suite.profiles.values() if p.history), default=0)
        suite, scenario = setting.suite, setting.scenario
        action_dim, most = suite.action_of(scenario).dim, setting.limits.max_steps
        return cls(
            Recorder(suite.columns_of(scenario), action_dim=action_dim, max_steps=most),
            ExchangeWriter(detailed=setting.recording == "detailed"),
            FrameHasher(),
            deque(maxlen=history),
            setting.limits.replan_interval,
        )

    def count(self, answer: Answer, ack: Ack) -> None:
        """Add one call to the tallies."""
        self.rows_proposed += ack.proposed
        self.rows_dropped += ack.dropped_tail
        self.rows_discarded += ack.discarded_after_end
        self.calls_rejected += answer.fault is not None
        self.short_chunks += 0 < ack.proposed < self.replan_interval
        reply = answer.reply
        if reply is None:
            self.usages.append("unavailable")
            return
        self.echo = reply.echo
        self.usages.append(reply.usage if reply.usage is not None else reply.usage_reason)

    @property
    def rows_executed(self) -> int:
        """How many rows that the policy sent were executed."""
        return self.recorder.steps if self.waypoints_executed is None else self.waypoints_executed

    def usage(self) -> tuple[dict[str, int | float | None] | None, str | None]:
        """Return the sum over all calls, a member None when any call does not know it; or None and the reason."""
        unknown = [reason for reason in self.usages if isinstance(reason, str)]
        if unknown or not self.usages:
            return None, unknown[0] if unknown else "not_applicable"
        known = [usage for usage in self.usages if isinstance(usage, Usage)]
        total: dict[str, int | float | None] = {}
        for member in USAGE_MEMBERS:
            parts = [getattr(usage, member) for usage in known]
            total[member] = None if None in parts else sum(parts)
        return total, None


@contextmanager
def attempted(setting: Setting) -> Iterator[Attempt]:
    """Make an attempt; at the end its exchanges are sealed, or let go of where the run itself cannot go on."""
    attempt = Attempt.begin(setting)
    try:
        yield attempt
        attempt.exchanges.seal()
    except BaseException:
        attempt.exchanges.close()
        raise
    finally:
        attempt.hasher.close()
