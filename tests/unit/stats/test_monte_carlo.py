"""How often intervals hold and gates fire falsely, by simulation: seeded, so a run either always passes or never."""

from __future__ import annotations

import numpy as np
import pytest

from trialplate.stats import clustered_rate, family_bootstrap, gate_claim, tango_interval

ICC = 0.2
PER_CLUSTER = 10


def beta_rates(rng, rate, shape):
    """Cluster rates around ``rate`` whose episodes correlate by ICC."""
    scale = (1 - ICC) / ICC
    return rng.beta(rate * scale, (1 - rate) * scale, shape)


@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("clusters", [8, 10, 20, 30])
def test_the_gate_of_a_clustered_rate_holds_and_its_headline_nearly_does(clusters, rate):
    rng = np.random.default_rng(1000 * clusters + round(100 * rate))
    won = rng.binomial(PER_CLUSTER, beta_rates(rng, rate, (3000, clusters)))
    found = [clustered_rate(row.tolist(), [PER_CLUSTER] * clusters) for row in won]
    gate = np.mean([one.korn_graubard_low <= rate <= one.korn_graubard_high for one in found])
    headline = np.mean([one.wilson_low <= rate <= one.wilson_high for one in found])
    assert gate >= 0.93
    assert headline >= 0.91


def leadership_parts(pair, counts):
    """Whether cost, time and non-inferiority are supported for arm 0 against arm 1."""
    b, c, n = counts
    bounds = {
        "cost": {"percentile_high": pair.cost_ratio.high, "t_high": pair.cost_ratio_t.high},
        "time": {"percentile_high": pair.time_ratio.high, "t_high": pair.time_ratio_t.high},
    }
    tango = tango_interval(b, c, n=n).low
    parts = [
        gate_claim("efficiency", 20, **given, undefined_draws=pair.cost_ratio.undefined_draws).status == "supported"
        for given in bounds.values()
    ]
    low, t_low = pair.difference.low, pair.difference_t.low
    calm = gate_claim("non_inferiority", 20, percentile_low=low, t_low=t_low, tango_low=tango, margin=0.03)
    return (*parts, calm.status == "supported")


def test_the_same_policy_twice_seldom_leads_itself():
    rng, runs, families, size = np.random.default_rng(77), 1500, 20, 6
    fired = []
    for _ in range(runs):
        rates = beta_rates(rng, 0.8, families)
        passed = rng.random((families, 2, size)) < rates[:, None, None]
        level = rng.normal(0.0, 0.45, families)
        cost, time = (
            np.exp(level[:, None, None] + rng.normal(0.0, 0.9, (families, 2, size))) * 1000 for _ in range(2)
        )
        totals = np.stack(
            [np.full((families, 2), size), passed.sum(2), cost.sum(2).astype(int), time.sum(2).astype(int)], axis=2
        )
        first, second = passed[:, 0].ravel(), passed[:, 1].ravel()
        counts = (int((first & ~second).sum()), int((~first & second).sum()), first.size)
        fired.append(leadership_parts(family_bootstrap(totals).pairs[0], counts))
    single = np.array(fired).mean(axis=0)
    assert (single[:2] <= 0.05).all()
    assert np.all(fired, axis=1).mean() <= 0.025
