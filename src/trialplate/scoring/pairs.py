"""Two registered arms on the same scenarios: the paired table, its difference and its exact test.

Source: statistics specification, sections 3 and 7. The result is an estimate; only a registered claim is a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trialplate import stats
from trialplate.record import Outcome, Status
from trialplate.scoring.analysis import ArmAnalysis, Comparison

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCounts:
    """Arm ``a`` of one campaign against arm ``b`` of another, over equal (scenario, repeat): counts, no estimate.

    ``pairs``: measured in both and begun in the same state = ``both`` + ``only_a`` + ``only_b`` passed + ``neither``.
    ``other_start``: measured in both, and their worlds began differently. ``unmatched``: not measured in both.
    """

    a: str
    b: str
    pairs: int
    both: int
    only_a: int
    only_b: int
    neither: int
    other_start: int
    unmatched: int


def count_pairs(outcomes_a: Sequence[Outcome], outcomes_b: Sequence[Outcome], *, a: str, b: str) -> PairedCounts:
    """Return how the outcomes of two arms pair up. Each side has every (scenario, repeat) at most once."""
    measured_a, measured_b = _measured(outcomes_a), _measured(outcomes_b)
    shared = measured_a.keys() & measured_b.keys()
    begun = [key for key in shared if _same_start(measured_a[key], measured_b[key])]
    won = [(measured_a[key].status is Status.PASS, measured_b[key].status is Status.PASS) for key in begun]
    every = {(o.scenario, o.repeat) for o in (*outcomes_a, *outcomes_b)}
    return PairedCounts(
        a=a,
        b=b,
        pairs=len(begun),
        both=won.count((True, True)),
        only_a=won.count((True, False)),
        only_b=won.count((False, True)),
        neither=won.count((False, False)),
        other_start=len(shared) - len(begun),
        unmatched=len(every) - len(shared),
    )


def compare(
    outcomes_a: Sequence[Outcome],
    outcomes_b: Sequence[Outcome],
    *,
    analysis_a: ArmAnalysis,
    analysis_b: ArmAnalysis,
    confidence: float,
) -> Comparison:
    """Return the paired comparison of arm A with arm B over equal (scenario, repeat).

    A pair needs PASS or FAIL on both sides; what has no such partner is counted as unmatched. No estimate when
    an artifact is in state ERROR (``artifact_error``), when worlds of a pair did not start in the same state
    (``not_comparable``), or without pairs (``no_pairs``).
    """
    measured_a, measured_b = _measured(outcomes_a), _measured(outcomes_b)
    keys = sorted(measured_a.keys() & measured_b.keys())
    won = [(measured_a[key].status is Status.PASS, measured_b[key].status is Status.PASS) for key in keys]
    only_a, only_b = won.count((True, False)), won.count((False, True))
    unequal = sum(not _same_start(measured_a[key], measured_b[key]) for key in keys)
    every = {(o.scenario, o.repeat) for o in (*outcomes_a, *outcomes_b)}
    reason: str | None = None
    if "ERROR" in (analysis_a.state, analysis_b.state):
        reason = "artifact_error"
    elif unequal:
        reason = "not_comparable"
    elif not keys:
        reason = "no_pairs"
    interval = stats.tango_interval(only_a, only_b, n=len(keys), confidence=confidence) if reason is None else None
    test = stats.mcnemar_exact(only_a, only_b) if reason is None else None
    return Comparison(
        a=analysis_a.arm,
        b=analysis_b.arm,
        pairs=len(keys),
        both=won.count((True, True)),
        only_a=only_a,
        only_b=only_b,
        neither=won.count((False, False)),
        unmatched=len(every) - len(keys),
        unequal_starts=unequal,
        difference=interval.estimate if interval else None,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        p_value=test.p_value if test else None,
        mid_p=test.mid_p if test else None,
        reversal=_reversal(keys, measured_a, measured_b) if reason is None else None,
        reason=reason,
    )


def _measured(outcomes: Sequence[Outcome]) -> dict[Key, Outcome]:
    return {(o.scenario, o.repeat): o for o in outcomes if o.status in (Status.PASS, Status.FAIL)}


def _same_start(one: Outcome, other: Outcome) -> bool:
    return one.initial_state_sha256 == other.initial_state_sha256


def _reversal(keys: Sequence[Key], measured_a: dict[Key, Outcome], measured_b: dict[Key, Outcome]) -> bool | None:
    """Return whether pooled and macro rates (over domains, of the paired trials) order the arms differently."""
    tables: dict[str, list[int]] = {}
    for key in keys:
        table = tables.setdefault(measured_a[key].domain, [0, 0, 0])
        table[0] += measured_a[key].status is Status.PASS
        table[1] += measured_b[key].status is Status.PASS
        table[2] += 1
    k_a, k_b, n = (list(column) for column in zip(*tables.values(), strict=True))
    return stats.simpson_check(k_a, n, k_b=k_b, n_b=n).reversal
