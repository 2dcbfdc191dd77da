"""One skill's ladder while it is climbed: stages in declared order, nothing after the first failure.

Source: atomic skills, sections 5 (ladder rules) and 9.
"""

from __future__ import annotations

from collections.abc import Sequence

from trialplate.errors import EvidenceError, nearest
from trialplate.record import StagePart, StageRecord
from trialplate.spec.skills import FAULT_TABLE

STAGE_REASONS = ("object_not_grasped", "object_dropped", "release_failure", "task_goal_miss")
PLANNER_REASONS = ("planner_exception", "planner_reported_failure", "timeout")
"""Reasons that stand at the first stage: nothing was replayed."""


class Climb:
    """Collects the stages of one trial."""

    def __init__(self, stages: Sequence[str]) -> None:
        self._names = tuple(stages)
        self._done: list[StageRecord] = []
        self.failure_stage: str | None = None
        self.failure_reason: str | None = None

    @property
    def ended(self) -> bool:
        """Whether a stage failed or all are passed."""
        return self.failure_stage is not None or len(self._done) == len(self._names)

    def passed(self, stage: str, *, sample: int, parts: Sequence[StagePart]) -> None:
        """Record that a stage was passed. Raises EvidenceError for one that is not the next."""
        self._refuse_other(stage)
        self._done.append(_record(stage, passed=True, sample=sample, parts=parts))

    def failed(self, stage: str, *, reason: str, sample: int | None, parts: Sequence[StagePart] = ()) -> None:
        """Record that a stage failed, and end the climb. Raises EvidenceError for an unknown reason or stage."""
        self._refuse_other(stage)
        if reason not in STAGE_REASONS and not (reason in PLANNER_REASONS and not self._done):
            raise EvidenceError(
                f"stage {stage!r} cannot fail for {reason!r}{nearest(reason, FAULT_TABLE)}", code="reason_unknown"
            )
        self._done.append(_record(stage, passed=False, sample=sample, parts=parts))
        self.failure_stage, self.failure_reason = stage, reason

    def stages(self) -> tuple[StageRecord, ...]:
        """Return every stage in declared order; those after a failure are not reached."""
        rest = self._names[len(self._done) :]
        return (*self._done, *(StageRecord(name, False, None, None, None, None, None) for name in rest))

    def _refuse_other(self, stage: str) -> None:
        if stage not in self._names:
            raise EvidenceError(f"unknown stage {stage!r}{nearest(stage, self._names)}", code="stage_unknown")
        if self.ended:
            raise EvidenceError(f"stage {stage!r} is recorded after the ladder ended", code="stage_order")
        wanted = self._names[len(self._done)]
        if stage != wanted:
            raise EvidenceError(f"stage {stage!r} is recorded where {wanted!r} is next", code="stage_order")


def _record(stage: str, *, passed: bool, sample: int | None, parts: Sequence[StagePart]) -> StageRecord:
    told = next((part for part in parts if not part.holds), parts[0] if parts else None)
    if told is None:
        return StageRecord(stage, True, passed, None, None, None, sample)
    return StageRecord(stage, True, passed, told.value, told.unit, told.threshold, sample, tuple(parts))
