"""Arms that may not be compared as registered are refused before anything is locked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trialplate.interfaces import Suite
from trialplate.registered_pairs import MIN_FAMILIES, pair_faults
from trialplate.registry import load_suite
from trialplate.stats import gates

TOY = load_suite("toy")
ARMS = [{"name": "a", "policy": "control:scripted"}, {"name": "b", "policy": "arm.py:make", "profile": "standard"}]


def raw(*, arms: list[dict[str, Any]] = ARMS, suite: dict[str, Any] | None = None, **analysis: Any) -> dict[str, Any]:
    registered = {"comparisons": [["a", "b"]], **analysis}
    return {"suite": {"name": "toy", **(suite or {})}, "arms": arms, "analysis": registered}


def paths(document: dict[str, Any], *, of: Suite = TOY) -> list[str]:
    return [fault.path for fault in pair_faults(document, of)]


def test_two_arms_that_see_the_same_are_admitted() -> None:
    assert paths(raw()) == [] == paths(raw(unit="episode"))


def test_arms_under_different_profiles_are_not_compared() -> None:
    arms = [ARMS[0], {**ARMS[1], "profile": "wrist"}]
    (fault,) = pair_faults(raw(arms=arms), TOY)
    assert fault.path == "analysis.comparisons[0]" and "'standard'" in fault.message and "'wrist'" in fault.message
    assert paths(raw(arms=arms, comparisons=[])) == []


def test_a_control_sees_what_the_suite_gives_it() -> None:
    oracle = replace(TOY.controls["oracle"], profile="privileged")
    suite = replace(TOY, controls={**TOY.controls, "oracle": oracle})
    arms = [{"name": "a", "policy": "control:oracle"}, ARMS[1]]
    assert paths(raw(arms=arms), of=suite) == ["analysis.comparisons[0]"]
    assert paths(raw(arms=[{**arms[0], "profile": "standard"}, ARMS[1]]), of=suite) == []


def test_episodes_are_no_unit_where_they_share_a_family() -> None:
    assert paths(raw(unit="episode", suite={"repeats": 2})) == ["analysis.unit"]
    twins = tuple(replace(s, family="one") for s in TOY.scenarios())
    shared = replace(TOY, scenarios=lambda: twins)
    (fault,) = pair_faults(raw(unit="episode"), shared)
    assert fault.path == "analysis.unit" and "6 scenarios" in fault.message
    assert paths(raw(), of=shared) == []
    single = [TOY.scenarios()[0].id]
    assert paths(raw(unit="episode", suite={"scenarios": single}), of=shared) == []


def test_one_world_in_two_families_is_refused() -> None:
    first, second, *others = TOY.scenarios()
    twin = replace(second, parameters=first.parameters, domain=first.domain, variant=first.variant)
    suite = replace(TOY, scenarios=lambda: (first, twin, *others))
    (fault,) = pair_faults(raw(), suite)
    assert fault.path == "suite.scenarios" and first.id in fault.message and "two families" in fault.message
    assert paths(raw(suite={"scenarios": [first.id]}), of=suite) == []


@pytest.mark.parametrize("arms", [None, [3], [{"name": "a"}], [{"name": 1, "policy": 2}]])
def test_arms_that_are_none_are_left_to_the_shape_check(arms: Any) -> None:
    assert paths(raw(arms=arms)) == []


def claim(kind: str, **changes: Any) -> dict[str, Any]:
    return {"name": "x", "kind": kind, "arm": "a", "against": "b", **changes}


def with_claims(*claims: Any, run_class: str = "confirmatory", **tables: Any) -> dict[str, Any]:
    return {**raw(**tables), "claims": list(claims), "run_class": run_class}


@pytest.mark.parametrize("kind", ["superiority", "non_inferiority", "cost_efficiency", "time_efficiency"])
def test_a_confirmatory_claim_that_six_families_could_never_support_is_refused(kind: str) -> None:
    (fault,) = pair_faults(with_claims(claim("threshold_rate"), claim(kind)), TOY)
    assert fault.path == "claims[1].kind" and "at least 10 families" in fault.message and "have 6" in fault.message
    assert paths(with_claims(claim(kind), run_class="development")) == []
    assert MIN_FAMILIES == gates.MIN_FAMILIES


def test_the_relative_rule_wants_no_fewest_families() -> None:
    assert paths(with_claims(claim("relative_rule"))) == []


def test_leadership_leaves_no_arm_under_test_out() -> None:
    arms = [*ARMS, {"name": "c", "policy": "arm.py:other"}, {"name": "null", "policy": "control:null"}]
    lead = claim("leadership")
    (fault,) = pair_faults(with_claims(lead, arms=arms, run_class="pilot"), TOY)
    assert fault.path == "claims[0].arm" and "add ['a', 'c']" in fault.message  # the null control is no competitor
    whole = {"comparisons": [["a", "b"], ["a", "c"]], "arms": arms, "run_class": "pilot"}
    assert paths(with_claims(lead, **whole)) == []


@pytest.mark.parametrize("claims", [None, 3, [4], [{"kind": []}], [{"kind": "leadership"}]])
def test_claims_that_are_none_are_left_to_the_shape_check(claims: Any) -> None:
    assert all(fault.path == "claims[0].arm" for fault in pair_faults({**raw(), "claims": claims}, TOY))
