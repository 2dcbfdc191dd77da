"""Comparisons of arms for people: a table that fits 80 columns, and each verdict in its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trialplate.cli.output import plain, say, table

if TYPE_CHECKING:
    from trialplate.scoring.analysis import Analysis
    from trialplate.scoring.comparisons import Comparison

HEADER = ("A, minus B", "verdict", "points", "interval", "p", "pairs")


def show_verdicts(pairs: Sequence[Comparison], *, unit: str, title: str) -> None:
    """Print the interval and the test that decide, over the registered unit, and what else there is to say."""
    from trialplate.claims.sentences import verdict_sentence

    if not pairs:
        return
    table(title, HEADER, [_cells(pair, unit) for pair in pairs])
    for pair in pairs:
        say(plain(verdict_sentence(pair, unit=unit).replace("\u00a0", " ")))


def show_stop(analysis: Analysis) -> None:
    """Say what an early stop means for every estimate, where there was one."""
    from trialplate.claims.sentences import stop_sentence

    text = stop_sentence(analysis)
    if text is not None:
        say(plain(text.replace("\u00a0", " ")))


def _cells(pair: Comparison, unit: str) -> tuple[str, ...]:
    from trialplate.claims import wording
    from trialplate.claims.chart_wording import read_interval

    found = pair if unit == "episode" else pair.families
    difference, p = found.difference, found.adjusted_p
    low, high = read_interval(pair, unit=unit)
    ends = "–"
    if low is not None and high is not None:
        ends = f"{wording.points(low, rounding='down')} to {wording.points(high, rounding='up')}"
    return (
        f"{pair.a},\nminus {pair.b}",
        pair.verdict,
        "–" if difference is None else wording.points(difference),
        ends,
        "–" if p is None else wording.p_value(p),
        str(pair.pairs),
    )
