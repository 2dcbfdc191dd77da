"""How far a campaign has come: its attempts, how they ended and with which files, and how its run was closed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trialplate.store.chain import Head
from trialplate.store.layout import Plan, Planned, episode_folder

Key = tuple[str, int]
"""Trial id, and number of the attempt."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file of an attempt: its name in the attempt's folder, its SHA-256 in hex, its size in bytes."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Ended:
    """What an ``attempt.end`` says: how the attempt ended, the SHA-256 of its row, and its other files."""

    termination: str
    row_sha256: str
    artifacts: tuple[Artifact, ...]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Ended:
        """Return it for the data of a record that was checked."""
        return cls(
            sys.intern(data["termination"]),
            data["row_sha256"],
            tuple(
                Artifact(sys.intern(item["path"].rpartition("/")[2]), item["sha256"], item["size"])
                for item in data["artifacts"]
            ),
        )


@dataclass(slots=True)
class Attempt:
    """One started attempt. ``end``: None while there is none. There are many: what a check needs is kept, no more."""

    trial: Planned
    attempt: int
    end: Ended | None = None

    @property
    def key(self) -> Key:
        """Trial id and number of the attempt."""
        return self.trial.trial_id, self.attempt

    @property
    def folder(self) -> str:
        """Its folder, relative to the campaign."""
        return episode_folder(*self.key)

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Its files besides the row; none while it has not ended."""
        return self.end.artifacts if self.end is not None else ()


@dataclass(frozen=True, slots=True)
class Close:
    """The last ``run.close``: its place, what it says, and the attempts that had ended, in schedule order."""

    seq: int
    complete: bool
    reason: str | None
    ended: tuple[Attempt, ...]

    def terminations(self) -> dict[str, int]:
        """Return how many attempts ended in which way."""
        return terminations(self.ended)


def terminations(attempts: Iterable[Attempt]) -> dict[str, int]:
    """Return how many ended attempts ended in which way, sorted by name."""
    counts = Counter(attempt.end.termination for attempt in attempts if attempt.end is not None)
    return dict(sorted(counts.items()))


def completion_document(plan: Plan, close: Close, head: Head) -> dict[str, Any]:
    """Return ``completion.json``: wholly determined by the lock and the journal up to the last ``run.close``."""
    return {
        "schema": "trialplate.completion/1",
        "lock_sha256": plan.sha256,
        "complete": close.complete,
        "reason": close.reason,
        "planned": len(plan.trials),
        "attempts": len(close.ended),
        "terminations": close.terminations(),
        "journal": head.document(),
    }
