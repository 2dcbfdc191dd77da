"""What an operator had to say about a campaign: identifying context that reached an actor, and changes of practice.

Both are records of the journal, appended beside the run and never to the lock. A leak takes nothing away: the attempt
stays counted, is read as compromised, and is not run again. Source: policy contract, section 7.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LEAK = "leak.disclosed"
CUTOVER = "cutover.recorded"
DISCLOSURES = frozenset({LEAK, CUTOVER})
"""Record types that may also follow a ``run.close``; each is written by a process of its own."""

COMPROMISED = "blinding: compromised"
"""What stands at an attempt that a leak was disclosed on."""

MAX_TEXT = 2000
_ATTEMPT = re.compile(r"([0-9]{6,9})-(0|[1-9][0-9]{0,3})")
_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_LEAK_MEMBERS = frozenset(
    {"attempt", "found_at", "what", "channel", "channel_reason", "found_by", "found_by_reason", "kept"}
)
_CUTOVER_MEMBERS = frozenset({"first_attempt", "change", "at"})
Misfit = tuple[str, str, object]
"""Where it is (JSON pointer below ``data``), what was expected, and what was found."""


@dataclass(frozen=True, slots=True)
class Leak:
    """Identifying context reached the actor of one attempt (trial id, number). Unknown members are None."""

    attempt: tuple[str, int]
    found_at: str
    what: str
    channel: str | None
    found_by: str | None


@dataclass(frozen=True, slots=True)
class Cutover:
    """From this attempt on (trial id, number) the operator works differently; the lock is as it was."""

    first_attempt: tuple[str, int]
    at: str
    change: str


def attempt_id(trial_id: str, attempt: int) -> str:
    """Return the text by which an attempt is named."""
    return f"{trial_id}-{attempt}"


def parse_attempt(text: object) -> tuple[str, int] | None:
    """Return (trial id, number) of ``000003-0``, None when it is no such text."""
    found = _ATTEMPT.fullmatch(text) if isinstance(text, str) else None
    return (found[1], int(found[2])) if found is not None else None


def leak_data(
    key: tuple[str, int], *, found_at: str, what: str, channel: str | None, found_by: str | None
) -> dict[str, Any]:
    """Return the ``data`` of a ``leak.disclosed`` record."""
    unknown = {"channel": channel, "found_by": found_by}
    reasons = {f"{name}_reason": "not_reported" for name, value in unknown.items() if value is None}
    return {"attempt": attempt_id(*key), "found_at": found_at, "what": what, **unknown, **reasons, "kept": True}


def cutover_data(key: tuple[str, int], *, at: str, change: str) -> dict[str, Any]:
    """Return the ``data`` of a ``cutover.recorded`` record."""
    return {"first_attempt": attempt_id(*key), "at": at, "change": change}


def leak_of(data: Mapping[str, Any]) -> Leak:
    """Return a leak from data in which :func:`leak_misfit` finds nothing."""
    key = parse_attempt(data["attempt"])
    assert key is not None
    return Leak(key, data["found_at"], data["what"], data["channel"], data["found_by"])


def cutover_of(data: Mapping[str, Any]) -> Cutover:
    """Return a cutover from data in which :func:`cutover_misfit` finds nothing."""
    key = parse_attempt(data["first_attempt"])
    assert key is not None
    return Cutover(key, data["at"], data["change"])


def leak_misfit(data: Mapping[str, Any]) -> Misfit | None:
    """Return what is wrong with the form of a leak, None when it has one."""
    if extra := sorted(set(data) - _LEAK_MEMBERS):
        return "", f"members of a leak: {', '.join(sorted(_LEAK_MEMBERS))}", extra
    if data.get("kept") is not True:
        return "/kept", "true: an attempt with a leak is kept", data.get("kept")
    for name in ("channel", "found_by"):
        value, reason = data.get(name), data.get(f"{name}_reason")
        if value is None and reason != "not_reported":
            return f"/{name}_reason", "not_reported, where the value is null", reason
        if value is not None and (not _is_text(value) or f"{name}_reason" in data):
            return f"/{name}", "a text without a reason, or null with one", value
    return _misfit(data, attempt="attempt", moment="found_at", text="what")


def cutover_misfit(data: Mapping[str, Any]) -> Misfit | None:
    """Return what is wrong with the form of a cutover, None when it has one."""
    if extra := sorted(set(data) - _CUTOVER_MEMBERS):
        return "", f"members of a cutover: {', '.join(sorted(_CUTOVER_MEMBERS))}", extra
    return _misfit(data, attempt="first_attempt", moment="at", text="change")


def _misfit(data: Mapping[str, Any], *, attempt: str, moment: str, text: str) -> Misfit | None:
    if parse_attempt(data.get(attempt)) is None:
        return f"/{attempt}", "an attempt like 000003-0", data.get(attempt)
    if not isinstance(data.get(moment), str) or _UTC.fullmatch(data[moment]) is None:
        return f"/{moment}", "a time in UTC with microseconds", data.get(moment)
    if not _is_text(data.get(text)):
        return f"/{text}", f"a text of 1 to {MAX_TEXT} characters", data.get(text)
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= MAX_TEXT and bool(value.strip())
