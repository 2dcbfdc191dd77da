"""One initiated attempt as recorded, and what scoring makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Literal

from trialplate.record.skills import SkillFacts


class Status(StrEnum):
    """The four and only outcomes of an initiated attempt."""

    PASS = "PASS"
    FAIL = "FAIL"
    ERROR = "ERROR"
    EXCLUDED = "EXCLUDED"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a control step: a rejection, a fault, a refused pose, a disturbance."""

    step: int
    kind: str
    detail: str


USAGE_MEMBERS = ("requests", "input_tokens", "output_tokens", "cost")
"""What may be metered over the calls of an attempt; each may be unknown."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall-clock facts of an attempt; never part of what is compared between runs."""

    wall_us: int
    policy_us: int
    reset_us: int
    call_p50_us: int | None
    call_p95_us: int | None


@dataclass(frozen=True, slots=True)
class TraceRef:
    """Where the trace lies, the digest of its file and of its content."""

    path: str
    file_sha256: str
    content_sha256: str
    size_bytes: int
    steps: int


@dataclass(frozen=True, slots=True)
class ExchangeRef:
    """Where the exchanged messages lie (the calls as they were shown and answered) and the digest of their file."""

    path: str
    file_sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Row:
    """Everything a reader of one attempt needs, stored as ``episodes/<trial>/row.json``.

    ``termination``: ``policy_stop``, ``step_limit``, ``control_rejected``, ``plan_replayed``, ``fault`` or
    ``interrupted``.
    ``fault``: its code and message when a fault ended the attempt. No status stands here: scoring applies the
    fault table and the stage chain. ``rows_dropped`` lay behind the replan interval, ``rows_discarded`` inside it
    when the episode ended; ``short_chunks`` counts decisions shorter than it, ``calls_rejected`` those that were not
    executed at all. ``usage``: what was metered over all calls, None with ``usage_reason`` when any call is unknown.
    ``echo``: who filled in what a decision echoes, None when there was no decision. ``run_id``: the run that it was
    recorded in, filled in where it is stored; None before.
    """

    trial_id: str
    ordinal: int
    attempt: int
    arm: str
    scenario: str
    family: str
    domain: str
    variant: str
    repeat: int
    env_seed: int
    termination: str
    fault_code: str | None
    fault_message: str | None
    control_steps: int
    calls: int
    rows_proposed: int
    rows_executed: int
    rows_dropped: int
    initial_state_sha256: str | None
    applied_scene_sha256: str | None
    scenario_sha256: str
    registration_sha256: str
    actions_sha256: str | None
    trace: TraceRef | None
    exchange: ExchangeRef | None = None
    rows_discarded: int = 0
    calls_rejected: int = 0
    short_chunks: int = 0
    usage: Any = None
    usage_reason: str | None = "unavailable"
    echo: str | None = None
    events: tuple[Event, ...] = ()
    applied_scene: Any = None
    timing: Timing | None = None
    run_id: str | None = None
    schema: str = "trialplate.row/1"

    def document(self) -> dict[str, Any]:
        """Return the plain document that is stored and hashed."""
        plain = {name: getattr(self, name) for name in _ROW_MEMBERS}
        for name in ("trace", "exchange", "timing"):
            plain[name] = asdict(plain[name]) if plain[name] is not None else None
        plain["events"] = [asdict(event) for event in self.events]
        return plain

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Row:
        """Rebuild a row from its stored document; raises TypeError on unknown or missing members."""
        values = dict(document)
        values["events"] = tuple(Event(**event) for event in values["events"])
        values["trace"] = TraceRef(**values["trace"]) if values["trace"] is not None else None
        values["exchange"] = ExchangeRef(**values["exchange"]) if values["exchange"] is not None else None
        values["timing"] = Timing(**values["timing"]) if values["timing"] is not None else None
        return cls(**values)


_ROW_MEMBERS = tuple(item.name for item in fields(Row))


@dataclass(frozen=True, slots=True)
class StageResult:
    """One stage of the ordered chain. ``step`` is the control step at which it was passed, else None."""

    name: str
    passed: bool
    step: int | None


@dataclass(frozen=True, slots=True)
class Conduct:
    """How one attempt went on the wire: calls, rows, what was metered, and the range of what was executed.

    ``calls``: decisions that were asked for; ``calls_executed`` of them moved something, ``calls_rejected`` did not
    pass. ``usage``: sums over the calls as in :class:`Row`, or None with ``usage_reason``. ``echo``: who filled in
    what a decision echoes. ``action_low``, ``action_high``: lowest and highest executed value of each scalar, (dim,),
    None when nothing was executed. ``repeated_rows``: how often, at most, one row was executed without another
    between, and ``repeated_sha256`` its array digest: it shows an arm that sends zeros where it has no answer.
    """

    calls: int
    calls_executed: int
    calls_rejected: int
    short_chunks: int
    rows_proposed: int
    rows_executed: int
    rows_dropped: int
    rows_discarded: int
    usage: Mapping[str, int | float | None] | None
    usage_reason: str | None
    echo: str | None
    action_low: tuple[float, ...] | None
    action_high: tuple[float, ...] | None
    repeated_rows: int = 0
    repeated_sha256: str | None = None

    def document(self) -> dict[str, Any]:
        """Return the plain form."""
        plain = {name: getattr(self, name) for name in _CONDUCT_MEMBERS}
        for name in ("action_low", "action_high"):
            plain[name] = list(plain[name]) if plain[name] is not None else None
        return plain


_CONDUCT_MEMBERS = tuple(item.name for item in fields(Conduct))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What scoring says about one attempt, from its recording alone.

    ``conduct``: None where only results were handed over, without their recordings. ``blinding``: ``compromised``
    when a leak was disclosed on this attempt; None says only that none was. ``identity``: ``exploratory`` when a run
    of the campaign declared another identity of this arm than the locked one. ``skill``: what a suite of skills says
    beside that; None elsewhere, and then it stands in no document.
    """

    trial_id: str
    arm: str
    scenario: str
    family: str
    domain: str
    variant: str
    repeat: int
    status: Status
    reason: str
    stages: tuple[StageResult, ...]
    success_once: bool | None
    success_final: bool | None
    first_failed_stage: str | None
    termination: str
    control_steps: int
    trace_content_sha256: str | None
    initial_state_sha256: str | None
    notes: tuple[str, ...] = field(default=())
    conduct: Conduct | None = None
    blinding: Literal["compromised"] | None = None
    identity: Literal["exploratory"] | None = None
    skill: SkillFacts | None = None

    def document(self) -> dict[str, Any]:
        """Return the plain form that is written, one canonical line each, into ``results.jsonl``."""
        plain = {name: getattr(self, name) for name in _OUTCOME_MEMBERS}
        plain["status"] = self.status.value
        plain["stages"] = [{"name": s.name, "passed": s.passed, "step": s.step} for s in self.stages]
        plain["notes"] = list(self.notes)
        if self.skill is None:
            del plain["skill"]
        else:
            plain["skill"] = asdict(self.skill)
        if self.conduct is not None:
            plain["conduct"] = self.conduct.document()
        return plain


_OUTCOME_MEMBERS = tuple(item.name for item in fields(Outcome))
