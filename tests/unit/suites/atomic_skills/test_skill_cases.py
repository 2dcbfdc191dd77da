"""The frozen cases: counts, digests, how they were made, and what the perturbations change."""

from __future__ import annotations

import copy
import math
from collections import Counter
from typing import Any

import pytest

from trialplate.canonical import binary32
from trialplate.errors import UsageError
from trialplate.spec.skills import case_sha256, skill_case
from trialplate.suites.atomic_skills import SUITE
from trialplate.suites.atomic_skills.casebook.held_out import DOMAINS
from trialplate.suites.atomic_skills.casebook.layout import sealed
from trialplate.suites.atomic_skills.casebook.nominal import nominal_cases as made_again
from trialplate.suites.atomic_skills.casebook.robustness import AXES, robustness_cases
from trialplate.suites.atomic_skills.cases import (
    NOMINAL_PATH,
    adaptability_cases,
    frozen_sets,
    nominal_cases,
    profile_cases,
    scenarios,
    sets_as_made,
    stored_manifest,
)
from trialplate.suites.atomic_skills.expected_scene import expected_scene
from trialplate.suites.atomic_skills.ladders import SKILLS
from trialplate.suites.atomic_skills.planners.screening import screen

COVERAGE = (3, 4, 24, 2, 12, 12, 3, 4, 3, 3, 3, 3, 2, 2, 2)
FULL = (12, 24, 48, 8, 48, 48, 9, 16, 9, 9, 9, 9, 6, 6, 6)


def without_screen(case: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in case.items() if name not in ("screen", "case_sha256")}


@pytest.mark.parametrize(("profile", "sizes"), [("smoke", (1,) * 15), ("coverage", COVERAGE), ("full", FULL)])
def test_a_profile_has_the_cases_of_the_specification(profile: Any, sizes: tuple[int, ...]) -> None:
    counted = Counter(case["skill"] for case in profile_cases(profile))
    assert tuple(counted[skill] for skill in SKILLS) == sizes
    assert len(profile_cases(profile)) == {"smoke": 15, "coverage": 82, "full": 267}[profile]


def test_a_smaller_profile_is_part_of_the_larger_one() -> None:
    smoke, coverage, full = ({case["case_id"] for case in profile_cases(p)} for p in ("smoke", "coverage", "full"))
    assert smoke < coverage < full


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(UsageError, match="coverage"):
        profile_cases("coverge")  # type: ignore[arg-type]


def test_the_manifest_is_what_its_factors_make_again() -> None:
    frozen = {case["case_id"]: without_screen(case) for cases in nominal_cases().values() for case in cases}
    assert frozen == {case["case_id"]: without_screen(case) for cases in made_again().values() for case in cases}


def test_the_manifest_is_stored_in_canonical_form() -> None:
    assert (
        stored_manifest([case for cases in nominal_cases().values() for case in cases]) == NOMINAL_PATH.read_bytes()
    )


def test_every_case_carries_the_digest_of_everything_else_in_it() -> None:
    listed = [scenario.parameters for scenario in scenarios()]
    assert len({case["case_id"] for case in listed}) == len(listed)
    for case in listed[::7]:
        assert case["case_sha256"] == case_sha256(case)
        assert sealed(case) == case


def test_every_case_is_a_skill_case_with_the_segments_of_its_skill() -> None:
    for scenario in scenarios()[::11]:
        case = skill_case(scenario.parameters)
        assert case.segments in SKILLS[case.skill].segments
        assert all(abs(math.fsum(value * value for value in pose[3:]) - 1.0) < 1e-9 for pose in case.poses.values())


def test_nominal_commands_are_those_of_the_specification() -> None:
    heads = {skill: cases[:3] for skill, cases in nominal_cases().items()}
    degrees = {skill: [round(math.degrees(case["command"]["angle_rad"]), 9) for case in heads[skill]] for skill in
               ("open_door", "pour", "twist")}  # fmt: skip
    assert degrees == {"open_door": [30.0, 60.0, 90.0], "pour": [30.0, 45.0, 90.0], "twist": [30.0, 45.0, 90.0]}
    assert [case["command"]["travel_m"] for case in heads["slide"]] == [0.100, 0.180, 0.250]
    assert [case["command"]["travel_m"] for case in heads["press"]] == [0.018, 0.019, 0.020]
    assert {case["command"]["stroke_m"] for case in heads["press"]} == {0.020}


def test_picks_are_three_objects_at_four_places_from_two_sides() -> None:
    heads = nominal_cases()["pick_up"][:24]
    seen = {(case["command"]["object"], tuple(case["poses"][case["command"]["object"]][:2]), case["command"]["grasp"])
            for case in heads}  # fmt: skip
    assert len(seen) == 24
    assert len({place for _, place, _ in seen}) == 4


def test_difficulty_comes_from_the_case_and_every_grade_occurs() -> None:
    assert Counter(case["difficulty"] for case in profile_cases("full")).keys() == {"simple", "medium", "hard"}


def test_every_sampled_case_of_the_manifest_is_attainable_and_says_how() -> None:
    for cases in nominal_cases().values():
        for case in cases:
            if not SKILLS[case["skill"]].samples_grasps:
                assert case["screen"] is None
                continue
            last = case["screen"]["tried"][-1]
            assert case["screen"]["attainable"] is True
            assert last["max_joint_error_rad"] < 0.05


def test_the_screen_finds_again_what_the_manifest_says() -> None:
    case = nominal_cases()["slide"][0]
    found = screen(case)
    assert found is not None
    assert found["attainable"] is case["screen"]["attainable"]
    assert len(found["tried"]) == len(case["screen"]["tried"])


def test_the_screen_tries_eight_grasps_of_what_is_out_of_reach() -> None:
    case = copy.deepcopy(nominal_cases()["pick_up"][0])
    case["poses"]["box"][0] = 1.9
    found = screen(case)
    assert found is not None
    assert found["attainable"] is False
    assert len(found["tried"]) == 8
    assert {one["max_joint_error_rad"] for one in found["tried"]} == {None}


# -- robustness ------------------------------------------------------------------------------------------------


def axes_of(skill: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for case in robustness_cases(nominal_cases()[skill][0]):
        found.setdefault(case["axis"], []).append(case)
    return found


def test_each_axis_applies_to_the_skills_that_the_specification_names() -> None:
    applies = {axis: [skill for skill in SKILLS if axis in axes_of(skill)] for axis in AXES}
    moves, toolless = ("move_joints", "move_end_effector"), ("push_object", "press", "twist")
    assert applies["initial_pose"] == list(SKILLS)
    assert applies["target_pose"] == applies["friction"] == [skill for skill in SKILLS if skill not in moves]
    assert applies["command"] == ["pour", "press", "slide", "open_door", "twist"]
    assert applies["mass"] == [skill for skill, one in SKILLS.items() if one.holds_object]
    assert len(applies["mass"]) == 8
    assert applies["grasp_seed"] == [skill for skill in SKILLS if skill not in (*moves, *toolless)]


def test_an_initial_pose_moves_every_arm_joint_by_at_most_twenty_milliradians_and_no_gripper() -> None:
    nominal = nominal_cases()["hand_over"][0]
    drawn = axes_of("hand_over")["initial_pose"]
    assert len(drawn) == 3
    for case in drawn:
        moved = [new - old for new, old in zip(case["q_start"], nominal["q_start"], strict=True)]
        assert [moved[6], moved[13]] == [0.0, 0.0]
        assert all(0.0 < abs(by) <= 0.02 for column, by in enumerate(moved) if column % 7 != 6)
    assert len({tuple(case["q_start"]) for case in drawn}) == 3


def test_a_shifted_target_takes_its_command_along() -> None:
    nominal = nominal_cases()["place"][0]
    for case, (x_m, y_m) in zip(
        axes_of("place")["target_pose"], ((0.02, 0), (-0.02, 0), (0, 0.02), (0, -0.02)), strict=True
    ):
        begin, end = nominal["poses"]["cube"], case["poses"]["cube"]
        assert [end[0] - begin[0], end[1] - begin[1]] == pytest.approx([x_m, y_m])
        before = math.dist(begin[:2], nominal["command"]["pose"][:2])
        assert math.dist(end[:2], case["command"]["pose"][:2]) == pytest.approx(before)
        assert case["command"]["pose"][2] == nominal["command"]["pose"][2]


def test_a_command_beyond_the_range_of_its_part_is_not_generated() -> None:
    labels = {case["case_id"] for case in robustness_cases(nominal_cases()["press"][2])}
    assert "press.d20-p0.command-x0.9" in labels
    assert "press.d20-p0.command-x1.1" not in labels


def test_friction_is_expected_of_both_partners_and_mass_of_every_object() -> None:
    nominal = nominal_cases()["coordinated_placement"][0]
    plain = expected_scene(nominal)
    cases = axes_of("coordinated_placement")
    for case, factor in zip(cases["friction"], (0.7, 1.3), strict=True):
        found = expected_scene(case)["friction"]
        for name, values in plain["friction"].items():
            assert found[name] == pytest.approx([value * factor for value in values], rel=1e-6)
    for case, factor in zip(cases["mass"], (0.7, 1.3), strict=True):
        found = expected_scene(case)["mass_kg"]
        assert found == {name: pytest.approx(kg * factor, rel=1e-6) for name, kg in plain["mass_kg"].items()}


def test_a_perturbed_case_differs_from_its_nominal_one_in_its_axis_alone() -> None:
    nominal = nominal_cases()["pour"][0]
    for case in robustness_cases(nominal):
        changed = {name for name, value in case.items() if nominal[name] != value}
        allowed = {"initial_pose": {"q_start"}, "target_pose": {"poses", "command"}, "command": {"command"},
                   "friction": {"world"}, "mass": {"world"}, "grasp_seed": {"grasp_seed"}}  # fmt: skip
        assert changed - {"set", "axis", "case_id", "case_sha256"} <= allowed[case["axis"]]
        assert case["set"] == "robustness"


# -- held out --------------------------------------------------------------------------------------------------


def test_every_domain_has_one_two_or_four_cases_of_each_skill_that_it_applies_to() -> None:
    for profile, count in (("smoke", 1), ("coverage", 2), ("full", 4)):
        counted = Counter((case["domain"], case["skill"]) for case in adaptability_cases(profile))  # type: ignore[arg-type]
        assert {domain for domain, _ in counted} == set(DOMAINS)
        for (_, skill), found in counted.items():
            assert found == min(count, len(nominal_cases()[skill]))


def test_the_three_sets_are_what_was_frozen_and_what_the_lock_holds() -> None:
    assert sets_as_made() == frozen_sets() == SUITE.settings["sets"]
    assert {name: one["cases"] for name, one in frozen_sets().items()} == {
        "nominal": 267, "robustness": 3220, "adaptability": 256,
    }  # fmt: skip


def test_numbers_of_a_case_survive_binary32() -> None:
    scene = expected_scene(nominal_cases()["pick_up"][0])
    assert scene["q_start"][0] == binary32(nominal_cases()["pick_up"][0]["q_start"][0])
