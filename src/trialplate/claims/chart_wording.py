"""The only sentences at the head of a report and beside its charts; the rules are those of ``sentences``."""

from __future__ import annotations

from collections.abc import Mapping

from trialplate.claims.figures import percent, points
from trialplate.claims.reasons import explained
from trialplate.scoring.comparisons import Comparison
from trialplate.stats.gates import MIN_FAMILIES

VERDICT_MARKS: Mapping[str, str] = {
    "BETTER": "▲",
    "WORSE": "▼",
    "NOT_DISTINGUISHED": "◆",
    "NOT_COMPARABLE": "○",
}
"""A shape beside each verdict, so that it can be told without colour."""

CHART_TEMPLATES: Mapping[str, str] = {
    "headline_BETTER": "{a} is better than {b}",
    "headline_WORSE": "{a} is worse than {b}",
    "headline_NOT_DISTINGUISHED": "{a} and {b} are not told apart",
    "headline_NOT_COMPARABLE": "{a} and {b} may not be compared",
    "headline_effect": "{a} minus {b}",
    "headline_family": "{confidence} interval {low} to {high} (bootstrap)",
    "headline_episode": "{confidence} interval {low} to {high} (Tango)",
    "headline_t": "and {t_low} to {t_high} (t)",
    "headline_alike": "no family differs from another, so that bootstrap and t have nothing to go by",
    "headline_no_t": "no t interval, because {reasons}",
    "headline_size": "{pairs} pairs in {families} families · {a} alone passed {only_a}, {b} alone {only_b}",
    "headline_size_episode": "{pairs} single pairs · {a} alone passed {only_a}, {b} alone {only_b}",
    "headline_detectable": "Could have found, with {target} chance: a difference of {detectable} points or more.",
    "headline_few": "Fewer than {minimum} {units} support no verdict, whatever they show.",
    "headline_none": "Could have found, with {target} chance: no difference of any size.",
    "headline_differs": "What differs: {differs}.",
    "rate_families": "{confidence} interval {low} to {high} (Wilson over {families} families)",
    "rate_undefined": "No interval over its {families} families: {reasons}.",
    "rate_sequence": "{confidence} confidence sequence {low} to {high}, valid at every look",
    "stopped_rejected": (
        "The run ended early under its registered rule ({rule}), after {blocks} of {planned} blocks. Estimates after"
        " such an end are biased away from zero: read the confidence sequences beside them, which hold at every look."
    ),
    "stopped_out_of_reach": (
        "The run ended early under its registered rule ({rule}), after {blocks} of {planned} blocks, because no"
        " outcome of the others could have made it reject. Estimates after such an end lean towards zero: read the"
        " confidence sequences beside them, which hold at every look."
    ),
    "stopped_pair": (
        "Of the {discordant} pairs that ended differently by then, {a} alone passed {only_a}: {share}, {confidence}"
        " confidence sequence {low} to {high}, where one half is no difference."
    ),
    "stopped_no_pair": "No pair had ended differently by then.",
    "not_stopped": "The registered rule ({rule}) was applied at {looks} looks and did not end the run early.",
    "few": (
        "Not drawn: {what} rests on {n} {unit}, fewer than {minimum}. Even if all of them end alike, the exact 95 %"
        " interval of so few spans more than a third of the scale, and a drawing would show more than is known. The"
        " numbers stand in the table."
    ),
    "no_rate_drawn": "Not drawn: {what} has no rate, because {reasons}.",
    "few_cells": (
        "Cells of fewer than {minimum} episodes show their counts and no bar: so few could not be told from much"
        " higher or lower ones."
    ),
    "forest_note": (
        "The thick line is the interval to read, the thin one with ends the one that gates claims. Where episodes"
        " share families both count families, and the plain Wilson interval in the table assumes independence."
    ),
    "difference_note": (
        "Right of the dashed zero line the first arm passed more. The thick line is the interval to read, the thin"
        " one with ends the t interval; a verdict needs both on one side. Where no family differs from another, the"
        " thick line is Tango's, which takes the pairs as independent, and there is no thin one."
    ),
    "funnel_intervals": (
        "The line over a bar is the {confidence} Wilson interval of the share that passed the stage, of all measured;"
        " it assumes independence."
    ),
    "times_note": (
        "By when an episode had passed (solid), or had ended without (dashed), of all {denominator} episodes. What"
        " failed will not pass later: failures compete, they are not censored. Only episodes at their step limit are."
        " The bar at the end is the {confidence} interval of the rate."
    ),
    "median_none": "– ({reasons})",
    "costs_note": (
        "Up is more successes, left is cheaper: all attempts are paid, the failed ones too. Vertical lines are the"
        " intervals of the rates, horizontal ones Fieller's {confidence} intervals over {units}."
    ),
    "cost_unknown": "Not drawn: {what} is not known for every attempt of {arms}. Unknown is not zero.",
    "cost_without": "Not drawn for {arms}: {reasons}.",
    "cost_unbounded": "Not drawn: the interval of {what} of {arms} is undefined, because {reasons}.",
    "reach_note": (
        "The smallest difference that so many pairs find with {target} chance, by Connor's formula, at the confidence"
        " of the comparison. The point is this run. It comes from what was registered and from the share of pairs"
        " that end differently, never from the difference that was seen."
    ),
    "reach_source": "{share} of pairs end differently ({source})",
    "reach_undefined": (
        "Not drawn: no pair ended differently and no share was registered, so nothing says what could be found."
    ),
    "reach_beyond": "Not drawn: at this share of pairs that end differently, up to {n} pairs find no difference.",
}


def headline(pair: Comparison) -> str:
    """Return the verdict on a comparison in a few words."""
    return CHART_TEMPLATES[f"headline_{pair.verdict}"].format(a=pair.a, b=pair.b)


def read_interval(pair: Comparison, *, unit: str) -> tuple[float | None, float | None]:
    """Return the interval to read: the bootstrap over families, or Tango's over single pairs.

    Tango's too where no family differs from another: there every draw is the same, and the bootstrap says of two arms
    that never differ that they cannot differ.
    """
    if unit == "episode" or no_family_differs(pair):
        return pair.low, pair.high
    return pair.families.low, pair.families.high


def headline_intervals(pair: Comparison, *, unit: str) -> tuple[str, str]:
    """Return the interval to read and the t interval of a comparison; dashes where undefined."""
    found = pair.families
    low, high = read_interval(pair, unit=unit)
    read = CHART_TEMPLATES["headline_episode" if no_family_differs(pair) else f"headline_{unit}"].format(
        confidence=percent(pair.confidence), low=_end(low, up=False), high=_end(high, up=True)
    )
    if no_family_differs(pair):
        return read, CHART_TEMPLATES["headline_alike"]
    if found.t_low is None:
        return read, CHART_TEMPLATES["headline_no_t"].format(reasons=explained((str(found.t_reason),)))
    ends = {"t_low": _end(found.t_low, up=False), "t_high": _end(found.t_high, up=True)}
    return read, CHART_TEMPLATES["headline_t"].format(**ends)


def headline_size(pair: Comparison, *, unit: str) -> str:
    """Return how many pairs and families a comparison rests on, and how many of them decide."""
    name = "headline_size_episode" if unit == "episode" else "headline_size"
    return CHART_TEMPLATES[name].format(
        pairs=pair.pairs,
        families=pair.families.families,
        a=pair.a,
        b=pair.b,
        only_a=pair.only_a,
        only_b=pair.only_b,
    )


def headline_detectable(pair: Comparison, *, unit: str) -> str:
    """Return what the pairs could have found, or that so few units support nothing."""
    found = pair.detection
    if "few_families" in pair.not_better:
        units = "single pairs" if unit == "episode" else "families"
        return CHART_TEMPLATES["headline_few"].format(minimum=MIN_FAMILIES, units=units)
    target = percent(found.target_power)
    if found.detectable is None:
        return CHART_TEMPLATES["headline_none"].format(target=target)
    size = points(found.detectable, rounding="up").removeprefix("+")
    return CHART_TEMPLATES["headline_detectable"].format(target=target, detectable=size)


def no_family_differs(pair: Comparison) -> bool:
    """Return whether every draw is the same: then bootstrap and t say nothing on where the difference could lie."""
    return pair.families.t_reason == "no_between_family_variation"


def _end(value: float | None, *, up: bool) -> str:
    return "–" if value is None else points(value, rounding="up" if up else "down")
