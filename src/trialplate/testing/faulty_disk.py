"""A disk in memory that fails, stops or loses power at a chosen call: for every durable write there is a bad moment.

Source: evidence specification, section 14, point 1.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

from trialplate.errors import UsageError
from trialplate.store.fsio import Disk, Durability
from trialplate.store.kernel import Kind
from trialplate.testing.memory_files import FATES, Fate, MemoryFiles
from trialplate.testing.memory_kernel import MemoryKernel

__all__ = ["FATES", "Call", "Fate", "Fault", "FaultyDisk", "ProcessEnded"]

Action = Literal["fail", "fill", "short", "stop", "tear"]
CHANGING = frozenset({"open_new", "write", "fsync", "truncate", "rename", "unlink", "mkdir"})
"""Calls that change what programs see or what is durable; between two of them every crash leaves the same."""


class ProcessEnded(BaseException):
    """The process ended here, as by SIGKILL: no handler of the program is meant to see it, nothing runs after it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One system call: its name, and the path of the file or folder that it is about."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at call number ``at``, counted from 0.

    ``fail``: it fails with ``number`` and has done nothing; a file whose sync fails never gets what it lacked.
    ``fill``: a write takes half of its bytes, and the next write fails with ``number``. ``short``: a write takes one
    byte. ``stop``: the process ends before the call. ``tear``: it ends in the middle of a write.
    """

    at: int
    action: Action = "stop"
    number: int = errno.EIO


class FaultyDisk(Disk):
    """A :class:`~trialplate.store.fsio.Storage` in memory, one process on a tree of files that outlives it.

    ``calls`` lists every system call so far. After ``ProcessEnded``, or whenever a process should be thought of as
    ended, go on in :meth:`next_process` or :meth:`after_power_cut`; :meth:`beside` is a second one at the same time.
    """

    def __init__(
        self, *, fault: Fault | None = None, files: MemoryFiles | None = None, durability: Durability = "fsync"
    ) -> None:
        self._files = files if files is not None else MemoryFiles()
        self._faulty = _FaultyKernel(self._files, fault)
        super().__init__(durability=durability, kernel=self._faulty)

    @property
    def calls(self) -> list[Call]:
        """Every system call so far."""
        return self._faulty.calls

    @property
    def fault(self) -> Fault | None:
        """What was asked for."""
        return self._faulty.fault

    def beside(self, *, fault: Fault | None = None) -> FaultyDisk:
        """Return another process on the same files."""
        return FaultyDisk(fault=fault, files=self._files, durability=self.durability)

    def next_process(self, *, fault: Fault | None = None) -> FaultyDisk:
        """End this process and return the next one: what was written is there, synced or not; locks are free."""
        self._faulty.end()
        return self.beside(fault=fault)

    def after_power_cut(
        self, *, files: Fate = "mixed", names: Fate = "mixed", seed: int = 0, fault: Fault | None = None
    ) -> FaultyDisk:
        """Return the disk after the power went and came back. This one stays as it is.

        ``files``: what is left of un-synced bytes; ``names``: ``lost``, ``kept`` or ``mixed``, any subset of the
        un-synced changes of names. What is drawn follows from ``seed``.
        """
        if names not in ("lost", "kept", "mixed"):
            raise UsageError(f"names {names!r}: expected 'lost', 'kept' or 'mixed'; a name cannot be left in part")
        left = self._files.after_power_cut(files=files, names=names, draw=Random(seed))
        return FaultyDisk(fault=fault, files=left, durability=self.durability)

    def tree(self, folder: Path) -> dict[str, bytes]:
        """Return every file below a folder as programs see it: path relative to it -> content."""
        return self._files.tree(folder)

    def export(self, folder: Path, into: Path) -> None:
        """Write a folder as programs see it into a real one that does not exist yet."""
        self._files.export(folder, into)


class _FaultyKernel(MemoryKernel):
    def __init__(self, files: MemoryFiles, fault: Fault | None) -> None:
        super().__init__(files)
        self.fault = fault
        self.calls: list[Call] = []
        self._paths: dict[int, Path] = {}
        self._ended = False
        self._full = False

    def _call(self, name: str, path: Path) -> Action | None:
        """Count a call; fail or end where that was asked for. Returns what a write has to do to itself."""
        if self._ended:
            raise ProcessEnded(f"{name} {path}: this process has ended")
        here = self.fault is not None and self.fault.at == len(self.calls)
        self.calls.append(Call(name, path))
        if not here or self.fault is None:
            return None
        action = self.fault.action
        if action == "stop" or (action == "tear" and name != "write"):
            self._end_here(name, path)
        if action == "fail":
            raise OSError(self.fault.number, os.strerror(self.fault.number), str(path))
        return action

    def _end_here(self, name: str, path: Path) -> None:
        self._ended = True
        raise ProcessEnded(f"{name} {path}")

    def end(self) -> None:
        self._ended = True
        super().end()

    def open(self, path: Path, flags: int, *, mode: int = 0o777) -> int:
        self._call("open_new" if flags & os.O_CREAT else "open", path)
        descriptor = super().open(path, flags, mode=mode)
        self._paths[descriptor] = path
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        path = self._paths[descriptor]
        action = self._call("write", path)
        if self._full and self.fault is not None:
            raise OSError(self.fault.number, os.strerror(self.fault.number), str(path))
        if action is None:
            return super().write(descriptor, data)
        part = data[:1] if action == "short" else data[: len(data) // 2]
        taken = super().write(descriptor, part) if len(part) else 0
        if action == "tear":
            self._end_here("write", path)
        if action == "fill":
            self._full = True
            if not taken and self.fault is not None:
                raise OSError(self.fault.number, os.strerror(self.fault.number), str(path))
        return taken

    def read(self, descriptor: int, limit: int) -> bytes:
        self._call("read", self._paths[descriptor])
        return super().read(descriptor, limit)

    def fsync(self, descriptor: int) -> None:
        try:
            self._call("fsync", self._paths[descriptor])
        except OSError:
            self.fail_fsync(descriptor)
            raise
        super().fsync(descriptor)

    def close(self, descriptor: int) -> None:
        path = self._paths[descriptor]
        try:
            self._call("close", path)
        except OSError:
            super().close(descriptor)  # as Linux does: whatever it reports, the descriptor is gone
            raise
        super().close(descriptor)

    def flock(self, descriptor: int) -> None:
        self._call("flock", self._paths[descriptor])
        super().flock(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        self._call("truncate", self._paths[descriptor])
        super().truncate(descriptor, size)

    def leads_to(self, path: Path, descriptor: int) -> bool:
        self._call("leads_to", path)
        return super().leads_to(path, descriptor)

    def kind(self, path: Path) -> Kind | None:
        self._call("kind", path)
        return super().kind(path)

    def entries(self, folder: Path) -> dict[str, Kind]:
        self._call("entries", folder)
        return super().entries(folder)

    def rename(self, source: Path, target: Path) -> None:
        self._call("rename", source)
        super().rename(source, target)

    def rename_noreplace(self, source: Path, target: Path) -> None:
        self._call("rename", source)
        super().rename_noreplace(source, target)

    def unlink(self, path: Path) -> None:
        self._call("unlink", path)
        super().unlink(path)

    def mkdir(self, path: Path) -> None:
        self._call("mkdir", path)
        super().mkdir(path)

    def anchor(self, folder: Path) -> None:
        self._call("anchor", folder)
        super().anchor(folder)
