"""What the records say has happened so far, and what may come next: the same rules for the writer and the check."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trialplate.store.amendments import AMENDMENT, AmendmentChain
from trialplate.store.chain import JOURNAL, Record
from trialplate.store.disclosures import (
    CUTOVER,
    DISCLOSURES,
    LEAK,
    Cutover,
    Leak,
    cutover_misfit,
    cutover_of,
    leak_misfit,
    leak_of,
    parse_attempt,
)
from trialplate.store.findings import Finding, finding
from trialplate.store.layout import FIRST_ATTEMPT, ROW, Plan, Planned, is_plain_name
from trialplate.store.progress import Attempt, Close, Ended, Key

RECORD_TYPES = (
    "run.open",
    "run.resume",
    "attempt.start",
    "attempt.end",
    "recovered",
    "inputs.checked",
    "event",
    "run.close",
    LEAK,
    CUTOVER,
    AMENDMENT,
)
BESIDE = DISCLOSURES | {AMENDMENT}
"""Record types that belong to no run: each is written by a process of its own, also behind a ``run.close``."""

ALLOWED_LATER = frozenset(
    {
        *("inputs_changed_during_run", "attempt_repeated", "row_order", "attempts_overlap"),
        *("amendment_changes_rule", "stop_rule"),
    }
)
"""Findings on a record that is intact, only not allowed: what follows it still fits."""

_HEX = re.compile(r"[0-9a-f]{64}")
_BY_ARM = frozenset({"addresses", "registrations"})
"""What the opening of a run may say of its arms."""
_START = {"trial_id": str, "ordinal": int, "arm": str, "attempt": int}
_END = {"trial_id": str, "attempt": int, "row_sha256": str, "termination": str, "artifacts": list}
_ARTIFACT = {"path": str, "sha256": str, "size": int}


@dataclass(slots=True)
class Ledger:
    """The state after a number of records. ``take`` never raises: what breaks a rule is returned and skipped.

    ``newest``: the highest ordinal whose first attempt this run has started; -1 before the first. ``workers``: how
    many attempts this run may have in hand at a time, None when it does not say. ``first_start``, ``last_end``: which
    records these are; ``first_start_utc``: its time; a later
    one may read earlier, where the clock was set back.
    """

    plan: Plan
    attempts: dict[Key, Attempt] = field(default_factory=dict)
    last_attempt: dict[str, int] = field(default_factory=dict)
    next_ordinal: dict[str, int] = field(default_factory=dict)
    newest: int = -1
    workers: int | None = None
    in_hand: set[Key] = field(default_factory=set)
    first_start: int | None = None
    first_start_utc: str | None = None
    last_end: int | None = None
    run_id: str | None = None
    running: bool = False
    close: Close | None = None
    mono_us: int | None = None
    inputs: Mapping[str, Any] | None = None
    leaks: list[Leak] = field(default_factory=list)
    cutovers: list[Cutover] = field(default_factory=list)
    amendments: AmendmentChain = field(init=False)

    def __post_init__(self) -> None:
        self.amendments = AmendmentChain(self.plan.sha256, stop_registered=self.plan.stop_registered)

    def take(self, record: Record) -> list[Finding]:
        """Check a record against everything before it and take it over. Returns what is wrong with it."""
        data, kind = record["data"], record["type"]
        place = f"line {record['seq']}"
        found = self._check_clock(record, place)
        wrong = self.check(kind, data, place=place)
        if wrong is None:
            self._apply(record, kind, data)
            return found
        if wrong.code in ALLOWED_LATER:
            self._apply(record, kind, data)
        return [*found, wrong]

    def check(self, kind: str, data: Mapping[str, Any], *, place: str) -> Finding | None:
        """Return what forbids such a record now, None when nothing does."""
        if kind not in RECORD_TYPES:
            return _wrong("schema_mismatch", place, f"one of {', '.join(RECORD_TYPES)}", kind)
        if kind == "recovered":
            return None
        if kind in ("run.open", "run.resume"):
            return self._check_opening(kind, data, place)
        if kind in DISCLOSURES:
            return self._check_disclosure(kind, data, place)
        if kind == AMENDMENT:
            misfit = self.amendments.misfit(data.get("amendment"), attempts_seen=len(self.attempts))
            return None if misfit is None else _wrong(misfit[0], f"{place} /data/amendment{misfit[1]}", *misfit[2:])
        if not self.running:
            return _wrong("journal_broken", place, "run.open or run.resume before it", kind)
        if kind == "attempt.start":
            return self._check_start(data, place)
        if kind == "attempt.end":
            return self._check_end(data, place)
        if kind == "inputs.checked":
            return self._check_inputs(data, place)
        return _check_closing(data, place) if kind == "run.close" else None

    def _check_opening(self, kind: str, data: Mapping[str, Any], place: str) -> Finding | None:
        if not isinstance(data.get("run_id"), str):
            return _wrong("schema_mismatch", f"{place} /data/run_id", "a text", data.get("run_id"))
        for name in _BY_ARM & data.keys():
            told = data[name]
            if not isinstance(told, dict) or not all(isinstance(value, str) for value in told.values()):
                return _wrong("schema_mismatch", f"{place} /data/{name}", "a text for each arm", told)
        if kind == "run.open" and self.run_id is not None:
            return _wrong("mixed_runs", place, f"one run, {self.run_id}", f"another run.open, {data['run_id']}")
        if self.run_id is not None and data["run_id"] != self.run_id:
            return _wrong("mixed_runs", place, f"one run, {self.run_id}", data["run_id"])
        if kind == "run.resume" and self.run_id is None:
            return _wrong("journal_broken", place, "run.open before it", kind)
        return None

    def _check_start(self, data: Mapping[str, Any], place: str) -> Finding | None:
        if (shape := _misfit(data, _START)) is not None:
            return _wrong("schema_mismatch", f"{place} /data", *shape)
        if self.stopped:
            return _wrong("stop_rule", place, "no attempt behind the stop", f"{data['trial_id']}-{data['attempt']}")
        trial, attempt = self.plan.planned(data["trial_id"]), data["attempt"]
        if trial is None:
            return _wrong("row_unplanned", place, f"a trial of the {len(self.plan.trials)} planned", data["trial_id"])
        planned = (trial.ordinal, trial.arm)
        if planned != (data["ordinal"], data["arm"]):
            return _wrong("row_unplanned", place, f"ordinal, arm {planned}", (data["ordinal"], data["arm"]))
        if (trial.trial_id, attempt) in self.attempts:
            return _wrong("row_duplicated", place, "an attempt that was not started", f"{trial.trial_id}-{attempt}")
        if attempt != FIRST_ATTEMPT:
            return self._check_replacement(trial, attempt, place) or self._check_overlap(place)
        due = self._due(trial.arm)
        if trial.ordinal != due:
            return _wrong("row_order", place, f"trial {due:06d} next of arm {trial.arm}", trial.trial_id)
        if trial.ordinal < self.newest:
            return _wrong("row_order", place, f"a trial behind {self.newest:06d} in this run", trial.trial_id)
        return self._check_overlap(place)

    def _check_overlap(self, place: str) -> Finding | None:
        """One robot, one worker: a run has no more attempts in hand at a time than it says that it has workers."""
        if self.workers is None or len(self.in_hand) < self.workers:
            return None
        others = ", ".join(f"{trial_id}-{number}" for trial_id, number in sorted(self.in_hand))
        return _wrong("attempts_overlap", place, f"{self.workers} at a time, as the run says", f"beside {others}")

    def _due(self, arm: str) -> int:
        """Return which trial of an arm starts next. Arms that come by themselves have runs of their own."""
        trials = self.plan.trials
        rest = range(self.next_ordinal.get(arm, 0), len(trials))
        return next((ordinal for ordinal in rest if trials[ordinal].arm == arm), len(trials))

    def _check_disclosure(self, kind: str, data: Mapping[str, Any], place: str) -> Finding | None:
        """Anything that was started may be told of at any time; a change of practice may also lie ahead."""
        shape = leak_misfit(data) if kind == LEAK else cutover_misfit(data)
        if shape is not None:
            return _wrong("schema_mismatch", f"{place} /data{shape[0]}", *shape[1:])
        if self.run_id is None:
            return _wrong("journal_broken", place, "run.open before it", kind)
        key = parse_attempt(data["attempt" if kind == LEAK else "first_attempt"])
        assert key is not None
        if self.plan.planned(key[0]) is None:
            return _wrong("row_unplanned", place, f"a trial of the {len(self.plan.trials)} planned", key[0])
        if kind == LEAK and key not in self.attempts:
            return _wrong("row_unplanned", place, "an attempt that was started", data["attempt"])
        return None

    @property
    def stopped(self) -> bool:
        """Whether the registered stopping rule was invoked: nothing is started any more."""
        return any(document["kind"] == "stop" for document in self.amendments.documents)

    def compromised(self, trial_id: str) -> bool:
        """Return whether a leak was disclosed on any attempt of a trial: it is kept, and never run again."""
        return any(leak.attempt[0] == trial_id for leak in self.leaks)

    def _check_replacement(self, trial: Planned, attempt: int, place: str) -> Finding | None:
        if self.compromised(trial.trial_id):
            return _wrong("attempt_repeated", place, "no retry after a disclosed leak", f"attempt {attempt}")
        before = self.attempts.get((trial.trial_id, attempt - 1))
        if before is None or before.end is None:
            return _wrong("attempt_repeated", place, f"attempt {attempt - 1} ended before", f"attempt {attempt}")
        if before.end.termination != "interrupted":
            how = f"attempt {attempt} after {before.end.termination!r}"
            return _wrong("attempt_repeated", place, "one attempt: only an interrupted one may be replaced", how)
        if attempt - FIRST_ATTEMPT > self.plan.replacements:
            return _wrong("attempt_repeated", place, f"{self.plan.replacements} replacements", f"attempt {attempt}")
        return None

    def _check_end(self, data: Mapping[str, Any], place: str) -> Finding | None:
        if (shape := _misfit(data, _END)) is not None:
            return _wrong("schema_mismatch", f"{place} /data", *shape)
        if _HEX.fullmatch(data["row_sha256"]) is None:
            return _wrong("schema_mismatch", f"{place} /data/row_sha256", "64 hex digits", data["row_sha256"])
        key = (data["trial_id"], data["attempt"])
        started = self.attempts.get(key)
        if started is None:
            return _wrong("end_without_start", place, "attempt.start before it", f"{key[0]}-{key[1]}")
        if started.end is not None:
            return _wrong("row_duplicated", place, "one attempt.end per attempt", f"{key[0]}-{key[1]}")
        paths = set()
        for number, artifact in enumerate(data["artifacts"]):
            if (wrong := _check_artifact(artifact, started.folder, f"{place} /data/artifacts/{number}")) is not None:
                return wrong
            paths.add(artifact["path"])
        if len(paths) != len(data["artifacts"]):
            return _wrong("schema_mismatch", f"{place} /data/artifacts", "every path once", "a path twice")
        return None

    def _check_inputs(self, data: Mapping[str, Any], place: str) -> Finding | None:
        digests = data.get("digests")
        if not isinstance(digests, dict):
            return _wrong("schema_mismatch", f"{place} /data/digests", "an object", digests)
        if self.inputs is not None and digests != self.inputs:
            changed = sorted(name for name in {*digests, *self.inputs} if digests.get(name) != self.inputs.get(name))
            return _wrong("inputs_changed_during_run", place, "the digests of the first check", f"changed: {changed}")
        return None

    def _check_clock(self, record: Record, place: str) -> list[Finding]:
        """The monotonic clock may start anew only where the process did."""
        anew = record["type"] in ("run.open", "run.resume", "recovered", *BESIDE)
        before, self.mono_us = self.mono_us, record["mono_us"]
        if before is None or anew or record["mono_us"] >= before:
            return []
        return [_wrong("clock_reversed", f"{place} /mono_us", f"at least {before}", record["mono_us"])]

    def _apply(self, record: Record, kind: str, data: Mapping[str, Any]) -> None:
        if kind in ("run.open", "run.resume"):
            self.run_id = self.run_id or data["run_id"]
            self.running, self.newest = True, -1
            self.workers = data["workers"] if type(data.get("workers")) is int and "executor" in data else None
            self.in_hand.clear()
        elif kind == "attempt.start":
            self._apply_start(record, data)
        elif kind == "attempt.end":
            key = (data["trial_id"], data["attempt"])
            self.attempts[key].end = Ended.of(data)
            self.in_hand.discard(key)
            self.last_end = record["seq"]
        elif kind == "inputs.checked":
            self.inputs = self.inputs if self.inputs is not None else data["digests"]
        elif kind == "run.close":
            self.running = False
            self.close = Close(record["seq"], data["complete"], data["reason"], self.ended())
        elif kind == LEAK:
            self.leaks.append(leak_of(data))
        elif kind == CUTOVER:
            self.cutovers.append(cutover_of(data))
        elif kind == AMENDMENT:
            self.amendments.documents.append(data["amendment"])

    def _apply_start(self, record: Record, data: Mapping[str, Any]) -> None:
        trial, attempt = self.plan.trials[data["ordinal"]], data["attempt"]
        key = (trial.trial_id, attempt)
        self.attempts[key] = Attempt(trial, attempt)
        self.in_hand.add(key)
        self.last_attempt[trial.trial_id] = max(attempt, self.last_attempt.get(trial.trial_id, -1))
        self.next_ordinal[trial.arm] = max(self.next_ordinal.get(trial.arm, 0), trial.ordinal + 1)
        if attempt == FIRST_ATTEMPT:
            self.newest = max(self.newest, trial.ordinal)
        if self.first_start is None:
            self.first_start = record["seq"]
        self.first_start_utc = self.first_start_utc or record["utc"]

    def ended(self) -> tuple[Attempt, ...]:
        """Return the attempts that have ended, in schedule order."""
        done = [attempt for attempt in self.attempts.values() if attempt.end is not None]
        return tuple(sorted(done, key=lambda attempt: (attempt.trial.ordinal, attempt.attempt)))

    def open_attempts(self) -> tuple[Attempt, ...]:
        """Return the attempts that were started and have not ended, in schedule order."""
        left = [attempt for attempt in self.attempts.values() if attempt.end is None]
        return tuple(sorted(left, key=lambda attempt: (attempt.trial.ordinal, attempt.attempt)))

    def unstarted(self) -> tuple[Planned, ...]:
        """Return the planned trials that were never started, in schedule order."""
        return tuple(trial for trial in self.plan.trials if trial.trial_id not in self.last_attempt)

    def coverage(self) -> list[Finding]:
        """Return what is missing from a whole campaign: trials, ends, a close that says complete."""
        found = [
            _wrong("coverage_incomplete", attempt.folder, "an end", "a start only; resume the run")
            for attempt in self.open_attempts()
        ]
        missing = self.unstarted()
        if missing and not self.stopped:
            count = len(self.plan.trials)
            text = f"{count - len(missing)}, the first missing is {missing[0].trial_id}"
            found.append(_wrong("coverage_incomplete", "trials", f"{count} planned trials attempted", text))
        if self.close is None or self.running:
            found.append(_wrong("coverage_incomplete", "run.close", "a closed run", "a run that never ended"))
        elif not self.close.complete:
            text = f"closed as incomplete: {self.close.reason or 'no reason given'}"
            found.append(_wrong("coverage_incomplete", f"line {self.close.seq}", "a complete run", text))
        return found


def _check_closing(data: Mapping[str, Any], place: str) -> Finding | None:
    reason = data.get("reason", 0)
    if type(data.get("complete")) is not bool or not (reason is None or isinstance(reason, str)):
        return _wrong("schema_mismatch", f"{place} /data", "complete: bool, reason: text or null", data)
    return None


def _check_artifact(artifact: Any, folder: str, place: str) -> Finding | None:
    if not isinstance(artifact, dict):
        return _wrong("schema_mismatch", place, "an object", type(artifact).__name__)
    if (shape := _misfit(artifact, _ARTIFACT)) is not None:
        return _wrong("schema_mismatch", place, *shape)
    head, _, name = artifact["path"].rpartition("/")
    if head != folder or not is_plain_name(name) or name == ROW:
        return _wrong("path_unsafe", f"{place}/path", f"a plain name in {folder}", artifact["path"])
    if _HEX.fullmatch(artifact["sha256"]) is None or artifact["size"] < 0:
        return _wrong("schema_mismatch", place, "64 hex digits and a size from 0", artifact)
    return None


def _misfit(data: Mapping[str, Any], shape: Mapping[str, type]) -> tuple[str, str] | None:
    """Return (expected, found) when a member of ``shape`` is missing or of another type; a bool is no integer."""
    for name, kind in shape.items():
        if type(data.get(name)) is not kind:
            return f"{name} as {kind.__name__}", f"{type(data.get(name)).__name__}" if name in data else "none"
    return None


def _wrong(code: str, pointer: str, expected: object, found: object) -> Finding:
    return finding(code, JOURNAL, pointer=pointer, expected=expected, found=str(found)[:200])
