"""Quarantine: what is broken is moved as it is, with the reason, and nobody can write on meanwhile."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from golden import build, snapshot
from trialplate.canonical import read_stored
from trialplate.errors import StorageFailure, UsageError
from trialplate.store.findings import finding
from trialplate.store.fsio import Disk, write_new
from trialplate.store.quarantine import Quarantined, is_broken, quarantine
from trialplate.store.verify import check
from trialplate.testing.faulty_disk import CHANGING, FATES, Fault, FaultyDisk, ProcessEnded

UTC = "2026-11-30T10:35:50.250000Z"
BROKEN = finding("journal_broken", "journal.jsonl", expected="an unbroken chain", found="line 3: changed")
TOP = Path("/campaigns")


def _move(folder: Path, disk: Disk | None = None) -> Path:
    return quarantine(folder, reason="journal_broken", findings=[BROKEN], disk=disk, utc=UTC)


def test_a_moved_campaign_keeps_every_byte_and_has_its_reason_beside_it(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    before = snapshot(folder)
    place = _move(folder)
    assert place == tmp_path / "quarantine" / "20261130T103550.250000Z-journal_broken" / "c"
    assert not folder.exists() and snapshot(place) == before
    assert check(place).findings == (), "it can be checked where it lies"
    reason = read_stored((place.parent / "reason.json").read_bytes())
    assert reason == {
        "schema": "trialplate.quarantine/1",
        "utc": UTC,
        "name": "c",
        "reason": "journal_broken",
        "findings": [
            {
                "code": "journal_broken", "path": "journal.jsonl", "pointer": "", "expected": "an unbroken chain",
                "found": "line 3: changed", "exit_code": 1,
            }
        ],
    }  # fmt: skip


def test_two_moves_in_the_same_moment_stand_side_by_side(tmp_path: Path) -> None:
    places = []
    for _ in range(3):
        (tmp_path / "c").mkdir()
        places.append(_move(tmp_path / "c").parent.name)
    assert places == [f"20261130T103550.250000Z-journal_broken{n}" for n in ("", "-2", "-3")]


def test_it_can_be_collected_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "published" / ".staging-1").mkdir(parents=True)
    place = quarantine(tmp_path / "published" / ".staging-1", reason="stale_staging", into=tmp_path, utc=UTC)
    assert place == tmp_path / "quarantine" / "20261130T103550.250000Z-stale_staging" / ".staging-1"
    assert place.is_dir()


@pytest.mark.parametrize("reason", ["", "../up", "a b", "JOURNAL", "x" * 61])
def test_a_reason_is_a_code_that_can_be_a_name(tmp_path: Path, reason: str) -> None:
    with pytest.raises(UsageError, match="expected a code"):
        quarantine(tmp_path, reason=reason)


def test_a_campaign_that_is_being_written_is_not_moved(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    writer = Disk()
    writer.lock(writer.open_append(folder / "journal.jsonl"))
    with pytest.raises(UsageError) as caught:
        _move(folder)
    assert caught.value.code == "campaign_busy"
    assert folder.is_dir() and not (tmp_path / "quarantine").exists()


def test_a_sealed_copy_whose_journal_is_read_only_can_be_moved() -> None:
    opened = next(at for at, call in enumerate(_moved().calls) if call.name == "open" and "journal" in call.path.name)
    disk = _campaign().next_process(fault=Fault(opened, "fail", errno.EACCES))
    _move(TOP / "c", disk)
    assert _whole(disk) and "c/journal.jsonl" not in disk.tree(TOP)


def _campaign() -> FaultyDisk:
    disk = FaultyDisk()
    disk.make_folder(TOP / "c")
    write_new(disk, TOP / "c" / "journal.jsonl", b"damaged")
    disk.fsync_dir(TOP / "c")
    return disk.next_process()


def _moved() -> FaultyDisk:
    disk = _campaign()
    _move(TOP / "c", disk)
    return disk


def _whole(disk: FaultyDisk) -> bool:
    """Return whether the campaign is in exactly one place; its reason stands there before it does."""
    found = disk.tree(TOP)
    journals = [name for name, data in found.items() if data == b"damaged"]
    reasons = {name.rpartition("/")[0] for name in found if name.endswith("reason.json")}
    moved = [name for name in journals if name.startswith("quarantine/")]
    return len(journals) == 1 and all(name.removesuffix("/c/journal.jsonl") in reasons for name in moved)


def test_a_move_that_fails_or_dies_anywhere_leaves_the_campaign_in_one_place_and_can_be_repeated() -> None:
    plain = _moved()
    assert _whole(plain)
    for at, call in enumerate(plain.calls):
        failing = _campaign().next_process(fault=Fault(at, "fail"))
        with pytest.raises(StorageFailure, match="EIO"):
            _move(TOP / "c", failing)
        assert _whole(failing), call
        if call.name not in CHANGING:
            continue
        dying = _campaign().next_process(fault=Fault(at))
        with pytest.raises(ProcessEnded):
            _move(TOP / "c", dying)
        left = [dying.after_power_cut(files=files, names="mixed", seed=n) for n, files in enumerate(FATES * 3)]
        for disk in (dying.next_process(), *left):
            assert _whole(disk), call
            if "c/journal.jsonl" in disk.tree(TOP):
                _move(TOP / "c", disk)
                assert _whole(disk) and "c/journal.jsonl" not in disk.tree(TOP)


def test_only_what_is_gone_or_changed_is_broken() -> None:
    assert is_broken(BROKEN)
    assert is_broken(finding("hash_mismatch", "episodes/000000-0/row.json"))
    assert is_broken(finding("malformed", "head.json"))
    assert not is_broken(finding("schema_mismatch", "journal.jsonl")), "a later version may have written it"
    assert not is_broken(finding("coverage_incomplete", "trials"))


def test_the_message_says_what_was_found_and_where_it_lies_now() -> None:
    error = Quarantined(BROKEN, place=Path("q/c"))
    for part in ("journal_broken", "line 3: changed", "moved as it is to q/c", "reason.json"):
        assert part in str(error) and part in error.message
