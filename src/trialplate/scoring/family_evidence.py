"""From outcomes to family totals of every compared arm, and through one index matrix to the bounds of every pair.

Source: statistics specification, section 6. Costs are billionths of the unit in which a policy's cost is metered,
times millionths of a second of control: whole numbers, so that sums depend on no order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from trialplate import stats
from trialplate.record import Outcome, Status
from trialplate.scoring.comparisons import FamilyEvidence, FamilyRatio, Resampling
from trialplate.scoring.conduct import NOTHING_ASKED
from trialplate.scoring.pairs import COUNTED
from trialplate.spec.plan import AnalysisPlan
from trialplate.stats.family_totals import Measure, Whole

Pair = tuple[str, str]
EPISODES, SUCCESSES, COST, TIME = range(4)


@dataclass(frozen=True, slots=True)
class ArmTotals:
    """Whole totals (units, arms, 4) of the compared arms: counted episodes, passed, cost, time.

    Cost and time are those of every initiated episode, counted or not. ``unknown``: (arm index, measure) of which
    one episode is unknown; its cells are no totals.
    """

    units: tuple[str, ...]
    arms: tuple[str, ...]
    table: Whole
    unknown: frozenset[tuple[int, Measure]]


def arm_totals(
    outcomes: Mapping[str, Sequence[Outcome]], *, plan: AnalysisPlan, control_hz: float | None
) -> ArmTotals:
    """Add up the outcomes of each arm by unit, units in order of the UTF-8 bytes of their names."""
    arms = tuple(outcomes)
    units = sorted({unit_of(o, plan) for rows in outcomes.values() for o in rows}, key=str.encode)
    place = {unit: at for at, unit in enumerate(units)}
    cells = [[[0, 0, 0, 0] for _ in arms] for _ in units]
    unknown: set[tuple[int, Measure]] = set()
    for at, arm in enumerate(arms):
        for outcome in outcomes[arm]:
            cell = cells[place[unit_of(outcome, plan)]][at]
            cell[EPISODES] += outcome.status in COUNTED[plan.denominator]
            cell[SUCCESSES] += outcome.status is Status.PASS
            spent, took = cost_n(outcome), control_us(outcome, control_hz)
            if spent is None:
                unknown.add((at, "cost"))
            if took is None:
                unknown.add((at, "time"))
            cell[COST] += spent or 0
            cell[TIME] += took or 0
    table = np.array(cells, dtype=np.int64).reshape(len(units), len(arms), 4)
    return ArmTotals(tuple(units), arms, table, frozenset(unknown))


def unit_of(outcome: Outcome, plan: AnalysisPlan) -> str:
    """Return the name of what is drawn: the family, or the trial that the arms have in common."""
    return outcome.family if plan.unit == "family" else f"{outcome.scenario} {outcome.repeat}"


def cost_n(outcome: Outcome) -> int | None:
    """Return the metered cost of an episode in billionths, 0 where nothing was asked, None where it is unknown."""
    if outcome.conduct is None:
        return None
    usage = outcome.conduct.usage
    if usage is None:
        return 0 if outcome.conduct.usage_reason == NOTHING_ASKED else None
    cost = usage.get("cost")
    return None if cost is None else round(Fraction(repr(cost)) * 10**9)


def control_us(outcome: Outcome, control_hz: float | None) -> int | None:
    """Return how long the world ran in an episode; None without a recording, which alone tells.

    An episode that was excluded before its first control step took none, recorded or not.
    """
    if outcome.status is Status.EXCLUDED and not outcome.control_steps:
        return 0
    if control_hz is None or outcome.trace_content_sha256 is None:
        return None
    return round(outcome.control_steps * 10**6 / Fraction(repr(control_hz)))


def family_evidence(
    totals: ArmTotals, pairs: Sequence[Pair], plan: AnalysisPlan
) -> tuple[dict[Pair, FamilyEvidence], Resampling | None]:
    """Return the evidence on every pair, from one index matrix, and how it was drawn; None without a unit.

    Nothing is adjusted yet: ``adjusted_p`` is null.
    """
    if not totals.units or not pairs:
        return {}, None
    number = {arm: at for at, arm in enumerate(totals.arms)}
    wanted = list(dict.fromkeys((number[x], number[y]) for a, b in pairs for x, y in ((a, b), (b, a))))
    found = stats.family_bootstrap(
        totals.table,
        seed=plan.seed,
        draws=plan.draws,
        confidence=plan.pair_confidence,
        quantile_rule=plan.quantile_rule,
        pairs=wanted,
        unknown=totals.unknown,
    )
    by_pair = {(pair.a, pair.b): pair for pair in found.pairs}
    stream = stats.index_stream_digest(plan.seed, plan.draws, families=len(totals.units))
    drawn = Resampling(
        unit=plan.unit,
        families=found.families,
        draws=found.draws,
        seed=found.seed,
        quantile_rule=found.quantile_rule,
        multiplicity=plan.multiplicity,
        comparisons=plan.shares,
        confidence=found.confidence,
        first_raw=stream.first_raw,
        first_rows=stream.first_rows,
        sha256_int64_le=stream.sha256_int64_le,
    )
    tables = {(a, b): totals.table[:, (number[a], number[b]), :] for a, b in pairs}
    leads = [(table[:, 0, SUCCESSES] - table[:, 1, SUCCESSES]).tolist() for table in tables.values()]
    tests = stats.sign_flip_tests(leads, seed=plan.seed)
    evidence = {
        (a, b): _evidence(table, by_pair[number[a], number[b]], by_pair[number[b], number[a]], test)
        for ((a, b), table), test in zip(tables.items(), tests, strict=True)
    }
    return evidence, drawn


def without_estimate(reason: str) -> FamilyEvidence:
    """Return the evidence on a pair of which nothing can be said."""
    return FamilyEvidence(
        families=0, difference=None, low=None, high=None, one_sided_low=None, one_sided_high=None, order_low=None,
        order_high=None, linear_low=None, linear_high=None, t_low=None, t_high=None, b_low=None, b_t_low=None,
        p_value=None, adjusted_p=None, equal_sizes=False, cost=_no_ratio(reason), time=_no_ratio(reason),
        reason=reason, t_reason=reason,
    )  # fmt: skip


def adjusted(evidence: FamilyEvidence, p_value: float | None) -> FamilyEvidence:
    """Return the evidence with its p-value over all comparisons."""
    return replace(evidence, adjusted_p=p_value if evidence.p_value is not None else None)


def _evidence(
    table: Whole, there: stats.PairBootstrap, back: stats.PairBootstrap, test: stats.PValue
) -> FamilyEvidence:
    """``table``: (units, 2, 4), A first; ``back``: the same pair, B minus A."""
    drawn, t = there.difference, there.difference_t
    return FamilyEvidence(
        families=int((table[:, :, EPISODES] > 0).all(axis=1).sum()),
        difference=drawn.estimate,
        low=drawn.low,
        high=drawn.high,
        one_sided_low=drawn.one_sided_low,
        one_sided_high=drawn.one_sided_high,
        order_low=drawn.order_low,
        order_high=drawn.order_high,
        linear_low=drawn.linear_low,
        linear_high=drawn.linear_high,
        t_low=t.low,
        t_high=t.high,
        b_low=back.difference.low,
        b_t_low=back.difference_t.low,
        p_value=test.p_value,
        adjusted_p=None,
        equal_sizes=bool((table[:, :, EPISODES] == table[0, 0, EPISODES]).all()),
        cost=_ratio(there.cost_ratio, there.cost_ratio_t),
        time=_ratio(there.time_ratio, there.time_ratio_t),
        reason=drawn.reason,
        t_reason=t.reason,
    )


def _ratio(drawn: stats.BootstrapInterval, t: stats.LogRatioInterval) -> FamilyRatio:
    return FamilyRatio(
        ratio=drawn.estimate,
        low=drawn.low,
        high=drawn.high,
        order_low=drawn.order_low,
        order_high=drawn.order_high,
        linear_low=drawn.linear_low,
        linear_high=drawn.linear_high,
        t_low=t.low,
        t_high=t.high,
        undefined_draws=0 if drawn.reason == "unknown_total" else drawn.undefined_draws,
        reason=drawn.reason,
        t_reason=t.reason,
    )


def _no_ratio(reason: str) -> FamilyRatio:
    return FamilyRatio(
        ratio=None, low=None, high=None, order_low=None, order_high=None, linear_low=None, linear_high=None,
        t_low=None, t_high=None, undefined_draws=0, reason=reason, t_reason=reason,
    )  # fmt: skip
