"""Plans that must be what they call themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trialplate.admission import _word_faults, fault_table_faults, plan_faults
from trialplate.errors import DEFAULT_STATUS, HARNESS_FAULTS
from trialplate.registry import load_suite

SUITE = load_suite("pick-place")


def raw(*, suite: dict[str, Any] | None = None, **tables: Any) -> dict[str, Any]:
    return {"suite": {"name": SUITE.name, "version": SUITE.version, **(suite or {})}, **tables}


def paths(document: dict[str, Any], *, of: Any = SUITE) -> list[str]:
    return [fault.path for fault in plan_faults(document, of)]


def one_of_each_variant() -> list[str]:
    return list({(s.domain, s.variant): s.id for s in reversed(SUITE.scenarios())}.values())


def test_a_full_plan_of_a_verified_schedule_is_admitted() -> None:
    assert paths(raw(suite={"plan": "full"})) == []


@pytest.mark.parametrize(("key", "value"), [("repeats", 2), ("scenarios", ["pp-001"])])
def test_a_full_plan_that_is_less_or_more_than_the_schedule_is_refused(key: str, value: Any) -> None:
    assert paths(raw(suite={"plan": "full", key: value})) == [f"suite.{key}"]


def test_a_full_plan_of_a_schedule_that_nobody_checked_is_refused() -> None:
    unchecked = replace(SUITE, schedule_verified=None)
    (fault,) = plan_faults(raw(suite={"plan": "full"}), unchecked)
    assert fault.path == "suite.plan" and "nobody has checked" in fault.message


def test_a_fast_plan_has_one_named_scenario_of_each_variant_once() -> None:
    chosen = one_of_each_variant()
    assert len(chosen) > 10
    assert paths(raw(suite={"plan": "fast", "scenarios": chosen})) == []
    assert paths(raw(suite={"plan": "fast", "scenarios": chosen, "repeats": 2})) == ["suite.repeats"]
    assert paths(raw(suite={"plan": "fast"})) == ["suite.scenarios"]


def test_a_fast_plan_with_two_states_of_one_variant_is_refused_at_the_second() -> None:
    first, second = [s.id for s in SUITE.scenarios()][:2]
    (fault,) = plan_faults(raw(suite={"plan": "fast", "scenarios": [first, second]}), SUITE)
    assert fault.path == "suite.scenarios[1]" and first in fault.message and second in fault.message


@pytest.mark.parametrize("suite", [{}, {"plan": "custom"}, {"plan": 3}, {"plan": "fast", "scenarios": [1, None]}])
def test_any_other_plan_is_left_to_the_shape_check(suite: dict[str, Any]) -> None:
    assert paths(raw(suite=suite)) == []


def test_a_claim_on_the_lower_bound_needs_a_rule_that_leaves_one() -> None:
    claims = [{"name": "x", "errors": "ineligible"}, {"name": "y", "errors": "lower_bound"}]
    assert paths(raw(claims=claims)) == ["claims[1].errors"]  # the suite's own rule is void
    assert paths(raw(claims=claims, analysis={"errors": "bounds"})) == []
    bounded = replace(SUITE, errors_rule="bounds")
    assert paths(raw(claims=claims), of=bounded) == []
    assert paths(raw(claims=claims, analysis={"errors": "void"}), of=bounded) == ["claims[1].errors"]


@pytest.mark.parametrize("broken", [{"suite": 3}, {"suite": None, "analysis": [], "claims": 7}, {"claims": [4]}])
def test_tables_that_are_none_are_left_to_the_shape_check(broken: dict[str, Any]) -> None:
    assert paths(broken) == []


@pytest.mark.parametrize("status", ["PASS", "FAIL", "ERROR", "EXCLUDED"])
@pytest.mark.parametrize("code", DEFAULT_STATUS)
def test_any_code_may_have_another_status_but_nothing_that_the_environment_did_is_the_arms(
    code: str, status: str
) -> None:
    between = ("transport_lost", "connect_failed")
    ours = code in HARNESS_FAULTS and code not in between
    refused = status == "PASS" or (status == "FAIL" and ours)
    found = [fault.path for fault in fault_table_faults({"fault_table": {code: status}})]
    assert found == ([f"fault_table.{code}"] if refused else [])


def test_an_operator_cannot_call_verified_what_the_harness_does_not_see() -> None:
    roles = [{"role": "planner", "name": "p"}, {"role": "grasp", "name": "g", "verified": True}]
    told = {"model": {"name": "m", "verified": True}, "checkpoint": {"ref": "c", "verified": False}, "roles": roles}
    found = [fault.path for fault in _word_faults(told, place="arms[0].identity")]
    assert found == ["arms[0].identity.model.verified", "arms[0].identity.roles[1].verified"]
    assert _word_faults(None, place="x") == []
