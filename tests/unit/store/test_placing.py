"""A folder is built beside its place and put there whole, or not at all; nothing is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from trialplate.errors import EvidenceError, UsageError
from trialplate.store.fsio import Disk
from trialplate.store.manifest import Entry
from trialplate.store.placing import BUSY, STAGING_PREFIX, build, building, files_below, measure, place
from trialplate.testing.faulty_disk import FaultyDisk

ROOM = Path("/room")
CONTENTS = {"a": b"1", "deep/er/b": b"22", "deep/c": b""}


def _built(disk: FaultyDisk) -> Path:
    build(disk, ROOM / "staging", contents=CONTENTS, expected={})
    return ROOM / "staging"


def test_a_folder_holds_what_was_asked_for_and_no_power_cut_takes_it_away() -> None:
    disk = FaultyDisk()
    _built(disk)
    assert disk.tree(ROOM / "staging") == CONTENTS
    assert disk.after_power_cut(files="lost", names="lost").tree(ROOM / "staging") == CONTENTS


def test_every_folder_is_synced_after_the_files_in_it() -> None:
    disk = FaultyDisk()
    _built(disk)
    synced = [call.path for call in disk.calls if call.name == "fsync"]
    last = {path: number for number, path in enumerate(synced)}
    for path in CONTENTS:
        file = ROOM / "staging" / path
        assert last[file] < last[file.parent]
    assert last[ROOM / "staging/deep/er"] < last[ROOM / "staging/deep"] < last[ROOM / "staging"]


def test_a_file_that_changed_since_it_was_measured_is_refused() -> None:
    disk = FaultyDisk()
    disk.make_folder(ROOM)
    disk.replace(ROOM / "source", b"old")
    (entry,) = measure(disk, {"a": ROOM / "source"})
    assert entry.size == 3
    disk.replace(ROOM / "source", b"new")
    with pytest.raises(EvidenceError) as refused:
        build(disk, ROOM / "staging", contents={"a": ROOM / "source"}, expected={"a": entry})
    assert refused.value.code == "hash_mismatch"


def test_a_folder_that_is_there_is_built_upon_by_nobody() -> None:
    disk = FaultyDisk()
    _built(disk)
    with pytest.raises(UsageError, match="built once"):
        _built(disk)


@pytest.mark.parametrize("there", ["an empty folder", "a folder", "a file"])
def test_whatever_stands_in_the_place_stays(there: str) -> None:
    disk = FaultyDisk()
    staging = _built(disk)
    if there == "a file":
        disk.replace(ROOM / "target", b"x")
    else:
        disk.make_folder(ROOM / "target")
        if there == "a folder":
            disk.replace(ROOM / "target/x", b"x")
    before = disk.tree(ROOM)
    with pytest.raises(UsageError) as refused:
        place(disk, staging, target=ROOM / "target")
    assert refused.value.code == "target_exists"
    assert disk.tree(ROOM) == before


def test_who_builds_is_alone_and_sets_aside_what_a_dead_one_left() -> None:
    disk = FaultyDisk()
    disk.make_folder(ROOM / f"{STAGING_PREFIX}x")
    disk.replace(ROOM / f"{STAGING_PREFIX}x/a", b"half")
    with building(disk, ROOM):
        assert sorted(disk.entries(ROOM)) == [BUSY, "quarantine"]
        with pytest.raises(UsageError) as refused, building(disk.beside(), ROOM):
            pass
        assert refused.value.code == "room_busy"
    with building(disk, ROOM):
        pass
    assert b"half" in disk.tree(ROOM / "quarantine").values()


def test_the_files_of_a_folder_are_listed_and_a_link_is_refused(tmp_path: Path) -> None:
    disk = FaultyDisk()
    _built(disk)
    listed = files_below(disk, ROOM / "staging")
    assert listed == {path: ROOM / "staging" / path for path in CONTENTS}
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(EvidenceError) as refused:
        files_below(Disk(), tmp_path)
    assert refused.value.code == "not_regular_file"


def test_an_entry_has_the_digest_of_what_will_be_written() -> None:
    (entry,) = measure(FaultyDisk(), {"a": b""})
    assert entry == Entry("a", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 0)
