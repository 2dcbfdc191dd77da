"""One rate from counts alone, without a campaign."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from trialplate.cli import typed_counts
from trialplate.cli.answering import tell
from trialplate.errors import UsageError

SHORTEST_HOURS, LONGEST_HOURS = 1e-6, 1e12
Json = Annotated[bool, Parameter(name="--json", negative="")]


def register(app: App) -> None:
    """Add this group's command."""
    app.command(interval)


def interval(
    passed: str | None = None,
    /,
    *,
    clusters: str | None = None,
    events: int | None = None,
    hours: float | None = None,
    confidence: float = 0.95,
    json: Json = False,
) -> int:
    """Give the intervals of one rate, each with its method: how far the true rate may lie from what was counted.

    Parameters
    ----------
    passed
        Passes of independent episodes, as 80/100.
    clusters
        Instead, the counts of each scene, site or session, as 8/10,9/10,7/10 or a CSV file with columns k and n.
    events
        Instead, a number of incidents.
    hours
        With --events, the hours in which they were counted.
    confidence
        Confidence of every interval.
    json
        Print one JSON document.
    """
    from trialplate.claims import one_rate

    level = typed_counts.confidence_of(confidence)
    given = [passed is not None, clusters is not None, events is not None or hours is not None]
    if sum(given) != 1:
        raise UsageError(
            "interval: expected one of a count such as 80/100, --clusters, or --events with --hours; got"
            f" {'none of them' if not any(given) else 'more than one'}"
        )
    if passed is not None:
        k, n = typed_counts.counts("PASSED", passed)
        return tell(one_rate.rate_answer(k, n, confidence=level), as_json=json)
    if clusters is not None:
        ks, ns = typed_counts.clusters("--clusters", clusters)
        return tell(one_rate.clustered_answer(ks, ns, confidence=level), as_json=json)
    counted, span = _exposure(events, hours)
    return tell(one_rate.incidents_answer(counted, span, confidence=level), as_json=json)


def _exposure(events: int | None, hours: float | None) -> tuple[int, float]:
    if events is None or hours is None:
        raise UsageError("--events and --hours go together: a rate of incidents needs both")
    if not 0 <= events <= typed_counts.LARGEST:
        raise UsageError(f"--events: expected 0 to {typed_counts.LARGEST}, got {events}")
    if not SHORTEST_HOURS <= hours <= LONGEST_HOURS:
        raise UsageError(f"--hours: expected {SHORTEST_HOURS:g} to {LONGEST_HOURS:g} hours, got {hours}")
    return events, hours
