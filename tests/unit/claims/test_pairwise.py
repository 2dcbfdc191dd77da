"""Claims on two arms: each rule of the gate once passed and once failed, and every reason to refuse the question."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trialplate.claims import BLOCKERS, Claim, Verdict, judge_claims
from trialplate.claims.sentences import stop_sentence
from trialplate.errors import StatsInputError
from trialplate.record import Conduct, Outcome, StageResult, Status
from trialplate.scoring.analysis import Analysis
from trialplate.scoring.stopping import Stopping
from trialplate.scoring.summary import analyse_outcomes
from trialplate.spec.plan import (
    AnalysisPlan,
    ClaimRule,
    CostClaim,
    LeadershipClaim,
    NonInferiorityClaim,
    RelativeRuleClaim,
    SuperiorityClaim,
    ThresholdClaim,
    TimeClaim,
)
from trialplate.testing.toy import ACTION

STAGES = ("done",)
WON, LOST = ["PASS"] * 36 + ["FAIL"] * 4, ["PASS"] * 12 + ["FAIL"] * 28
SUPERIOR = SuperiorityClaim(name="x", kind="superiority", arm="a", against="b")
CHEAPER = CostClaim(name="x", kind="cost_efficiency", arm="a", against="b")
RELATIVE = RelativeRuleClaim(name="x", kind="relative_rule", arm="a", against="b")
FASTER = TimeClaim(name="x", kind="time_efficiency", arm="a", against="b")


def no_worse(margin: float) -> NonInferiorityClaim:
    return NonInferiorityClaim(name="x", kind="non_inferiority", arm="a", against="b", margin=margin)


def leads(margin: float = 0.2) -> LeadershipClaim:
    return LeadershipClaim(name="x", kind="leadership", arm="a", margin=margin)


def metered(cost: float | None) -> Conduct:
    return Conduct(
        calls=1, calls_executed=1, calls_rejected=0, short_chunks=0, rows_proposed=1, rows_executed=1, rows_dropped=0,
        rows_discarded=0, usage={"cost": cost}, usage_reason=None, echo=None, action_low=None, action_high=None,
    )  # fmt: skip


def outcome(name: str, number: int, status: str, **changes: Any) -> Outcome:
    measured = status in ("PASS", "FAIL")
    values: dict[str, Any] = {
        "trial_id": f"{name}-{number:03d}", "arm": name, "scenario": f"s-{number:03d}", "family": f"f-{number:03d}",
        "domain": "d", "variant": "v", "repeat": 0, "status": Status(status), "reason": "r",
        "stages": (StageResult("done", status == "PASS", None),) if measured else (), "success_once": None,
        "success_final": None, "first_failed_stage": None, "termination": "step_limit", "control_steps": 1,
        "trace_content_sha256": "e" * 64, "initial_state_sha256": f"{number:064x}",
    }  # fmt: skip
    return Outcome(**(values | changes))


def arm(name: str, statuses: list[str], *, cost: float | None = 1.0, steps: int = 100) -> list[Outcome]:
    """Costs and steps vary from family to family, in each arm in another rhythm."""
    rhythm = {"a": 4, "b": 3, "c": 5}[name]
    shares = [n % rhythm for n in range(len(statuses))]
    costs = [None if cost is None else round(cost * (1 + share / 100), 6) for share in shares]
    return [
        outcome(name, n, status, control_steps=steps + shares[n], conduct=metered(costs[n]))
        for n, status in enumerate(statuses)
    ]


def analyse(*arms: list[Outcome], **plan: Any) -> Analysis:
    rows = [o for one in arms for o in one]
    planned = {name: sum(o.arm == name for o in rows) for name in dict.fromkeys(o.arm for o in rows)}
    registered = AnalysisPlan(**({"comparisons": (("a", "b"),)} | plan))
    return analyse_outcomes(rows, planned=planned, stages=STAGES, plan=registered, action=ACTION)


def judged(found: Analysis, rule: ClaimRule, *blockers: str) -> Claim:
    (claim,) = judge_claims(found, [rule], blockers)
    return claim


def test_a_clear_lead_supports_superiority_and_a_draw_does_not() -> None:
    claim = judged(analyse(arm("a", WON), arm("b", LOST)), SUPERIOR)
    assert claim.verdict is Verdict.SUPPORTED and claim.reasons == ()
    assert claim.sentence.startswith("Supported: a passes more of scenarios like the registered ones than b.")
    assert "Difference +60.0 points" in claim.sentence and "40 families" in claim.sentence
    draw = judged(analyse(arm("a", WON), arm("b", WON)), SUPERIOR)
    assert draw.verdict is Verdict.NOT_SUPPORTED and draw.reasons == ("percentile_bound", "t_bound")
    assert "does not show that the two are alike" in draw.sentence


def test_five_pairs_that_never_differ_do_not_show_that_an_arm_is_no_worse() -> None:
    """The zero-discordance trap: the bootstrap alone would say [0, 0]."""
    few, many = (analyse(arm("a", ["PASS"] * n), arm("b", ["PASS"] * n)) for n in (124, 125))
    assert judged(few, no_worse(0.03)).reasons == ("tango_bound",)
    claim = judged(many, no_worse(0.03))
    assert claim.verdict is Verdict.SUPPORTED and claim.numbers["percentile_low"] == 0.0
    assert claim.sentence.startswith("Supported: a is not worse than b by more than 3.0 points.")
    five = judged(analyse(arm("a", ["PASS"] * 5), arm("b", ["PASS"] * 5)), no_worse(0.03))
    assert five.verdict is Verdict.INELIGIBLE and five.reasons == ("few_families",)


def test_a_margin_at_the_bound_itself_is_not_cleared() -> None:
    a = ["PASS"] * 78 + ["FAIL"] * 2
    b = ["PASS"] * 79 + ["FAIL"]
    found = analyse(arm("a", a), arm("b", b))
    pair = found.comparison("a", "b")
    lowest = min(value for value in (pair.families.low, pair.families.t_low, pair.low) if value is not None)
    assert judged(found, no_worse(-lowest)).verdict is Verdict.NOT_SUPPORTED
    assert judged(found, no_worse(-lowest + 1e-9)).verdict is Verdict.SUPPORTED


def test_cheaper_and_faster_per_success_are_claims_of_their_own() -> None:
    found = analyse(arm("a", WON, cost=0.5, steps=300), arm("b", WON, cost=1.0, steps=100))
    cost, time = judged(found, CHEAPER), judged(found, FASTER)
    assert (
        cost.verdict is Verdict.SUPPORTED and "Ratio 0.503" in cost.sentence and "less per success" in cost.sentence
    )
    assert time.verdict is Verdict.NOT_SUPPORTED and time.reasons == ("percentile_bound", "t_bound")
    assert "Ratio 2.9" in time.sentence


def test_an_unknown_cost_makes_the_claim_ineligible_and_never_free() -> None:
    claim = judged(analyse(arm("a", WON, cost=None), arm("b", WON)), CHEAPER)
    assert claim.verdict is Verdict.INELIGIBLE and claim.reasons == ("missing_data",)
    assert claim.numbers["ratio"] is None and claim.numbers["undefined_draws"] == 0


def test_one_draw_without_a_success_makes_an_efficiency_claim_ineligible() -> None:
    claim = judged(analyse(arm("a", WON[:12]), arm("b", ["PASS"] + ["FAIL"] * 11)), FASTER)
    assert claim.verdict is Verdict.INELIGIBLE and claim.reasons == ("undefined_draws",)


@pytest.mark.parametrize("rule", [SUPERIOR, no_worse(0.1), CHEAPER, FASTER], ids=lambda rule: rule.kind)
def test_what_the_outcomes_say_against_the_question_is_said_of_every_kind(rule: ClaimRule) -> None:
    error = judged(analyse(arm("a", WON, cost=0.5), arm("b", ["ERROR", *LOST[1:]])), rule)
    assert error.verdict is Verdict.INELIGIBLE and "missing_data" in error.reasons
    lost = judged(analyse(arm("a", WON, cost=0.5), arm("b", [*LOST[:-1], "EXCLUDED"])), rule)
    assert lost.verdict is Verdict.INELIGIBLE and "incomplete_coverage" in lost.reasons
    nine = judged(analyse(arm("a", WON[:9], cost=0.5), arm("b", WON[:9])), rule)
    assert nine.verdict is Verdict.INELIGIBLE and nine.reasons == ("few_families",)
    apart = [replace(o, initial_state_sha256="f" * 64) for o in arm("b", LOST)]
    other = judged(analyse(arm("a", WON), apart), rule)
    assert other.verdict is Verdict.INELIGIBLE and "not_comparable" in other.reasons


@pytest.mark.parametrize(
    "rule", [SUPERIOR, no_worse(0.1), CHEAPER, FASTER, RELATIVE, leads()], ids=lambda rule: rule.kind
)
@pytest.mark.parametrize("blocker", sorted(BLOCKERS))
def test_every_blocker_makes_every_kind_ineligible_under_its_own_name(rule: ClaimRule, blocker: str) -> None:
    found = analyse(arm("a", WON, cost=0.5, steps=50), arm("b", WON))
    assert judged(found, rule).verdict is (Verdict.NOT_SUPPORTED if rule is SUPERIOR else Verdict.SUPPORTED)
    blocked = judged(found, rule, blocker)
    assert blocked.verdict is Verdict.INELIGIBLE and blocked.reasons == (blocker,)
    assert f"({blocker})" in blocked.sentence


def test_a_missing_trial_is_no_coverage() -> None:
    rows = arm("a", WON) + arm("b", LOST)[:-1]
    plan = AnalysisPlan(comparisons=(("a", "b"),))
    found = analyse_outcomes(rows, planned={"a": 40, "b": 40}, stages=STAGES, plan=plan, action=ACTION)
    assert judged(found, SUPERIOR).reasons == ("few_families", "incomplete_coverage", "not_comparable")


@pytest.mark.parametrize("rule", [SUPERIOR, no_worse(0.1), CHEAPER, FASTER, RELATIVE], ids=lambda rule: rule.kind)
def test_a_trial_excluded_for_both_alike_stands_in_the_way_of_no_claim(rule: ClaimRule) -> None:
    """As a screen does that finds no attainable grasp, for any planner, before anything is planned."""

    def screened(rows: list[Outcome]) -> list[Outcome]:
        last = replace(
            rows[-1], status=Status.EXCLUDED, reason="unsupported_capability", control_steps=0,
            trace_content_sha256=None, initial_state_sha256=None, stages=(),
        )  # fmt: skip
        return [*rows[:-1], last]

    a, b = arm("a", WON, cost=0.5, steps=50), arm("b", LOST)
    assert judged(analyse(screened(a), screened(b)), rule).verdict is Verdict.SUPPORTED
    one_sided = judged(analyse(a, screened(b)), rule)
    assert one_sided.verdict is Verdict.INELIGIBLE and one_sided.reasons == ("incomplete_coverage",)
    assert "have no counted partner (incomplete_coverage)" in one_sided.sentence


def test_leadership_needs_every_competitor_cleared_in_all_three() -> None:
    pairs = {"comparisons": (("a", "b"), ("a", "c")), "draws": 4000}
    a, b = arm("a", WON, cost=0.5, steps=50), arm("b", WON)
    claim = judged(analyse(a, b, arm("c", WON), **pairs), leads())
    assert claim.verdict is Verdict.SUPPORTED and claim.numbers["competitors"] == ["b", "c"]
    assert "against each of b, c" in claim.sentence and "on nothing else." in claim.sentence
    dear = judged(analyse(a, b, arm("c", WON, cost=0.4), **pairs), leads())
    assert dear.verdict is Verdict.NOT_SUPPORTED and dear.reasons == ("competitor_not_cleared",)
    assert dear.numbers["not_cleared"] == ["c"] and "Not cleared: c." in dear.sentence
    assert dear.numbers["reasons"]["c"]["cost"] == ["percentile_bound", "t_bound"]
    unknown = judged(analyse(a, b, arm("c", WON, cost=None), **pairs), leads())
    assert unknown.verdict is Verdict.INELIGIBLE and unknown.reasons == ("competitor_ineligible",)


def test_leadership_on_few_families_says_so() -> None:
    claim = judged(analyse(arm("a", WON[:15], cost=0.5, steps=50), arm("b", WON[:15])), leads(0.5))
    assert claim.verdict is Verdict.SUPPORTED and claim.numbers["flags"] == ["few_families"]
    assert "It rests on 15 families" in claim.sentence
    assert "It rests" not in judged(analyse(arm("a", WON, cost=0.5, steps=50), arm("b", WON)), leads()).sentence


def test_a_claim_without_its_comparison_is_an_error_of_the_caller() -> None:
    found = analyse(arm("a", WON), arm("b", LOST))
    with pytest.raises(KeyError, match="no comparison of 'b' with 'a'"):
        judged(found, SuperiorityClaim(name="x", kind="superiority", arm="b", against="a"))
    with pytest.raises(StatsInputError, match="unknown blocker"):
        judged(found, SUPERIOR, "bad_luck")


def test_plain_documents_of_rules_are_accepted() -> None:
    found = analyse(arm("a", WON), arm("b", LOST))
    for rule in (SUPERIOR, no_worse(0.1), CHEAPER, FASTER, RELATIVE, leads()):
        assert judge_claims(found, [rule.model_dump(mode="json")], ()) == judge_claims(found, [rule], ())  # type: ignore[list-item]


def test_an_improved_level_is_shared_among_the_comparisons() -> None:
    a, b, c = arm("a", WON), arm("b", LOST), arm("c", LOST)
    shared = judged(analyse(a, b, c, comparisons=(("a", "b"), ("a", "c")), draws=4000), SUPERIOR)
    assert shared.numbers["confidence"] == 0.975 and "97.5\u00a0% confidence" in shared.sentence


def test_after_an_early_stop_only_what_the_rule_decided_can_be_claimed() -> None:
    whole = analyse(arm("a", WON, cost=0.5, steps=50), arm("b", LOST))
    rule = Stopping(
        kind="e_process", a="a", b="b", planned=60, looks=(), stopped_after=40, why="rejected", favours="a",
        p_value=0.001,
    )  # fmt: skip
    early = replace(whole, stopping=rule)
    assert judged(early, SUPERIOR).verdict is Verdict.SUPPORTED
    threshold = ThresholdClaim(name="x", kind="threshold_rate", arm="a", rate=0.5)
    for asked in (no_worse(0.1), CHEAPER, FASTER, RELATIVE, threshold):
        assert judged(whole, asked).verdict is Verdict.SUPPORTED
        assert judged(early, asked).reasons == ("not_confirmatory",)
    assert "competitor_ineligible" in judged(early, leads()).reasons
    silent = replace(whole, stopping=replace(rule, favours=None, why=None, stopped_after=None))
    assert judged(silent, SUPERIOR).reasons == ("stopping_rule",)
    assert "(stopping_rule)" in judged(silent, SUPERIOR).sentence
    told = stop_sentence(early)
    assert told is not None and told.startswith(
        "The run ended after 40 of 60 blocks by its registered rule (e_process)"
    )
    assert "as confidence sequences at 95\u00a0%: a " in told
    assert stop_sentence(whole) is None and stop_sentence(silent) is None
