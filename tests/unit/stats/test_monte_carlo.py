"""How often intervals hold and gates fire falsely, by simulation: seeded, so a run either always passes or never."""

from __future__ import annotations

import numpy as np
import pytest

from simulations import CLUSTERS, RATES, clustered_coverage, false_leads


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("clusters", CLUSTERS)
def test_the_gate_of_a_clustered_rate_holds_and_its_headline_nearly_does(clusters, rate):
    gate, headline = clustered_coverage(clusters, rate)
    assert gate >= 0.93
    assert headline >= 0.91


def test_the_same_policy_twice_seldom_leads_itself():
    fired = false_leads()
    assert (fired.mean(axis=0)[:2] <= 0.05).all()
    assert np.all(fired, axis=1).mean() <= 0.025
