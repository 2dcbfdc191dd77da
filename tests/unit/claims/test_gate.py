from __future__ import annotations

from dataclasses import replace
from math import nextafter
from typing import Any

import pytest

from trialplate.canonical import canonical_json
from trialplate.claims import BLOCKERS, Claim, Verdict, judge_claims
from trialplate.errors import StatsInputError
from trialplate.record import Outcome, StageResult, Status
from trialplate.scoring.analysis import Analysis
from trialplate.scoring.summary import analyse_outcomes
from trialplate.spec.plan import AnalysisPlan, ThresholdClaim
from trialplate.stats import clopper_pearson_interval


def outcome(number: int, status: str, *, family: str | None = None) -> Outcome:
    measured = status in ("PASS", "FAIL")
    return Outcome(
        trial_id=f"{number:06d}", arm="a", scenario=f"s-{number:03d}", family=family or f"s-{number:03d}", domain="d",
        variant="v", repeat=0, status=Status(status), reason="r",
        stages=(StageResult("done", status == "PASS", None),) if measured else (),
        success_once=None, success_final=None, first_failed_stage=None, termination="step_limit", control_steps=1,
        trace_content_sha256=None, initial_state_sha256=None,
    )  # fmt: skip


def analysis(statuses: list[str], *, planned: int | None = None, per_family: int = 1, **plan: Any) -> Analysis:
    outcomes = [
        outcome(n, status, family=f"f-{n // per_family:03d}" if per_family > 1 else None)
        for n, status in enumerate(statuses)
    ]
    count = len(statuses) if planned is None else planned
    registered = {name: plan.pop(name) for name in list(plan) if name in AnalysisPlan.model_fields}
    found = AnalysisPlan(**registered)
    return analyse_outcomes(outcomes, planned={"a": count}, stages=["done"], plan=found, **plan)


def judge(found: Analysis, rate: float, *blockers: str) -> Claim:
    rule = ThresholdClaim(name="reaches", kind="threshold_rate", arm="a", rate=rate)
    (claim,) = judge_claims(found, [rule], blockers)
    return claim


def test_fifty_nine_passes_without_failure_support_ninety_five_percent_and_fifty_eight_do_not() -> None:
    assert judge(analysis(["PASS"] * 59), 0.95).verdict is Verdict.SUPPORTED
    short = judge(analysis(["PASS"] * 58), 0.95)
    assert short.verdict is Verdict.NOT_SUPPORTED and short.reasons == ("lower_bound",)


def test_the_bound_itself_is_supported_and_one_ulp_above_is_not() -> None:
    bound = clopper_pearson_interval(60, 68, side="lower").low
    assert bound is not None
    found = analysis(["PASS"] * 60 + ["FAIL"] * 8)
    assert judge(found, bound).verdict is Verdict.SUPPORTED
    assert judge(found, nextafter(bound, 1.0)).verdict is Verdict.NOT_SUPPORTED


@pytest.mark.parametrize("blocker", sorted(BLOCKERS))
def test_every_blocker_makes_a_supported_claim_ineligible(blocker: str) -> None:
    claim = judge(analysis(["PASS"] * 59), 0.95, blocker)
    assert claim.verdict is Verdict.INELIGIBLE and claim.reasons == (blocker,)
    assert BLOCKERS[blocker] in claim.sentence


def test_several_blockers_are_listed_once_and_sorted() -> None:
    claim = judge(analysis(["PASS"] * 59), 0.95, "not_qualified", "integrity", "integrity")
    assert claim.reasons == ("integrity", "not_qualified")


def test_an_unknown_blocker_is_refused() -> None:
    with pytest.raises(StatsInputError, match=r"unknown blocker 'not_qualifed'.*did you mean 'not_qualified'"):
        judge(analysis(["PASS"]), 0.5, "not_qualifed")


def test_a_rule_about_an_unknown_arm_is_refused() -> None:
    rule = ThresholdClaim(name="x", kind="threshold_rate", arm="b", rate=0.5)
    with pytest.raises(KeyError, match="no arm 'b'"):
        judge_claims(analysis(["PASS"]), [rule], ())


def test_an_errored_episode_makes_a_claim_ineligible_for_missing_data() -> None:
    for rule in ("void", "bounds"):
        claim = judge(analysis(["PASS"] * 80 + ["ERROR"], errors_rule=rule), 0.5)
        assert claim.verdict is Verdict.INELIGIBLE and claim.reasons == ("missing_data",)


def on_the_lower_bound(found: Analysis, rate: float) -> Claim:
    rule = ThresholdClaim(name="x", kind="threshold_rate", arm="a", rate=rate, errors="lower_bound")
    return judge_claims(found, [rule], ())[0]


@pytest.mark.parametrize("denominator", ["measured", "valid", "initiated"])
def test_a_rule_on_the_lower_bound_counts_every_error_as_not_passed(denominator: str) -> None:
    found = analysis(["PASS"] * 60 + ["FAIL"] * 4 + ["ERROR"] * 4, denominator=denominator)
    claim = on_the_lower_bound(found, 0.75)
    assert claim.numbers["lower_bound"] == clopper_pearson_interval(60, 68, side="lower").low
    assert (claim.numbers["k"], claim.numbers["n"], claim.numbers["errored"]) == (60, 68, 4)
    assert claim.verdict is Verdict.SUPPORTED and "Of the 68, 4 errored and count as not passed" in claim.sentence
    assert on_the_lower_bound(found, 0.8).verdict is Verdict.NOT_SUPPORTED


def test_a_rule_on_the_lower_bound_over_families_counts_every_error_as_not_passed() -> None:
    statuses = (["PASS"] * 3 + ["ERROR"]) * 12
    bounds = {
        denominator: on_the_lower_bound(analysis(statuses, per_family=4, denominator=denominator), 0.5)
        for denominator in ("measured", "valid")
    }
    assert {claim.numbers["method"] for claim in bounds.values()} == {"korn_graubard"}
    assert bounds["valid"].numbers == bounds["measured"].numbers
    assert 0.4 < bounds["valid"].numbers["lower_bound"] < 0.75


def test_where_errors_void_even_a_rule_on_the_lower_bound_is_ineligible() -> None:
    claim = on_the_lower_bound(analysis(["PASS"] * 80 + ["ERROR"], errors_rule="void"), 0.5)
    assert claim.verdict is Verdict.INELIGIBLE and claim.reasons == ("missing_data",)


def test_a_run_that_errored_throughout_is_ineligible_on_the_lower_bound() -> None:
    claim = on_the_lower_bound(analysis(["ERROR"] * 20), 0.5)
    assert claim.verdict is Verdict.INELIGIBLE and claim.numbers["lower_bound"] is None


@pytest.mark.parametrize(
    ("code", "fault", "where"),
    [
        ("systematic_error", "policy_exception", range(3)),
        ("identity_changed", "identity_changed", range(50, 51)),
        ("inputs_changed", "inputs_changed", range(80)),
    ],
)
def test_what_ended_the_arm_as_a_whole_is_the_reason_of_its_claim(code: str, fault: str, where: range) -> None:
    outcomes = [
        replace(outcome(n, "FAIL"), reason=fault, termination="fault", control_steps=0)
        if n in where
        else outcome(n, "PASS")
        for n in range(80)
    ]
    claim = judge(analyse_outcomes(outcomes, planned={"a": 80}, stages=["done"]), 0.5)
    assert claim.verdict is Verdict.INELIGIBLE and claim.reasons == (code,)
    assert claim.numbers["lower_bound"] is None


def test_a_missing_trial_makes_a_claim_ineligible_for_coverage() -> None:
    assert judge(analysis(["PASS"] * 80, planned=81), 0.5).reasons == ("incomplete_coverage",)


def test_nothing_measured_is_ineligible_and_never_not_supported() -> None:
    claim = judge(analysis(["EXCLUDED"] * 3), 0.5)
    assert claim.verdict is Verdict.INELIGIBLE and claim.reasons == ("missing_data",)


def test_shared_families_are_gated_by_families_and_not_by_episodes() -> None:
    copies = analysis(["PASS"] * 60, per_family=6)  # ten families, each six times the same
    claim = judge(copies, 0.8)
    assert claim.numbers["method"] == "korn_graubard" and claim.verdict is Verdict.NOT_SUPPORTED
    assert claim.numbers["lower_bound"] == pytest.approx(0.05 ** (1 / 10))
    assert judge(analysis(["PASS"] * 60), 0.8).verdict is Verdict.SUPPORTED


def test_fewer_than_ten_shared_families_are_ineligible() -> None:
    claim = judge(analysis(["PASS"] * 54, per_family=6), 0.1)
    assert claim.verdict is Verdict.INELIGIBLE and claim.reasons == ("few_families",)


def test_a_stricter_confidence_can_only_take_support_away() -> None:
    found = analysis(["PASS"] * 59)
    rule = ThresholdClaim(name="x", kind="threshold_rate", arm="a", rate=0.95, confidence=0.99)
    assert judge_claims(found, [rule], ())[0].verdict is Verdict.NOT_SUPPORTED


def test_claims_come_in_the_order_of_the_rules_and_are_canonical_documents() -> None:
    rules = [ThresholdClaim(name=n, kind="threshold_rate", arm="a", rate=r) for n, r in (("z", 0.2), ("b", 0.99))]
    claims = judge_claims(analysis(["PASS"] * 20), rules, ())
    assert [claim.name for claim in claims] == ["z", "b"]
    assert [claim.document()["verdict"] for claim in claims] == ["supported", "not_supported"]
    assert canonical_json([claim.document() for claim in claims])


def test_a_rule_may_be_the_plain_document_of_a_lock() -> None:
    rule = ThresholdClaim(name="x", kind="threshold_rate", arm="a", rate=0.5)
    found = analysis(["PASS"] * 20)
    assert judge_claims(found, [rule.model_dump(mode="json")], ()) == judge_claims(found, [rule], ())
