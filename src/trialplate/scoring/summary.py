"""Carry out the registered analysis over outcomes. The method never looks at the results to choose itself.

Source: statistics specification, sections 2, 4, 5, 7 and 11; fair pick-and-place protocol, section 8; policy
contract, sections 3 (halt rule) and 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from trialplate import stats
from trialplate.errors import EvidenceError, nearest
from trialplate.record import Outcome, Status
from trialplate.record.halting import same_early_fault
from trialplate.scoring.analysis import (
    Analysis,
    ArmAnalysis,
    Bounds,
    Counts,
    Families,
    Funnel,
    Macro,
    Rate,
    Slice,
)
from trialplate.scoring.conduct import arm_conduct
from trialplate.scoring.stopping import Stopping
from trialplate.scoring.verdicts import compare_arms
from trialplate.spec.channels import ActionSpec
from trialplate.spec.plan import AnalysisPlan, DenominatorName, ErrorsRule, SliceKey
from trialplate.stats.accounting import Denominator

__all__ = ["Analysis", "ArmAnalysis", "analyse_outcomes", "rate_of"]
ARTIFACT_ERROR = "artifact_error"
EXPLORATORY = "exploratory_registration"
"""State reason that leaves the rate as it is: something was measured, and not the arm of the lock."""
MEASURED = (Status.PASS, Status.FAIL)
INVALIDATING = ("identity_changed", "inputs_changed")
"""Reasons of a single attempt after which the arm of the whole run is not the one of the lock."""
WHOLE_RUN = (*INVALIDATING, "systematic_error")
"""State reasons that stand as the reason of the missing rate, instead of ``artifact_error``."""
_STATISTICS: Mapping[DenominatorName, Denominator] = {
    "initiated": "initiated",
    "measured": "initiated_minus_excluded",
    "valid": "passed_plus_failed",
}
"""Names of a protocol -> names of the statistics."""


def analyse_outcomes(
    outcomes: Sequence[Outcome],
    *,
    planned: Mapping[str, int],
    plan: AnalysisPlan | None = None,
    stages: Sequence[str] | None = None,
    ladders: Mapping[str, Sequence[str]] | None = None,
    errors_rule: ErrorsRule = "bounds",
    tested: Collection[str] | None = None,
    action: ActionSpec | None = None,
    profiles: Mapping[str, str] | None = None,
    stopping: Stopping | None = None,
) -> Analysis:
    """Return the analysis of all outcomes of a campaign.

    ``planned``: arm -> number of planned trials, in the order of the protocol. ``plan``: the registered analysis,
    None for its defaults. ``stages``: names of the suite's chain; None takes those of the outcomes, which must all
    agree. ``tested``: the arms that are no controls, all by default; only of these the halt rule is asked.
    ``action``: the action space of the suite. ``ladders``: domain -> stages, where every domain has its own; then
    there is no funnel over all. ``profiles``: arm -> what it sees; arms that see other things are not compared.
    ``stopping``: what the registered rule said of these outcomes. Raises EvidenceError for an outcome of an unplanned
    arm, a repeated trial or (arm, scenario, repeat), or stages other than the chain's, and StatsInputError for a plan
    that is none.
    """
    if stages is None:
        measured = (o for o in outcomes if o.status in MEASURED and ladders is None)
        stages = next(([stage.name for stage in o.stages] for o in measured), ())
    _refuse_strangers(outcomes, planned=planned, stages=stages, ladders=ladders)
    by_arm = {
        arm: sorted((o for o in outcomes if o.arm == arm), key=lambda o: (o.scenario, o.repeat)) for arm in planned
    }
    plan = plan if plan is not None else AnalysisPlan()
    arms = tuple(
        _arm(
            arm, by_arm[arm], planned=count, stages=tuple(stages), plan=plan, action=action,
            state_reasons=_state_reasons(
                by_arm[arm], planned=count, errors_rule=errors_rule, tested=tested is None or arm in tested
            ),
        )
        for arm, count in planned.items()
    )  # fmt: skip
    states = {arm.arm: arm for arm in arms}
    for name in (name for pair in plan.comparisons for name in pair):
        if name not in states:
            raise EvidenceError(f"comparison of an unplanned arm {name!r}{nearest(name, states)}")
    compared, drawn = compare_arms(
        by_arm, states, plan=plan, control_hz=action.control_hz if action else None, stopping=stopping,
        apart=_apart(plan, profiles or {}),
    )  # fmt: skip
    return Analysis(
        plan=plan, errors_rule=errors_rule, arms=arms, comparisons=compared, resampling=drawn, stopping=stopping
    )


def _apart(plan: AnalysisPlan, profiles: Mapping[str, str]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the pairs whose arms see other things, which no lock of this version admits, with both profiles."""
    seen = {pair: (profiles.get(pair[0]), profiles.get(pair[1])) for pair in plan.comparisons}
    return {pair: (f"profile: {a} against {b}",) for pair, (a, b) in seen.items() if a != b}


def _refuse_strangers(
    outcomes: Sequence[Outcome],
    *,
    planned: Mapping[str, int],
    stages: Sequence[str],
    ladders: Mapping[str, Sequence[str]] | None,
) -> None:
    trials: set[str] = set()
    settings: set[tuple[str, str, int]] = set()
    for outcome in outcomes:
        if outcome.arm not in planned:
            raise EvidenceError(
                f"trial {outcome.trial_id} belongs to the arm {outcome.arm!r}, which was not planned"
                f"{nearest(outcome.arm, planned)}",
                code="row_unplanned",
            )
        setting = (outcome.arm, outcome.scenario, outcome.repeat)
        if outcome.trial_id in trials or setting in settings:
            raise EvidenceError(
                f"trial {outcome.trial_id} (arm {outcome.arm}, scenario {outcome.scenario}, repeat {outcome.repeat})"
                " stands twice",
                code="row_duplicated",
            )
        trials.add(outcome.trial_id)
        settings.add(setting)
        names = tuple(stage.name for stage in outcome.stages)
        wanted = tuple(stages if ladders is None else ladders.get(outcome.domain, ()))
        if outcome.status in MEASURED and names != wanted:
            raise EvidenceError(f"trial {outcome.trial_id}: expected the stages {wanted}, got {names}")


def _state_reasons(
    outcomes: Sequence[Outcome], *, planned: int, errors_rule: ErrorsRule, tested: bool
) -> tuple[str, ...]:
    """Return why an arm is not COMPLETE, the gravest first; all but ``EXPLORATORY`` leave it without a rate."""
    scheduled = sorted(outcomes, key=lambda o: (len(o.trial_id), o.trial_id))  # ids are ordinals: "000012"
    ends = [(o.reason if o.termination == "fault" else None, o.control_steps) for o in scheduled]
    errored = any(outcome.status is Status.ERROR for outcome in outcomes)
    return tuple(
        name
        for name, found in (
            *((reason, any(outcome.reason == reason for outcome in outcomes)) for reason in INVALIDATING),
            ("systematic_error", tested and same_early_fault(ends) is not None),
            ("errored_episodes", errored and errors_rule == "void"),
            ("incomplete_coverage", len(outcomes) != planned),
            (EXPLORATORY, any(outcome.identity == "exploratory" for outcome in outcomes)),
        )
        if found
    )


def _arm(
    arm: str,
    outcomes: Sequence[Outcome],
    *,
    planned: int,
    stages: tuple[str, ...],
    plan: AnalysisPlan,
    action: ActionSpec | None,
    state_reasons: tuple[str, ...],
) -> ArmAnalysis:
    confidence, denominator, slices = plan.confidence, plan.denominator, plan.slices
    counts, bounds = _account(outcomes, planned=planned, denominator=denominator)
    voiding = [reason for reason in state_reasons if reason != EXPLORATORY]
    void = next((reason for reason in voiding if reason in WHOLE_RUN), ARTIFACT_ERROR if voiding else None)
    domains = _slices(outcomes, by="domain", confidence=confidence, denominator=denominator, void=void)
    variants = _slices(outcomes, by="variant", confidence=confidence, denominator=denominator, void=void)
    failed = [outcome for outcome in outcomes if outcome.status is Status.FAIL]
    others: tuple[DenominatorName, ...] = ("measured", "valid")
    return ArmAnalysis(
        arm=arm,
        state="ERROR" if void else "EXPLORATORY" if state_reasons else "COMPLETE",
        state_reasons=state_reasons,
        counts=counts,
        control_rejected=sum(outcome.reason == "control_rejected" for outcome in outcomes),
        reasons=_tally(outcome.reason for outcome in outcomes if outcome.status is not Status.PASS),
        first_failed=_tally(str(outcome.first_failed_stage) for outcome in failed),
        rate=rate_of(counts, denominator, confidence=confidence, void=void),
        other_rates=tuple(
            rate_of(counts, other, confidence=confidence, void=void) for other in others if other != denominator
        ),
        bounds=bounds,
        macro=_macro(domains, void=void),
        families=_families(outcomes, confidence=confidence, denominator=denominator, void=void),
        funnel=_funnel(outcomes, stages=stages, void=void),
        domains=domains if "domain" in slices else (),
        variants=variants if "variant" in slices else (),
        conduct=arm_conduct(outcomes, action),
    )


def _tally(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _account(
    outcomes: Sequence[Outcome], *, planned: int | None, denominator: DenominatorName
) -> tuple[Counts, Bounds]:
    statuses = [outcome.status.value for outcome in outcomes]
    account = stats.episode_accounting(
        len(statuses) if planned is None else planned, statuses, denominator=_STATISTICS[denominator]
    )
    counts = Counts(
        planned=planned,
        initiated=account.initiated,
        passed=account.passed,
        failed=account.failed,
        errored=account.errored,
        excluded=account.excluded,
        valid=account.passed + account.failed,
        measured=account.initiated - account.excluded,
        n=account.n,
    )
    bounds = Bounds(
        error_low=account.error_low,
        error_high=account.error_high,
        exclusion_low=account.exclusion_low,
        exclusion_high=account.exclusion_high,
        reason=account.reason if account.error_low is None else None,
    )
    return counts, bounds


def rate_of(counts: Counts, denominator: DenominatorName, *, confidence: float, void: str | None) -> Rate:
    """Return the rate over a denominator with both intervals; null for the reason ``void``, or nothing measured."""
    k, n = (
        counts.passed,
        {"initiated": counts.initiated, "measured": counts.measured, "valid": counts.valid}[denominator],
    )
    reason: str | None = void
    if reason is None and counts.initiated == 0:
        reason = "no_attempts"
    elif reason is None and counts.valid == 0:
        reason = "nothing_measured"
    if reason is not None:
        return Rate(
            denominator=denominator,
            k=k,
            n=n,
            rate=None,
            wilson_low=None,
            wilson_high=None,
            exact_low=None,
            exact_high=None,
            reason=reason,
        )
    wilson = stats.wilson_interval(k, n, confidence=confidence)
    exact = stats.clopper_pearson_interval(k, n, confidence=confidence)
    return Rate(
        denominator=denominator,
        k=k,
        n=n,
        rate=k / n,
        wilson_low=wilson.low,
        wilson_high=wilson.high,
        exact_low=exact.low,
        exact_high=exact.high,
        reason=None,
    )


def _slices(
    outcomes: Sequence[Outcome], *, by: SliceKey, confidence: float, denominator: DenominatorName, void: str | None
) -> tuple[Slice, ...]:
    """Return the slices in the order of their first scenario id; ``outcomes`` are sorted by scenario."""
    groups: dict[tuple[str, str | None], list[Outcome]] = {}
    for outcome in outcomes:
        key = (outcome.domain, outcome.variant if by == "variant" else None)
        groups.setdefault(key, []).append(outcome)
    found = []
    for (domain, variant), members in groups.items():
        counts, _ = _account(members, planned=None, denominator=denominator)
        rate = rate_of(counts, denominator, confidence=confidence, void=void)
        found.append(Slice(domain=domain, variant=variant, counts=counts, rate=rate))
    return tuple(found)


def _macro(domains: Sequence[Slice], *, void: str | None) -> Macro:
    if void:
        return Macro(rate=None, se=None, domains=len(domains), reason=void)
    if any(part.rate.rate is None for part in domains):
        return Macro(rate=None, se=None, domains=len(domains), reason="task_without_attempts")
    result = stats.macro_rate([part.rate.k for part in domains], [part.rate.n for part in domains])
    return Macro(rate=result.macro, se=result.se, domains=len(domains), reason=result.reason)


def _families(
    outcomes: Sequence[Outcome], *, confidence: float, denominator: DenominatorName, void: str | None
) -> Families:
    members: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        members.setdefault(outcome.family, []).append(outcome)
    tables = {
        family: _account(group, planned=None, denominator=denominator)[0] for family, group in sorted(members.items())
    }
    repeated = any(len(group) > 1 for group in members.values())
    counts = {family: (table.passed, table.n) for family, table in tables.items()} if repeated else {}
    measured = {family: tables[family].measured for family in counts if tables[family].measured > tables[family].n}
    if void or not repeated:
        return Families(
            families=len(members),
            counts=counts,
            measured=measured,
            wilson_low=None,
            wilson_high=None,
            korn_graubard_low=None,
            korn_graubard_high=None,
            deff=None,
            reason=void or "independent_episodes",
        )
    result = stats.clustered_rate(
        [k for k, _ in counts.values()], [n for _, n in counts.values()], confidence=confidence
    )
    return Families(
        families=len(members),
        counts=counts,
        measured=measured,
        wilson_low=result.wilson_low,
        wilson_high=result.wilson_high,
        korn_graubard_low=result.korn_graubard_low,
        korn_graubard_high=result.korn_graubard_high,
        deff=result.deff,
        reason=result.reason,
    )


def _funnel(outcomes: Sequence[Outcome], *, stages: tuple[str, ...], void: str | None) -> Funnel:
    climbs = [sum(stage.passed for stage in outcome.stages) for outcome in outcomes if outcome.status in MEASURED]
    if not stages:
        reason = "several_ladders" if climbs else "no_attempts"
        return Funnel(stages=(), entries=0, reached=(), passed=(), rates=(), reason=reason)
    result = stats.stage_rates(climbs, len(stages))
    return Funnel(
        stages=stages,
        entries=len(climbs),
        reached=result.reached,
        passed=result.passed,
        rates=tuple(None for _ in stages) if void else result.rates,
        reason=void or result.reason,
    )
