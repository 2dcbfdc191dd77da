"""Curves: by when episodes passed or had ended without, and what so many pairs could find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trialplate.report.drawing import ARM, CLAIM, CONTROL, INK, MUTED, PAPER, SMALL_PX, percent_axis, svg

_LABEL_PX, _CURVE_PX = 74, 132
_APART = 0.11
"""How far apart two labels must be, as a share of the height."""

Steps = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeCurve:
    """Cumulative shares of one arm's episodes over control time; steps are (time, share) where something happened.

    ``low``, ``high``: interval of the share that passed in the end. ``unit``: ``s``, or ``steps`` without a rate.
    """

    passed: Steps
    failed: Steps
    end: float
    unit: str
    low: float | None
    high: float | None
    passed_text: str
    failed_text: str
    control: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachCurve:
    """Smallest difference that n pairs find, as (n, difference); this run's n, and the registered effect."""

    points: Sequence[tuple[float, float]]
    n: int
    here: float | None
    text: str
    effect: float | None


def time_curve(curve: TimeCurve, *, width_px: int = SMALL_PX) -> str:
    """Return the SVG of one arm: passed as a solid line, ended without as a dashed one, labelled at their ends."""
    import altair as alt

    color = CONTROL if curve.control else ARM
    axis = alt.Axis(
        title=f"control time, {curve.unit}" if curve.unit == "s" else "control steps",
        values=_round_ticks(curve.end), grid=False, domain=True, domainColor=MUTED, tickColor=MUTED,
    )  # fmt: skip
    x = alt.X("x:Q", scale=alt.Scale(domain=[0, curve.end], nice=False), axis=axis)
    y = alt.Y("y:Q", scale=alt.Scale(domain=[0, 1]), axis=percent_axis(alt, [0, 0.5, 1]))
    ends = _last(curve.passed), _last(curve.failed)
    data: dict[str, list[dict[str, Any]]] = {
        "failed": [{"x": time, "y": share} for time, share in _closed(curve.failed, curve.end)],
        "passed": [{"x": time, "y": share} for time, share in _closed(curve.passed, curve.end)],
        "spread": [{"x": curve.end, "low": curve.low, "high": curve.high}] if curve.low is not None else [],
    }
    lines: dict[str, dict[str, Any]] = {
        "failed": {"strokeWidth": 1.8, "strokeDash": [5, 3], "color": MUTED},
        "passed": {"strokeWidth": 2.8, "color": color},
    }
    bar = alt.Chart(alt.NamedData("spread")).mark_rule(strokeWidth=5, color=color, xOffset=5)
    layers = [
        *(
            alt.Chart(alt.NamedData(name)).mark_line(interpolate="step-after", **style).encode(x=x, y=y)
            for name, style in lines.items()
        ),
        bar.encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
    ]
    texts: dict[str, tuple[str, dict[str, Any]]] = {
        "passed label": (curve.passed_text, {"color": INK, "fontWeight": 600}),
        "failed label": (curve.failed_text, {"color": MUTED}),
    }
    for (name, (text, style)), share in zip(texts.items(), _apart(*ends), strict=True):
        data[name] = [{"x": curve.end, "y": share, "text": text}]
        label = alt.Chart(alt.NamedData(name)).mark_text(align="left", dx=13, baseline="middle", fontSize=12, **style)
        layers.append(label.encode(x=x, y=y, text=alt.Text("text:N")))
    size = {"width_px": width_px - 34 - _LABEL_PX, "height_px": _CURVE_PX, "pad_right_px": _LABEL_PX}
    return svg(layers, data, **size)


def reach_curve(curve: ReachCurve, *, width_px: int = SMALL_PX) -> str:
    """Return the SVG of what could be found: the curve, this run as a point, the registered effect as a line."""
    import altair as alt

    most = max(n for n, _ in curve.points)
    top = next(step for step in (0.1, 0.2, 0.3, 0.5, 1.0) if max(share for _, share in curve.points) <= step)
    axis = alt.Axis(
        title="pairs", values=_round_ticks(most), grid=False, domain=True, domainColor=MUTED, tickColor=MUTED
    )
    x = alt.X("x:Q", scale=alt.Scale(domain=[0, most], nice=False), axis=axis)
    label = "datum.value === 0 ? '0' : format(datum.value * 100, '.3~g') + ' pts'"
    y = alt.Y("y:Q", scale=alt.Scale(domain=[0, top]), axis=percent_axis(alt, [0, top / 2, top], label=label))
    data: dict[str, list[dict[str, Any]]] = {
        "curve": [{"x": n, "y": share} for n, share in curve.points],
        "here": [] if curve.here is None else [{"x": curve.n, "y": curve.here, "text": curve.text}],
        "wanted": [],
    }
    if curve.effect is not None and curve.effect <= top:
        data["wanted"] = [{"x": 0, "y": curve.effect, "text": "registered effect"}]
    line, here, wanted = (alt.Chart(alt.NamedData(name)) for name in data)
    text = alt.Text("text:N")
    beside = {"align": "left", "dx": 9, "dy": -9, "fontSize": 12, "fontWeight": 600}
    layers = [
        line.mark_line(strokeWidth=2.5, color=ARM).encode(x=x, y=y),
        wanted.mark_rule(strokeWidth=1.5, strokeDash=[5, 3], color=CLAIM).encode(y=y),
        wanted.mark_text(align="left", dx=5, dy=10, fontSize=12, color=CLAIM).encode(x=x, y=y, text=text),
        here.mark_point(size=90, filled=True, opacity=1, color=ARM, stroke=PAPER).encode(x=x, y=y),
        here.mark_text(color=INK, **beside).encode(x=x, y=y, text=text),
    ]
    return svg(layers, data, width_px=width_px - 40, height_px=_CURVE_PX, pad_right_px=14)


def _closed(steps: Steps, end: float) -> list[tuple[float, float]]:
    """Return the corners of a curve from nothing at 0 to its last value at the end of the axis."""
    return [(0.0, 0.0), *steps, (end, _last(steps))]


def _last(steps: Steps) -> float:
    return steps[-1][1] if steps else 0.0


def _apart(passed: float, failed: float) -> tuple[float, float]:
    """Return where the two labels go, so that neither covers the other nor leaves the picture."""
    gap = _APART - abs(passed - failed)
    if gap <= 0.0:
        return passed, failed
    up, down = (passed, failed) if passed >= failed else (failed, passed)
    up, down = up + gap / 2.0, down - gap / 2.0
    shift = max(0.0, -down) - max(0.0, up - 1.0)
    up, down = up + shift, down + shift
    return (up, down) if passed >= failed else (down, up)


def _round_ticks(end: float) -> list[float]:
    """Return 0 and at most four round numbers up to the end."""
    step: float = next(
        size * scale for scale in (0.1, 1, 10, 100, 1000, 10_000, 100_000) for size in (1, 2, 5)
        if end <= 4.5 * size * scale
    )  # fmt: skip
    return [n * step for n in range(int(end / step + 1e-9) + 1)]
