from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from attempts import STAGES, outcome
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.canonical import canonical_json, parse_strict
from trialplate.errors import EvidenceError
from trialplate.record import Outcome
from trialplate.scoring.analysis import Analysis
from trialplate.scoring.summary import analyse_outcomes
from trialplate.spec.plan import AnalysisPlan


def analyse(outcomes: list[Outcome], **plan: Any) -> Analysis:
    arms = list(dict.fromkeys(o.arm for o in outcomes))
    defaults: dict[str, Any] = {"planned": {a: sum(o.arm == a for o in outcomes) for a in arms}, "stages": STAGES}
    registered = {name: plan.pop(name) for name in list(plan) if name in AnalysisPlan.model_fields}
    return analyse_outcomes(outcomes, plan=AnalysisPlan(**registered), **(defaults | plan))


def arm_of(passed: int, failed: int, *, arm: str = "a", domain: str = "nominal", first: int = 0) -> list[Outcome]:
    return [
        outcome(arm, first + n, "PASS" if n < passed else "FAIL", domain=domain, stages_passed=n % 6)
        for n in range(passed + failed)
    ]


def test_a_complete_arm_has_its_rate_with_both_intervals() -> None:
    arm = analyse(arm_of(80, 20)).arms[0]
    assert arm.state == "COMPLETE" and arm.state_reasons == ()
    assert (arm.rate.k, arm.rate.n, arm.rate.rate) == (80, 100, 0.8)
    assert arm.rate.wilson_low == pytest.approx(0.7111708344, abs=1e-9)
    assert arm.rate.exact_low == pytest.approx(0.7081573109, abs=1e-9)


def test_an_arm_that_was_run_as_another_one_is_exploratory_and_keeps_its_rate_unless_that_is_void_anyhow() -> None:
    other = [replace(made, identity="exploratory") for made in arm_of(8, 2)]
    arm = analyse(other).arms[0]
    assert arm.state == "EXPLORATORY" and arm.state_reasons == ("exploratory_registration",)
    assert (arm.rate.k, arm.rate.n, arm.rate.reason) == (8, 10, None)
    short = analyse(other, planned={"a": 11}).arms[0]
    assert short.state == "ERROR" and short.state_reasons == ("incomplete_coverage", "exploratory_registration")
    assert short.rate.rate is None and short.rate.reason == "artifact_error"


def test_one_errored_episode_takes_the_rate_away_where_that_is_the_rule_and_keeps_the_counts() -> None:
    arm = analyse([*arm_of(9, 0), outcome("a", 50, "ERROR")], errors_rule="void").arms[0]
    assert arm.state == "ERROR" and arm.state_reasons == ("errored_episodes",)
    assert arm.rate.rate is None and arm.rate.reason == "artifact_error" and arm.rate.k == 9
    assert arm.counts.errored == 1 and arm.counts.initiated == 10
    assert (arm.counts.measured, arm.counts.valid) == (10, 9)
    assert [rate.rate for rate in arm.other_rates] == [None]
    assert arm.macro.rate is None and arm.macro.reason == "artifact_error"
    assert arm.funnel.passed[-1] == 9 and set(arm.funnel.rates) == {None}
    assert all(part.rate.rate is None for part in (*arm.domains, *arm.variants))
    assert (arm.bounds.error_low, arm.bounds.error_high) == (0.9, 1.0)


def test_ten_attempts_with_three_errors_have_both_rates_and_their_bounds() -> None:
    outcomes = [*arm_of(5, 2), *(outcome("a", 20 + n, "ERROR") for n in range(3))]
    arm = analyse(outcomes).arms[0]
    assert arm.state == "COMPLETE" and arm.state_reasons == ()
    assert (arm.counts.measured, arm.counts.valid, arm.counts.errored, arm.counts.n) == (10, 7, 3, 10)
    assert (arm.rate.denominator, arm.rate.rate) == ("measured", 0.5)
    (other,) = arm.other_rates
    assert (other.denominator, other.k, other.n) == ("valid", 5, 7) and other.rate == pytest.approx(0.7143, abs=5e-5)
    assert (arm.bounds.error_low, arm.bounds.error_high) == (0.5, 0.8)
    registered = analyse(outcomes, denominator="valid").arms[0]
    assert registered.rate == other and registered.other_rates == (arm.rate,)
    assert [rate.denominator for rate in analyse(outcomes, denominator="initiated").arms[0].other_rates] == [
        "measured",
        "valid",
    ]


def fault(number: int, code: str = "policy_exception", *, steps: int = 0, status: str = "FAIL") -> Outcome:
    return outcome("a", number, status, reason=code, termination="fault", control_steps=steps)


def test_three_first_trials_with_the_same_early_fault_leave_no_rate_but_every_count() -> None:
    outcomes = [*(fault(n) for n in range(3)), *arm_of(4, 1, first=3)]
    arm = analyse(outcomes).arms[0]
    assert arm.state == "ERROR" and arm.state_reasons == ("systematic_error",)
    assert arm.rate.rate is None and arm.rate.reason == "systematic_error" and arm.macro.reason == "systematic_error"
    assert (arm.counts.passed, arm.counts.failed) == (4, 4) and arm.reasons["policy_exception"] == 3
    assert analyse(outcomes, tested=["b"]).arms[0].state == "COMPLETE"  # a control may fail on purpose


@pytest.mark.parametrize(
    "first",
    [
        [fault(0), fault(1)],
        [fault(0), fault(1), fault(2, "policy_timeout")],
        [fault(0), fault(1), fault(2, steps=1)],
        [fault(0, "transport_lost", status="ERROR") for _ in range(1)]
        + [fault(n, "transport_lost", status="ERROR") for n in (1, 2)],
        [outcome("a", n, "FAIL", reason="policy_exception", control_steps=0) for n in range(3)],
    ],
    ids=["two trials", "two codes", "one step", "the wire", "no fault"],
)
def test_anything_less_is_no_systematic_error(first: list[Outcome]) -> None:
    late = arm_of(3, 0, first=len(first))
    assert "systematic_error" not in analyse([*late, *first]).arms[0].state_reasons


@pytest.mark.parametrize("code", ["identity_changed", "inputs_changed"])
def test_an_arm_that_became_another_one_has_no_rate_whatever_it_scored(code: str) -> None:
    arm = analyse([*arm_of(8, 1), fault(20, code, steps=30, status="ERROR")]).arms[0]
    assert arm.state_reasons == (code,) and arm.rate.reason == code and arm.rate.rate is None
    assert arm.counts.passed == 8 and arm.other_rates[0].reason == code
    assert all(part.rate.reason == code for part in arm.domains)


def test_a_family_with_errors_only_keeps_its_place_in_what_was_measured() -> None:
    outcomes = [outcome("a", n, "PASS", family=f"f-{n // 2}", repeat=n % 2) for n in range(20)]
    outcomes += [outcome("a", 20 + n, "ERROR", family="f-error", repeat=n) for n in range(2)]
    families = analyse(outcomes, denominator="valid").arms[0].families
    assert families.counts["f-error"] == (0, 0) and families.measured == {"f-error": 2}
    assert analyse(outcomes).arms[0].families.measured == {}


def test_a_missing_trial_takes_the_rate_away() -> None:
    arm = analyse(arm_of(9, 0), planned={"a": 10}).arms[0]
    assert arm.state_reasons == ("incomplete_coverage",) and arm.rate.rate is None


def test_an_arm_without_any_episode_has_nulls_with_reasons() -> None:
    arm = analyse([], planned={"a": 4}).arms[0]
    assert arm.counts.initiated == 0 and arm.rate.rate is None and arm.bounds.reason == "no_attempts"


def test_excluded_episodes_leave_the_default_denominator_and_stay_in_the_bounds() -> None:
    outcomes = [*arm_of(5, 2), *(outcome("a", 20 + n, "EXCLUDED") for n in range(3))]
    arm = analyse(outcomes).arms[0]
    assert (arm.rate.k, arm.rate.n) == (5, 7) and arm.state == "COMPLETE"
    assert (arm.bounds.exclusion_low, arm.bounds.exclusion_high) == (0.5, 0.8)
    assert analyse(outcomes, denominator="initiated").arms[0].rate.n == 10


def test_all_excluded_is_nothing_measured_and_not_zero_percent() -> None:
    arm = analyse([outcome("a", 0, "EXCLUDED")], denominator="initiated").arms[0]
    assert arm.rate.rate is None and arm.rate.reason == "nothing_measured"
    assert arm.macro.reason == "task_without_attempts"


def test_refused_poses_and_reasons_are_counted_by_code() -> None:
    outcomes = [*arm_of(1, 2), outcome("a", 10, "FAIL", reason="control_rejected", stages_passed=2)]
    arm = analyse(outcomes).arms[0]
    assert arm.control_rejected == 1
    assert arm.reasons == {"control_rejected": 1, "stage_not_passed": 2}
    assert sum(arm.first_failed.values()) == arm.counts.failed == 3


def test_macro_weighs_domains_equally_and_pooled_does_not() -> None:
    outcomes = arm_of(9, 1) + arm_of(0, 2, domain="edge", first=20)
    arm = analyse(outcomes).arms[0]
    assert arm.rate.rate == 0.75 and arm.macro.rate == pytest.approx(0.45) and arm.macro.domains == 2


def test_slices_add_up_to_the_arm_and_come_in_scenario_order() -> None:
    outcomes = arm_of(3, 1, domain="zeta") + arm_of(1, 2, domain="alpha", first=20)
    arm = analyse(outcomes).arms[0]
    assert [part.domain for part in arm.domains] == ["zeta", "alpha"]
    assert sum(part.rate.k for part in arm.domains) == arm.rate.k
    assert sum(part.counts.initiated for part in arm.variants) == arm.counts.initiated
    assert analyse(outcomes, slices=("domain",)).arms[0].variants == ()


def test_the_funnel_ends_at_the_number_of_passes() -> None:
    arm = analyse([outcome("a", n, "FAIL", stages_passed=n) for n in range(6)] + [outcome("a", 9)]).arms[0]
    assert arm.funnel.entries == 7 and arm.funnel.reached == (7, 6, 5, 4, 3, 2)
    assert arm.funnel.passed == (6, 5, 4, 3, 2, 1)


def test_episodes_that_share_a_family_get_cluster_intervals_beside() -> None:
    outcomes = [
        outcome("a", n, "PASS" if n % 12 else "FAIL", family=f"f-{n % 12:02d}", repeat=n // 12) for n in range(36)
    ]
    families = analyse(outcomes).arms[0].families
    assert families.families == 12 and families.counts["f-00"] == (0, 3)
    assert families.korn_graubard_low is not None and families.deff == pytest.approx(36 / 11, rel=0.2)
    single = analyse(arm_of(5, 5)).arms[0].families
    assert single.counts == {} and single.reason == "independent_episodes"


def pair(a: list[str], b: list[str], **plan: Any) -> Analysis:
    outcomes = [outcome("a", n, s) for n, s in enumerate(a)] + [outcome("b", n, s) for n, s in enumerate(b)]
    return analyse(outcomes, comparisons=(("a", "b"),), **plan)


def test_a_registered_comparison_counts_discordant_pairs() -> None:
    found = pair(["PASS"] * 6 + ["FAIL"] * 4, ["PASS", "FAIL"] * 5).comparisons[0]
    assert (found.pairs, found.both, found.only_a, found.only_b, found.neither) == (10, 3, 3, 2, 2)
    assert found.difference == pytest.approx(0.1) and found.low is not None and found.low < 0.1
    assert found.p_value == 1.0 and found.reason is None


def test_an_unregistered_comparison_is_not_made() -> None:
    assert analyse(arm_of(1, 1) + arm_of(1, 1, arm="b")).comparisons == ()


def test_a_comparison_with_an_errored_arm_has_no_estimate() -> None:
    statuses = ["PASS"] * 4, ["PASS", "PASS", "FAIL", "ERROR"]
    found = pair(*statuses, errors_rule="void").comparisons[0]
    assert found.reason == "artifact_error" and found.difference is None and found.p_value is None
    assert (found.pairs, found.unmatched, found.errored) == (4, 0, 1)
    assert found.verdict == "NOT_COMPARABLE" and found.differs == ("state of b: ERROR (errored_episodes)",)


def test_pairs_follow_the_registered_denominator() -> None:
    statuses = ["PASS"] * 4, ["PASS", "PASS", "FAIL", "ERROR"]
    measured = pair(*statuses).comparisons[0]
    assert measured.reason is None and (measured.pairs, measured.unmatched, measured.only_a) == (4, 0, 2)
    assert (measured.difference, measured.error_low, measured.error_high) == (0.5, 0.25, 0.5)
    valid = pair(*statuses, denominator="valid").comparisons[0]
    assert valid.reason is None and (valid.pairs, valid.unmatched, valid.only_a) == (3, 1, 1)
    assert (valid.errored, valid.error_low) == (0, valid.difference)
    excluded = ["PASS"] * 4, ["PASS", "PASS", "FAIL", "EXCLUDED"]
    started = pair(*excluded, denominator="initiated").comparisons[0]
    assert (started.pairs, started.unmatched, started.only_a) == (4, 0, 2)


def test_an_excluded_partner_leaves_its_trial_unmatched() -> None:
    found = pair(["PASS"] * 4, ["PASS", "PASS", "FAIL", "EXCLUDED"]).comparisons[0]
    assert found.reason is None and (found.pairs, found.unmatched) == (3, 1)


def test_pairs_whose_worlds_started_apart_are_not_compared() -> None:
    outcomes = [outcome("a", 0), outcome("b", 0, initial_state_sha256="0" * 63 + "9")]
    found = analyse(outcomes, comparisons=(("a", "b"),)).comparisons[0]
    assert found.unequal_starts == 1 and found.reason == "not_comparable" and found.difference is None


def test_a_comparison_without_pairs_has_no_estimate() -> None:
    found = analyse([outcome("a", 0), outcome("b", 1)], comparisons=(("a", "b"),)).comparisons[0]
    assert found.reason == "no_pairs" and found.unmatched == 2


def test_swapping_the_arms_negates_the_difference() -> None:
    statuses = ["PASS", "FAIL", "PASS", "PASS"], ["FAIL", "FAIL", "FAIL", "PASS"]
    there, back = pair(*statuses).comparisons[0], pair(*reversed(statuses)).comparisons[0]
    assert there.difference is not None and back.difference == -there.difference
    assert there.low == pytest.approx(-(back.high or 0.0)) and there.p_value == back.p_value


def test_unplanned_arms_and_repeated_trials_are_refused() -> None:
    with pytest.raises(EvidenceError, match="which was not planned"):
        analyse(arm_of(1, 0), planned={"b": 1})
    with pytest.raises(EvidenceError, match="stands twice"):
        analyse([outcome("a", 0), outcome("a", 0)])
    with pytest.raises(EvidenceError, match="stands twice"):
        analyse([outcome("a", 0), outcome("a", 0, trial_id="other")])
    with pytest.raises(EvidenceError, match="comparison of an unplanned arm 'c'"):
        analyse(arm_of(1, 0), comparisons=(("a", "c"),))


def test_without_named_stages_those_of_the_outcomes_count() -> None:
    assert analyse(arm_of(2, 3), stages=None) == analyse(arm_of(2, 3))
    assert analyse([outcome("a", 0, "ERROR")], stages=None).arms[0].funnel.stages == ()


def test_outcomes_of_another_chain_are_refused() -> None:
    with pytest.raises(EvidenceError, match="expected the stages"):
        analyse(arm_of(1, 0), stages=("one", "two"))


statuses = st.lists(st.sampled_from(["PASS", "FAIL", "ERROR", "EXCLUDED"]), max_size=30)


@given(statuses, statuses, st.sampled_from(["void", "bounds"]), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_document_is_canonical_and_independent_of_the_order_of_outcomes(
    a: list[str], b: list[str], rule: str, shuffler: random.Random
) -> None:
    outcomes = [outcome("a", n, s, stages_passed=n % 6, domain=f"d{n % 3}") for n, s in enumerate(a)]
    outcomes += [outcome("b", n, s, domain=f"d{n % 3}") for n, s in enumerate(b)]
    plan: dict[str, Any] = {"planned": {"a": len(a), "b": len(b)}, "comparisons": (("a", "b"),), "errors_rule": rule}
    document = analyse(outcomes, **plan).document()
    assert parse_strict(canonical_json(document)) == document
    shuffled = list(outcomes)
    shuffler.shuffle(shuffled)
    assert analyse(shuffled, **plan).document() == document


@given(statuses)
@settings(max_examples=60, deadline=None)
def test_every_episode_is_counted_once_and_another_arm_changes_nothing(a: list[str]) -> None:
    outcomes = [outcome("a", n, s) for n, s in enumerate(a)]
    alone = analyse(outcomes, planned={"a": len(a)}).arms[0]
    beside = analyse(outcomes + arm_of(3, 2, arm="b"), planned={"a": len(a), "b": 5}).arms[0]
    assert alone == beside
    counts = alone.counts
    assert counts.passed + counts.failed + counts.errored + counts.excluded == counts.initiated == len(a)
    assert (alone.rate.rate is None) == (alone.rate.reason is not None)
