"""Plans: the first number is that of the test that decides, and a design effect stretches every one."""

from __future__ import annotations

import pytest

from trialplate import stats
from trialplate.claims.planning import (
    Wanted,
    demonstration_plan,
    detection_plan,
    draws_plan,
    margin_plan,
    pairs_plan,
    rates_plan,
)
from trialplate.claims.stopping_plan import stopping_plan
from trialplate.errors import StatsInputError

WANTED = Wanted()


def test_pairs_take_the_exact_number_and_the_formula_stands_below() -> None:
    found = pairs_plan(0.15, 0.05, wanted=WANTED, episodes=168).numbers
    assert (found["pairs"]["value"], found["pairs_formula"]) == (168, 155)
    assert found["power_at_episodes"]["value"] >= 0.8
    assert pairs_plan(0.15, 0.05, wanted=WANTED, episodes=167).numbers["power_at_episodes"]["value"] < 0.8


def test_a_margin_takes_the_pairs_whose_bound_clears_it() -> None:
    found = margin_plan(0.03, 0.05, wanted=WANTED).numbers
    assert found["pairs_without_discordance"] == 125 and found["pairs_formula"] == 437  # 436.05, rounded up
    n = found["pairs"]["value"]
    assert stats.noninferiority_power(n, 0.025, p01=0.025, margin=0.03).value >= 0.8


def test_a_design_effect_stretches_every_number_and_shrinks_what_is_given() -> None:
    double = Wanted(deff=2.0)
    assert rates_plan(0.85, 0.7, wanted=double).numbers["episodes_each"]["value"] == 244
    assert pairs_plan(0.15, 0.05, wanted=double).numbers["pairs"]["value"] == 336
    assert (
        detection_plan(140, wanted=double).numbers["difference"]
        == detection_plan(70, wanted=WANTED).numbers["difference"]
    )
    rules = stopping_plan(0.15, 0.05, looks=2, wanted=double).numbers["rules"]
    plain = stopping_plan(0.15, 0.05, looks=2, wanted=WANTED).numbers["rules"]
    assert [rule["pairs"] for rule in rules] == [2 * rule["pairs"] for rule in plain]
    assert any("design effect 2" in note for note in pairs_plan(0.15, 0.05, wanted=double).notes)


def test_rates_beyond_the_exact_search_are_planned_by_the_formula_and_say_so() -> None:
    found = rates_plan(0.52, 0.5, wanted=WANTED)
    assert found.numbers["episodes_each"]["method"] == "normal approximation"
    assert "normal approximation" in found.sentence
    assert rates_plan(0.5, 0.5, wanted=WANTED).holds is False
    assert rates_plan(1.0, 0.0, wanted=WANTED).numbers["episodes_each"]["value"] >= 1


def test_a_demonstration_names_the_passes_and_the_rate_that_they_take() -> None:
    found = demonstration_plan(0.95, wanted=WANTED)
    assert [size["episodes"] for size in found.numbers["sizes"]] == [59, 93, 124, 153, 208]
    first = found.numbers["sizes"][0]
    assert first["true_rate"] == pytest.approx(0.8 ** (1 / 59))
    assert demonstration_plan(0.9, wanted=WANTED, episodes=68).numbers["passes"] == 66
    few = demonstration_plan(0.99, wanted=WANTED, episodes=68)
    assert not few.holds and few.numbers["passes"] is None and "takes 299" in few.sentence
    with pytest.raises(StatsInputError, match="deff"):
        demonstration_plan(0.9, wanted=Wanted(deff=2.0), episodes=68)


def test_draws_are_refused_for_few_families_and_for_draws_without_a_success() -> None:
    assert draws_plan(20, 20, draws=2000, wanted=WANTED).holds
    assert draws_plan(20, 12, draws=2000, wanted=WANTED).holds
    risky = draws_plan(20, 3, draws=2000, wanted=WANTED)
    assert not risky.holds and risky.numbers["any_draw"] > 0.01
    few = draws_plan(9, 9, draws=2000, wanted=WANTED)
    assert not few.holds and any("9 are too few" in note for note in few.notes)


def test_what_pairs_find_is_told_for_one_discordance_or_for_several() -> None:
    one = detection_plan(100, wanted=WANTED, discordance=0.2).numbers["difference"]
    assert one["value"] == stats.mcnemar_detectable_difference(100, 0.2).value
    assert (
        detection_plan(50_000, wanted=WANTED, discordance=0.2).numbers["difference"]["method"] == "Connor's formula"
    )
    assert len(detection_plan(100, wanted=WANTED).lines) == 6
    assert detection_plan(100, wanted=WANTED, baseline=0.95).numbers["difference"]["reason"] == "out_of_reach"


def test_one_rule_is_told_beside_what_it_costs_to_peek() -> None:
    found = stopping_plan(0.15, 0.05, looks=3, wanted=WANTED, episodes=150)
    rules = {rule["method"]: rule for rule in found.numbers["rules"]}
    assert rules["McNemar, exact power"]["pairs"] == 168 and rules["e-process, exact"]["pairs"] == 253
    assert rules["O'Brien-Fleming"]["pairs"] < rules["Pocock"]["pairs"] < rules["e-process, exact"]["pairs"]
    assert all(0 < rule["power_at_episodes"] < 1 for rule in rules.values())
    assert found.notes[0].startswith("One rule is registered")
