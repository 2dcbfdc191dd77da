"""A kernel in memory: one running process on a tree of files that survives it."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from trialplate.store.kernel import Kind
from trialplate.testing.memory_files import ROOT, Change, MemoryFiles


@dataclass(slots=True)
class _Open:
    """An open file or folder. ``end``: every write goes to the end (O_APPEND)."""

    number: int
    end: bool
    position: int = 0


class MemoryKernel:
    """What :class:`~trialplate.store.kernel.Kernel` asks for, on :class:`MemoryFiles`.

    Several kernels on the same files are several processes.
    """

    def __init__(self, files: MemoryFiles) -> None:
        self.files = files
        self._open: dict[int, _Open] = {}
        self._anchors: dict[Path, int] = {}
        self._last = 2

    def open(self, path: Path, flags: int, *, mode: int = 0o777) -> int:
        """Open or create."""
        folder, name = self._parent(path)
        number = self.files.names[folder].get(name) if name else folder
        if flags & os.O_CREAT:
            if number is not None and flags & os.O_EXCL:
                raise _error(errno.EEXIST, path)
            number = self.files.create(folder, name, kind="file") if number is None else number
        if number is None:
            raise _error(errno.ENOENT, path)
        if flags & os.O_DIRECTORY and number in self.files.files:
            raise _error(errno.ENOTDIR, path)
        if flags & (os.O_WRONLY | os.O_RDWR) and number in self.files.names:
            raise _error(errno.EISDIR, path)
        self._last += 1
        self._open[self._last] = _Open(number, bool(flags & os.O_APPEND))
        return self._last

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write all of it."""
        opened = self._open[descriptor]
        file = self.files.files[opened.number]
        offset = len(file.content) if opened.end else opened.position
        file.change(Change(offset, bytes(data)))
        opened.position = offset + len(data)
        return len(data)

    def read(self, descriptor: int, limit: int) -> bytes:
        """Read on."""
        opened = self._open[descriptor]
        if opened.number in self.files.names:
            raise _error(errno.EISDIR, Path())
        data = bytes(self.files.files[opened.number].content[opened.position : opened.position + limit])
        opened.position += len(data)
        return data

    def fsync(self, descriptor: int) -> None:
        """Make content or names durable."""
        number = self._open[descriptor].number
        if number in self.files.names:
            self.files.sync_names(number)
        else:
            self.files.files[number].sync()

    def fail_fsync(self, descriptor: int) -> None:
        """Let a sync of a file come to nothing; un-synced names stay what they are."""
        number = self._open[descriptor].number
        if number in self.files.files:
            self.files.files[number].fail_sync()

    def close(self, descriptor: int) -> None:
        """Close, and give up its lock."""
        opened = self._open.pop(descriptor)
        if self.files.holders.get(opened.number) is opened:
            del self.files.holders[opened.number]

    def flock(self, descriptor: int) -> None:
        """Lock without waiting."""
        opened = self._open[descriptor]
        if self.files.holders.setdefault(opened.number, opened) is not opened:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut."""
        self.files.files[self._open[descriptor].number].change(Change(size, None))

    def size(self, descriptor: int) -> int:
        """Ask for the size."""
        return len(self.files.files[self._open[descriptor].number].content)

    def leads_to(self, path: Path, descriptor: int) -> bool:
        """Compare numbers; anchors are left out of it."""
        try:
            return self.files.find(path) == self._open[descriptor].number
        except (FileNotFoundError, NotADirectoryError):
            return False

    def kind(self, path: Path) -> Kind | None:
        """Look."""
        try:
            return self._kind(self._find(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def entries(self, folder: Path) -> dict[str, Kind]:
        """List."""
        number = self._find(folder)
        if number not in self.files.names:
            raise _error(errno.ENOTDIR, folder)
        return {name: self._kind(inside) for name, inside in self.files.names[number].items()}

    def rename(self, source: Path, target: Path) -> None:
        """Rename over."""
        self.files.move(*self._rename_places(source, target))

    def rename_noreplace(self, source: Path, target: Path) -> None:
        """Rename where nothing is. A source that is not there is reported before a target that is, as by Linux."""
        gone, (folder, name) = self._rename_places(source, target)
        if name in self.files.names[folder]:
            raise _error(errno.EEXIST, target)
        self.files.move(gone, (folder, name))

    def unlink(self, path: Path) -> None:
        """Remove."""
        self.files.remove(*self._parent(path))

    def mkdir(self, path: Path) -> None:
        """Create."""
        folder, name = self._parent(path)
        self.files.create(folder, name, kind="folder")

    def anchor(self, folder: Path) -> None:
        """Hold a folder."""
        self._anchors.setdefault(folder, self._find(folder))

    def release(self, folder: Path) -> None:
        """Let it go."""
        self._anchors.pop(folder, None)

    def end(self) -> None:
        """End the process: its locks are free, whatever it had written stays written."""
        for descriptor in list(self._open):
            MemoryKernel.close(self, descriptor)
        self._anchors.clear()

    def _kind(self, number: int) -> Kind:
        return "file" if number in self.files.files else "folder"

    def _find(self, path: Path) -> int:
        for folder, number in self._anchors.items():
            if path.is_relative_to(folder):
                return self.files.find(path.relative_to(folder), start=number)
        return self.files.find(path)

    def _rename_places(self, source: Path, target: Path) -> tuple[tuple[int, str], tuple[int, str]]:
        """Return the places of both names. Raises FileNotFoundError for a source that is not there."""
        gone, come = self._parent(source), self._parent(target)
        if gone[1] not in self.files.names[gone[0]]:
            raise _error(errno.ENOENT, source)
        return gone, come

    def _parent(self, path: Path) -> tuple[int, str]:
        """Return the number of the folder that a path lies in, and its name there; no name for a top."""
        if path in self._anchors or path == path.parent:
            return self._anchors.get(path, ROOT), ""
        folder = self._find(path.parent)
        if folder not in self.files.names:
            raise _error(errno.ENOTDIR, path)
        return folder, path.name


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
