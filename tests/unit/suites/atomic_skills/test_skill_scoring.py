"""Acceptance rows of skills that need no simulator: stages, reasons and trust, on recordings made by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from made_skills import SETTINGS, TABLE, TWO_ARMS, Made, failed_at, good, quaternion, row_of, scenario_of, scored

from trialplate.errors import EvidenceError
from trialplate.record import Event, Status
from trialplate.suites.atomic_skills.climbing import Climb
from trialplate.suites.atomic_skills.ladders import SKILLS
from trialplate.suites.atomic_skills.scoring import outcome_line, score
from trialplate.suites.atomic_skills.stages import GOALS, READERS

FAIL, ERROR, PASS = Status.FAIL, Status.ERROR, Status.PASS


def stage(made: Made, name: str) -> tuple[bool, bool | None]:
    """Return whether a stage was reached and passed."""
    facts = made.outcome().skill
    assert facts is not None
    found = next(item for item in facts.stages if item.stage == name)
    return found.reached, found.passed


@pytest.mark.parametrize("skill", SKILLS)
def test_row_01_a_recording_in_which_everything_is_done_passes_every_stage(skill: str) -> None:
    outcome = good(skill).outcome()
    assert (outcome.status, outcome.reason) == (PASS, "chain_complete")
    assert [item.name for item in outcome.stages] == list(SKILLS[skill].stages) == list(READERS[skill])
    assert all(item.passed for item in outcome.stages)
    assert outcome.skill is not None and outcome.skill.trusted is True


@pytest.mark.parametrize("skill", SKILLS)
def test_a_robot_that_holds_still_passes_no_skill(skill: str) -> None:
    outcome = Made(skill).outcome()
    assert outcome.status is FAIL
    assert not any(item.passed for item in outcome.stages[-1:])


def lifted(gain_m: float) -> Made:
    made = good("pick_up")
    return made.put("obj_pose", gain_m, since=made.end("lift"), at=2).put(
        "ee_pose", gain_m, since=made.end("lift"), at=2
    )


def test_row_02_a_lift_of_a_hair_too_little_fails_and_held_is_not_reached() -> None:
    made = lifted(0.0399)
    assert failed_at(made.outcome()) == (FAIL, "lifted", "task_goal_miss")
    assert stage(made, "grasped") == (True, True)
    assert stage(made, "held") == (False, None)


@pytest.mark.parametrize("start_m", [0.0, 0.42, 0.8])
def test_row_03_a_lift_of_exactly_four_centimetres_passes(start_m: float) -> None:
    made = lifted(0.04)
    made.columns["obj_pose"][:, 2] += start_m
    assert made.outcome().status is PASS


def test_row_04_a_belief_is_recorded_and_does_not_grasp() -> None:
    made = Made("pick_up")
    made.press(5.0, since=made.end("close"))
    made.belief = {"grasped": True}
    outcome = made.outcome()
    assert failed_at(outcome) == (FAIL, "grasped", "object_not_grasped")
    assert outcome.skill is not None
    assert outcome.skill.believed == {"grasped": True}
    assert outcome.skill.measured == {"grasped": False}


def test_row_05_one_finger_is_no_grasp() -> None:
    made = good("pick_up").press(0.0, since=-1).press(5.0, since=7, pads=1)
    made.place([0.005, 0.0, 0.1], since=made.end("lift"))
    assert failed_at(made.outcome()) == (FAIL, "grasped", "object_not_grasped")


def test_row_06_an_object_that_fell_is_dropped_wherever_it_rolls() -> None:
    made = good("pick_up")
    made.put("min_obj_z_m", -0.151, since=made.end("close") + 1, until=made.end("close") + 1)
    assert failed_at(made.outcome()) == (FAIL, "lifted", "object_dropped")
    early = good("place").put("min_obj_z_m", -0.151, since=0, until=0)
    assert failed_at(early.outcome()) == (FAIL, "released", "object_dropped")


def test_row_07_a_fall_of_fifteen_centimetres_is_no_drop() -> None:
    for fall_m in (0.149, 0.15):
        assert good("pick_up").put("min_obj_z_m", -fall_m, since=3, until=5).outcome().status is PASS


def test_the_drop_rule_is_not_asked_where_no_object_is_held() -> None:
    assert good("push_object").put("min_obj_z_m", -0.3, since=3).outcome().status is PASS


def test_a_drop_after_the_last_instant_changes_nothing() -> None:
    made = good("axis_align")
    assert made.put("min_obj_z_m", -0.3, since=made.end("manipulate") + 1).outcome().status is PASS


@pytest.mark.parametrize(
    ("segments", "detail"),
    [
        ({"open": None}, "missing_segment"),
        ({"retract": (20, 25)}, "segment_out_of_range"),
        ({"release": (14, 20)}, "segment_order"),
        ({"release": (18, 18)}, "segment_order"),
    ],
)
def test_row_08_row_10_a_recorded_plan_with_broken_segments_is_an_error_and_no_failure(
    segments: dict[str, tuple[int, int] | None], detail: str
) -> None:
    made = good("open_door")
    for name, part in segments.items():
        if part is None:
            del made.segments[name]
        else:
            made.segments[name] = part
    outcome = made.outcome()
    assert failed_at(outcome) == (ERROR, None, "invalid_case")
    assert outcome.stages == ()
    assert outcome.skill is not None and outcome.skill.failure_detail == detail


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("planner_reported_failure", "non_finite_trajectory"),
        ("planner_reported_failure", "empty_trajectory"),
        ("planner_reported_failure", None),
        ("planner_exception", None),
        ("timeout", None),
    ],
)
def test_row_11_row_17_row_18_without_a_plan_the_first_stage_fails_and_nothing_is_trusted(
    code: str, detail: str | None
) -> None:
    events = () if detail is None else (Event(0, "fault_detail", detail),)
    made = Made("open_door")
    outcome = scored(
        made.document, None, termination="fault", fault_code=code, fault_message="no plan", events=events
    )
    assert failed_at(outcome) == (FAIL, "grasped", code)
    assert [item.passed for item in outcome.stages] == [False, False, False]
    facts = outcome.skill
    assert facts is not None
    assert (facts.failure_detail, facts.trusted, facts.motion_valid) == (detail, None, None)
    assert (facts.max_tracking_error_rad, facts.max_tracking_error_rad_reason) == (None, "not_replayed")


def test_a_protocol_may_count_a_planner_that_raised_as_an_error() -> None:
    made = Made("pick_up")
    row = row_of(made.document, None, termination="fault", fault_code="planner_exception")
    table = {**TABLE, "planner_exception": "ERROR"}
    outcome = score(row, None, scenario=made.scenario(), settings=SETTINGS, fault_table=table)
    assert failed_at(outcome) == (ERROR, None, "planner_exception")


def test_no_table_makes_an_invalid_case_a_failure() -> None:
    made = Made("pick_up")
    row = row_of(made.document, None, termination="fault", fault_code="invalid_case")
    with pytest.raises(EvidenceError, match="invalid_case"):
        score(row, None, scenario=made.scenario(), settings=SETTINGS, fault_table={**TABLE, "invalid_case": "FAIL"})


def test_row_14_a_target_beyond_the_limit_is_replayed_and_not_trusted() -> None:
    made = good("pick_up")
    made.action[10, 0] = 2.01
    made.columns["q"][11, 0] = 2.0
    facts = made.outcome().skill
    assert facts is not None
    assert (made.outcome().status, facts.motion_valid, facts.trusted) == (PASS, False, False)


def test_a_target_within_a_thousandth_of_the_limit_is_valid() -> None:
    made = good("pick_up")
    made.action[10, 0] = made.columns["q"][11, 0] = 2.001
    facts = made.outcome().skill
    assert facts is not None and (facts.motion_valid, facts.trusted) == (True, True)


@pytest.mark.parametrize(("error_rad", "trusted"), [(0.10, True), (0.1001, False)])
def test_row_15_a_tracking_error_of_a_tenth_is_trusted_and_a_hair_more_is_not(
    error_rad: float, trusted: bool
) -> None:
    made = good("pick_up")
    made.action[5, 2] = error_rad
    outcome = made.outcome()
    facts = outcome.skill
    assert facts is not None
    assert (outcome.status, facts.trusted, facts.motion_valid) == (PASS, trusted, True)
    assert facts.max_tracking_error_rad == pytest.approx(error_rad)


def test_a_gripper_that_lags_behind_is_no_tracking_error() -> None:
    made = good("pick_up")
    made.action[5, 6] = 1.0
    facts = made.outcome().skill
    assert facts is not None and facts.max_tracking_error_rad == 0.0


def test_row_16_an_arm_that_hits_the_table_passes_and_is_not_trusted() -> None:
    made = good("pick_up").put("unintended_n", 5.0, since=4, until=4)
    made.events = (Event(5, "unintended_contact", "wrist_3 and table: 5.00 N"),)
    outcome = made.outcome()
    assert outcome.status is PASS and outcome.skill is not None
    assert (outcome.skill.trusted, outcome.skill.unintended_n) == (False, 5.0)
    assert outcome.skill.collisions == ("wrist_3 and table: 5.00 N",)
    assert "5.00 N" in str(outcome.skill.motion_detail)


def test_row_19_an_unsupported_case_is_excluded() -> None:
    made = Made("hand_over")
    outcome = scored(made.document, None, termination="fault", fault_code="unsupported_capability")
    assert failed_at(outcome) == (Status.EXCLUDED, None, "unsupported_capability")


@pytest.mark.parametrize("detail", ["replay_crash", "replay_diverged"])
def test_row_22_a_simulator_that_breaks_is_an_error(detail: str) -> None:
    made = Made("pick_up")
    events = (Event(3, "fault_detail", detail),)
    outcome = scored(made.document, None, termination="fault", fault_code="invalid_case", events=events)
    assert outcome.status is ERROR
    assert outcome.skill is not None and outcome.skill.failure_detail == detail


def test_row_23_an_interrupted_trial_is_an_error() -> None:
    outcome = scored(Made("pick_up").document, None, termination="interrupted")
    assert failed_at(outcome) == (ERROR, None, "invalid_case")
    assert outcome.skill is not None and outcome.skill.failure_detail == "interrupted"


def test_row_24_hands_that_touch_one_after_the_other_transfer_nothing() -> None:
    made = good("hand_over")
    made.press(0.0, since=made.segments["receive_close"][0])
    made.press(5.0, since=made.segments["receive_close"][0], until=made.segments["receive_close"][0] + 1)
    made.press(0.0, since=-1, until=made.segments["receive_close"][0] + 1, arm=1)
    assert failed_at(made.outcome()) == (FAIL, "transferred", "object_not_grasped")


def test_row_24_one_common_sample_is_enough() -> None:
    made = good("hand_over")
    at = made.segments["receive_close"][0]
    made.press(0.0, since=-1, until=at - 1, arm=1).press(5.0, since=at, arm=1)
    made.press(0.0, since=at + 1)
    outcome = made.outcome()
    assert outcome.status is PASS
    assert outcome.skill is not None and outcome.skill.stages[1].sample == at


def test_row_25_a_source_that_opens_before_the_other_holds_has_dropped_it() -> None:
    made = good("hand_over")
    made.press(0.0, since=made.segments["handover_release"][0], arm=1)
    made.press(5.0, since=made.end("receive_close"), until=made.end("receive_close"), arm=1)
    assert failed_at(made.outcome()) == (FAIL, "handed_over", "object_dropped")


def test_row_25_a_source_that_stays_closed_has_released_nothing() -> None:
    made = good("hand_over")
    made.command(6, 0.0, since=0)
    assert failed_at(made.outcome()) == (FAIL, "handed_over", "release_failure")


@pytest.mark.parametrize(
    ("place", "passes"),
    [([0.0, 0.529, 0.2], True), ([0.0, 0.531, 0.2], False), ([0.01, 0.5, 0.3], False), ([0.0, 0.53, 0.2], True)],
)
def test_row_26_a_hand_over_ends_within_three_centimetres_in_space(place: list[float], passes: bool) -> None:
    made = good("hand_over")
    made.place(place, since=made.end("receive_release") + 1)
    expected = (PASS, None, "chain_complete") if passes else (FAIL, "placed", "task_goal_miss")
    assert failed_at(made.outcome()) == expected


def test_row_27_an_object_above_its_resting_height_is_not_placed() -> None:
    made = good("place")
    made.place([0.304, 0.0, 0.03], since=made.end("approach"))
    assert failed_at(made.outcome()) == (FAIL, "placed", "task_goal_miss")


def test_row_28_the_hinge_is_read_at_the_end_of_open_and_its_settled_angle_is_only_told() -> None:
    made = good("open_door")
    made.put("asset_joint", 0.979, since=made.end("open"), until=made.end("open"))
    made.put("asset_joint", 0.667, since=made.end("open") + 1)
    outcome = made.outcome()
    assert outcome.status is PASS and outcome.skill is not None
    assert outcome.skill.stages[1].value == pytest.approx(0.0682, abs=5e-5)
    assert outcome.skill.diagnostics["settled_hinge_rad"] == pytest.approx(0.667)


def test_row_29_half_a_stroke_is_no_press() -> None:
    made = good("press")
    made.columns["asset_joint"][made.columns["asset_joint"] > 0] = 0.010
    outcome = made.outcome()
    assert failed_at(outcome) == (FAIL, "pressed", "task_goal_miss")
    assert outcome.skill is not None and outcome.skill.stages[1].value == 0.5


def test_row_30_a_button_that_rebounds_was_pressed() -> None:
    made = good("press")
    made.put("asset_joint", 0.020, since=made.end("press") - 1, until=made.end("press") - 1)
    assert made.columns["asset_joint"][-1, 0] == 0.0
    assert made.outcome().status is PASS


def test_a_press_before_its_segment_is_no_press() -> None:
    made = good("press")
    made.put("asset_joint", 0.0, since=made.segments["press"][0])
    made.put("asset_joint", 0.02, since=made.segments["press"][0] - 1, until=made.segments["press"][0] - 1)
    assert failed_at(made.outcome()) == (FAIL, "contacted", "object_not_grasped")


def test_row_31_pouring_the_wrong_way_fails() -> None:
    made = Made("pour")
    made.place([0.0, 0.0, 0.0, *quaternion([0.0, 1.0, 0.0], math.radians(-45))], since=2)
    outcome = made.outcome()
    assert failed_at(outcome) == (FAIL, "poured", "task_goal_miss")


def test_row_31_a_peak_after_the_segment_is_not_the_pours() -> None:
    made = Made("pour")
    made.place([0.0, 0.0, 0.0, *quaternion([0.0, 1.0, 0.0], math.radians(45))], since=made.end("pour") + 1)
    assert made.outcome().status is FAIL


def test_a_pour_that_overshoots_and_comes_back_fails_on_its_peak() -> None:
    made = good("pour")
    made.place([0.0, 0.0, 0.0, *quaternion([0.0, 1.0, 0.0], math.radians(51))], since=1, until=1)
    assert made.outcome().status is FAIL


def test_a_pour_is_measured_about_the_objects_own_axis_wherever_it_points() -> None:
    made = Made("pour")
    turned = quaternion([0.0, 0.0, 1.0], math.pi / 2)
    made.columns["obj_pose"][:, 3:7] = turned
    poured = quaternion([1.0, 0.0, 0.0], -math.radians(45))  # its own y axis is the world's -x after that turn
    w, x, y, z = poured
    tw, tx, ty, tz = turned
    both = [w * tw - x * tx - y * ty - z * tz, w * tx + x * tw + y * tz - z * ty,
            w * ty - x * tz + y * tw + z * tx, w * tz + x * ty - y * tx + z * tw]  # fmt: skip
    made.place([0.0, 0.0, 0.0, *both], since=2)
    assert made.outcome().status is PASS


def test_row_32_a_twist_is_the_hands_and_the_knob_is_only_told() -> None:
    made = good("twist")
    made.put("asset_joint", 2.4, since=made.end("twist"))
    outcome = made.outcome()
    assert outcome.status is PASS and outcome.skill is not None
    assert outcome.skill.diagnostics["knob_error_rad"] == pytest.approx(1.6146)


def test_a_twist_of_a_knob_that_stays_was_no_grasp() -> None:
    made = good("twist").put("asset_joint", 0.0, since=-1)
    assert failed_at(made.outcome()) == (FAIL, "grasped", "object_not_grasped")


@pytest.mark.parametrize(("error_deg", "passes"), [(0.2, True), (0.3, True), (0.301, False)])
def test_row_33_the_largest_joint_error_decides_and_not_their_sum(error_deg: float, passes: bool) -> None:
    made = good("move_joints")
    made.columns["q"][:, :6] += math.radians(error_deg)
    assert (made.outcome().status is PASS) is passes


def test_row_34_the_rotation_of_the_tool_counts() -> None:
    made = good("move_end_effector")
    made.put("ee_pose", 0.402, since=2, at=0)
    assert made.outcome().status is PASS
    for at, number in enumerate(quaternion([0.0, 0.0, 1.0], math.radians(0.4)), start=3):
        made.put("ee_pose", number, since=2, at=at)
    assert failed_at(made.outcome()) == (FAIL, "reached", "task_goal_miss")


@pytest.mark.parametrize("skill", sorted(set(GOALS) - {"press"}))  # no travel at all is never 0.80 of a stroke
def test_row_35_a_start_that_satisfies_the_goal_is_an_invalid_case(skill: str) -> None:
    made = good(skill)
    command = made.document["command"]
    trivial = {
        "move_joints": {"q_target": [0.0] * 6}, "move_end_effector": {"pose": [0.0, 0, 0, 1.0, 0, 0, 0]},
        "axis_align": {"world_axis": [0.0, 0.0, 1.0]}, "pour": {"angle_rad": 0.01}, "slide": {"travel_m": 0.01},
        "open_door": {"angle_rad": 0.01}, "twist": {"angle_rad": 0.01}, "hand_over": {"target_m": [0.0, 0.0, 0.03]},
        "coordinated_placement": {"relative_pose": [0.0, 0, 0, 1.0, 0, 0, 0]},
    }  # fmt: skip
    made.document["command"] = {**command, **trivial.get(skill, {"pose": [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]})}
    outcome = scored(made.document, made.trace())
    assert failed_at(outcome) == (ERROR, None, "invalid_case")
    assert outcome.skill is not None and outcome.skill.failure_detail == "vacuous_at_start"


def test_a_set_up_that_lost_its_object_is_an_invalid_case() -> None:
    made = good("place")
    made.columns["pad_force_n"][5, 1] = 0.05
    outcome = made.outcome()
    assert outcome.status is ERROR
    assert outcome.skill is not None and outcome.skill.failure_detail == "setup_failed"


def test_a_set_up_of_two_hands_needs_both() -> None:
    made = good("coordinated_placement")
    made.columns["pad_force_n"][5, 3] = 0.0
    assert made.outcome().status is ERROR


def test_a_collision_at_the_start_is_an_invalid_case() -> None:
    outcome = good("pick_up").put("unintended_n", 1.5, since=-1, until=-1).outcome()
    assert outcome.skill is not None and outcome.skill.failure_detail == "initial_contact"


def test_row_41_a_stage_out_of_order_or_of_another_skill_raises() -> None:
    with pytest.raises(EvidenceError, match=r"'lifted'.*'grasped' is next"):
        Climb(("grasped", "lifted")).passed("lifted", sample=0, parts=())
    with pytest.raises(EvidenceError, match="did you mean 'grasped'"):
        Climb(("grasped", "lifted")).passed("graped", sample=0, parts=())
    ended = Climb(("grasped", "lifted"))
    ended.failed("grasped", reason="object_not_grasped", sample=0)
    with pytest.raises(EvidenceError, match="after the ladder ended"):
        ended.passed("lifted", sample=0, parts=())


@pytest.mark.parametrize("reason", ["controller_tracking_failure", "collision", "invalid_case", "interrupted"])
def test_row_41_a_reason_that_is_not_in_the_list_raises(reason: str) -> None:
    with pytest.raises(EvidenceError, match=reason):
        Climb(("grasped", "lifted")).failed("grasped", reason=reason, sample=0)


def test_row_41_a_planner_cannot_have_failed_after_a_stage_was_passed() -> None:
    climbing = Climb(("grasped", "lifted"))
    climbing.passed("grasped", sample=0, parts=())
    with pytest.raises(EvidenceError, match="timeout"):
        climbing.failed("lifted", reason="timeout", sample=None)


def test_row_42_scoring_the_same_recording_twice_gives_equal_bytes() -> None:
    for skill in SKILLS:
        first, second = (outcome_line(good(skill).outcome()) for _ in range(2))
        assert first == second


@pytest.mark.parametrize("lost", ["waypoint", "settle"])
def test_a_recording_that_lacks_rows_is_incomplete(lost: str) -> None:
    made = good("pick_up")
    trace = made.trace()
    keep = np.ones(made.rows, dtype=bool)
    keep[5 if lost == "waypoint" else -1] = False
    columns = {name: values[keep] for name, values in made.columns.items()}
    digests = trace.state_sha256[: made.rows - 1]
    short = replace(
        trace, action=trace.action[:-1], measured=columns, state_sha256=digests, step_wall_us=trace.step_wall_us[:-1]
    )
    outcome = scored(made.document, short)
    assert outcome.status is ERROR
    assert outcome.skill is not None and outcome.skill.failure_detail == "trace_incomplete"


# -- what is left of the table of skills -----------------------------------------------------------------------


def test_a_held_object_that_shifted_in_the_hand_is_not_held() -> None:
    made = good("pick_up")
    made.put("obj_pose", 0.011, since=made.end("lift") + 1, at=0)
    assert failed_at(made.outcome()) == (FAIL, "held", "object_dropped")


def test_an_object_that_moves_with_its_hand_has_not_drifted() -> None:
    made = good("pick_up")
    for name in ("obj_pose", "ee_pose"):
        made.put(name, 0.2, since=made.end("lift") + 1, at=0)
    assert made.outcome().status is PASS


def test_an_object_that_rolls_away_after_it_was_placed_is_not_stable() -> None:
    made = good("place")
    made.place([0.32], since=made.end("retract") + 1)
    assert failed_at(made.outcome()) == (FAIL, "stable", "task_goal_miss")


@pytest.mark.parametrize("skill", ["slide", "twist"])
def test_a_hand_that_stays_closed_fails_the_last_stage(skill: str) -> None:
    made = good(skill).command(6, 0.0, since=0)
    assert failed_at(made.outcome()) == (FAIL, "released", "release_failure")


def test_a_hand_that_opens_and_still_presses_has_not_released() -> None:
    made = good("open_door").press(5.0, since=8)
    assert failed_at(made.outcome()) == (FAIL, "released", "release_failure")


def test_fingers_that_are_stuck_nearer_to_closed_have_not_released() -> None:
    made = good("open_door")
    made.columns["q"][:, 6] *= 0.49
    assert failed_at(made.outcome()) == (FAIL, "released", "release_failure")
    made.columns["q"][:, 6] *= 0.51 / 0.49
    assert made.outcome().status is PASS


def test_a_push_that_tips_the_object_over_is_not_on_its_plane() -> None:
    made = good("push_object")
    made.place([0.2, 0.0, 0.0, *quaternion([0.0, 1.0, 0.0], math.radians(6))], since=made.end("push") + 1)
    assert failed_at(made.outcome()) == (FAIL, "on_support_plane", "task_goal_miss")


def test_a_push_may_turn_the_object_and_tells_by_how_much() -> None:
    made = good("push_object")
    made.place([0.2, 0.0, 0.0, *quaternion([0.0, 0.0, 1.0], math.radians(80))], since=made.end("push"))
    outcome = made.outcome()
    assert outcome.status is PASS and outcome.skill is not None
    assert outcome.skill.diagnostics["yaw_error_rad"] == pytest.approx(math.radians(80))


def test_an_object_that_moves_untouched_was_not_pushed() -> None:
    made = good("push_object").put("hand_force_n", 0.0, since=-1)
    assert failed_at(made.outcome()) == (FAIL, "contacted", "object_not_grasped")


def test_a_drawer_that_is_pushed_shut_travels_backwards() -> None:
    push = {"travel_m": -0.18, "direction": "push"}
    made = Made("slide", command=push, segments=["approach", "reach", "close", "push", "open"])
    made.put("asset_joint", 0.18, since=-1).press(5.0, since=made.end("close"))
    made.put("asset_joint", 0.0, since=made.end("push"))
    made.command(6, 1.0, since=made.segments["open"][0]).press(0.0, since=made.segments["open"][0])
    assert made.outcome().status is PASS
    made.put("asset_joint", 0.0, since=-1).put("asset_joint", 0.18, since=made.end("push"))
    assert failed_at(made.outcome()) == (FAIL, "slid", "task_goal_miss")


@pytest.mark.parametrize("skill", ["pick_up", "coordinated_pickment"])
def test_a_thing_that_never_moved_was_not_lifted_by_anybody(skill: str) -> None:
    made = good(skill)
    made.columns["obj_pose"][:] = made.columns["obj_pose"][0]
    assert made.outcome().reason == "object_not_grasped"


def test_a_support_hand_that_lets_go_fails_the_release() -> None:
    made = good("coordinated_placement")
    made.press(0.0, since=made.end("release"), arm=1)
    assert failed_at(made.outcome()) == (FAIL, "released", "release_failure")


def test_two_objects_that_move_together_are_stable() -> None:
    made = good("coordinated_placement")
    made.place([0.3, 0.0, 0.05], since=made.end("release") + 1).place([0.3], since=made.end("release") + 1, thing=1)
    assert made.outcome().status is PASS
    made.place([0.32], since=made.end("release") + 1, thing=1)
    assert failed_at(made.outcome()) == (FAIL, "stable", "task_goal_miss")


def test_both_hands_must_still_touch_what_they_carried() -> None:
    made = good("coordinated_pickment").press(0.0, since=30, arm=1)
    assert failed_at(made.outcome()) == (FAIL, "held", "object_dropped")


def test_an_alignment_upside_down_is_none() -> None:
    made = good("axis_align")
    made.place([0.0, 0.0, 0.05, *quaternion([0.0, 1.0, 0.0], -math.pi / 2)], since=made.end("manipulate"))
    assert failed_at(made.outcome()) == (FAIL, "aligned", "task_goal_miss")


def test_every_skill_has_readers_and_every_goal_a_skill() -> None:
    assert set(READERS) == set(SKILLS) and set(GOALS) < set(SKILLS)
    assert len(SKILLS) == 15
    assert {name for name in SKILLS if len(good(name).document["dof"]) == 14} == set(TWO_ARMS)
    assert set(SKILLS) - set(GOALS) == {"pick_up"}


def test_a_case_of_an_unknown_skill_or_object_is_refused_by_name() -> None:
    made = good("pick_up")
    with pytest.raises(EvidenceError, match="did you mean 'pick_up'"):
        scored({**made.document, "skill": "pickup"}, made.trace())
    with pytest.raises(EvidenceError, match="no object 'cup'"):
        scored({**made.document, "command": {"object": "cup"}}, made.trace())
    with pytest.raises(EvidenceError, match="grasp_seed"):
        score(
            row_of(made.document, None), None, settings=SETTINGS, fault_table=TABLE,
            scenario=scenario_of({**made.document, "grasp_seed": -1}),
        )  # fmt: skip
