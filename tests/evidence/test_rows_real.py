"""Rows 44, 45 and 47 of the evidence specification with real processes on real disks: the model may be wrong.

A killed process proves little about durability, because the page cache survives it; ``test_rows_disk`` does that.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import crash_writer
from crash_writer import assert_not_broken, assert_whole
from golden import snapshot

PROGRAM = Path(crash_writer.__file__)


def _write(folder: Path, *limits: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a writer to its end."""
    path = os.pathsep.join([str(PROGRAM.parent), *filter(None, sys.path)])
    return subprocess.run(
        [*before, sys.executable, str(PROGRAM), str(folder), *limits],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


def _assert_stopped(done: subprocess.CompletedProcess[str], folder: Path, number: int) -> None:
    """The writer said what failed and where, and what it had told is durable."""
    assert done.returncode == 1, done.stderr
    assert errno.errorcode[number] in done.stderr and "Traceback" not in done.stderr
    assert str(folder.parent.parent) in done.stderr
    assert_not_broken(folder)


# -- killed at seeded moments ----------------------------------------------------------------------------------


def _killed_after(folder: Path, moment_s: float) -> list[str]:
    """Go on with a campaign in a forked process, kill it after a while, and return what it had said was ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.dup2(writing, 1)
            crash_writer.main(folder, [])
        finally:
            os._exit(0)
    os.close(writing)
    time.sleep(moment_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading) as told:
        return told.read().split()


@pytest.mark.parametrize("kills", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_rows_44_and_45_writers_and_recoveries_killed_at_seeded_moments_lose_nothing(
    tmp_path: Path, kills: int
) -> None:
    draw = random.Random(kills)
    start_s = time.perf_counter()
    crash_writer.main(tmp_path / "whole", [])
    whole_s = time.perf_counter() - start_s
    done = 0
    while done < kills:
        folder, told = tmp_path / f"k{done}", []
        for _ in range(draw.randrange(1, 4)):  # the writer, and then perhaps those that recover
            told += _killed_after(folder, draw.uniform(0.0, 1.1 * whole_s))
            assert_not_broken(folder)
            done += 1
        with crash_writer.go_on(folder) as writer:
            crash_writer.finish(writer, told=told.append)
        assert_whole(folder, told=told)
        shutil.rmtree(folder)


# -- real errors -----------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"this machine may not mount a small file system: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_row_47_a_disk_of_one_mebibyte_that_is_full_stops_the_run_and_with_room_it_goes_on(small_disk: Path) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    seen = set()
    for pages in (1, 2, 3, 6, 10, 14):
        folder, filler = small_disk / "c", small_disk / "filler"
        filler.write_bytes(bytes(1024 * 1024 - pages * page))
        stopped = _write(folder)
        _assert_stopped(stopped, folder, errno.ENOSPC)
        seen.add(stopped.stderr.partition(":")[0])
        before = {name: data for name, data in snapshot(folder).items() if name.startswith("episodes/")}
        filler.unlink()
        told = stopped.stdout.split()
        assert crash_writer.main(folder, []) == 0
        assert_whole(folder, told=told)
        ended = tuple(f"episodes/{key}/" for key in told)
        after = snapshot(folder)
        assert all(after[name] == data for name, data in before.items() if name.startswith(ended))
        shutil.rmtree(folder)
    assert len(seen) >= 4, "the disk was full at the same place each time"


def test_row_47_too_few_open_files_stop_the_run_with_the_way_out(tmp_path: Path) -> None:
    said = set()
    for limit in range(3, 9):
        folder = tmp_path / f"n{limit}"
        stopped = _write(folder, f"RLIMIT_NOFILE={limit}")
        if stopped.returncode == 0:
            break
        _assert_stopped(stopped, folder, errno.EMFILE)
        assert "ulimit -n" in stopped.stderr
        said.add(stopped.stderr.partition(":")[0])
        assert crash_writer.main(folder, []) == 0
        assert_whole(folder, told=stopped.stdout.split())
    assert len(said) >= 2


def test_row_47_a_limit_on_the_size_of_files_stops_the_run(tmp_path: Path) -> None:
    for limit in (700, 2_000, 6_000):
        folder = tmp_path / f"s{limit}"
        stopped = _write(folder, f"RLIMIT_FSIZE={limit}")
        _assert_stopped(stopped, folder, errno.EFBIG)
        assert crash_writer.main(folder, []) == 0
        assert_whole(folder, told=stopped.stdout.split())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become a user who may not write")
def test_row_47_a_folder_that_may_not_be_written_stops_the_run(tmp_path: Path) -> None:
    for above in (tmp_path, *tmp_path.parents):
        if not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o011)
    folder = tmp_path / "c"
    assert _write(folder).returncode == 0
    before = snapshot(folder)
    stopped = _write(folder, "uid=65534")
    if "ModuleNotFoundError" in stopped.stderr or "Permission denied: " in stopped.stderr:
        pytest.skip("another user may not read this installation")
    _assert_stopped(stopped, folder, errno.EACCES)
    assert snapshot(folder) == before


INJECTIONS = {
    "fsync:error=EIO:when=7": ("EIO", 1),
    "fsync:error=ENOSPC:when=20": ("ENOSPC", 1),
    "fsync:error=EDQUOT:when=33": ("EDQUOT", 1),
    "renameat,rename:error=EROFS:when=3": ("EROFS", 1),
    "renameat,rename:signal=KILL:when=1": ("", -signal.SIGKILL),
    "renameat,rename:signal=KILL:when=4": ("", -signal.SIGKILL),
    "fsync:signal=KILL:when=11": ("", -signal.SIGKILL),
    "write:error=EINTR:when=2+3": ("", 0),
}


@pytest.mark.parametrize("injection", INJECTIONS)
def test_row_47_what_strace_makes_of_a_real_system_call_stops_the_run_and_it_goes_on(
    tmp_path: Path, injection: str
) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    folder, log = tmp_path / "c", tmp_path / "log"
    calls = injection.partition(":")[0]
    before = ("strace", "-qq", "-o", str(log), "-e", f"trace={calls}", "-e", f"inject={injection}")
    done = _write(folder, before=before)
    if "ptrace" in done.stderr:
        pytest.skip(f"strace may not trace here: {done.stderr.strip()[:200]}")
    text, code = INJECTIONS[injection]
    assert done.returncode in (code, 128 - code if code < 0 else code), done.stderr
    assert text in done.stderr and "Traceback" not in done.stderr
    assert "INJECTED" in log.read_text() or "KILL" in log.read_text()
    assert_not_broken(folder)
    if code != 0:
        assert crash_writer.main(folder, []) == 0
    assert_whole(folder, told=done.stdout.split())
