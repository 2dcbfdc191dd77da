"""The only sentences about registered claims and comparisons. A verdict is the only thing that licenses its word.

Every sentence is a template here, so that one test can read them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trialplate import stats
from trialplate.claims.chart_wording import no_family_differs
from trialplate.claims.figures import interval, p_value, percent, points, ratio
from trialplate.claims.reasons import explained
from trialplate.scoring.analysis import Analysis
from trialplate.scoring.comparisons import Comparison, Detection
from trialplate.scoring.verdicts import ended_early

CLAIM_TEMPLATES: Mapping[str, str] = {
    "threshold_supported": (
        "Supported: {arm} passed {k} of {n}. At {confidence} confidence its success rate on scenarios like the"
        " registered ones is at least {rate} (one-sided lower bound {bound}, {method})."
    ),
    "threshold_not_supported": (
        "Not supported: {arm} passed {k} of {n}. The one-sided lower bound at {confidence} confidence is {bound}"
        " ({method}), below the registered {rate}. This does not show that the rate is lower than that."
    ),
    "threshold_errors": " Of the {n}, {errored} errored and count as not passed.",
    "threshold_ineligible": (
        "Ineligible: whether {arm} passes at least {rate} may not be asked of this evidence, because {reasons}."
    ),
    "superiority_supported": (
        "Supported: {arm} passes more of scenarios like the registered ones than {against}. {difference}"
    ),
    "superiority_not_supported": (
        "Not supported: that {arm} passes more than {against}. {difference} What fails: {reasons}. This does not show"
        " that the two are alike."
    ),
    "superiority_ineligible": (
        "Ineligible: whether {arm} passes more than {against} may not be asked of this evidence, because {reasons}."
    ),
    "non_inferiority_supported": (
        "Supported: {arm} is not worse than {against} by more than {margin} points. {difference} Tango's lower bound"
        " over the pairs is {tango}."
    ),
    "non_inferiority_not_supported": (
        "Not supported: that {arm} is not worse than {against} by more than {margin} points. {difference} Tango's"
        " lower bound over the pairs is {tango}. What fails: {reasons}. This does not show that it is worse."
    ),
    "non_inferiority_ineligible": (
        "Ineligible: whether {arm} is not worse than {against} by more than {margin} points may not be asked of this"
        " evidence, because {reasons}."
    ),
    "cost_efficiency_supported": "Supported: {arm} costs less per success than {against}. {ratio}",
    "cost_efficiency_not_supported": (
        "Not supported: that {arm} costs less per success than {against}. {ratio} What fails: {reasons}."
    ),
    "cost_efficiency_ineligible": (
        "Ineligible: whether {arm} costs less per success than {against} may not be asked of this evidence, because"
        " {reasons}."
    ),
    "time_efficiency_supported": "Supported: {arm} takes less control time per success than {against}. {ratio}",
    "time_efficiency_not_supported": (
        "Not supported: that {arm} takes less control time per success than {against}. {ratio} What fails: {reasons}."
    ),
    "time_efficiency_ineligible": (
        "Ineligible: whether {arm} takes less control time per success than {against} may not be asked of this"
        " evidence, because {reasons}."
    ),
    "relative_rule_supported": (
        "Supported: {arm} meets the relative rule against {against}: it costs less and takes less control time per"
        " success, and is not worse by {margin} points or more. {bounds} This is a rule on efficiency and"
        " non-inferiority, on the registered tasks, this machine and these models, against {against} alone; it does"
        " not show that {arm} passes more.{flags}"
    ),
    "relative_rule_not_supported": (
        "Not supported: that {arm} meets the relative rule against {against}. {bounds} What fails: {reasons}.{flags}"
    ),
    "relative_rule_ineligible": (
        "Ineligible: whether {arm} meets the relative rule against {against} may not be asked of this evidence,"
        " because {reasons}.{result}"
    ),
    "relative_rule_bounds": (
        "At {confidence} confidence over {units}, the upper bounds of the ratios are {cost_high} (cost) and"
        " {time_high} (control time), the lower bound of the difference is {low} points (bootstrap, order statistics"
        " of the draws)."
    ),
    "relative_rule_met": " Its numbers alone meet the rule, which supports nothing here.",
    "relative_rule_not_met": " Its numbers alone do not meet the rule: {failing}.",
    "relative_rule_not_evaluable": " Its numbers alone leave the rule without a bound.",
    "relative_rule_several": " The level is not shared among the {compared} registered comparisons.",
    "relative_rule_few_families": " It rests on {families} families, which are few for such a statement.",
    "leadership_supported": (
        "Supported: against each of {competitors}, {arm} costs less and takes less control time per success, and is"
        " not worse by more than {margin} points. This is a statement on cost, time and non-inferiority, on the"
        " registered tasks, this machine and these models; on nothing else.{flags}"
    ),
    "leadership_not_supported": (
        "Not supported: that {arm} is cheaper, faster and not worse by more than {margin} points against each of"
        " {competitors}. Not cleared: {not_cleared}.{flags}"
    ),
    "leadership_ineligible": (
        "Ineligible: whether {arm} is cheaper, faster and not worse by more than {margin} points against each of"
        " {competitors} may not be asked of this evidence, because {reasons}."
    ),
    "leadership_few_families": " It rests on {families} families, which are few for such a statement.",
    "claim_difference": (
        "Difference {difference} points; at {confidence} confidence the lower bounds over {units} are {low}"
        " (bootstrap) and {t_low} (t), sign-flip {p}."
    ),
    "claim_difference_alike": (
        "Difference {difference} points; no family differs from another, so that at {confidence} confidence the"
        " bootstrap bound over {units} is that difference itself, and there is no t bound; sign-flip {p}."
    ),
    "claim_ratio": (
        "Ratio {ratio}; at {confidence} confidence the upper bounds over {units} are {high} (bootstrap) and {t_high}"
        " (t)."
    ),
    "verdict_BETTER": "BETTER: {a} is better than {b} on scenarios like the registered ones. {effect}",
    "verdict_WORSE": "WORSE: {a} is worse than {b} on scenarios like the registered ones. {effect}",
    "verdict_NOT_DISTINGUISHED": (
        "NOT_DISTINGUISHED: these trials do not tell {a} from {b}. {effect} {why} {detection} This does not show that"
        " the two are alike."
    ),
    "verdict_NOT_COMPARABLE": "NOT_COMPARABLE: {a} and {b}. What differs: {differs}.",
    "verdict_underpowered": "underpowered",
    "verdict_effect": (
        "{a} alone passed {only_a} of {pairs} paired trials, {b} alone {only_b}. Difference {difference} points,"
        " {confidence} interval {low} to {high} (bootstrap over {units}) and {t_low} to {t_high} (t);"
        " sign-flip {p}."
    ),
    "verdict_effect_alike": (
        "{a} alone passed {only_a} of {pairs} paired trials, {b} alone {only_b}. Difference {difference} points,"
        " {confidence} interval {low} to {high} (Tango over the pairs). None of {units} differs from another, so that"
        " bootstrap and t have nothing to go by; sign-flip {p}."
    ),
    "verdict_effect_episodes": (
        "{a} alone passed {only_a} of {pairs} paired trials, {b} alone {only_b}. Difference {difference} points,"
        " {confidence} interval {low} to {high} (Tango); exact McNemar {p}."
    ),
    "verdict_why": "In the way: {reasons}.",
    "verdict_errors": " Errors in {errored} of the pairs could move that to anything from {low} to {high}.",
    "detection": (
        "The smallest difference that {n} pairs find with {target} chance is {detectable} points, when {discordance}"
        " of the pairs end differently ({source})."
    ),
    "detection_none": "No difference is large enough for {n} pairs to find it with {target} chance.",
    "detection_needed": (
        "The registered effect of {effect} points needs {needed} pairs; these find it with {power} chance."
    ),
    "detection_unreachable": "The registered effect of {effect} points needs more than 20,000 pairs.",
    "detection_few": "Fewer than 10 {units} support no verdict: UNDERPOWERED.",
    "detection_underpowered": "UNDERPOWERED: that is below the registered {target}.",
    "stopped_early": (
        "The run ended after {blocks} of {planned} blocks by its registered rule ({kind}), which looked at {a} and"
        " {b}. Estimates after an early stop lean away from zero. Rates that hold at every look, as confidence"
        " sequences at {confidence}: {listing}."
    ),
    "registered": "registered",
    "observed": "observed; none was registered",
    "units_family": "{families} families",
    "units_episode": "{families} single pairs",
}


def say(name: str, **values: Any) -> str:
    """Return a sentence about a claim or a comparison with its numbers filled in."""
    return CLAIM_TEMPLATES[name].format(**values)


def threshold_sentence(verdict: str, numbers: Mapping[str, Any], reasons: Sequence[str]) -> str:
    """Return the only permitted sentence about a ``threshold_rate`` claim."""
    bound = numbers["lower_bound"]
    text = say(
        f"threshold_{verdict}",
        arm=numbers["arm"],
        k=numbers["k"],
        n=numbers["n"],
        confidence=percent(numbers["confidence"]),
        rate=percent(numbers["rate"]),
        bound="undefined" if bound is None else percent(bound, rounding="down"),
        method={"clopper_pearson": "Clopper-Pearson", "korn_graubard": "Korn-Graubard"}[numbers["method"]],
        reasons=explained(reasons),
    )
    errored = verdict != "ineligible" and numbers["errored"]
    return text + say("threshold_errors", n=numbers["n"], errored=numbers["errored"]) if errored else text


def pair_sentence(kind: str, verdict: str, numbers: Mapping[str, Any], reasons: Sequence[str]) -> str:
    """Return the only permitted sentence about a claim on two arms."""
    return say(
        f"{kind}_{verdict}",
        arm=numbers["arm"],
        against=numbers["against"],
        margin=_points(numbers.get("margin"), signed=False),
        tango=_points(numbers.get("tango_low"), rounding="down"),
        difference=_claimed_difference(numbers) if "difference" in numbers else "",
        ratio=_claimed_ratio(numbers) if "ratio" in numbers else "",
        reasons=explained(reasons),
    )


def relative_rule_sentence(verdict: str, numbers: Mapping[str, Any], reasons: Sequence[str]) -> str:
    """Return the only permitted sentence about a claim by the relative rule."""
    flags = ""
    if numbers["compared"] > 1:
        flags += say("relative_rule_several", compared=numbers["compared"])
    if "few_families" in numbers["flags"]:
        flags += say("relative_rule_few_families", families=numbers["families"])
    return say(
        f"relative_rule_{verdict}",
        arm=numbers["arm"],
        against=numbers["against"],
        margin=_points(numbers["margin"], signed=False),
        bounds=say(
            "relative_rule_bounds",
            confidence=percent(numbers["confidence"]),
            units=units(numbers["families"], numbers["unit"]),
            cost_high=ratio(numbers["cost_high"], rounding="up"),
            time_high=ratio(numbers["time_high"], rounding="up"),
            low=_points(numbers["order_low"], rounding="down"),
        ),
        reasons=explained(reasons),
        result=say(f"relative_rule_{numbers['result']}", failing=explained(numbers["failing"])),
        flags=flags,
    )


def leadership_sentence(verdict: str, numbers: Mapping[str, Any], reasons: Sequence[str]) -> str:
    """Return the only permitted sentence about a claim against every competitor."""
    few = "few_families" in numbers["flags"]
    return say(
        f"leadership_{verdict}",
        arm=numbers["arm"],
        competitors=", ".join(numbers["competitors"]) or "no competitor",
        margin=_points(numbers["margin"], signed=False),
        not_cleared=", ".join(numbers["not_cleared"]),
        flags=say("leadership_few_families", families=numbers["families"]) if few else "",
        reasons=explained(reasons),
    )


def verdict_sentence(pair: Comparison, *, unit: str) -> str:
    """Return the only permitted sentence about a registered comparison."""
    return say(
        f"verdict_{pair.verdict}",
        a=pair.a,
        b=pair.b,
        effect=effect_sentence(pair, unit=unit) if pair.difference is not None else "",
        why=say("verdict_why", reasons=explained(sorted({*pair.not_better} & {*pair.not_worse}) or pair.not_better)),
        detection=detection_sentence(pair, unit=unit),
        differs="; ".join(pair.differs),
    )


def effect_sentence(pair: Comparison, *, unit: str) -> str:
    """Return effect, interval and test of a comparison, over the registered unit.

    The interval is Tango's over single pairs, and where no family differs from another: the bootstrap would call a
    difference that was never seen impossible.
    """
    found = pair.families
    single, alike = unit == "episode", no_family_differs(pair)
    difference, low, high = (
        (pair.difference, pair.low, pair.high) if single or alike else (found.difference, found.low, found.high)
    )
    text = say(
        "verdict_effect_episodes" if single else "verdict_effect_alike" if alike else "verdict_effect",
        a=pair.a,
        b=pair.b,
        only_a=pair.only_a,
        only_b=pair.only_b,
        pairs=pair.pairs,
        difference=_points(difference),
        confidence=percent(pair.confidence),
        low=_points(low, rounding="down"),
        high=_points(high, rounding="up"),
        t_low=_points(found.t_low, rounding="down"),
        t_high=_points(found.t_high, rounding="up"),
        units=units(found.families, unit),
        p=_p(pair.adjusted_p if single else found.adjusted_p),
    )
    if not pair.errored:
        return text
    ends = _points(pair.error_low, rounding="down"), _points(pair.error_high, rounding="up")
    return text + say("verdict_errors", errored=pair.errored, low=ends[0], high=ends[1])


def detection_sentence(pair: Comparison, *, unit: str) -> str:
    """Return what the pairs could have found, and what the registered effect would need."""
    found = pair.detection
    parts = [_detectable(found)]
    if found.effect is not None:
        known = found.needed is not None
        parts.append(
            say(
                "detection_needed" if known else "detection_unreachable",
                effect=_points(found.effect, signed=False),
                needed=found.needed,
                power="–" if found.power is None else percent(found.power),
            )
        )
    if "few_families" in pair.not_better:
        parts.append(say("detection_few", units="families" if unit == "family" else "pairs"))
    elif pair.underpowered:
        parts.append(say("detection_underpowered", target=percent(found.target_power)))
    return " ".join(parts)


def stop_sentence(analysis: Analysis) -> str | None:
    """Return what an early stop means for every estimate; None where the run was not ended early."""
    stopping = analysis.stopping
    if stopping is None or not ended_early(stopping):
        return None
    rates = []
    for arm in analysis.arms:
        live = stats.confidence_sequence(arm.rate.k, arm.rate.n, confidence=analysis.confidence)
        rates.append(f"{arm.arm} {interval(live.low, live.high)}")
    return say(
        "stopped_early",
        blocks=stopping.stopped_after,
        planned=stopping.planned,
        kind=stopping.kind,
        a=stopping.a,
        b=stopping.b,
        confidence=percent(analysis.confidence),
        listing=", ".join(rates),
    )


def units(families: int, unit: str) -> str:
    """Return how many of what was drawn."""
    return say(f"units_{unit}", families=families)


def _detectable(found: Detection) -> str:
    if found.detectable is None or found.discordance is None:
        return say("detection_none", n=found.n, target=percent(found.target_power))
    return say(
        "detection",
        n=found.n,
        target=percent(found.target_power),
        detectable=_points(found.detectable, rounding="up", signed=False),
        discordance=percent(found.discordance),
        source=say(found.discordance_from),
    )


def _claimed_difference(numbers: Mapping[str, Any]) -> str:
    alike = numbers["t_reason"] == "no_between_family_variation"
    return say(
        "claim_difference_alike" if alike else "claim_difference",
        difference=_points(numbers["difference"]),
        confidence=percent(numbers["confidence"]),
        units=units(numbers["families"], numbers["unit"]),
        low=_points(numbers["percentile_low"], rounding="down"),
        t_low=_points(numbers["t_low"], rounding="down"),
        p=_p(numbers["sign_flip_p"]),
    )


def _claimed_ratio(numbers: Mapping[str, Any]) -> str:
    return say(
        "claim_ratio",
        ratio=ratio(numbers["ratio"]),
        confidence=percent(numbers["confidence"]),
        units=units(numbers["families"], numbers["unit"]),
        high=ratio(numbers["percentile_high"], rounding="up"),
        t_high=ratio(numbers["t_high"], rounding="up"),
    )


def _points(value: float | None, *, rounding: Any = "nearest", signed: bool = True) -> str:
    if value is None:
        return "–"
    text = points(value, rounding=rounding)
    return text if signed else text.removeprefix("+")


def _p(value: float | None) -> str:
    """Return ``p = 0.041`` or ``p < 0.001``."""
    text = "–" if value is None else p_value(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"
