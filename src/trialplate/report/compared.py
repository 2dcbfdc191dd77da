"""The comparisons and the claims of a page: each in its only permitted sentence, with its numbers in a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trialplate.claims import Claim
from trialplate.claims import wording as say
from trialplate.claims.chart_wording import read_interval
from trialplate.claims.sentences import units, verdict_sentence
from trialplate.report import charts
from trialplate.report.data import ReportData
from trialplate.report.drawing import both_widths
from trialplate.report.limits import drawable, too_few
from trialplate.report.text import visible
from trialplate.scoring.comparisons import Comparison


def comparisons(data: ReportData) -> dict[str, Any]:
    """Return what the section of registered comparisons shows; no rows where none was registered."""
    pairs = data.analysis.comparisons
    if not pairs:
        return {"rows": [], "drawings": {}}
    unit = data.analysis.plan.unit
    rows = [
        {"pair": pair, "sentence": verdict_sentence(pair, unit=unit), "numbers": _numbers(pair, unit)}
        for pair in pairs
    ]
    drawn = [difference_row(pair, unit, data.claims) for pair in pairs]
    shown = any(row.difference is not None for row in drawn)
    return {
        "rows": rows,
        "header": HEADER,
        "drawings": both_widths(charts.differences, drawn) if shown else {},
        "missing": None if shown else _not_drawn(pairs[0], unit),
        "margins": any(row.margin is not None for row in drawn),
        "reading": "Tango" if unit == "episode" else "bootstrap",
        "confidence": say.percent(pairs[0].confidence),
        "note": say.sentence("comparison_note"),
        "method": say.sentence(
            f"comparison_{unit}",
            confidence=say.percent(pairs[0].confidence),
            draws=data.analysis.plan.draws,
            rule=data.analysis.plan.quantile_rule,
        ),
    }


HEADER = (
    "A − B", "Verdict", "Difference, points", "Bootstrap interval", "t interval", "Tango interval", "Sign-flip p",
    "McNemar p", "Drawn", "Pairs", "Smallest to be found, points", "Cost per success, ratio",
    "Control time per success, ratio",
)  # fmt: skip


def _numbers(pair: Comparison, unit: str) -> list[str]:
    found = pair.families
    detectable = pair.detection.detectable
    return [
        f"{pair.a} − {pair.b}",
        pair.verdict,
        "–" if found.difference is None else say.points(found.difference),
        _interval(found.low, found.high),
        _interval(found.t_low, found.t_high),
        _interval(pair.low, pair.high),
        "–" if found.adjusted_p is None else say.p_value(found.adjusted_p),
        "–" if pair.adjusted_p is None else say.p_value(pair.adjusted_p),
        units(found.families, unit),
        str(pair.pairs),
        "–" if detectable is None else say.points(detectable, rounding="up").removeprefix("+"),
        _ratio(found.cost.ratio, found.cost.low, found.cost.high),
        _ratio(found.time.ratio, found.time.low, found.time.high),
    ]


def _interval(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "–"
    return f"{say.points(low, rounding='down')} to {say.points(high, rounding='up')}"


def _ratio(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return say.ratio(value)
    return f"{say.ratio(value)} ({say.ratio(low, rounding='down')} to {say.ratio(high, rounding='up')})"


def difference_row(pair: Comparison, unit: str, claims: Sequence[Claim]) -> charts.DifferenceRow:
    """Return what is drawn of a comparison: the interval that decides, over the registered unit, and the t interval.

    Nothing but its text where it has no estimate or rests on too little.
    """
    found = pair.families
    difference = pair.difference if unit == "episode" else found.difference
    low, high = read_interval(pair, unit=unit)
    label, margin = visible(f"{pair.a} − {pair.b}"), _margin(pair, claims)
    if difference is None or not drawable(found.families):
        short = "no estimate" if difference is None else f"{say.points(difference)}, too few"
        why = short if difference is None else f"{say.points(difference)} points · too few to draw"
        return charts.DifferenceRow(
            label=label,
            text=why,
            short=short,
            difference=None,
            low=None,
            high=None,
            t_low=None,
            t_high=None,
            margin=margin,
        )
    return charts.DifferenceRow(
        label=label,
        difference=difference,
        low=low,
        high=high,
        t_low=found.t_low,
        t_high=found.t_high,
        text=f"{say.points(difference)} points · {pair.pairs} pairs",
        short=say.points(difference),
        margin=margin,
    )


def _margin(pair: Comparison, claims: Sequence[Claim]) -> float | None:
    """Return the smallest margin by which the first arm was registered to be not worse, None without such a claim."""
    return min(
        (
            claim.numbers["margin"]
            for claim in claims
            if claim.kind in ("non_inferiority", "relative_rule", "leadership")
            and claim.numbers["arm"] == pair.a
            and pair.b in (claim.numbers.get("against"), *claim.numbers.get("competitors", ()))
        ),
        default=None,
    )


def _not_drawn(pair: Comparison, unit: str) -> str:
    """Return why none of the comparisons is drawn, from the first of them."""
    if pair.difference is None:
        what = f"{pair.a} minus {pair.b}"
        return say.sentence("no_rate_drawn", what=what, reasons=say.explained((str(pair.reason),)))
    unit_name = "single pairs" if unit == "episode" else "families"
    return str(too_few("a difference", pair.families.families, unit=unit_name))


def claim_numbers(numbers: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return label and text of every number that a claim was decided by, in a fixed order."""
    return [
        (label, "–" if numbers[name] is None else written(numbers[name]))
        for name, (label, written) in _CLAIM_NUMBERS.items()
        if name in numbers
    ] + ([("k / n", f"{numbers['k']} / {numbers['n']}")] if "k" in numbers else [])


def _listed(values: Any) -> str:
    return ", ".join(values) or "none"


_Written = Callable[[Any], str]
_CLAIM_NUMBERS: Mapping[str, tuple[str, _Written]] = {
    "arm": ("arm", str),
    "against": ("against", str),
    "competitors": ("competitors", _listed),
    "not_cleared": ("not cleared", _listed),
    "rate": ("registered rate", say.percent),
    "margin": ("margin, points", lambda value: say.points(value).removeprefix("+")),
    "confidence": ("confidence", say.percent),
    "lower_bound": ("lower bound", lambda value: say.percent(value, rounding="down")),
    "method": ("method", lambda value: value.replace("_", "-")),
    "difference": ("difference, points", say.points),
    "percentile_low": ("bootstrap, low", lambda value: say.points(value, rounding="down")),
    "t_low": ("t, low", lambda value: say.points(value, rounding="down")),
    "tango_low": ("Tango, low", lambda value: say.points(value, rounding="down")),
    "ratio": ("ratio", say.ratio),
    "percentile_high": ("bootstrap, high", lambda value: say.ratio(value, rounding="up")),
    "t_high": ("t, high", lambda value: say.ratio(value, rounding="up")),
    "cost_high": ("cost ratio, bootstrap, high", lambda value: say.ratio(value, rounding="up")),
    "time_high": ("control time ratio, bootstrap, high", lambda value: say.ratio(value, rounding="up")),
    "order_low": ("difference, bootstrap, low", lambda value: say.points(value, rounding="down")),
    "undefined_draws": ("draws without a ratio", str),
    "sign_flip_p": ("sign-flip p", say.p_value),
    "mcnemar_p": ("McNemar p", say.p_value),
    "result": ("rule", lambda value: value.replace("_", " ")),
    "pairs": ("pairs", str),
    "errored": ("errored", str),
    "families": ("families", str),
}
