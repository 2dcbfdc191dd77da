"""How an arm went about its attempts: calls and rows summed, what was metered, and what is odd about its actions.

Source: policy contract, section 8. Pure: outcomes in, frozen data out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from trialplate.errors import EvidenceError
from trialplate.record import USAGE_MEMBERS, Conduct, Outcome
from trialplate.scoring.analysis import ActionWarning, ArmConduct, Metered
from trialplate.spec.channels import ActionSpec

NOTHING_ASKED = "not_applicable"
NORMALISED_REACH = 3.0
PHYSICAL_WIDTH = 60.0
_SUMMED = (
    "calls", "calls_executed", "calls_rejected", "short_chunks",
    "rows_proposed", "rows_executed", "rows_dropped", "rows_discarded",
)  # fmt: skip


def arm_conduct(outcomes: Sequence[Outcome], action: ActionSpec | None) -> ArmConduct | None:
    """Return the sums over an arm's attempts, None when any outcome came without its recording.

    ``action``: the action space in which executed values were recorded; without it no range is known. Raises
    EvidenceError when recorded actions do not have its dimension.
    """
    conducts = [outcome.conduct for outcome in outcomes if outcome.conduct is not None]
    if len(conducts) != len(outcomes) or not outcomes:
        return None
    sums = {name: sum(getattr(conduct, name) for conduct in conducts) for name in _SUMMED}
    return ArmConduct(
        **sums,
        control_steps=sum(outcome.control_steps for outcome in outcomes),
        terminations=dict(sorted(Counter(outcome.termination for outcome in outcomes).items())),
        usage={member: total_usage(conducts, member) for member in USAGE_MEMBERS},
        echo=tuple(sorted({conduct.echo for conduct in conducts if conduct.echo is not None})),
        compromised=sum(outcome.blinding == "compromised" for outcome in outcomes),
        warnings=action_warnings(conducts, action),
    )


def total_usage(conducts: Sequence[Conduct], member: str) -> Metered:
    """Return the sum of one usage member over attempts; one unknown part makes the whole unknown.

    An attempt in which nothing was asked (``not_applicable``) has no part in it.
    """
    parts: list[int | float] = []
    for conduct in conducts:
        if conduct.usage is None and conduct.usage_reason == NOTHING_ASKED:
            continue
        part = conduct.usage.get(member) if conduct.usage is not None else None
        if part is None:
            reason = "not_reported" if conduct.usage is not None else conduct.usage_reason or "not_metered"
            return Metered(value=None, reason=reason)
        parts.append(part)
    if not parts:
        return Metered(value=None, reason=NOTHING_ASKED)
    whole = all(isinstance(part, int) for part in parts)
    return Metered(value=sum(parts) if whole else math.fsum(parts), reason=None)  # in whatever order they came


def action_warnings(conducts: Sequence[Conduct], action: ActionSpec | None) -> tuple[ActionWarning, ...]:
    """Return what is odd about each scalar of the executed actions of a whole run; one executed row says nothing."""
    ranges = [
        (conduct.action_low, conduct.action_high)
        for conduct in conducts
        if conduct.action_low is not None and conduct.action_high is not None
    ]
    if sum(conduct.rows_executed for conduct in conducts) < 2 or not ranges:
        return ()
    dims = {len(low) for low, _ in ranges} | ({action.dim} if action is not None else set())
    if len(dims) != 1:
        raise EvidenceError(f"recorded actions have {sorted(dims)} numbers a row, expected one dimension in a run")
    found = []
    for index in range(dims.pop()):
        low, high = min(lows[index] for lows, _ in ranges), max(highs[index] for _, highs in ranges)
        scalar = action.scalar_name(index) if action is not None else f"[{index}]"
        if low == high:
            found.append(ActionWarning(code="constant_dimension", scalar=scalar, low=low, high=high))
        if action is not None and _looks_normalised(low, high, action, index):
            found.append(ActionWarning(code="looks_normalised", scalar=scalar, low=low, high=high))
    return tuple(found)


def nearest_rank(values: Sequence[int], q: float) -> int | None:
    """Return the nearest-rank quantile, which is one of the values; None where there is none."""
    return sorted(values)[max(1, math.ceil(q * len(values))) - 1] if values else None


def _looks_normalised(low: float, high: float, action: ActionSpec, index: int) -> bool:
    width = action.high[index] - action.low[index]
    return math.isfinite(width) and width > PHYSICAL_WIDTH and max(abs(low), abs(high)) <= NORMALISED_REACH
