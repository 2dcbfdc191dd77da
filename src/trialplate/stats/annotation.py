"""How much of an episode is labelled: arithmetic on whole ticks.

Definition: statistics specification, section 11. Coverage asks how much time is labelled; it says nothing about how
well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trialplate.errors import StatsInputError
from trialplate.stats.inputs import MAX_COUNT, count, sequence
from trialplate.stats.results import Reason, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationCoverage(Result):
    """Ticks of the window that are labelled, their share, and the ticks labelled more than once, counted each time.

    ``reversed_intervals``: intervals that end where they start or before; counted, not used.
    """

    eligible: int
    covered: int
    coverage: float | None
    overlap: int
    reversed_intervals: int
    reason: Reason | None


def annotation_coverage(intervals: Sequence[Sequence[int]], start: int, *, end: int) -> AnnotationCoverage:
    """Return the coverage of [start, end) by half-open intervals of whole ticks on one track.

    Intervals are clipped to the window; covered = length of their union, overlap = sum of lengths - union. Tracks of
    two arms may overlap: call it per track, and with all intervals for the episode. Empty window: null with
    ``no_eligible_duration``. Raises ``StatsInputError`` for a window that ends before it starts.
    """
    first = count("start", start, minimum=-MAX_COUNT)
    last = count("end", end, minimum=-MAX_COUNT)
    if last < first:
        raise StatsInputError("end", f"{last} lies before start = {first}")
    inside, backwards = [], 0
    for at, interval in enumerate(sequence("intervals", intervals)):
        ticks = [count(f"intervals[{at}]", tick, minimum=-MAX_COUNT) for tick in sequence("intervals", interval)]
        if len(ticks) != 2:
            raise StatsInputError(f"intervals[{at}]", f"expected start and end, got {len(ticks)} numbers")
        if ticks[1] <= ticks[0]:
            backwards += 1
        elif max(ticks[0], first) < min(ticks[1], last):
            inside.append((max(ticks[0], first), min(ticks[1], last)))
    covered, reached = 0, first
    for begins, ends in sorted(inside):
        covered += max(0, ends - max(begins, reached))
        reached = max(reached, ends)
    eligible = last - first
    return AnnotationCoverage(
        eligible=eligible,
        covered=covered,
        coverage=covered / eligible if eligible else None,
        overlap=sum(ends - begins for begins, ends in inside) - covered,
        reversed_intervals=backwards,
        reason=None if eligible else "no_eligible_duration",
    )
