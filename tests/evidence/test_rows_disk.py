"""Rows 28 and 44 to 50 of the evidence specification: crashes, power cuts, failing calls, second writers.

The crash points are those of ``crash_matrix``: a sample here, all in ``tools/crash_run.py`` and among the slow
tests of ``tests/crash``.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import crash_matrix
from crash_matrix import BASES, CAMPAIGN, DIGEST, Point, examine, points, undisturbed
from dying_disk import CountingDisk
from golden import StepClock, again, begin, build, finish, lock_bytes, run_trial, snapshot
from trialplate.canonical import sha256_hex
from trialplate.errors import EvidenceError, StorageFailure, UsageError
from trialplate.store import folder as store_folder
from trialplate.store.campaign import CampaignWriter
from trialplate.store.chain import HEAD, JOURNAL, read_head, scan
from trialplate.store.fsio import Disk
from trialplate.store.verify import check
from trialplate.testing.faulty_disk import CHANGING, Fault, FaultyDisk, ProcessEnded

LOCK = lock_bytes(repeats=1)
POINTS = tuple(points())


def _examine_some(which: Callable[[Point], bool], *, about: int) -> int:
    """Examine about so many of the points that are meant, spread over all bases and calls."""
    chosen = [point for point in POINTS if which(point)]
    some = chosen[:: max(1, len(chosen) // about)]
    for point in some:
        examine(point)
    assert {point.base for point in some} == set(BASES)
    return len(some)


# -- row 28 ----------------------------------------------------------------------------------------------------


def test_row_28_a_journal_cut_anywhere_is_broken_with_its_head_and_torn_only_behind_an_older_one(
    tmp_path: Path,
) -> None:
    with begin(tmp_path / "c", lock=LOCK) as writer:
        writer.open_run({"run_id": "28" * 16})
        run_trial(writer, writer.plan.trials[0])
        older = (tmp_path / "c" / HEAD).read_bytes()
        run_trial(writer, writer.plan.trials[1])
    folder = tmp_path / "c"
    data, heads = (folder / JOURNAL).read_bytes(), ((folder / HEAD).read_bytes(), older)
    ends = {0, *(n + 1 for n, byte in enumerate(data) if byte == 10)}
    for size in range(len(data) + 1):
        for head in map(read_head, heads):
            status = scan(data[:size], lock_sha256=sha256_hex(LOCK), head=head).status
            whole = "clean" if size in ends else "torn"
            assert status == ("broken" if size < head.size else whole), size


def test_row_28_verify_calls_a_torn_campaign_broken_until_the_writer_has_recovered_it(tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    with begin(cut, lock=LOCK) as writer:
        writer.open_run({"run_id": "28" * 16})
        run_trial(writer, writer.plan.trials[0])
        writer.start_attempt("000001", ordinal=1, arm=writer.plan.trials[1].arm)
    data, durable = (cut / JOURNAL).read_bytes(), read_head((cut / HEAD).read_bytes()).size
    for size in [*range(durable, len(data), 29), len(data) - 1]:
        folder = tmp_path / f"cut{size}"
        shutil.copytree(cut, folder)
        (folder / JOURNAL).write_bytes(data[:size])
        torn = size > durable
        found = check(folder)
        assert ("journal_broken" in {item.code for item in found.findings}) is torn
        assert found.exit_code == (1 if torn else 3)
        with again(folder, lock=LOCK) as writer:
            finish(writer)
        assert check(folder).findings == () and (folder / "journal.partial").exists() is torn


def test_row_28_a_journal_cut_before_its_head_is_not_resumed(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", lock=LOCK)
    data = (folder / JOURNAL).read_bytes()
    for size in range(0, len(data), 211):
        (folder / JOURNAL).write_bytes(data[:size])
        before = snapshot(folder)
        with pytest.raises(EvidenceError) as caught:
            again(folder, lock=LOCK)
        assert caught.value.code == "journal_broken" and snapshot(folder) == before


# -- rows 44 to 48 ---------------------------------------------------------------------------------------------


def test_row_44_a_writer_killed_at_any_call_leaves_a_clean_or_torn_journal_and_resumes_to_the_same_bytes() -> None:
    assert _examine_some(lambda p: p.power is None and p.fault.action in ("stop", "tear"), about=150) >= 150


def _recover(disk: FaultyDisk) -> None:
    CampaignWriter.resume(CAMPAIGN, lock_sha256=DIGEST, disk=disk, clock=StepClock(start_s=40_000)).close()


def test_row_45_a_recovery_killed_at_any_call_and_then_at_any_other_ends_in_the_same_bytes() -> None:
    whole = crash_matrix.start("from a torn record")
    _recover(whole)
    expected = whole.tree(CAMPAIGN)
    killing = [at for at, call in enumerate(whole.calls) if call.name in CHANGING]
    assert len(killing) > 15 and b'"recovered"' in expected[JOURNAL]
    for first in killing:
        for second in killing:
            disk = crash_matrix.start("from a torn record", Fault(first))
            with pytest.raises(ProcessEnded):
                _recover(disk)
            disk = disk.next_process(fault=Fault(second))
            try:
                _recover(disk)
            except ProcessEnded:
                _recover(disk := disk.next_process())
            assert disk.tree(CAMPAIGN) == expected, (first, second)


def test_row_46_a_power_cut_at_any_call_never_breaks_a_journal_and_takes_nothing_that_had_ended() -> None:
    assert _examine_some(lambda p: p.power is not None and p.fault.action == "stop", about=300) >= 300


def test_row_47_a_call_that_fails_stops_the_run_with_its_path_and_the_run_can_go_on_later() -> None:
    assert _examine_some(lambda p: p.power is None and p.fault.action in ("fail", "fill"), about=300) >= 300


def test_row_47_short_writes_go_on() -> None:
    assert _examine_some(lambda p: p.fault.action == "short", about=60) >= 60


INTERRUPTED_WRITER = """
import signal, sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from golden import build
from trialplate.store.fsio import Disk
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
build(Path(sys.argv[1]), disk=Disk())
signal.setitimer(signal.ITIMER_REAL, 0)
print(len(seen))
"""


def test_row_47_signals_that_interrupt_system_calls_change_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WRITER, str(tmp_path / "c"), *sys.path],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20
    assert check(tmp_path / "c").findings == ()


def test_row_48_after_a_failed_sync_nothing_is_recorded_although_the_next_one_would_succeed() -> None:
    syncs = {base: {at for at, call in enumerate(undisturbed(base).calls) if call.name == "fsync"} for base in BASES}
    count = _examine_some(
        lambda p: p.fault.action == "fail" and p.fault.number == errno.EIO and p.fault.at in syncs[p.base], about=200
    )
    assert count >= 200


# -- row 49 ----------------------------------------------------------------------------------------------------


def test_row_49_a_second_writer_is_refused_in_this_process_and_in_another(tmp_path: Path) -> None:
    with begin(tmp_path / "c", lock=LOCK) as writer:
        writer.open_run({"host": "golden"})
        before = snapshot(tmp_path / "c")
        for start in (again, begin):
            with pytest.raises(UsageError) as caught:
                start(tmp_path / "c", lock=LOCK)
            assert caught.value.code in ("campaign_busy", "campaign_exists")
        program = (
            "import sys; from pathlib import Path; from trialplate.store.campaign import CampaignWriter\n"
            "CampaignWriter.resume(Path(sys.argv[1]), lock_sha256=sys.argv[2])"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "c"), sha256_hex(LOCK)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert "being written by another process" in done.stderr
        assert snapshot(tmp_path / "c") == before
        finish(writer)


def _forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        status = 0
        try:
            work()
        except UsageError as error:
            status = 7 if error.code == "campaign_busy" else 8
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_row_49_a_forked_child_of_a_writer_cannot_write(tmp_path: Path) -> None:
    with begin(tmp_path / "c", lock=LOCK) as writer:
        writer.open_run({"host": "golden"})
        trial = writer.plan.trials[0]
        before = snapshot(tmp_path / "c")
        assert _forked(lambda: writer.start_attempt("000000", ordinal=0, arm=trial.arm) and None) == 7
        assert _forked(lambda: run_trial(writer, trial)) == 7
        assert snapshot(tmp_path / "c") == before
        finish(writer)
    assert check(tmp_path / "c").findings == ()


def test_row_49_the_lock_of_a_killed_writer_is_free(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        writer = begin(tmp_path / "c", lock=LOCK)
        writer.open_run({"host": "golden"})
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with again(tmp_path / "c", lock=LOCK) as writer:
        finish(writer)
    assert check(tmp_path / "c").findings == ()


def test_row_49_a_file_system_without_locks_is_refused_with_the_reason(tmp_path: Path) -> None:
    for number in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
        calls = [call.name for call in undisturbed("from nothing").calls]
        disk = crash_matrix.start("from nothing", Fault(calls.index("flock"), "fail", number))
        with pytest.raises(UsageError, match="without flock") as caught:
            crash_matrix.go_on(disk, [])
        assert caught.value.code == "no_flock"
        assert set(disk.tree(CAMPAIGN)) <= {"lock.json", JOURNAL} and not disk.tree(CAMPAIGN).get(JOURNAL)


# -- row 50 ----------------------------------------------------------------------------------------------------


class MeddledDisk(CountingDisk):
    """At call ``at`` something is done to the folder that is written to."""

    def __init__(self, at: int, meddle: Callable[[], None]) -> None:
        super().__init__()
        self._at, self._meddle = at, meddle

    def at_call(self, number: int, name: str) -> None:
        if number == self._at:
            self._meddle()


def _meddlings(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    moved = folder.with_name("moved")

    def replaced_by_an_empty_one() -> None:
        folder.rename(moved)
        folder.mkdir()

    def replaced_by_a_copy() -> None:
        folder.rename(moved)
        shutil.copytree(moved, folder)

    yield "removed", lambda: shutil.rmtree(folder)
    yield "replaced by an empty one", replaced_by_an_empty_one
    yield "replaced by a copy", replaced_by_a_copy


def test_row_50_a_campaign_folder_that_is_removed_or_replaced_stops_the_run_and_nothing_lands_elsewhere(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "c"
    counting = CountingDisk()
    with begin(folder, lock=LOCK, disk=counting) as writer:
        first, last = counting.calls, len(writer.plan.trials)
        finish(writer)
    assert last == 6
    shutil.rmtree(folder)
    for at in range(first, counting.calls - 30, 7):
        for name, meddle in _meddlings(folder):
            at_meddling: dict[str, bytes] = {}

            def remembered(meddle: Callable[[], None] = meddle, seen: dict[str, bytes] = at_meddling) -> None:
                meddle()
                seen |= snapshot(folder) if folder.exists() else {}

            writer = begin(folder, lock=LOCK, disk=MeddledDisk(at, remembered))
            with pytest.raises(StorageFailure):
                finish(writer)
            with pytest.raises(StorageFailure):
                writer.note("after", {})
            writer.close()
            assert folder.exists() is (name != "removed"), (at, name)
            assert (snapshot(folder) if folder.exists() else {}) == at_meddling, (at, name)
            assert sorted(path.name for path in tmp_path.iterdir()) in (["c", "moved"], ["c"], [])
            for path in tmp_path.iterdir():
                shutil.rmtree(path)


@pytest.mark.parametrize("name", ["episodes/000000-0/trace.parquet", "rows.jsonl", "completion.json", JOURNAL])
def test_row_50_a_file_that_grows_while_it_is_verified_does_not_hold_the_check_and_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = build(tmp_path / "c", lock=LOCK)
    inode = (folder / name).stat().st_ino

    class Growing:
        """The ``os`` module, in which the file becomes longer whenever it is opened or read."""

        def __getattr__(self, attribute: str) -> object:
            return getattr(os, attribute)

        def fstat(self, descriptor: int) -> os.stat_result:
            self._grow(descriptor)
            return os.fstat(descriptor)

        def read(self, descriptor: int, size: int) -> bytes:
            self._grow(descriptor)
            return os.read(descriptor, size)

        def _grow(self, descriptor: int) -> None:
            if os.fstat(descriptor).st_ino == inode:
                with (folder / name).open("ab") as file:
                    file.write(b"more\n")

    monkeypatch.setattr(store_folder, "os", Growing())
    assert check(folder).exit_code in (1, 2)


def test_row_50_a_file_that_vanishes_while_it_is_verified_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build(tmp_path / "c", lock=LOCK)
    listed = store_folder.Folder.contents

    def vanishing(self: store_folder.Folder, *arguments: object, **named: object) -> object:
        contents = listed(self, *arguments, **named)  # type: ignore[arg-type]
        shutil.rmtree(folder / "episodes" / "000001-0")
        return contents

    monkeypatch.setattr(store_folder.Folder, "contents", vanishing)
    assert check(folder).exit_code in (1, 2)
    assert Disk().entries(folder / "episodes" / "000001-0") == {}
