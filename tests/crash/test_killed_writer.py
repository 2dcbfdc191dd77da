"""A writer that is killed anywhere loses no attempt that had ended, and what it leaves can be resumed."""

from __future__ import annotations

import errno
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import golden
from dying_disk import CountingDisk, DyingDisk, FailingDisk, in_child
from golden import again, begin, finish, lock_bytes, snapshot
from trialplate.errors import LockError, StorageFailure, UsageError
from trialplate.store.chain import HEAD, JOURNAL, read_head, scan
from trialplate.store.fsio import Disk
from trialplate.store.layout import LOCK as LOCK_NAME
from trialplate.store.layout import read_plan
from trialplate.store.verify import check
from trialplate.store.view import read_campaign

LOCK = lock_bytes(repeats=1, interrupted="replace")
DIGEST = read_plan(LOCK).sha256
KILLED = -signal.SIGKILL
EVERY = pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.slow)])
"""Every n-th call of a real file system; ``crash_matrix`` does them all in memory, where the power can go as well."""


def _write(folder: Path, disk: Disk, told: Callable[[str], None] = lambda _: None) -> None:
    with begin(folder, lock=LOCK, disk=disk) as writer:
        finish(writer, told=told)


def _resume(folder: Path, disk: Disk | None = None) -> None:
    """Go on as a caller would: from the start when nothing was started."""
    started = folder / JOURNAL
    if not started.exists() or not started.read_bytes():
        if (folder / LOCK_NAME).exists() and (folder / LOCK_NAME).read_bytes() != LOCK:
            with pytest.raises(LockError, match="no whole lock"):
                begin(folder, lock=LOCK)
            shutil.rmtree(folder)
        _write(folder, disk or Disk(durability="process"))
        return
    with again(folder, lock=LOCK, disk=disk) as writer:
        finish(writer)


def _journal_status(folder: Path) -> str:
    if not (folder / JOURNAL).exists():
        return "clean"
    head = read_head((folder / HEAD).read_bytes()) if (folder / HEAD).exists() else None
    return scan((folder / JOURNAL).read_bytes(), lock_sha256=DIGEST, head=head).status


def _assert_whole(folder: Path, *, told: list[str]) -> None:
    assert check(folder).findings == ()
    rows = {f"{row.trial_id}-{row.attempt}": row for row in read_campaign(folder).rows}
    assert all(rows[key].termination == "policy_stop" for key in told), "an attempt that had ended was lost"
    ended = [key for key, row in rows.items() if row.termination == "policy_stop"]
    assert sorted(key.partition("-")[0] for key in ended) == [f"{n:06d}" for n in range(6)], (
        "run twice, or not at all"
    )


def _calls(work: Callable[[Disk], None]) -> int:
    disk = CountingDisk()
    work(disk)
    return disk.calls


@EVERY
def test_a_writer_killed_at_any_call_leaves_a_campaign_that_can_be_finished(tmp_path: Path, every: int) -> None:
    calls = _calls(lambda disk: _write(tmp_path / "whole", disk))
    assert calls > 150
    seen = set()
    for at in range(0, calls, every):
        folder, log = tmp_path / f"k{at}", tmp_path / f"told{at}"

        def told(key: str, log: Path = log) -> None:
            with log.open("a") as file:
                file.write(f"{key}\n")

        status = in_child(lambda at=at, folder=folder, told=told: _write(folder, DyingDisk(at), told))
        assert status == KILLED
        seen.add(_journal_status(folder))
        _resume(folder)
        _assert_whole(folder, told=log.read_text().split() if log.exists() else [])
        shutil.rmtree(folder, ignore_errors=True)
    assert seen == {"clean", "torn"}


def _cut_off(folder: Path) -> None:
    """A campaign that died inside a record, in mid-episode, with a torn tail saved once before."""
    with begin(folder, lock=LOCK) as writer:
        writer.open_run({"run_id": "5f" * 16})
        golden.run_trial(writer, writer.plan.trials[0])
    with (folder / JOURNAL).open("ab") as journal:
        journal.write(b'{"data":{"an earlier')
    with again(folder, lock=LOCK) as writer:
        writer.open_run({"run_id": "5f" * 16})
        writer.start_attempt("000001", ordinal=1, arm="hasty")
        place = folder / "episodes/000001-0"
        place.mkdir()
        (place / "trace.parquet").write_bytes(b"half a trace")
        (place / "row.json").write_bytes(b"half a row")
    with (folder / JOURNAL).open("ab") as journal:
        journal.write(b'{"data":{"artifacts":[')


def _recover(folder: Path, disk: Disk) -> None:
    with again(folder, lock=LOCK, disk=disk) as writer:
        assert writer.records[-1]["type"] == "recovered"


@EVERY
def test_a_recovery_killed_at_any_call_and_then_again_ends_in_the_same_bytes(tmp_path: Path, every: int) -> None:
    cut = tmp_path / "cut"
    _cut_off(cut)
    reference = tmp_path / "reference"
    shutil.copytree(cut, reference)
    calls = _calls(lambda disk: _recover(reference, disk))
    expected = snapshot(reference)
    draw = random.Random(5)
    for at in range(0, calls, every):
        folder = tmp_path / f"k{at}"
        shutil.copytree(cut, folder)
        assert in_child(lambda at=at, folder=folder: _recover(folder, DyingDisk(at))) == KILLED
        second = draw.randrange(calls)
        in_child(lambda at=second, folder=folder: again(folder, lock=LOCK, disk=DyingDisk(at)).close())
        again(folder, lock=LOCK).close()
        assert snapshot(folder) == expected, at
        shutil.rmtree(folder)


@EVERY
def test_a_resumed_run_killed_at_any_call_can_be_resumed_again(tmp_path: Path, every: int) -> None:
    cut = tmp_path / "cut"
    _cut_off(cut)
    shutil.copytree(cut, tmp_path / "whole")
    calls = _calls(lambda disk: _resume(tmp_path / "whole", disk))
    kept = {
        name: data for name, data in snapshot(tmp_path / "whole").items() if name.startswith("episodes/000001-0/")
    }
    assert sorted(kept) == [
        f"episodes/000001-0/{name}" for name in ("row.json", "row.json.partial", "trace.parquet.partial")
    ]
    for at in range(0, calls, every):
        folder = tmp_path / f"k{at}"
        shutil.copytree(cut, folder)
        assert in_child(lambda at=at, folder=folder: _resume(folder, DyingDisk(at))) == KILLED
        _resume(folder)
        _assert_whole(folder, told=["000000-0"])
        assert {name: (folder / name).read_bytes() for name in kept} == kept
        shutil.rmtree(folder)


@EVERY
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_a_call_that_fails_once_stops_the_run_for_good_and_it_resumes(
    tmp_path: Path, number: int, every: int
) -> None:
    calls = _calls(lambda disk: _write(tmp_path / "whole", disk))
    for at in range(0, calls, every):
        folder = tmp_path / f"f{at}"
        disk = FailingDisk(at, number)
        told: list[str] = []
        writer = None
        try:
            writer = begin(folder, lock=LOCK, disk=disk)
            finish(writer, told=told.append)
        except StorageFailure as failure:
            assert errno.errorcode[number] in failure.message
        else:
            pytest.fail(f"call {at} failed and nobody noticed")
        if writer is not None:
            size = (folder / JOURNAL).stat().st_size
            with pytest.raises((StorageFailure, UsageError)):  # unusable, or closed when only the last close failed
                writer.note("after the failure", {})
            assert (folder / JOURNAL).stat().st_size == size
            writer.close()
        _resume(folder)
        _assert_whole(folder, told=told)
        shutil.rmtree(folder)
