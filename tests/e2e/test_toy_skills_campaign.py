"""A whole campaign of skills on the toy rail: lock, run, score, analyse, judge, report, verify, replay."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from trialplate import api, exam
from trialplate.errors import LockError, ProtocolError
from trialplate.record import Outcome, Status
from trialplate.replaying import replay
from trialplate.scoring.skills import ranking
from trialplate.store.view import read_campaign
from trialplate.testing.toy_skills import TOY_SKILLS

TESTS = Path(__file__).parents[1]
STATED = "exploit control fails where stated"
PROTOCOL = """
schema = "trialplate.protocol/1"
name = "toy-skills"
question = "Does the baseline pick up the block?"
run_class = "development"

[suite]
name = "toy-skills"
version = "1"
repeats = 2

[[arms]]
name = "null"
policy = "control:null"

[[arms]]
name = "base"
policy = "control:baseline"
{arms}
[[claims]]
name = "base-half"
kind = "threshold_rate"
arm = "base"
rate = 0.5
"""


def write(folder: Path, *, arms: str = "", more: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    shutil.copy(TESTS / "planners.py", folder / "planners.py")
    path = folder / "protocol.toml"
    path.write_text(PROTOCOL.format(arms=arms) + more, encoding="utf-8")
    return path


def arm(name: str, attribute: str, options: str = "") -> str:
    return f'\n[[arms]]\nname = "{name}"\npolicy = "planners.py:{attribute}"\n{options}\n'


def one_case(path: Path, *cases: str) -> Path:
    text = path.read_text(encoding="utf-8").replace("repeats = 2", f"repeats = 1\nscenarios = {json.dumps(cases)}")
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skills")
    lock = api.lock(api.load_protocol(write(folder / "study")), into=folder / "study" / "lock.json")
    api.run(lock, into=folder / "campaign")
    return folder / "campaign"


def of_arm(outcomes: tuple[Outcome, ...], name: str) -> dict[tuple[str, int], Outcome]:
    return {(item.scenario, item.repeat): item for item in outcomes if item.arm == name}


def test_the_whole_path_from_lock_to_replay(campaign: Path, tmp_path: Path) -> None:
    outcomes = api.score(campaign)
    base, null = of_arm(outcomes, "base"), of_arm(outcomes, "null")
    won = {name for (name, _), item in base.items() if item.status is Status.PASS}
    assert won == {"pick_up-1", "pick_up-2", "pick_up-fast", "move_joints-1", "pick_up-low", "pick_up-held-out"}
    assert {item.status for item in null.values()} == {Status.FAIL, Status.EXCLUDED}
    assert {item.reason for item in outcomes if item.scenario == "pick_up-3"} == {"unsupported_capability"}
    lock = campaign / "lock.json"
    analysis = api.analyse(outcomes, lock)
    assert analysis.arm("base").rate.k == 12 and analysis.arm("base").funnel.reason == "several_ladders"
    claims = api.judge(analysis, lock)
    page = api.report(campaign, claims, to=tmp_path / "report.html")
    text = page.read_text(encoding="utf-8")
    assert "pick_up.grasped" in text
    for told in (
        "Passed against trusted",
        "Under perturbation",
        "In held-out domains",
        "grasped 4/4, ",
        "high_start 2/2",
    ):
        assert told in text
    assert api.verify(campaign).exit_code == 0
    replayed = replay(read_campaign(campaign))
    assert (replayed.simulated, replayed.different, replayed.total) == (24, 0, 28)


def test_the_analysis_tells_every_skill_its_axes_and_held_out_domains(campaign: Path) -> None:
    analysis = api.analyse(api.score(campaign), campaign / "lock.json")
    assert analysis.skills is not None
    base = analysis.skills.arms[1]
    lifts = next(item for item in base.skills if item.skill == "pick_up")
    assert lifts.nominal is not None and lifts.adaptability is not None
    assert (lifts.nominal.total, lifts.nominal.excluded, lifts.nominal.measured, lifts.nominal.passed) == (6, 2, 4, 4)
    assert (lifts.nominal.coverage_rate, lifts.nominal.success_rate, lifts.nominal.trusted_success_rate) == (
        4 / 6,
        1,
        1,
    )
    assert lifts.nominal.flags == ("repeats_identical",) and lifts.nominal.n_eff == 2
    assert lifts.nominal.interval_trials is None and lifts.nominal.interval_trials_reason == "repeats_identical"
    assert [stage.stage for stage in lifts.nominal.stages] == ["grasped", "lifted", "held"]
    assert lifts.nominal.belief == {"believed_true": 4}
    assert [(axis.axis, axis.difference) for axis in lifts.axes] == [("command", 0.0), ("initial_pose", 0.0)]
    assert (lifts.adaptability.worst, lifts.adaptability.retention, lifts.adaptability.eligible) == (1, 1, True)
    assert base.overall == 1.0
    assert [(line.rank, line.arm) for line in ranking(analysis.skills, "pick_up")] == [(1, "base"), (2, "null")]


def test_row_46_results_and_traces_are_the_same_with_two_or_four_workers_and_in_another_order(tmp_path: Path) -> None:
    found = []
    for name, order, workers in (
        ("one", "manifest", 1),
        ("two", "manifest", 2),
        ("four", "manifest", 4),
        ("other", "shuffled", 1),
    ):
        path = one_case(
            write(tmp_path / name, more=f'\n[schedule]\norder = "{order}"\n'), "pick_up-1", "move_joints-1"
        )
        lock = api.lock(api.load_protocol(path), into=tmp_path / name / "lock.json")
        api.run(lock, into=tmp_path / name / "campaign", workers=workers)
        outcomes = api.score(tmp_path / name / "campaign")
        found.append(
            {
                (o.arm, o.scenario): (o.status, o.skill, o.trace_content_sha256)
                for o in outcomes
                if o.skill is not None
            }
        )
    stripped = [
        {key: (status, trace, facts.stages) for key, (status, facts, trace) in item.items()} for item in found
    ]
    assert all(item == stripped[0] for item in stripped[1:])
    assert len(stripped[0]) == 4


HOSTILE = {
    "sleeps": ("Sleeps", "", "timeout", None),
    "dies": ("Dies", "", "planner_exception", None),
    "raises": ("Raises", "", "planner_exception", None),
    "fails": ("Raises", 'options = {what = "PlanningFailed"}', "planner_reported_failure", None),
    "unsupported": ("Unsupported", "", "planner_reported_failure", None),
    "huge": ("Huge", "", "planner_reported_failure", "too_long"),
    "nan": ("Shaped", 'options = {what = "nan"}', "planner_reported_failure", "non_finite_trajectory"),
    "joints": ("Shaped", 'options = {what = "one_joint_less"}', "planner_reported_failure", "wrong_dof"),
    "gripper": ("Shaped", 'options = {what = "gripper"}', "planner_reported_failure", "gripper_out_of_range"),
}


def test_a_planner_that_lies_dies_or_never_returns_fails_alone(tmp_path: Path) -> None:
    arms = "".join(arm(name, attribute, options) for name, (attribute, options, _, _) in HOSTILE.items())
    path = one_case(write(tmp_path / "study", arms=arms + arm("mutates", "Mutates")), "pick_up-fast")
    lock = api.lock(api.load_protocol(path), into=tmp_path / "study" / "lock.json")
    api.run(lock, into=tmp_path / "campaign")
    outcomes = {item.arm: item for item in api.score(tmp_path / "campaign")}
    assert outcomes["base"].status is Status.PASS
    for name, (_, _, reason, detail) in HOSTILE.items():
        outcome = outcomes[name]
        assert (outcome.status, outcome.reason, outcome.first_failed_stage) == (Status.FAIL, reason, "grasped"), name
        assert outcome.skill is not None
        assert (outcome.skill.failure_detail, outcome.skill.trusted) == (detail, None)
    assert outcomes["mutates"].reason == "object_not_grasped"  # its own copy: it held still, and was scored as it is
    assert api.verify(tmp_path / "campaign").exit_code == 0
    assert replay(read_campaign(tmp_path / "campaign")).different == 0


def test_row_09_a_misspelt_segment_is_an_error_of_the_case_and_no_failure(tmp_path: Path) -> None:
    path = write(tmp_path / "study", arms=arm("other", "WrongSegments"))
    lock = api.lock(api.load_protocol(one_case(path, "pick_up-1")), into=tmp_path / "study" / "lock.json")
    api.run(lock, into=tmp_path / "campaign")
    outcome = {item.arm: item for item in api.score(tmp_path / "campaign")}["other"]
    assert (outcome.status, outcome.reason, outcome.stages) == (Status.ERROR, "invalid_case", ())
    assert outcome.skill is not None and outcome.skill.failure_detail == "missing_segment"
    assert "did you mean 'close'" in outcome.notes[0]
    assert api.verify(tmp_path / "campaign").exit_code == 0


def test_row_42_one_changed_byte_of_a_trace_is_found(campaign: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(campaign, copy)
    trace = sorted(copy.glob("episodes/*/trace.parquet"))[0]
    data = bytearray(trace.read_bytes())
    data[len(data) // 2] ^= 1
    trace.chmod(0o644)
    trace.write_bytes(bytes(data))
    verdict = api.verify(copy)
    assert verdict.exit_code == 1
    assert trace.parent.name in verdict.findings[0].path


def test_what_is_no_planner_is_refused_before_the_lock(tmp_path: Path) -> None:
    path = write(tmp_path / "study", arms=arm("none", "NoPlan"))
    with pytest.raises(LockError, match=r"no plan\(case\)"):
        api.lock(api.load_protocol(path), into=tmp_path / "lock.json")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('\n[fault_table]\ninvalid_case = "FAIL"\n', "expected ERROR, got 'FAIL'"),
        ('\n[fault_table]\nunsupported_capability = "ERROR"\n', "expected EXCLUDED"),
        ('\n[fault_table]\nobject_dropped = "ERROR"\n', "expected FAIL"),
        ('\n[fault_table]\ncontroller_tracking_failure = "FAIL"\n', "unknown fault 'controller_tracking_failure'"),
        ("\n[budgets]\nmax_steps = 100\n", "a plan is replayed whole"),
    ],
)
def test_a_protocol_cannot_make_an_invalid_case_a_failure(tmp_path: Path, more: str, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        api.load_protocol(write(tmp_path / "study", more=more))


def test_a_protocol_may_count_planner_exceptions_as_errors(tmp_path: Path) -> None:
    more = '\n[fault_table]\nplanner_exception = "ERROR"\n'
    path = one_case(write(tmp_path / "study", arms=arm("raises", "Raises"), more=more), "pick_up-1")
    lock = api.lock(api.load_protocol(path), into=tmp_path / "lock.json")
    api.run(lock, into=tmp_path / "campaign")
    outcome = {item.arm: item for item in api.score(tmp_path / "campaign")}["raises"]
    assert (outcome.status, outcome.reason) == (Status.ERROR, "planner_exception")
    assert api.verify(tmp_path / "campaign").exit_code == 0


def test_a_suite_of_skills_qualifies_on_one_case_of_each_skill(tmp_path: Path) -> None:
    result = exam.qualify("toy-skills", into=tmp_path / "exam")
    assert result.passed, [check for check in result.checks if not check.passed]
    assert {check.expected for check in result.checks if "control" in check.name} == {"0/2", "2/2"}
    (stated,) = (check for check in result.checks if check.name == STATED)
    assert (stated.passed, stated.expected, stated.found) == (True, "2/2", "2/2")


@pytest.mark.parametrize(
    ("planner", "ended"),
    [
        ("Null", "found grasped"),
        ("Refuses", "found FAIL planner_reported_failure"),
        ("Baseline", "found a pass"),
        ("Misspells", "found ERROR invalid_case"),
    ],
)
def test_a_control_that_fails_elsewhere_than_it_states_disqualifies_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planner: str, ended: str
) -> None:
    other = replace(TOY_SKILLS.controls["negative"], policy=f"planners_that_fail_elsewhere:{planner}")
    monkeypatch.setitem(TOY_SKILLS.controls, "negative", other)  # type: ignore[arg-type]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *sys.path]))
    result = exam.qualify("toy-skills", into=tmp_path / "exam")
    (stated,) = (check for check in result.checks if check.name == STATED)
    assert not result.passed and not stated.passed and stated.expected == "2/2"
    assert f"pick_up-1: expected lifted, {ended}" in stated.found
    assert ("move_joints-1" in stated.found) == (planner != "Null")
    again = exam.examine(tmp_path / "exam", "toy-skills")
    assert [check.found for check in again.checks if check.name == STATED] == [stated.found]


def test_a_sealed_campaign_of_skills_is_checked_by_the_one_file_inside_it(campaign: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(campaign, copy)
    for verb in ("judge", "seal"):
        more = ["--out", str(tmp_path / "sealed")] if verb == "seal" else []
        done = subprocess.run([sys.executable, "-m", "trialplate.cli", verb, str(copy), *more], capture_output=True)
        assert done.returncode in (0, 3), done.stderr  # 3: intact, and not qualified
    (bundle,) = (found.parent for found in (tmp_path / "sealed").glob("[0-9a-f]*/bundle.json"))
    tool = bundle / "tools" / "verify_bundle.py"
    told = subprocess.run([sys.executable, "-I", str(tool), str(bundle)], capture_output=True, text=True)
    assert "INTEGRITY verified: 0 findings" in told.stdout
