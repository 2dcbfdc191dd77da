"""Carry out the registered analysis over outcomes. The method never looks at the results to choose itself.

Source: statistics specification, sections 2, 4, 5, 7 and 11; fair pick-and-place protocol, section 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from trialplate import stats
from trialplate.errors import EvidenceError, nearest
from trialplate.record import Outcome, Status
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
    SliceKey,
)
from trialplate.scoring.pairs import compare
from trialplate.stats.accounting import Denominator

__all__ = ["Analysis", "ArmAnalysis", "analyse_outcomes", "rate_of"]
ARTIFACT_ERROR = "artifact_error"
MEASURED = (Status.PASS, Status.FAIL)


def analyse_outcomes(
    outcomes: Sequence[Outcome],
    *,
    planned: Mapping[str, int],
    stages: Sequence[str] | None = None,
    confidence: float = 0.95,
    denominator: Denominator = "initiated_minus_excluded",
    slices: Sequence[SliceKey] = ("domain", "variant"),
    comparisons: Sequence[tuple[str, str]] = (),
) -> Analysis:
    """Return the analysis of all outcomes of a campaign.

    ``planned``: arm -> number of planned trials, in the order of the protocol. ``stages``: names of the suite's
    chain; None takes those of the outcomes, which must all agree. ``comparisons``: registered pairs of arms; no
    other pair is compared. Raises EvidenceError for an outcome of an unplanned arm, a repeated trial or (arm,
    scenario, repeat), or stages other than the chain's, and StatsInputError for a plan that is none.
    """
    if stages is None:
        stages = next(([stage.name for stage in o.stages] for o in outcomes if o.status in MEASURED), ())
    _refuse_strangers(outcomes, planned=planned, stages=stages)
    by_arm = {
        arm: sorted((o for o in outcomes if o.arm == arm), key=lambda o: (o.scenario, o.repeat)) for arm in planned
    }
    arms = tuple(
        _arm(arm, by_arm[arm], planned=count, stages=tuple(stages), confidence=confidence, denominator=denominator,
             slices=slices)
        for arm, count in planned.items()
    )  # fmt: skip
    states = {arm.arm: arm for arm in arms}
    compared = []
    for a, b in comparisons:
        for name in (a, b):
            if name not in states:
                raise EvidenceError(f"comparison of an unplanned arm {name!r}{nearest(name, states)}")
        compared.append(
            compare(by_arm[a], by_arm[b], analysis_a=states[a], analysis_b=states[b], confidence=confidence)
        )
    return Analysis(
        confidence=confidence,
        denominator=denominator,
        slices=tuple(slices),
        arms=arms,
        comparisons=tuple(compared),
    )


def _refuse_strangers(outcomes: Sequence[Outcome], *, planned: Mapping[str, int], stages: Sequence[str]) -> None:
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
        if outcome.status in MEASURED and names != tuple(stages):
            raise EvidenceError(f"trial {outcome.trial_id}: expected the stages {tuple(stages)}, got {names}")


def _arm(
    arm: str,
    outcomes: Sequence[Outcome],
    *,
    planned: int,
    stages: tuple[str, ...],
    confidence: float,
    denominator: Denominator,
    slices: Sequence[SliceKey],
) -> ArmAnalysis:
    counts, bounds = _account(outcomes, planned=planned, denominator=denominator)
    reasons = tuple(
        name
        for name, found in (
            ("errored_episodes", counts.errored > 0),
            ("incomplete_coverage", counts.initiated != planned),
        )
        if found
    )
    void = bool(reasons)
    domains = _slices(outcomes, by="domain", confidence=confidence, denominator=denominator, void=void)
    variants = _slices(outcomes, by="variant", confidence=confidence, denominator=denominator, void=void)
    failed = [outcome for outcome in outcomes if outcome.status is Status.FAIL]
    return ArmAnalysis(
        arm=arm,
        state="ERROR" if void else "COMPLETE",
        state_reasons=reasons,
        counts=counts,
        control_rejected=sum(outcome.reason == "control_rejected" for outcome in outcomes),
        reasons=_tally(outcome.reason for outcome in outcomes if outcome.status is not Status.PASS),
        first_failed=_tally(str(outcome.first_failed_stage) for outcome in failed),
        rate=rate_of(counts, confidence=confidence, void=void),
        bounds=bounds,
        macro=_macro(domains, void=void),
        families=_families(outcomes, confidence=confidence, denominator=denominator, void=void),
        funnel=_funnel(outcomes, stages=stages, void=void),
        domains=domains if "domain" in slices else (),
        variants=variants if "variant" in slices else (),
    )


def _tally(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _account(outcomes: Sequence[Outcome], *, planned: int | None, denominator: Denominator) -> tuple[Counts, Bounds]:
    statuses = [outcome.status.value for outcome in outcomes]
    account = stats.episode_accounting(
        len(statuses) if planned is None else planned, statuses, denominator=denominator
    )
    counts = Counts(
        planned=planned,
        initiated=account.initiated,
        passed=account.passed,
        failed=account.failed,
        errored=account.errored,
        excluded=account.excluded,
        valid=account.initiated - account.excluded,
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


def rate_of(counts: Counts, *, confidence: float, void: bool) -> Rate:
    """Return the rate with both intervals; null when the artifact is ``void`` or nothing was measured."""
    k, n = counts.passed, counts.n
    reason: str | None = None
    if void:
        reason = ARTIFACT_ERROR
    elif counts.initiated == 0:
        reason = "no_attempts"
    elif counts.passed + counts.failed == 0:
        reason = "nothing_measured"
    if reason is not None:
        return Rate(
            k=k, n=n, rate=None, wilson_low=None, wilson_high=None, exact_low=None, exact_high=None, reason=reason
        )
    wilson = stats.wilson_interval(k, n, confidence=confidence)
    exact = stats.clopper_pearson_interval(k, n, confidence=confidence)
    return Rate(
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
    outcomes: Sequence[Outcome], *, by: SliceKey, confidence: float, denominator: Denominator, void: bool
) -> tuple[Slice, ...]:
    """Return the slices in the order of their first scenario id; ``outcomes`` are sorted by scenario."""
    groups: dict[tuple[str, str | None], list[Outcome]] = {}
    for outcome in outcomes:
        key = (outcome.domain, outcome.variant if by == "variant" else None)
        groups.setdefault(key, []).append(outcome)
    found = []
    for (domain, variant), members in groups.items():
        counts, _ = _account(members, planned=None, denominator=denominator)
        rate = rate_of(counts, confidence=confidence, void=void)
        found.append(Slice(domain=domain, variant=variant, counts=counts, rate=rate))
    return tuple(found)


def _macro(domains: Sequence[Slice], *, void: bool) -> Macro:
    if void:
        return Macro(rate=None, se=None, domains=len(domains), reason=ARTIFACT_ERROR)
    if any(part.rate.rate is None for part in domains):
        return Macro(rate=None, se=None, domains=len(domains), reason="task_without_attempts")
    result = stats.macro_rate([part.rate.k for part in domains], [part.rate.n for part in domains])
    return Macro(rate=result.macro, se=result.se, domains=len(domains), reason=result.reason)


def _families(outcomes: Sequence[Outcome], *, confidence: float, denominator: Denominator, void: bool) -> Families:
    members: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        members.setdefault(outcome.family, []).append(outcome)
    tables = {
        family: _account(group, planned=None, denominator=denominator)[0] for family, group in sorted(members.items())
    }
    repeated = any(len(group) > 1 for group in members.values())
    counts = {family: (table.passed, table.n) for family, table in tables.items()} if repeated else {}
    if void or not repeated:
        return Families(
            families=len(members),
            counts=counts,
            wilson_low=None,
            wilson_high=None,
            korn_graubard_low=None,
            korn_graubard_high=None,
            deff=None,
            reason=ARTIFACT_ERROR if void else "independent_episodes",
        )
    result = stats.clustered_rate(
        [k for k, _ in counts.values()], [n for _, n in counts.values()], confidence=confidence
    )
    return Families(
        families=len(members),
        counts=counts,
        wilson_low=result.wilson_low,
        wilson_high=result.wilson_high,
        korn_graubard_low=result.korn_graubard_low,
        korn_graubard_high=result.korn_graubard_high,
        deff=result.deff,
        reason=result.reason,
    )


def _funnel(outcomes: Sequence[Outcome], *, stages: tuple[str, ...], void: bool) -> Funnel:
    climbs = [sum(stage.passed for stage in outcome.stages) for outcome in outcomes if outcome.status in MEASURED]
    if not stages:
        return Funnel(stages=(), entries=0, reached=(), passed=(), rates=(), reason="no_attempts")
    result = stats.stage_rates(climbs, len(stages))
    return Funnel(
        stages=stages,
        entries=len(climbs),
        reached=result.reached,
        passed=result.passed,
        rates=tuple(None for _ in stages) if void else result.rates,
        reason=ARTIFACT_ERROR if void else result.reason,
    )
