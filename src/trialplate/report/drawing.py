"""From a Vega-Altair specification to SVG that takes its colours from the page.

Colours in a specification are keys: the finished SVG has ``var(--chart-...)`` in their place, so one drawing serves
light, dark and print. Altair is loaded when a chart is drawn, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

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
WIDE_PX, NARROW_PX, SMALL_PX = 990, 330, 310
"""Widths of a drawing on a desktop, on a phone, and of one of several small ones that stand side by side on both."""


def both_widths(draw: Callable[..., str], rows: Sequence[Any]) -> dict[str, Markup]:
    """Return the drawings of rows for a desktop and for a phone."""
    return {name: Markup(draw(rows, width_px=px)) for name, px in (("wide", WIDE_PX), ("narrow", NARROW_PX))}


def percent_axis(alt: Any, ticks: Sequence[float], *, label: str = "format(datum.value, '.0%')") -> Any:
    """Return an axis of shares with these ticks and no title."""
    return alt.Axis(title=None, values=list(ticks), labelExpr=label, grid=True, domain=False, ticks=False)


def svg(
    layers: Sequence[Any],
    data: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    width_px: int,
    height_px: int,
    pad_left_px: int = 8,
    pad_right_px: int = 8,
) -> str:
    """Return the SVG of layered charts over named data, rows by name.

    Specifications are ours and are checked by the tests, not again here; data stands apart, or it would be copied
    with every step of a specification.
    """
    import altair as alt
    import vl_convert
    from altair.utils.schemapi import debug_mode

    axis = {"labelColor": MUTED, "gridColor": RULE, "labelFontSize": 12, "labelPadding": 6, "labelLimit": 110}
    config = {
        "background": "transparent",
        "font": _FONT,
        "aria": False,
        "view": {"stroke": None},
        "axis": axis | {"titleColor": MUTED, "titleFontSize": 12, "titleFontWeight": "normal", "titlePadding": 4},
        "padding": {"left": pad_left_px, "right": pad_right_px, "top": 4, "bottom": 4},
    }
    with debug_mode(False):
        layer = [chart.to_dict(validate=False) for chart in layers]
    own = ("$schema", "config", "datasets")
    spec = {
        "$schema": alt.SCHEMA_URL,
        "layer": [{key: value for key, value in part.items() if key not in own} for part in layer],
        "width": width_px - 16,
        "height": height_px,
        "config": config,
        "datasets": data,
    }
    drawn: str = vl_convert.vegalite_to_svg(spec)
    for key, variable in _VARIABLES.items():
        drawn = drawn.replace(key, variable)
    return drawn.replace(_FONT, "inherit")
