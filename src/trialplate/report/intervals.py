"""Which intervals of one arm's rate are shown and which gates: over families where episodes share them.

Source: statistics specification, section 3. To ignore shared families is never the headline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trialplate.claims import wording as say
from trialplate.scoring.analysis import ArmAnalysis


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRate:
    """The rate of an arm; ``low``/``high`` to read, ``gate_*`` for claims. Intervals are null with ``reason``."""

    unit: Literal["episode", "family"]
    units: int
    rate: float | None
    low: float | None
    high: float | None
    gate_low: float | None
    gate_high: float | None
    reason: str | None

    @property
    def method(self) -> str:
        """The name of the interval to read."""
        return "Wilson" if self.unit == "episode" else "Wilson, effective n, t"

    @property
    def gate_method(self) -> str:
        """The name of the interval that gates."""
        return "Clopper-Pearson" if self.unit == "episode" else "Korn-Graubard"


def shown_rate(arm: ArmAnalysis) -> ShownRate:
    """Return what is shown of an arm's rate."""
    rate, found = arm.rate, arm.families
    if not found.counts or rate.rate is None:
        return ShownRate(
            unit="episode", units=rate.n, rate=rate.rate, low=rate.wilson_low, high=rate.wilson_high,
            gate_low=rate.exact_low, gate_high=rate.exact_high, reason=rate.reason,
        )  # fmt: skip
    return ShownRate(
        unit="family", units=found.families, rate=rate.rate, low=found.wilson_low, high=found.wilson_high,
        gate_low=found.korn_graubard_low, gate_high=found.korn_graubard_high,
        reason=None if found.wilson_low is not None else found.reason,
    )  # fmt: skip


def rate_sentence(shown: ShownRate, *, confidence: float) -> str:
    """Return the interval to read as a sentence, or why there is none."""
    if shown.low is None:
        return say.sentence("rate_undefined", families=shown.units, reasons=say.explained((str(shown.reason),)))
    low, high = say.interval_ends(shown.low, shown.high)
    name = "rate" if shown.unit == "episode" else "rate_families"
    return say.sentence(name, confidence=say.percent(confidence), low=low, high=high, families=shown.units)
