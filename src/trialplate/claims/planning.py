"""How many episodes a question takes, before anything runs; and what a given number of them can find.

Definitions: statistics specification, sections 4, 6 and 9. The first number is that of the test that decides.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from trialplate import stats
from trialplate.claims import counts_wording as words
from trialplate.claims import wording
from trialplate.claims.answers import Answer, Line, alpha_of, line, notes
from trialplate.claims.pair_foresight import UNDEFINED_RISK
from trialplate.claims.reach import Planned, chance, detectable, detectable_pairs, needed
from trialplate.errors import StatsInputError
from trialplate.stats.gates import MIN_FAMILIES

SCHEMA = "trialplate.plan/1"
FAILURES = (0, 1, 2, 3, 5)
DISCORDANCES = (0.05, 0.1, 0.2, 0.3, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What every plan wants: the chance to find the effect, the confidence, and the design effect of clusters."""

    power: float = 0.8
    confidence: float = 0.95
    deff: float = 1.0

    @property
    def alpha(self) -> float:
        """The two-sided error rate."""
        return alpha_of(self.confidence)

    def effective(self, n: int) -> int:
        """Return the independent episodes that n are worth."""
        return int(n / Fraction(repr(self.deff)))

    def stretched(self, n: float | None) -> int | None:
        """Return n independent episodes times the design effect, rounded up."""
        return None if n is None else math.ceil(Fraction(repr(self.deff)) * int(n))

    def said(self) -> dict[str, Any]:
        """Return the values that sentences need."""
        return {"power": wording.percent(self.power), "alpha": words.digits(self.alpha)}

    def document(self) -> dict[str, Any]:
        """Return the plain values, for programs."""
        return asdict(self) | {"alpha": self.alpha}


def rates_plan(p1: float, p2: float, *, wanted: Wanted, episodes: int | None = None) -> Answer:
    """Return the episodes of each of two independent arms that tell rate p1 from p2."""
    exact = needed(p1, p2, alpha=wanted.alpha, power=wanted.power, deff=wanted.deff)
    rough = stats.two_proportion_sample_size(p1, p2, alpha=wanted.alpha, power=wanted.power, deff=wanted.deff)
    rows = [line("each_arm", words.whole(exact.value), exact.method)]
    if exact.method != "normal":
        rows.append(line("each_arm_beside", words.whole(rough.n), "normal"))
    at = None
    if episodes is not None:
        size = wanted.effective(episodes)
        at = chance(size, p1, size, p2, alpha=wanted.alpha) if size else Planned(0.0, exact.method, None)
        rows.append(line("power_at", words.chance(at.value), at.method, n=str(episodes)))
    values = {"p1": wording.percent(p1), "p2": wording.percent(p2), **wanted.said()}
    return _answer(
        "two_rates",
        _sized("plan_rates", exact, values),
        rows,
        wanted,
        said=("note_teeth", "note_before"),
        numbers={
            "p1": p1,
            "p2": p2,
            "episodes_each": _named(exact),
            "episodes_each_formula": rough.n,
            **_at(episodes, at),
        },
        holds=exact.value is not None,
    )


def pairs_plan(p10: float, p01: float, *, wanted: Wanted, episodes: int | None = None) -> Answer:
    """Return the matched pairs that tell p10 (only A passes) from p01 (only B)."""
    alpha, power, deff = wanted.alpha, wanted.power, wanted.deff
    found = stats.mcnemar_sample_size(p10, p01, alpha=alpha, power=power, deff=deff)
    exact = Planned(found.value, "mcnemar_power", found.reason)
    mid_p = stats.mcnemar_sample_size(p10, p01, alpha=alpha, power=power, deff=deff, variant="mid-p")
    rough = stats.paired_sample_size(p10, p01, alpha=alpha, power=power, deff=deff)
    rows = [
        line("pairs", words.whole(exact.value), "mcnemar_power"),
        line("pairs_beside", words.whole(mid_p.value), "mid_p_power"),
        line("pairs_formula", words.whole(rough.n), "connor"),
    ]
    at = None
    if episodes is not None:
        reached = stats.mcnemar_power(wanted.effective(episodes), p10, p01=p01, alpha=alpha)
        at = Planned(reached.value, "mcnemar_power", reached.reason)
        rows.append(line("power_at", words.chance(at.value), at.method, n=str(episodes)))
    values = {"p10": wording.percent(p10), "p01": wording.percent(p01), **wanted.said()}
    return _answer(
        "pairs",
        _sized("plan_pairs", exact, values),
        rows,
        wanted,
        said=("note_exact_power", "note_teeth", "note_before"),
        numbers={
            "p10": p10,
            "p01": p01,
            "pairs": _named(exact),
            "pairs_mid_p": mid_p.value,
            "pairs_formula": rough.n,
            **_at(episodes, at),
        },
        holds=exact.value is not None,
    )


def margin_plan(margin: float, discordance: float, *, wanted: Wanted, episodes: int | None = None) -> Answer:
    """Return the pairs that show "not worse by more than ``margin``" of two arms that pass alike."""
    half = discordance / 2.0
    given = {"alpha": wanted.alpha, "power": wanted.power, "deff": wanted.deff}
    found = stats.noninferiority_sample_size(half, half, margin=margin, **given)
    exact = Planned(found.value, "tango_power", found.reason)
    rough = stats.noninferiority_pairs(discordance, margin, **given)
    never = stats.noninferiority_sample_size(0.0, 0.0, margin=margin, **given)
    rows = [
        line("pairs", words.whole(exact.value), "tango_power"),
        line("pairs_formula", words.whole(rough.n), "formula"),
        line("no_discordance", words.whole(never.value), "tango_power"),
    ]
    at = None
    if episodes is not None:
        power = stats.noninferiority_power(
            wanted.effective(episodes), half, p01=half, margin=margin, alpha=wanted.alpha
        )
        at = Planned(power.value, "tango_power", power.reason)
        rows.append(line("power_at", words.chance(at.value), at.method, n=str(episodes)))
    values = {"margin": words.size(margin), "discordance": wording.percent(discordance), **wanted.said()}
    return _answer(
        "margin",
        _sized("plan_margin", exact, values),
        rows,
        wanted,
        said=("note_alike_arms", "note_before"),
        numbers={
            "margin": margin,
            "discordance": discordance,
            "pairs": _named(exact),
            "pairs_formula": rough.n,
            "pairs_without_discordance": never.value,
            **_at(episodes, at),
        },
        holds=exact.value is not None,
    )


def demonstration_plan(rate: float, *, wanted: Wanted, episodes: int | None = None) -> Answer:
    """Return the episodes that demonstrate ``rate``, by how many of them may fail; or how many of n must pass."""
    if episodes is not None and wanted.deff != 1.0:
        raise StatsInputError(
            "deff", "how many of a given number must pass depends on how they fall into clusters; leave it out"
        )
    values = {"rate": wording.percent(rate), "confidence": wording.percent(wanted.confidence)}
    rows, sizes = [], []
    for failures in FAILURES:
        n = stats.demonstration_sample_size(rate, wanted.confidence, failures=failures, deff=wanted.deff).value
        base = stats.demonstration_sample_size(rate, wanted.confidence, failures=failures).value
        true = _true_rate(base, failures, wanted.power)
        sizes.append({"failures": failures, "episodes": n, "true_rate": true})
        label = {0: "allowed_none", 1: "allowed_one"}.get(failures, "allowed")
        rows.append(line(label, words.at_rate(n, true), "clopper_pearson", failures=str(failures)))
    numbers: dict[str, Any] = {"rate": rate, "sizes": sizes}
    first = sizes[0]["episodes"]
    said, holds = _sized("plan_demonstrate", Planned(first, "clopper_pearson", None), values), first is not None
    if episodes is not None:
        k = stats.demonstration_passes(episodes, rate, confidence=wanted.confidence).value
        holds = k is not None
        template = "plan_demonstrate_at" if holds else "plan_demonstrate_few"
        said = words.sentence(template, **values, k=words.whole(k), n=episodes, needed=words.whole(first))
        true = None if k is None else stats.rate_for_passes(int(k), episodes, power=wanted.power).value
        rows.insert(0, line("passes", words.at_rate(k, true), "clopper_pearson", n=str(episodes)))
        numbers |= {"episodes": episodes, "passes": k, "true_rate": true}
    return _answer(
        "demonstrate",
        said,
        rows,
        wanted,
        said=("note_rate_for",),
        numbers=numbers,
        holds=holds,
    )


def detection_plan(
    episodes: int, *, wanted: Wanted, baseline: float | None = None, discordance: float | None = None
) -> Answer:
    """Return the smallest difference that ``episodes`` of each arm find; that many pairs, with a discordance."""
    size = wanted.effective(episodes)
    if discordance is not None:
        found = detectable_pairs(size, discordance, alpha=wanted.alpha, power=wanted.power)
        where = words.sentence("where_discordance", discordance=wording.percent(discordance))
        template = "plan_detect_pairs"
    else:
        found = (
            detectable(size, size, baseline=baseline, alpha=wanted.alpha, power=wanted.power)
            if size
            else Planned(None, "boschloo_power", "out_of_reach")
        )
        where = (
            words.sentence("where_half")
            if baseline is None
            else words.sentence("where_baseline", baseline=wording.percent(baseline))
        )
        template = "plan_detect"
    values = {
        "n": episodes,
        "detectable": words.size(found.value),
        "where": where,
        "method": words.METHODS[found.method],
        **wanted.said(),
    }
    none = "_none" if found.value is None else ""
    rows = [line("detectable", words.size(found.value), found.method)]
    if discordance is None and baseline is None:
        rows += _by_discordance(size, wanted)
    return _answer(
        "detectable",
        words.sentence(f"{template}{none}", **values),
        rows,
        wanted,
        said=("note_before",),
        numbers={
            "episodes": episodes,
            "baseline": baseline,
            "discordance": discordance,
            "difference": _named(found),
        },
        holds=found.value is not None,
        divided=True,
    )


def draws_plan(families: int, with_success: int, *, draws: int, wanted: Wanted) -> Answer:
    """Return the chance that a bootstrap draw over families has no success, so that a cost ratio is undefined."""
    found = stats.undefined_draw_probability(families, with_success, draws=draws)
    rows = [
        line("per_draw", words.at_most(found.per_draw), "bootstrap"),
        line("any_draw", words.at_most(found.any_draw), "bootstrap", draws=str(draws)),
    ]
    few = families < MIN_FAMILIES
    extra = notes("note_min_families", least=MIN_FAMILIES, families=families) if few else ()
    answer = _answer(
        "undefined_draws",
        words.sentence(
            "plan_draws", some=with_success, families=families, draws=draws, any_draw=words.at_most(found.any_draw)
        ),
        rows,
        wanted,
        said=("note_draws",),
        numbers={
            "families": families,
            "with_success": with_success,
            "draws": draws,
            "per_draw": found.per_draw,
            "any_draw": found.any_draw,
        },
        holds=not few and found.any_draw <= UNDEFINED_RISK,
        extra=extra,
    )
    return answer


def _by_discordance(size: int, wanted: Wanted) -> list[Line]:
    rows = []
    for psi in DISCORDANCES:
        found = detectable_pairs(size, psi, alpha=wanted.alpha, power=wanted.power)
        label = wording.percent(psi)
        rows.append(line("discordant", words.size(found.value), found.method, discordance=label))
    return rows


def _true_rate(n: float | None, failures: int, power: float) -> float | None:
    return None if n is None else stats.rate_for_passes(int(n) - failures, int(n), power=power).value


def _sized(template: str, found: Planned, values: dict[str, Any]) -> str:
    if found.value is None:
        return words.sentence("plan_out_of_reach")
    return words.sentence(template, **values, n=words.whole(found.value), method=words.METHODS[found.method])


def _named(found: Planned) -> dict[str, Any]:
    return asdict(found) | {"method": words.METHODS[found.method]}


def _at(episodes: int | None, found: Planned | None) -> dict[str, Any]:
    return {} if found is None else {"episodes": episodes, "power_at_episodes": _named(found)}


def _answer(
    question: str,
    sentence: str,
    rows: list[Line],
    wanted: Wanted,
    *,
    said: tuple[str, ...],
    numbers: dict[str, Any],
    holds: bool,
    extra: tuple[str, ...] = (),
    divided: bool = False,
) -> Answer:
    values = wanted.said()
    told: list[str] = [*extra, *(words.sentence(name, **values) for name in said)]
    if wanted.deff != 1.0:
        name = "note_deff_detect" if divided else "note_deff"
        told.append(words.sentence(name, deff=words.digits(wanted.deff)))
    return Answer(
        schema=SCHEMA,
        question=question,
        sentence=sentence,
        lines=tuple(rows),
        notes=tuple(told),
        numbers={"wanted": wanted.document(), **numbers},
        holds=holds,
    )
