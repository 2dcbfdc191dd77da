"""A full disk, a read-only folder, no OpenGL: one clear message, and nothing that was durable is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trialplate import api
from trialplate.store.view import read_campaign


def _run(*arguments: str | Path, environment: dict[str, str] | None = None) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "trialplate.cli", *map(str, arguments)],
        capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **(environment or {})},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"this machine may not mount a small file system: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_stops_the_run_and_a_larger_disk_lets_it_go_on(
    toy_protocol: Path, tmp_path: Path, small_disk: Path
) -> None:
    lock = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "lock.json")
    folder = small_disk / "campaign"
    code, text = _run("run", lock.path, "--out", folder)
    assert code == 1, text
    assert "Traceback" not in text
    assert "No space left" in text
    kept = [row for row in read_campaign(folder).rows if row.termination != "interrupted"]
    assert 3 < len(kept) < 36
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    code, text = _run("run", lock.path, "--out", folder, "--resume")
    assert code == 0, text
    api.run(lock, into=tmp_path / "calm")
    api.score(folder), api.score(tmp_path / "calm")
    assert (folder / "results.jsonl").read_bytes() == (tmp_path / "calm" / "results.jsonl").read_bytes()
    assert api.verify(folder).exit_code == 0


def test_a_disk_that_is_full_while_locking_keeps_no_half_lock(
    toy_protocol: Path, tmp_path: Path, small_disk: Path
) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(392 * 1024))  # two pages are left: the folder and the first part of the lock
    code, text = _run("lock", toy_protocol, "--out", small_disk / "campaign")
    assert code == 1 and "No space left" in text and "Traceback" not in text
    assert not list((small_disk / "campaign").iterdir())
    filler.unlink()
    code, text = _run("lock", toy_protocol, "--out", small_disk / "campaign")
    assert code == 0, text
    assert [path.name for path in (small_disk / "campaign").iterdir()] == ["lock.json"]


def test_a_read_only_folder_is_refused_by_name(toy_protocol: Path, tmp_path: Path, small_disk: Path) -> None:
    lock = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "lock.json")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    code, text = _run("run", lock.path, "--out", small_disk / "campaign")
    assert code in (1, 2)
    assert "Traceback" not in text
    assert str(small_disk / "campaign") in text.replace("\n", "")


def test_an_output_below_a_file_is_refused_by_name(toy_protocol: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    code, text = _run("lock", toy_protocol, "--out", tmp_path / "file" / "campaign")
    assert code in (1, 2)
    assert "Traceback" not in text
    assert "file" in text


def test_without_opengl_everything_but_cameras_works_and_the_advice_is_printed(tmp_path: Path) -> None:
    text = """
schema = "trialplate.protocol/1"
name = "blind"
question = "Does it run without OpenGL?"
run_class = "development"
[suite]
name = "pick-place"
version = "1"
scenarios = ["pp-001"]
[[arms]]
name = "oracle"
policy = "control:oracle"
replan_interval = 8
"""
    (tmp_path / "blind.toml").write_text(text, encoding="utf-8")
    camera_arm = text.replace("oracle", "scripted")
    (tmp_path / "seeing.toml").write_text(camera_arm, encoding="utf-8")
    no_gl = {"MUJOCO_GL": "disable"}
    assert _run("lock", tmp_path / "blind.toml", "--out", tmp_path / "c", environment=no_gl)[0] == 0
    code, said = _run("run", tmp_path / "c", environment=no_gl)
    assert code == 0, said
    code, said = _run("report", tmp_path / "c", "--out", tmp_path / "r.html", environment=no_gl)
    assert code == 0, said
    code, said = _run("lock", tmp_path / "seeing.toml", "--out", tmp_path / "d", "--json", environment=no_gl)
    assert code == 2
    answer = json.loads(said)
    assert answer["error"] == "unavailable"
    assert "libegl1" in answer["message"]
    assert "scripted" in answer["message"]
