"""When a run stops instead of printing 0 %: the first attempts of an arm all fail in the same way before any control.

Such an arm was never tested: it, its server or its adapter is set up wrongly. Source: policy contract, section 3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from trialplate.errors import CONTRACT_FAULTS, POLICY_FAULTS
from trialplate.record.episode import Row

FIRST_TRIALS = 3
"""How many trials must begin with the same fault."""


class _Early(Protocol):
    """What the rule looks at in one attempt."""

    @property
    def fault_code(self) -> str | None: ...

    @property
    def control_steps(self) -> int: ...


def systematic_error(rows: Iterable[Row], *, planned: Collection[int] = ()) -> str | None:
    """Return the fault code with which the first three trials of an arm all ended before any control, else None.

    ``rows``: ended attempts of one arm that is under test; the last attempt of a trial counts. ``planned``: the
    ordinals of all its trials; while a run is going on, give them, so that nothing is said before the first three
    are all in. A fault of the harness is never systematic: it says nothing about the arm.
    """
    last: dict[int, Row] = {}
    for row in rows:
        if row.ordinal not in last or row.attempt > last[row.ordinal].attempt:
            last[row.ordinal] = row
    first = sorted(planned or last)[:FIRST_TRIALS]
    return same_early_fault([last[ordinal] for ordinal in first if ordinal in last])


def same_early_fault(first: Sequence[_Early]) -> str | None:
    """Return the one fault of the arm, or of its messages, that all of the first three attempts ended with."""
    codes = {attempt.fault_code for attempt in first}
    if len(first) != FIRST_TRIALS or len(codes) != 1 or any(attempt.control_steps for attempt in first):
        return None
    code = codes.pop()
    return code if code in POLICY_FAULTS or code in CONTRACT_FAULTS else None
