"""The table of success rates: every arm with its count, its rates, its interval, and what errored or was excluded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trialplate.claims.figures import interval, percent

RATE_HEADER = ("arm", "k/N", "rate %", "interval %", "others %", "ERROR bounds %", "ERROR", "excl.", "state")


def rate_title(document: Mapping[str, Any]) -> str:
    """Return over what the rates of an analysis are, and which interval stands beside them."""
    denominators = {arm["rate"]["denominator"] for arm in document["arms"]}
    confidence = percent(document["plan"]["confidence"]).replace("\N{NO-BREAK SPACE}", " ")
    return f"Success over {' and '.join(sorted(denominators))}, Wilson interval at {confidence}"


def rate_rows(document: Mapping[str, Any]) -> Sequence[tuple[str, ...]]:
    """Return one line per arm: count, rates with the registered one first, interval, bounds and state."""
    return [(arm["arm"], *rate_cells(arm)) for arm in document["arms"]]


def rate_cells(arm: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what ``RATE_HEADER`` names after the arm. Bounds only where an episode errored."""
    counts, rate, bounds = arm["counts"], arm["rate"], arm["bounds"]
    known = rate["rate"] is not None
    others = [
        f"{other['denominator']} {_bare(percent(other['rate']))}"
        for other in arm["other_rates"]
        if other["rate"] is not None
    ]
    return (
        f"{rate['k']}/{rate['n']}",
        _bare(percent(rate["rate"])) if known else f"none ({rate['reason']})",
        _bare(interval(rate["wilson_low"], rate["wilson_high"])) if known else "none",
        ", ".join(others) or "none",
        _bare(interval(bounds["error_low"], bounds["error_high"])) if known and counts["errored"] else "",
        str(counts["errored"]),
        str(counts["excluded"]),
        arm["state"],
    )


def _bare(text: str) -> str:
    """Return a figure without its unit, which stands in the header."""
    return text.removesuffix("\N{NO-BREAK SPACE}%")
