"""How often intervals hold and gates fire falsely: seeded, so that the same figures come out again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.stats import clustered_rate, family_bootstrap, gate_claim, tango_interval

ICC = 0.2
PER_CLUSTER, CLUSTERED_RUNS = 10, 3000
RATES, CLUSTERS = (0.5, 0.8, 0.95), (8, 10, 20, 30)
LEADING_RUNS, FAMILIES, PER_FAMILY = 1500, 20, 6


def beta_rates(rng: np.random.Generator, rate: float, shape: Any) -> NDArray[np.float64]:
    """Return cluster rates around ``rate`` whose episodes correlate by ``ICC``."""
    scale = (1 - ICC) / ICC
    return rng.beta(rate * scale, (1 - rate) * scale, shape)


def clustered_coverage(clusters: int, rate: float) -> tuple[float, float]:
    """Return how often the gate interval (Korn-Graubard) and the headline (Wilson, t) hold the true rate."""
    rng = np.random.default_rng(1000 * clusters + round(100 * rate))
    won = rng.binomial(PER_CLUSTER, beta_rates(rng, rate, (CLUSTERED_RUNS, clusters)))
    found = [clustered_rate(row.tolist(), [PER_CLUSTER] * clusters) for row in won]
    gate = np.mean([one.korn_graubard_low <= rate <= one.korn_graubard_high for one in found])
    headline = np.mean([one.wilson_low <= rate <= one.wilson_high for one in found])
    return float(gate), float(headline)


def leadership_parts(pair: Any, counts: tuple[int, int, int]) -> tuple[bool, bool, bool]:
    """Return whether cost, time and non-inferiority are supported for arm 0 against arm 1."""
    b, c, n = counts
    bounds = (
        {"percentile_high": pair.cost_ratio.high, "t_high": pair.cost_ratio_t.high},
        {"percentile_high": pair.time_ratio.high, "t_high": pair.time_ratio_t.high},
    )
    tango = tango_interval(b, c, n=n).low
    cost, time = (
        gate_claim("efficiency", FAMILIES, **given, undefined_draws=pair.cost_ratio.undefined_draws).status
        == "supported"
        for given in bounds
    )
    low, t_low = pair.difference.low, pair.difference_t.low
    calm = gate_claim("non_inferiority", FAMILIES, percentile_low=low, t_low=t_low, tango_low=tango, margin=0.03)
    return cost, time, calm.status == "supported"


def false_leads() -> NDArray[np.bool_]:
    """Return (runs, 3): which parts of the leadership rule fired for a policy against itself."""
    rng = np.random.default_rng(77)
    fired = []
    for _ in range(LEADING_RUNS):
        rates = beta_rates(rng, 0.8, FAMILIES)
        shape = (FAMILIES, 2, PER_FAMILY)
        passed = rng.random(shape) < rates[:, None, None]
        level = rng.normal(0.0, 0.45, FAMILIES)
        cost, time = (np.exp(level[:, None, None] + rng.normal(0.0, 0.9, shape)) * 1000 for _ in range(2))
        sizes = np.full((FAMILIES, 2), PER_FAMILY)
        totals = np.stack([sizes, passed.sum(2), cost.sum(2).astype(int), time.sum(2).astype(int)], axis=2)
        first, second = passed[:, 0].ravel(), passed[:, 1].ravel()
        counts = (int((first & ~second).sum()), int((~first & second).sum()), first.size)
        fired.append(leadership_parts(family_bootstrap(totals).pairs[0], counts))
    return np.array(fired)
