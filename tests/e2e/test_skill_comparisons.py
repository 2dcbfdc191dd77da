"""Rows 40 and 47 of the atomic skills specification, section 16: what may run on a lock, and what may be compared."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from trialplate import api
from trialplate.canonical import canonical_json
from trialplate.cli import app
from trialplate.cli.output import BAD_INPUT, NO, YES, guarded
from trialplate.comparison import DIFFERENT_SIMULATOR, conditions_that_differ
from trialplate.lock import Lock
from trialplate.testing import toy_skills

PROTOCOL = """
schema = "trialplate.protocol/1"
name = "two-runs"
question = "May these be compared?"
run_class = "development"

[suite]
name = "{suite}"
version = "1"
scenarios = ["{case}"]

[[arms]]
name = "base"
policy = "control:baseline"
"""


def lock(folder: Path, *, suite: str, case: str) -> Lock:
    """Lock one case of a suite of skills with its baseline."""
    folder.mkdir(parents=True)
    path = folder / "protocol.toml"
    path.write_text(PROTOCOL.format(suite=suite, case=case), encoding="utf-8")
    return api.lock(api.load_protocol(path), into=folder / "lock.json")


@pytest.fixture(scope="module")
def skills_lock(tmp_path_factory: pytest.TempPathFactory) -> Lock:
    return lock(tmp_path_factory.mktemp("skills") / "study", suite="atomic-skills", case="move_joints.q00")


def edited(document: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of a lock with another value at a path, which must be there."""
    changed: dict[str, Any] = copy.deepcopy(dict(document))
    *parents, last = path.split("/")
    place = changed
    for name in parents:
        place = place[name]
    assert place[last] != value
    place[last] = value
    return changed


def test_row_40_a_locked_run_takes_no_number_of_replay_steps(
    skills_lock: Lock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "campaign"
    assert guarded(app, ["run", str(skills_lock.path), "--replay-steps", "4", "--out", str(out)]) == BAD_INPUT
    assert "--replay-steps" in capsys.readouterr().err
    assert not out.exists()


def test_row_40_a_lock_with_another_number_of_replay_steps_is_refused_before_the_first_trial(
    skills_lock: Lock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lock.json"
    path.write_bytes(canonical_json(edited(skills_lock.document, "suite/settings/world/replay/waypoint_steps", 4)))
    out = tmp_path / "campaign"
    assert guarded(app, ["run", str(path), "--out", str(out)]) == BAD_INPUT
    assert "/suite/settings/world/replay/waypoint_steps: locked 4, now 16" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    "path",
    [
        "simulator/version",
        "simulator/robots/universal_robots_ur5e",
        "simulator/robots/robotiq_2f85",
        "suite/version",
        "suite/settings/scoring/version",
        "suite/settings/sets/nominal/version",
        "suite/settings/sets/robustness/version",
        "suite/settings/sets/adaptability/version",
    ],
)
def test_row_47_another_simulator_model_or_set_version_is_a_difference_with_both_values(
    skills_lock: Lock, path: str
) -> None:
    before = skills_lock.document
    (found,) = conditions_that_differ(before, edited(before, path, "another"))
    assert (found.path, found.b) == (path.replace("/", "."), "another")
    value: Any = before
    for name in path.split("/"):
        value = value[name]
    assert found.a == value
    assert conditions_that_differ(before, before) == ()


def test_row_47_runs_of_two_simulators_are_shown_side_by_side_and_no_difference_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    campaigns = []
    for name in ("first", "second", "third"):
        if name == "third":
            monkeypatch.setattr(toy_skills, "identity", partial(dict, toy_skills.identity(), numpy="1.0.0"))
        locked = lock(tmp_path / name, suite="toy-skills", case="pick_up-1")
        api.run(locked, into=tmp_path / name / "campaign", executor="serial")
        campaigns.append(tmp_path / name / "campaign")
    same, refused = api.compare(*campaigns)
    assert same.comparable and [pair.a for pair in same.paired] == ["base"]
    assert (refused.comparable, refused.reason) == (False, DIFFERENT_SIMULATOR)
    assert refused.paired == refused.exploratory == () and refused.arms[0].repetition is None
    (difference,) = refused.differences
    assert difference.path == "simulator.numpy" and difference.b == "1.0.0" != difference.a
    capsys.readouterr()
    assert guarded(app, ["compare", str(campaigns[0]), str(campaigns[2]), "--json"]) == NO
    (told,) = json.loads(capsys.readouterr().out)["campaigns"]
    assert told["paired"] == told["exploratory"] == []
    assert [arm[side]["counts"]["passed"] for arm in told["arms"] for side in ("a", "b")] == [1, 1]
    assert guarded(app, ["compare", str(campaigns[0]), str(campaigns[2])]) == NO
    out = capsys.readouterr().out
    assert "NOT_COMPARABLE: different simulator" in out and f"{difference.a} against 1.0.0" in out
    assert guarded(app, ["compare", str(campaigns[0]), str(campaigns[1])]) == YES
