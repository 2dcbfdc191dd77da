"""Is a judge's belief a frequency: Brier, log loss, reliability, and what its labels say about the true rate.

Definitions: statistics specification, section 11. A probability is a belief, a rubric a score, k/n a frequency: they
never share an average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from trialplate.stats.distributions import normal_critical
from trialplate.stats.inputs import (
    as_written,
    count,
    flags,
    fraction_within,
    reals,
    same_length,
    sequence,
    tail_area,
)
from trialplate.stats.proportions import wilson_interval
from trialplate.stats.results import Interval, Reason, Result, Value

MAX_BINS = 100_000
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin(Result):
    """One bin of beliefs with members: its number and edges, mean belief, and successes with Wilson's interval."""

    number: int
    lower: float
    upper: float
    n: int
    mean_probability: float
    k: int
    rate: float
    rate_low: float
    rate_high: float
    reason: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationError(Result):
    """Expected and maximum calibration error, and the reliability table; empty bins stand on no line."""

    ece: float | None
    mce: float | None
    table: tuple[ReliabilityBin, ...]
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class MurphyDecomposition(Result):
    """Brier score = reliability - resolution + uncertainty, over groups of equal belief."""

    reliability: float | None
    resolution: float | None
    uncertainty: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class JudgeRates(Result):
    """Sensitivity: share of true successes that the judge passed; specificity: of true failures that it failed."""

    sensitivity: Interval
    specificity: Interval
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class CorrectedRate(Result):
    """A rate corrected for a judge's errors; ``outside_unit_interval`` keeps the number and says what it is."""

    estimate: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class PpiInterval(Result):
    """Prediction-powered mean with its normal interval. ``lam``: how much the predictions were trusted."""

    estimate: float | None
    lam: float | None
    low: float | None
    high: float | None
    reason: Reason | None


def brier_score(outcomes: Sequence[int], probabilities: Sequence[float]) -> Value:
    """Return the mean of (probability - outcome)^2. No outcome: null with ``no_values``."""
    won, beliefs = _beliefs(outcomes, probabilities)
    if not won:
        return Value(None, "no_values")
    return Value(math.fsum((p - y) ** 2 for y, p in zip(won, beliefs, strict=True)) / len(won), None)


def log_loss(outcomes: Sequence[int], probabilities: Sequence[float]) -> Value:
    """Return the mean of -ln(probability of what happened).

    An outcome that was called impossible makes it infinite: null with ``infinite_loss``. No outcome: ``no_values``.
    """
    won, beliefs = _beliefs(outcomes, probabilities)
    if not won:
        return Value(None, "no_values")
    if any(p == (0.0 if y else 1.0) for y, p in zip(won, beliefs, strict=True)):
        return Value(None, "infinite_loss")
    losses = (-math.log(p) if y else -math.log1p(-p) for y, p in zip(won, beliefs, strict=True))
    return Value(math.fsum(losses) / len(won), None)


def calibration_error(
    outcomes: Sequence[int], probabilities: Sequence[float], *, bins: int = 10, confidence: float = 0.95
) -> CalibrationError:
    """Return ECE = sum n_b/N |rate - mean belief| and its largest term over ``bins`` equal bins.

    Bins are [i/B, (i + 1)/B), the last one closed, found by comparing with the edges: .29 of 100 bins lies in bin 29.
    No outcome: null with ``no_values``.
    """
    won, beliefs = _beliefs(outcomes, probabilities)
    number = count("bins", bins, minimum=1, maximum=MAX_BINS)
    tail_area(confidence)
    if not won:
        return CalibrationError(ece=None, mce=None, table=(), reason="no_values")
    edges = np.arange(number + 1) / number
    places = np.minimum(np.searchsorted(edges, beliefs, side="right") - 1, number - 1)
    rows = []
    for place in np.unique(places).tolist():
        inside = np.flatnonzero(places == place).tolist()
        k, n = sum(won[at] for at in inside), len(inside)
        interval = wilson_interval(k, n, confidence=confidence)
        rows.append(
            ReliabilityBin(
                number=place,
                lower=float(edges[place]),
                upper=float(edges[place + 1]),
                n=n,
                mean_probability=math.fsum(beliefs[at] for at in inside) / n,
                k=k,
                rate=k / n,
                rate_low=interval.low or 0.0,
                rate_high=1.0 if interval.high is None else interval.high,
            )
        )
    gaps = [abs(row.rate - row.mean_probability) for row in rows]
    ece = math.fsum(row.n * gap for row, gap in zip(rows, gaps, strict=True)) / len(won)
    return CalibrationError(ece=ece, mce=max(gaps), table=tuple(rows), reason=None)


def murphy_decomposition(outcomes: Sequence[int], probabilities: Sequence[float]) -> MurphyDecomposition:
    """Return reliability, resolution and uncertainty of the Brier score over groups of equal probability.

    Reliability = mean (p_g - rate_g)^2, resolution = mean (rate_g - rate)^2, uncertainty = rate (1 - rate). No
    outcome: null with ``no_values``. Source: Murphy, J. Appl. Meteorol. 12 (1973) 595.
    """
    won, beliefs = _beliefs(outcomes, probabilities)
    if not won:
        return MurphyDecomposition(None, None, None, "no_values")
    groups: dict[float, list[bool]] = {}
    for y, p in zip(won, beliefs, strict=True):
        groups.setdefault(p, []).append(y)
    n, rate = len(won), Fraction(sum(won), len(won))
    rates = {p: Fraction(sum(members), len(members)) for p, members in groups.items()}
    reliability = math.fsum(len(groups[p]) * (p - float(r)) ** 2 for p, r in rates.items()) / n
    resolution = sum((len(groups[p]) * (r - rate) ** 2 for p, r in rates.items()), Fraction(0)) / n
    return MurphyDecomposition(reliability, float(resolution), float(rate * (1 - rate)), None)


def judge_rates(truth: Sequence[int], judged: Sequence[int], *, confidence: float = 0.95) -> JudgeRates:
    """Return a judge's sensitivity and specificity against the human reference, each with Wilson's interval.

    Without a true success the sensitivity, without a true failure the specificity is null with ``no_attempts``.
    """
    true, said = flags("truth", truth), flags("judged", judged)
    same_length("judged", said, other_argument="truth", other=true)
    found = [
        [says for is_true, says in zip(true, said, strict=True) if is_true is wanted] for wanted in (True, False)
    ]
    passed, failed = sum(found[0]), len(found[1]) - sum(found[1])
    return JudgeRates(
        wilson_interval(passed, len(found[0]), confidence=confidence),
        wilson_interval(failed, len(found[1]), confidence=confidence),
    )


def rogan_gladen(rate: float, sensitivity: float, *, specificity: float) -> CorrectedRate:
    """Return (rate + specificity - 1)/(sensitivity + specificity - 1), the true rate behind a judge's rate.

    Outside [0, 1] it is returned as it is, with ``outside_unit_interval``. sensitivity + specificity <= 1: null with
    ``judge_not_informative``. Source: Rogan and Gladen, Am. J. Epidemiol. 107 (1978) 71.
    """
    apparent, hit, reject = (
        as_written(fraction_within(name, value))
        for name, value in (("rate", rate), ("sensitivity", sensitivity), ("specificity", specificity))
    )
    if hit + reject <= 1:
        return CorrectedRate(None, "judge_not_informative")
    estimate = (apparent + reject - 1) / (hit + reject - 1)
    return CorrectedRate(float(estimate), None if 0 <= estimate <= 1 else "outside_unit_interval")


def ppi_mean_interval(
    labels: Sequence[float],
    predictions: Sequence[float],
    *,
    unlabelled_predictions: Sequence[float],
    lam: float | None = None,
    confidence: float = 0.95,
) -> PpiInterval:
    """Return the prediction-powered mean: lam mean(f of N unlabelled) + mean(y - lam f of n labelled).

    Variance: var(y - lam f)/n + lam^2 var(f unlabelled)/N, divisors n and N. ``lam=None``: Cov(y, f)/((1 + n/N)
    Var(f pooled)), covariance with divisor n, pooled variance with n + N - 1, cut to [0, 1]. Valid only for an audit
    subset that was drawn at random, and secondary then. No label or no unlabelled prediction: null with
    ``no_values``; nothing varies: bounds null with ``no_variation``. Source: Angelopoulos, Duchi and Zrnic, PPI++
    (2023).
    """
    y, f, rest = (
        np.array(reals(name, values))
        for name, values in (
            ("labels", labels),
            ("predictions", predictions),
            ("unlabelled_predictions", unlabelled_predictions),
        )
    )
    same_length("predictions", f.tolist(), other_argument="labels", other=y.tolist())
    given = None if lam is None else fraction_within("lam", lam)
    tail = tail_area(confidence)
    if not len(y) or not len(rest):
        return PpiInterval(None, None, None, None, "no_values")
    trust = _tuned_trust(y, f, rest) if given is None else given
    residual = y - trust * f
    estimate = float(trust * rest.mean() + residual.mean())
    variance = float(residual.var() / len(y) + trust**2 * rest.var() / len(rest))
    if variance == 0.0:
        return PpiInterval(estimate, trust, None, None, "no_variation")
    reach = normal_critical(tail) * math.sqrt(variance)
    return PpiInterval(estimate, trust, estimate - reach, estimate + reach, None)


def _tuned_trust(y: Floats, f: Floats, rest: Floats) -> float:
    pooled = np.concatenate([f, rest])
    spread = float(pooled.var(ddof=1))
    if spread == 0.0:
        return 0.0
    covariance = float(((y - y.mean()) * (f - f.mean())).mean())
    return min(1.0, max(0.0, covariance / ((1.0 + len(y) / len(rest)) * spread)))


def _beliefs(outcomes: object, probabilities: object) -> tuple[list[bool], list[float]]:
    won = flags("outcomes", outcomes)
    items = sequence("probabilities", probabilities)
    same_length("probabilities", items, other_argument="outcomes", other=won)
    return won, [fraction_within(f"probabilities[{at}]", item) for at, item in enumerate(items)]
