"""Row 51 of the evidence specification: SIGTERM and SIGINT in mid-episode."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trialplate import api
from trialplate.store.view import CampaignView, read_campaign

DREAMER = """
import time
from pathlib import Path
from trialplate.testing.toy import Scripted

HERE = Path(__file__).parent


class Arm(Scripted):
    def act(self, observation):
        if not (HERE / "go").exists():
            (HERE / "asleep").touch()
            time.sleep(60)
        return super().act(observation)
"""
STUBBORN = DREAMER.replace(
    "            time.sleep(60)\n",
    "            while True:\n                try:\n                    time.sleep(60)\n"
    "                except BaseException:\n                    pass\n",
)


def _lock(toy_protocol: Path, tmp_path: Path, arm: str) -> Path:
    (toy_protocol.parent / "mine.py").write_text(arm, encoding="utf-8")
    text = toy_protocol.read_text(encoding="utf-8").replace("control:scripted", "mine.py:Arm")
    text = text.replace("repeats = 2", "repeats = 1")
    toy_protocol.write_text(text, encoding="utf-8")
    return api.lock(api.load_protocol(toy_protocol), into=tmp_path / "lock.json").path


def _signalled(
    lock_file: Path, folder: Path, number: signal.Signals, *options: str, group: bool = False, times: int = 1
) -> tuple[int, str]:
    """Start a run, send signals while an arm sleeps in mid-episode, and return exit code and stderr."""
    asleep = next(lock_file.parent.rglob("mine.py")).with_name("asleep")
    process = subprocess.Popen(
        [sys.executable, "-m", "trialplate.cli", "run", str(lock_file), "--out", str(folder), *options],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    until_s = time.monotonic() + 60
    while not asleep.exists() and time.monotonic() < until_s:
        time.sleep(0.01)
    assert asleep.exists(), "no arm was asked anything"
    for _ in range(times):
        time.sleep(0.1)
        os.killpg(process.pid, number) if group else process.send_signal(number)
    _, said = process.communicate(timeout=60)
    return process.returncode, said


def _assert_interrupted(view: CampaignView, lock_file: Path) -> None:
    """The attempt in flight is an ERROR, the close says why, and the rest can be run."""
    close = view.records[-1]
    assert (close["type"], close["data"]["complete"], close["data"]["reason"]) == ("run.close", False, "interrupted")
    interrupted = [row for row in view.rows if row.termination == "interrupted"]
    assert interrupted and {row.arm for row in interrupted} >= {"scripted"} and view.interrupted == ()
    statuses = {outcome.trial_id: outcome.status for outcome in api.score(view.folder)}
    assert {statuses[row.trial_id] for row in interrupted} == {"ERROR"}
    verdict = api.verify(view.folder)
    assert verdict.exit_code == 3 and {item.code for item in verdict.findings} == {"coverage_incomplete"}
    next(lock_file.parent.rglob("mine.py")).with_name("go").touch()
    again = api.run(lock_file, into=view.folder, resume=True)
    assert again.report is not None and again.report.complete
    api.score(view.folder)
    assert api.verify(view.folder).exit_code == 0


@pytest.mark.parametrize(
    ("number", "options", "group"),
    [
        (signal.SIGTERM, ("--executor", "serial"), False),
        (signal.SIGINT, ("--executor", "serial"), False),
        (signal.SIGTERM, ("--executor", "processes"), False),
        (signal.SIGTERM, ("--executor", "processes", "--workers", "2"), True),
        (signal.SIGINT, ("--executor", "processes", "--workers", "2"), True),
    ],
    ids=["TERM serial", "INT serial", "TERM with a worker", "TERM to the group", "INT to the group"],
)
def test_row_51_a_signal_in_mid_episode_ends_it_as_interrupted_and_closes_the_run(
    toy_protocol: Path, tmp_path: Path, number: signal.Signals, options: tuple[str, ...], group: bool
) -> None:
    lock_file = _lock(toy_protocol, tmp_path, DREAMER)
    code, said = _signalled(lock_file, tmp_path / "c", number, *options, group=group)
    assert code == 1 and "Traceback" not in said, said
    _assert_interrupted(read_campaign(tmp_path / "c"), lock_file)


def test_row_51_an_arm_that_swallows_the_signal_does_not_swallow_the_second(
    toy_protocol: Path, tmp_path: Path
) -> None:
    lock_file = _lock(toy_protocol, tmp_path, STUBBORN)
    code, _ = _signalled(lock_file, tmp_path / "c", signal.SIGTERM, "--executor", "serial", times=2)
    assert code == 130
    view = read_campaign(tmp_path / "c")
    assert len(view.interrupted) == 1 and view.complete is None, "started, and durable; its end is still to be told"
    next(lock_file.parent.rglob("mine.py")).with_name("go").touch()
    again = api.run(lock_file, into=tmp_path / "c", resume=True)
    assert again.report is not None and again.report.complete
    assert api.verify(tmp_path / "c").exit_code == 0
