"""The wall clock against the monotonic one: order is that of the records, durations are monotonic, steps are told.

Source: evidence specification, section 13, row 54.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from trialplate.store.chain import Record, Stamp

CLOCK_STEP = "clock_step"
CLOCK_SYNC = "clock_sync"
"""Event: how far the clock of an arm may be from ours, where a protocol asks."""
TOLERANCE_US = 1_000_000
"""What the two clocks may differ by without a word, and one part in a thousand of the time that passed."""
_SLEWED = 1000


def clock_step(before: Record, now: Stamp) -> Mapping[str, Any] | None:
    """Return what an event ``clock_step`` says when the wall clock was set since a record of this process, else None.

    ``step_us``: how far it was set, forwards above 0. A machine that slept looks the same: its monotonic clock stood.
    """
    passed_us = now.mono_us - before["mono_us"]
    step_us = (_moment(now.utc) - _moment(before["utc"])) // timedelta(microseconds=1) - passed_us
    if abs(step_us) <= TOLERANCE_US + passed_us // _SLEWED:
        return None
    return {"step_us": step_us, "utc_before": before["utc"], "utc_after": now.utc, "seq_before": before["seq"]}


def _moment(utc: str) -> datetime:
    return datetime.fromisoformat(utc)
