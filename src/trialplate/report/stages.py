"""Where the attempts of each arm end, stage by stage, with intervals; and what each stage asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from trialplate import stats
from trialplate.claims import wording as say
from trialplate.report import charts
from trialplate.report.data import ReportData
from trialplate.report.limits import drawable, too_few
from trialplate.report.text import condition_text, visible
from trialplate.scoring.analysis import ArmAnalysis


def stages(data: ReportData, arms: Sequence[ArmAnalysis], flags: Mapping[str, bool]) -> dict[str, Any]:
    """Return the funnels of the arms, the sentences in place of those that are not drawn, and their table."""
    confidence = data.analysis.confidence
    drawings, table = [], []
    for arm in arms:
        rows = _rows(arm, confidence)
        entries = arm.funnel.entries
        title = {"name": arm.arm, "control": flags[arm.arm], "entries": entries, "state": arm.state}
        if rows and entries:
            svg = None
            if drawable(entries):
                svg = Markup(charts.funnel(rows, entries=entries, control=flags[arm.arm]))
            drawings.append(title | {"svg": svg, "missing": too_few(f"the funnel of {arm.arm}", entries)})
        table.append(title | {"rows": [_line(row, arm, confidence) for row in rows]})
    return {
        "drawings": drawings,
        "table": table,
        "chain": _chain(data),
        "note": say.sentence("funnel_intervals", confidence=say.percent(confidence)),
    }


def _rows(arm: ArmAnalysis, confidence: float) -> list[charts.StageRow]:
    funnel = arm.funnel
    found = []
    for stage, reached, passed in zip(funnel.stages, funnel.reached, funnel.passed, strict=True):
        spread = stats.wilson_interval(passed, funnel.entries, confidence=confidence)
        known = arm.state != "ERROR"  # what was seen so far is no estimate
        found.append(
            charts.StageRow(
                stage=visible(stage),
                reached=reached,
                passed=passed,
                low=spread.low if known else None,
                high=spread.high if known else None,
            )
        )
    return found


def _line(row: charts.StageRow, arm: ArmAnalysis, confidence: float) -> dict[str, Any]:
    """Return the numbers of one stage: passed of those that came to it, and of all measured."""
    line: dict[str, Any] = {"stage": row.stage, "reached": row.reached, "passed": row.passed}
    if arm.state == "ERROR":
        return line | {"of_reached": "–", "of_reached_interval": "–", "of_all": "–", "of_all_interval": "–"}
    ahead = stats.wilson_interval(row.passed, row.reached, confidence=confidence)
    return line | {
        "of_reached": "–" if ahead.estimate is None else say.percent(ahead.estimate),
        "of_reached_interval": say.interval(ahead.low, ahead.high),
        "of_all": say.percent(row.passed / arm.funnel.entries) if arm.funnel.entries else "–",
        "of_all_interval": say.interval(row.low, row.high),
    }


def _chain(data: ReportData) -> list[dict[str, str]]:
    """Return name, meaning and condition of each stage, as they stand in the lock."""
    meanings = dict(data.suite.stages)
    found = []
    chain = data.lock["suite"]["chain"]
    if chain is None:  # every skill has a ladder of its own
        return [{"name": name, "meaning": meaning, "condition": ""} for name, meaning in data.suite.stages]
    for stage in chain["stages"]:
        parts = [condition_text(condition) for condition in stage["when"]]
        role = stage["attachment"]
        if role == "held":
            parts.insert(0, "held")
        elif role == "released":
            parts.insert(0, "let go by an opening command")
        elif role == "free":
            parts.insert(0, "not held")
        if stage["hold_steps"] > 1:
            parts.append(f"for {stage['hold_steps']} steps")
        if stage["keep"]:
            parts.append("then kept: " + ", ".join(condition_text(condition) for condition in stage["keep"]))
        name = stage["name"]
        found.append({"name": name, "meaning": meanings.get(name, stage["meaning"]), "condition": "; ".join(parts)})
    return found
