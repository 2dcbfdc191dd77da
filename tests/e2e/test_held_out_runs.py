"""Held-out scenarios from the ledger to the claim: unspent they are claimed on, spent they make a development run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trialplate import api, exam
from trialplate.errors import LockError, ProtocolError
from trialplate.held_out import holdout_findings
from trialplate.lock import Lock, run_class
from trialplate.store.holdouts import Ledger, open_pack, read_ledger, register_pack
from trialplate.testing.toy import TOY

PROTOCOL = """
schema = "trialplate.protocol/1"
name = "held-out"
question = "Does the scripted arm carry the block on scenarios that nobody worked on?"
run_class = "confirmatory"
holdouts = "holdouts.jsonl"

[suite]
name = "toy"
version = "1"

[[arms]]
name = "scripted"
policy = "control:scripted"

[[claims]]
name = "half"
kind = "threshold_rate"
arm = "scripted"
rate = 0.5
"""


def _cli(*arguments: str | Path, expected: int = 0) -> Any:
    command = [sys.executable, "-m", "trialplate.cli", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == expected, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A folder with the protocol and a ledger in which its scenarios are held out."""
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "protocol.toml").write_text(PROTOCOL, encoding="utf-8")
    scenarios = {scenario.id: scenario.sha256() for scenario in TOY.scenarios()}
    register_pack(folder / "holdouts.jsonl", author="another lab", suite="toy", version="1", scenarios=scenarios)
    return folder


def _lock(study: Path, name: str = "c", **edits: str) -> Lock:
    text = PROTOCOL
    for old, new in edits.items():
        text = text.replace(old, new)
    (study / "protocol.toml").write_text(text, encoding="utf-8")
    return api.lock(api.load_protocol(study / "protocol.toml"), into=study.parent / name)


def _pack(study: Path) -> str:
    (sha256,) = read_ledger(study / "holdouts.jsonl").packs
    return sha256


def test_an_unspent_pack_is_recorded_in_the_lock_and_opened_by_it(study: Path) -> None:
    before = read_ledger(study / "holdouts.jsonl")
    lock = _lock(study)
    said = lock.document["holdouts"]
    assert (said["ledger"], said["head_sha256"], said["records"]) == ("holdouts.jsonl", before.head_sha256, 1)
    (entry,) = said["packs"]
    assert (entry["pack_sha256"], entry["author"], entry["spent"]) == (_pack(study), "another lab", None)
    (opening,) = read_ledger(study / "holdouts.jsonl").packs[_pack(study)].openings
    assert (opening.purpose, opening.lock_sha256) == ("locked_run", lock.sha256)
    again = _lock(study, "d")
    assert run_class(again.document) == "confirmatory"  # a locked run spends nothing


def test_a_claim_on_an_unspent_pack_is_supported_and_on_a_spent_one_ineligible(study: Path) -> None:
    folder = study.parent
    exam.qualify("toy", into=folder / "q")
    fresh = _lock(study)
    open_pack(study / "holdouts.jsonl", _pack(study), purpose="inspection")
    spent = _lock(study, "late")
    assert run_class(spent.document) == "development"
    (purpose,) = [entry["spent"]["purpose"] for entry in spent.document["holdouts"]["packs"]]
    assert purpose == "inspection"
    for lock in (fresh, spent):
        api.run(lock)
    (claim,) = exam.judge_campaign(folder / "c", qualification=folder / "q")
    assert claim.verdict == "supported"
    (claim,) = exam.judge_campaign(folder / "late", qualification=folder / "q")
    assert (claim.verdict, claim.reasons) == ("ineligible", ("holdout_spent", "not_confirmatory"))
    assert "opened for something else before this lock" in claim.sentence
    for name in ("c", "late"):
        assert exam.verify(folder / name, qualification=folder / "q").exit_code == 0  # it says honestly what it is
    page = api.report(folder / "late", [claim], to=folder / "report.html").read_text(encoding="utf-8")
    assert "registered as held out by another lab, and opened for inspection before the lock" in page
    assert _cli("show", folder / "late")["run_class"] == "development"
    summary = json.loads((folder / "late" / "summary.json").read_bytes())
    assert summary["protocol"]["run_class"] == "development"


@pytest.mark.parametrize("kind", ["development", "calibration", "pilot"])
def test_a_run_of_another_class_spends_the_pack_even_where_its_protocol_does_not_name_the_ledger(
    study: Path, kind: str
) -> None:
    _lock(
        study, "try", **{'run_class = "confirmatory"': f'run_class = "{kind}"', 'holdouts = "holdouts.jsonl"\n': ""}
    )
    spent = read_ledger(study / "holdouts.jsonl").packs[_pack(study)].spent
    assert spent is not None and spent.purpose == kind
    assert run_class(_lock(study).document) == "development"


def test_one_scenario_of_the_pack_in_a_development_run_spends_it(study: Path) -> None:
    some = {
        'run_class = "confirmatory"': 'run_class = "development"', 'holdouts = "holdouts.jsonl"\n': "",
        'version = "1"': 'version = "1"\nscenarios = ["toy-003"]',
    }  # fmt: skip
    _lock(study, "try", **some)
    assert read_ledger(study / "holdouts.jsonl").packs[_pack(study)].spent is not None


def test_a_protocol_that_claims_a_holdout_which_nobody_registered_is_refused(study: Path) -> None:
    with pytest.raises(LockError) as caught:
        _lock(study, **{'version = "1"': 'version = "1"\nscenarios = ["toy-003"]'})
    assert caught.value.code == "holdout_unregistered" and not (study.parent / "c").exists()
    (study / "holdouts.jsonl").unlink()
    with pytest.raises(ProtocolError, match=r"no ledger 'holdouts\.jsonl'"):
        _lock(study)


def test_a_lock_without_any_ledger_says_so(study: Path) -> None:
    (study / "holdouts.jsonl").unlink()
    document = _lock(study, **{'holdouts = "holdouts.jsonl"\n': ""}).document
    assert (document["holdouts"], document["holdouts_reason"]) == (None, "no_ledger")
    assert holdout_findings(Ledger(), document, "a" * 64) == []


# -- the ledger brought by a reader ----------------------------------------------------------------------------


def _codes(ledger: Ledger, lock: Lock, **edits: Any) -> list[str]:
    section = {**lock.document["holdouts"], **edits}
    return [item.code for item in holdout_findings(ledger, {**lock.document, "holdouts": section}, lock.sha256)]


def test_a_lock_that_hides_that_its_pack_was_spent_is_caught_by_the_ledger(study: Path) -> None:
    open_pack(study / "holdouts.jsonl", _pack(study), purpose="inspection")
    lock = _lock(study)
    ledger = read_ledger(study / "holdouts.jsonl")
    assert _codes(ledger, lock) == []
    hidden = [{**entry, "spent": None} for entry in lock.document["holdouts"]["packs"]]
    assert _codes(ledger, lock, packs=hidden) == ["holdout_spent"]


def test_a_lock_that_looked_into_another_ledger_or_is_not_recorded_is_a_mismatch(study: Path, tmp_path: Path) -> None:
    first = read_ledger(study / "holdouts.jsonl")
    lock = _lock(study)
    assert _codes(first, lock) == ["expected_mismatch"]  # the ledger was rolled back: no opening by this lock
    assert _codes(Ledger(), lock) == ["expected_mismatch"]
    assert _codes(read_ledger(study / "holdouts.jsonl"), lock, head_sha256="e" * 64) == ["expected_mismatch"]


def test_a_pack_spent_after_the_lock_does_not_touch_it(study: Path) -> None:
    lock = _lock(study)
    open_pack(study / "holdouts.jsonl", _pack(study), purpose="inspection")
    assert _codes(read_ledger(study / "holdouts.jsonl"), lock) == []


# -- the command -----------------------------------------------------------------------------------------------


def test_a_pack_is_registered_opened_and_listed_from_the_command_line(tmp_path: Path) -> None:
    ledger = tmp_path / "holdouts.jsonl"
    names = [part for name in ("toy-001", "toy-002") for part in ("--scenario", name)]
    made = _cli("holdout", "register", "toy", *names, "--author", "another lab", "--ledger", ledger)
    assert made["scenarios"] == ["toy-001", "toy-002"] and made["spent"] is False
    sealed = _cli("holdout", "register", "--pack", "a" * 64, "--author", "a notary", "--ledger", ledger)
    assert sealed["scenarios"] is None
    opened = _cli("holdout", "open", made["pack_sha256"][:12], "--purpose", "pilot", "--ledger", ledger)
    assert opened["spent"] is True
    listed = _cli("holdout", "list", "--ledger", ledger)
    assert [pack["spent"] for pack in listed["packs"]] == [True, False]
    assert listed["head_sha256"] == read_ledger(ledger).head_sha256


@pytest.mark.parametrize(
    "arguments",
    [
        ["register", "--author", "x"],
        ["register", "toy", "--pack", "a" * 64, "--author", "x"],
        ["register", "toy", "--scenario", "toy-099", "--author", "x"],
        ["open", "a" * 64, "--purpose", "inspection"],
        ["open", "a" * 64, "--purpose", "locked_run"],
        ["open", "a", "--purpose", "inspection"],
        ["list", "--ledger", "none.jsonl"],
    ],
)
def test_what_the_ledger_cannot_take_is_one_message_and_exit_code_2(
    study: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(study)
    assert _cli("holdout", *arguments, expected=2)["message"]


def test_locking_on_a_spent_pack_says_so(study: Path) -> None:
    open_pack(study / "holdouts.jsonl", _pack(study), purpose="inspection")
    command = [
        sys.executable,
        "-m",
        "trialplate.cli",
        "lock",
        str(study / "protocol.toml"),
        "--out",
        str(study / "c"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "DEVELOPMENT: pack" in done.stdout and "opened for inspection" in done.stdout
