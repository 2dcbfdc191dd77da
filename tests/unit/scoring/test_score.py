from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from attempts import row_of
from block_films import PICK_PLACE, Film, success_film

from trialplate.errors import EvidenceError
from trialplate.record import Outcome, Row, Status, Trace
from trialplate.scoring.score import score_attempt, score_rows

TABLE = {
    "policy_exception": "ERROR",
    "policy_timeout": "FAIL",
    "simulator_crash": "ERROR",
    "scene_mismatch": "ERROR",
    "power_cut": "EXCLUDED",
}


def score(row: Row, trace: Trace | None) -> Outcome:
    return score_attempt(row, trace, chain=PICK_PLACE, fault_table=TABLE)


def score_pairs(
    pairs: list[tuple[Row, Trace | None]], *, interrupted: Literal["error", "replace"] = "error"
) -> tuple[Outcome, ...]:
    traces = {(row.ordinal, row.attempt): trace for row, trace in pairs}
    return score_rows(
        [row for row, _ in pairs],
        load_trace=lambda row: traces[row.ordinal, row.attempt],
        chain=PICK_PLACE,
        fault_table=TABLE,
        interrupted=interrupted,
    )


def test_a_complete_chain_passes_and_carries_the_identity_of_its_trace() -> None:
    trace = success_film().trace()
    outcome = score(row_of(trace), trace)
    assert outcome.status is Status.PASS and outcome.reason == "chain_complete"
    assert outcome.success_final and outcome.first_failed_stage is None
    assert outcome.trace_content_sha256 == trace.content_sha256()


def test_a_policy_that_stops_early_gets_what_its_recording_shows() -> None:
    trace = Film().start().grasp().trace()
    outcome = score(row_of(trace, termination="policy_stop"), trace)
    assert outcome.status is Status.FAIL and outcome.reason == "stage_not_passed"
    assert outcome.first_failed_stage == "lifted"


def test_a_refused_pose_is_a_counted_failure_even_after_success() -> None:
    trace = success_film().trace()
    outcome = score(row_of(trace, termination="control_rejected"), trace)
    assert outcome.status is Status.FAIL and outcome.reason == "control_rejected"
    assert outcome.success_once and outcome.success_final is False and outcome.first_failed_stage == "stable"
    assert "controller refused" in outcome.notes[0]


def test_an_interrupted_attempt_is_an_error_whatever_it_shows() -> None:
    trace = success_film().trace()
    for found in (trace, None):
        outcome = score(row_of(found, termination="interrupted"), found)
        assert outcome.status is Status.ERROR and outcome.reason == "interrupted"
        assert outcome.success_final is None and outcome.stages == ()


@pytest.mark.parametrize(("code", "status"), [("policy_exception", Status.ERROR), ("power_cut", Status.EXCLUDED)])
def test_a_fault_gets_its_status_from_the_table_and_says_nothing_about_stages(code: str, status: Status) -> None:
    trace = success_film().trace()
    row = row_of(trace, termination="fault", fault_code=code, fault_message="what happened")
    outcome = score(row, trace)
    assert outcome.status is status and outcome.reason == code and outcome.notes == ("what happened",)
    assert outcome.stages == () and outcome.success_once is None


def test_a_fault_that_the_table_charges_to_the_arm_keeps_its_stages_but_never_passes() -> None:
    trace = success_film().trace()
    outcome = score(row_of(trace, termination="fault", fault_code="policy_timeout"), trace)
    assert outcome.status is Status.FAIL and outcome.first_failed_stage == "stable"
    assert [stage.passed for stage in outcome.stages] == [True] * 5 + [False]


def test_a_charged_fault_before_the_world_came_to_rest_fails_at_the_first_stage() -> None:
    outcome = score(row_of(None, termination="fault", fault_code="policy_timeout"), None)
    assert outcome.status is Status.FAIL and outcome.first_failed_stage == "reached"
    assert [stage.passed for stage in outcome.stages] == [False] * 6


def test_a_fault_that_the_table_does_not_know_is_refused() -> None:
    with pytest.raises(EvidenceError, match=r"no status for 'policy_timeot'.*did you mean 'policy_timeout'"):
        score(row_of(None, termination="fault", fault_code="policy_timeot"), None)


def test_a_table_that_lets_a_fault_pass_is_refused() -> None:
    row = row_of(None, termination="fault", fault_code="x")
    with pytest.raises(EvidenceError, match="a fault cannot pass"):
        score_attempt(row, None, chain=PICK_PLACE, fault_table={"x": "PASS"})


def test_a_recording_that_starts_in_success_is_a_scene_fault() -> None:
    trace = Film(offset=0.0).step(5).trace()
    outcome = score(row_of(trace), trace)
    assert outcome.status is Status.ERROR and outcome.reason == "scene_mismatch"
    assert "before the first action" in outcome.notes[0]


def test_a_missing_trace_of_an_attempt_that_ran_is_refused() -> None:
    with pytest.raises(EvidenceError, match="has no trace"):
        score(row_of(None), None)


def test_a_row_that_contradicts_itself_is_refused() -> None:
    trace = success_film().trace()
    good = row_of(trace)
    for row, message in (
        (replace(good, termination="success"), "unknown termination 'success'"),
        (replace(good, termination="fault"), "names none"),
        (replace(good, fault_code="policy_exception"), "names the fault"),
        (replace(good, control_steps=3), "3 control steps, its trace 35"),
        (replace(good, trace=None), "the row names no trace, one was handed over"),
        (replace(good, initial_state_sha256="9" * 64), "not the first state of the trace"),
        (replace(good, actions_sha256="9" * 64), "not that of the trace"),
    ):
        with pytest.raises(EvidenceError, match=message):
            score(row, trace)
    with pytest.raises(EvidenceError, match="the row names a trace, none was handed over"):
        score(good, None)


def test_a_trace_with_other_content_than_the_row_names_is_refused() -> None:
    trace = success_film().trace()
    row = row_of(trace)
    trace.measured["goal_offset_m"][3, 0] += 1e-9
    with pytest.raises(EvidenceError, match="expected a trace with content"):
        score(row, trace)


def test_outcomes_come_in_the_order_of_the_schedule() -> None:
    trace = success_film().trace()
    rows = [row_of(trace, trial_id=f"{n:06d}", ordinal=n) for n in (2, 0, 1)]
    outcomes = score_pairs([(row, trace) for row in rows])
    assert [outcome.trial_id for outcome in outcomes] == ["000000", "000001", "000002"]


def test_a_repeated_attempt_is_refused_unless_replacement_is_registered() -> None:
    trace = success_film().trace()
    first, second = row_of(None, termination="interrupted"), row_of(trace, attempt=1)
    pairs: list[tuple[Row, Trace | None]] = [(second, trace), (first, None)]
    with pytest.raises(EvidenceError, match="attempted 2 times"):
        score_pairs(pairs)
    (outcome,) = score_pairs(pairs, interrupted="replace")
    assert outcome.status is Status.PASS and outcome.notes == ()


def test_an_attempt_that_ended_is_never_replaced() -> None:
    trace = success_film().trace()
    failed = Film().start().trace()
    pairs: list[tuple[Row, Trace | None]] = [(row_of(failed), failed), (row_of(trace, attempt=1), trace)]
    with pytest.raises(EvidenceError, match="only an interrupted attempt is replaced"):
        score_pairs(pairs, interrupted="replace")


def test_the_same_attempt_twice_is_refused_even_with_replacement() -> None:
    row = row_of(None, termination="interrupted")
    with pytest.raises(EvidenceError, match="attempted 2 times"):
        score_pairs([(row, None), (row, None)], interrupted="replace")
