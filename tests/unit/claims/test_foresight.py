"""What a protocol can find with the episodes that it plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trialplate import stats
from trialplate.admission import select_scenarios
from trialplate.api import load_protocol
from trialplate.claims.foresight import foresee
from trialplate.interfaces import Scenario
from trialplate.registry import load_suite
from trialplate.spec.plan import CostClaim, LeadershipClaim, NonInferiorityClaim, RelativeRuleClaim, SuperiorityClaim
from trialplate.spec.protocol import Protocol

EXAMPLE = Path(__file__).parents[3] / "examples" / "pick_place" / "protocol.toml"


@pytest.fixture(scope="module")
def registered() -> tuple[Protocol, tuple[Scenario, ...]]:
    protocol = load_protocol(EXAMPLE).protocol
    return protocol, select_scenarios(protocol, load_suite("pick-place"))


def with_analysis(protocol: Protocol, **members: object) -> Protocol:
    return protocol.model_copy(update={"analysis": protocol.analysis.model_copy(update=members)})


def test_a_claim_names_the_fewest_passes_that_its_gate_takes(registered) -> None:
    claim = foresee(*registered).numbers["claims"][0]
    k, n = claim["passes"], 68
    assert claim["outlook"] == "possible" and claim["method"] == "Clopper-Pearson"
    assert stats.clopper_pearson_interval(k, n, side="lower").low >= claim["rate"]
    assert stats.clopper_pearson_interval(k - 1, n, side="lower").low < claim["rate"]


def test_a_rate_that_not_even_all_passes_reach_is_impossible_and_the_answer_is_no(registered) -> None:
    protocol, scenarios = registered
    claim = protocol.claims[0].model_copy(update={"rate": 0.99})
    answer = foresee(protocol.model_copy(update={"claims": (claim,)}), scenarios)
    found = answer.numbers["claims"][0]
    assert not answer.holds and found["outlook"] == "impossible" and found["reasons"] == ["lower_bound"]
    assert found["highest_bound"] < 0.99 and "0 of 1 claim can be supported" in answer.sentence


def test_repeats_share_a_family_so_that_families_are_the_units(registered) -> None:
    protocol, scenarios = registered
    twice = protocol.model_copy(update={"suite": protocol.suite.model_copy(update={"repeats": 2})})
    answer = foresee(twice, scenarios)
    found = answer.numbers["claims"][0]
    assert answer.numbers["episodes_each"] == 136 and answer.numbers["families"] == 68
    assert found["method"] == "Korn-Graubard" and found["passes"] is None
    assert found["highest_bound"] == stats.clopper_pearson_interval(68, 68, side="lower").low


def test_a_claim_over_too_few_families_is_ineligible_before_anything_ran(registered) -> None:
    protocol, scenarios = registered
    few = [replace(scenario, family=f"f{at % 9}") for at, scenario in enumerate(scenarios)]
    answer = foresee(protocol, few)
    assert {claim["outlook"] for claim in answer.numbers["claims"]} == {"ineligible"}
    assert not answer.holds and any("9 are too few" in note for note in answer.notes)


def test_a_registered_effect_gets_its_power_at_the_shared_error_rate(registered) -> None:
    protocol, scenarios = registered
    plan = {
        "comparisons": (("learned-long", "learned-short"), ("learned-long", "scripted")),
        "registered_effect": 0.1,
        "registered_discordance": 0.2,
    }
    answer = foresee(with_analysis(protocol, **plan), scenarios)
    pair = answer.numbers["comparisons"][0]
    assert pair["alpha"] == 0.025
    assert pair["power"] == stats.mcnemar_power(68, 0.15, p01=0.05, alpha=0.025).value
    assert pair["needed"] == stats.mcnemar_sample_size(0.15, 0.05, alpha=0.025).value
    assert pair["underpowered"] is True and not answer.holds
    assert [found["discordance"] for found in pair["detectable"]] == [0.2]


def test_a_registered_effect_that_is_large_is_found(registered) -> None:
    protocol, scenarios = registered
    answer = foresee(with_analysis(protocol, registered_effect=0.3, registered_discordance=0.4), scenarios)
    assert answer.holds and "1 of 1 comparison would find the registered effect" in answer.sentence


def test_a_run_that_is_not_confirmatory_is_said_to_support_nothing(registered) -> None:
    assert any("registered as development" in note for note in foresee(*registered).notes)


def test_a_protocol_that_registers_nothing_has_an_answer(registered) -> None:
    protocol, scenarios = registered
    bare = with_analysis(protocol.model_copy(update={"claims": ()}), comparisons=())
    answer = foresee(bare, scenarios)
    assert answer.holds and answer.lines == () and answer.sentence.endswith("over 68 families.")


# -- claims on arms --------------------------------------------------------------------------------------------

A, B = "learned-long", "learned-short"
RULES = {
    "superiority": SuperiorityClaim(name="more", kind="superiority", arm=A, against=B),
    "margin": NonInferiorityClaim(name="not-worse", kind="non_inferiority", arm=A, against=B, margin=0.1),
    "cost": CostClaim(name="cheaper", kind="cost_efficiency", arm=A, against=B),
    "lead": LeadershipClaim(name="lead", kind="leadership", arm=A, margin=0.1),
}


def with_claim(protocol: Protocol, rule: object, **analysis: object) -> Protocol:
    return with_analysis(protocol.model_copy(update={"claims": (rule,)}), **analysis)


def test_a_claim_of_superiority_is_unlikely_where_its_effect_is(registered) -> None:
    protocol, scenarios = registered
    weak = {"registered_effect": 0.1, "registered_discordance": 0.2}
    strong = {"registered_effect": 0.3, "registered_discordance": 0.4}
    for plan, outlook in ((weak, "unlikely"), (strong, "possible"), ({}, "possible")):
        answer = foresee(with_claim(protocol, RULES["superiority"], **plan), scenarios)
        assert answer.numbers["claims"][0]["outlook"] == outlook
        assert answer.holds == (outlook == "possible")


def test_a_margin_that_arms_which_never_differ_could_not_clear_is_unlikely(registered) -> None:
    protocol, scenarios = registered
    unknown = {"registered_effect": None, "registered_discordance": None}
    found = foresee(with_claim(protocol, RULES["margin"], **unknown), scenarios).numbers["claims"][0]
    assert found["margin"]["least_pairs"] == stats.noninferiority_sample_size(0.0, 0.0, margin=0.1).value == 35
    assert found["outlook"] == "possible" and found["margin"]["power"] is None
    narrow = RULES["margin"].model_copy(update={"margin": 0.03})
    assert foresee(with_claim(protocol, narrow, **unknown), scenarios).numbers["claims"][0]["outlook"] == "unlikely"
    spread = unknown | {"registered_discordance": 0.2}
    known = foresee(with_claim(protocol, RULES["margin"], **spread), scenarios)
    margin = known.numbers["claims"][0]["margin"]
    assert margin["power"] == stats.noninferiority_power(68, 0.1, p01=0.1, margin=0.1).value
    assert margin["needed"] == stats.noninferiority_sample_size(0.1, 0.1, margin=0.1).value


def test_a_claim_on_cost_names_the_families_that_need_a_success(registered) -> None:
    protocol, scenarios = registered
    found = foresee(with_claim(protocol, RULES["cost"]), scenarios).numbers["claims"][0]
    j = found["with_success"]
    assert stats.undefined_draw_probability(68, j, draws=2000).any_draw <= 0.01
    assert stats.undefined_draw_probability(68, j - 1, draws=2000).any_draw > 0.01


def test_leadership_over_few_families_carries_its_flag_and_names_its_competitors(registered) -> None:
    protocol, scenarios = registered
    rule = with_claim(protocol, RULES["lead"], comparisons=((A, B), (A, "scripted")))
    few = [replace(scenario, family=f"f{at % 12}") for at, scenario in enumerate(scenarios)]
    found = foresee(rule, few).numbers["claims"][0]
    assert found["flags"] == ["few_families"] and found["against"] == [B, "scripted"] and found["units"] == 12
    assert foresee(rule, scenarios).numbers["claims"][0]["flags"] == []


def test_the_relative_rule_over_few_families_carries_its_flag_and_may_be_asked(registered) -> None:
    protocol, scenarios = registered
    rule = with_claim(protocol, RelativeRuleClaim(name="rule", kind="relative_rule", arm=A, against=B))
    few = [replace(scenario, family=f"f{at % 9}") for at, scenario in enumerate(scenarios)]
    answer = foresee(rule, few)
    found = answer.numbers["claims"][0]
    assert (found["flags"], found["reasons"], found["outlook"]) == (["few_families"], [], "possible")
    assert found["with_success"] is not None and any("Up to 19 families" in note for note in answer.notes)
    assert foresee(rule, scenarios).numbers["claims"][0]["flags"] == []


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_claim_on_arms_over_too_few_families_is_ineligible(rule, registered) -> None:
    protocol, scenarios = registered
    few = [replace(scenario, family=f"f{at % 9}") for at, scenario in enumerate(scenarios)]
    answer = foresee(with_claim(protocol, rule), few)
    assert answer.numbers["claims"][0]["reasons"] == ["few_families"] and not answer.holds
    assert "0 of 1 claim can be supported" in answer.sentence
