"""The registered comparisons of a campaign: every pair from the same draws, each with its one-word verdict.

Source: statistics specification, sections 2, 7, 9, 10 and 12. A verdict is what the registered superiority rule
says of the numbers. Whether anything may be claimed is another question, which :mod:`trialplate.claims` answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from trialplate import stats
from trialplate.record import Outcome
from trialplate.scoring.analysis import ArmAnalysis
from trialplate.scoring.comparisons import Comparison, Detection, FamilyEvidence, Resampling
from trialplate.scoring.family_evidence import adjusted, arm_totals, family_evidence, without_estimate
from trialplate.scoring.pairs import PairTable, pair_table
from trialplate.scoring.stopping import Stopping
from trialplate.spec.plan import AnalysisPlan
from trialplate.stats.discordant import MAX_TRIALS
from trialplate.stats.gates import MIN_FAMILIES
from trialplate.stats.inputs import as_written

Pair = tuple[str, str]
EXACT_TEST = "exact_test"
"""What fails when single pairs are the unit and the exact McNemar test does not reject."""
STOPPING_RULE = "stopping_rule"
"""What fails when a rule looked at the pair and did not reject in the arm's favour."""


def compare_arms(
    outcomes: Mapping[str, Sequence[Outcome]],
    arms: Mapping[str, ArmAnalysis],
    *,
    plan: AnalysisPlan,
    control_hz: float | None,
    apart: Mapping[Pair, Sequence[str]] | None = None,
    stopping: Stopping | None = None,
) -> tuple[tuple[Comparison, ...], Resampling | None]:
    """Return the registered comparisons in order, and how their units were drawn (None without a comparison).

    ``outcomes``, ``arms``: by name; ``control_hz``: control steps in a second, None where unknown. ``apart``: what
    else the caller knows to differ between the arms of a pair, which makes it incomparable. ``stopping``: what the
    registered rule said, None without one.
    """
    pairs = plan.comparisons
    if not pairs:
        return (), None
    compared = dict.fromkeys(name for pair in pairs for name in pair)
    totals = arm_totals({name: outcomes[name] for name in compared}, plan=plan, control_hz=control_hz)
    evidence, drawn = family_evidence(totals, pairs, plan)
    tables = {(a, b): pair_table(outcomes[a], outcomes[b], denominator=plan.denominator) for a, b in pairs}
    known = apart or {}
    reasons = {(a, b): _reason(arms[a], arms[b], tables[a, b], known.get((a, b), ())) for a, b in pairs}
    made = [_estimate(pair, tables[pair], evidence.get(pair), reasons[pair], plan) for pair in pairs]
    corrected = _corrected(made, plan)
    decided = (_decided(one, arms[one.a], arms[one.b], plan, stopping) for one in corrected)
    return tuple(replace(one, differs=(*known.get((one.a, one.b), ()), *one.differs)) for one in decided), drawn


def superiority(
    comparison: Comparison,
    plan: AnalysisPlan,
    *,
    of_a: bool,
    blockers: Sequence[str],
    stopping: Stopping | None = None,
) -> stats.GateResult:
    """Return whether the registered superiority rule holds for A over B, or with ``of_a`` false for B over A.

    Percentile and t bounds over the registered unit; where single pairs are the unit, the exact McNemar test too;
    and where a stopping rule looks at this pair, its rejection: bounds that were looked at more than once hold the
    error rate only behind it.
    """
    found = comparison.families
    low, t_low = (found.low, found.t_low) if of_a else (found.b_low, found.b_t_low)
    result = stats.gate_claim(
        "superiority",
        found.families,
        percentile_low=low,
        t_low=t_low,
        sign_flip_p=found.adjusted_p,
        alpha=plan.alpha,
        blockers=sorted(blockers),
    )
    failed = set()
    exact = comparison.adjusted_p
    if plan.unit == "episode" and not (exact is not None and exact <= plan.alpha):
        failed.add(EXACT_TEST)
    if stopping is not None and {stopping.a, stopping.b} == {comparison.a, comparison.b}:
        side = "a" if of_a == (stopping.a == comparison.a) else "b"
        failed |= set() if stopping.favours == side else {STOPPING_RULE}
    if result.status == "ineligible" or not failed:
        return result
    return stats.GateResult("not_supported", tuple(sorted({*result.reasons, *failed})))


def ended_early(stopping: Stopping | None) -> bool:
    """Return whether the registered rule ended the run before its last planned block."""
    return stopping is not None and stopping.stopped_after is not None and stopping.stopped_after < stopping.planned


def pair_blockers(
    comparison: Comparison,
    claimed: ArmAnalysis,
    other: ArmAnalysis,
    plan: AnalysisPlan,
    *,
    stopping: Stopping | None = None,
    of_the_rule: bool = False,
) -> set[str]:
    """Return what the outcomes say against asking whether ``claimed`` does better than, or no worse than, ``other``.

    What errored counts as not passed. That can only hurt the arm it happened to, so it stands in the way of a
    statement from which the other arm would gain. A trial without counted partner does so either way, but for one
    that was excluded for both alike. After a run that ended early, only what its rule decided can be asked:
    ``of_the_rule`` for superiority.
    """
    against = set()
    looked_at = stopping is not None and {stopping.a, stopping.b} == {comparison.a, comparison.b}
    if ended_early(stopping) and not (of_the_rule and looked_at):
        against.add("not_confirmatory")
    if comparison.reason is not None:
        against.add("not_comparable")
    if comparison.unmatched:
        against.add("incomplete_coverage")
    lost = other.counts.errored + (other.counts.excluded if plan.denominator == "initiated" else 0)
    if lost:
        against.add("missing_data")
    if "EXPLORATORY" in (claimed.state, other.state):
        against.add("exploratory_registration")
    return against


def _reason(a: ArmAnalysis, b: ArmAnalysis, table: PairTable, apart: Sequence[str]) -> str | None:
    if "ERROR" in (a.state, b.state):
        return "artifact_error"
    if table.unequal_starts or apart:
        return "not_comparable"
    return None if table.pairs else "no_pairs"


def _estimate(
    pair: Pair, table: PairTable, evidence: FamilyEvidence | None, reason: str | None, plan: AnalysisPlan
) -> Comparison:
    """Return the numbers of a comparison; it is undecided, and no p-value is adjusted."""
    known = reason is None
    interval = stats.tango_interval(
        table.only_a, table.only_b, n=table.pairs, confidence=plan.pair_confidence
    )  # null with its own reason without a pair
    test = stats.mcnemar_exact(table.only_a, table.only_b)
    return Comparison(
        a=pair[0],
        b=pair[1],
        confidence=plan.pair_confidence,
        pairs=table.pairs,
        both=table.both,
        only_a=table.only_a,
        only_b=table.only_b,
        neither=table.neither,
        unmatched=table.unmatched,
        excluded=table.excluded,
        unequal_starts=table.unequal_starts,
        errored=table.errored,
        error_low=table.difference_had_errors(a_passed=False) if known else None,
        error_high=table.difference_had_errors(a_passed=True) if known else None,
        difference=interval.estimate if known else None,
        low=interval.low if known else None,
        high=interval.high if known else None,
        p_value=test.p_value if known else None,
        mid_p=test.mid_p if known else None,
        adjusted_p=None,
        reversal=table.reversal if known else None,
        families=evidence if known and evidence is not None else without_estimate(reason or "no_attempts"),
        detection=_detection(table, plan),
        verdict="NOT_COMPARABLE",
        underpowered=None,
        not_better=(),
        not_worse=(),
        differs=(),
        reason=reason,
    )


def _corrected(made: Sequence[Comparison], plan: AnalysisPlan) -> list[Comparison]:
    """Return the comparisons with p-values over all of them; one that could not be made counts as p = 1."""
    keys = list(dict.fromkeys(frozenset((one.a, one.b)) for one in made))  # a pair counts once, either way round
    columns = []
    for values in ([one.p_value for one in made], [one.families.p_value for one in made]):
        by_pair = dict(zip((frozenset((one.a, one.b)) for one in made), values, strict=True))
        if plan.multiplicity == "holm":
            found = stats.adjust_pvalues([by_pair[key] for key in keys], method="holm").value
            by_pair = dict(zip(keys, found, strict=True))
        columns.append(by_pair)
    exact, flips = columns
    return [
        replace(
            one,
            adjusted_p=None if one.p_value is None else exact[frozenset((one.a, one.b))],
            families=adjusted(one.families, flips[frozenset((one.a, one.b))]),
        )
        for one in made
    ]


def _decided(
    one: Comparison, a: ArmAnalysis, b: ArmAnalysis, plan: AnalysisPlan, stopping: Stopping | None
) -> Comparison:
    better, worse = (
        superiority(
            one,
            plan,
            of_a=of_a,
            blockers=sorted(pair_blockers(one, *sides, plan, stopping=stopping, of_the_rule=True)),
            stopping=stopping,
        )
        for of_a, sides in ((True, (a, b)), (False, (b, a)))
    )
    power = one.detection.power
    if one.families.families < MIN_FAMILIES:
        power = 0.0  # so few units support nothing, whatever the effect
    found = stats.verdict(
        one.reason is None,
        better_supported=better.status == "supported",
        worse_supported=worse.status == "supported",
        power=power,
        target_power=plan.target_power,
    )
    return replace(
        one,
        verdict=found.verdict,
        underpowered=found.underpowered,
        not_better=better.reasons,
        not_worse=worse.reasons,
        differs=_differs(one, a, b),
    )


def _differs(one: Comparison, a: ArmAnalysis, b: ArmAnalysis) -> tuple[str, ...]:
    """Return what is not the same on both sides, each as a path with both values."""
    listed = [
        f"state of {arm.arm}: {arm.state} ({', '.join(arm.state_reasons)})" for arm in (a, b) if arm.state == "ERROR"
    ]
    if one.unequal_starts:
        listed.append(f"initial state: another one in {one.unequal_starts} of {one.pairs} pairs")
    if not one.pairs:
        listed.append("trials: none was counted on both sides")
    return tuple(listed)


def _detection(table: PairTable, plan: AnalysisPlan) -> Detection:
    effect, registered = plan.registered_effect, plan.registered_discordance
    discordance = registered
    if discordance is None and table.pairs:
        discordance = (table.only_a + table.only_b) / table.pairs
    found: stats.Value | None = None
    if table.pairs and discordance is not None:
        found = stats.minimum_detectable_difference(
            table.pairs, discordance, deff=plan.design_effect, alpha=plan.pair_alpha, power=plan.target_power
        )
    power, needed, why = (
        _planned(int(table.pairs / plan.design_effect), plan) if effect else (None, None, "no_values")
    )
    return Detection(
        n=table.pairs,
        discordance=discordance,
        discordance_from="observed" if registered is None else "registered",
        detectable=found.value if found else None,
        detectable_reason=found.reason if found else "no_pairs",
        effect=effect,
        power=power,
        needed=needed,
        needed_reason=why,
        target_power=plan.target_power,
    )


@lru_cache(maxsize=256)
def _planned(n: int, plan: AnalysisPlan) -> tuple[float | None, int | None, str | None]:
    """Return the power of ``n`` unshared pairs at the registered effect, and the pairs that reach the target.

    No more than 20,000 pairs are walked through, so that of more pairs the power is understated.
    """
    effect, discordance = plan.registered_effect, plan.registered_discordance
    assert effect is not None and discordance is not None  # the protocol was admitted with both, or neither
    p10, p01 = (float((as_written(discordance) + sign * as_written(effect)) / 2) for sign in (1, -1))
    found = stats.mcnemar_power(min(n, MAX_TRIALS), p10, p01=p01, alpha=plan.pair_alpha)
    needed = stats.mcnemar_sample_size(
        p10, p01, alpha=plan.pair_alpha, power=plan.target_power, deff=plan.design_effect
    )
    return found.value, None if needed.value is None else int(needed.value), needed.reason
