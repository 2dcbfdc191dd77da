"""Every vector of the statistics specification whose function is built, compared as the vectors say."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trialplate import stats

DOCUMENT = json.loads((Path(__file__).parents[2] / "data" / "statistics.json").read_text("utf-8"))
COVERED = {
    "wilson_interval": 20,
    "clopper_pearson_interval": 18,
    "jeffreys_interval": 3,
    "zero_failure_sample_size": 3,
    "beta_posterior": 1,
    "probability_greater": 3,
    "quantile": 4,
    "order_statistic_interval": 3,
    "quantile_bound_min_n": 3,
    "poisson_rate_interval": 5,
    "episode_accounting": 6,
    "ratio_per_success": 3,
    "stage_rates": 2,
    "held_out_domains": 2,
    "macro_rate": 2,
    "simpson_check": 1,
    "mantel_haenszel": 1,
    "clustered_rate": 7,
    "mcnemar_exact": 9,
    "tango_interval": 11,
    "newcombe_interval": 3,
    "miettinen_nurminen_interval": 7,
    "boschloo_test": 5,
    "index_stream_digest": 3,
    "paired_family_bootstrap": 6,
    "paired_log_ratio_interval": 3,
    "paired_difference_interval": 3,
    "fieller_interval": 2,
    "sign_flip_test": 5,
    "undefined_draw_probability": 3,
    "peeking_error": 4,
    "paired_e_value": 15,
    "paired_e_value_error": 5,
    "confidence_sequence": 6,
    "confidence_sequence_error": 2,
    "sprt_bounds": 1,
    "lan_demets_bounds": 5,
    "two_proportion_sample_size": 3,
    "paired_sample_size": 3,
    "noninferiority_pairs": 3,
    "minimum_detectable_difference": 3,
    "mcnemar_power": 3,
    "mcnemar_sample_size": 1,
}
"""Functions that must exist, with the number of vectors each has."""

VECTORS = [vector for vector in DOCUMENT["vectors"] if vector["function"] in COVERED]


def differences(got: Any, want: Any, tolerance: dict[str, float], where: str) -> list[str]:
    """Return every place where ``got`` is not ``want``: exact for text, booleans, integers and null."""
    if isinstance(want, list):
        if not isinstance(got, tuple | list) or len(got) != len(want):
            return [f"{where}: got {got!r}, want {want!r}"]
        pairs = enumerate(zip(got, want, strict=True))
        return [line for at, (g, w) in pairs for line in differences(g, w, tolerance, f"{where}[{at}]")]
    if isinstance(want, float) and not isinstance(got, bool) and isinstance(got, int | float):
        close = abs(got - want) <= tolerance["abs"] + tolerance["rel"] * abs(want)
        return [] if close else [f"{where}: got {got!r}, want {want!r}"]
    same = got == want and isinstance(got, bool) == isinstance(want, bool)
    return [] if same else [f"{where}: got {got!r}, want {want!r}"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_vector_is_reproduced_within_its_tolerance(vector: dict[str, Any]) -> None:
    result = getattr(stats, vector["function"])(**vector["inputs"])
    wrong = [
        line
        for name, want in vector["expected"].items()
        for line in differences(getattr(result, name), want, vector["tolerance"], name)
    ]
    assert wrong == []


def test_the_covered_functions_have_exactly_the_vectors_that_are_counted_here() -> None:
    assert Counter(vector["function"] for vector in VECTORS) == COVERED


def test_a_vector_function_that_is_exported_is_also_covered() -> None:
    named = {vector["function"] for vector in DOCUMENT["vectors"]}
    assert named & set(stats.__all__) == set(COVERED)


def test_the_comparison_finds_a_wrong_number_a_wrong_type_and_a_missing_item() -> None:
    tolerance = {"abs": 1e-9, "rel": 1e-9}
    assert differences(0.5 + 1e-6, 0.5, tolerance, "x")
    assert differences(None, 0.0, tolerance, "x")
    assert differences(1, True, tolerance, "x")
    assert differences((1,), [1, 2], tolerance, "x")
    assert not differences((1, None), [1, None], tolerance, "x")
