"""Two arms on the same scenarios: which trials pair up, and how the pairs ended.

Source: statistics specification, sections 2, 3 and 7. The registered denominator says which trials count, here as in
the rate of one arm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trialplate import stats
from trialplate.errors import CONNECTION_FAULTS, CONTRACT_FAULTS, POLICY_FAULTS
from trialplate.record import Outcome, Status
from trialplate.spec.plan import DenominatorName

Key = tuple[str, int]
COUNTED: Mapping[DenominatorName, frozenset[Status]] = {
    "initiated": frozenset(Status),
    "measured": frozenset({Status.PASS, Status.FAIL, Status.ERROR}),
    "valid": frozenset({Status.PASS, Status.FAIL}),
}
"""Denominator -> the outcomes that count in it; whichever of them is no PASS counts as not passed."""
CARRIED_OUT = frozenset({Status.PASS, Status.FAIL})
OF_AN_ARM = frozenset({*POLICY_FAULTS, *CONTRACT_FAULTS, *CONNECTION_FAULTS})
"""Faults that come from what an arm did: an exclusion by one of them is no rule on the trial alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCounts:
    """Arm ``a`` of one campaign against arm ``b`` of another, over equal (scenario, repeat): counts, no estimate.

    ``pairs``: counted in both and begun in the same state = ``both`` + ``only_a`` + ``only_b`` passed + ``neither``.
    ``other_start``: counted in both, and their worlds began differently. ``unmatched``: not counted in both.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTable:
    """How the pairs of two arms of one campaign ended; ``a_errored``, ``b_errored``: pairs with that side errored.

    ``unmatched``: trials that count for one arm alone, or for neither; without the ``excluded``, which were excluded
    for both alike, before anything was done in them.
    """

    pairs: int
    both: int
    only_a: int
    only_b: int
    neither: int
    unmatched: int
    excluded: int
    unequal_starts: int
    errored: int
    a_errored: int
    b_errored: int
    reversal: bool | None

    def difference_had_errors(self, *, a_passed: bool) -> float | None:
        """Return the difference had every errored side of one arm passed, and every one of the other not."""
        if not self.pairs:
            return None
        shift = self.a_errored if a_passed else -self.b_errored
        return (self.only_a - self.only_b + shift) / self.pairs


def count_pairs(
    outcomes_a: Sequence[Outcome], outcomes_b: Sequence[Outcome], *, a: str, b: str, denominator: DenominatorName
) -> PairedCounts:
    """Return how the outcomes of two arms pair up. Each side has every (scenario, repeat) at most once."""
    counted_a, counted_b = _counted(outcomes_a, denominator), _counted(outcomes_b, denominator)
    shared = counted_a.keys() & counted_b.keys()
    begun = [key for key in shared if _same_start(counted_a[key], counted_b[key])]
    won = [(_passed(counted_a[key]), _passed(counted_b[key])) for key in begun]
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


def pair_table(
    outcomes_a: Sequence[Outcome], outcomes_b: Sequence[Outcome], *, denominator: DenominatorName
) -> PairTable:
    """Return the paired table of two arms over equal (scenario, repeat)."""
    counted_a, counted_b = _counted(outcomes_a, denominator), _counted(outcomes_b, denominator)
    keys = sorted(counted_a.keys() & counted_b.keys())
    won = [(_passed(counted_a[key]), _passed(counted_b[key])) for key in keys]
    errors = [tuple(side[key].status not in CARRIED_OUT for side in (counted_a, counted_b)) for key in keys]
    every = {(o.scenario, o.repeat) for o in (*outcomes_a, *outcomes_b)}
    excluded = _excluded(outcomes_a).items() & _excluded(outcomes_b).items()
    alike = {key for key, _ in excluded} - {*keys}
    return PairTable(
        pairs=len(keys),
        both=won.count((True, True)),
        only_a=won.count((True, False)),
        only_b=won.count((False, True)),
        neither=won.count((False, False)),
        unmatched=len(every) - len(keys) - len(alike),
        excluded=len(alike),
        unequal_starts=sum(not _same_start(counted_a[key], counted_b[key]) for key in keys),
        errored=sum(map(any, errors)),
        a_errored=sum(side for side, _ in errors),
        b_errored=sum(side for _, side in errors),
        reversal=_reversal(keys, counted_a, counted_b) if keys else None,
    )


def _counted(outcomes: Sequence[Outcome], denominator: DenominatorName) -> dict[Key, Outcome]:
    return {(o.scenario, o.repeat): o for o in outcomes if o.status in COUNTED[denominator]}


def _excluded(outcomes: Sequence[Outcome]) -> dict[Key, str]:
    """Return why a trial was excluded, of each in which no control step was made and no arm did what excluded it."""
    return {
        (o.scenario, o.repeat): o.reason
        for o in outcomes
        if o.status is Status.EXCLUDED and not o.control_steps and o.reason not in OF_AN_ARM
    }


def _passed(outcome: Outcome) -> bool:
    return outcome.status is Status.PASS


def _same_start(one: Outcome, other: Outcome) -> bool:
    """Return whether two episodes began alike. One that errored or is excluded is not held to it: it may be why."""
    if not {one.status, other.status} <= CARRIED_OUT:
        return True
    return one.initial_state_sha256 == other.initial_state_sha256


def _reversal(keys: Sequence[Key], counted_a: dict[Key, Outcome], counted_b: dict[Key, Outcome]) -> bool | None:
    """Return whether pooled and macro rates (over domains, of the paired trials) order the arms differently."""
    tables: dict[str, list[int]] = {}
    for key in keys:
        table = tables.setdefault(counted_a[key].domain, [0, 0, 0])
        table[0] += _passed(counted_a[key])
        table[1] += _passed(counted_b[key])
        table[2] += 1
    k_a, k_b, n = (list(column) for column in zip(*tables.values(), strict=True))
    return stats.simpson_check(k_a, n, k_b=k_b, n_b=n).reversal
