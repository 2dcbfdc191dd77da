"""The main job on the real suite: same bytes for any workers, kills, pictures, and a report that needs no network."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trialplate import api, exam
from trialplate.store.view import read_campaign

PROTOCOL = """
schema = "trialplate.protocol/1"
name = "sample"
question = "Does a sample of pick-place behave?"
run_class = "development"
[suite]
name = "pick-place"
version = "1"
scenarios = ["pp-001", "pp-021", "pp-044"]
[[arms]]
name = "null"
policy = "control:null"
[[arms]]
name = "scripted"
policy = "control:scripted"
replan_interval = 8
[[arms]]
name = "oracle"
policy = "control:oracle"
replan_interval = 8
[schedule]
interrupted = "replace"
"""


@pytest.fixture
def lock_file(tmp_path: Path) -> Path:
    """A lock of nine trials."""
    path = tmp_path / "sample.toml"
    path.write_text(PROTOCOL, encoding="utf-8")
    return api.lock(api.load_protocol(path), into=tmp_path / "lock.json").path


@pytest.mark.gl
def test_a_sample_campaign_from_lock_to_report(lock_file: Path, tmp_path: Path) -> None:
    results = []
    for workers in (1, 2):
        folder = tmp_path / f"workers-{workers}"
        api.run(lock_file, into=folder, workers=workers)
        outcomes = api.score(folder)
        results.append((folder / "results.jsonl").read_bytes())
    assert results[0] == results[1]
    passed = {arm: sum(o.status == "PASS" for o in outcomes if o.arm == arm) for arm in ("null", "oracle")}
    assert passed == {"null": 0, "oracle": 3}
    claims = exam.judge_campaign(folder)
    assert api.verify(folder).exit_code == 0
    page = api.report(folder, claims, to=tmp_path / "report.html").read_text(encoding="utf-8")
    assert "data:image/jpeg;base64," in page
    assert not re.search(r'(?:src|href)="https?://', page)
    first = next(o for o in outcomes if o.arm == "oracle")
    mp4, strip = api.render(folder, first.trial_id, into=tmp_path / "pictures", size_px=128)
    assert mp4.read_bytes()[4:8] == b"ftyp"
    assert strip.read_bytes()[:2] == b"\xff\xd8"


@pytest.mark.slow
@pytest.mark.gl
def test_a_killed_campaign_resumes_to_the_bytes_of_a_calm_one(lock_file: Path, tmp_path: Path) -> None:
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    api.run(lock_file, into=calm, workers=2)
    api.score(calm)
    draw = random.Random(5)
    command = [sys.executable, "-m", "trialplate.cli", "run", str(lock_file), "--out", str(killed), "--workers", "2"]
    for _ in range(3):
        resume = ["--resume"] if (killed / "journal.jsonl").exists() else []
        process = subprocess.Popen([*command, *resume], start_new_session=True, stderr=subprocess.DEVNULL)
        begun = killed / "episodes"
        before = len(list(begun.glob("*"))) if begun.exists() else 0
        while process.poll() is None and (len(list(begun.glob("*"))) if begun.exists() else 0) <= before:
            time.sleep(0.005)
        time.sleep(draw.uniform(0.0, 0.1))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    api.run(lock_file, into=killed, workers=2, resume=True)
    api.score(killed)
    assert (killed / "results.jsonl").read_bytes() == (calm / "results.jsonl").read_bytes()
    assert api.verify(killed).exit_code == 0
    assert any(row.termination == "interrupted" for row in read_campaign(killed).rows)
