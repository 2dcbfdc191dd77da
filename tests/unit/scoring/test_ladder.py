from __future__ import annotations

import numpy as np
import pytest
from block_films import PICK_PLACE, Film, at_most, success_film
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.errors import EvidenceError
from trialplate.record import Trace
from trialplate.scoring.ladder import Ladder, climb
from trialplate.spec.stages import Condition, StageChain, StageSpec


def ladder(film: Film) -> Ladder:
    return climb(film.trace(), PICK_PLACE)


def steps(result: Ladder) -> dict[str, int | None]:
    return {stage.name: stage.step for stage in result.stages}


def test_a_fair_pick_and_place_passes_with_the_step_of_every_stage() -> None:
    result = ladder(success_film())
    assert result.success_final and result.success_once and result.first_failed_stage is None
    assert steps(result) == {"reached": 3, "grasped": 5, "lifted": 7, "transported": 12, "released": 20, "stable": 30}
    assert result.notes == () and result.start_invalid is None


def test_a_block_pushed_into_the_goal_without_grasp_fails_at_grasped() -> None:
    result = ladder(Film().start().step(5, finger=0.02).step(20, offset=0.01))
    assert result.first_failed_stage == "grasped" and not result.success_once


def test_a_block_dropped_after_the_lift_outside_the_goal_fails_at_transported() -> None:
    result = ladder(Film().start().grasp().step(5, lift=0.1, height=0.12).let_go().step(20, lift=0.0, height=0.02))
    assert result.first_failed_stage == "transported"
    assert result.notes == ("step 12: the object was let go before 'transported'; lost: grasped, lifted",)


def test_a_block_dropped_outside_that_is_carried_in_by_a_disturbance_still_fails_at_transported() -> None:
    film = Film().start().grasp().step(5, lift=0.1, height=0.12).let_go().step(5, lift=0.0, height=0.02)
    assert ladder(film.step(30, offset=0.0)).first_failed_stage == "transported"


def test_a_block_thrown_over_the_goal_fails_at_released() -> None:
    film = Film().start().grasp().step(5, lift=0.1, height=0.12).step(2, offset=0.04, speed=1.5).let_go()
    assert ladder(film.step(20, offset=0.0, height=0.02, speed=0.0)).first_failed_stage == "released"


def test_a_block_let_go_high_above_the_goal_fails_at_released() -> None:
    film = Film().start().grasp().step(5, lift=0.1, height=0.12).step(2, offset=0.01, speed=0.0).let_go()
    assert ladder(film.step(20, height=0.02)).first_failed_stage == "released"


def test_a_block_held_in_the_goal_to_the_end_fails_at_released() -> None:
    result = ladder(Film().start().grasp().carry_to_goal().step(30))
    assert result.first_failed_stage == "released" and steps(result)["transported"] == 12


def test_an_attachment_that_breaks_without_an_opening_command_is_no_release() -> None:
    result = ladder(Film().start().grasp().carry_to_goal().step(20, attached=0.0, command=1.0))
    assert result.first_failed_stage == "released"
    assert "without an opening command" in result.notes[0]


def test_a_block_carried_in_by_a_disturbance_fails_at_reached() -> None:
    assert ladder(Film().start().step(30, offset=0.0)).first_failed_stage == "reached"


def test_a_block_that_rolls_out_within_ten_steps_fails_at_stable_even_when_it_rolls_back() -> None:
    film = Film().start().grasp().carry_to_goal().let_go().step(8).step(3, offset=0.06).step(30, offset=0.01)
    result = ladder(film)
    assert result.first_failed_stage == "stable" and not result.success_once
    assert "left the release region" in result.notes[0]


def test_a_block_that_moves_inside_the_goal_must_rest_ten_steps_again() -> None:
    film = Film().start().grasp().carry_to_goal().let_go().step(9).step(1, speed=0.03).step(9, speed=0.0)
    assert ladder(film).first_failed_stage == "stable"
    assert ladder(film.step(1)).success_final


def test_nine_steps_of_rest_fail_and_ten_pass() -> None:
    film = Film().start().grasp().carry_to_goal().let_go().step(9)
    assert not ladder(film).success_once
    assert ladder(film.step(1)).success_final


def test_a_success_that_is_undone_and_pushed_back_counts_once_but_not_at_the_end() -> None:
    film = success_film().step(3, command=1.0, attached=1.0).step(5, lift=0.1, height=0.12, offset=0.2)
    film = film.let_go().step(5, lift=0.0, height=0.02).step(20, offset=0.01)
    result = ladder(film)
    assert result.success_once and not result.success_final
    assert result.first_failed_stage == "stable"
    assert [stage.passed for stage in result.stages] == [True] * 5 + [False]


def test_a_settled_block_pushed_out_and_in_again_is_no_success_at_the_end() -> None:
    result = ladder(success_film().step(3, offset=0.08).step(30, offset=0.01))
    assert result.success_once and not result.success_final


def test_a_drop_followed_by_a_fair_second_carry_passes() -> None:
    film = Film().start().grasp().step(5, lift=0.1, height=0.12).let_go().step(3, lift=0.0, height=0.02)
    result = ladder(film.grasp().carry_to_goal().let_go().step(12))
    assert result.success_final and len(result.notes) == 1
    assert steps(result)["grasped"] == 18


def test_a_drop_in_the_goal_retaken_without_a_lift_and_let_go_earns_nothing() -> None:
    film = Film().start().grasp().carry_to_goal().let_go().step(2).step(2, command=1.0, attached=1.0).let_go()
    result = ladder(film.step(20))
    assert not result.success_final and not result.success_once
    assert "taken hold of again" in result.notes[0]


def test_lifting_before_the_grasp_earns_no_lift() -> None:
    film = Film().start().step(5, lift=0.2).step(2, lift=0.0).grasp().step(10)
    assert ladder(film).first_failed_stage == "lifted"


def test_a_block_in_the_goal_at_reset_is_an_invalid_start() -> None:
    result = climb(Film(offset=0.01).step(5).trace(), PICK_PLACE)
    assert result.start_invalid is not None and "goal_offset_m le 0.05 m" in result.start_invalid


def test_a_block_attached_at_reset_is_an_invalid_start() -> None:
    result = climb(Film(attached=1.0).step(5).trace(), PICK_PLACE)
    assert result.start_invalid == "the object is attached before the first action"


def test_a_chain_that_ends_in_a_held_stage_needs_the_hold_at_the_end() -> None:
    chain = StageChain(attached="attached", opening=PICK_PLACE.opening, stages=PICK_PLACE.stages[:3])
    film = Film().start().grasp().step(5, lift=0.1)
    assert climb(film.trace(), chain).success_final
    dropped = climb(film.let_go().trace(), chain)
    assert dropped.success_once and not dropped.success_final and dropped.first_failed_stage == "lifted"


def test_a_chain_without_attachment_keeps_early_stages_and_needs_the_last_at_the_end() -> None:
    chain = StageChain(
        stages=(
            StageSpec(name="near", meaning="m", when=(at_most("finger_object_distance_m", 0.04, "m"),)),
            StageSpec(name="in", meaning="m", when=(at_most("goal_offset_m", 0.05, "m"),), hold_steps=2),
        )
    )
    film = Film().start().step(1, finger=0.0).step(3, finger=0.5, offset=0.0)
    assert climb(film.trace(), chain).success_final
    assert not climb(film.step(1, offset=0.3).trace(), chain).success_final


def test_a_missing_column_is_refused_by_name() -> None:
    trace = success_film().trace()
    measured = {name: rows for name, rows in trace.measured.items() if name != "goal_offset_m"}
    with pytest.raises(EvidenceError, match="no column 'goal_offset_m'"):
        climb(_with(trace, measured), PICK_PLACE)


@pytest.mark.parametrize(("value", "message"), [(np.nan, "row 4: nan"), (np.inf, "row 4: inf")])
def test_a_measurement_that_is_not_finite_is_refused(value: float, message: str) -> None:
    trace = success_film().trace()
    trace.measured["goal_offset_m"][4, 0] = value
    with pytest.raises(EvidenceError, match=message):
        climb(trace, PICK_PLACE)


def test_an_attachment_between_zero_and_one_is_refused() -> None:
    trace = success_film().trace()
    trace.measured["attached"][6, 0] = 0.5
    with pytest.raises(EvidenceError, match=r"row 6: an attachment is 0 or 1, got 0\.5"):
        climb(trace, PICK_PLACE)


def test_a_column_that_is_one_row_short_is_refused() -> None:
    trace = success_film().trace()
    measured = dict(trace.measured) | {"goal_offset_m": trace.measured["goal_offset_m"][:-1]}
    with pytest.raises(EvidenceError, match=r"expected 36 rows and an element 0, got shape \(35, 1\)"):
        climb(_with(trace, measured), PICK_PLACE)


def _with(trace: Trace, measured: dict[str, np.ndarray]) -> Trace:
    return Trace(trace.action, measured, trace.state_sha256, trace.step_wall_us, trace.calls)


states = st.fixed_dictionaries(
    {
        "finger": st.sampled_from([0.0, 0.1]),
        "attached": st.sampled_from([0.0, 1.0]),
        "lift": st.sampled_from([0.0, 0.1]),
        "offset": st.sampled_from([0.0, 0.2]),
        "height": st.sampled_from([0.02, 0.2]),
        "speed": st.sampled_from([0.0, 1.0]),
        "command": st.sampled_from([-1.0, 1.0]),
    }
)
films = st.lists(st.tuples(states, st.integers(1, 14)), min_size=1, max_size=14)


def _film(parts: list[tuple[dict[str, float], int]], **fixed: float) -> Film:
    film = Film().start()
    for state, count in parts:
        film.step(count, **(state | fixed))
    return film


@given(films)
@settings(max_examples=200, deadline=None)
def test_no_recording_without_an_attachment_passes_anything_after_reached(parts: list) -> None:  # type: ignore[type-arg]
    result = ladder(_film(parts, attached=0.0))
    assert not result.success_once
    assert [stage.passed for stage in result.stages][1:] == [False] * 5


@given(films)
@settings(max_examples=200, deadline=None)
def test_no_recording_without_an_opening_command_passes(parts: list) -> None:  # type: ignore[type-arg]
    assert not ladder(_film(parts, command=1.0)).success_once


@given(films)
@settings(max_examples=300, deadline=None)
def test_stages_are_a_prefix_with_rising_steps_and_agree_with_the_verdict(parts: list) -> None:  # type: ignore[type-arg]
    result = ladder(_film(parts))
    flags = [stage.passed for stage in result.stages]
    assert flags == sorted(flags, reverse=True)
    passed = [stage.step for stage in result.stages if stage.passed]
    assert passed == sorted(passed) and None not in passed
    assert all(stage.step is None for stage in result.stages if not stage.passed)
    assert result.success_final == all(flags) == (result.first_failed_stage is None)
    assert result.success_once or not result.success_final


@given(films, st.integers(0, 40))
@settings(max_examples=100, deadline=None)
def test_a_fair_carry_after_any_history_outside_the_goal_passes(parts: list, wait: int) -> None:  # type: ignore[type-arg]
    film = _film(parts, offset=0.2).step(1 + wait, attached=0.0, finger=0.3, lift=0.0, height=0.02, speed=0.0)
    assert ladder(film.grasp().carry_to_goal().let_go().step(12)).success_final


def test_a_forfeited_ladder_loses_its_last_stage_and_says_why() -> None:
    lost = ladder(success_film()).forfeited("the attempt ended by the arm's own fault")
    assert not lost.success_final and lost.success_once and lost.first_failed_stage == "stable"
    assert lost.notes == ("the attempt ended by the arm's own fault",)
    assert Ladder((), False, False, "x").forfeited("y") == Ladder((), False, False, "x")


def test_strict_and_loose_bounds_differ_at_the_limit() -> None:
    film = Film(offset=0.05).step(2)
    for op, passes in (("le", True), ("lt", False), ("ge", True), ("gt", False)):
        stage = StageSpec(
            name="s", meaning="m", when=(Condition(column="goal_offset_m", op=op, limit=0.05, unit="m"),)
        )
        assert climb(film.trace(), StageChain(stages=(stage,))).success_final is passes
