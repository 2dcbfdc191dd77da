"""A held-out robot that is not on the machine: its domain is unknown, the rest runs, and the report says so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from trialplate import api
from trialplate.record import Status
from trialplate.suites.atomic_skills.world.robot import load_model

CASES = ("move_joints.arm_ur10e-0", "move_joints.layout_raised-0", "move_joints.q00")
PROTOCOL = f"""
schema = "trialplate.protocol/1"
name = "missing-robot"
question = "Does the skill hold on another arm?"
run_class = "development"

[suite]
name = "atomic-skills"
version = "1"
scenarios = {json.dumps(CASES)}

[[arms]]
name = "base"
policy = "control:baseline"

[schedule]
order = "manifest"
"""


def test_adaptability_is_null_for_a_missing_robot_and_the_rest_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MENAGERIE_ROOT", "MENAGERIE_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    load_model.cache_clear()
    path = tmp_path / "protocol.toml"
    path.write_text(PROTOCOL, encoding="utf-8")
    lock = api.lock(api.load_protocol(path), into=tmp_path / "lock.json")
    campaign = api.run(lock, into=tmp_path / "campaign")
    outcomes = {outcome.scenario: outcome for outcome in api.score(campaign)}
    lost = outcomes.pop(CASES[0])
    assert (lost.status, lost.reason) == (Status.ERROR, "reset_failed")
    assert lost.skill is not None and lost.skill.failure_detail == "asset_missing"
    assert "universal_robots_ur10e" in lost.notes[0] and "MENAGERIE_ROOT" in lost.notes[0]
    assert {outcome.status for outcome in outcomes.values()} == {Status.PASS}
    analysis = api.analyse((lost, *outcomes.values()), lock)
    assert analysis.skills is not None
    (moves,) = analysis.skills.arms[0].skills
    held = moves.adaptability
    assert moves.nominal is not None and moves.nominal.success_rate == 1 and held is not None
    assert (held.worst, held.mean, held.retention, held.eligible) == (None, None, None, None)
    assert (held.reason, held.domains["arm_ur10e"].success_rate) == ("asset_missing", None)
    assert held.domains["layout_raised"].success_rate == 1
    page = api.report(campaign, api.judge(analysis, lock), to=tmp_path / "report.html").read_text(encoding="utf-8")
    table = page.split("In held-out domains", 1)[1].split("</table>", 1)[0]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", table)
    assert cells[:4] == ["move_joints", "base", "–", "asset missing"]
    assert set(cells[4:8]) == {"N/A (asset missing)"}
    assert cells[-1] == "arm_ur10e not run, N/A (asset missing); layout_raised 1/1, 100\u00a0%"
    assert api.verify(campaign).exit_code == 0
