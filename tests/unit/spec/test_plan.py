"""A registered analysis that contradicts itself, or that no number of draws could carry out, is refused."""

from __future__ import annotations

from typing import Any

import pytest

from trialplate.spec.plan import CLAIM_KINDS, AnalysisPlan, analysis_faults, plan_of
from trialplate.spec.protocol import cross_faults, structure_faults
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


ARMS = [{"name": name, "policy": "control:null"} for name in "ab"]


def claimed(claim: Any, *, arms: Any = ARMS, **analysis: Any) -> dict[str, str]:
    raw: dict[str, Any] = {
        "schema": "trialplate.protocol/1", "name": "x", "question": "q", "run_class": "pilot",
        "suite": {"name": "toy", "version": "1"}, "arms": arms, "claims": [claim],
        "analysis": {"comparisons": [AB], **analysis},
    }  # fmt: skip
    return {fault.path: fault.message for fault in [*structure_faults(raw)[1], *cross_faults(raw)]}


def on_pair(kind: str, **changes: Any) -> dict[str, Any]:
    return {"name": "x", "kind": kind, "arm": "a", "against": "b", **changes}


@pytest.mark.parametrize("kind", CLAIM_KINDS)
def test_every_kind_of_claim_can_be_registered_and_misses_what_it_needs(kind: str) -> None:
    needed = {name for name, field in CLAIM_KINDS[kind].model_fields.items() if field.is_required()}
    whole = {"name": "x", "kind": kind, "arm": "a", "against": "b", "margin": 0.1, "rate": 0.5}
    given = {name: value for name, value in whole.items() if name in needed}
    assert claimed(given) == {}
    for name in needed - {"kind"}:
        assert f"claims[0].{name}" in claimed({key: value for key, value in given.items() if key != name})


@pytest.mark.parametrize(
    ("name", "value"), [("confidence", 0.9), ("unit", "episode"), ("draws", 4000), ("quantile_rule", "linear")]
)
def test_the_relative_rule_is_refused_under_another_analysis_than_its_own(name: str, value: Any) -> None:
    found = claimed(on_pair("relative_rule"), **{name: value})
    assert set(found) == {f"analysis.{name}"} and f"got {value!r}" in found[f"analysis.{name}"]
    assert claimed(on_pair("superiority"), **{name: value}) == {}


def test_the_relative_rule_does_not_share_its_level() -> None:
    third = [*ARMS, {"name": "c", "policy": "control:null"}]
    pairs = {"comparisons": [AB, ["a", "c"]]}
    found = claimed(on_pair("relative_rule"), arms=third, **pairs)
    assert "expected 'none', or one comparison, got 'holm' with 2" in found["analysis.multiplicity"]
    assert claimed(on_pair("relative_rule"), arms=third, multiplicity="none", **pairs) == {}


@pytest.mark.parametrize(
    ("claim", "path", "told"),
    [
        (on_pair("superiorty"), "claims[0].kind", "'superiority'"),
        ({"name": "x", "arm": "a"}, "claims[0].kind", "missing"),
        (on_pair("non_inferiority", margin=2), "claims[0].margin", "less than 1"),
        (on_pair("non_inferiority", margin=0.1, margn=0.1), "claims[0].margn", "'margin'"),
        (on_pair("superiority", margin=0.1), "claims[0].margin", "unknown name"),
        (on_pair("superiority", against="c"), "claims[0].against", "unknown arm 'c'"),
        (on_pair("superiority", arm="b", against="a"), "claims[0].against", "add ['b', 'a']"),
        ({"name": "x", "kind": "leadership", "arm": "b", "margin": 0.1}, "claims[0].arm", "no comparison of 'b'"),
        (5, "claims[0]", "object"),
    ],
)
def test_a_mistake_in_a_claim_is_found_where_it_stands(claim: Any, path: str, told: str) -> None:
    found = claimed(claim)
    assert set(found) == {path} and told in found[path]
