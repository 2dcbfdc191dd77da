"""A registered analysis that contradicts itself, or that no number of draws could carry out, is refused."""

from __future__ import annotations

from typing import Any

import pytest

from trialplate.spec.plan import AnalysisPlan, analysis_faults, plan_of
from trialplate.stats import minimum_draws

AB, AC, BC = ["a", "b"], ["a", "c"], ["b", "c"]


def faults(**analysis: Any) -> dict[str, str]:
    return {fault.path: fault.message for fault in analysis_faults({"analysis": analysis})}


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("pairs", [[AB], [AB, AC], [AB, AC, BC]])
def test_fewer_draws_than_the_bounds_need_are_refused_and_that_many_are_not(
    confidence: float, pairs: list[list[str]]
) -> None:
    plan = plan_of({"analysis": {"confidence": confidence, "comparisons": pairs}})
    assert plan is not None
    needed = minimum_draws(len(pairs), alpha=plan.alpha).value
    assert plan.draws_needed == needed and isinstance(needed, int)
    assert faults(confidence=confidence, comparisons=pairs, draws=needed) == {}
    told = faults(confidence=confidence, comparisons=pairs, draws=needed - 1)
    assert set(told) == {"analysis.draws"} and f"at least {needed}" in told["analysis.draws"]


def test_without_sharing_the_error_rate_each_pair_needs_only_its_own_draws() -> None:
    assert faults(comparisons=[AB, AC, BC], multiplicity="none") == {}
    assert set(faults(comparisons=[AB, AC, BC])) == {"analysis.draws"}


def test_a_pair_stands_once_and_its_mirror_is_the_same_comparison() -> None:
    assert set(faults(comparisons=[AB, AB])) == {"analysis.comparisons[1]"}
    assert faults(comparisons=[AB, AB[::-1]]) == {}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"registered_effect": 0.1}, "analysis.registered_discordance"),
        ({"registered_effect": 0.3, "registered_discordance": 0.2}, "analysis.registered_discordance"),
        ({"registered_effect": 0.2, "registered_discordance": 0.2}, None),
        ({"registered_discordance": 0.2}, None),
    ],
)
def test_an_effect_needs_the_share_of_pairs_that_end_differently(given: dict[str, Any], path: str | None) -> None:
    assert set(faults(comparisons=[AB], **given)) == ({path} if path else set())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("unit", "episode"), ("draws", 5000), ("seed", 1), ("quantile_rule", "linear"), ("multiplicity", "none"),
        ("registered_discordance", 0.2), ("design_effect", 2.0), ("target_power", 0.9),
    ],
)  # fmt: skip
def test_what_only_a_comparison_uses_is_refused_without_one(name: str, value: Any) -> None:
    assert set(faults(**{name: value})) == {f"analysis.{name}"}
    assert faults(**{name: value}, comparisons=[AB]) == {}
    assert faults(**{name: AnalysisPlan.model_fields[name].default}) == {}


@pytest.mark.parametrize("broken", [{"draws": 0}, {"seed": -1}, {"unit": "none"}, {"comparisons": 3}, 7, None])
def test_what_is_no_analysis_is_left_to_the_shape_check(broken: Any) -> None:
    assert plan_of({"analysis": broken}) is None and analysis_faults({"analysis": broken}) == []


def test_the_level_of_a_pair_is_the_decimal_as_written() -> None:
    plan = AnalysisPlan(comparisons=(("a", "b"), ("a", "c")), draws=4000)
    assert (plan.alpha, plan.pair_alpha, plan.pair_confidence, plan.shares) == (0.05, 0.025, 0.975, 2)
