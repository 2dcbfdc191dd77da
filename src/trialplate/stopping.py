"""The stopping rule of a lock during its run: every attempt is scored as it ends, from its recording alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from trialplate.record import Outcome, Row
from trialplate.scoring.stopping import Stopping, apply_rule, blocks_of
from trialplate.spec.stopping import StoppingPlan
from trialplate.store.traces import read_trace
from trialplate.verification.outcomes import Scorer


class Watch:
    """Implements :class:`trialplate.run.looks.StopRule` for a lock; made by :func:`watch`."""

    def __init__(self, plan: StoppingPlan, lock_document: Mapping[str, Any]) -> None:
        self._plan, self._schedule = plan, lock_document["schedule"]
        self._scorer = Scorer(lock_document)
        self._outcomes: dict[int, tuple[int, Outcome]] = {}
        arms = len(lock_document["arms"])
        self._looks = [arms * n for n in plan.looks_within(len(self._schedule) // arms)]
        self._found: Stopping | None = None
        self._looked_at = -1

    def take(self, row: Row, trace: bytes | None) -> None:
        """Score one ended attempt; a later attempt of a trial takes the place of an earlier one."""
        outcome = self._scorer.score(row, read_trace(trace) if trace is not None else None)
        before = self._outcomes.get(row.ordinal)
        if before is None or before[0] < row.attempt:
            self._outcomes[row.ordinal] = (row.attempt, outcome)

    def admits(self, ordinal: int) -> Literal["yes", "wait", "no"]:
        """Return whether a trial may start."""
        before = max((look for look in self._looks if look <= ordinal), default=0)
        if before and any(n not in self._outcomes for n in range(before)):
            return "wait"
        found = self._apply()
        stopped = found.stopped_after is not None and ordinal >= self._after(found.stopped_after)
        return "no" if stopped else "yes"

    def stop(self) -> str | None:
        """Return in one line why the run is over; None while it is not."""
        found = self._apply()
        return found.sentence() if found.stopped_after is not None else None

    def _after(self, blocks: int) -> int:
        return len(self._schedule) // self._blocks() * blocks

    def _blocks(self) -> int:
        return len({(trial["scenario"], trial["repeat"]) for trial in self._schedule})

    def _apply(self) -> Stopping:
        if self._found is None or self._looked_at != len(self._outcomes):
            outcomes = [outcome for _, outcome in self._outcomes.values()]
            self._found = apply_rule(self._plan, blocks_of(self._plan, self._schedule, outcomes))
            self._looked_at = len(self._outcomes)
        return self._found


def watch(lock_document: Mapping[str, Any]) -> Watch | None:
    """Return the rule of a lock, None where it registers none."""
    registered = lock_document["protocol"].get("stopping")
    if registered is None:
        return None
    return Watch(StoppingPlan.model_validate_json(json.dumps(registered)), lock_document)
