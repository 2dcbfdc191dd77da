"""Two arms from counts alone, without a campaign."""

from __future__ import annotations

from collections.abc import Sequence

from trialplate.claims.two_counts import Registered, independent_answer, paired_answer
from trialplate.cli import typed_counts
from trialplate.cli.answering import tell
from trialplate.errors import UsageError


def compare_counts(
    sides: Sequence[str], *, paired: str | None, registered: Registered, confidence: float, as_json: bool
) -> int:
    """Tell what two typed counts, or the counts of matched pairs, say about a difference.

    Raises UsageError for counts mixed with campaigns, for more than two, and for counts that are none.
    """
    level = typed_counts.confidence_of(confidence)
    _check(registered)
    if paired is not None:
        return _paired(sides, paired, registered, confidence=level, as_json=as_json)
    strangers = [side for side in sides if not typed_counts.is_typed(side)]
    if strangers:
        raise UsageError(
            f"compare: counts such as 17/20 and campaigns do not mix; {strangers[0]!r} is no count."
            " Give two counts, or campaign folders only"
        )
    if len(sides) != 2:
        raise UsageError(
            f"compare: expected two counts, got {len(sides)}. More arms share an error rate: register them in a"
            " protocol (analysis.comparisons, multiplicity)"
        )
    if registered.discordance is not None:
        raise UsageError("--discordance goes with --paired; for independent arms give --baseline")
    k_a, n_a = typed_counts.counts("A", sides[0])
    k_b, n_b = typed_counts.counts("B", sides[1])
    effect, baseline = registered.effect, registered.baseline
    if effect is not None and baseline is not None and effect + baseline > 1.0:
        raise UsageError(f"--effect: {effect} above a baseline of {baseline} is more than all; lower either")
    answer = independent_answer(k_a, n_a, k_b=k_b, n_b=n_b, confidence=level, registered=registered)
    return tell(answer, as_json=as_json)


def _paired(sides: Sequence[str], paired: str, registered: Registered, *, confidence: float, as_json: bool) -> int:
    if sides:
        raise UsageError(f"--paired stands alone: it holds both arms; got {sides[0]!r} as well")
    if registered.baseline is not None:
        raise UsageError("--baseline goes with independent counts; for pairs give --discordance")
    b, c, n = typed_counts.pairs("--paired", paired)
    effect, discordance = registered.effect, registered.discordance
    if effect is not None and discordance is not None and effect > discordance:
        raise UsageError(
            f"--discordance: expected at least the effect {effect}: rates cannot differ by more than pairs do,"
            f" got {discordance}"
        )
    return tell(paired_answer(b, c, n=n, confidence=confidence, registered=registered), as_json=as_json)


def _check(registered: Registered) -> None:
    typed_counts.share("--power", registered.power)
    for option, value in (
        ("--effect", registered.effect),
        ("--baseline", registered.baseline),
        ("--discordance", registered.discordance),
    ):
        if value is not None:
            typed_counts.share(option, value)
