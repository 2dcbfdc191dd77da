"""What a registered stopping rule did to a run, and the intervals that hold although somebody looked.

Source: statistics specification, section 8. Estimates after an early stop are biased; the report says so beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

from trialplate import stats
from trialplate.claims import wording as say
from trialplate.scoring.analysis import Analysis, ArmAnalysis
from trialplate.scoring.stopping import Stopping
from trialplate.scoring.verdicts import ended_early


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyEnd:
    """``sentence``: that, when and by which rule; ``pair``: how the pairs stood; ``stopped``: whether it ended."""

    stopped: bool
    sentence: str
    pair: str | None


def early_end(analysis: Analysis) -> EarlyEnd | None:
    """Return what the registered rule did to its run; None where none is registered."""
    found = analysis.stopping
    if found is None:
        return None
    rule = f"{found.kind.replace('_', '-')} on {found.a} and {found.b}"
    if not ended_early(found):
        sentence = say.sentence("not_stopped", rule=rule, looks=len(found.looks))
        return EarlyEnd(stopped=False, sentence=sentence, pair=None)
    sentence = say.sentence(f"stopped_{found.why}", rule=rule, blocks=found.stopped_after, planned=found.planned)
    return EarlyEnd(stopped=True, sentence=sentence, pair=_pair(found, analysis.confidence))


def sequence_sentence(arm: ArmAnalysis, confidence: float) -> str | None:
    """Return the confidence sequence of an arm's rate as a sentence, None without a rate."""
    if arm.rate.rate is None:
        return None
    found = stats.confidence_sequence(arm.rate.k, arm.rate.n, confidence=confidence)
    low, high = say.interval_ends(found.low, found.high)
    return say.sentence("rate_sequence", confidence=say.percent(confidence), low=low, high=high)


def _pair(found: Stopping, confidence: float) -> str:
    last = found.looks[-1]
    discordant = last.only_a + last.only_b
    if not discordant:
        return say.sentence("stopped_no_pair")
    sequence = stats.confidence_sequence(last.only_a, discordant, confidence=confidence)
    low, high = say.interval_ends(sequence.low, sequence.high)
    return say.sentence(
        "stopped_pair",
        discordant=discordant,
        a=found.a,
        b=found.b,
        only_a=last.only_a,
        share=say.percent(last.only_a / discordant),
        confidence=say.percent(confidence),
        low=low,
        high=high,
    )
