"""The whole main path on the toy suite, as real processes: same bytes for any workers, kills, resumes, refusals."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from trialplate import api, exam
from trialplate.errors import EvidenceError, LockError, ProtocolError, UsageError
from trialplate.store.campaign import CampaignWriter
from trialplate.store.view import read_campaign


def _cli(*arguments: str | Path, expect: int | None = 0) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "trialplate.cli", *map(str, arguments), "--json"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if expect is not None:
        assert done.returncode == expect, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _finish(folder: Path) -> bytes:
    api.score(folder)
    assert api.verify(folder).exit_code == 0
    return (folder / "results.jsonl").read_bytes()


@pytest.fixture
def lock_file(toy_protocol: Path) -> Path:
    """A lock beside its protocol."""
    return api.lock(api.load_protocol(toy_protocol), into=toy_protocol.parent / "lock.json").path


def test_the_result_bytes_are_the_same_for_one_two_and_three_workers(lock_file: Path, tmp_path: Path) -> None:
    results = []
    for workers in (1, 2, 3):
        folder = tmp_path / f"workers-{workers}"
        api.run(lock_file, into=folder, workers=workers)
        results.append(_finish(folder))
    assert results[0] == results[1] == results[2]
    assert results[0].count(b"\n") == 36


def test_a_campaign_that_was_killed_thrice_resumes_to_the_same_bytes(lock_file: Path, tmp_path: Path) -> None:
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    api.run(lock_file, into=calm)
    draw = random.Random(3)
    command = [sys.executable, "-m", "trialplate.cli", "run", str(lock_file), "--out", str(killed), "--workers", "2"]
    kills = 0
    for _ in range(40):
        if kills == 3:
            break
        resume = ["--resume"] if (killed / "journal.jsonl").exists() else []
        process = subprocess.Popen(
            [*command, *resume], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        want = len(list((killed / "episodes").glob("*"))) + draw.randrange(1, 7) if killed.exists() else 3
        while process.poll() is None and len(list((killed / "episodes").glob("*"))) < want:
            time.sleep(0.002)
        if process.poll() is None:
            kills += 1
        os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
        process.wait()
    assert kills == 3
    api.run(lock_file, into=killed, resume=True)
    assert _finish(killed) == _finish(calm)
    rows = read_campaign(killed).rows
    interrupted = [row for row in rows if row.termination == "interrupted"]
    assert interrupted, "a kill in mid-run must leave a visible interrupted attempt"
    assert len(rows) == 36 + len(interrupted)


def test_without_a_registered_replacement_an_interrupted_attempt_stays_the_error_of_its_trial(
    toy_protocol: Path, tmp_path: Path
) -> None:
    text = toy_protocol.read_text(encoding="utf-8").replace('interrupted = "replace"', 'interrupted = "error"')
    toy_protocol.write_text(text, encoding="utf-8")
    lock = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "lock.json")
    folder = tmp_path / "c"
    first = lock.document["schedule"][0]
    with CampaignWriter.create(folder, lock_bytes=lock.path.read_bytes()) as writer:  # a run that dies in mid-episode
        writer.open_run({})
        writer.start_attempt(first["trial_id"], ordinal=0, arm=first["arm"])
    api.run(lock, into=folder, resume=True)
    outcomes = api.score(folder)
    assert len(outcomes) == 36
    errors = [outcome for outcome in outcomes if outcome.status == "ERROR"]
    assert {outcome.reason for outcome in errors} == {"interrupted"}
    assert [outcome.trial_id for outcome in errors] == ["000000"]
    analysis = api.analyse(outcomes, lock)
    (arm,) = [arm for arm in analysis.arms if arm.counts.errored]
    assert arm.bounds.error_low == arm.counts.passed / 12 and arm.bounds.error_high == (arm.counts.passed + 1) / 12


def test_the_controls_of_the_toy_suite_qualify(tmp_path: Path) -> None:
    result = exam.qualify("toy", into=tmp_path / "q", workers=2)
    assert result.passed, [check for check in result.checks if not check.passed]
    again = exam.examine(tmp_path / "q", "toy")
    assert again.document() == result.document()
    (tmp_path / "q" / "null").rename(tmp_path / "q" / "null-real")
    (tmp_path / "q" / "exploit").rename(tmp_path / "q" / "null")
    (tmp_path / "q" / "null-real").rename(tmp_path / "q" / "exploit")
    with pytest.raises(EvidenceError, match="expected"):
        exam.examine(tmp_path / "q", "toy")


def test_a_qualification_takes_its_blocker_off_a_confirmatory_campaign(toy_protocol: Path, tmp_path: Path) -> None:
    text = toy_protocol.read_text(encoding="utf-8").replace('"development"', '"confirmatory"')
    toy_protocol.write_text(text, encoding="utf-8")
    folder = tmp_path / "c"
    api.run(api.lock(api.load_protocol(toy_protocol), into=folder))
    exam.qualify("toy", into=tmp_path / "q")
    without = exam.judge_campaign(folder)
    assert without[0].verdict == "ineligible"
    assert without[0].reasons == ("few_families", "not_qualified")  # six scenarios only
    with_exam = exam.judge_campaign(folder, qualification=tmp_path / "q")
    assert with_exam[0].reasons == ("few_families",)
    assert exam.verify(folder, qualification=tmp_path / "q").exit_code == 0
    alone = api.verify(folder)
    assert (alone.exit_code, alone.findings[0].code) == (3, "qualification_missing")


def test_the_commands_print_json_and_their_exit_codes(toy_protocol: Path, tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    assert _cli("validate", toy_protocol)["valid"] is True
    locked = _cli("lock", toy_protocol, "--out", folder)
    assert locked["trials"] == 36
    ran = _cli("run", folder, "--workers", "2")
    assert ran["complete"] is True
    assert _cli("score", folder)["counts"]["oracle"]["PASS"] == 12
    assert _cli("analyse", folder)["schema"] == "trialplate.analysis/2"
    assert _cli("judge", folder, expect=3)["claims"][0]["verdict"] == "ineligible"
    assert _cli("verify", folder)["exit_code"] == 0
    assert _cli("show", folder)["attempts"] == 36
    assert {suite["name"] for suite in _cli("suites")["suites"]} >= {"toy", "pick-place"}
    assert _cli("suite", "show", "toy")["max_steps"] == 60
    _cli("run", folder, expect=2)  # it holds attempts already


def test_bad_input_is_one_message_and_exit_code_2(toy_protocol: Path, tmp_path: Path) -> None:
    toy_protocol.write_text("name = 'x'\n", encoding="utf-8")
    answer = _cli("validate", toy_protocol, expect=2)
    assert answer["error"] == "protocol_invalid"
    assert len(answer["faults"]) >= 4
    assert _cli("lock", tmp_path / "none.toml", "--out", tmp_path / "x", expect=2)["error"] == "usage"
    assert _cli("suite", "show", "pickplace", expect=2)["error"] == "unknown_suite"


def test_no_workers_is_refused(lock_file: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="1 or more"):
        api.run(lock_file, into=tmp_path / "x", workers=0)


def test_a_folder_that_holds_another_campaign_is_refused(toy_protocol: Path, lock_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "first"
    api.run(lock_file, into=folder)
    other = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "other.json")
    with pytest.raises(LockError):
        api.run(other, into=folder, resume=True)
    with pytest.raises(LockError, match="exists"):
        api.lock(api.load_protocol(toy_protocol), into=folder)


def test_an_edited_lock_no_longer_fits_this_machine(lock_file: Path, tmp_path: Path) -> None:
    document = json.loads(lock_file.read_bytes())
    document["machine"]["processor"] = "another processor"
    edited = tmp_path / "edited.json"
    edited.write_bytes(api.lock_bytes(document))
    with pytest.raises(LockError, match="/machine/processor"):
        api.run(edited, into=tmp_path / "x")


def test_a_policy_edited_during_the_run_voids_it(toy_protocol: Path, tmp_path: Path) -> None:
    source = toy_protocol.parent / "mine.py"
    source.write_text("from trialplate.testing.toy import Scripted as Arm\n", encoding="utf-8")
    text = toy_protocol.read_text(encoding="utf-8").replace('policy = "control:scripted"', 'policy = "mine.py:Arm"')
    toy_protocol.write_text(text, encoding="utf-8")
    lock = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "lock.json")

    def edit(progress: Any) -> None:
        if progress.done == 20:
            source.write_text("from trialplate.testing.toy import Oracle as Arm\n", encoding="utf-8")

    folder = tmp_path / "c"
    report = api.run(lock, into=folder, progress=edit).report
    assert report is not None
    assert report.changed_inputs == ("scripted",)
    assert not report.complete
    api.score(folder)
    assert api.verify(folder).exit_code == 3
    assert exam.judge_campaign(folder)[0].verdict == "ineligible"


def test_an_arm_that_does_not_fit_is_refused_before_anything_runs(toy_protocol: Path, tmp_path: Path) -> None:
    source = toy_protocol.parent / "mine.py"
    source.write_text(
        "from trialplate.spec.channels import CameraSpec\n"
        "from trialplate.testing.toy import ACTION, STANDARD, Scripted\n"
        "class Arm(Scripted):\n"
        "    def spec(self):\n"
        "        size = {'height': 8, 'width': 8, 'layout': 'hwc', 'color': 'rgb', 'orientation': 'upright'}\n"
        "        front = CameraSpec(name='front', **size)\n"
        "        hand = STANDARD.proprio[0].model_copy(update={'name': 'hnad'})\n"
        "        expects = STANDARD.model_copy(update={'cameras': (front,), 'proprio': (hand,)})\n"
        "        emits = ACTION.model_copy(update={'control_hz': 10.0})\n"
        "        return super().spec().model_copy(update={'expects': expects, 'emits': emits})\n",
        encoding="utf-8",
    )
    text = toy_protocol.read_text(encoding="utf-8").replace('policy = "control:scripted"', 'policy = "mine.py:Arm"')
    toy_protocol.write_text(text, encoding="utf-8")
    with pytest.raises(LockError) as caught:
        api.lock(api.load_protocol(toy_protocol), into=tmp_path / "c")
    for expected in ("hnad", "front", "10"):
        assert expected in str(caught.value)
    assert not (tmp_path / "c" / "lock.json").exists()


def test_one_changed_byte_of_any_file_is_found_and_the_file_named(lock_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    api.run(lock_file, into=folder)
    exam.judge_campaign(folder)
    assert api.verify(folder).exit_code == 0
    draw = random.Random(11)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    assert {
        "lock.json",
        "journal.jsonl",
        "head.json",
        "rows.jsonl",
        "results.jsonl",
        "analysis.json",
        "claims.json",
    } <= {path.name for path in files}
    for path in [p for p in files if p.parent == folder] + draw.sample([p for p in files if p.parent != folder], 12):
        original = path.read_bytes()
        place = draw.randrange(len(original))
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)
        path.write_bytes(original[:place] + bytes([original[place] ^ 1]) + original[place + 1 :])
        verdict = api.verify(folder)
        assert verdict.exit_code in (1, 2), path
        assert any(finding.path == path.relative_to(folder).as_posix() for finding in verdict.findings), path
        path.write_bytes(original)
    assert api.verify(folder).exit_code == 0


def test_a_summary_edited_and_rehashed_is_not_reproduced(lock_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    api.run(lock_file, into=folder)
    exam.judge_campaign(folder)
    path = folder / "analysis.json"
    document = json.loads(path.read_bytes())
    document["arms"][0]["rate"]["k"] += 1
    path.write_bytes(api.lock_bytes(document))
    verdict = api.verify(folder)
    assert verdict.exit_code == 1
    assert [finding.code for finding in verdict.findings] == ["analysis_not_reproduced"]


def test_a_protocol_error_is_one_error_for_all_mistakes(toy_protocol: Path) -> None:
    toy_protocol.write_text(toy_protocol.read_text(encoding="utf-8").replace("toy", "tyo"), encoding="utf-8")
    with pytest.raises(ProtocolError):
        api.load_protocol(toy_protocol)
