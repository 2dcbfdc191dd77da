"""The disk: exclusive, complete, durable writes, and failures that explain themselves."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dying_disk import CountingDisk, DyingDisk, FailingDisk, in_child
from trialplate.errors import StorageFailure, UsageError
from trialplate.store import kernel
from trialplate.store.fsio import Disk, publish_new, staging_path, write_new


class _Os:
    """The ``os`` module with single functions exchanged."""

    def __init__(self, **changed: Any) -> None:
        self._changed = changed

    def __getattr__(self, name: str) -> Any:
        return self._changed.get(name, getattr(os, name))


def _failing(number: int) -> Any:
    def call(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return call


def test_a_new_file_never_replaces_one_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"kept")
    with pytest.raises(StorageFailure, match=r"create .*f: .*EEXIST.*never overwritten"):
        Disk().open_new(tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"kept"


def test_nothing_is_written_or_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"kept")
    (tmp_path / "link").symlink_to("elsewhere")
    disk = Disk()
    for operation in (disk.open_new, disk.open_append, disk.read):
        with pytest.raises(StorageFailure):
            operation(tmp_path / "link")
    disk.replace(tmp_path / "link", b"new")
    assert (tmp_path / "elsewhere").read_bytes() == b"kept"
    assert not (tmp_path / "link").is_symlink()


def test_a_link_in_the_place_of_the_staging_file_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"kept")
    staging_path(tmp_path / "head.json").symlink_to("elsewhere")
    Disk().replace(tmp_path / "head.json", b"new")
    assert (tmp_path / "elsewhere").read_bytes() == b"kept"
    assert (tmp_path / "head.json").read_bytes() == b"new"


def test_short_writes_go_on_until_every_byte_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def three_bytes(descriptor: int, data: memoryview) -> int:
        sizes.append(len(data))
        return os.write(descriptor, data[:3])

    monkeypatch.setattr(kernel, "os", _Os(write=three_bytes))
    write_new(Disk(), tmp_path / "f", b"0123456789")
    assert (tmp_path / "f").read_bytes() == b"0123456789"
    assert sizes == [10, 7, 4, 1]


def test_a_write_that_makes_no_progress_is_a_failure_and_no_endless_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "os", _Os(write=lambda *_: 0))
    with pytest.raises(StorageFailure, match="no progress"):
        write_new(Disk(), tmp_path / "f", b"x")


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "may not write"),
        (errno.EIO, "device reports an error"),
        (errno.EMFILE, "too many open files"),
        (errno.EBUSY, "find the cause"),
    ],
)
@pytest.mark.parametrize("call", ["open", "write", "fsync"])
def test_a_failure_names_path_attempt_cause_and_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, advice: str
) -> None:
    monkeypatch.setattr(kernel, "os", _Os(**{call: _failing(number)}))
    with pytest.raises(StorageFailure) as caught:
        write_new(Disk(), tmp_path / "trace.parquet", b"bytes")
    message = caught.value.message
    assert caught.value.code == "storage_failure"
    for part in (str(tmp_path / "trace.parquet"), os.strerror(number), errno.errorcode[number], advice):
        assert part in message
    assert {"open": "create", "write": "write 5 bytes to", "fsync": "fsync"}[call] in message


def test_replacing_is_all_or_nothing_and_leaves_no_staging_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "head.json"
    disk = Disk()
    disk.replace(target, b"old")
    for call in ("write", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(kernel, "os", _Os(**{call: _failing(errno.ENOSPC)}))
            with pytest.raises(StorageFailure):
                disk.replace(target, b"new")
        assert target.read_bytes() == b"old"
        assert [path.name for path in tmp_path.iterdir()] == ["head.json"]
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "os", _Os(rename=_failing(errno.EIO)))
        with pytest.raises(StorageFailure, match="put the new content in place"):
            disk.replace(target, b"new")
    assert target.read_bytes() == b"old"
    disk.replace(target, b"new")
    assert target.read_bytes() == b"new"


def test_a_stale_staging_file_does_not_stand_in_the_way(tmp_path: Path) -> None:
    staging_path(tmp_path / "f").write_bytes(b"half")
    Disk().replace(tmp_path / "f", b"whole")
    assert (tmp_path / "f").read_bytes() == b"whole"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_files_and_folders_are_synced_in_the_order_that_makes_them_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append(path.name if path != tmp_path else "folder")

    monkeypatch.setattr(kernel, "os", _Os(fsync=fsync))
    Disk().replace(tmp_path / "head.json", b"1")
    assert synced == [".head.json.tmp", "folder"]
    synced.clear()
    disk = Disk()
    disk.make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path.parent.name, "folder", "a"], "the maker of what is there may have died before its sync"
    synced.clear()
    disk.make_folder(tmp_path / "a" / "c")
    assert synced == ["a"]
    synced.clear()
    Disk(durability="process").replace(tmp_path / "head.json", b"2")
    assert synced == []


def test_the_mode_of_a_new_file_is_the_one_asked_for(tmp_path: Path) -> None:
    write_new(Disk(), tmp_path / "lock.json", b"{}", mode=0o444)
    assert stat.S_IMODE((tmp_path / "lock.json").stat().st_mode) == 0o444


def test_renaming_never_replaces(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    with pytest.raises(StorageFailure, match="EEXIST"):
        Disk().rename(tmp_path / "a", tmp_path / "b")
    Disk().rename(tmp_path / "a", tmp_path / "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "c"]


def test_no_rename_can_put_a_folder_in_the_place_of_an_empty_one(tmp_path: Path) -> None:
    for name in ("staged", "taken", "elsewhere"):
        (tmp_path / name).mkdir()
    for target in (tmp_path / "taken", tmp_path / "elsewhere"):
        for rename in (Disk().rename, Disk().rename_noreplace):
            with pytest.raises(StorageFailure, match="EEXIST"):
                rename(tmp_path / "staged", target)
    Disk().rename_noreplace(tmp_path / "staged", tmp_path / "elsewhere" / "whole")
    assert (tmp_path / "elsewhere" / "whole").is_dir() and not (tmp_path / "staged").exists()


def test_a_file_system_that_cannot_rename_without_replacing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel.SystemKernel, "rename_noreplace", _failing(errno.ENOSYS))
    with pytest.raises(UsageError, match="local disk") as caught:
        Disk().rename_noreplace(tmp_path / "a", tmp_path / "b")
    assert caught.value.code == "no_rename_noreplace"


def test_below_an_anchored_folder_nothing_lands_in_another_that_took_its_place(tmp_path: Path) -> None:
    disk, folder = Disk(), tmp_path / "campaign"
    folder.mkdir()
    disk.anchor(folder)
    folder.rename(tmp_path / "moved")
    folder.mkdir()
    disk.make_folder(folder / "episodes" / "000000-0")
    disk.replace(folder / "head.json", b"1")
    assert not list(folder.iterdir())
    assert disk.entries(folder) == {"episodes": "folder", "head.json": "file"}
    assert sorted(path.name for path in (tmp_path / "moved").iterdir()) == ["episodes", "head.json"]
    disk.release(folder)
    assert disk.entries(folder) == {}


def test_below_an_anchored_folder_that_was_removed_nothing_is_made_anew(tmp_path: Path) -> None:
    disk, folder = Disk(), tmp_path / "campaign"
    folder.mkdir()
    disk.anchor(folder)
    folder.rmdir()
    with pytest.raises(StorageFailure, match="gone"):
        disk.make_folder(folder / "episodes")
    assert not folder.exists()
    disk.release(folder)


def test_an_appended_file_grows_and_is_cut_where_asked(tmp_path: Path) -> None:
    disk = Disk()
    write_new(disk, tmp_path / "f", b"one ")
    descriptor = disk.open_append(tmp_path / "f")
    disk.write_all(descriptor, b"two")
    disk.truncate(descriptor, 5)
    disk.write_all(descriptor, b"!")
    disk.close(descriptor)
    assert disk.read(tmp_path / "f") == b"one t!"


def test_a_second_lock_is_refused_and_a_dead_process_holds_none(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.touch()
    program = (
        "import sys, pathlib; from trialplate.store.fsio import Disk; d = Disk();"
        "d.lock(d.open_append(pathlib.Path(sys.argv[1]))); print('held', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        disk = Disk()
        descriptor = disk.open_append(path)
        with pytest.raises(UsageError, match="only writer") as caught:
            disk.lock(descriptor)
        assert caught.value.code == "campaign_busy"
        other.kill()
        other.wait()
        disk.lock(descriptor)
        disk.close(descriptor)


def test_a_file_system_without_flock_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    descriptor = disk.open_new(tmp_path / "f")
    monkeypatch.setattr(kernel.fcntl, "flock", _failing(errno.ENOLCK))
    with pytest.raises(UsageError, match="without flock") as caught:
        disk.lock(descriptor)
    assert caught.value.code == "no_flock"
    disk.close(descriptor)


def test_a_file_that_was_replaced_or_removed_is_noticed(tmp_path: Path) -> None:
    disk = Disk()
    descriptor = disk.open_new(tmp_path / "f")
    assert disk.still_there(descriptor)
    disk.replace(tmp_path / "f", b"another")
    assert not disk.still_there(descriptor)
    (tmp_path / "f").unlink()
    assert not disk.still_there(descriptor)
    disk.close(descriptor)


def test_names_are_listed_with_their_kind(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    assert Disk().entries(tmp_path) == {"file": "file", "folder": "folder", "link": "other", "pipe": "other"}
    assert Disk().entries(tmp_path / "absent") == {}


def test_another_durability_than_the_two_is_refused() -> None:
    with pytest.raises(UsageError, match="'fsync' or 'process'"):
        Disk(durability="never")  # type: ignore[arg-type]


def _calls_of_publishing(folder: Path) -> int:
    disk = CountingDisk()
    publish_new(disk, folder / "whole", b"all of it")
    return disk.calls


def test_a_file_that_is_published_is_whole_or_not_there_whichever_write_fails(tmp_path: Path) -> None:
    calls = _calls_of_publishing(tmp_path)
    assert calls >= 6
    for at in range(calls):
        path = tmp_path / f"{at}.json"
        with pytest.raises(StorageFailure):
            publish_new(FailingDisk(at, errno.ENOSPC), path, b"all of it", mode=0o444)
        assert not staging_path(path).exists()
        assert not path.exists() or path.read_bytes() == b"all of it"


def test_a_file_that_is_published_is_whole_or_not_there_wherever_the_process_dies(tmp_path: Path) -> None:
    for at in range(_calls_of_publishing(tmp_path)):
        path = tmp_path / f"{at}.json"
        in_child(lambda at=at, path=path: publish_new(DyingDisk(at), path, b"all of it", mode=0o444))
        assert not path.exists() or path.read_bytes() == b"all of it"
        if not path.exists():
            publish_new(Disk(durability="process"), path, b"again")  # what the dead one left stands in nobody's way
            assert path.read_bytes() == b"again" and not staging_path(path).exists()


def test_a_published_file_never_replaces_one_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"kept")
    with pytest.raises(StorageFailure, match="EEXIST"):
        publish_new(Disk(durability="process"), tmp_path / "f", b"other")
    assert (tmp_path / "f").read_bytes() == b"kept" and [p.name for p in tmp_path.iterdir()] == ["f"]
