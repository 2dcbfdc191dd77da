from __future__ import annotations

import numpy as np
import pytest

from trialplate.errors import StatsInputError
from trialplate.stats import alpha_interval, cohen_kappa, family_indices, kappa_intervals, krippendorff_alpha
from trialplate.stats.agreement import LEVELS

CLUSTERS = [[[5, 1], [0, 4]], [[3, 0], [1, 4]], [[7, 2], [1, 1]], [[1, 1], [0, 9]], [[2, 2], [1, 3]]]


@pytest.mark.parametrize("weights", [None, "linear"])
def test_every_draw_of_clusters_has_the_kappa_of_its_tables(weights):
    found = kappa_intervals(CLUSTERS, weights=weights, draws=100)
    drawn = [
        cohen_kappa(np.array(CLUSTERS)[row].sum(axis=0).tolist(), weights=weights)
        for row in family_indices(240926, 100, families=5).tolist()
    ]
    for name in ("agreement", "kappa", "ac1"):
        values = sorted(getattr(one, name) for one in drawn)
        interval = getattr(found, name)
        assert (interval.low, interval.high) == pytest.approx((values[2], values[96]), abs=1e-12)
        assert interval.estimate == getattr(found.whole, name)


def test_a_draw_of_one_class_has_no_kappa_and_keeps_its_agreement():
    found = kappa_intervals([[[5, 0], [0, 0]], [[1, 1], [0, 3]]], draws=100)
    assert found.kappa.reason == "undefined_draws"
    assert found.agreement.reason is None
    assert kappa_intervals([[[1, 1], [1, 1]]], draws=10).kappa.reason == "single_cluster"
    assert kappa_intervals([[[0, 0], [0, 0]]] * 2, draws=10).agreement.reason == "no_values"
    with pytest.raises(StatsInputError, match="tables"):
        kappa_intervals([])


@pytest.mark.parametrize("level", LEVELS)
def test_every_draw_of_clusters_has_the_alpha_of_its_units(level):
    table = [[1, 2, 3, None, 1, 2, 4, 4], [1, 2, 2, 3, 1, 3, 4, 3], [None, 2, 3, 3, 1, 2, 4, 4]]
    names = ["z", "a", "a", "b", "z", "c", "c", "b"]
    found = alpha_interval(table, names, level=level, draws=60)
    members = [[at for at, name in enumerate(names) if name == wanted] for wanted in sorted(set(names))]
    values = []
    for row in family_indices(240926, 60, families=4).tolist():
        units = [at for cluster in row for at in members[cluster]]
        values.append(krippendorff_alpha([[rater[at] for at in units] for rater in table], level=level).alpha)
    values.sort()
    assert (found.alpha.low, found.alpha.high) == pytest.approx((values[1], values[57]), abs=1e-9)
    assert found.alpha.estimate == found.whole.alpha


def test_clusters_that_do_not_match_the_units_are_refused():
    with pytest.raises(StatsInputError, match="clusters"):
        alpha_interval([[1, 2], [1, 2]], ["a"])
    many = [[float(n) for n in range(3000)]] * 2
    with pytest.raises(StatsInputError, match="3000 different values"):
        alpha_interval(many, ["a"] * 1500 + ["b"] * 1500, level="interval")
