"""Rates, bounds and held-out domains of skills: acceptance rows and golden numbers that need no simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from trialplate.record import Outcome, SkillFacts, StageResult, Status
from trialplate.scoring.skill_summary import SkillSummary, summarise_skill
from trialplate.scoring.skills import Stratum, adaptability, overall_rate, ranking, skill_report

STAGES = ("grasped", "lifted", "held")
PASS, FAIL, ERROR, EXCLUDED = Status.PASS, Status.FAIL, Status.ERROR, Status.EXCLUDED


def outcome(number: int, status: Status, *, climbed: int | None = None, **changes: Any) -> Outcome:
    passed = climbed if climbed is not None else 3 if status is PASS else 0
    measured = status in (PASS, FAIL)
    stages = [StageResult(name, n < passed, n if n < passed else None) for n, name in enumerate(STAGES)]
    values: dict[str, Any] = {
        "trial_id": f"{number:06d}", "arm": "mine", "scenario": f"case-{number}", "family": f"case-{number}",
        "domain": "pick_up", "variant": "nominal", "repeat": 0, "status": status,
        "reason": "chain_complete" if status is PASS else "task_goal_miss",
        "stages": tuple(stages) if measured else (), "success_once": None, "success_final": None,
        "first_failed_stage": None, "termination": "plan_replayed", "control_steps": 5,
        "trace_content_sha256": f"{number:064d}", "initial_state_sha256": None,
        "skill": facts(trusted=True if measured else None), **changes,
    }  # fmt: skip
    return Outcome(**values)


def facts(*, trusted: bool | None, believed: bool | None = None, measured: bool = True) -> SkillFacts:
    return SkillFacts(
        skill="pick_up", case_set="nominal", case_domain=None, axis=None, difficulty="simple", stages=(),
        trusted=trusted, believed={} if believed is None else {"grasped": believed}, measured={"grasped": measured},
    )  # fmt: skip


def many(*counts: tuple[Status, int]) -> list[Outcome]:
    statuses = [status for status, count in counts for _ in range(count)]
    return [outcome(number, status) for number, status in enumerate(statuses)]


def cases(passes: Sequence[int], *, of: int) -> list[Outcome]:
    return [
        outcome(
            100 * case + repeat, PASS if repeat < won else FAIL, scenario=f"case-{case}", family=f"case-{case}",
            repeat=repeat,
        )
        for case, won in enumerate(passes)
        for repeat in range(of)
    ]  # fmt: skip


def summary(outcomes: Sequence[Outcome], total: int | None = None) -> SkillSummary:
    return summarise_skill(outcomes, total=len(outcomes) if total is None else total, stages=STAGES)


def test_row_01_three_of_three_has_an_interval_and_is_never_bare() -> None:
    found = summary(many((PASS, 3)))
    assert found.success_rate == 1 and [stage.rate for stage in found.stages] == [1, 1, 1]
    assert found.interval_trials == pytest.approx((0.4385, 1.0), abs=5e-5)


@pytest.mark.parametrize(
    ("k", "n", "interval"),
    [
        (3, 3, (0.4385, 1)),
        (0, 3, (0, 0.5615)),
        (4, 4, (0.5101, 1)),
        (23, 31, (0.5675, 0.8630)),
        (7, 10, (0.3968, 0.8922)),
    ],
)
def test_golden_wilson_intervals(k: int, n: int, interval: tuple[float, float]) -> None:
    assert summary(many((PASS, k), (FAIL, n - k))).interval_trials == pytest.approx(interval, abs=5e-5)


def test_row_15_both_rates_are_told_with_the_table_of_passed_and_trusted() -> None:
    found = summary([outcome(1, PASS), outcome(2, PASS, skill=facts(trusted=False)), outcome(3, FAIL)])
    assert (found.success_rate, found.trusted_success_rate) == (2 / 3, 1 / 3)
    assert found.trust == {"passed_trusted": 1, "passed_untrusted": 1, "failed_trusted": 1, "failed_untrusted": 0}


def test_row_19_an_excluded_trial_is_not_measured_and_lowers_coverage() -> None:
    found = summary(many((PASS, 3), (EXCLUDED, 1)))
    assert (found.measured, found.coverage_rate, found.success_rate) == (3, 0.75, 1)


def test_row_20_unsupported_trials_leave_the_denominator() -> None:
    found = summary(many((PASS, 23), (FAIL, 8), (EXCLUDED, 17)))
    assert (found.total, found.measured) == (48, 31)
    assert found.coverage_rate == pytest.approx(0.6458, abs=5e-5)
    assert found.success_rate == pytest.approx(0.7419, abs=5e-5)


def test_row_21_errors_widen_the_result_and_are_no_failures() -> None:
    found = summary(many((PASS, 7), (FAIL, 1), (ERROR, 2)))
    assert (found.success_rate, found.success_rate_valid) == (0.70, 0.875)
    assert (found.low_bound, found.high_bound) == (0.70, 0.90)
    assert found.flags == ("errors_present",)
    assert found.stages[0].reached == 8
    domains = {"obj_capsule": summary(many((PASS, 4)))}
    held = adaptability(domains, found)
    assert (held.eligible, held.eligible_reasons) == (None, ("errors_present",))


def test_row_23_a_trial_that_was_not_started_takes_every_headline_away() -> None:
    found = summary(many((PASS, 3)), total=4)
    assert (found.not_started, found.reason) == (1, "incomplete")
    assert (found.success_rate, found.coverage_rate, found.trusted_success_rate) == (None, None, None)
    assert found.interval_trials is None and found.interval_cases is None
    assert {stage.rate for stage in found.stages} == {None}


def test_nothing_measured_is_no_zero() -> None:
    found = summary(many((EXCLUDED, 2)))
    assert (found.success_rate, found.reason, found.coverage_rate) == (None, "no_trials", 0)
    assert [(stage.reached, stage.rate, stage.reason) for stage in found.stages] == [(0, None, "no_trials")] * 3


def test_a_stage_is_reached_by_those_that_passed_the_one_before() -> None:
    climbs = [3] * 7 + [2] + [1] + [0]
    found = summary([outcome(n, PASS if c == 3 else FAIL, climbed=c) for n, c in enumerate(climbs)])
    assert [stage.passed for stage in found.stages] == [9, 8, 7]
    assert [stage.rate for stage in found.stages] == pytest.approx([0.9, 0.8889, 0.875], abs=5e-5)
    assert found.success_rate == 0.7


def test_golden_effective_numbers_of_cases() -> None:
    split = summary(cases([3, 3, 3, 0], of=3))
    assert split.n_eff == 4
    assert split.interval_trials == pytest.approx((0.4677, 0.9111), abs=5e-5)
    assert split.interval_cases == pytest.approx((0.3006, 0.9544), abs=5e-5)
    mixed = summary(cases([3, 3, 0, 2, 3, 1, 3, 3], of=3))
    assert mixed.success_rate == 0.75
    assert mixed.n_eff == pytest.approx(9.947, abs=5e-4)
    assert mixed.interval_cases == pytest.approx((0.4414, 0.9193), abs=5e-5)


def test_row_43_equal_traces_of_repeats_are_one_observation() -> None:
    told = [
        outcome(n, PASS, scenario=f"case-{n // 3}", trace_content_sha256=f"{n // 3:064d}", repeat=n % 3)
        for n in range(12)
    ]
    found = summary(told)
    assert found.flags == ("repeats_identical",)
    assert (found.cases, found.n_eff) == (4, 4)
    assert found.interval_trials is None and found.interval_cases == pytest.approx((0.5101, 1), abs=5e-5)


def test_row_04_beliefs_are_tabulated_against_measurements() -> None:
    found = summary(
        [
            outcome(1, PASS, skill=facts(trusted=True, believed=True)),
            outcome(2, FAIL, skill=facts(trusted=True, believed=True, measured=False)),
            outcome(3, FAIL, skill=facts(trusted=True)),
        ]
    )
    assert found.belief == {"believed_false": 1, "believed_true": 1}


def of(k: int, n: int) -> SkillSummary:
    return summary(many((PASS, k), (FAIL, n - k)))


def test_golden_held_out_domains() -> None:
    domains = {f"d{index}": of(k, 10) for index, k in enumerate((9, 8, 7, 6, 10, 8, 8))}
    held = adaptability(domains, of(8, 10))
    assert (held.mean, held.worst, held.retention) == (0.8, 0.6, 0.75)
    assert held.variance == pytest.approx(1 / 70)
    assert (held.coverage_rate, held.eligible, held.eligible_reasons) == (1, True, ())


def test_row_37_thresholds_are_met_exactly() -> None:
    assert adaptability({"d": of(6, 10)}, of(8, 10)).eligible is True
    assert adaptability({"d": of(6, 10)}, of(8, 10)).retention == 0.75
    below = adaptability({"d": of(5, 10)}, of(10, 10))
    assert (below.eligible, below.eligible_reasons) == (False, ("worst below 0.60", "retention below 0.75"))


def test_row_38_a_domain_without_measured_trials_is_not_dropped() -> None:
    held = adaptability({"a": of(10, 10), "b": summary(many((EXCLUDED, 4)))}, of(8, 10))
    assert (held.worst, held.eligible) == (None, False)
    assert held.coverage_rate == pytest.approx(10 / 14)
    assert held.domains["a"].success_rate == 1


def test_row_39_a_nominal_rate_of_zero_leaves_no_retention_and_the_worst_decides() -> None:
    held = adaptability({"d": of(10, 10)}, of(0, 3))
    assert (held.retention, held.retention_reason, held.eligible) == (None, "nominal_zero", True)


def test_an_incomplete_domain_is_not_eligible_yet() -> None:
    held = adaptability({"d": summary(many((PASS, 3)), total=4)}, of(8, 10))
    assert (held.worst, held.coverage_rate, held.eligible) == (None, None, None)


def without_robot(count: int, *, excluded: int = 0) -> SkillSummary:
    told = replace(facts(trusted=None), failure_detail="asset_missing")
    lost = [outcome(number, ERROR, reason="reset_failed", skill=told) for number in range(count)]
    return summary([*lost, *[outcome(900 + number, EXCLUDED) for number in range(excluded)]])


def test_a_domain_without_its_robot_has_no_rate_and_not_a_rate_of_zero() -> None:
    lost = without_robot(4)
    assert (lost.reason, lost.errored, lost.flags) == ("asset_missing", 4, ("errors_present",))
    rates = (lost.success_rate, lost.success_rate_valid, lost.trusted_success_rate, lost.coverage_rate)
    assert rates == (None,) * 4
    assert (lost.low_bound, lost.high_bound, lost.interval_trials, lost.interval_cases) == (None,) * 4
    assert {(stage.rate, stage.reason) for stage in lost.stages} == {(None, "asset_missing")}
    assert summary(many((ERROR, 4))).success_rate == 0.0  # another error stays in its denominator


@pytest.mark.parametrize("excluded", [0, 1])
def test_a_missing_robot_leaves_the_adaptability_unknown_and_every_domain_listed(excluded: int) -> None:
    held = adaptability({"obj": of(9, 10), "arm_ur10e": without_robot(2, excluded=excluded)}, of(8, 10))
    assert (held.mean, held.worst, held.variance, held.retention, held.coverage_rate) == (None,) * 5
    assert (held.reason, held.retention_reason) == ("asset_missing", "asset_missing")
    assert (held.eligible, held.eligible_reasons) == (None, ("asset_missing",))
    assert list(held.domains) == ["obj", "arm_ur10e"] and held.domains["obj"].success_rate == 0.9


def test_a_run_that_is_not_done_is_incomplete_before_anything_else() -> None:
    held = adaptability({"arm_ur10e": without_robot(2), "d": summary(many((PASS, 3)), total=4)}, of(8, 10))
    assert held.reason == "incomplete"


def test_the_overall_rate_needs_every_skill() -> None:
    assert overall_rate([of(1, 2), of(2, 2)], skills=2) == (0.75, None)
    assert overall_rate([of(1, 2)], skills=2) == (None, "missing_skills")


def test_a_report_puts_every_trial_where_its_scenario_belongs_and_lists_every_planner() -> None:
    strata = {
        "a": Stratum.of("pick_up", "nominal"),
        "b": Stratum.of("pick_up", "robustness/friction"),
        "c": Stratum.of("pick_up", "adaptability/obj_capsule"),
    }
    planned = [(arm, scenario) for arm in ("mine", "other") for scenario in strata]
    told = [outcome(n, PASS, arm=arm, scenario=scenario) for n, (arm, scenario) in enumerate(planned)]
    told[1] = outcome(1, FAIL, arm="mine", scenario="b")
    told[5] = outcome(5, FAIL, arm="other", scenario="c")
    report = skill_report(told, planned=planned, strata=strata, ladders={"pick_up": STAGES})
    mine, other = (arm.skills[0] for arm in report.arms)
    assert [(axis.axis, axis.difference) for axis in mine.axes] == [("friction", -1.0)]
    assert mine.adaptability is not None and other.adaptability is not None
    assert (mine.adaptability.eligible, other.adaptability.eligible) == (True, False)
    assert report.arms[0].overall == 1.0
    assert [(row.rank, row.arm, row.eligible) for row in ranking(report, "pick_up")] == [
        (1, "mine", True), (2, "other", False),
    ]  # fmt: skip
