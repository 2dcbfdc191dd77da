"""What a success took: metered cost and control time of all attempts over successes, against how often arms passed.

Source: statistics specification, sections 2, 3 and 6. Unknown is not zero: one unknown attempt makes a total unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from trialplate import stats
from trialplate.claims import wording as say
from trialplate.claims.sentences import units
from trialplate.report.data import ReportData
from trialplate.report.intervals import shown_rate
from trialplate.report.limits import drawable, too_few
from trialplate.report.spread import SpreadPoint, spread
from trialplate.report.text import visible
from trialplate.scoring.analysis import ArmAnalysis
from trialplate.scoring.comparisons import Comparison, FamilyRatio
from trialplate.scoring.family_evidence import COST, SUCCESSES, TIME, ArmTotals, arm_totals
from trialplate.stats.family_totals import Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What one arm spent in all and per success, in whole units, with Fieller's interval; null with ``reason``."""

    arm: str
    total: float | None
    successes: int
    per_success: float | None
    low: float | None
    high: float | None
    reason: str | None


_MEASURES: Mapping[Measure, tuple[int, float, str, str]] = {
    "cost": (COST, 1e9, "metered cost per success", "metered cost"),
    "time": (TIME, 1e6, "control time per success (s)", "control time"),
}


def costs(data: ReportData, tested: Sequence[ArmAnalysis]) -> list[dict[str, Any]]:
    """Return for cost and for time: the drawing or the sentence in its place, and the table; arms under test only."""
    rated = [arm for arm in tested if arm.rate.rate is not None]
    if not rated:
        return []
    action = data.lock["suite"].get("action")
    plan = data.analysis.plan
    totals = arm_totals(
        {arm.arm: [o for o in data.outcomes if o.arm == arm.arm] for arm in rated},
        plan=plan,
        control_hz=None if action is None else action["control_hz"],
    )
    return [_measure(data, rated, totals, measure) for measure in _MEASURES]


def spent(totals: ArmTotals, measure: Measure, *, confidence: float) -> list[Spent]:
    """Return what each arm spent, with an interval over the units."""
    column, scale, _, _ = _MEASURES[measure]
    found = []
    for at, arm in enumerate(totals.arms):
        won = [int(n) for n in totals.table[:, at, SUCCESSES]]
        paid = [int(n) for n in totals.table[:, at, column]]
        unknown = (at, measure) in totals.unknown
        ratio = stats.fieller_interval([None] if unknown else paid, [0] if unknown else won, confidence=confidence)
        found.append(
            Spent(
                arm=arm,
                total=None if unknown else sum(paid) / scale,
                successes=sum(won),
                per_success=None if ratio.estimate is None else ratio.estimate / scale,
                low=None if ratio.low is None else ratio.low / scale,
                high=None if ratio.high is None else ratio.high / scale,
                reason=ratio.reason,
            )
        )
    return found


def _measure(data: ReportData, rated: Sequence[ArmAnalysis], totals: ArmTotals, measure: Measure) -> dict[str, Any]:
    _, _, title, what = _MEASURES[measure]
    confidence, unit = data.analysis.confidence, data.analysis.plan.unit
    found = spent(totals, measure, confidence=confidence)
    points = _points(rated, found)
    few = too_few(title, len(totals.units), unit="families" if unit == "family" else "trials")
    unknown = ", ".join(one.arm for one in found if one.reason == "unknown_total")
    left_out = [one for one in found if one.per_success is not None or one.reason == "zero_successes"]
    notes = [say.sentence("cost_unknown", what=what, arms=unknown)] if unknown else []
    notes += [
        say.sentence("cost_without", arms=one.arm, reasons=say.explained((str(one.reason),)))
        for one in left_out
        if one.reason is not None
    ]
    shown = bool(points) and few is None
    return {
        "title": title,
        "svg": Markup(spread(points, title=title)) if shown else None,
        "notes": ([few] if few is not None and not unknown else []) + notes,
        "rows": [_row(one) for one in found],
        "known": not unknown or bool(points),
        "ratios": [_ratio(pair, pair.families.cost if measure == "cost" else pair.families.time)
                   for pair in data.analysis.comparisons],
        "note": say.sentence(
            "costs_note", confidence=say.percent(confidence), units=units(len(totals.units), unit)
        ),
    }  # fmt: skip


def _points(rated: Sequence[ArmAnalysis], found: Sequence[Spent]) -> list[SpreadPoint]:
    points = []
    for arm, one in zip(rated, found, strict=True):
        shown = shown_rate(arm)
        ends = one.low, one.high, shown.low, shown.high
        if one.per_success is None or shown.rate is None or None in ends or not drawable(arm.rate.n):
            continue
        low, high, rate_low, rate_high = (float(end) for end in ends if end is not None)
        points.append(
            SpreadPoint(
                label=visible(one.arm), spent=one.per_success, spent_low=low, spent_high=high,
                rate=shown.rate, low=rate_low, high=rate_high,
            )
        )  # fmt: skip
    return points


def _row(one: Spent) -> dict[str, Any]:
    """Return one line of the table."""
    return {
        "name": one.arm,
        "total": "unknown" if one.total is None else _number(one.total),
        "successes": one.successes,
        "each": "–" if one.per_success is None else _number(one.per_success),
        "interval": "–" if one.low is None or one.high is None else f"{_number(one.low)} to {_number(one.high)}",
        "reason": "" if one.reason is None else say.explained((one.reason,)),
    }


def _ratio(pair: Comparison, found: FamilyRatio) -> dict[str, Any]:
    """Return the ratio of two arms with both intervals, and how many draws had none."""
    return {
        "name": f"{pair.a} over {pair.b}",
        "ratio": say.ratio(found.ratio),
        "bootstrap": _ends(found.low, found.high),
        "t": _ends(found.t_low, found.t_high),
        "undefined": found.undefined_draws,
        "reason": "" if found.reason is None else say.explained((found.reason,)),
    }


def _ends(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "–"
    return f"{say.ratio(low, rounding='down')} to {say.ratio(high, rounding='up')}"


def _number(value: float) -> str:
    """Return a quantity with four digits that say something."""
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}".replace(",", "\u202f")
