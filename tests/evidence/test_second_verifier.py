"""The second verifier on sealed bundles: what it says, and that it needs nothing of ours to say it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sealed import Golden, edit, rename, reseal, sha256, write
from trialplate.standalone import verify_bundle as second

TOOL = Path(second.__file__)


def run(*arguments: str | Path, tool: Path = TOOL) -> subprocess.CompletedProcess[str]:
    """Run it in isolated mode, where nothing that is installed can be imported."""
    command = [sys.executable, "-I", "-S", "-W", "error", str(tool), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def found(bundle: Path) -> tuple[int, set[str]]:
    said = second.verify(str(bundle))
    return said["exit_code"], {item["code"] for item in said["findings"]}


def test_a_bundle_verifies_with_the_copy_that_it_ships_and_nothing_of_ours_installed(golden: Golden) -> None:
    done = run(golden.bundle, tool=golden.bundle / "tools" / "verify_bundle.py")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "INTEGRITY verified: 0 findings"
    assert lines[1].startswith("COUNTS 'mine': {'planned': 6, 'attempts': 6")
    assert "oracle-1, oracle-2, oracle-3" in lines[3]
    assert lines[4] == "NOT CHECKED signatures (Ed25519), recordings, grades, analysis, claims"
    assert lines[5] == "ASSURANCE self-attested"
    assert lines[6].startswith("LIMITS ")


def test_it_counts_arms_and_names_root_and_lock_in_one_document(golden: Golden) -> None:
    said = json.loads(run(golden.lean, "--json").stdout)
    sealed = json.loads((golden.lean / "bundle.json").read_bytes())
    assert said["counts"] == sealed["counts"]
    assert said["root"] == sealed["rows"]["root"] and said["lock_sha256"] == sealed["lock_sha256"]
    assert said["findings"] == [] and said["exit_code"] == 0
    assert "signatures (Ed25519)" in said["not_checked"] and "grades" in said["not_checked"]


def test_nothing_is_written_and_the_output_is_the_same_every_time(lean: Path) -> None:
    edit(lean / "analysis.json", lambda document: document.update(more=1))
    before = {path: path.lstat().st_mtime_ns for path in [lean, *lean.rglob("*")]}
    once, again = run(lean), run(lean)
    assert once.stdout == again.stdout and once.returncode == 1
    assert {path: path.lstat().st_mtime_ns for path in [lean, *lean.rglob("*")]} == before


def test_a_digest_that_was_kept_elsewhere_is_compared(golden: Golden) -> None:
    sealed = json.loads((golden.lean / "bundle.json").read_bytes())
    good = run(golden.lean, "--expect-lock", sealed["lock_sha256"], "--expect-root", sealed["rows"]["root"])
    assert good.returncode == 0 and "ASSURANCE matches an expected digest" in good.stdout
    for option in ("--expect-lock", "--expect-root"):
        bad = run(golden.lean, option, "0" * 64)
        assert bad.returncode == 1 and bad.stdout.startswith("expected_mismatch: ")
        assert "ASSURANCE self-attested" in bad.stdout
        assert run(golden.lean, option, "A" * 64).returncode == 2


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--nonsense", "a"]])
def test_bad_arguments_are_refused_with_two(arguments: list[str]) -> None:
    assert run(*arguments).returncode == 2


def test_what_is_no_folder_is_refused_with_two(tmp_path: Path) -> None:
    (tmp_path / "file.zip").write_bytes(b"PK")
    assert run(tmp_path / "file.zip").stdout.startswith("archive_refused: ")
    assert (run(tmp_path / "file.zip").returncode, run(tmp_path / "nowhere").returncode) == (2, 2)


def test_a_reader_that_goes_away_gets_no_traceback_and_no_yes(golden: Golden) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-I", "-S", str(TOOL), str(golden.lean)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_what_a_terminal_would_act_upon_is_escaped(lean: Path) -> None:
    (lean / "episodes" / "\x1b[2J\u202e.txt").write_bytes(b"")
    done = run(lean)
    assert done.returncode == 2 and "path_unsafe: episodes/\\x1b[2J\\u202e.txt" in done.stdout
    assert "\x1b" not in done.stdout and "\u202e" not in done.stdout


def test_links_special_files_and_a_second_name_of_a_file_are_refused(lean: Path, tmp_path: Path) -> None:
    row = lean / "episodes/000000-0/row.json"
    outside = tmp_path / "row.json"
    shutil.copy(row, outside)
    row.parent.chmod(0o755)
    for make in (
        lambda: row.symlink_to(outside),
        lambda: os.link(outside, row),
        lambda: os.mkfifo(row),
    ):
        row.unlink()
        make()
        assert found(lean) == (2, {"not_regular_file"}) or "not_regular_file" in found(lean)[1]
        assert found(lean)[0] == 2


def test_a_folder_that_is_swapped_for_a_link_after_it_was_listed_is_not_followed(lean: Path, tmp_path: Path) -> None:
    bundle = second.Bundle()
    bundle.open(str(lean))
    place = lean / "episodes/000000-0"
    place.parent.chmod(0o755)
    copy = shutil.copytree(place, tmp_path / "elsewhere")
    place.rename(tmp_path / "away")
    place.symlink_to(copy)
    with pytest.raises(second.Wrong) as caught:
        bundle.read("episodes/000000-0/row.json")
    assert caught.value.args[0] == "not_regular_file"


def test_oracle_runs_with_other_outcomes_do_not_qualify(bundle: Path) -> None:
    place = bundle / "qualification/oracle-2/results.jsonl"
    lines = place.read_bytes().split(b"\n")
    first = json.loads(lines[0])
    first["stages"][0]["step"] += 1
    write(place, b"\n".join([second.canonical(first).encode(), *lines[1:]]))
    assert found(reseal(bundle)) == (3, {"qualification_failed"})


def test_the_same_oracle_run_three_times_is_told(bundle: Path) -> None:
    runs = bundle / "qualification"
    for name in ("oracle-2", "oracle-3"):
        shutil.rmtree(runs / name)
        shutil.copytree(runs / "oracle-1", runs / name)
    assert found(reseal(bundle)) == (3, {"qualification_copied"})


def test_a_control_run_that_is_missing_is_told(bundle: Path) -> None:
    shutil.rmtree(bundle / "qualification/null")
    assert found(reseal(bundle)) == (3, {"qualification_failed"})


@pytest.mark.parametrize(
    ("member", "value", "expected"),
    [
        ("lock_sha256", "0" * 64, (1, {"lock_digest_mismatch"})),
        ("run_class", "development", (1, {"lock_digest_mismatch"})),
        ("verifier_sha256", "0" * 64, (1, {"source_snapshot_mismatch"})),
        ("run_id", "0" * 32, (1, {"mixed_runs"})),
        ("created_utc", "2026-01-01T00:00:00.000000Z", (1, {"mixed_runs"})),
        ("rows", {"n": 12, "root": "0" * 64}, (1, {"rows_root_mismatch"})),
        ("counts", {"planned": 12, "attempts": 12, "arms": {}}, (1, {"accounting_not_reproduced"})),
        ("assurance", "signed", (2, {"schema_mismatch"})),
        ("schema", "trialplate.bundle/2", (2, {"version_unsupported"})),
        ("more", 1, (2, {"schema_mismatch"})),
    ],
)
def test_every_member_of_the_bundle_document_follows_from_the_other_files(
    lean: Path, member: str, value: object, expected: tuple[int, set[str]]
) -> None:
    document = json.loads((lean / "bundle.json").read_bytes())
    document[member] = value
    assert found(rename(lean, second.canonical(document).encode())) == expected


def test_the_folder_is_named_by_the_digest_of_the_bundle_document(lean: Path) -> None:
    assert lean.name == sha256((lean / "bundle.json").read_bytes())
    moved = lean.rename(lean.with_name("0" * 64))
    assert found(moved) == (1, {"bundle_id_mismatch"})
    assert found(moved.rename(lean.with_name(f".staging-{lean.name}"))) == (0, set())
