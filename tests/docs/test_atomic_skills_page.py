"""The tables of the page about skills say what the code says."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path

import numpy as np

import trialplate
from trialplate.spec.skills import CASE_DETAILS, FAULT_TABLE, PLAN_DETAILS, REMAPPABLE
from trialplate.suites.atomic_skills import SUITE
from trialplate.suites.atomic_skills.casebook.held_out import DOMAINS
from trialplate.suites.atomic_skills.cases import PROFILES, REPEATS, frozen_sets, profile_cases
from trialplate.suites.atomic_skills.ladders import SKILLS
from trialplate.suites.atomic_skills.tolerances import PRIMITIVE_SKILLS, SCORING

PAGE = Path(__file__).parents[2] / "docs" / "suites" / "atomic-skills.md"
TEXT = PAGE.read_text(encoding="utf-8")


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its head."""
    part = TEXT.split(f"## {heading}\n", 1)[1]
    lines = re.search(r"((?:^\|.*\n)+)", part, re.MULTILINE)
    assert lines is not None
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines.group(1).splitlines()[2:]]


def names(cell: str) -> list[str]:
    """Return the names in code marks."""
    return re.findall(r"`([a-z_]+)`", cell)


def test_row_48_the_table_of_skills_is_that_of_the_code() -> None:
    rows = table("The fifteen skills")
    assert [names(row[0])[0] for row in rows] == list(SKILLS)
    for name, segments, optional, stages, holds, starts in rows:
        skill = SKILLS[names(name)[0]]
        assert [tuple(names(part)) for part in segments.split(" or ")] == list(skill.segments)
        assert tuple(names(optional)) == skill.optional
        assert names(stages) == list(skill.stages)
        assert (holds == "yes", starts == "yes") == (skill.holds_object, skill.starts_held)


def test_row_48_the_tolerances_are_those_of_the_code() -> None:
    (_, listed, *primitive), (_, _, *task) = table("Tolerances")
    assert tuple(names(listed)) == PRIMITIVE_SKILLS
    for (position, rotation), wanted in ((primitive, SCORING.primitive), (task, SCORING.task)):
        assert float(position.removesuffix(" m")) == wanted.position_m
        assert math.isclose(math.radians(float(rotation.removesuffix(" deg"))), wanted.rotation_rad)
    told = TEXT.split("Other\nnumbers:", 1)[1].split(". A calibration", 1)[0]
    assert [float(number) for number in re.findall(r"\d+\.\d+", told)] == [
        SCORING.lift_m, SCORING.press_fraction, SCORING.drop_m, SCORING.engaged, SCORING.tracking_error_rad,
        SCORING.unintended_n,
    ]  # fmt: skip
    assert f"its {SCORING.hand_over_phases} contact phases" in TEXT


def test_row_48_the_reasons_are_those_of_the_code() -> None:
    rows = table("Reasons")
    assert {names(row[0])[0]: row[2] for row in rows} == dict(FAULT_TABLE)
    assert {names(row[0])[0]: tuple(row[3].split(", ")) for row in rows} == dict(REMAPPABLE)
    details = TEXT.split("The list is closed.", 1)[1].split("## Trust", 1)[0]
    plan, case = details.split("Details of `invalid_case`", 1)
    assert tuple(names(plan)) == PLAN_DETAILS
    assert tuple(names(case)) == CASE_DETAILS


def test_the_stages_at_which_the_negative_controls_fail_are_those_of_the_exam() -> None:
    told = TEXT.split("## Controls", 1)[1].split("`trialplate qualify", 1)[0]
    stages = re.findall(r"`(\w+)` of\s((?:`\w+`(?: and )?)+)", told)
    found = {skill: stage for stage, skills in stages for skill in names(skills)}
    assert found == dict(SUITE.controls["negative"].fails_at)


def test_the_planner_of_the_page_returns_a_plan() -> None:
    code = TEXT.split("```python\n", 1)[1].split("```", 1)[0]
    ast.parse(code)
    space: dict[str, object] = {}
    exec(code, space)

    class Case:
        skill, q_start, command = "move_joints", (0.0,) * 7, {"q_target": [0.1] * 6}

    plan = space["Mine"]().plan(Case())  # type: ignore[operator]
    assert isinstance(plan, trialplate.SkillPlan)
    assert np.array_equal(plan.trajectory[-1], [0.1] * 6 + [0.0])


def test_the_table_of_profiles_is_that_of_the_code() -> None:
    rows = {names(row[0])[0]: (int(row[1]), int(row[2])) for row in table("Cases")}
    assert rows == {profile: (len(profile_cases(profile)), REPEATS[profile]) for profile in PROFILES}


def test_the_page_says_how_many_cases_are_perturbed_and_held_out() -> None:
    sets = {name: found["cases"] for name, found in frozen_sets().items()}
    assert f"{sets['robustness']:,} perturbed ones" in TEXT
    assert f"{sets['adaptability']} in\nseven held-out domains" in TEXT
    assert len(DOMAINS) == 7
