"""Names inside a campaign folder, and what the lock has planned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trialplate.canonical import read_stored, sha256_hex
from trialplate.errors import CanonicalError
from trialplate.store.amendments import AMENDMENTS
from trialplate.store.chain import HEAD, JOURNAL, PARTIAL
from trialplate.store.findings import EvidenceProblem, malformed, problem

LOCK = "lock.json"
ROWS = "rows.jsonl"
COMPLETION = "completion.json"
EPISODES = "episodes"
ROW = "row.json"
TRACE = "trace.parquet"
EXCHANGE = "exchange.parquet"
LEFTOVER = ".partial"
"""Ending of what an interrupted attempt had written; such files are kept and listed, never read."""

DERIVED: Mapping[str, str] = {
    "results.jsonl": "grades_not_reproduced",
    "summary.json": "accounting_not_reproduced",
    "analysis.json": "analysis_not_reproduced",
    "claims.json": "claims_not_reproduced",
    "report.html": "claims_not_reproduced",
}
"""Files that a layer above computes from the evidence, and the finding when they are not what it computes."""

TOP_FILES = frozenset({LOCK, JOURNAL, HEAD, PARTIAL, ROWS, COMPLETION, *DERIVED})
TOP_FOLDERS = frozenset({EPISODES, AMENDMENTS})
FIRST_ATTEMPT = 0
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,126}")
_PLANNED = {"trial_id": str, "ordinal": int, "arm": str, "scenario": str, "repeat": int}


@dataclass(frozen=True, slots=True)
class Planned:
    """One trial of the schedule. ``ordinal`` is dense from 0, ``trial_id`` its six-digit text."""

    trial_id: str
    ordinal: int
    arm: str
    scenario: str
    repeat: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A lock, and what the store reads in it: the schedule, replacements of interruptions, whether it may stop."""

    document: Mapping[str, Any]
    sha256: str
    trials: tuple[Planned, ...]
    replacements: int

    @property
    def stop_registered(self) -> bool:
        """Whether the protocol registers a rule by which a run may be stopped early."""
        protocol = self.document.get("protocol")
        return isinstance(protocol, dict) and bool(protocol.get("stopping"))

    def planned(self, trial_id: str) -> Planned | None:
        """Return the trial of that id, None when it is not planned."""
        number = int(trial_id) if re.fullmatch(r"[0-9]{6,9}", trial_id) else -1
        trial = self.trials[number] if 0 <= number < len(self.trials) else None
        return trial if trial is not None and trial.trial_id == trial_id else None


def read_plan(lock_bytes: bytes) -> Plan:
    """Read a stored lock. Raises EvidenceError ``malformed`` or ``schema_mismatch`` with the place."""
    try:
        document = read_stored(lock_bytes)
    except CanonicalError as error:
        raise malformed(LOCK, error) from None
    if not isinstance(document, dict):
        raise problem("schema_mismatch", LOCK, expected="an object", found=type(document).__name__)
    schema = document.get("schema")
    if schema != "trialplate.lock/1":
        known = isinstance(schema, str) and schema.startswith("trialplate.lock/")
        code = "version_unsupported" if known else "schema_mismatch"
        raise problem(code, LOCK, pointer="/schema", expected="trialplate.lock/1", found=schema)
    schedule = document.get("schedule")
    if not isinstance(schedule, list):
        raise problem("schema_mismatch", LOCK, pointer="/schedule", expected="a list", found=type(schedule).__name__)
    trials = tuple(_trial(entry, ordinal) for ordinal, entry in enumerate(schedule))
    return Plan(document, sha256_hex(lock_bytes), trials, _replacements(document))


def _trial(entry: Any, ordinal: int) -> Planned:
    pointer = f"/schedule/{ordinal}"
    if not isinstance(entry, dict) or {key: type(value) for key, value in entry.items()} != _PLANNED:
        raise _schedule_problem(pointer, f"exactly {', '.join(_PLANNED)}", str(entry)[:120])
    if entry["ordinal"] != ordinal:
        raise _schedule_problem(f"{pointer}/ordinal", str(ordinal), str(entry["ordinal"]))
    if entry["trial_id"] != f"{ordinal:06d}":
        raise _schedule_problem(f"{pointer}/trial_id", f"{ordinal:06d}", entry["trial_id"])
    return Planned(**entry)


def _schedule_problem(pointer: str, expected: str, found: str) -> EvidenceProblem:
    return problem("schema_mismatch", LOCK, pointer=pointer, expected=expected, found=found)


def _replacements(document: Mapping[str, Any]) -> int:
    protocol = document.get("protocol")
    rule = protocol.get("schedule") if isinstance(protocol, dict) else None
    if not isinstance(rule, dict) or rule.get("interrupted") != "replace":
        return 0
    allowed = rule.get("max_replacements", 1)
    if type(allowed) is not int or not 1 <= allowed <= 1000:
        pointer = "/protocol/schedule/max_replacements"
        raise _schedule_problem(pointer, "an integer from 1 to 1000", str(allowed))
    return allowed


def episode_folder(trial_id: str, attempt: int) -> str:
    """Return the folder of one attempt, relative to the campaign, with ``/``."""
    return f"{EPISODES}/{trial_id}-{attempt}"


def trace_path(trial_id: str, attempt: int) -> str:
    """Return where the trace of an attempt lies, relative to the campaign."""
    return f"{episode_folder(trial_id, attempt)}/{TRACE}"


def exchange_path(trial_id: str, attempt: int) -> str:
    """Return where the exchanged messages of an attempt lie, relative to the campaign."""
    return f"{episode_folder(trial_id, attempt)}/{EXCHANGE}"


def is_plain_name(name: str) -> bool:
    """Return whether a file name is safe everywhere: ASCII, no separators, no dot at either end."""
    return _SEGMENT.fullmatch(name) is not None and not name.endswith(".")
