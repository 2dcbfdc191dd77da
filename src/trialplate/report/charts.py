"""Charts as SVG that takes its colours from the page: Vega-Altair specifications, drawn by vl-convert.

Colours in a specification are keys: the finished SVG has ``var(--chart-...)`` in their place, so one drawing serves
light, dark and print. Altair is loaded when a chart is drawn, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

INK, MUTED, RULE, ARM, CONTROL, CLAIM, PAPER = (f"#0a0b0{n}" for n in range(1, 8))
_VARIABLES = {
    INK: "var(--chart-ink)",
    MUTED: "var(--chart-muted)",
    RULE: "var(--chart-rule)",
    ARM: "var(--chart-arm)",
    CONTROL: "var(--chart-control)",
    CLAIM: "var(--chart-claim)",
    PAPER: "var(--chart-paper)",
}
_FONT = "trialplate-font"
WIDE_PX, NARROW_PX = 990, 330
_ROW_PX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRow:
    """One line of the forest plot; rates in [0, 1]. ``note`` stands where there is no rate."""

    label: str
    control: bool
    rate: float | None
    wilson_low: float | None
    wilson_high: float | None
    exact_low: float | None
    exact_high: float | None
    text: str
    claim_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceRow:
    """One registered comparison; differences in [-1, 1]."""

    label: str
    difference: float | None
    low: float | None
    high: float | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage of a funnel."""

    stage: str
    reached: int
    passed: int


def forest(rows: Sequence[RateRow], *, width_px: int) -> str:
    """Return the SVG of success rates: Wilson as the thick line, Clopper-Pearson as the thin one with ends."""
    import altair as alt

    values = [
        {
            "row": index,
            "label": row.label,
            "text": row.text,
            "color": CONTROL if row.control else ARM,
            "fill": PAPER if row.control else ARM,
            "rate": row.rate,
            "wl": row.wilson_low,
            "wh": row.wilson_high,
            "el": row.exact_low,
            "eh": row.exact_high,
            "claim": row.claim_rate,
        }
        for index, row in enumerate(rows)
    ]
    base = alt.Chart(alt.Data(values=values)).encode(y=_row_axis(alt, len(rows)))
    measured = base.transform_filter("datum.rate !== null")
    color = alt.Color("color:N", scale=None)
    share = alt.X("rate:Q", scale=alt.Scale(domain=[0, 1]), axis=_percent_axis(alt, [0, 0.25, 0.5, 0.75, 1]))
    layers = [
        *_row_texts(alt, base, width_px=width_px),
        measured.mark_rule(strokeWidth=1.2).encode(x=alt.X("el:Q"), x2="eh:Q", color=color),
        *(
            measured.mark_tick(thickness=1.2, size=10, orient="vertical", opacity=1).encode(
                x=alt.X(f"{end}:Q"), color=color
            )
            for end in ("el", "eh")
        ),
        measured.mark_rule(strokeWidth=5).encode(x=alt.X("wl:Q"), x2="wh:Q", color=color),
        measured.mark_point(size=90, filled=True, opacity=1, strokeWidth=2).encode(
            x=share, fill=alt.Fill("fill:N", scale=None), stroke=alt.Stroke("color:N", scale=None)
        ),
        base.transform_filter("datum.claim !== null")
        .mark_tick(thickness=2.5, size=20, orient="vertical", opacity=1)
        .encode(x=alt.X("claim:Q"), color=alt.value(CLAIM)),
    ]
    return _svg(alt.layer(*layers), width_px=width_px, height_px=_ROW_PX * len(rows))


def differences(rows: Sequence[DifferenceRow], *, width_px: int) -> str:
    """Return the SVG of registered differences with their Tango intervals, zero in the middle."""
    import altair as alt

    reach = max((abs(end) for row in rows for end in (row.low, row.high) if end is not None), default=0.0)
    limit = next(step for step in (0.1, 0.25, 0.5, 1.0) if reach <= step)
    values = [
        {"row": n, "label": row.label, "text": row.text, "d": row.difference, "low": row.low, "high": row.high}
        for n, row in enumerate(rows)
    ]
    base = alt.Chart(alt.Data(values=values)).encode(y=_row_axis(alt, len(rows)))
    ticks = [-limit, -limit / 2, 0, limit / 2, limit]
    axis = _percent_axis(alt, ticks, label="datum.value === 0 ? '0' : format(datum.value * 100, '+.3~g') + ' pts'")
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color=INK, strokeWidth=1, strokeDash=[3, 3])
    measured = base.transform_filter("datum.d !== null")
    layers = [
        zero.encode(x=alt.X("zero:Q")),
        *_row_texts(alt, base, width_px=width_px),
        measured.mark_rule(strokeWidth=5, color=ARM).encode(x=alt.X("low:Q"), x2="high:Q"),
        measured.mark_point(size=90, filled=True, opacity=1, color=ARM).encode(
            x=alt.X("d:Q", scale=alt.Scale(domain=[-limit, limit]), axis=axis)
        ),
    ]
    return _svg(alt.layer(*layers), width_px=width_px, height_px=_ROW_PX * len(rows))


def funnel(rows: Sequence[StageRow], *, entries: int, control: bool, width_px: int = 300) -> str:
    """Return the SVG of one arm's stages: an outline for what reached a stage, a bar for what passed it."""
    import altair as alt

    values = [
        {"row": n, "stage": row.stage, "reached": row.reached, "passed": row.passed, "text": str(row.passed)}
        for n, row in enumerate(rows)
    ]
    color = CONTROL if control else ARM
    y = alt.Y("stage:N", sort=[row.stage for row in rows], axis=alt.Axis(title=None, domain=False, ticks=False))
    scale = alt.Scale(domain=[0, max(entries, 1)])
    reached, passed = (alt.X(f"{name}:Q", scale=scale, axis=None) for name in ("reached", "passed"))
    base = alt.Chart(alt.Data(values=values)).encode(y=y)
    layers = [
        base.mark_bar(height=16, fill=PAPER, stroke=color, strokeWidth=1).encode(x=reached),
        base.mark_bar(height=16, fill=color, stroke=color, strokeWidth=1).encode(x=passed),
        base.mark_text(align="left", dx=6, color=INK, fontSize=12, fontWeight=600).encode(x=reached, text="text:N"),
    ]
    label_px = 92
    return _svg(alt.layer(*layers), width_px=width_px - label_px - 34, height_px=26 * len(rows), pad_right_px=34)


def _row_axis(alt: Any, count: int) -> Any:
    scale = alt.Scale(domain=[-0.5, count - 0.5], reverse=True, nice=False)
    return alt.Y("row:Q", scale=scale, axis=None)


def _row_texts(alt: Any, base: Any, *, width_px: int) -> list[Any]:
    """Label at the left and numbers at the right, both above the line of the row."""
    style = {"dy": -15, "baseline": "middle", "fontSize": 13}
    return [
        base.mark_text(align="left", color=INK, fontWeight=600, **style).encode(x=alt.value(5), text="label:N"),
        base.mark_text(align="right", color=INK, **style).encode(x=alt.value(width_px - 21), text="text:N"),
    ]


def _percent_axis(alt: Any, ticks: Sequence[float], *, label: str = "format(datum.value, '.0%')") -> Any:
    return alt.Axis(title=None, values=list(ticks), labelExpr=label, grid=True, domain=False, ticks=False)


def _svg(chart: Any, *, width_px: int, height_px: int, pad_right_px: int = 8) -> str:
    import vl_convert

    axis = {"labelColor": MUTED, "gridColor": RULE, "labelFontSize": 12, "labelPadding": 6, "labelLimit": 110}
    config = {
        "background": "transparent",
        "font": _FONT,
        "aria": False,
        "view": {"stroke": None},
        "axis": axis,
        "padding": {"left": 8, "right": pad_right_px, "top": 4, "bottom": 4},
    }
    spec = chart.properties(width=width_px - 16, height=height_px).configure(**config).to_dict()
    svg: str = vl_convert.vegalite_to_svg(spec)
    for key, variable in _VARIABLES.items():
        svg = svg.replace(key, variable)
    return svg.replace(_FONT, "inherit")
