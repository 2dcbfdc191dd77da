"""Counts and rates of one skill in one set of cases, with both intervals, bounds, trust and stage rates.

Source: atomic skills, sections 7 and 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trialplate import stats
from trialplate.record import Outcome, Status
from trialplate.spec.skills import ASSET_MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCount:
    """``reached`` of the first stage: valid trials; of any other: those that passed the one before.

    ``rate``: None for ``reason`` ``no_trials``.
    """

    stage: str
    reached: int
    passed: int
    rate: float | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSummary:
    """``measured`` = total - excluded, ``valid`` = passed + failed; an ERROR is in ``measured`` and no failure.

    Every rate is None with ``reason``: ``incomplete`` while planned trials were not started, ``asset_missing`` where
    a robot was not on the machine, ``no_trials`` when none was measured. ``low_bound``, ``high_bound``: the rate had
    no errored trial passed, or every one. ``interval_trials`` takes trials for independent, ``interval_cases`` has
    the effective number ``n_eff``, at least the cases. ``trust``: replayed trials, passed or failed, trusted or not.
    ``belief``: the planner's word for the first stage against the measurement. ``flags``: ``errors_present``,
    ``repeats_identical``.
    """

    total: int
    initiated: int
    excluded: int
    errored: int
    valid: int
    measured: int
    not_started: int
    passed: int
    failed: int
    cases: int
    coverage_rate: float | None
    success_rate: float | None
    success_rate_valid: float | None
    low_bound: float | None
    high_bound: float | None
    trusted_passed: int
    trusted_success_rate: float | None
    interval_trials: tuple[float, float] | None
    interval_trials_reason: str | None
    interval_cases: tuple[float, float] | None
    n_eff: float | None
    reason: str | None
    stages: tuple[StageCount, ...]
    reasons: Mapping[str, int]
    trust: Mapping[str, int]
    belief: Mapping[str, int]
    flags: tuple[str, ...]


def summarise_skill(
    outcomes: Sequence[Outcome], *, total: int, stages: Sequence[str], confidence: float = 0.95
) -> SkillSummary:
    """Return the summary of the trials of one skill by one planner in one set of cases.

    ``total``: how many were planned; ``outcomes``: of those that were started. ``stages``: of the skill's ladder.
    """
    statuses = Counter(outcome.status for outcome in outcomes)
    passed, failed = statuses[Status.PASS], statuses[Status.FAIL]
    errored, excluded = statuses[Status.ERROR], statuses[Status.EXCLUDED]
    not_started, measured, valid = total - len(outcomes), total - excluded, passed + failed
    void = "incomplete" if not_started else ASSET_MISSING if any(map(_without_robot, outcomes)) else None
    reason = void or (None if measured else "no_trials")
    trusted = sum(outcome.status is Status.PASS and _trusted(outcome) for outcome in outcomes)
    cases = _cases(outcomes)
    identical = _repeats_identical(outcomes)
    flags = [("errors_present", errored > 0), ("repeats_identical", identical)]
    by_case = stats.case_wilson_interval(
        [k for k, _ in cases.values()], [n for _, n in cases.values()], confidence=confidence
    )
    trials_reason = reason or ("repeats_identical" if identical else None)
    wilson = stats.wilson_interval(passed, measured, confidence=confidence) if trials_reason is None else None
    return SkillSummary(
        total=total,
        initiated=len(outcomes),
        excluded=excluded,
        errored=errored,
        valid=valid,
        measured=measured,
        not_started=not_started,
        passed=passed,
        failed=failed,
        cases=len(cases),
        coverage_rate=_rate(measured, total, void),
        success_rate=_rate(passed, measured, reason),
        success_rate_valid=_rate(passed, valid, reason),
        low_bound=_rate(passed, measured, reason),
        high_bound=_rate(passed + errored, measured, reason),
        trusted_passed=trusted,
        trusted_success_rate=_rate(trusted, measured, reason),
        interval_trials=_ends(wilson.low, wilson.high) if wilson is not None else None,
        interval_trials_reason=trials_reason,
        interval_cases=_ends(by_case.low, by_case.high) if reason is None else None,
        n_eff=by_case.n_eff if reason is None else None,
        reason=reason,
        stages=_stages(outcomes, stages, void=void),
        reasons=dict(sorted(Counter(o.reason for o in outcomes if o.status is not Status.PASS).items())),
        trust=_trust(outcomes),
        belief=_belief(outcomes),
        flags=tuple(name for name, found in flags if found),
    )


def _rate(k: int, n: int, void: str | None) -> float | None:
    return k / n if n and void is None else None


def _ends(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (low, high)


def _trusted(outcome: Outcome) -> bool:
    return outcome.skill is not None and outcome.skill.trusted is True


def _without_robot(outcome: Outcome) -> bool:
    """Return whether nothing was tried because the robot of the case is not on the machine."""
    facts = outcome.skill
    return outcome.status is Status.ERROR and facts is not None and facts.failure_detail == ASSET_MISSING


def _cases(outcomes: Sequence[Outcome]) -> dict[str, tuple[int, int]]:
    """Return case -> (passed, measured), of cases that were measured at all."""
    found: dict[str, tuple[int, int]] = {}
    for outcome in sorted(outcomes, key=lambda item: item.scenario):
        if outcome.status is not Status.EXCLUDED:
            k, n = found.get(outcome.scenario, (0, 0))
            found[outcome.scenario] = (k + (outcome.status is Status.PASS), n + 1)
    return found


def _repeats_identical(outcomes: Sequence[Outcome]) -> bool:
    """Return whether two repeats of any case left equal traces: they are one observation, told twice."""
    seen: Counter[tuple[str, str]] = Counter(
        (outcome.scenario, outcome.trace_content_sha256)
        for outcome in outcomes
        if outcome.trace_content_sha256 is not None and outcome.status in (Status.PASS, Status.FAIL)
    )
    return any(count > 1 for count in seen.values())


def _stages(outcomes: Sequence[Outcome], names: Sequence[str], *, void: str | None) -> tuple[StageCount, ...]:
    climbs = [sum(s.passed for s in o.stages) for o in outcomes if o.status in (Status.PASS, Status.FAIL)]
    result = stats.stage_rates(climbs, len(names))
    return tuple(
        StageCount(
            stage=name,
            reached=reached,
            passed=passed,
            rate=rate if void is None else None,
            reason=void or (None if reached else "no_trials"),
        )
        for name, reached, passed, rate in zip(names, result.reached, result.passed, result.rates, strict=True)
    )


def _trust(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Return the 2 x 2 table of passed and trusted over replayed trials."""
    table = dict.fromkeys(("passed_trusted", "passed_untrusted", "failed_trusted", "failed_untrusted"), 0)
    for outcome in outcomes:
        if outcome.skill is not None and outcome.skill.trusted is not None:
            won = "passed" if outcome.status is Status.PASS else "failed"
            table[f"{won}_{'trusted' if outcome.skill.trusted else 'untrusted'}"] += 1
    return table


def _belief(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Return how often a planner believed what was measured, over the stages that it told a belief of."""
    table: Counter[str] = Counter()
    for outcome in outcomes:
        facts = outcome.skill
        for stage, measured in facts.measured.items() if facts is not None else ():
            if facts is not None and stage in facts.believed:
                table[f"{'believed' if facts.believed[stage] else 'doubted'}_{'true' if measured else 'false'}"] += 1
    return dict(sorted(table.items()))
