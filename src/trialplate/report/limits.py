"""From which size on a chart is drawn: one limit for all of them, and the sentence that stands in its place."""

from __future__ import annotations

from trialplate.claims import wording as say

MIN_DRAWN = 10
"""The smallest n at which 0 of n has an exact 95 % interval of less than a third of the scale: 0 to 30.9 %.

It is also the number of units from which the gate of claims listens (statistics specification, section 12).
"""


def drawable(n: int) -> bool:
    """Return whether so many units may be drawn."""
    return n >= MIN_DRAWN


def too_few(what: str, n: int, *, unit: str = "episodes") -> str | None:
    """Return why a chart of ``what`` is not drawn, None where it is."""
    return None if drawable(n) else say.sentence("few", what=what, n=n, unit=unit, minimum=MIN_DRAWN)
