"""The paired family bootstrap of a large campaign: seconds, memory, and speed against scipy for a single ratio.

20 policies of 100,000 episodes each in 1,000 families, 2,000 draws: cost ratio, time ratio and difference of all 190
pairs, percentile bounds by both rules and t bounds, from columns in memory. A process of its own reports its peak.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from statistics import median
from time import perf_counter

import numpy as np
from figures import Figure, main, take_turns

from trialplate.stats import family_bootstrap, family_totals, paired_family_bootstrap

POLICIES, EPISODES, FAMILIES, DRAWS = 20, 100_000, 1_000, 2_000
KIBIBYTE, MEBIBYTE = 2**10, 2**20
SECONDS_TARGET, MEBIBYTES_TARGET, SPEED_TARGET = 1.0, 300.0, 1.0


def whole_analysis(rounds: int) -> dict[str, float]:
    """Draw a campaign, analyse it ``rounds`` times and return the median seconds and the peak of this process."""
    rng = np.random.default_rng(1)
    rows = POLICIES * EPISODES
    columns = {
        "family": rng.integers(0, FAMILIES, rows, dtype=np.int32),
        "arm": np.repeat(np.arange(POLICIES, dtype=np.int16), EPISODES),
        "passed": rng.integers(0, 10, rows, dtype=np.int8) // 3 % 2,
        "cost": rng.integers(1, 10**9, rows),
        "time": rng.integers(1, 10**8, rows),
    }
    families, arms = [f"family-{n}" for n in range(FAMILIES)], [f"policy-{n}" for n in range(POLICIES)]
    spent_s = []
    for _ in range(rounds):
        start_s = perf_counter()
        totals = family_totals(families, arms, **columns)
        family_bootstrap(totals.totals, draws=DRAWS, unknown=totals.unknown)
        spent_s.append(perf_counter() - start_s)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBIBYTE
    return {"seconds": median(spent_s), "mebibytes": peak / MEBIBYTE}


def speed_against_scipy(rounds: int) -> float:
    """Return our speed over scipy's for one cost ratio: as many families and draws, percentile bounds in both."""
    from scipy.stats import bootstrap

    rng = np.random.default_rng(2)
    size = FAMILIES
    won_a, won_b = rng.integers(3, 10, (2, size))
    cost_a, cost_b = rng.integers(50, 500, (2, size))
    tried = [10] * size

    def theirs() -> object:
        def ratio(c_a: np.ndarray, s_a: np.ndarray, c_b: np.ndarray, s_b: np.ndarray, axis: int = -1) -> np.ndarray:
            return (c_a.sum(axis) / s_a.sum(axis)) / (c_b.sum(axis) / s_b.sum(axis))

        columns = (cost_a, won_a, cost_b, won_b)
        return bootstrap(columns, ratio, paired=True, n_resamples=DRAWS, method="percentile", vectorized=True)

    def ours() -> object:
        return paired_family_bootstrap(
            tried, won_a, cost_a=cost_a.tolist(), n_b=tried, k_b=won_b, cost_b=cost_b.tolist(), draws=DRAWS
        )

    return take_turns(ours, theirs, rounds=rounds).speed_ratio


def measure(quick: bool) -> list[Figure]:
    """Measure the whole analysis in a child process, then one ratio against scipy here."""
    rounds = 1 if quick else 5
    child = subprocess.run([sys.executable, __file__, "--child", str(rounds)], check=True, capture_output=True)
    found = json.loads(child.stdout)
    what = f"{POLICIES} policies x {EPISODES} episodes, {FAMILIES} families, {DRAWS} draws, all pairs"
    return [
        Figure("family bootstrap of a campaign", found["seconds"], "<=", SECONDS_TARGET, "s", what),
        Figure("memory of that process", found["mebibytes"], "<=", MEBIBYTES_TARGET, "MiB", "peak, columns included"),
        Figure(
            "one cost ratio / scipy.stats.bootstrap", speed_against_scipy(3 if quick else 15), ">=", SPEED_TARGET, "",
            "speed; ours gives the difference, both rules and the t bounds too",
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(whole_analysis(int(sys.argv[2]))))
    else:
        main(measure, __doc__ or "")
