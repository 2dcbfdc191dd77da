"""Charts with one line for each arm, pair or stage: rates, differences and funnels, readable in black and white."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trialplate.report.drawing import ARM, CLAIM, CONTROL, INK, NARROW_PX, PAPER, SMALL_PX, percent_axis, svg

_ROW_PX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRow:
    """One line of the forest plot; rates in [0, 1]. ``low`` to read, ``gate_low`` for claims; None is not drawn."""

    label: str
    control: bool
    rate: float | None
    low: float | None
    high: float | None
    gate_low: float | None
    gate_high: float | None
    text: str
    claim_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceRow:
    """One registered comparison; differences in [-1, 1]. ``low`` to read, ``t_low`` beside it; None is not drawn.

    ``short``: the text where there is little room. ``margin``: of a registered claim that the first arm is not worse
    by more than that.
    """

    label: str
    difference: float | None
    low: float | None
    high: float | None
    t_low: float | None
    t_high: float | None
    text: str
    short: str
    margin: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage of a funnel; ``low`` and ``high``: interval of passed / entries."""

    stage: str
    reached: int
    passed: int
    low: float | None
    high: float | None


def forest(rows: Sequence[RateRow], *, width_px: int) -> str:
    """Return the SVG of success rates: the interval to read as the thick line, the gate's as the thin with ends."""
    import altair as alt

    values = [
        {
            "row": index, "label": row.label, "text": row.text, "color": CONTROL if row.control else ARM,
            "fill": PAPER if row.control else ARM, "rate": row.rate, "low": row.low, "high": row.high,
            "thin_low": row.gate_low, "thin_high": row.gate_high, "claim": row.claim_rate,
        }
        for index, row in enumerate(rows)
    ]  # fmt: skip
    base = alt.Chart(alt.NamedData("rows")).encode(y=_row_axis(alt, len(rows)))
    measured = base.transform_filter("datum.rate !== null")
    share = alt.X("rate:Q", scale=alt.Scale(domain=[0, 1]), axis=percent_axis(alt, [0, 0.25, 0.5, 0.75, 1]))
    layers = [
        *_row_texts(alt, base, width_px=width_px),
        *_lines(alt, measured.transform_filter("datum.low !== null"), alt.Color("color:N", scale=None)),
        measured.mark_point(size=90, filled=True, opacity=1, strokeWidth=2).encode(
            x=share, fill=alt.Fill("fill:N", scale=None), stroke=alt.Stroke("color:N", scale=None)
        ),
        base.transform_filter("datum.claim !== null")
        .mark_tick(thickness=2.5, size=20, orient="vertical", opacity=1)
        .encode(x=alt.X("claim:Q"), color=alt.value(CLAIM)),
    ]
    return svg(layers, {"rows": values}, width_px=width_px, height_px=_ROW_PX * len(rows))


def differences(rows: Sequence[DifferenceRow], *, width_px: int) -> str:
    """Return the SVG of registered differences with both intervals, zero in the middle."""
    import altair as alt

    limit, small = reach_of(rows), width_px <= NARROW_PX
    values = [
        {
            "row": n, "label": row.label, "text": row.short if small else row.text, "d": row.difference,
            "low": row.low, "high": row.high, "thin_low": row.t_low, "thin_high": row.t_high,
            "margin": None if row.margin is None else -row.margin,
        }
        for n, row in enumerate(rows)
    ]  # fmt: skip
    base = alt.Chart(alt.NamedData("rows")).encode(y=_row_axis(alt, len(rows)))
    ticks = [-limit, -limit / 2, 0, limit / 2, limit]
    axis = percent_axis(alt, ticks, label="datum.value === 0 ? '0' : format(datum.value * 100, '+.3~g') + ' pts'")
    zero = alt.Chart(alt.NamedData("zero")).mark_rule(color=INK, strokeWidth=1.5, strokeDash=[4, 3])
    measured = base.transform_filter("datum.d !== null")
    layers = [
        zero.encode(x=alt.X("zero:Q")),
        *_row_texts(alt, base, width_px=width_px),
        *_lines(alt, measured.transform_filter("datum.low !== null"), alt.value(ARM)),
        measured.mark_point(size=90, filled=True, opacity=1, color=ARM).encode(
            x=alt.X("d:Q", scale=alt.Scale(domain=[-limit, limit]), axis=axis)
        ),
        base.transform_filter("datum.margin !== null")
        .mark_tick(thickness=2.5, size=24, orient="vertical", opacity=1)
        .encode(x=alt.X("margin:Q"), color=alt.value(CLAIM)),
    ]
    data: dict[str, list[dict[str, Any]]] = {"rows": values, "zero": [{"zero": 0}]}
    return svg(layers, data, width_px=width_px, height_px=_ROW_PX * len(rows))


def reach_of(rows: Sequence[DifferenceRow]) -> float:
    """Return how far from zero the axis goes: to the next round number behind every end."""
    ends = [end for row in rows for end in (row.low, row.high, row.t_low, row.t_high, row.margin, row.difference)]
    reach = max((abs(end) for end in ends if end is not None), default=0.0)
    return next(step for step in (0.1, 0.2, 0.3, 0.5, 1.0) if reach <= step)


def funnel(rows: Sequence[StageRow], *, entries: int, control: bool, width_px: int = SMALL_PX) -> str:
    """Return the SVG of one arm's stages: an outline for what reached a stage, a bar and interval for what passed.

    ``entries``: measured episodes, at least one.
    """
    import altair as alt

    values = [
        {
            "stage": row.stage, "reached": row.reached, "passed": row.passed, "text": str(row.passed),
            "low": None if row.low is None else row.low * entries,
            "high": None if row.high is None else row.high * entries,
            "end": max(row.reached, row.high * entries if row.high is not None else 0.0),
        }
        for row in rows
    ]  # fmt: skip
    color = CONTROL if control else ARM
    y = alt.Y("stage:N", sort=[row.stage for row in rows], axis=alt.Axis(title=None, domain=False, ticks=False))
    scale = alt.Scale(domain=[0, entries])
    reached, passed, end = (alt.X(f"{name}:Q", scale=scale, axis=None) for name in ("reached", "passed", "end"))
    base = alt.Chart(alt.NamedData("rows")).encode(y=y)
    spread = base.transform_filter("datum.low !== null")
    layers = [
        base.mark_bar(height=16, fill=PAPER, stroke=color, strokeWidth=1).encode(x=reached),
        base.mark_bar(height=16, fill=color, stroke=color, strokeWidth=1).encode(x=passed),
        spread.mark_rule(strokeWidth=5, color=PAPER).encode(
            x=alt.X("low:Q", scale=scale, axis=None), x2=alt.X2("high:Q")
        ),
        spread.mark_rule(strokeWidth=2, color=INK).encode(
            x=alt.X("low:Q", scale=scale, axis=None), x2=alt.X2("high:Q")
        ),
        base.mark_text(align="left", dx=6, color=INK, fontSize=12, fontWeight=600).encode(
            x=end, text=alt.Text("text:N")
        ),
    ]
    label_px, number_px = 92, 40
    return svg(
        layers,
        {"rows": values},
        width_px=width_px - label_px - number_px,
        height_px=26 * len(rows),
        pad_right_px=number_px,
    )


def _lines(alt: Any, base: Any, color: Any) -> list[Any]:
    """The thin line with ends, where there is one, and the thick one over it."""
    thin = base.transform_filter("datum.thin_low !== null")
    ends = (
        thin.mark_tick(thickness=1.2, size=12, orient="vertical", opacity=1).encode(x=alt.X(f"{end}:Q"), color=color)
        for end in ("thin_low", "thin_high")
    )
    return [
        thin.mark_rule(strokeWidth=1.2).encode(x=alt.X("thin_low:Q"), x2=alt.X2("thin_high:Q"), color=color),
        *ends,
        base.mark_rule(strokeWidth=5).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), color=color),
    ]


def _row_axis(alt: Any, count: int) -> Any:
    scale = alt.Scale(domain=[-0.5, count - 0.5], reverse=True, nice=False)
    return alt.Y("row:Q", scale=scale, axis=None)


def _row_texts(alt: Any, base: Any, *, width_px: int) -> list[Any]:
    """Label at the left and numbers at the right, both above the line of the row and over whatever lies behind."""
    found = []
    for ground in ({"stroke": PAPER, "strokeWidth": 4, "strokeJoin": "round"}, {}):
        style = {"dy": -15, "baseline": "middle", "fontSize": 13, "color": INK, **ground}
        label = base.mark_text(align="left", fontWeight=600, **style)
        numbers = base.mark_text(align="right", **style)
        found += [
            label.encode(x=alt.value(5), text=alt.Text("label:N")),
            numbers.encode(x=alt.value(width_px - 21), text=alt.Text("text:N")),
        ]
    return found
