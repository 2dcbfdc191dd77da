"""One line of the harness is changed: what it made before is not promoted by it, and its own controls are missing.

The package is copied, so that a line of it can be changed; everything goes through the command line.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Any

import pytest

import trialplate
from sealed import ARM, PROTOCOL, edit, reseal
from trialplate.fingerprint import harness_sha256, tree

CHANGED = "scoring/ladder.py"
LINE = "BoolRows = NDArray[np.bool_]  # (T+1,)"


@dataclass(frozen=True)
class Harness:
    """A copy of the package, and its command line."""

    source: Path

    @property
    def sha256(self) -> str:
        return harness_sha256(tree(self.source / "trialplate"))

    def __call__(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a command of this copy."""
        environment = {**os.environ, "PYTHONPATH": str(self.source), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-P", "-m", "trialplate.cli", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)


@dataclass(frozen=True)
class Lab:
    """What two harnesses left that differ in one line.

    ``bundle``: sealed by ``first`` with its own ``controls``, not promoted; ``campaign``: of ``changed``, and
    ``later``: the same campaign sealed, without any controls.
    """

    first: Harness
    changed: Harness
    controls: Path
    bundle: Path
    campaign: Path
    later: Path

    def told(self, text: str) -> str:
        """Return the output of a command in one line, with the digests of both harnesses by name."""
        for name, harness in (("FIRST", self.first), ("CHANGED", self.changed)):
            text = text.replace(harness.sha256, name)
        return " ".join(text.split())


def _installed(source: Path) -> Harness:
    """Return a copy of the package of its own."""
    package, ignored = Path(trialplate.__file__).parent, shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, source / "trialplate", ignore=ignored)
    return Harness(source)


def _protocol(folder: Path, *, arm: str = ARM) -> Path:
    """Write the golden protocol and its arm into a folder of their own."""
    folder.mkdir()
    for name, data in (("mine.py", arm), ("mine.bin", "weights of an arm that needs none"), ("p.toml", PROTOCOL)):
        (folder / name).write_text(data, encoding="utf-8")
    return folder / "p.toml"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    folder = tmp_path_factory.mktemp("promotion")
    first, changed = (_installed(folder / name) for name in ("first", "changed"))
    place = changed.source / "trialplate" / CHANGED
    text = place.read_text(encoding="utf-8")
    assert text.count(LINE) == 1
    place.write_text(text.replace(LINE, f"{LINE}, one for each state"), encoding="utf-8")
    protocol = _protocol(folder / "arm")
    for harness, name in ((first, "before"), (changed, "after")):
        assert harness("lock", protocol, "--out", folder / name).returncode == 0
        assert harness("run", folder / name).returncode == 1  # one attempt of the arm is an ERROR
    controls = folder / "controls"
    assert first("qualify", "toy", "--out", controls).returncode == 0
    sealed = first("seal", folder / "before", "--out", folder / "bundles", "--qualification", controls)
    assert sealed.returncode == 0, sealed.stderr
    later = changed("seal", folder / "after", "--out", folder / "later")
    assert later.returncode == 0, later.stderr
    return Lab(first, changed, controls, _only(folder / "bundles"), folder / "after", _only(folder / "later"))


def _only(folder: Path) -> Path:
    (found,) = [path for path in folder.iterdir() if path.is_dir()]
    return found


def _copy(bundle: Path, folder: Path) -> Path:
    copied = Path(shutil.copytree(bundle, folder / bundle.name))
    for path in (copied, *copied.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copied


def _record(bundle: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(bundle.with_name(f"{bundle.name}.promotion.json").read_bytes())
    return record


def test_what_a_harness_qualified_and_sealed_is_promoted_and_published_by_it(lab: Lab, tmp_path: Path) -> None:
    bundle = _copy(lab.bundle, tmp_path)
    promoted = lab.first("promote", bundle)
    assert promoted.returncode == 0 and promoted.stdout.startswith(f"promoted {bundle.name}")
    assert (_record(bundle)["result"], _record(bundle)["reasons"]) == ("promoted", [])
    published = lab.first("publish", bundle, "--into", tmp_path / "public")
    assert published.returncode == 0 and "as version 1" in published.stdout
    shown = lab.first("show", tmp_path / "public" / bundle.name)
    assert "state  PROMOTED" in shown.stdout


def test_a_bundle_is_not_promoted_by_a_harness_of_which_one_line_changed_and_file_and_digests_are_told(
    lab: Lab, tmp_path: Path
) -> None:
    bundle = _copy(lab.bundle, tmp_path)
    refused = lab.changed("promote", bundle)
    assert refused.returncode == 3
    told = lab.told(refused.stdout)
    assert told.startswith(
        f"refused {bundle.name} grader_differs_from_lock: lock.json#/harness/sha256 (and 6 more files"
    )
    assert "expected FIRST found CHANGED (changed scoring/ladder.py) record " in told
    record = _record(bundle)
    assert (record["result"], record["reasons"]) == ("refused", ["grader_differs_from_lock"])
    assert record["verifier_sha256"] == lab.changed.sha256
    unpublished = lab.changed("publish", bundle, "--into", tmp_path / "public")
    assert unpublished.returncode == 2
    assert "found one that refuses it (grader_differs_from_lock)" in lab.told(unpublished.stderr)
    assert not (tmp_path / "public").exists()


def test_what_was_promoted_before_the_change_is_not_published_after_it(lab: Lab, tmp_path: Path) -> None:
    bundle = _copy(lab.bundle, tmp_path)
    assert lab.first("promote", bundle).returncode == 0
    refused = lab.changed("publish", bundle, "--into", tmp_path / "public")
    assert refused.returncode == 1
    told = lab.told(refused.stderr)
    assert "the promotion of" in told and "does not come out again: grader_differs_from_lock" in told
    assert "lock.json#/harness/sha256: expected FIRST, found CHANGED (changed scoring/ladder.py)" in told
    left = {path.name for path in (tmp_path / "public").iterdir()}
    assert "quarantine" in left and not left & {"current.json", bundle.name}


@pytest.mark.parametrize("verb", ["judge", "seal"])
def test_a_new_campaign_does_not_stand_on_the_controls_of_the_harness_before_the_change(
    lab: Lab, tmp_path: Path, verb: str
) -> None:
    out = ("--out", tmp_path / "out") if verb == "seal" else ()
    refused = lab.changed(verb, lab.campaign, "--qualification", lab.controls, *out)
    assert refused.returncode == 3
    told = lab.told(refused.stderr)
    assert told.startswith("trialplate: qualification_binding: qualification.json at /bound/harness: expected ")
    version = distribution_version("trialplate")
    assert f"expected {version} CHANGED, found {version} FIRST (changed scoring/ladder.py)" in told
    assert not (tmp_path / "out").exists()


def _without_reason(document: dict[str, Any]) -> None:
    del document["qualification_sha256_reason"]


def test_old_controls_that_are_put_into_a_new_bundle_do_not_promote_it(lab: Lab, tmp_path: Path) -> None:
    bundle = _copy(lab.later, tmp_path)
    without = lab.changed("promote", bundle)
    assert without.returncode == 3
    assert "qualification_missing: expected the raw controls" in lab.told(without.stdout)
    shutil.copytree(lab.bundle / "qualification", bundle / "qualification")
    edit(bundle / "bundle.json", _without_reason)
    bundle = reseal(bundle)
    refused = lab.changed("promote", bundle)
    assert refused.returncode == 3
    assert _record(bundle)["reasons"] == ["qualification_binding", "grader_differs_from_lock"]
    told = lab.told(refused.stdout)
    assert "qualification_binding: qualification/qualification.json#/bound/harness expected " in told
    assert "FIRST (changed scoring/ladder.py)" in told


def test_an_old_bundle_that_names_the_new_harness_as_its_maker_contradicts_its_lock(lab: Lab, tmp_path: Path) -> None:
    bundle = _copy(lab.bundle, tmp_path)
    edit(bundle / "bundle.json", lambda document: document["tool"].update(sha256=lab.changed.sha256))
    bundle = reseal(bundle)
    refused = lab.changed("promote", bundle)
    assert refused.returncode == 1
    assert _record(bundle)["reasons"] == ["source_snapshot_mismatch", "grader_differs_from_lock"]
    told = lab.told(refused.stdout)
    assert "source_snapshot_mismatch: bundle.json#/tool" in told and "FIRST" in told and "CHANGED" in told


def test_a_lock_of_before_the_change_is_not_run_after_it(lab: Lab) -> None:
    refused = lab.changed("run", lab.bundle / "lock.json", "--resume")
    assert refused.returncode == 2
    assert (
        "this is not what was locked" in refused.stderr
        and "/harness_files: changed scoring/ladder.py" in refused.stderr
    )


MEDDLING = """

import trialplate


def meddle(self, episode, reset=Arm.reset):
    reset(self, episode)
    place = trialplate.__file__.replace("__init__.py", "scoring/ladder.py")
    with open(place, "a") as file:
        file.write("# every attempt passes\\n")


Arm.reset = meddle
"""


def test_an_arm_that_edits_the_harness_in_mid_run_leaves_no_arm_a_number(lab: Lab, tmp_path: Path) -> None:
    meddled = _installed(tmp_path / "harness")
    protocol, campaign = _protocol(tmp_path / "arm", arm=ARM + MEDDLING), tmp_path / "campaign"
    assert meddled("lock", protocol, "--out", campaign).returncode == 0
    ran = meddled("run", campaign)
    assert ran.returncode == 1 and "NOT SCORABLE" in ran.stdout
    assert "mine" in ran.stdout and "scripted" in ran.stdout
    found = lab.first("verify", campaign)
    assert found.returncode == 3
    told = lab.told(found.stdout)
    assert "inputs_changed_during_run: journal.jsonl" in told
    assert f"expected the locked code and weights found another harness, {meddled.sha256}" in told
    scored = json.loads(lab.first("score", campaign, "--json").stdout)
    assert set(scored["counts"]) == {"mine", "scripted"}
    assert sum(arm["ERROR"] for arm in scored["counts"].values()) == scored["scored"] > 6
