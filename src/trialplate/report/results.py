"""The middle of the page: counts, rates, stages, slices, comparisons and claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from trialplate.claims import wording as say
from trialplate.report import charts
from trialplate.report.compared import claim_numbers, comparisons
from trialplate.report.data import ReportData
from trialplate.report.headline import arm_facts, is_control
from trialplate.report.text import condition_text, visible
from trialplate.scoring.analysis import ArmAnalysis, Slice


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
        "stages": _stages(data, arms, flags),
        "slices": _slices(data, arms, flags),
        "comparisons": comparisons(data),
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
    rows = [
        charts.RateRow(
            label=visible(arm.arm) + (" (control)" if flags[arm.arm] else ""),
            control=flags[arm.arm],
            rate=arm.rate.rate,
            wilson_low=arm.rate.wilson_low,
            wilson_high=arm.rate.wilson_high,
            exact_low=arm.rate.exact_low,
            exact_high=arm.rate.exact_high,
            text=_share(arm),
            claim_rate=wanted.get(arm.arm),
        )
        for arm in arms
    ]
    return {"drawings": _both_widths(charts.forest, rows), "claims": bool(wanted), "controls": any(flags.values())}


def _share(arm: ArmAnalysis) -> str:
    if arm.rate.rate is None:
        return f"{arm.rate.k} of {arm.counts.initiated} seen, incomplete"
    return f"{arm.rate.k}/{arm.rate.n} · {say.percent(arm.rate.rate)}"


def _both_widths(draw: Any, rows: Sequence[Any]) -> dict[str, Markup]:
    widths = {"wide": charts.WIDE_PX, "narrow": charts.NARROW_PX}
    return {name: Markup(draw(rows, width_px=width_px)) for name, width_px in widths.items()}


def _stages(data: ReportData, arms: Sequence[ArmAnalysis], flags: Mapping[str, bool]) -> dict[str, Any]:
    drawings, table = [], []
    for arm in arms:
        funnel = arm.funnel
        rows = [
            charts.StageRow(stage=visible(stage), reached=reached, passed=passed)
            for stage, reached, passed in zip(funnel.stages, funnel.reached, funnel.passed, strict=True)
        ]
        title = {"name": arm.arm, "control": flags[arm.arm], "entries": funnel.entries, "state": arm.state}
        if funnel.entries:
            svg = charts.funnel(rows, entries=funnel.entries, control=flags[arm.arm])
            drawings.append(title | {"svg": Markup(svg)})
        table.append(title | {"rows": [(row, _stage_rate(row, arm)) for row in rows]})
    return {"drawings": drawings, "table": table, "chain": _chain(data)}


def _stage_rate(row: charts.StageRow, arm: ArmAnalysis) -> str:
    if not row.reached or arm.state == "ERROR":
        return "–"
    return say.percent(row.passed / row.reached)


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


def _slices(data: ReportData, arms: Sequence[ArmAnalysis], flags: Mapping[str, bool]) -> dict[str, Any]:
    """Return a table of domains with their variants as rows, arms as columns; a cell is None where nothing ran."""
    cells: dict[tuple[str, str | None], dict[str, Slice]] = {}
    for arm in arms:
        for part in (*arm.domains, *arm.variants):
            cells.setdefault((part.domain, part.variant), {})[arm.arm] = part
    domains = list(dict.fromkeys(domain for domain, _ in cells))
    rows = []
    for domain in domains:
        keys = [key for key in cells if key[0] == domain]
        for key in sorted(keys, key=lambda key: key[1] is not None):  # the whole domain first
            rows.append(
                {
                    "domain": domain,
                    "variant": key[1],
                    "cells": [_cell(cells[key].get(arm.arm), arm.arm, control=flags[arm.arm]) for arm in arms],
                }
            )
    columns = [{"name": arm.arm, "control": flags[arm.arm]} for arm in arms]
    return {"columns": columns, "rows": rows}


def _cell(part: Slice | None, arm: str, *, control: bool) -> dict[str, Any] | None:
    if part is None:
        return None
    rate = part.rate
    return {
        "arm": arm,
        "k": rate.k,
        "n": rate.n,
        "share": None if rate.rate is None else round(rate.rate * 100.0, 1),
        "control": control,
        "rate": "–" if rate.rate is None else say.percent(rate.rate),
        "wilson": say.interval(rate.wilson_low, rate.wilson_high),
        "exact": say.interval(rate.exact_low, rate.exact_high),
        "errored": part.counts.errored,
        "excluded": part.counts.excluded,
        "initiated": part.counts.initiated,
    }
