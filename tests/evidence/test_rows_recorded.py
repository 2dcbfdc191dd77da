"""Rows 22 to 25 and 40 of the evidence specification, section 13: what sensors, arms and judges leave behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_rows_rules import sealed_as_it_is, told, told_by_second

from forger import patient_forger, writable
from sealed import Golden, edit, make_campaign, reseal, write
from trialplate import api, exam
from trialplate.canonical import array_digest, document_sha256
from trialplate.cli import main
from trialplate.errors import ProtocolError
from trialplate.store.view import read_campaign

PROTOCOL = """
schema = "trialplate.protocol/1"
name = "recorded"
question = "%(question)s"
run_class = "confirmatory"

[suite]
name = "%(suite)s"
version = "1"
scenarios = [%(scenarios)s]

[[arms]]
name = "mine"
policy = "%(policy)s"

[schedule]
order = "manifest"

[fault_table]
%(fault_table)s
[[claims]]
name = "half"
kind = "threshold_rate"
arm = "mine"
rate = 0.5
"""


def run(
    folder: Path, source: str, *, suite: str, scenarios: tuple[str, ...], question: str = "What is recorded?",
    fault_table: str = "",
) -> Path:  # fmt: skip
    """Lock and run one arm; return the campaign."""
    (folder / "mine.py").write_text(source, encoding="utf-8")
    listed = ", ".join(f'"{name}"' for name in scenarios)
    fields = {"suite": suite, "scenarios": listed, "question": question, "policy": "mine.py:Arm"}
    path = folder / "protocol.toml"
    path.write_text(PROTOCOL % {**fields, "fault_table": fault_table}, encoding="utf-8")
    return api.run(api.lock(api.load_protocol(path), into=folder / "campaign")).folder


def statuses(campaign: Path) -> list[tuple[str, str]]:
    """Return status and reason of every trial."""
    return [(outcome.status.value, outcome.reason) for outcome in api.score(campaign)]


def as_passed(campaign: Path, status: str) -> None:
    """Write PASS into the results of a campaign where they say another status."""
    path = campaign / "results.jsonl"
    lines = path.read_bytes()
    assert f'"status":"{status}"'.encode() in lines
    path.write_bytes(lines.replace(f'"status":"{status}"'.encode(), b'"status":"PASS"'))


# -- row 22: numbers that were read back ---------------------------------------------------------------------------

SKILL = """
schema = "trialplate.protocol/1"
name = "readback"
question = "In which form are numbers stored?"
run_class = "development"

[suite]
name = "atomic-skills"
version = "1"
scenarios = ["%s"]

[[arms]]
name = "null"
policy = "control:null"
"""


@pytest.fixture(scope="module")
def physics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One case of the skills in MuJoCo, with a planner that does nothing."""
    from trialplate.registry import load_suite

    folder = tmp_path_factory.mktemp("physics")
    path = folder / "protocol.toml"
    path.write_text(SKILL % load_suite("atomic-skills").examined()[0], encoding="utf-8")
    campaign = api.run(api.lock(api.load_protocol(path), into=folder / "campaign")).folder
    assert told(campaign) == (0, set())
    return campaign


def _first_double(value: Any, change: Callable[[float], float]) -> bool:
    """Change the first number of a document in place; return whether there was one."""
    items = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, item in items:
        if isinstance(item, float) and item != 0.0:
            value[key] = change(item)
            return True
        if _first_double(item, change):
            return True
    return False


@pytest.mark.parametrize(
    ("change", "exit_code", "code"),
    [
        (lambda x: float(np.nextafter(x, 9.0)), 2, "not_binary32"),
        (lambda x: float(np.float32(x)) + 1e-12, 2, "not_binary32"),
        (lambda x: float(np.nextafter(np.float32(x), np.float32(9.0))), 1, "scene_mismatch"),
    ],
    ids=["one ulp of a double", "a hair", "one ulp of binary32"],
)
def test_row_22_a_number_that_is_not_in_the_form_of_its_suite_is_malformed_with_good_digests(
    physics: Path, tmp_path: Path, change: Callable[[float], float], exit_code: int, code: str
) -> None:
    campaign = writable(Path(shutil.copytree(physics, tmp_path / "campaign")))
    forger = patient_forger(campaign)

    def elsewhere(row: dict[str, Any]) -> None:
        assert _first_double(row["applied_scene"], change)
        row["applied_scene_sha256"] = document_sha256(row["applied_scene"])

    (row,) = read_campaign(campaign).rows
    forger.edit_row(f"{row.trial_id}-0", elsewhere)
    forger.seal()
    found, codes = told(campaign)
    assert found == exit_code and code in codes
    assert ("not_binary32" in codes) == (code == "not_binary32")


# -- row 23: cameras -----------------------------------------------------------------------------------------------

SEES = """
from trialplate import PolicySpec
from trialplate.testing.reach import PROFILES
from trialplate.testing.reach_controls import Scripted


class Arm(Scripted):
    def __init__(self):
        super().__init__(stride_m=0.01)

    def spec(self):
        return PolicySpec(expects=PROFILES["standard"].only("front", "wrist", "ee_pos"), emits=super().spec().emits)
"""
CAMERAS = ("fault-none", "fault-camera-blank", "fault-cameras-equal")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three episodes: honest cameras, a blank one, and twins."""
    return run(tmp_path_factory.mktemp("seen"), SEES, suite="toy-faults", scenarios=CAMERAS)


def test_row_23_a_blank_camera_and_twins_are_an_error_of_the_episode_and_no_pass_by_decree(
    seen: Path, tmp_path: Path
) -> None:
    campaign = writable(Path(shutil.copytree(seen, tmp_path / "campaign")))
    rows = read_campaign(campaign).rows
    found = dict(zip((row.scenario for row in rows), statuses(campaign), strict=True))
    assert found["fault-none"] == ("PASS", "chain_complete")
    assert found["fault-camera-blank"] == found["fault-cameras-equal"] == ("ERROR", "observation_unhealthy")
    assert told(campaign) == (0, set())
    as_passed(campaign, "ERROR")
    assert told(campaign) == (1, {"grades_not_reproduced"})
    (campaign / "results.jsonl").unlink()
    bundle = writable(sealed_as_it_is(campaign, tmp_path / "bundles"))
    as_passed(bundle, "ERROR")
    exit_code, codes = told(reseal(bundle))
    assert exit_code == 1 and "grades_not_reproduced" in codes


def test_row_23_an_unhealthy_episode_whose_row_says_that_it_went_well_contradicts_its_recording(
    seen: Path, tmp_path: Path
) -> None:
    campaign = writable(Path(shutil.copytree(seen, tmp_path / "campaign")))
    forger = patient_forger(campaign)
    forger.edit_row(
        "000001-0", lambda row: row.update(termination="policy_stop", fault_code=None, fault_message=None)
    )
    forger.seal()
    exit_code, codes = told(campaign)
    assert exit_code == 1 and "rows_digest_mismatch" in codes


def test_row_23_a_frozen_camera_is_no_error_and_is_told_by_the_digests_of_what_was_shown(tmp_path: Path) -> None:
    source = SEES.replace('"front", "wrist", "ee_pos"', '"front", "ee_pos"')
    campaign = run(tmp_path, source, suite="toy-faults", scenarios=("fault-none", "fault-camera-frozen"))
    view = read_campaign(campaign)
    shown: dict[str, list[str]] = {}
    for row in view.rows:
        trace = view.load_trace(row)
        moving = [call for call in trace.calls if 20 <= call["step"] < 30]
        assert len({trace.state_sha256[call["step"]] for call in moving}) == 10
        shown[row.scenario] = [call["frames_sha256"] for call in moving]
    assert len(set(shown["fault-none"])) == 10 and len(set(shown["fault-camera-frozen"])) == 1
    assert {status for status, _ in statuses(campaign)} == {"PASS"}  # a world at rest looks the same as a frozen one


# -- row 24: zeros in place of an answer ---------------------------------------------------------------------------

FAILS = """
from trialplate import ActionChunk
from trialplate.testing.toy import Scripted


class Arm(Scripted):
    def act(self, observation):
        try:
            if observation.step_index >= 3:
                raise RuntimeError("CUDA out of memory")
            return super().act(observation)
        except RuntimeError:
            HANDLE
"""
AS_ERROR = 'policy_exception = "ERROR"\n'
TOYS = ("toy-001", "toy-002", "toy-003")


def test_row_24_a_failed_inference_is_an_error_of_the_episode_and_nothing_is_executed_in_its_place(
    tmp_path: Path,
) -> None:
    source = FAILS.replace("HANDLE", "raise")
    campaign = run(tmp_path, source, suite="toy", scenarios=TOYS, fault_table=AS_ERROR)
    assert set(statuses(campaign)) == {("ERROR", "policy_exception")}
    view = read_campaign(campaign)
    for row in view.rows:
        trace = view.load_trace(row)
        assert row.control_steps == trace.steps == 3 and trace.action.any(axis=1).all()
        assert trace.calls[-1]["kind"] == "fault" and "CUDA out of memory" in str(row.fault_message)
    assert told(campaign) == (0, set())


def test_row_24_an_arm_that_sends_zeros_where_it_has_no_answer_is_told_by_the_digest_that_repeats(
    tmp_path: Path,
) -> None:
    zeros = FAILS.replace("HANDLE", "return ActionChunk([[0.0, 0.0]])")
    campaign = run(tmp_path, zeros, suite="toy", scenarios=TOYS, fault_table=AS_ERROR)
    outcomes = api.score(campaign)
    nothing = array_digest([[0.0, 0.0]])
    for outcome, row in zip(outcomes, read_campaign(campaign).rows, strict=True):
        assert outcome.status.value == "FAIL" and outcome.conduct is not None  # of its own will, as far as one sees
        assert outcome.conduct.repeated_sha256 == nothing
        assert outcome.conduct.repeated_rows == row.control_steps - 3 > 20
    stored = [json.loads(line)["conduct"] for line in (campaign / "results.jsonl").read_bytes().splitlines()]
    assert {item["repeated_sha256"] for item in stored} == {nothing}
    lines = (campaign / "results.jsonl").read_bytes()
    (campaign / "results.jsonl").write_bytes(lines.replace(nothing.encode(), b"0" * 64))
    assert told(campaign) == (1, {"grades_not_reproduced"})


def test_row_24_an_honest_arm_repeats_little(tmp_path: Path) -> None:
    source = "from trialplate.testing.toy import Scripted\n\n\nclass Arm(Scripted):\n    pass\n"
    campaign = run(tmp_path, source, suite="toy", scenarios=TOYS)
    for outcome in api.score(campaign):
        assert outcome.status.value == "PASS" and outcome.conduct is not None
        assert outcome.conduct.repeated_sha256 != array_digest([[0.0, 0.0]])


# -- row 25: judges ------------------------------------------------------------------------------------------------


def test_row_25_a_label_of_a_judge_that_is_put_into_an_analysis_is_not_reproduced(lean: Path) -> None:
    def judged(document: dict[str, Any]) -> None:
        document["arms"][0]["counts"]["passed"] += 1

    edit(writable(lean) / "analysis.json", judged)
    exit_code, codes = told(reseal(lean))
    assert exit_code == 1 and "analysis_not_reproduced" in codes


def test_row_25_an_output_of_a_judge_beside_an_analysis_is_not_reproduced(lean: Path) -> None:
    label = {"judge_id": "vlm-9", "label": "success", "probability": 0.99, "labelled_by": "human"}
    edit(writable(lean) / "analysis.json", lambda document: document.update(judge=[label]))
    exit_code, codes = told(reseal(lean))
    assert exit_code == 1 and "analysis_not_reproduced" in codes


@pytest.mark.parametrize("member", ["label", "judge", "labelled_by", "human_label"])
def test_row_25_a_label_of_a_judge_stored_as_that_of_a_human_has_no_place_in_a_row(
    golden: Golden, tmp_path: Path, member: str
) -> None:
    campaign = writable(Path(shutil.copytree(golden.campaign, tmp_path / "campaign")))
    forger = patient_forger(campaign)
    forger.edit_row("000000-0", lambda row: row.update({member: "human"}))
    forger.seal()
    assert told(campaign)[0] == 2 and "schema_mismatch" in told(campaign)[1]
    bundle = writable(Path(shutil.copytree(golden.lean, tmp_path / "bundle" / golden.lean.name)))
    for path in ("journal.jsonl", "head.json", "rows.jsonl", "completion.json", "episodes/000000-0/row.json"):
        write(bundle / path, (campaign / path).read_bytes())
    bundle = reseal(bundle)
    for exit_code, codes in (told(bundle), told_by_second(bundle)):
        assert exit_code == 2 and "schema_mismatch" in codes


# -- row 40: names and texts that want to be run -------------------------------------------------------------------

HOSTILE = "<script>alert(1)</script> =cmd|' /C calc'!A0 \x1b]0;owned\x07\x1b[2J \u202egnp.exe"
SAYS = f"""
from trialplate.testing.toy import Scripted


class Arm(Scripted):
    def act(self, observation):
        raise RuntimeError({HOSTILE!r})
"""


@pytest.mark.parametrize("name", ["<script>", "=cmd()", "a\x1b[2J", "a\u202eb", "../a", "A B"])
def test_row_40_an_arm_of_a_hostile_name_is_refused_before_anything_runs(tmp_path: Path, name: str) -> None:
    path = tmp_path / "protocol.toml"
    text = PROTOCOL % {
        "suite": "toy", "scenarios": '"toy-001"', "question": "?", "policy": "control:scripted", "fault_table": "",
    }  # fmt: skip
    path.write_text(text.replace('"mine"', json.dumps(name)), encoding="utf-8")
    with pytest.raises(ProtocolError) as refused:
        api.load_protocol(path)
    assert any(fault.path.startswith("arms[0].name") for fault in refused.value.faults)


def test_row_40_a_hostile_name_in_a_forged_lock_is_malformed(tmp_path: Path) -> None:
    campaign = writable(make_campaign(tmp_path))

    def named(lock: dict[str, Any]) -> None:
        lock["protocol"]["arms"][0]["name"] = "<script>"
        lock["protocol_sha256"] = document_sha256(lock["protocol"])

    edit(campaign / "lock.json", named)
    patient_forger(campaign).seal()
    exit_code, codes = told(campaign)
    assert exit_code == 2 and "schema_mismatch" in codes


def test_row_40_what_an_arm_says_is_escaped_wherever_it_is_shown_and_kept_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = run(tmp_path, SAYS, suite="toy", scenarios=TOYS[:2])
    before = {path: path.read_bytes() for path in campaign.rglob("*") if path.is_file()}
    assert all(HOSTILE in str(row.fault_message) for row in read_campaign(campaign).rows)
    shown = ""
    for command in (["score"], ["analyse"], ["judge"], ["verify"], ["show"], ["report"]):
        with pytest.raises(SystemExit):
            main([*command, str(campaign)])
        printed = capsys.readouterr()
        shown += printed.out + printed.err
    assert [c for c in shown if not c.isprintable() and c not in "\n\xa0"] == []
    page = api.report(campaign, exam.judge_campaign(campaign), to=tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page and "\x1b" not in page and "\u202e" not in page
    assert escape("<script>alert(1)</script>") in page and "[U+202E]gnp.exe" in page
    assert {path: path.read_bytes() for path in before} == before
    assert told(campaign)[0] in (0, 3)  # halted or not: nothing of it is broken
