"""A broken campaign: `run --resume` moves it, repairs nothing, and says where it lies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden import snapshot
from trialplate import api
from trialplate.cli import app
from trialplate.cli.output import guarded

Said = pytest.CaptureFixture[str]


def _broken(toy_protocol: Path, folder: Path) -> Path:
    """A whole toy campaign in which one character of the journal was changed."""
    api.run(api.lock(api.load_protocol(toy_protocol), into=folder))
    journal = folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"attempt.start"', b'"attempt.stars"', 1))
    return folder


def test_a_broken_campaign_is_moved_whole_and_the_console_says_where(
    toy_protocol: Path, tmp_path: Path, capsys: Said
) -> None:
    folder = _broken(toy_protocol, tmp_path / "campaigns" / "c")
    before = snapshot(folder)
    assert guarded(app, ["run", str(folder), "--resume"]) == 1
    said = capsys.readouterr().err
    (kept,) = (tmp_path / "campaigns" / "quarantine").iterdir()
    assert str(kept / "c") in said and "Nothing was repaired" in said and "Traceback" not in said
    assert not folder.exists() and snapshot(kept / "c") == before
    assert json.loads((kept / "reason.json").read_bytes())["reason"] == "journal_broken"
    assert api.verify(kept / "c").exit_code == 1


def test_with_json_the_new_place_is_a_member(toy_protocol: Path, tmp_path: Path, capsys: Said) -> None:
    folder = _broken(toy_protocol, tmp_path / "c")
    assert guarded(app, ["run", str(folder), "--resume", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["error"] == "journal_broken"
    assert Path(answer["moved_to"]).parent.parent == tmp_path / "quarantine"


def test_without_resume_and_by_verify_nothing_is_moved(toy_protocol: Path, tmp_path: Path, capsys: Said) -> None:
    folder = _broken(toy_protocol, tmp_path / "c")
    before = snapshot(folder)
    for command in (["run", str(folder)], ["verify", str(folder)], ["score", str(folder)], ["show", str(folder)]):
        assert guarded(app, command) in (1, 2), command
    assert snapshot(folder) == before and not (tmp_path / "quarantine").exists()


def test_a_campaign_of_another_lock_is_refused_and_stays(toy_protocol: Path, tmp_path: Path, capsys: Said) -> None:
    folder = _broken(toy_protocol, tmp_path / "c")
    toy_protocol.write_text(toy_protocol.read_text().replace("repeats = 2", "repeats = 3"), encoding="utf-8")
    other = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "other.json")
    assert guarded(app, ["run", str(other.path), "--out", str(folder), "--resume"]) == 2
    assert folder.is_dir() and not (tmp_path / "quarantine").exists()
