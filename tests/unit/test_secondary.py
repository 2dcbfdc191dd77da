"""A re-analysis says that it is one, names what it re-reads, and never claims."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toy_protocol import TOY_PROTOCOL
from trialplate import api, exam
from trialplate.canonical import read_stored, sha256_hex
from trialplate.errors import EvidenceError, ProtocolError, TrialplateError, UsageError
from trialplate.secondary import reanalyse

ARM = """
from trialplate.testing.toy import Scripted


class Arm(Scripted):
    def act(self, observation):
        if round(float(observation.proprio["goal"][0]), 3) == -0.4:
            raise RuntimeError("no answer today")
        return super().act(observation)
"""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign in which one arm fails two trials by an exception."""
    study = tmp_path_factory.mktemp("study")
    (study / "mine.py").write_text(ARM, encoding="utf-8")
    text = TOY_PROTOCOL.replace('policy = "control:scripted"', 'policy = "mine.py:Arm"')
    (study / "protocol.toml").write_text(text, encoding="utf-8")
    lock = api.lock(api.load_protocol(study / "protocol.toml"), into=study / "c")
    api.run(lock)
    exam.judge_campaign(study / "c")
    return study / "c"


@pytest.fixture
def plan(tmp_path: Path) -> Callable[[str], Path]:
    """Write a corrected plan."""

    def write(text: str) -> Path:
        (tmp_path / "plan.toml").write_text(text, encoding="utf-8")
        return tmp_path / "plan.toml"

    return write


def _refused(call: Callable[[], Any]) -> TrialplateError:
    with pytest.raises(TrialplateError) as caught:
        call()
    return caught.value


def test_a_corrected_fault_table_is_labelled_secondary_and_tied_to_what_it_re_reads(
    campaign: Path, tmp_path: Path, plan: Callable[[str], Path]
) -> None:
    before = {path: path.read_bytes() for path in campaign.rglob("*") if path.is_file()}
    found = reanalyse(
        campaign, reason="the exceptions came from a broken disk of ours", to=tmp_path / "secondary.json",
        plan=plan('[fault_table]\npolicy_exception = "ERROR"\n'),
    )  # fmt: skip
    assert read_stored((tmp_path / "secondary.json").read_bytes()) == found
    assert found["secondary"] is True and (found["claims"], found["claims_reason"]) == (None, "secondary")
    assert found["rereads"]["lock_sha256"] == sha256_hex((campaign / "lock.json").read_bytes())
    assert found["corrects_sha256"] == sha256_hex((campaign / "analysis.json").read_bytes())
    assert [(c["arm"], c["registered"]["status"], c["now"]["status"]) for c in found["changed_outcomes"]] == [
        ("scripted", "FAIL", "ERROR")
    ] * 2
    assert found["registered"]["fault_table"]["policy_exception"] == "FAIL"
    assert found["used"]["fault_table"]["policy_exception"] == "ERROR"
    assert {path: path.read_bytes() for path in campaign.rglob("*") if path.is_file()} == before
    assert api.verify(campaign).exit_code == 0


def test_another_denominator_gives_another_rate_and_the_same_outcomes(
    campaign: Path, tmp_path: Path, plan: Callable[[str], Path]
) -> None:
    found = reanalyse(
        campaign,
        reason="x",
        to=tmp_path / "s.json",
        plan=plan('[analysis]\nconfidence = 0.9\ndenominator = "valid"\n'),
    )
    assert found["changed_outcomes"] == [] and found["analysis"]["plan"]["confidence"] == 0.9
    assert found["used"]["analysis"]["denominator"] == "valid"


def test_nothing_but_a_correction_is_a_re_analysis(
    campaign: Path, tmp_path: Path, plan: Callable[[str], Path]
) -> None:
    for given in ({}, {"grader": "installed"}, {"plan": plan("[analysis]\nconfidence = 0.95\n")}):
        error = _refused(lambda given=given: reanalyse(campaign, reason="x", to=tmp_path / "s.json", **given))
        assert isinstance(error, UsageError) and error.code == "nothing_corrected"
    assert not (tmp_path / "s.json").exists()


@pytest.mark.parametrize(
    "text",
    [
        "[suite]\nrepeats = 1\n",
        "claims = []\n",
        "[analysis]\ndenominator = 'measurde'\n",
        "[analysis]\ncomparisons = [['null', 'nul']]\n",
        "[fault_table]\npolicy_exception = 'PASS'\n",
        "[fault_table]\nsimulator_crash = 'FAIL'\n",
        "[fault_table]\nno_such_fault = 'FAIL'\n",
        "no toml",
    ],
)
def test_a_plan_that_is_none_or_changes_anything_else_is_refused(
    campaign: Path, tmp_path: Path, plan: Callable[[str], Path], text: str
) -> None:
    error = _refused(lambda: reanalyse(campaign, reason="x", to=tmp_path / "s.json", plan=plan(text)))
    assert isinstance(error, ProtocolError)


def test_a_re_analysis_stays_outside_the_campaign_has_a_reason_and_is_written_once(
    campaign: Path, tmp_path: Path, plan: Callable[[str], Path]
) -> None:
    valid = plan('[analysis]\ndenominator = "valid"\n')
    for to, reason in ((campaign / "s.json", "x"), (tmp_path / "s.json", " "), (tmp_path / "s.json", "x" * 2001)):
        error = _refused(lambda to=to, reason=reason: reanalyse(campaign, reason=reason, to=to, plan=valid))
        assert isinstance(error, UsageError)
    reanalyse(campaign, reason="x", to=tmp_path / "s.json", plan=valid)
    first = (tmp_path / "s.json").read_bytes()
    _refused(lambda: reanalyse(campaign, reason="y", to=tmp_path / "s.json", plan=valid))
    assert (tmp_path / "s.json").read_bytes() == first


def test_damaged_evidence_is_not_read_again(campaign: Path, tmp_path: Path, plan: Callable[[str], Path]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(campaign, copy)
    (copy / "rows.jsonl").write_bytes(b"")
    valid = plan('[analysis]\ndenominator = "valid"\n')
    error = _refused(lambda: reanalyse(copy, reason="x", to=tmp_path / "s.json", plan=valid))
    assert isinstance(error, EvidenceError)


def test_the_command_prints_that_nothing_stands_on_it(
    campaign: Path, tmp_path: Path, plan: Callable[[str], Path]
) -> None:
    command = [
        sys.executable, "-m", "trialplate.cli", "reanalyse", str(campaign), "--reason", "a broken disk", "--out",
        str(tmp_path / "s.json"), "--plan", str(plan('[fault_table]\npolicy_exception = "EXCLUDED"\n')),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "SECONDARY: the evidence under lock" in said and "this licenses no claim" in said
    assert "2 trials have another outcome" in said
    assert json.loads((tmp_path / "s.json").read_bytes())["reason"] == "a broken disk"
