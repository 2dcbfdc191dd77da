"""The middle of the page: counts, rates, stages, slices, comparisons and claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trialplate.claims import wording as say
from trialplate.report import charts
from trialplate.report.compared import claim_numbers, comparisons
from trialplate.report.costs import costs
from trialplate.report.data import ReportData
from trialplate.report.drawing import both_widths
from trialplate.report.headline import arm_facts, is_control
from trialplate.report.intervals import shown_rate
from trialplate.report.limits import drawable, too_few
from trialplate.report.reach import reaches
from trialplate.report.skills import skills
from trialplate.report.slices import slices
from trialplate.report.stages import stages
from trialplate.report.text import visible
from trialplate.report.times import times
from trialplate.scoring.analysis import ArmAnalysis


def results(data: ReportData) -> dict[str, Any]:
    """Return what the numbered sections of results show; arms under test come first, controls after them."""
    facts = arm_facts(data)
    arms = sorted(data.analysis.arms, key=lambda arm: is_control(facts[arm.arm]))  # stable: protocol order inside
    flags = {arm.arm: is_control(facts[arm.arm]) for arm in arms}
    return {
        "confidence": say.percent(data.analysis.confidence),
        "denominator": " ".join(
            say.sentence(name)
            for name in (f"denominator_{data.analysis.denominator}", f"errors_{data.analysis.errors_rule}")
        ),
        "others": [name for name in ("measured", "valid") if name != data.analysis.denominator],
        "counts": [_counts(arm, facts[arm.arm]) for arm in arms],
        "forest": _forest(data, arms, flags),
        "stages": stages(data, arms, flags),
        "slices": slices(data, arms, flags),
        "comparisons": comparisons(data),
        "skills": skills(data),
        "reach": reaches(data),
        "times": times(data, arms, flags),
        "costs": costs(data, [arm for arm in arms if not flags[arm.arm]]),
        "claims": [
            {"name": c.name, "verdict": c.verdict.value, "sentence": c.sentence, "numbers": claim_numbers(c.numbers)}
            for c in data.claims
        ],
    }


def _counts(arm: ArmAnalysis, facts: Mapping[str, Any]) -> dict[str, Any]:
    rate = arm.rate
    return {
        "name": arm.arm,
        "role": facts["role"],
        "profile": facts["profile"],
        "state": arm.state,
        "counts": arm.counts,
        "control_rejected": arm.control_rejected,
        "rate": _percent(rate.rate),
        "others": [(f"{other.k}/{other.n}", _percent(other.rate)) for other in arm.other_rates],
        "macro": _percent(arm.macro.rate),
        "wilson": say.interval(rate.wilson_low, rate.wilson_high),
        "exact": say.interval(rate.exact_low, rate.exact_high),
        "error_bounds": _bounds(arm.counts.errored, arm.bounds.error_low, arm.bounds.error_high),
        "rate_bounds": "–"
        if rate.rate is None
        else _bounds(arm.counts.errored, arm.bounds.error_low, arm.bounds.error_high),
        "exclusion_bounds": _bounds(arm.counts.excluded, arm.bounds.exclusion_low, arm.bounds.exclusion_high),
        "families": arm.families.families,
        "clustered": say.interval(arm.families.korn_graubard_low, arm.families.korn_graubard_high),
        "reasons": [(code, say.OUTCOME_REASONS.get(code, code), count) for code, count in arm.reasons.items()],
    }


def _percent(share: float | None) -> str:
    return "–" if share is None else say.percent(share)


def _bounds(count: int, low: float | None, high: float | None) -> str:
    return say.interval(low, high) if count else "–"


def _forest(data: ReportData, arms: Sequence[ArmAnalysis], flags: Mapping[str, bool]) -> dict[str, Any]:
    wanted: dict[str, float] = {}
    for claim in data.claims:
        if claim.kind == "threshold_rate":
            wanted.setdefault(claim.numbers["arm"], claim.numbers["rate"])
    rows = [_rate_row(arm, control=flags[arm.arm], claim_rate=wanted.get(arm.arm)) for arm in arms]
    shown = any(row.rate is not None for row in rows)
    return {
        "drawings": both_widths(charts.forest, rows) if shown else {},
        "missing": None if shown or not arms else _no_rates(arms[0]),
        "claims": any(row.claim_rate is not None for row in rows),
        "controls": any(flags.values()),
        "table": [_rate_line(arm) for arm in arms],
    }


def _rate_row(arm: ArmAnalysis, *, control: bool, claim_rate: float | None) -> charts.RateRow:
    """Return one line of the forest: nothing but its text where there is no rate or too little behind it."""
    shown = shown_rate(arm)
    drawn = shown.rate is not None and drawable(arm.rate.n)
    if shown.rate is None:
        text = f"{arm.rate.k} of {arm.counts.initiated} seen, incomplete"
    else:
        text = f"{arm.rate.k}/{arm.rate.n} · {say.percent(shown.rate)}" + ("" if drawn else " · too few to draw")
    return charts.RateRow(
        label=visible(arm.arm) + (" (control)" if control else ""),
        control=control,
        rate=shown.rate if drawn else None,
        low=shown.low if drawn else None,
        high=shown.high if drawn else None,
        gate_low=shown.gate_low if drawn else None,
        gate_high=shown.gate_high if drawn else None,
        text=text,
        claim_rate=claim_rate,
    )


def _no_rates(arm: ArmAnalysis) -> str:
    """Return why no rate is drawn, from the first arm."""
    if arm.rate.rate is None:
        reasons = say.explained(arm.state_reasons or (str(arm.rate.reason),))
        return say.sentence("no_rate_drawn", what=arm.arm, reasons=reasons)
    return str(too_few(f"the rate of {arm.arm}", arm.rate.n))


def _rate_line(arm: ArmAnalysis) -> dict[str, Any]:
    """Return the numbers behind one line of the forest, and what they rest on."""
    shown = shown_rate(arm)
    return {
        "name": arm.arm,
        "kn": f"{arm.rate.k}/{arm.rate.n}",
        "rate": _percent(shown.rate),
        "read": say.interval(shown.low, shown.high),
        "method": shown.method,
        "gate": say.interval(shown.gate_low, shown.gate_high),
        "gate_method": shown.gate_method,
        "unit": f"{shown.units} {'episodes' if shown.unit == 'episode' else 'families'}",
        "plain": say.interval(arm.rate.wilson_low, arm.rate.wilson_high),
    }
