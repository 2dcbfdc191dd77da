"""What a wrong argument costs: exit code 2, one clear message, and nothing written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trialplate import api


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trialplate.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("command", ["score", "analyse", "judge", "report", "show", "verify"])
def test_a_campaign_that_is_not_there_is_bad_input(tmp_path: Path, command: str) -> None:
    done = _run(command, tmp_path / "absent")
    assert done.returncode == 2 and done.stderr.startswith("trialplate: no campaign at")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["score", "analyse", "judge", "report", "show"])
def test_a_folder_that_is_no_campaign_is_bad_input(tmp_path: Path, command: str) -> None:
    (tmp_path / "notes.txt").write_text("nothing", encoding="utf-8")
    done = _run(command, tmp_path, "--json")
    assert done.returncode == 2 and json.loads(done.stdout)["error"] == "no_campaign"
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_campaign_that_is_still_packed_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "c.zip").write_bytes(b"PK")
    done = _run("analyse", tmp_path / "c.zip")
    assert done.returncode == 2 and "unpack it first" in done.stderr


def test_evidence_that_was_changed_is_no_bad_input_but_a_no(toy_protocol: Path, tmp_path: Path) -> None:
    api.run(api.lock(api.load_protocol(toy_protocol), into=tmp_path / "c"))
    row = tmp_path / "c" / "episodes" / "000000-0" / "row.json"
    row.chmod(0o644)
    row.write_bytes(row.read_bytes().replace(b'"calls":', b'"calls":1'))
    done = _run("analyse", tmp_path / "c")
    assert done.returncode == 1 and "hash_mismatch" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ('question = "Does', 'question = "Do\\u0000es', "question"),
        ('name = "scripted-half"', 'name = "scripted-half"\nnote = "\\u0000"', "claims[0].note"),
        ("[schedule]", '["sche\\u0000dule"]', ""),
    ],
)
@pytest.mark.parametrize("command", ["lock", "validate"])
def test_a_nul_character_is_a_mistake_of_the_protocol(
    toy_protocol: Path, tmp_path: Path, command: str, old: str, new: str, path: str
) -> None:
    text = toy_protocol.read_text(encoding="utf-8")
    assert old in text
    toy_protocol.write_text(text.replace(old, new), encoding="utf-8")
    more = ("--out", tmp_path / "c") if command == "lock" else ()
    done = _run(command, toy_protocol, *more, "--json")
    faults = json.loads(done.stdout)["faults"]
    assert done.returncode == 2 and [fault["path"] for fault in faults] == [path]
    assert "NUL" in faults[0]["message"] and not (tmp_path / "c").exists()
