"""One rate from counts alone: of independent episodes, of clusters of them, and of incidents in hours.

Definitions: statistics specification, sections 3, 4, 5 and 8. Which interval is read and which one gates is fixed
by the question, never by the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from trialplate import stats
from trialplate.claims import counts_wording as words
from trialplate.claims import wording
from trialplate.claims.answers import Answer, Line, NamedInterval, Role, Sides, line, notes, one_sided
from trialplate.stats.clusters import FEW_CLUSTERS

SCHEMA = "trialplate.interval/1"


def rate_answer(k: int, n: int, *, confidence: float = 0.95) -> Answer:
    """Return what k passes of n independent episodes say about a rate: n is at least 1."""
    wilson = stats.wilson_interval(k, n, confidence=confidence)
    exact = stats.clopper_pearson_interval(k, n, confidence=confidence)
    lower = stats.clopper_pearson_interval(k, n, confidence=confidence, side="lower")
    jeffreys = stats.jeffreys_interval(k, n, confidence=confidence)
    live = stats.confidence_sequence(k, n, confidence=confidence)
    low, high = wording.interval_ends(wilson.low, wilson.high)
    return Answer(
        schema=SCHEMA,
        question="one_rate",
        sentence=words.sentence(
            "rate",
            k=k,
            n=n,
            rate=_rate_text(wilson.estimate),
            confidence=wording.percent(confidence),
            low=low,
            high=high,
        ),
        lines=(
            line("read", wording.interval(wilson.low, wilson.high), "wilson"),
            line("gate", wording.interval(exact.low, exact.high), "clopper_pearson"),
            line("gate_lower", words.at_least(lower.low), "clopper_pearson"),
            line("beside", wording.interval(jeffreys.low, jeffreys.high), "jeffreys"),
            line("live", wording.interval(live.low, live.high), "confidence_sequence"),
        ),
        notes=notes("note_roles", "note_looks", "note_independent", "note_unlocked"),
        numbers={"k": k, "n": n, "rate": wilson.estimate, "reason": wilson.reason},
        intervals=(
            _named("wilson", "headline", wilson, confidence),
            _named("clopper_pearson", "gate", exact, confidence),
            _named("clopper_pearson", "gate", lower, confidence, sides="lower"),
            _named("jeffreys", "beside", jeffreys, confidence),
            _named("confidence_sequence", "live", live, confidence),
        ),
    )


def clustered_answer(k: Sequence[int], n: Sequence[int], *, confidence: float = 0.95) -> Answer:
    """Return what clusters with k passes in n episodes each say about the pooled rate."""
    found = stats.clustered_rate(k, n, confidence=confidence)
    bound = stats.clustered_rate(k, n, confidence=one_sided(confidence)).korn_graubard_low
    plain = stats.wilson_interval(sum(k), sum(n), confidence=confidence)
    intervals = (
        _ends("wilson_t", "headline", found.wilson_low, found.wilson_high, confidence, found.reason),
        _ends("korn_graubard", "gate", found.korn_graubard_low, found.korn_graubard_high, confidence, found.reason),
        _ends(
            "korn_graubard",
            "gate",
            bound,
            None if bound is None else 1.0,
            confidence,
            found.reason,
            sides="lower",
        ),
        _ends("linear_t", "beside", found.t_low, found.t_high, confidence, found.reason),
        _named("wilson_independent", "beside", plain, confidence),
    )
    return Answer(
        schema=SCHEMA,
        question="clustered_rate",
        sentence=_clustered_sentence(found, sum(k), confidence),
        lines=_clustered_lines(found, bound, plain),
        notes=_clustered_notes(found),
        numbers={"k": sum(k), "n": sum(n), **_without_ends(found)},
        intervals=intervals,
        holds=found.wilson_low is not None,
    )


def incidents_answer(events: int, hours: float, *, confidence: float = 0.95) -> Answer:
    """Return what ``events`` in ``hours`` of exposure say about incidents per hour."""
    both = stats.poisson_rate_interval(events, hours, confidence=confidence)
    one = stats.poisson_rate_interval(events, hours, confidence=one_sided(confidence))
    values = {
        "low": words.digits(both.low, rounding="down"),
        "high": words.digits(both.high, rounding="up"),
    }
    return Answer(
        schema=SCHEMA,
        question="incidents",
        sentence=words.sentence(
            "incidents",
            events=events,
            hours=words.digits(hours, places=6),
            rate=words.digits(both.estimate),
            confidence=wording.percent(confidence),
            **values,
        ),
        lines=(
            line("read", words.rate_interval(both.low, both.high), "garwood"),
            line("gate_upper", values["high"], "garwood"),
            line("beside", "<= " + words.digits(one.high, rounding="up"), "garwood_upper"),
        ),
        notes=notes("note_incidents", "note_unlocked"),
        numbers={"events": events, "hours": hours, "per_hour": both.estimate, "reason": both.reason},
        intervals=(
            _named("garwood", "headline", both, confidence),
            _ends("garwood", "beside", 0.0, one.high, confidence, one.reason, sides="upper"),
        ),
    )


def _clustered_sentence(found: stats.ClusteredRate, k: int, confidence: float) -> str:
    values = {
        "k": k,
        "n": found.episodes,
        "clusters": words.counted(found.clusters, "cluster"),
        "rate": _rate_text(found.estimate),
    }
    if found.wilson_low is None:
        return words.sentence("clustered_undefined", **values, reasons=wording.explained([found.reason or ""]))
    low, high = wording.interval_ends(found.wilson_low, found.wilson_high)
    return words.sentence("clustered", **values, confidence=wording.percent(confidence), low=low, high=high)


def _clustered_lines(found: stats.ClusteredRate, bound: float | None, plain: stats.Interval) -> tuple[Line, ...]:
    return (
        line("read", wording.interval(found.wilson_low, found.wilson_high), "wilson_t"),
        line("gate", wording.interval(found.korn_graubard_low, found.korn_graubard_high), "korn_graubard"),
        line("gate_lower", words.at_least(bound), "korn_graubard"),
        line("not_for_claims", wording.interval(found.t_low, found.t_high), "linear_t"),
        line("assumes_independence", wording.interval(plain.low, plain.high), "wilson"),
        line("deff", words.digits(found.deff), "between"),
        line("n_eff", words.digits(found.n_eff), "between"),
        line("icc", words.digits(found.icc), "anova"),
    )


def _clustered_notes(found: stats.ClusteredRate) -> tuple[str, ...]:
    said = [notes("note_clusters")]
    if found.flags:
        said.append(notes("note_few_clusters", few=FEW_CLUSTERS))
    if found.reason == "no_between_cluster_variation":
        said.append(notes("note_no_variation"))
    if found.reason == "no_variation":
        said.append(notes("note_icc"))
    return (*(note for group in said for note in group), *notes("note_unlocked"))


def _without_ends(found: stats.ClusteredRate) -> dict[str, object]:
    """Return what is no interval: those stand in a list of their own."""
    ends = ("t_low", "t_high", "wilson_low", "wilson_high", "korn_graubard_low", "korn_graubard_high")
    plain = {key: value for key, value in asdict(found).items() if key not in ends}
    return plain | {"flags": list(found.flags), "rate": plain.pop("estimate")}


def _rate_text(rate: float | None) -> str:
    return "–" if rate is None else wording.percent(rate)


def _named(
    method: str, role: Role, interval: stats.Interval, confidence: float, *, sides: Sides = "two-sided"
) -> NamedInterval:
    return _ends(method, role, interval.low, interval.high, confidence, interval.reason, sides=sides)


def _ends(
    method: str,
    role: Role,
    low: float | None,
    high: float | None,
    confidence: float,
    reason: str | None,
    *,
    sides: Sides = "two-sided",
) -> NamedInterval:
    missing = low is None or high is None
    return NamedInterval(
        method=words.METHODS[method],
        role=role,
        confidence=confidence,
        low=low,
        high=high,
        reason=reason if missing else None,
        sides=sides,
    )
