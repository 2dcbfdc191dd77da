"""Rows 8, 22 and 23 of the atomic skills specification, section 16: one trial of a run breaks, the others count."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from trialplate import api
from trialplate.cli import app
from trialplate.cli.output import NO, YES, guarded
from trialplate.lock import Lock
from trialplate.record import Event, Outcome, Status
from trialplate.store.view import read_campaign
from trialplate.testing.toy_skills import ToyRail

CASES = ("pick_up-1", "pick_up-2", "move_joints-1")
PROTOCOL = """
schema = "trialplate.protocol/1"
name = "breaks"
question = "What is left when one trial breaks?"
run_class = "development"

[suite]
name = "toy-skills"
version = "1"
scenarios = ["pick_up-1", "pick_up-2", "move_joints-1"]

[[arms]]
name = "mine"
policy = "mine.py:Mine"

[schedule]
order = "manifest"
"""
PLANNER = """
import time
from pathlib import Path

from trialplate import SkillPlan
from trialplate.testing.toy_skills import Baseline


class Mine(Baseline):
    id = "mine"

    def plan(self, case):
        plan = super().plan(case)
        if case.case_id == "pick_up-2":
            {breaks}
        return plan
"""
WHOLE = "pass"
LACKS_A_SEGMENT = 'del plan.segments["lift"]'
NEVER_RETURNS = "Path({marker!r}).touch(); time.sleep(600)"


def lock(folder: Path, breaks: str) -> Lock:
    """Lock three cases and a planner that may break at the second."""
    (folder / "protocol.toml").write_text(PROTOCOL, encoding="utf-8")
    (folder / "mine.py").write_text(PLANNER.format(breaks=breaks), encoding="utf-8")
    return api.lock(api.load_protocol(folder / "protocol.toml"), into=folder / "lock.json")


def told(campaign: Path) -> list[tuple[str, str, str | None]]:
    """Return status, reason and detail of every trial."""
    return [
        (outcome.status.value, outcome.reason, outcome.skill.failure_detail if outcome.skill else None)
        for outcome in api.score(campaign)
    ]


def second(campaign: Path) -> Outcome:
    (found,) = (outcome for outcome in api.score(campaign) if outcome.scenario == "pick_up-2")
    return found


PASSED = ("PASS", "chain_complete", None)


def test_row_08_a_plan_without_a_segment_is_an_error_of_its_trial_and_the_run_says_no(tmp_path: Path) -> None:
    campaign = tmp_path / "campaign"
    assert guarded(app, ["run", str(lock(tmp_path, LACKS_A_SEGMENT).path), "--out", str(campaign)]) == NO
    assert told(campaign) == [PASSED, ("ERROR", "invalid_case", "missing_segment"), PASSED]
    found = second(campaign)
    assert (found.stages, found.first_failed_stage) == ((), None) and "lift" in found.notes[0]


def test_a_run_in_which_nothing_breaks_says_yes(tmp_path: Path) -> None:
    campaign = tmp_path / "campaign"
    assert guarded(app, ["run", str(lock(tmp_path, WHOLE).path), "--out", str(campaign)]) == YES
    assert told(campaign) == [PASSED] * 3


@pytest.mark.parametrize("detail", ["replay_crash", "replay_diverged"])
def test_row_22_a_world_that_breaks_ends_one_trial_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, detail: str
) -> None:
    locked = lock(tmp_path, WHOLE)
    step = ToyRail.step

    def breaks(world: ToyRail, action: Any) -> Event | None:
        done = step(world, action)
        if world._case["case_id"] == "pick_up-2":
            if detail == "replay_crash":
                raise RuntimeError("the solver gave up")
            world._q[0] = float("nan")
        return done

    monkeypatch.setattr(ToyRail, "step", breaks)
    campaign = api.run(locked, into=tmp_path / "campaign", executor="serial").folder
    assert told(campaign) == [PASSED, ("ERROR", "invalid_case", detail), PASSED]
    assert api.verify(campaign).exit_code == 0


def test_row_23_a_run_killed_during_a_trial_leaves_it_started_and_reads_it_as_interrupted(tmp_path: Path) -> None:
    marker, campaign = tmp_path / "planning", tmp_path / "campaign"
    path = lock(tmp_path, NEVER_RETURNS.format(marker=str(marker))).path
    command = [sys.executable, "-m", "trialplate.cli", "run", path, "--out", campaign, "--executor", "serial"]
    run = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )  # the planner is a process of the same session
    try:
        deadline = time.monotonic() + 60
        while not marker.exists() and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert marker.exists()
        run.send_signal(signal.SIGKILL)
        assert run.wait(timeout=30) == -signal.SIGKILL
    finally:
        _end_session(run.pid)
    view = read_campaign(campaign)
    assert [row.scenario for row in view.rows] == ["pick_up-1"]
    assert view.load_trace(view.rows[0]).steps > 0
    started = [record["data"]["trial_id"] for record in view.records if record["type"] == "attempt.start"]
    assert len(started) == 2
    before = (campaign / "journal.jsonl").read_bytes()
    assert guarded(app, ["run", str(path), "--out", str(campaign), "--resume"]) == NO
    assert (campaign / "journal.jsonl").read_bytes().startswith(before)
    assert told(campaign) == [PASSED, ("ERROR", "invalid_case", "interrupted"), PASSED]
    again = [
        record["data"]["trial_id"] for record in read_campaign(campaign).records if record["type"] == "attempt.start"
    ]
    assert again[:2] == started and len(again) == len(set(again)) == 3
    assert second(campaign).status is Status.ERROR


def _end_session(leader: int) -> None:
    """End what is left of a session that this test began."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
