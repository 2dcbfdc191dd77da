"""The script of the page about skills recomputes rates and distances from raw traces, as the score has them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pages import DOCS, blocks

from trialplate import api
from trialplate.record import Outcome, Status
from trialplate.scoring.skill_summary import summarise_skill
from trialplate.store.view import read_campaign
from trialplate.suites.atomic_skills import SUITE
from trialplate.suites.atomic_skills.cases import nominal_cases, scenario_of
from trialplate.suites.atomic_skills.scoring import score

HAND_OVER = nominal_cases()["hand_over"][0]
MOVES = [case["case_id"] for case in nominal_cases()["move_joints"][:3]]
PROTOCOL = f"""
schema = "trialplate.protocol/1"
name = "by-hand"
question = "Do rates follow from raw traces?"
run_class = "development"

[suite]
name = "atomic-skills"
version = "1"
scenarios = {json.dumps([HAND_OVER["case_id"], *MOVES])}

[[arms]]
name = "base"
policy = "control:baseline"

[[arms]]
name = "one-hand"
policy = "one_hand.py:OneHand"
"""
ONE_HAND = f"""
from trialplate.suites.atomic_skills.planners.baseline import Baseline
from trialplate.suites.atomic_skills.planners.negative import Negative


class OneHand(Baseline):
    id = "one-hand"
    capabilities = frozenset({{"single_arm", "parallel_gripper"}})

    def plan(self, case):
        return Negative().plan(case) if case.case_id == {MOVES[1]!r} else super().plan(case)
"""


def script() -> str:
    """Return the script of the page, as printed."""
    (found,) = (body for body in blocks(DOCS / "suites" / "atomic-skills.md", "python") if "nominal.json" in body)
    return found


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("by-hand")
    (folder / "protocol.toml").write_text(PROTOCOL, encoding="utf-8")
    (folder / "one_hand.py").write_text(ONE_HAND, encoding="utf-8")
    lock = api.lock(api.load_protocol(folder / "protocol.toml"), into=folder / "lock.json")
    return api.run(lock, into=folder / "campaign").folder


def printed(folder: Path, campaign: Path) -> tuple[dict[tuple[str, str], float], dict[str, list[str]]]:
    """Run the script as a reader does; return (arm, case) -> how far off, and arm -> its rates, as printed."""
    path = folder / "by_hand.py"
    path.write_text(script(), encoding="utf-8")
    done = subprocess.run([sys.executable, path, campaign], capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    missed = {(line[0], line[1]): float(line[2]) for line in lines if len(line) == 3}
    return missed, {line[0]: line[1:] for line in lines if len(line) == 4}


def last_value(outcome: Outcome) -> float:
    """Return what the score measured at the last stage that it reached."""
    assert outcome.skill is not None
    part = [stage for stage in outcome.skill.stages if stage.reached][-1].parts[-1]
    return part.value


def test_row_20_the_script_of_the_page_counts_and_divides_as_the_score_does(campaign: Path, tmp_path: Path) -> None:
    missed, rates = printed(tmp_path, campaign)
    outcomes = api.score(campaign)
    assert set(rates) == {"base", "one-hand"}
    for arm, told in rates.items():
        own = [outcome for outcome in outcomes if outcome.arm == arm]
        summary = summarise_skill(own, total=4, stages=tuple(SUITE.ladders["hand_over"]))
        assert told == [str(summary.measured), str(summary.coverage_rate), str(summary.success_rate)]
    assert rates["one-hand"] == ["3", "0.75", str(2 / 3)]
    replayed = [outcome for outcome in outcomes if outcome.status is not Status.EXCLUDED]
    assert len(replayed) == len(missed) == 7
    for outcome in replayed:
        difference = missed[outcome.arm, outcome.scenario] - last_value(outcome)
        assert abs(difference) <= 1e-12, (outcome.arm, outcome.scenario)
    space: dict[str, Any] = {"__name__": "page"}
    exec(script(), space)
    measured, coverage, success = space["rates"](48, 17, 23)
    assert (measured, round(coverage, 4), round(success, 4)) == (31, 0.6458, 0.7419)
    assert space["rates"](2, 2, 0) == (0, 0.0, None)


@pytest.mark.parametrize(
    ("beside_m", "passes"),
    [([0.0, 0.029, 0.0], True), ([0.0, 0.031, 0.0], False), ([0.01, 0.0, 0.1], False)],
    ids=["2.9 cm", "3.1 cm", "1 cm and 10 cm higher"],
)
def test_row_26_the_script_of_the_page_measures_a_hand_over_in_space_as_the_score_does(
    campaign: Path, tmp_path: Path, beside_m: list[float], passes: bool
) -> None:
    view = read_campaign(campaign)
    row = next(row for row in view.rows if (row.arm, row.scenario) == ("base", HAND_OVER["case_id"]))
    place = np.array(HAND_OVER["command"]["target_m"]) + beside_m
    trace = view.load_trace(row)
    poses = trace.measured["obj_pose"].copy()
    poses[-1, :3] = place
    scored = score(
        replace(row, trace=None), replace(trace, measured={**trace.measured, "obj_pose": poses}),
        scenario=scenario_of(HAND_OVER), settings=SUITE.settings, fault_table=SUITE.fault_table,
    )  # fmt: skip
    assert (scored.status is Status.PASS) == passes
    copy = tmp_path / "campaign"
    episode = f"episodes/{row.trial_id}-0"
    shutil.copytree(campaign / episode, copy / episode)
    path = copy / episode / "trace.parquet"
    table = pq.read_table(path)
    index = table.schema.get_field_index("obj_pose")
    moved = pa.FixedSizeListArray.from_arrays(pa.array(poses.ravel()), poses.shape[1])
    path.chmod(0o644)
    pq.write_table(table.set_column(index, "obj_pose", moved), path)
    missed, rates = printed(tmp_path, copy)
    assert abs(missed["base", HAND_OVER["case_id"]] - last_value(scored)) <= 1e-12
    assert rates == {"base": ["1", "1.0", "1.0" if passes else "0.0"]}
