"""Two arms from counts alone: independent episodes, or matched pairs of which some differ.

Definitions: statistics specification, sections 3, 7, 9 and 12. The exact test decides the verdict; the interval is
what is read. What could have been found comes from a registered effect and never from the observed one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trialplate import stats
from trialplate.claims import counts_wording as words
from trialplate.claims import wording
from trialplate.claims.answers import Answer, Line, NamedInterval, Role, alpha_of, line, notes
from trialplate.claims.reach import (
    Planned,
    chance,
    detectable,
    detectable_pairs,
    needed,
    pair_chances,
    registered_rates,
)
from trialplate.errors import StatsInputError
from trialplate.stats.boschloo import MAX_BOSCHLOO_TABLES
from trialplate.stats.discordant import MAX_TRIALS

SCHEMA = "trialplate.two-counts/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What was registered beforehand, where anything was. All are shares.

    ``effect``: the difference worth finding. ``baseline``: the rate of B (independent arms). ``discordance``: how
    often pairs differ (matched ones). ``power``: the chance with which the effect is to be found.
    """

    effect: float | None = None
    baseline: float | None = None
    discordance: float | None = None
    power: float = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reach:
    """What these counts could find, and what the registered effect would take."""

    detectable: Planned
    needed: Planned | None
    chance: Planned | None
    where: str
    numbers: str
    unit: str
    known: bool = True


def independent_answer(
    k_a: int, n_a: int, *, k_b: int, n_b: int, confidence: float = 0.95, registered: Registered | None = None
) -> Answer:
    """Return what k_a of n_a and k_b of n_b independent episodes say about the difference of two rates.

    Neither arm may be without episodes. Beyond 25,000,000 tables the exact test is not computed, and there is no
    verdict. Raises ``StatsInputError`` where the registered effect does not fit above the baseline.
    """
    plan = registered or Registered()
    alpha = alpha_of(confidence)
    score = stats.miettinen_nurminen_interval(k_a, n_a, k2=k_b, n2=n_b, confidence=confidence)
    beside = stats.newcombe_interval(k_a, n_a, k2=k_b, n2=n_b, confidence=confidence)
    computed = (n_a + 1) * (n_b + 1) <= MAX_BOSCHLOO_TABLES
    p_value = stats.boschloo_test(k_a, n_a, k2=k_b, n2=n_b).p_value if computed else None
    reach = _independent_reach(n_a, n_b, plan, alpha)
    ahead = k_a * n_b - k_b * n_a
    result = None if p_value is None else _verdict(p_value, ahead, alpha, reach, plan)
    arms = {"k_a": k_a, "n_a": n_a, "k_b": k_b, "n_b": n_b}
    intervals = (
        _named("miettinen_nurminen", "headline", score, confidence),
        _named("newcombe", "beside", beside, confidence),
    )
    return Answer(
        schema=SCHEMA,
        question="independent",
        sentence=_sentence("compare", arms, score, confidence, p_value, result),
        lines=(
            *_arm_lines(arms, confidence),
            line("difference", wording.points(score.estimate or 0.0), "counted"),
            line("difference_read", words.points_interval(score.low, score.high), "miettinen_nurminen"),
            line("difference_beside", words.points_interval(beside.low, beside.high), "newcombe"),
            line("test", "–" if p_value is None else wording.p_value(p_value), "boschloo"),
            *_reach_lines(reach, plan),
        ),
        notes=(
            *_says(result, reach, plan),
            *_disagreement(score, p_value, alpha),
            *notes("note_newcombe", "note_look_once", "note_unlocked"),
        ),
        numbers={**arms, **_numbers(score, p_value, result, reach, plan)},
        intervals=intervals,
    )


def paired_answer(
    b: int, c: int, *, n: int, confidence: float = 0.95, registered: Registered | None = None
) -> Answer:
    """Return what n pairs, of which A alone passed b and B alone c, say about the difference of two rates.

    n is at least 1. Where no discordance is registered, that of the counts is used, or the effect where it is larger:
    it says how much pairs differ, and nothing about which arm passes more often.
    """
    plan = registered or Registered()
    alpha = alpha_of(confidence)
    tango = stats.tango_interval(b, c, n=n, confidence=confidence)
    test = stats.mcnemar_exact(b, c)
    reach, discordance = _paired_reach(b + c, n, plan, alpha)
    result = _verdict(test.p_value, b - c, alpha, reach, plan)
    numbers = {"n": n, "b": b, "c": c}
    said = ["note_mid_p"]
    if discordance and plan.discordance is None:
        said.append("note_discordance_observed")
    return Answer(
        schema=SCHEMA,
        question="paired",
        sentence=_sentence("compare_paired", numbers, tango, confidence, test.p_value, result),
        lines=(
            line("discordance", f"{b + c} of {n}", "counted"),
            line("difference", wording.points(tango.estimate or 0.0), "counted"),
            line("difference_read", words.points_interval(tango.low, tango.high), "tango"),
            line("test", wording.p_value(test.p_value), "mcnemar"),
            line("mid_p", wording.p_value(test.mid_p), "mid_p"),
            *_reach_lines(reach, plan),
        ),
        notes=(
            *_says(result, reach, plan),
            *_disagreement(tango, test.p_value, alpha),
            *notes(*said, "note_look_once", "note_unlocked"),
        ),
        numbers={
            **numbers,
            **_numbers(tango, test.p_value, result, reach, plan),
            "mid_p": test.mid_p,
            "planning_discordance": discordance,
        },
        intervals=(_named("tango", "headline", tango, confidence),),
    )


def _independent_reach(n_a: int, n_b: int, plan: Registered, alpha: float) -> _Reach:
    where = "where_half" if plan.baseline is None else "where_baseline"
    baseline = "" if plan.baseline is None else wording.percent(plan.baseline)
    least, found = None, None
    if plan.effect is not None:
        if plan.baseline is not None and plan.baseline + plan.effect > 1.0:
            raise StatsInputError(
                "effect", f"{plan.effect} above a baseline of {plan.baseline} is more than all; lower either"
            )
        p_a, p_b = registered_rates(plan.effect, plan.baseline)
        least = needed(p_a, p_b, alpha=alpha, power=plan.power)
        found = chance(n_a, p_a, n_b, p_b, alpha=alpha)
    return _Reach(
        detectable=detectable(n_a, n_b, baseline=plan.baseline, alpha=alpha, power=plan.power),
        needed=least,
        chance=found,
        where=words.sentence(where, baseline=baseline),
        numbers=words.sentence("numbers_independent", n_a=n_a, n_b=n_b),
        unit="needed_each",
    )


def _paired_reach(differing: int, n: int, plan: Registered, alpha: float) -> tuple[_Reach, float]:
    observed = differing / n
    discordance = max(observed, plan.effect or 0.0) if plan.discordance is None else plan.discordance
    least, found = None, None
    if plan.effect is not None:
        if plan.effect > discordance:
            raise StatsInputError(
                "effect", f"{plan.effect} needs at least so many pairs that differ; discordance is {discordance}"
            )
        p10, p01 = pair_chances(discordance, plan.effect)
        size = stats.mcnemar_sample_size(p10, p01, alpha=alpha, power=plan.power)
        least = Planned(size.value, "mcnemar_power", size.reason)
        if n <= MAX_TRIALS:
            found = Planned(stats.mcnemar_power(n, p10, p01=p01, alpha=alpha).value, "mcnemar_power", None)
    return (
        _Reach(
            detectable=detectable_pairs(n, discordance, alpha=alpha, power=plan.power),
            needed=least,
            chance=found,
            where=words.sentence("where_discordance", discordance=wording.percent(discordance)),
            numbers=words.sentence("numbers_paired", n=n),
            unit="needed_pairs",
            known=discordance > 0.0,
        ),
        discordance,
    )


def _verdict(p_value: float, ahead: int, alpha: float, reach: _Reach, plan: Registered) -> stats.VerdictResult:
    rejected = p_value <= alpha
    return stats.verdict(
        True,
        better_supported=rejected and ahead > 0,
        worse_supported=rejected and ahead < 0,
        power=None if reach.chance is None else reach.chance.value,
        target_power=plan.power,
    )


def _sentence(
    template: str,
    counts: Mapping[str, int],
    interval: stats.Interval,
    confidence: float,
    p_value: float | None,
    result: stats.VerdictResult | None,
) -> str:
    values: dict[str, Any] = {
        **counts,
        "difference": wording.points(interval.estimate or 0.0),
        "confidence": wording.percent(confidence),
        "low": wording.points(interval.low or 0.0, rounding="down"),
        "high": wording.points(interval.high or 0.0, rounding="up"),
    }
    if result is None or p_value is None:
        return words.sentence("compare_no_test", **values)
    return words.sentence(template, **values, verdict=result.verdict, p=words.p_text(p_value))


def _says(result: stats.VerdictResult | None, reach: _Reach, plan: Registered) -> tuple[str, ...]:
    """Return what the verdict means, and what the registered effect would have taken."""
    if result is None:
        return ()
    said = []
    if result.verdict != "NOT_DISTINGUISHED":
        said.append(words.sentence(f"says_{result.verdict}"))
    elif not reach.known:
        said.append(words.sentence("says_NOT_DISTINGUISHED_unknown"))
    else:
        none = "_out_of_reach" if reach.detectable.value is None else ""
        said.append(
            words.sentence(
                f"says_NOT_DISTINGUISHED{none}",
                numbers=reach.numbers,
                detectable=words.size(reach.detectable.value),
                power=wording.percent(plan.power),
                where=reach.where,
            )
        )
    if reach.chance is not None and reach.needed is not None and plan.effect is not None:
        said.append(_effect_sentence(result, reach, plan))
    return tuple(said)


def _effect_sentence(result: stats.VerdictResult, reach: _Reach, plan: Registered) -> str:
    least = None if reach.needed is None else reach.needed.value
    return words.sentence(
        "effect_underpowered" if result.underpowered else "effect_powered",
        effect=words.size(plan.effect),
        chance=words.chance(reach.chance.value if reach.chance else None),
        numbers=reach.numbers,
        power=wording.percent(plan.power),
        needed=words.sentence("needed_unknown" if least is None else reach.unit, n=words.whole(least)),
    )


def _arm_lines(arms: Mapping[str, int], confidence: float) -> tuple[Line, ...]:
    rows = []
    for arm, k, n in (("A", arms["k_a"], arms["n_a"]), ("B", arms["k_b"], arms["n_b"])):
        wilson = stats.wilson_interval(k, n, confidence=confidence)
        value = wording.interval(wilson.low, wilson.high)
        rows.append(line("arm", value, "wilson", arm=arm, k=str(k), n=str(n)))
    return tuple(rows)


def _reach_lines(reach: _Reach, plan: Registered) -> tuple[Line, ...]:
    rows = [line("detectable", words.size(reach.detectable.value), reach.detectable.method)]
    effect = words.size(plan.effect)
    if reach.chance is not None:
        rows.append(line("power", words.chance(reach.chance.value), reach.chance.method, effect=effect))
    if reach.needed is not None:
        rows.append(line("needed", words.whole(reach.needed.value), reach.needed.method, effect=effect))
    return tuple(rows)


def _disagreement(interval: stats.Interval, p_value: float | None, alpha: float) -> tuple[str, ...]:
    if p_value is None or interval.low is None or interval.high is None:
        return ()
    excludes = interval.low > 0.0 or interval.high < 0.0
    return notes("note_test_decides") if excludes != (p_value <= alpha) else ()


def _numbers(
    interval: stats.Interval,
    p_value: float | None,
    result: stats.VerdictResult | None,
    reach: _Reach,
    plan: Registered,
) -> dict[str, Any]:
    return {
        "verdict": None if result is None else result.verdict,
        "underpowered": None if result is None else result.underpowered,
        "difference": interval.estimate,
        "p_value": p_value,
        "registered": asdict(plan),
        "detectable": _planned(reach.detectable),
        "needed": _planned(reach.needed),
        "power": _planned(reach.chance),
        "reason": "out_of_reach" if p_value is None else None,
    }


def _planned(value: Planned | None) -> dict[str, Any] | None:
    return None if value is None else asdict(value) | {"method": words.METHODS[value.method]}


def _named(method: str, role: Role, interval: stats.Interval, confidence: float) -> NamedInterval:
    return NamedInterval(
        method=words.METHODS[method],
        role=role,
        confidence=confidence,
        low=interval.low,
        high=interval.high,
        reason=interval.reason,
    )
