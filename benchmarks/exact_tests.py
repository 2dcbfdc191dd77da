"""Exact answers while a person waits: the unmatched test of large arms, exact power, bounds of registered looks.

Seconds are the median of a few calls. The first figure is a whole process, interpreter and imports included, that
compares 17/20 with 14/20 in every way this package knows.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter

from figures import Figure, main, take_turns

from trialplate.stats import (
    boschloo_power,
    boschloo_test,
    lan_demets_bounds,
    mcnemar_power,
    mcnemar_sample_size,
    noninferiority_sample_size,
    paired_e_value_sample_size,
)

COMPARISON = """
from trialplate import stats
k = {"k2": 14, "n2": 20}
stats.boschloo_test(17, 20, **k), stats.miettinen_nurminen_interval(17, 20, **k), stats.newcombe_interval(17, 20, **k)
stats.wilson_interval(17, 20), stats.clopper_pearson_interval(17, 20), stats.probability_greater(17, 20, **k)
"""
CALLS: tuple[tuple[str, Callable[[], object], float, str], ...] = (
    ("unmatched exact test", lambda: boschloo_test(500, 1000, k2=540, n2=1000), 1.0, "Boschloo, 1,000 a side"),
    ("unmatched exact power", lambda: boschloo_power(200, 0.8, n2=200, p2=0.9), 1.0, "Boschloo, 200 a side"),
    ("paired exact power", lambda: mcnemar_power(500, 0.15, p01=0.05), 1.0, "McNemar, 500 pairs"),
    ("paired exact plan", lambda: mcnemar_sample_size(0.03, 0.01), 1.0, "first n of McNemar's test, some 800 pairs"),
    ("e-process plan", lambda: paired_e_value_sample_size(0.03, 0.01), 1.0, "first n when every pair is looked at"),
    (
        "non-inferiority exact plan",
        lambda: noninferiority_sample_size(0.025, 0.025, margin=0.03),
        1.0,
        "first n of Tango's bound, some 500 pairs",
    ),
    ("bounds of five looks", lambda: lan_demets_bounds([0.2, 0.4, 0.6, 0.8, 1.0]), 2.0, "Lan-DeMets"),
)
SPEED_TARGET = 10.0


def seconds(call: Callable[[], object], rounds: int) -> float:
    """Return the median seconds of a call, after one that does not count."""
    call()
    spent_s = []
    for _ in range(rounds):
        start_s = perf_counter()
        call()
        spent_s.append(perf_counter() - start_s)
    return median(spent_s)


def measure(quick: bool) -> list[Figure]:
    """Time a process, every call, and one test against scipy's."""
    from scipy.stats import boschloo_exact

    rounds = 1 if quick else 5

    def comparison() -> object:
        return subprocess.run([sys.executable, "-c", COMPARISON], check=True)

    figures = [Figure("17/20 against 14/20", seconds(comparison, rounds), "<=", 2.0, "s", "a whole process")]
    figures += [Figure(name, seconds(call, rounds), "<=", target, "s", note) for name, call, target, note in CALLS]
    turns = take_turns(
        lambda: boschloo_test(150, 250, k2=170, n2=250),
        lambda: boschloo_exact([[150, 170], [100, 80]]),
        rounds=rounds,
    )
    note = "speed, 250 a side"
    return [*figures, Figure("unmatched exact test / scipy", turns.speed_ratio, ">=", SPEED_TARGET, "", note)]


if __name__ == "__main__":
    main(measure, __doc__ or "")
