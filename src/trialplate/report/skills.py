"""The three tables of a campaign of skills: nominal rates, perturbed ones, held-out domains.

Source: atomic skills, sections 7, 8, 10, 11 and 14.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trialplate.claims import wording as say
from trialplate.report.data import ReportData
from trialplate.report.text import visible
from trialplate.scoring.skill_summary import SkillSummary
from trialplate.scoring.skills import Adaptability, Placed, SkillReport, ranking
from trialplate.spec.skills import ASSET_MISSING

NOT_KNOWN = "N/A"
_ELIGIBLE = {True: "yes", False: "no", None: "–"}


def skills(data: ReportData) -> dict[str, Any]:
    """Return what the section on skills shows; no table has a row where the suite has no skills."""
    report = data.analysis.skills
    if report is None:
        return {"rows": [], "axes": [], "domains": [], "overall": []}
    names = list(dict.fromkeys(result.skill for arm in report.arms for result in arm.skills))
    return {
        "rows": [_line(name, placed) for name in names for placed in ranking(report, name)],
        "axes": _axes(report),
        "domains": [
            _domains(name, arm.arm, result.adaptability)
            for name in names
            for arm in report.arms
            for result in arm.skills
            if result.skill == name and result.adaptability is not None
        ],
        "overall": [
            (visible(arm.arm), _rate(arm.overall, arm.overall_reason)) for arm in report.arms
        ],
    }  # fmt: skip


def _line(skill: str, placed: Placed) -> dict[str, Any]:
    summary = placed.summary
    return {
        "skill": visible(skill),
        "rank": placed.rank,
        "arm": visible(placed.arm),
        "eligible": _ELIGIBLE[placed.eligible],
        "stages": [
            (visible(stage.stage), f"{stage.passed}/{stage.reached}", _rate(stage.rate, stage.reason))
            for stage in summary.stages
        ],
        "trust": [(key.replace("_", ", "), count) for key, count in summary.trust.items()],
        **_numbers(summary),
    }


def _numbers(summary: SkillSummary) -> dict[str, Any]:
    trials = summary.interval_trials or (None, None)
    cases = summary.interval_cases or (None, None)
    return {
        "coverage": _rate(summary.coverage_rate, summary.reason),
        "success": _rate(summary.success_rate, summary.reason),
        "valid_rate": _rate(summary.success_rate_valid, summary.reason),
        "trusted": _rate(summary.trusted_success_rate, summary.reason),
        "bounds": say.interval(summary.low_bound, summary.high_bound) if summary.errored else "–",
        "trials": say.interval(*trials),
        "cases": say.interval(*cases),
        "k": summary.passed,
        "n": summary.measured,
        "counts": summary,
        "flags": ", ".join(flag.replace("_", " ") for flag in summary.flags),
    }


def _axes(report: SkillReport) -> list[dict[str, Any]]:
    return [
        {
            "skill": visible(result.skill),
            "arm": visible(arm.arm),
            "axis": visible(axis.axis),
            "difference": "–" if axis.difference is None else f"{100 * axis.difference:+.1f} points",
            **_numbers(axis.summary),
        }
        for arm in report.arms
        for result in arm.skills
        for axis in result.axes
    ]


def _domains(skill: str, arm: str, held: Adaptability) -> dict[str, Any]:
    reasons: Mapping[str, str] = {"nominal_zero": "nominal rate is 0"}
    return {
        "skill": visible(skill),
        "arm": visible(arm),
        "rates": [
            (visible(name), _counted(summary), _rate(summary.success_rate, summary.reason))
            for name, summary in held.domains.items()
        ],
        "coverage": _rate(held.coverage_rate, held.reason),
        "mean": _rate(held.mean, held.reason),
        "worst": _rate(held.worst, held.reason),
        "variance": NOT_KNOWN if held.variance is None else f"{held.variance:.4f}",
        "retention": _rate(held.retention, reasons.get(str(held.retention_reason), held.retention_reason)),
        "eligible": _ELIGIBLE[held.eligible],
        "why": "; ".join(held.eligible_reasons).replace("_", " "),
    }


def _counted(summary: SkillSummary) -> str:
    """Return passed of measured; of a domain without its robot nothing was counted."""
    return "not run" if summary.reason == ASSET_MISSING else f"{summary.passed}/{summary.measured}"


def _rate(rate: float | None, reason: str | None) -> str:
    if rate is not None:
        return say.percent(rate)
    return NOT_KNOWN if reason is None else f"{NOT_KNOWN} ({reason.replace('_', ' ')})"
