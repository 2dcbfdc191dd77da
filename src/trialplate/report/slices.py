"""Successes per domain and variant, an arm a column: counts in every cell, and a bar where they suffice for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trialplate.claims import wording as say
from trialplate.report.data import ReportData
from trialplate.report.limits import MIN_DRAWN, drawable
from trialplate.scoring.analysis import ArmAnalysis, Slice


def slices(data: ReportData, arms: Sequence[ArmAnalysis], flags: Mapping[str, bool]) -> dict[str, Any]:
    """Return a table of domains with their variants as rows, arms as columns; a cell is None where nothing ran."""
    cells: dict[tuple[str, str | None], dict[str, Slice]] = {}
    for arm in arms:
        for part in (*arm.domains, *arm.variants):
            cells.setdefault((part.domain, part.variant), {})[arm.arm] = part
    domains = list(dict.fromkeys(domain for domain, _ in cells))
    rows: list[dict[str, Any]] = []
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
    few = any(cell is not None and not cell["drawn"] for row in rows for cell in row["cells"])
    note = say.sentence("few_cells", minimum=MIN_DRAWN) if few else None
    return {"columns": columns, "rows": rows, "few": note}


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
        "drawn": drawable(rate.n),
        "rate": "–" if rate.rate is None else say.percent(rate.rate),
        "wilson": say.interval(rate.wilson_low, rate.wilson_high),
        "exact": say.interval(rate.exact_low, rate.exact_high),
        "errored": part.counts.errored,
        "excluded": part.counts.excluded,
        "initiated": part.counts.initiated,
    }
