"""Success against cost or time per success: a point for each arm, with both its intervals, named beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trialplate.report.drawing import ARM, INK, MUTED, PAPER, percent_axis, svg

WIDTH_PX = 470
_HEIGHT_PX, _TEXT_PX, _LINE_PX = 240, 7.0, 15.0
_SHIFTS = (
    (9, -10, "left"),
    (9, 12, "left"),
    (-9, -10, "right"),
    (-9, 12, "right"),
    (9, -26, "left"),
    (9, 28, "left"),
)
"""Where a name may stand beside its point: to the right and the left of it, in px, and how it is aligned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadPoint:
    """One arm: what a success took, with its interval, and the rate of successes with its own."""

    label: str
    spent: float
    spent_low: float
    spent_high: float
    rate: float
    low: float
    high: float


def spread(points: Sequence[SpreadPoint], *, title: str, width_px: int = WIDTH_PX) -> str:
    """Return the SVG of arms by what a success took (x) and how often they passed (y)."""
    import altair as alt

    most = _end(max(point.spent_high for point in points))
    inner_px = width_px - 60
    values = [
        {
            "x": p.spent, "x1": p.spent_low, "x2": p.spent_high, "y": p.rate, "y1": p.low, "y2": p.high,
            "label": p.label,
        }
        for p in points
    ]  # fmt: skip
    base = alt.Chart(alt.NamedData("rows"))
    axis = alt.Axis(title=title, grid=True, domain=False, ticks=False, tickCount=5, format="~g")
    x = alt.X("x:Q", scale=alt.Scale(domain=[0, most], nice=False), axis=axis)
    y = alt.Y("y:Q", scale=alt.Scale(domain=[0, 1]), axis=percent_axis(alt, [0, 0.25, 0.5, 0.75, 1]))
    layers = [
        base.mark_rule(strokeWidth=1.6, color=MUTED).encode(x=alt.X("x1:Q"), x2=alt.X2("x2:Q"), y=y),
        base.mark_rule(strokeWidth=1.6, color=MUTED).encode(x=x, y=alt.Y("y1:Q"), y2=alt.Y2("y2:Q")),
        base.mark_point(size=90, filled=True, opacity=1, fill=ARM, stroke=PAPER, strokeWidth=1.5).encode(x=x, y=y),
    ]
    places = _places(points, most=most, width_px=inner_px)
    for number, (dx, dy, align) in enumerate(places):
        one = alt.Chart(alt.NamedData(f"row {number}"))
        style = {"dx": dx, "dy": dy, "align": align, "fontSize": 12.5, "fontWeight": 600, "baseline": "middle"}
        layers.append(one.mark_text(color=INK, **style).encode(x=x, y=y, text=alt.Text("label:N")))
    data = {"rows": values} | {f"row {number}": [value] for number, value in enumerate(values)}
    return svg(layers, data, width_px=inner_px, height_px=_HEIGHT_PX, pad_right_px=14)


def _places(points: Sequence[SpreadPoint], *, most: float, width_px: int) -> list[tuple[int, int, str]]:
    """Return for each point where its name stands: the first place inside the picture that covers no other name."""
    taken: list[tuple[float, float, float]] = []
    chosen = []
    for point in points:
        at_x, at_y = point.spent / most * width_px, (1.0 - point.rate) * _HEIGHT_PX
        wide = len(point.label) * _TEXT_PX
        boxes = []
        for dx, dy, align in _SHIFTS:
            left = at_x + dx if align == "left" else at_x + dx - wide
            outside = max(0.0, -left) + max(0.0, left + wide - width_px)
            hits = sum(
                left < other_left + other_wide and other_left < left + wide and abs(other_y - (at_y + dy)) < _LINE_PX
                for other_left, other_wide, other_y in taken
            )
            boxes.append((hits * 1000.0 + outside, (dx, dy, align), (left, wide, at_y + dy)))
        _, place, box = min(boxes, key=lambda one: one[0])
        chosen.append(place)
        taken.append(box)
    return chosen


def _end(reach: float) -> float:
    """Return a round number behind every interval."""
    if reach <= 0.0:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(reach))
    return next(size * scale for size in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if reach <= size * scale)
