"""Everything a report needs, as plain data: nothing here is looked up, replayed or computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trialplate.claims.gate import Claim
from trialplate.record import Outcome
from trialplate.scoring.analysis import Analysis


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFacts:
    """What a reader must know about the benchmark.

    ``stages``: (name, meaning) in order. ``profiles``: observation profile -> what a policy sees under it.
    ``scope_note``: what the suite does not measure, in its own words.
    """

    name: str
    version: str
    summary: str
    scope_note: str
    instruction: str
    stages: tuple[tuple[str, str], ...]
    profiles: Mapping[str, str]
    max_steps: int
    control_hz: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """Pictures of one attempt, for people: a JPEG filmstrip, an H.264 video, or the reason why there are none."""

    filmstrip_jpeg: bytes | None = None
    video_mp4: bytes | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long an arm took to decide, by nearest rank over all its calls; None without any."""

    p50_us: int | None
    p95_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of practice that the operator recorded beside the lock: from which attempt on, what, and when."""

    first_attempt: str
    change: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An amendment to the lock: what somebody said beside it, when, and how many attempts had been started then."""

    n: int
    kind: str
    at: str
    attempts_seen: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """One report.

    ``lock``: the lock document (protocol, arms, suite, machine, digests). ``media``: trial id -> pictures; attempts
    that passed need none. ``identity``: further named digests and facts that are not in the lock, such as the journal
    head, the results file or the qualification. ``latency``: arm -> how long it took; wall clock, so it stands in no
    other result. ``exploratory``: arm -> the identities it was run under that are not the locked one. ``changes``:
    what the operator recorded beside the lock. ``addresses``: arm -> where else it was asked. ``amendments``: all of
    them, in order. ``unsynchronised``: arms whose clock is not known to be as close as registered.
    """

    lock: Mapping[str, Any]
    lock_sha256: str
    suite: SuiteFacts
    analysis: Analysis
    claims: tuple[Claim, ...]
    outcomes: tuple[Outcome, ...]
    media: Mapping[str, Media] = field(default_factory=dict)
    identity: Mapping[str, Any] = field(default_factory=dict)
    latency: Mapping[str, Latency] = field(default_factory=dict)
    exploratory: Mapping[str, Sequence[str]] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    amendments: tuple[Said, ...] = ()
    addresses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unsynchronised: tuple[str, ...] = ()
