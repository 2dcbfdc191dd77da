"""What a campaign of skills says: rates of each skill, how they hold up under perturbation and in held-out domains.

Integers are stored, rates are exact fractions of them until they are written. Source: atomic skills, sections 7, 8,
10 and 11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from trialplate import stats
from trialplate.record import Outcome
from trialplate.scoring.skill_summary import SkillSummary, summarise_skill
from trialplate.spec.skills import ASSET_MISSING

NOMINAL, ROBUSTNESS, ADAPTABILITY = "nominal", "robustness", "adaptability"
WORST_AT_LEAST, RETENTION_AT_LEAST = Fraction(3, 5), Fraction(3, 4)
"""Thresholds of adaptability, version 1: inclusive."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """Where a scenario belongs: its skill, the set of cases, and the axis or domain in that set (None: nominal)."""

    skill: str
    case_set: str
    part: str | None

    @classmethod
    def of(cls, domain: str, variant: str) -> Stratum:
        """Return the stratum of a scenario: its domain is the skill, its variant ``set`` or ``set/part``."""
        case_set, _, part = variant.partition("/")
        return cls(domain, case_set, part or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of the perturbation set: ``difference`` = its success rate less the nominal one, None without both."""

    axis: str
    summary: SkillSummary
    difference: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptability:
    """One skill over its held-out domains; every planned trial of them is mandatory.

    Everything is None for ``reason`` ``incomplete``, or ``asset_missing`` where a robot of one domain is not on the
    machine. ``eligible``: None also with errors (``errors_present``); ``eligible_reasons``: why not, else empty.
    ``worst``, ``mean``, ``variance``: over the success rates of the domains, with equal weight; ``retention`` =
    worst / nominal success rate, None for ``retention_reason``.
    """

    domains: Mapping[str, SkillSummary]
    coverage_rate: float | None
    mean: float | None
    worst: float | None
    variance: float | None
    retention: float | None
    reason: str | None
    retention_reason: str | None
    eligible: bool | None
    eligible_reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillResult:
    """Everything about one skill of one planner; what was not planned is None or empty."""

    skill: str
    nominal: SkillSummary | None
    axes: tuple[Axis, ...]
    adaptability: Adaptability | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSkills:
    """One planner. ``overall``: mean of the nominal success rates of all skills of the suite, None for ``reason``."""

    arm: str
    skills: tuple[SkillResult, ...]
    overall: float | None
    overall_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillReport:
    """All planners, in the order of the protocol."""

    arms: tuple[ArmSkills, ...]


def skill_report(
    outcomes: Sequence[Outcome],
    *,
    planned: Iterable[tuple[str, str]],
    strata: Mapping[str, Stratum],
    ladders: Mapping[str, Sequence[str]],
    confidence: float = 0.95,
) -> SkillReport:
    """Return the report of a campaign of skills.

    ``planned``: (arm, scenario) of every planned trial. ``strata``: scenario -> where it belongs. ``ladders``: every
    skill of the suite -> its stages.
    """
    totals: dict[str, Counter[Stratum]] = {}
    for arm, scenario in planned:
        totals.setdefault(arm, Counter())[strata[scenario]] += 1
    found = []
    for arm, of_arm in totals.items():
        parts: dict[Stratum, list[Outcome]] = {}
        for outcome in outcomes:
            if outcome.arm == arm:
                parts.setdefault(strata[outcome.scenario], []).append(outcome)
        summaries = {
            stratum: summarise_skill(
                parts.get(stratum, []), total=total, stages=ladders[stratum.skill], confidence=confidence
            )
            for stratum, total in of_arm.items()
        }
        skills = tuple(_result(skill, summaries) for skill in ladders if any(s.skill == skill for s in summaries))
        overall, reason = overall_rate([item.nominal for item in skills if item.nominal], skills=len(ladders))
        found.append(ArmSkills(arm=arm, skills=skills, overall=overall, overall_reason=reason))
    return SkillReport(arms=tuple(found))


def overall_rate(nominal: Sequence[SkillSummary], *, skills: int) -> tuple[float | None, str | None]:
    """Return the mean success rate over all skills of a suite with equal weight, or None and ``missing_skills``."""
    rates = [Fraction(item.passed, item.measured) for item in nominal if item.success_rate is not None]
    if len(rates) < skills:
        return None, "missing_skills"
    return float(sum(rates, Fraction(0)) / len(rates)), None


def _result(skill: str, summaries: Mapping[Stratum, SkillSummary]) -> SkillResult:
    own = {stratum: summary for stratum, summary in summaries.items() if stratum.skill == skill}
    nominal = own.get(Stratum(skill, NOMINAL, None))
    axes = tuple(
        Axis(axis=str(stratum.part), summary=summary, difference=_difference(summary, nominal))
        for stratum, summary in sorted(own.items(), key=lambda item: str(item[0].part))
        if stratum.case_set == ROBUSTNESS
    )
    domains = {
        str(stratum.part): summary
        for stratum, summary in sorted(own.items(), key=lambda item: str(item[0].part))
        if stratum.case_set == ADAPTABILITY
    }
    return SkillResult(
        skill=skill, nominal=nominal, axes=axes, adaptability=adaptability(domains, nominal) if domains else None
    )


def _difference(summary: SkillSummary, nominal: SkillSummary | None) -> float | None:
    if nominal is None or summary.success_rate is None or nominal.success_rate is None:
        return None
    return float(Fraction(summary.passed, summary.measured) - Fraction(nominal.passed, nominal.measured))


def adaptability(domains: Mapping[str, SkillSummary], nominal: SkillSummary | None) -> Adaptability:
    """Return how a skill does over its applicable domains, and whether that is enough to be ranked as eligible."""
    parts = tuple(domains.values())
    mandatory, measured = sum(part.total for part in parts), sum(part.measured for part in parts)
    base_k, base_n = (nominal.passed, nominal.measured) if nominal is not None else (0, 0)
    void = _void((*parts, *([nominal] if nominal else [])))
    result = stats.held_out_domains(
        base_k, base_n, domain_k=[part.passed for part in parts], domain_n=[part.measured for part in parts]
    )
    known = void is None and result.worst is not None
    eligible, reasons = _eligibility(parts, nominal, void=void)
    retention_reason = None if known and result.retention is not None else void or result.reason or "incomplete"
    return Adaptability(
        domains=dict(domains),
        coverage_rate=measured / mandatory if void is None and mandatory else None,
        mean=result.mean if known else None,
        worst=result.worst if known else None,
        variance=result.variance if known else None,
        retention=result.retention if known else None,
        reason=None if known else void or "domain_without_measured_trials",
        retention_reason=retention_reason,
        eligible=eligible,
        eligible_reasons=reasons,
    )


def _void(parts: Sequence[SkillSummary]) -> str | None:
    """Return why nothing at all can be said, None when something can."""
    if any(part.not_started for part in parts):
        return "incomplete"
    return ASSET_MISSING if any(part.reason == ASSET_MISSING for part in parts) else None


def _eligibility(
    parts: Sequence[SkillSummary], nominal: SkillSummary | None, *, void: str | None
) -> tuple[bool | None, tuple[str, ...]]:
    """Compare counts with the thresholds, in exact fractions."""
    if void is not None:
        return None, (void,)
    if any(part.errored for part in (*parts, *([nominal] if nominal else []))):
        return None, ("errors_present",)
    reasons = []
    if any(part.measured < part.total for part in parts):
        reasons.append("coverage below 1")
    if any(part.measured == 0 for part in parts):
        return False, (*reasons, "a domain without measured trials")
    worst = min(Fraction(part.passed, part.measured) for part in parts)
    if worst < WORST_AT_LEAST:
        reasons.append(f"worst below {float(WORST_AT_LEAST):.2f}")
    kept = worst * Fraction(nominal.measured, nominal.passed) if nominal is not None and nominal.passed else None
    if kept is not None and kept < RETENTION_AT_LEAST:
        reasons.append(f"retention below {float(RETENTION_AT_LEAST):.2f}")
    return not reasons, tuple(reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """One line of the ranking of a skill. ``rank``: from 1; equal where nothing but the name tells two apart."""

    rank: int
    arm: str
    eligible: bool | None
    summary: SkillSummary


def ranking(report: SkillReport, skill: str) -> tuple[Placed, ...]:
    """Return every planner of a skill: eligible ones first, then by success rate, coverage and name."""
    rows = []
    for arm in report.arms:
        result = next((item for item in arm.skills if item.skill == skill), None)
        if result is None or result.nominal is None:
            continue
        eligible = result.adaptability.eligible if result.adaptability is not None else None
        nominal = result.nominal
        key = (eligible is not True, -(nominal.success_rate or 0.0), -(nominal.coverage_rate or 0.0))
        rows.append((key, arm.arm, eligible, nominal))
    rows.sort(key=lambda row: (row[0], row[1]))
    ranks = [1 + sum(other[0] < row[0] for other in rows) for row in rows]
    return tuple(
        Placed(rank=rank, arm=arm, eligible=eligible, summary=summary)
        for rank, (_, arm, eligible, summary) in zip(ranks, rows, strict=True)
    )
