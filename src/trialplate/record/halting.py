"""When a run stops instead of printing 0 %: the first attempts of an arm all fail in the same way before any control.

Such an arm was never tested: it, its server or its adapter is set up wrongly. Source: policy contract, section 3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from trialplate.errors import CONTRACT_FAULTS, POLICY_FAULTS
from trialplate.record.episode import Row

FIRST_TRIALS = 3
"""How many trials must begin with the same fault."""


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
    return same_early_fault(
        [(last[ordinal].fault_code, last[ordinal].control_steps) for ordinal in first if ordinal in last]
    )


def same_early_fault(ends: Sequence[tuple[str | None, int]]) -> str | None:
    """Return the fault that all of the first three ends of an arm are, None when they are not one such fault.

    ``ends``: fault code (None: no fault) and executed control steps of each trial, in schedule order. Only the first
    three are looked at.
    """
    first = ends[:FIRST_TRIALS]
    codes = {code for code, _ in first}
    if len(first) != FIRST_TRIALS or len(codes) != 1 or any(steps for _, steps in first):
        return None
    code = codes.pop()
    return code if code in POLICY_FAULTS or code in CONTRACT_FAULTS else None
