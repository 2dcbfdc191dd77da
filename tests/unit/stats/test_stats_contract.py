"""Promises of every function at once: strict inputs, null with a reason, nothing that JSON cannot say."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, fields

import numpy as np
import pytest

from trialplate import stats
from trialplate.canonical import canonical_json
from trialplate.errors import StatsInputError
from trialplate.stats import REASONS, Interval, Result, Value
from trialplate.stats.inputs import counts

DEGENERATE = {
    "wilson_interval": [(0, 0), (0, 1), (1, 1), (0, 10**9), (10**9, 10**9)],
    "clopper_pearson_interval": [(0, 0), (0, 1), (1, 1), (0, 10**9), (10**9, 10**9)],
    "jeffreys_interval": [(0, 0), (0, 1), (1, 1), (0, 10**9), (10**9, 10**9)],
    "beta_posterior": [(0, 0), (0, 1), (1, 1), (10**9, 10**9)],
    "probability_greater": [(0, 0, 0, 0), (0, 1, 0, 0), (0, 1, 1, 1), (0, 10**5, 10**5, 10**5)],
    "zero_failure_sample_size": [(1e-300, 0.5), (1 - 2**-53, 0.999), (0.5, 1e-9)],
    "quantile_bound_min_n": [(1e-300,), (0.5,), (1 - 2**-53,)],
    "order_statistic_interval": [(0, 0.5), (1, 0.5), (2, 0.5), (10**9, 1e-9), (5, 1 - 2**-53)],
    "quantile": [([], 0.5), ([1], 0), ([1], 1), ([3, 3], 0.5), ([-1e300, 1e300], 0.5)],
    "poisson_rate_interval": [(0, 0), (3, 0), (0, 1), (10**6, 1e-9)],
    "episode_accounting": [(0, []), (5, []), (0, ["PASS"]), (1, ["ERROR"]), (1, ["EXCLUDED"]), (2, ["PASS", "PASS"])],
    "ratio_per_success": [(None, 0), (None, 1), (0, 0), (0, 1), (2**53 - 1, 1)],
    "stage_rates": [([], 1), ([], 3), ([0], 3), ([3, 3], 3)],
    "held_out_domains": [(0, 0, [], []), (0, 0, [0], [0]), (0, 1, [0], [1]), (1, 1, [1, 1], [1, 1])],
    "macro_rate": [([], []), ([0], [0]), ([1], [1]), ([0, 5], [0, 5]), ([3, 0], [3, 4])],
    "macro_interval": [([], []), ([0], [0]), ([1], [1]), ([5, 5], [5, 5]), ([0, 1], [2, 2])],
    "crossed_rate": [([], []), ([[0]], [[0]]), ([[1]], [[1]]), ([[1, 0], [0, 1]], [[1, 1], [1, 1]])],
    "case_wilson_interval": [([], []), ([0], [0]), ([1], [1]), ([5, 0], [5, 5]), ([2, 2], [2, 2])],
    "simpson_check": [([], [], [], []), ([0], [0], [0], [0]), ([1], [1], [0], [1]), ([0, 1], [0, 1], [1, 1], [1, 1])],
    "mantel_haenszel": [([], [], [], []), ([0], [0], [0], [0]), ([1], [1], [1], [1]), ([1], [1], [0], [1])],
    "clustered_rate": [([], []), ([0], [0]), ([8], [10]), ([1, 1], [1, 1]), ([0, 0], [5, 9]), ([1, 0], [1, 1])],
    "mcnemar_exact": [(0, 0), (1, 0), (10**9, 0), (10**6, 10**6)],
    "tango_interval": [(0, 0, 0), (0, 0, 1), (1, 0, 1), (0, 1, 1), (10**9, 0, 10**9)],
    "newcombe_interval": [(0, 0, 0, 0), (0, 1, 1, 1), (1, 1, 0, 1), (0, 1, 0, 1), (10**6, 10**6, 0, 1)],
    "miettinen_nurminen_interval": [(0, 0, 0, 0), (0, 1, 1, 1), (1, 1, 0, 1), (1, 1, 1, 1), (10**6, 10**6, 0, 1)],
    "boschloo_test": [(0, 0, 0, 0), (0, 1, 1, 1), (1, 1, 1, 1), (0, 1, 0, 1)],
    "boschloo_power": [(0, 0.5, 3, 0.5), (1, 0.5, 1, 0.9), (3, 1e-9, 2, 1 - 1e-9)],
    "boschloo_detectable_difference": [(0, 3), (1, 1), (9, 4), (30, 30)],
    "boschloo_sample_size": [(0.5, 0.5), (1e-9, 1 - 1e-9), (0.5, 0.5001)],
    "chance_of_passes": [(0, 0, 0.5), (0, 3, 1e-300), (3, 3, 1 - 1e-16)],
    "demonstration_passes": [(0, 0.5), (1, 0.5), (10**9, 0.5), (60, 0.95)],
    "demonstration_sample_size": [(1e-300, 0.5), (1 - 2**-53, 0.999), (0.95, 0.95)],
    "group_sequential_sample_size": [(0.2, 0.2, 3), (1, 0, 2), (0.05, 0.049, 2)],
    "rate_for_passes": [(0, 0), (0, 5), (5, 5)],
    "index_stream_digest": [(0, 1, 1), (5, 2, 3)],
    "undefined_draw_probability": [(1, 0), (1, 1), (10**6, 1)],
    "sign_flip_test": [([],), ([0],), ([1],), ([-3, 2],), ([1] * 17,)],
    "paired_log_ratio_interval": [
        ([], [], [], []), ([0], [0], [0], [0]), ([1], [1], [1], [1]), ([None, 1], [1, 1], [1, 1], [1, 1]),
        ([5, 5], [1, 1], [5, 5], [1, 1]), ([0, 0], [1, 1], [5, 5], [1, 1]), ([1, 10**5], [1, 1], [1, 1], [9, 1]),
    ],
    "paired_difference_interval": [
        ([], [], [], []), ([0], [0], [0], [0]), ([1], [1], [0], [1]), ([1, 1], [1, 1], [0, 0], [1, 1]),
        ([1, 0], [1, 0], [0, 1], [0, 1]),
    ],
    "fieller_interval": [([], []), ([1], [0]), ([1], [1]), ([0, 0], [1, 1]), ([1, 9], [9, 0]), ([None], [1])],
    "paired_family_bootstrap": [
        ([1], [1], [1], [1], [1], [1]), ([0], [0], [0], [0], [0], [0]),
        ([1, 1], [1, 0], [5, 5], [1, 1], [1, 1], [5, 5]),
        ([1, 1], [1, 1], [5, 5], [1, 1], [0, 0], [5, 5]), ([1, 1], [1, 1], [0, 0], [1, 1], [1, 1], [0, 0]),
        ([1, 1], [1, 1], None, [1, 1], [1, 1], [0, None]),
    ],
    "peeking_error": [(0,), (1,), (10,)],
    "paired_e_value": [(0, 0), (1, 0), (5000, 0), (0, 5000)],
    "paired_e_process": [([],), ([1],), ([0],), ([1] * 1200,)],
    "paired_e_value_error": [(0,), (1,), (40,)],
    "confidence_sequence": [(0, 0), (0, 1), (1, 1), (0, 10**9), (10**9, 10**9), (1, 10**9)],
    "confidence_sequence_error": [(0.5, 0), (1e-9, 5), (0.999, 5)],
    "sprt_bounds": [(1e-9, 0.5), (0.5, 1 - 1e-9)],
    "lan_demets_bounds": [([],), ([1.0],), ([0.001, 1.0],), ([1e-4],)],
    "group_sequential_test": [([], [], [], 1), ([0], [0], [1], 1), ([1], [0], [1], 1), ([0, 0], [0, 5], [5, 9], 9)],
    "group_sequential_power": [([1], 0, 0), ([1], 1, 0), ([3, 6], 0.5, 0.5)],
    "two_proportion_sample_size": [(0.5, 0.5), (0, 1), (0, 0), (0.5, 0.5 + 1e-9)],
    "paired_sample_size": [(0, 0), (1, 0), (0.5, 0.5), (0.1, 0)],
    "noninferiority_pairs": [(0, 0.03), (1, 0.5), (0.5, 1e-12), (0.5, 1e-300)],
    "minimum_detectable_difference": [(1, 0), (1e-9, 1), (1e15, 1)],
    "two_proportion_power": [(1, 0, 1, 0), (1, 0, 1, 1), (1e-9, 0.5, 1e15, 0.5), (9, 0.1, 9, 0.9)],
    "two_proportion_detectable_difference": [(1e-9, 1), (1e15, 1e15), (3, 3)],
    "mcnemar_detectable_difference": [(0, 0), (0, 1), (9, 0), (9, 1)],
    "mcnemar_power": [(0, 0, 0), (1, 1, 0), (9, 0.5, 0.5)],
    "mcnemar_sample_size": [(0, 0), (1, 0), (0.5, 0.5)],
    "paired_e_value_power": [(0, 0, 0), (1, 1, 0), (9, 0.5, 0.5)],
    "paired_e_value_sample_size": [(0, 0), (1, 0), (0.5, 0.5)],
    "noninferiority_power": [(0, 0, 0, 0.03), (1, 1, 0, 0.03), (1, 0, 1, 0.03)],
    "noninferiority_sample_size": [(0, 0, 0.03), (0.5, 0.5, 1e-300), (1, 0, 0.03), (0, 1, 0.03)],
    "quantile_interval": [([], 0.5), ([1], 0.5), ([1] * 100, 0.95), (list(range(6)), 0.5)],
    "cochran_q": [([],), ([[1, 1]],), ([[1, 0], [0, 1]],), ([[0, 0], [1, 0]],)],
    "adjust_pvalues": [([], "holm"), ([None], "by"), ([0, 1], "bh"), ([0.3, None], "bonferroni")],
    "minimum_draws": [(1,), (190,)],
    "compact_letter_display": [([], []), (["A"], []), (["A", "B"], [["B", "A"]])],
    "bradley_terry": [([[0, 0], [0, 0]],), ([[0, 1], [0, 0]],), ([[0, 1], [1, 0]],), ([[0, 2**53 - 1], [0.5, 0]],)],
    "rank_agreement": [([], []), ([1], [1]), ([1, 1], [0, 1]), ([0, 1], [1, 0]), ([0, 1e-9], [0, 1])],
    "preference_ranking": [
        ([[[0, 1], [1, 0]]],), ([[[0, 1], [0, 0]], [[0, 0], [1, 0]]],), ([[[0, 1], [1, 0]], [[0, 2], [1, 0]]],),
        ([[[0, 1], [0, 0]]],), ([[[0, 0], [0, 0]], [[0, 0], [0, 0]]],),
    ],
    "cohen_kappa": [([[0, 0], [0, 0]],), ([[1, 0], [0, 0]],), ([[0, 1], [0, 0]],), ([[0, 5], [5, 0]],)],
    "fleiss_kappa": [([],), ([[1, 0]],), ([[2, 0]],), ([[1, 1]],), ([[2, 0], [0, 2]],)],
    "krippendorff_alpha": [([],), ([[]],), ([[1], [None]],), ([[1], [1]],), ([[1], [2]],), ([[0, 0], [0, 1]],)],
    "brier_score": [([], []), ([0], [1.0]), ([1], [1.0])],
    "log_loss": [([], []), ([0], [1.0]), ([1], [1.0]), ([1], [5e-324])],
    "calibration_error": [([], []), ([0], [1.0]), ([1], [0.0]), ([True], [0.5])],
    "murphy_decomposition": [([], []), ([0], [1.0]), ([1, 1], [0.1, 0.9])],
    "judge_rates": [([], []), ([1], [0]), ([0], [1]), ([1, 0], [1, 0])],
    "rogan_gladen": [(0, 1, 1), (0.5, 0.5, 0.5), (1, 0, 0), (0.3, 0.9, 0.8)],
    "ppi_mean_interval": [([], [], []), ([1], [1], []), ([1], [1], [1]), ([1, 0], [1, 0], [0, 1])],
    "annotation_coverage": [([], 0, 0), ([], 0, 5), ([[3, 3], [5, 1]], 0, 5), ([[-9, 9]], 0, 5), ([[6, 9]], 0, 5)],
    "cumulative_incidence": [([], []), ([0], [0]), ([5], [1]), ([5, 5], [2, 2]), ([1, 2], [0, 1])],
    "kaplan_meier": [([], []), ([0], [0]), ([0], [1]), ([5, 5], [1, 0]), ([1, 2], [0, 1])],
    "restricted_mean": [([], [], 5), ([3], [0], 5), ([3], [1], 5), ([9], [0], 5), ([0], [1], 5)],
    "restricted_mean_difference": [
        ([], [], [1], [1], 5), ([3], [0], [9], [0], 5), ([9], [0], [9], [0], 5), ([1, 9], [1, 0], [9], [0], 5),
    ],
    "logrank_test": [([], [], [], []), ([1], [1], [1], [1]), ([1], [0], [1], [0]), ([1, 2], [1, 1], [3, 4], [1, 1])],
    "gate_claim": [("superiority", 0), ("efficiency", 10), ("superiority", 20)],
    "gate_leadership": [([], 0)],
    "verdict": [(False, False, False), (True, True, False), (True, False, False)],
}  # fmt: skip
APART = {
    "alpha_interval",
    "family_bootstrap",
    "family_indices",
    "family_totals",
    "kappa_intervals",
    "preference_wins",
    "rank_agreement_intervals",
    "sign_flip_tests",
}
"""Functions that return arrays or results in results: their own tests look inside."""
KEYWORDS = {
    "rogan_gladen": ("specificity",),
    "ppi_mean_interval": ("unlabelled_predictions",),
    "annotation_coverage": ("end",),
    "restricted_mean": ("horizon",),
    "restricted_mean_difference": ("times_b", "observed_b", "horizon"),
    "logrank_test": ("times_b", "observed_b"),
    "verdict": ("better_supported", "worse_supported"),
    "group_sequential_test": ("pairs", "n_max"),
    "group_sequential_power": ("p01",),
    "mcnemar_power": ("p01",),
    "paired_e_value_power": ("p01",),
    "noninferiority_power": ("p01", "margin"),
    "noninferiority_sample_size": ("margin",),
    "index_stream_digest": ("families",),
    "paired_log_ratio_interval": ("cost_b", "k_b"),
    "paired_difference_interval": ("k_b", "n_b"),
    "paired_family_bootstrap": ("cost_a", "n_b", "k_b", "cost_b"),
    "probability_greater": ("k2", "n2"),
    "held_out_domains": ("domain_k", "domain_n"),
    "simpson_check": ("k_b", "n_b"),
    "mantel_haenszel": ("k_b", "n_b"),
    "tango_interval": ("n",),
    "newcombe_interval": ("k2", "n2"),
    "miettinen_nurminen_interval": ("k2", "n2"),
    "boschloo_test": ("k2", "n2"),
    "boschloo_power": ("n2", "p2"),
    "chance_of_passes": ("rate",),
    "two_proportion_power": ("n2", "p2"),
    "group_sequential_sample_size": ("looks",),
}
CASES = [(name, arguments) for name, rows in DEGENERATE.items() for arguments in rows]


def call(name: str, arguments: tuple[object, ...]) -> Result:
    words = KEYWORDS.get(name, ())
    plain = arguments[: len(arguments) - len(words)]
    return getattr(stats, name)(*plain, **dict(zip(words, arguments[len(plain) :], strict=True)))


def holds_null(value: object) -> bool:
    return any(holds_null(item) for item in value) if isinstance(value, tuple) else value is None


@pytest.mark.parametrize(("name", "arguments"), CASES, ids=lambda part: str(part)[:60])
def test_a_degenerate_case_is_null_with_a_reason_and_always_fits_in_json(name, arguments):
    result = call(name, arguments)
    allowed = {"reason", *result.NULL_BY_DEFINITION}
    missing = any(holds_null(getattr(result, field.name)) for field in fields(result) if field.name not in allowed)
    assert missing == (result.reason not in (None, "outside_unit_interval"))
    assert result.reason is None or result.reason in REASONS
    assert canonical_json(asdict(result))
    assert call(name, arguments) == result


def test_the_degenerate_suite_covers_every_exported_function():
    functions = {name for name in stats.__all__ if callable(getattr(stats, name)) and name.islower()}
    assert functions - APART == set(DEGENERATE)


def test_an_unknown_reason_raises():
    with pytest.raises(StatsInputError, match="reason: 'because' is not one of"):
        Value(None, "because")


def test_a_null_without_a_reason_raises():
    with pytest.raises(StatsInputError, match="high: is null without a reason"):
        Interval(0.5, 0.1, None, None)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_never_becomes_a_result(number):
    with pytest.raises(StatsInputError, match="low: came out as"):
        Interval(0.5, number, 1.0, None)


def test_numpy_counts_and_arrays_give_the_same_plain_result():
    plain = stats.clustered_rate([8, 3], [10, 10])
    array = stats.clustered_rate(np.array([8, 3]), np.array([10, 10], dtype=np.uint8))
    assert plain == array
    assert canonical_json(asdict(array))
    assert type(stats.quantile(np.array([1.0, 2.0], dtype=np.float32), np.float64(0.5)).value) is float


@pytest.mark.parametrize(
    "values", [7, "34", b"34", {1: 2}, {1, 2}, iter([1, 2]), None, [1, True], [1, 2.0], [1, None], [-1], [2**53]]
)
def test_what_is_not_a_sequence_of_counts_is_refused(values):
    with pytest.raises(StatsInputError) as caught:
        counts("n", values)
    assert caught.value.argument.startswith("n")


def test_counts_that_add_up_beyond_exact_arithmetic_are_refused():
    with pytest.raises(StatsInputError, match="n: the items add up to"):
        counts("n", [2**52, 2**52])


def test_importing_the_package_loads_no_scipy():
    probe = "import sys, trialplate.stats; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0


def test_the_interval_of_a_rate_needs_no_scipy_stats():
    probe = (
        "import sys, trialplate.stats as s; s.clopper_pearson_interval(8, 10); s.clustered_rate([8, 3], [10, 10]);"
        "s.miettinen_nurminen_interval(1, 2, k2=1, n2=3); sys.exit('scipy.stats' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
