"""The system calls of the store as one small object, so that a fault model can stand in the place of the kernel.

Every call raises OSError as the kernel does. What a failure means, and what to do, is said in
``trialplate.store.fsio``; nothing here retries, syncs by itself or decides.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import Literal, Protocol

Kind = Literal["file", "folder", "other"]
_NO_REPLACE = 1  # RENAME_NOREPLACE of renameat2(2)
_HERE = -100  # AT_FDCWD


class Kernel(Protocol):
    """What :class:`~trialplate.store.fsio.Disk` asks of an operating system. Descriptors are plain integers."""

    def open(self, path: Path, flags: int, *, mode: int = 0o777) -> int:
        """Open or create a file or folder; return its descriptor."""
        ...

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write some bytes at the end; return how many were taken."""
        ...

    def read(self, descriptor: int, limit: int) -> bytes:
        """Return the next bytes, at most ``limit``; nothing at the end."""
        ...

    def fsync(self, descriptor: int) -> None:
        """Make a file's content, or the names in a folder, durable."""
        ...

    def close(self, descriptor: int) -> None:
        """Give a descriptor back, and with it the lock on its file."""
        ...

    def flock(self, descriptor: int) -> None:
        """Take the exclusive lock of an open file. Raises BlockingIOError when somebody holds it."""
        ...

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut an open file."""
        ...

    def size(self, descriptor: int) -> int:
        """Return how many bytes an open file has now, whoever wrote them."""
        ...

    def leads_to(self, path: Path, descriptor: int) -> bool:
        """Return whether a path, walked anew from the top, leads to an open file."""
        ...

    def kind(self, path: Path) -> Kind | None:
        """Return what is there; None when nothing is. Links are not followed."""
        ...

    def entries(self, folder: Path) -> dict[str, Kind]:
        """Return the names in a folder and what each is."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Rename; a file in the place of ``target`` is replaced."""
        ...

    def rename_noreplace(self, source: Path, target: Path) -> None:
        """Rename; raises FileExistsError where anything is in the place of ``target``, also an empty folder."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove a file's name."""
        ...

    def mkdir(self, path: Path) -> None:
        """Create a folder."""
        ...

    def anchor(self, folder: Path) -> None:
        """Reach everything below ``folder`` through a handle on it from now on, wherever its path leads later."""
        ...

    def release(self, folder: Path) -> None:
        """Give the handle of ``anchor`` back."""
        ...


class SystemKernel:
    """The kernel of this machine. Python repeats interrupted calls itself (PEP 475)."""

    def __init__(self) -> None:
        self._anchors: dict[Path, int] = {}

    def open(self, path: Path, flags: int, *, mode: int = 0o777) -> int:
        """Open; never inherited by a program that is started."""
        name, at = self._place(path)
        return os.open(name, flags | os.O_CLOEXEC, mode, dir_fd=at)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write some bytes."""
        return os.write(descriptor, data)

    def read(self, descriptor: int, limit: int) -> bytes:
        """Read some bytes."""
        return os.read(descriptor, limit)

    def fsync(self, descriptor: int) -> None:
        """Sync a file or a folder."""
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Close."""
        os.close(descriptor)

    def flock(self, descriptor: int) -> None:
        """Lock without waiting. A dead process holds no lock by nature."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut."""
        os.ftruncate(descriptor, size)

    def size(self, descriptor: int) -> int:
        """Ask for the size."""
        return os.fstat(descriptor).st_size

    def leads_to(self, path: Path, descriptor: int) -> bool:
        """Compare device and inode; anchors are left out of it."""
        opened = os.fstat(descriptor)
        try:
            found = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (opened.st_dev, opened.st_ino) == (found.st_dev, found.st_ino)

    def kind(self, path: Path) -> Kind | None:
        """Look without following a link."""
        name, at = self._place(path)
        try:
            return _kind(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def entries(self, folder: Path) -> dict[str, Kind]:
        """List; links and devices are ``other``."""
        handle = self.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(handle) as listed:
                return {entry.name: _kind(entry.stat(follow_symlinks=False).st_mode) for entry in listed}
        finally:
            os.close(handle)

    def rename(self, source: Path, target: Path) -> None:
        """Rename over."""
        (old, old_at), (new, new_at) = self._place(source), self._place(target)
        os.rename(old, new, src_dir_fd=old_at, dst_dir_fd=new_at)

    def rename_noreplace(self, source: Path, target: Path) -> None:
        """Call renameat2(2), which Python does not offer. ENOSYS where the C library or the file system lacks it."""
        call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if call is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(target))
        (old, old_at), (new, new_at) = self._place(source), self._place(target)
        places = (_HERE if old_at is None else old_at, os.fsencode(old), _HERE if new_at is None else new_at)
        if call(*places, os.fsencode(new), _NO_REPLACE) != 0:
            number = ctypes.get_errno()
            number = errno.ENOSYS if number == errno.EINVAL else number
            raise OSError(number, os.strerror(number), str(target))

    def unlink(self, path: Path) -> None:
        """Remove."""
        name, at = self._place(path)
        os.unlink(name, dir_fd=at)

    def mkdir(self, path: Path) -> None:
        """Create one folder."""
        name, at = self._place(path)
        os.mkdir(name, dir_fd=at)

    def anchor(self, folder: Path) -> None:
        """Open the folder once."""
        if folder not in self._anchors:
            self._anchors[folder] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def release(self, folder: Path) -> None:
        """Close the folder; nothing happens when it was not open."""
        handle = self._anchors.pop(folder, None)
        if handle is not None:
            os.close(handle)

    def _place(self, path: Path) -> tuple[Path | str, int | None]:
        for folder, handle in self._anchors.items():
            text, above = str(path), f"{folder}/"
            if text.startswith(above):  # what nearly every call asks for, in a tenth of the time
                return text[len(above) :], handle
            if path.is_relative_to(folder):
                return path.relative_to(folder), handle
        return path, None


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "other"
