"""Disks that end their process, or fail, at a chosen call; and a way to run something in a child that may die."""

from __future__ import annotations

import errno
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

from trialplate.errors import StorageFailure
from trialplate.store.fsio import Disk


class CountingDisk(Disk):
    """Calls ``at_call(number, name)`` before every operation that can change the disk."""

    def __init__(self) -> None:
        super().__init__(durability="process")
        self.calls = 0

    def at_call(self, number: int, name: str) -> None:
        """Count only."""

    def _counted(self, name: str) -> None:
        self.calls += 1
        self.at_call(self.calls - 1, name)

    def open_new(self, path: Path, *, mode: int = 0o644) -> int:
        self._counted("open")
        return super().open_new(path, mode=mode)

    def write_all(self, descriptor: int, data: bytes) -> None:
        self._counted("write")
        half = len(data) // 2
        super().write_all(descriptor, data[:half])
        self._counted("write the rest")
        super().write_all(descriptor, data[half:])

    def fsync(self, descriptor: int) -> None:
        self._counted("fsync")

    def fsync_dir(self, folder: Path) -> None:
        self._counted("fsync the folder")

    def close(self, descriptor: int) -> None:
        super().close(descriptor)  # a close that reports an error has given the descriptor back all the same
        self._counted("close")

    def rename(self, source: Path, target: Path) -> None:
        self._counted("rename")
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._counted("remove")
        super().remove(path)

    def make_folder(self, path: Path) -> None:
        self._counted("make a folder")
        super().make_folder(path)


class DyingDisk(CountingDisk):
    """Ends its process by SIGKILL at call ``at``."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at

    def at_call(self, number: int, name: str) -> None:
        if number == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


class FailingDisk(CountingDisk):
    """Fails call ``at`` with an error number; every other call succeeds, also the next one."""

    def __init__(self, at: int, number: int) -> None:
        super().__init__()
        self._at, self._number = at, number

    def at_call(self, number: int, name: str) -> None:
        if number == self._at:
            text = f"{os.strerror(self._number)} ({errno.errorcode[self._number]})"
            raise StorageFailure(f"could not {name}: {text}")


def in_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a forked child; return its exit status, negative for a signal."""
    child = os.fork()
    if child == 0:
        status = 3
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
