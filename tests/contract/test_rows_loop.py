"""Acceptance cases of the policy contract that the rollout itself decides; the row's number is in each name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rollout import STILL, SUITE, play

from trialplate.admission import admit
from trialplate.errors import DEFAULT_STATUS, HarnessFault, PolicyFault, ProtocolError
from trialplate.policies.validation import validate_chunk
from trialplate.record import ActionChunk, Event, PolicyDecision, Stop, Usage
from trialplate.scoring.ladder import climb
from trialplate.store.replies import reply_text
from trialplate.testing.reach import ReachWorld


def _rows(count: int) -> list[list[float]]:
    return [list(STILL) for _ in range(count)]


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), float("-inf"), True, "nan", None, 1e308, 1 + 2j, np.int64(0)]
)
def test_row_08_a_bad_value_names_row_and_component_and_nothing_runs(value: Any) -> None:
    rows: list[list[Any]] = _rows(5)
    rows[3][2] = value
    played = play(lambda seen: ActionChunk(rows), replan_interval=5)
    fault = played.attempt.fault
    assert isinstance(fault, PolicyFault) and fault.code == "invalid_action"
    assert (fault.row, fault.component) == (3, "ee_delta_pos[2]")
    assert played.attempt.recorder.steps == 0
    ack = played.acks[0]
    assert not ack.accepted and ack.issue is not None and ack.issue.row == 3 and ack.executed == 0


@pytest.mark.parametrize("dtype", [np.int64, np.bool_, np.object_, np.complex128, np.float16, ">f4", "U8"])
def test_row_08_arrays_of_other_types_are_refused(dtype: Any) -> None:
    played = play(lambda seen: ActionChunk(np.zeros((2, 7)).astype(dtype)))
    assert played.attempt.fault is not None and played.attempt.fault.code == "invalid_action"


@pytest.mark.parametrize("rows", [2**40, 2**28])
def test_row_08_a_chunk_that_claims_more_rows_than_memory_holds_is_the_arms_and_is_recorded(rows: int) -> None:
    claimed = np.broadcast_to(np.zeros(7), (rows, 7))
    played = play(lambda seen: ActionChunk(claimed))
    assert played.attempt.fault is not None and played.attempt.fault.code == "invalid_action"
    assert str(rows) in reply_text(claimed) and "omitted_bytes" in reply_text(claimed)


def test_row_09_a_bound_is_legal_and_a_billionth_beyond_it_is_rejected_not_clipped() -> None:
    at = [*STILL[:6], 1.0]
    assert validate_chunk([at], SUITE.action, max_rows=1)[0, 6] == 1.0
    with pytest.raises(PolicyFault) as caught:
        validate_chunk([[*STILL[:6], 1.0 + 1e-9]], SUITE.action, max_rows=1)
    assert caught.value.component == "gripper[0]" and "1.000000001" in caught.value.message


def test_row_10_bounds_are_compared_in_the_type_that_was_received() -> None:
    value = np.float32(0.05)
    rows = np.zeros((1, 7), dtype=np.float32)
    rows[0, 0] = value
    assert validate_chunk(rows, SUITE.action, max_rows=1)[0, 0] == float(value) == 0.05000000074505806
    with pytest.raises(PolicyFault):
        validate_chunk([[float(value), *STILL[1:]]], SUITE.action, max_rows=1)


def test_row_11_a_bad_value_in_the_last_row_rejects_the_whole_chunk() -> None:
    rows = _rows(30)
    rows[29][6] = 2.0
    played = play(lambda seen: ActionChunk(rows), replan_interval=8)
    assert played.attempt.fault is not None and played.attempt.fault.code == "invalid_action"
    assert played.attempt.recorder.steps == 0


def test_row_12_only_the_replan_interval_runs_and_the_tail_is_counted() -> None:
    played = play(lambda seen: ActionChunk(_rows(30)) if seen.call_index == 0 else Stop(), replan_interval=8)
    ack = played.acks[0]
    assert (ack.proposed, ack.executed, ack.dropped_tail, ack.discarded_after_end) == (30, 8, 22, 0)
    assert (played.attempt.rows_dropped, played.attempt.short_chunks) == (22, 0)


def test_row_13_a_short_chunk_runs_as_it_is_and_is_flagged() -> None:
    played = play(lambda seen: ActionChunk(_rows(3)) if seen.call_index == 0 else Stop(), replan_interval=8)
    assert (played.acks[0].executed, played.attempt.short_chunks) == (3, 1)


def test_row_14_rows_behind_the_end_of_the_episode_are_discarded_without_an_error() -> None:
    played = play(lambda seen: ActionChunk(_rows(10)), replan_interval=10, max_steps=4)
    ack = played.acks[0]
    assert (ack.executed, ack.discarded_after_end, ack.dropped_tail, ack.next) == (4, 6, 0, "episode_end")
    assert played.attempt.fault is None and played.attempt.rows_discarded == 6
    assert (played.attempt.termination, played.ends) == ("step_limit", ["step_limit"])


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ActionChunk([[0.0] * 8]), "invalid_action"),
        (ActionChunk(np.zeros((0, 7))), "invalid_action"),
        (ActionChunk([]), "invalid_action"),
        (ActionChunk(None), "invalid_response_schema"),
        ({}, "invalid_response_schema"),
        (None, "invalid_response_schema"),
        ((ActionChunk([STILL]), Stop()), "invalid_response_schema"),
    ],
)
def test_row_16_what_is_no_decision_fails_and_is_never_a_success(answer: Any, code: str) -> None:
    played = play(lambda seen: answer)
    assert played.attempt.fault is not None and played.attempt.fault.code == code
    assert DEFAULT_STATUS[code] == "FAIL"


def test_row_17_under_terminal_handling_the_first_invalid_decision_ends_the_attempt() -> None:
    played = play(lambda seen: ActionChunk([[9.0] * 7]))
    assert (played.attempt.termination, played.attempt.recorder.steps) == ("fault", 0)
    assert played.kinds == ["fault"] and played.ends == ["error"]
    assert played.acks[0].next == "episode_end"


def test_row_18_under_feedback_the_same_look_is_shown_until_the_calls_are_used() -> None:
    played = play(lambda seen: ActionChunk([[9.0] * 7]), profile="standard", feedback=True, max_calls=3)
    assert [seen.call_index for seen in played.seen] == [0, 1, 2]
    assert len({seen.observation_id for seen in played.seen}) == 1
    for seen in played.seen[1:]:
        assert seen.issue is not None and seen.issue.code == "invalid_action" and seen.issue.row == 0
        assert all(np.array_equal(seen.images[name], image) for name, image in played.seen[0].images.items())
        assert all(np.array_equal(seen.proprio[name], value) for name, value in played.seen[0].proprio.items())
    fault = played.attempt.fault
    assert fault is not None and fault.code == "call_budget_exhausted" and DEFAULT_STATUS[fault.code] == "FAIL"
    assert played.attempt.calls_rejected == 3 and played.kinds == ["rejected"] * 3


def test_row_18_after_an_accepted_chunk_the_next_look_is_new_and_has_no_issue() -> None:
    def act(seen: Any) -> Any:
        return ActionChunk([[9.0] * 7]) if seen.call_index == 0 else ActionChunk([STILL])

    played = play(act, feedback=True, max_calls=3)
    first, second, third = played.seen
    assert first.observation_id == second.observation_id != third.observation_id
    assert second.issue is not None and third.issue is None
    assert [seen.remaining.calls for seen in played.seen] == [3, 2, 1]


def test_row_19_feedback_without_a_number_of_calls_cannot_be_locked(tmp_path: Any) -> None:
    text = (
        'schema = "trialplate.protocol/1"\nname = "p"\nquestion = "q"\nrun_class = "development"\n'
        '[suite]\nname = "toy-reach"\nversion = "1"\n[[arms]]\nname = "a"\npolicy = "control:null"\n'
        '[budgets]\ninvalid_action_handling = "feedback"\n'
    )
    with pytest.raises(ProtocolError, match="max_calls"):
        admit(text, source="p.toml", base=tmp_path)
    assert admit(text + "max_calls = 3\n", source="p.toml", base=tmp_path)


class _Refusing(ReachWorld):
    """Refuses its third step of all."""

    asked = 0

    def step(self, action: Any) -> Event | None:
        self.asked += 1
        if self.asked == 3:
            return Event(-1, "control_rejected", "out of reach")
        return super().step(action)


def test_row_20_a_refused_row_leaves_the_rows_before_it_and_is_told_with_a_new_look() -> None:
    world = _Refusing(body="own", profile="state")
    played = play(
        lambda seen: ActionChunk(_rows(5)) if seen.call_index == 0 else Stop(),
        world=world, replan_interval=5, feedback=True, max_calls=9,
    )  # fmt: skip
    first, second = played.seen
    assert (second.step_index, second.call_index) == (2, 1)
    assert second.observation_id != first.observation_id
    assert second.issue is not None and (second.issue.code, second.issue.row) == ("native_rejected", 2)
    assert played.acks[0].executed == 2 and not played.acks[0].accepted
    assert played.attempt.termination == "policy_stop"


def test_row_20_under_terminal_handling_a_refused_row_ends_the_attempt() -> None:
    played = play(lambda seen: ActionChunk(_rows(5)), world=_Refusing(body="own", profile="state"), replan_interval=5)
    assert (played.attempt.termination, played.attempt.recorder.steps) == ("control_rejected", 2)


class _Uncertain(ReachWorld):
    """Does not know whether its third step ran."""

    asked = 0

    def step(self, action: Any) -> Event | None:
        self.asked += 1
        if self.asked == 3:
            raise HarnessFault("no answer from the drive", code="native_step_uncertain")
        return super().step(action)


def test_row_21_an_uncertain_step_ends_the_attempt_even_under_feedback() -> None:
    world = _Uncertain(body="own", profile="state")
    played = play(lambda seen: ActionChunk(_rows(5)), world=world, replan_interval=5, feedback=True, max_calls=9)
    fault = played.attempt.fault
    assert fault is not None and fault.code == "native_step_uncertain" and DEFAULT_STATUS[fault.code] == "ERROR"
    assert world.asked == 3 and len(played.seen) == 1
    assert (played.acks[0].executed, played.acks[0].next) == (2, "episode_end")


def test_row_24_a_stop_awards_nothing() -> None:
    played = play(lambda seen: Stop("done, success"))
    trace = played.attempt.recorder.trace()
    assert played.attempt.termination == "policy_stop" and trace is not None
    assert not climb(trace, SUITE.chain).success_final


def test_row_47_usage_that_nobody_reports_is_null_and_never_nought() -> None:
    plain = play(lambda seen: ActionChunk([STILL]) if seen.call_index < 2 else Stop())
    assert plain.attempt.usage() == (None, "not_metered")
    metered = play(
        lambda seen: PolicyDecision(ActionChunk([STILL]) if seen.call_index < 2 else Stop(), Usage(1, 10, None))
    )
    assert metered.attempt.usage() == (
        {"requests": 3, "input_tokens": 30, "output_tokens": None, "cost": None}, None,
    )  # fmt: skip


def test_the_time_of_all_calls_together_can_be_limited() -> None:
    from time import sleep

    def act(seen: Any) -> Any:
        sleep(0.02)
        return ActionChunk([STILL])

    played = play(act, policy_time_limit_s=0.05)
    assert played.attempt.fault is not None and played.attempt.fault.code == "policy_time_exhausted"
    assert 2 <= played.attempt.recorder.steps <= 4


def test_what_a_policy_asks_for_beyond_pictures_and_numbers_is_sent() -> None:
    played = play(lambda seen: ActionChunk([STILL]) if seen.call_index < 5 else Stop(), profile="history")
    last = played.seen[-1]
    assert last.meta == {
        "step_index": 5, "sim_time_s": 0.25, "control_hz": 20.0, "remaining_steps": 55, "remaining_calls": None,
    }  # fmt: skip
    assert last.history is not None
    looks = last.history.images["front"]
    assert len(looks) == 2 and np.array_equal(looks[1], played.seen[-2].images["front"])
    assert [row is None for row in played.seen[1].history.actions] == [True, True, False]  # type: ignore[union-attr]
    assert played.seen[0].history.images["front"] == (None, None)  # type: ignore[union-attr]
