"""The relative rule: each part once met and once not, every reason to refuse it, and its one sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_pairwise import LOST, WON, analyse, arm, judged

from trialplate.claims import Verdict
from trialplate.report.compared import claim_numbers
from trialplate.scoring.analysis import Analysis
from trialplate.spec.plan import RelativeRuleClaim

RULE = RelativeRuleClaim(name="x", kind="relative_rule", arm="a", against="b")


def met(**plan: Any) -> Analysis:
    return analyse(arm("a", WON, cost=0.5, steps=50), arm("b", WON), **plan)


def with_bounds(found: Analysis, *, cost: float = 0.9, time: float = 0.9, low: float = 0.0) -> Analysis:
    """Return an analysis whose three bounds, which alone decide, lie where the case wants them."""
    (pair,) = found.comparisons
    families = replace(
        pair.families,
        order_low=low,
        cost=replace(pair.families.cost, order_high=cost, high=0.1, t_high=9.0),
        time=replace(pair.families.time, order_high=time, high=0.1, t_high=9.0),
    )
    return replace(found, comparisons=(replace(pair, families=families, low=-0.9),))


def test_cheaper_faster_and_not_worse_meets_the_rule_and_says_no_more_than_that() -> None:
    assert judged(met(), RULE).verdict is Verdict.SUPPORTED
    claim = judged(with_bounds(met(), cost=0.5021, time=0.514, low=-0.0123), RULE)
    assert claim.verdict is Verdict.SUPPORTED and claim.reasons == () and claim.numbers["result"] == "met"
    assert claim.sentence.replace("\u00a0", " ") == (
        "Supported: a meets the relative rule against b: it costs less and takes less control time per success, and"
        " is not worse by 3.0 points or more. At 95 % confidence over 40 families, the upper bounds of the ratios are"
        " 0.503 (cost) and 0.514 (control time), the lower bound of the difference is −1.3 points"
        " (bootstrap, order statistics of the draws). This is a rule on efficiency and non-inferiority, on the"
        " registered tasks, this machine and these models, against b alone; it does not show that a passes more."
    )
    listed = dict(claim_numbers(claim.numbers))
    assert listed["rule"] == "met" and listed["control time ratio, bootstrap, high"] == "0.514"


@pytest.mark.parametrize(
    ("bound", "holds", "fails", "reason"),
    [
        ("cost", 1.0 - 1e-12, 1.0, "cost_ratio_bound"),
        ("time", 1.0 - 1e-12, 1.0, "time_ratio_bound"),
        ("low", -0.03 + 1e-12, -0.03, "success_difference_bound"),
    ],
)
def test_each_part_is_strict_at_its_limit_and_no_other_bound_is_asked(
    bound: str, holds: float, fails: float, reason: str
) -> None:
    assert judged(with_bounds(met(), **{bound: holds}), RULE).verdict is Verdict.SUPPORTED
    claim = judged(with_bounds(met(), **{bound: fails}), RULE)
    assert claim.verdict is Verdict.NOT_SUPPORTED and claim.reasons == (reason,)
    assert claim.numbers["result"] == "not_met"
    assert (
        claim.sentence.startswith("Not supported: that a meets the relative rule") and f"({reason})" in claim.sentence
    )


def test_every_part_that_fails_is_named() -> None:
    worse = judged(analyse(arm("a", LOST, cost=2.0, steps=300), arm("b", WON)), RULE)
    assert worse.verdict is Verdict.NOT_SUPPORTED
    assert worse.reasons == ("cost_ratio_bound", "success_difference_bound", "time_ratio_bound")


def test_an_unknown_cost_of_either_arm_makes_it_ineligible() -> None:
    for a, b in ((None, 1.0), (0.5, None)):
        claim = judged(analyse(arm("a", WON, cost=a, steps=50), arm("b", WON, cost=b)), RULE)
        assert claim.verdict is Verdict.INELIGIBLE and claim.reasons == ("missing_data",)
        assert claim.numbers["cost_high"] is None and claim.numbers["result"] == "not_evaluable"
        assert "leave the rule without a bound" in claim.sentence


def test_one_draw_without_a_success_makes_it_ineligible() -> None:
    few = ["PASS"] + ["FAIL"] * 11
    claim = judged(analyse(arm("a", WON[:12], cost=0.5, steps=50), arm("b", few)), RULE)
    assert claim.verdict is Verdict.INELIGIBLE and claim.reasons == ("undefined_draws",)
    assert claim.numbers["undefined_draws"] > 0


@pytest.mark.parametrize("errs", ["a", "b", "c"])
def test_an_error_of_any_arm_makes_it_ineligible_and_its_result_stays_visible(errs: str) -> None:
    arms = {"a": arm("a", WON, cost=0.5, steps=50), "b": arm("b", WON), "c": arm("c", WON)}
    arms[errs] = arm(errs, [*WON[:-1], "ERROR"], cost=0.5 if errs == "a" else 1.0, steps=50 if errs == "a" else 100)
    claim = judged(analyse(*arms.values()), RULE)
    assert claim.verdict is Verdict.INELIGIBLE and claim.reasons == ("missing_data",)
    assert claim.numbers["result"] == "met"
    assert claim.sentence.endswith("Its numbers alone meet the rule, which supports nothing here.")


def test_a_blocker_leaves_what_fails_visible() -> None:
    claim = judged(with_bounds(met(), cost=1.0), RULE, "unwanted_motion")
    assert claim.reasons == ("unwanted_motion",) and "do not meet the rule: the upper bound" in claim.sentence


def test_few_families_are_said_and_do_not_stand_in_the_way() -> None:
    for families in (6, 19):
        found = analyse(arm("a", ["PASS"] * families, cost=0.5, steps=50), arm("b", ["PASS"] * families))
        claim = judged(found, RULE)
        assert claim.verdict is Verdict.SUPPORTED and claim.numbers["flags"] == ["few_families"]
        assert claim.sentence.endswith(f"It rests on {families} families, which are few for such a statement.")
    twenty = analyse(arm("a", ["PASS"] * 20, cost=0.5, steps=50), arm("b", ["PASS"] * 20))
    assert judged(twenty, RULE).numbers["flags"] == [] and "It rests" not in judged(twenty, RULE).sentence


@pytest.mark.parametrize(
    "changes", [{"confidence": 0.9}, {"draws": 4000}, {"quantile_rule": "linear"}, {"unit": "episode"}], ids=str
)
def test_under_another_analysis_it_is_another_rule(changes: dict[str, Any]) -> None:
    assert judged(met(**changes), RULE).reasons == ("not_registered",)


def test_several_comparisons_do_not_share_its_level_which_is_said() -> None:
    a, b, c = arm("a", WON, cost=0.5, steps=50), arm("b", WON), arm("c", WON)
    pairs = {"comparisons": (("a", "b"), ("a", "c"))}
    claim = judged(analyse(a, b, c, **pairs, multiplicity="none"), RULE)
    assert claim.verdict is Verdict.SUPPORTED and claim.numbers["confidence"] == 0.95
    assert claim.sentence.endswith("The level is not shared among the 2 registered comparisons.")
    assert judged(analyse(a, b, c, **pairs), RULE).reasons == ("not_registered",)
