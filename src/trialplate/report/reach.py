"""What could be detected: the smallest difference that so many pairs find, for each registered comparison.

Source: statistics specification, section 9 (Connor's formula, inverted). None of it is the observed effect.
"""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup

from trialplate import stats
from trialplate.claims import wording as say
from trialplate.report.curves import ReachCurve, reach_curve
from trialplate.report.data import ReportData
from trialplate.report.limits import MIN_DRAWN, too_few
from trialplate.scoring.comparisons import Comparison
from trialplate.spec.plan import AnalysisPlan

POINTS = 48
MULTIPLES = (0.5, 1.0, 2.0, 4.0)


def reaches(data: ReportData) -> dict[str, Any]:
    """Return the curve of each comparison, the sentences in place of those that are not drawn, and their table.

    Comparisons of which the same holds, as with a registered share of pairs that differ, share one curve.
    """
    plan = data.analysis.plan
    groups: dict[tuple[int, float | None], list[Comparison]] = {}
    for pair in data.analysis.comparisons:
        groups.setdefault((pair.detection.n, pair.detection.discordance), []).append(pair)
    drawings, table = [], []
    for pairs in groups.values():
        found = pairs[0].detection
        names = ", ".join(f"{pair.a} minus {pair.b}" for pair in pairs)
        title = {"name": names, "n": found.n, "source": _source(pairs[0])}
        curve, missing = _curve(pairs[0], plan)
        drawings.append(title | {"svg": Markup(reach_curve(curve)) if curve else None, "missing": missing})
        table.append(
            title | {"cells": _cells(pairs[0], plan), "needed": "–" if found.needed is None else found.needed}
        )
    target = say.percent(plan.target_power)
    return {"drawings": drawings, "table": table, "note": say.sentence("reach_note", target=target)}


def detectable(n: float, discordance: float, plan: AnalysisPlan) -> float | None:
    """Return the smallest difference that n pairs find under a plan, None where no difference is large enough."""
    return stats.minimum_detectable_difference(
        n, discordance, deff=plan.design_effect, alpha=plan.pair_alpha, power=plan.target_power
    ).value


def _source(pair: Comparison) -> str | None:
    found = pair.detection
    if found.discordance is None:
        return None
    source = say.sentence(found.discordance_from)
    return say.sentence("reach_source", share=say.percent(found.discordance), source=source)


def _curve(pair: Comparison, plan: AnalysisPlan) -> tuple[ReachCurve | None, str | None]:
    """Return the curve of a comparison, or why there is none."""
    found = pair.detection
    few = too_few("what could be found", found.n, unit="pairs")
    if few is not None:
        return None, few
    if not found.discordance:
        return None, say.sentence("reach_undefined")
    most = _most(found.n, found.needed)
    sizes = sorted({found.n, *(round(MIN_DRAWN + (most - MIN_DRAWN) * at / POINTS) for at in range(POINTS + 1))})
    points = [(n, detectable(n, found.discordance, plan)) for n in sizes]
    known = [(float(n), size) for n, size in points if size is not None]
    if not known:
        return None, say.sentence("reach_beyond", n=most)
    text = "" if found.detectable is None else f"{found.n} pairs: {_points(found.detectable)}"
    curve = ReachCurve(points=known, n=found.n, here=found.detectable, text=text, effect=found.effect)
    return curve, None


def _most(n: int, needed: int | None) -> int:
    """Return where the axis ends: four times this run, or behind what the registered effect needs, within reason."""
    return max(4 * n, min(20 * n, math.ceil(1.2 * (needed or 0))))


def _cells(pair: Comparison, plan: AnalysisPlan) -> list[tuple[int, str]]:
    """Return (pairs, smallest difference) for half, once, twice and four times the pairs of this run."""
    found = pair.detection
    cells = []
    for multiple in MULTIPLES:
        n = math.floor(found.n * multiple)
        size = detectable(n, found.discordance, plan) if n and found.discordance else None
        cells.append((n, "–" if size is None else _points(size)))
    return cells


def _points(size: float) -> str:
    return say.points(size, rounding="up").removeprefix("+")
