"""Counts first: who is in the denominator, what a success costs, which stage loses, how held-out domains fare.

Definitions: statistics specification, sections 2 and 11. There is no survivor metric: an episode that was started
stays in the denominator unless the registered denominator says otherwise, and then the bounds stand beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from trialplate.stats.inputs import count, counts, one_of, part_of, parts_of, real, sequence
from trialplate.stats.results import Reason, Result, Value

Denominator = Literal["initiated", "initiated_minus_excluded", "passed_plus_failed"]
DENOMINATORS: tuple[Denominator, ...] = ("initiated", "initiated_minus_excluded", "passed_plus_failed")
STATUSES = ("PASS", "FAIL", "ERROR", "EXCLUDED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting(Result):
    """All counts of one arm, its rate, and how far errors and exclusions could move that rate.

    ``error_low``/``error_high``: no errored episode, or every one, would have passed (of those not excluded).
    ``exclusion_low``/``exclusion_high``: the same for excluded episodes (of all initiated). ``coverage``:
    initiated / planned; above 1 when trials were run more often than planned.
    """

    planned: int
    initiated: int
    excluded: int
    errored: int
    passed: int
    failed: int
    n: int
    rate: float | None
    error_low: float | None
    error_high: float | None
    exclusion_low: float | None
    exclusion_high: float | None
    coverage: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRates(Result):
    """How many entries reached and passed each stage in order; a rate is null where nothing reached the stage."""

    reached: tuple[int, ...]
    passed: tuple[int, ...]
    rates: tuple[float | None, ...]
    success_rate: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutDomains(Result):
    """Equal-weight mean, worst and population variance of the domain rates; retention = worst / nominal rate."""

    mean: float | None
    worst: float | None
    variance: float | None
    retention: float | None
    reason: Reason | None


def episode_accounting(
    planned: int, statuses: Sequence[str], *, denominator: Denominator = "initiated"
) -> Accounting:
    """Return the counts of the initiated episodes and their success rate in the registered denominator.

    ``statuses``: one of ``STATUSES`` per initiated episode, in any order. No episode: ``no_attempts``. Neither a
    PASS nor a FAIL: ``nothing_measured``. Both make rate and bounds null, never 0. Nothing planned makes the
    coverage null with ``no_attempts``. Raises ``StatsInputError`` for an unknown status or denominator.
    """
    plan = count("planned", planned)
    one_of("denominator", denominator, DENOMINATORS)
    rows = [one_of(f"statuses[{at}]", s, STATUSES) for at, s in enumerate(sequence("statuses", statuses))]
    passed, failed, errored, excluded = (rows.count(status) for status in STATUSES)
    initiated = len(rows)
    measured = initiated - excluded
    n = {
        "initiated": initiated,
        "initiated_minus_excluded": measured,
        "passed_plus_failed": passed + failed,
    }[denominator]
    reason: Reason | None = None
    if initiated == 0:
        reason = "no_attempts"
    elif passed + failed == 0:
        reason = "nothing_measured"
    elif plan == 0:
        reason = "no_attempts"
    defined = passed + failed > 0
    return Accounting(
        planned=plan,
        initiated=initiated,
        excluded=excluded,
        errored=errored,
        passed=passed,
        failed=failed,
        n=n,
        rate=passed / n if defined else None,
        error_low=passed / measured if defined else None,
        error_high=(passed + errored) / measured if defined else None,
        exclusion_low=passed / initiated if defined else None,
        exclusion_high=(passed + excluded) / initiated if defined else None,
        coverage=initiated / plan if plan else None,
        reason=reason,
    )


def ratio_per_success(total: float | None, successes: int) -> Value:
    """Return the total (cost, time) of **all** attempts divided by the successes.

    ``total`` is ``None`` when any part of it is unknown: null with ``unknown_total``. No success: null with
    ``zero_successes``. A known total of 0 is a value. Raises ``StatsInputError`` for a negative total.
    """
    won = count("successes", successes)
    if total is None:
        return Value(None, "unknown_total")
    spent = real("total", total, minimum=0.0)
    return Value(spent / won, None) if won else Value(None, "zero_successes")


def stage_rates(stages_passed: Sequence[int], n_stages: int) -> StageRates:
    """Return reached, passed and rate of every stage of a ladder, and the success rate.

    ``stages_passed``: one entry per counted episode, the number of leading stages it passed (0 .. n_stages).
    reached(first) = entries, reached(i) = passed(i - 1), success = passed(last) / entries. A stage that nothing
    reached has a null rate with ``no_attempts``, the others keep theirs.
    """
    stages = count("n_stages", n_stages, minimum=1)
    ladders = counts("stages_passed", stages_passed, maximum=stages)
    lost_at = [0] * (stages + 1)
    for leading in ladders:
        lost_at[leading] += 1
    alive = len(ladders)
    reached: list[int] = []
    passed: list[int] = []
    for stage in range(stages):
        reached.append(alive)
        alive -= lost_at[stage]
        passed.append(alive)
    return StageRates(
        reached=tuple(reached),
        passed=tuple(passed),
        rates=tuple(won / came if came else None for won, came in zip(passed, reached, strict=True)),
        success_rate=passed[-1] / len(ladders) if ladders else None,
        reason=None if reached[-1] else "no_attempts",
    )


def held_out_domains(
    nominal_k: int, nominal_n: int, *, domain_k: Sequence[int], domain_n: Sequence[int]
) -> HeldOutDomains:
    """Return how the success rate holds up over domains that informed nothing.

    A domain without attempts makes mean, worst, variance and retention null (``task_without_attempts``): it is
    not dropped. No domain at all: ``no_values``. Retention alone is null when the nominal rate is 0
    (``nominal_zero``) or has no attempts (``no_attempts``).
    """
    base_k, base_n = part_of("nominal_k", nominal_k, whole_argument="nominal_n", whole=nominal_n)
    some, totals = parts_of("domain_k", domain_k, whole_argument="domain_n", wholes=domain_n)
    if not totals or 0 in totals:
        reason: Reason = "task_without_attempts" if totals else "no_values"
        return HeldOutDomains(mean=None, worst=None, variance=None, retention=None, reason=reason)
    rates = [Fraction(k, n) for k, n in zip(some, totals, strict=True)]
    mean = sum(rates, Fraction(0)) / len(rates)
    variance = sum(((rate - mean) ** 2 for rate in rates), Fraction(0)) / len(rates)
    worst = min(rates)
    retention = float(worst * base_n / base_k) if base_k else None
    missing: Reason = "nominal_zero" if base_n else "no_attempts"
    return HeldOutDomains(
        mean=float(mean),
        worst=float(worst),
        variance=float(variance),
        retention=retention,
        reason=None if base_k else missing,
    )
