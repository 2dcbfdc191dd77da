"""Sealing: the campaign is only read, the id follows from the evidence, and what does not verify is set aside."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from golden import snapshot
from sealed import PROTOCOL, Golden, make_campaign, sha256, write
from trialplate import exam, fingerprint, sealing
from trialplate.errors import EvidenceError, UsageError
from trialplate.sealing import FreshVerdict
from trialplate.store.campaign import CampaignWriter
from trialplate.store.placing import BUSY, STAGING_PREFIX
from trialplate.store.view import read_campaign

GOOD = FreshVerdict(0, {"findings": []})


def fresh(folder: Path) -> FreshVerdict:
    """What a verifier process would say, said in this one."""
    verdict = exam.verify(folder)
    return FreshVerdict(verdict.exit_code, verdict.document())


def codes(error: pytest.ExceptionInfo[Any]) -> str:
    return str(error.value.code)


def test_the_files_of_the_campaign_are_in_the_bundle_byte_for_byte_and_nothing_was_written_there(
    golden: Golden, tmp_path: Path
) -> None:
    campaign = Path(shutil.copytree(golden.campaign, tmp_path / "c"))
    before = snapshot(campaign)
    made = sealing.seal(campaign, tmp_path / "out", verifier=fresh)
    assert snapshot(campaign) == before
    inside = snapshot(made.path)
    assert {name: data for name, data in inside.items() if name in before} == before
    more = set(inside) - set(before)
    derived = {"results.jsonl", "summary.json", "analysis.json", "claims.json", "report.html"}
    own = {"bundle.json", "MANIFEST.json", "models/mine.json", "models/scripted.json", "tools/verify_bundle.py"}
    assert more == derived | own


def test_sealing_the_same_evidence_twice_gives_the_same_id(golden: Golden, tmp_path: Path) -> None:
    made = sealing.seal(golden.campaign, tmp_path / "again", verifier=fresh)
    assert made.bundle_id == golden.lean.name == sha256((made.path / "bundle.json").read_bytes())
    assert snapshot(made.path) == snapshot(golden.lean)
    with pytest.raises(UsageError) as refused:
        sealing.seal(golden.campaign, tmp_path / "again", verifier=fresh)
    assert codes(refused) == "target_exists"


def test_derived_files_that_lie_in_the_campaign_are_not_believed(golden: Golden, tmp_path: Path) -> None:
    campaign = Path(shutil.copytree(golden.campaign, tmp_path / "c"))
    write(campaign / "results.jsonl", b"")
    write(campaign / "claims.json", b"{}")
    assert sealing.seal(campaign, tmp_path / "out", verifier=fresh).bundle_id == golden.lean.name


def test_a_checkpoint_is_listed_by_path_size_and_digest(golden: Golden) -> None:
    listed = json.loads((golden.lean / "models/mine.json").read_bytes())
    weights = (golden.campaign.parent / "mine.bin").read_bytes()
    assert {"path": "mine.bin", "size": len(weights), "sha256": sha256(weights)} in [
        {key: item[key] for key in ("path", "size", "sha256")} for item in listed["files"]
    ]


def test_a_run_that_has_not_ended_is_not_sealed(golden: Golden, tmp_path: Path) -> None:
    lock = (golden.campaign / "lock.json").read_bytes()
    with CampaignWriter.create(tmp_path / "c", lock_bytes=lock) as writer:
        writer.open_run({})
        with pytest.raises(UsageError) as refused:
            sealing.seal(tmp_path / "c", tmp_path / "out")
    assert codes(refused) == "not_closed"
    assert not (tmp_path / "out").exists()


def test_a_run_that_was_stopped_is_sealed_and_blocked(golden: Golden, tmp_path: Path) -> None:
    lock = (golden.campaign / "lock.json").read_bytes()
    with CampaignWriter.create(tmp_path / "c", lock_bytes=lock) as writer:
        writer.open_run({})
        writer.close_run(complete=False, reason="the operator stopped it")
    made = sealing.seal(tmp_path / "c", tmp_path / "out", verifier=fresh)
    assert made.verdict.exit_code == 3
    assert "coverage_incomplete" in made.verdict.reasons


@pytest.mark.parametrize("name", ["rows.jsonl", "episodes/000003-0/row.json", "head.json"])
def test_a_campaign_that_was_changed_is_not_sealed(golden: Golden, tmp_path: Path, name: str) -> None:
    campaign = Path(shutil.copytree(golden.campaign, tmp_path / "c"))
    data = (campaign / name).read_bytes()
    write(campaign / name, data.replace(b"0", b"1", 1))
    with pytest.raises(EvidenceError):
        sealing.seal(campaign, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_campaign_of_another_version_of_the_package_is_not_sealed(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "harness", lambda: {"version": "9", "files": 1, "sha256": "ab" * 32})
    with pytest.raises(EvidenceError) as refused:
        sealing.seal(golden.campaign, tmp_path / "out")
    assert codes(refused) == "grader_differs_from_lock"


def test_a_bundle_is_not_sealed_again_and_a_campaign_not_into_itself(golden: Golden, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        sealing.seal(golden.lean, tmp_path / "out")
    assert codes(refused) == "sealed_already"
    with pytest.raises(UsageError, match="only read"):
        sealing.seal(golden.campaign, golden.campaign / "out")


def test_a_copy_that_does_not_verify_is_set_aside_with_the_reason(golden: Golden, tmp_path: Path) -> None:
    bad = FreshVerdict(1, {"findings": [{"code": "hash_mismatch"}, {"code": "mixed_runs"}]})
    with pytest.raises(EvidenceError, match="does not verify") as refused:
        sealing.seal(golden.campaign, tmp_path / "out", verifier=lambda folder: bad)
    assert codes(refused) == "hash_mismatch"
    (aside,) = (tmp_path / "out/quarantine").iterdir()
    assert aside.name.endswith("-hash_mismatch")
    assert (aside / f"{STAGING_PREFIX}{golden.lean.name}" / "bundle.json").is_file()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [BUSY, "quarantine"]


def test_a_file_that_changes_while_it_is_sealed_is_noticed(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = Path(shutil.copytree(golden.campaign, tmp_path / "c"))
    measure = sealing.measure

    def later(disk: Any, contents: Any) -> Any:
        measured = measure(disk, contents)
        write(campaign / "head.json", (campaign / "head.json").read_bytes() + b" ")
        return measured

    monkeypatch.setattr(sealing, "measure", later)
    with pytest.raises(EvidenceError) as refused:
        sealing.seal(campaign, tmp_path / "out", verifier=lambda folder: GOOD)
    assert codes(refused) == "hash_mismatch" and "head.json" in str(refused.value)


def test_what_a_killed_sealing_left_is_set_aside_by_the_next_one(golden: Golden, tmp_path: Path) -> None:
    stale = tmp_path / "out" / f"{STAGING_PREFIX}{golden.lean.name}"
    stale.mkdir(parents=True)
    (stale / "lock.json").write_bytes(b"half")
    made = sealing.seal(golden.campaign, tmp_path / "out", verifier=fresh)
    assert made.path.is_dir() and not stale.exists()
    (aside,) = (tmp_path / "out/quarantine").iterdir()
    assert (aside / stale.name / "lock.json").read_bytes() == b"half"


def test_two_at_a_time_do_not_build_in_one_folder(golden: Golden, tmp_path: Path) -> None:
    seen = []

    def verify(folder: Path) -> FreshVerdict:
        with pytest.raises(UsageError) as refused:
            sealing.seal(golden.campaign, tmp_path / "out", verifier=lambda folder: GOOD)
        seen.append(codes(refused))
        return GOOD

    sealing.seal(golden.campaign, tmp_path / "out", verifier=verify)
    assert seen == ["room_busy"]


def test_a_sealed_bundle_is_read_like_a_campaign(golden: Golden) -> None:
    sealed, open_ = read_campaign(golden.bundle), read_campaign(golden.campaign)
    assert sealed.rows == open_.rows and sealed.lock_sha256 == open_.lock_sha256


def test_a_verifier_that_does_not_finish_is_not_taken_for_a_verdict(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(UsageError) as refused:
        sealing.seal(golden.campaign, tmp_path / "out")
    assert codes(refused) == "verifier_failed"
    assert not (tmp_path / "out" / golden.lean.name).exists()


def test_the_verifier_inside_needs_nothing_but_python(golden: Golden, tmp_path: Path) -> None:
    script = golden.bundle / "tools/verify_bundle.py"
    command = [sys.executable, "-I", "-S", str(script), str(golden.bundle)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_seals_and_tells_what_to_keep(tmp_path: Path) -> None:
    protocol = PROTOCOL.replace('"confirmatory"', '"development"')
    campaign = make_campaign(tmp_path, protocol=protocol)
    command = [sys.executable, "-m", "trialplate.cli", "seal", str(campaign), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (bundle,) = [path for path in (tmp_path / "out").iterdir() if path.is_dir()]
    document = json.loads((bundle / "bundle.json").read_bytes())
    for kept in (bundle.name, document["rows"]["root"], document["lock_sha256"], "Keep this outside"):
        assert kept in done.stdout
    again = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert (again.returncode, json.loads(again.stdout)["error"]) == (2, "target_exists")
