"""The first thing on the page: each registered comparison in one line, by how much, and how sure."""

from __future__ import annotations

from typing import Any

from trialplate.claims import chart_wording as words
from trialplate.claims import wording as say
from trialplate.report.charts import DifferenceRow, reach_of
from trialplate.report.compared import difference_row
from trialplate.report.data import ReportData
from trialplate.scoring.comparisons import Comparison

GAUGE_PX = 240


def answers(data: ReportData) -> list[dict[str, Any]]:
    """Return what the head says of each registered comparison, in the order of the protocol."""
    unit = data.analysis.plan.unit
    drawn = [difference_row(pair, unit, data.claims) for pair in data.analysis.comparisons]
    reach = reach_of(drawn)
    return [_answer(pair, row, unit, reach) for pair, row in zip(data.analysis.comparisons, drawn, strict=True)]


def _answer(pair: Comparison, row: DifferenceRow, unit: str, reach: float) -> dict[str, Any]:
    difference = pair.difference if unit == "episode" else pair.families.difference
    known = difference is not None
    open_question = pair.verdict == "NOT_DISTINGUISHED"
    return {
        "verdict": pair.verdict,
        "badge": f"{words.VERDICT_MARKS[pair.verdict]} {pair.verdict.replace('_', ' ')}",
        "line": words.headline(pair),
        "points": say.points(difference) if difference is not None else None,
        "effect": say.sentence("headline_effect", a=pair.a, b=pair.b),
        "intervals": words.headline_intervals(pair, unit=unit) if known else (),
        "size": words.headline_size(pair, unit=unit) if known else None,
        "detectable": words.headline_detectable(pair, unit=unit) if open_question else None,
        "differs": say.sentence("headline_differs", differs="; ".join(pair.differs)) if not known else None,
        "gauge": _gauge(row, reach),
    }


def _gauge(row: DifferenceRow, reach: float) -> dict[str, float] | None:
    """Return the places of estimate and ends on a scale from -reach to reach, None where nothing is drawn."""
    if row.difference is None or row.low is None or row.high is None:
        return None
    places = {"at": row.difference, "low": row.low, "high": row.high}
    if row.t_low is not None and row.t_high is not None:
        places |= {"t_low": row.t_low, "t_high": row.t_high}
    return {name: round((value / reach + 1.0) / 2.0 * GAUGE_PX, 2) for name, value in places.items()} | {
        "reach": reach
    }
