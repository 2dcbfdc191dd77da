"""Every durable write of the store, as a dozen operations that a fault model can replace.

A new or renamed file is durable only after fsync of the file *and* of its folder. A failed fsync is final: the
kernel may report success the next time without having written anything, so nobody tries again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Protocol

from trialplate.errors import StorageFailure, UsageError

Durability = Literal["fsync", "process"]
Kind = Literal["file", "folder", "other"]

_ADVICE: Mapping[int, str] = {
    errno.ENOSPC: "the disk is full: free space, then resume",
    errno.EDQUOT: "the disk quota is used up: free space, then resume",
    errno.EROFS: "the file system is mounted read-only: choose another folder or remount it",
    errno.EACCES: "this user may not write there: change the owner or the mode of the folder",
    errno.EPERM: "the operation is not permitted there: check owner, mode and immutable flags",
    errno.EIO: "the device reports an error: check the disk before anything else is written to it",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n), then resume",
    errno.ENFILE: "too many open files on this machine: close some, then resume",
    errno.ENOENT: "the file or folder is gone: it was removed or renamed while it was in use",
    errno.EEXIST: "something of that name is there already and is never overwritten",
    errno.ELOOP: "a symbolic link stands there; evidence is never written through a link",
    errno.EFBIG: "the file size limit is reached: raise it (ulimit -f), then resume",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "a folder stands where a file is expected",
}
_NO_FLOCK = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL, errno.EBADF)


class Storage(Protocol):
    """What the store needs from a disk. :class:`Disk` is the real one.

    Descriptors are plain integers that only this object gives a meaning to. Every operation raises
    StorageFailure when it fails; ``lock`` raises UsageError ``campaign_busy`` when somebody else holds it.
    """

    durability: Durability

    def open_new(self, path: Path, *, mode: int = 0o644) -> int:
        """Create a file that must not exist, never through a link; return its descriptor."""
        ...

    def open_append(self, path: Path) -> int:
        """Open an existing file for appending, never through a link; return its descriptor."""
        ...

    def write_all(self, descriptor: int, data: bytes) -> None:
        """Write every byte: short writes go on."""
        ...

    def fsync(self, descriptor: int) -> None:
        """Make the file's content durable."""
        ...

    def fsync_dir(self, folder: Path) -> None:
        """Make the names in a folder durable."""
        ...

    def close(self, descriptor: int) -> None:
        """Give the descriptor back."""
        ...

    def lock(self, descriptor: int) -> None:
        """Take the exclusive lock of an open file, without waiting."""
        ...

    def still_there(self, descriptor: int) -> bool:
        """Return whether the path that was opened still leads to the open file."""
        ...

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut an open file to ``size`` bytes."""
        ...

    def replace(self, path: Path, data: bytes, *, mode: int = 0o644) -> None:
        """Put a whole new content in place, atomically and durably: the old one or the new one, never a mix."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name in the same folder, durably. The target must not exist."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file of our own staging."""
        ...

    def make_folder(self, path: Path) -> None:
        """Create a folder and its parents where they are missing, durably."""
        ...

    def read(self, path: Path) -> bytes:
        """Return a whole file, never through a link."""
        ...

    def entries(self, folder: Path) -> dict[str, Kind]:
        """Return the names in a folder, sorted, and what each is; empty when the folder does not exist."""
        ...


class Disk:
    """The real file system.

    ``durability``: ``fsync`` survives a power cut; ``process`` syncs nothing and survives a killed process only.
    """

    def __init__(self, *, durability: Durability = "fsync") -> None:
        if durability not in ("fsync", "process"):
            raise UsageError(f"durability {durability!r}: expected 'fsync' or 'process'")
        self.durability: Durability = durability
        self._paths: dict[int, Path] = {}

    def open_new(self, path: Path, *, mode: int = 0o644) -> int:
        """Create a file that must not exist (O_EXCL, O_NOFOLLOW)."""
        return self._open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, "create")

    def open_append(self, path: Path) -> int:
        """Open an existing file for appending (O_APPEND, O_NOFOLLOW)."""
        return self._open(path, os.O_WRONLY | os.O_APPEND, 0, "open")

    def _open(self, path: Path, flags: int, mode: int, doing: str) -> int:
        with _explained(path, doing):
            descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        self._paths[descriptor] = path
        return descriptor

    def write_all(self, descriptor: int, data: bytes) -> None:
        """Write every byte; short writes go on, and Python repeats interrupted calls itself (PEP 475)."""
        rest = memoryview(data)
        with _explained(self._paths[descriptor], f"write {len(data)} bytes to"):
            while rest:
                written = self._write(descriptor, rest)
                if written == 0:
                    raise OSError(errno.EIO, "a write made no progress")
                rest = rest[written:]

    def _write(self, descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        """Make the file's content durable; does nothing under ``process``."""
        if self.durability == "fsync":
            with _explained(self._paths[descriptor], "fsync"):
                os.fsync(descriptor)

    def fsync_dir(self, folder: Path) -> None:
        """Make the names in a folder durable; does nothing under ``process``."""
        if self.durability == "process":
            return
        with _explained(folder, "fsync the folder"):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def close(self, descriptor: int) -> None:
        """Give the descriptor back; an error that the file system kept until now is raised."""
        path = self._paths.pop(descriptor)
        with _explained(path, "close"):
            os.close(descriptor)

    def lock(self, descriptor: int) -> None:
        """Take the exclusive ``flock``, without waiting. A dead process holds none by nature."""
        path = self._paths[descriptor]
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{path} is being written by another process: expected to be the only writer. "
                "Wait until that run has ended, or choose another folder.",
                code="campaign_busy",
            ) from None
        except OSError as error:
            if error.errno in _NO_FLOCK:
                raise UsageError(
                    f"{path} lies on a file system without flock ({error.strerror}), where two writers could not "
                    "be told apart: choose a folder on a local disk.",
                    code="no_flock",
                ) from None
            raise _failure(error, path, "lock") from error

    def still_there(self, descriptor: int) -> bool:
        """Return whether the path that was opened still leads to the open file (same device and inode)."""
        path = self._paths[descriptor]
        with _explained(path, "look at"):
            opened = os.fstat(descriptor)
            try:
                found = path.lstat()
            except (FileNotFoundError, NotADirectoryError):
                return False
        return (opened.st_dev, opened.st_ino) == (found.st_dev, found.st_ino)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut an open file to ``size`` bytes."""
        with _explained(self._paths[descriptor], f"cut to {size} bytes:"):
            os.ftruncate(descriptor, size)

    def replace(self, path: Path, data: bytes, *, mode: int = 0o644) -> None:
        """Write beside it, fsync, rename over it, fsync the folder."""
        staged = staging_path(path)
        with suppress(FileNotFoundError), _explained(staged, "remove", passing=(FileNotFoundError,)):
            staged.unlink()
        try:
            write_new(self, staged, data, mode=mode)
            with _explained(path, "put the new content in place of"):
                staged.replace(path)
        except StorageFailure:
            with suppress(OSError):  # the failure is raised anyway; this only gives the space back
                staged.unlink()
            raise
        self.fsync_dir(path.parent)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name in the same folder. The single writer makes the check race-free."""
        with _explained(source, f"rename to {target.name}:"):
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
            source.rename(target)
        self.fsync_dir(target.parent)

    def remove(self, path: Path) -> None:
        """Remove a file of our own staging."""
        with _explained(path, "remove"):
            path.unlink()
        self.fsync_dir(path.parent)

    def make_folder(self, path: Path) -> None:
        """Create a folder and its missing parents; every new name is synced."""
        missing = [path, *path.parents]
        missing = missing[: next((n for n, folder in enumerate(missing) if folder.is_dir()), len(missing))]
        for folder in reversed(missing):
            with _explained(folder, "create the folder"):
                folder.mkdir(exist_ok=True)
            self.fsync_dir(folder.parent)

    def read(self, path: Path) -> bytes:
        """Return a whole regular file (O_NOFOLLOW)."""
        with _explained(path, "read"):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as handle:
                return handle.read()

    def entries(self, folder: Path) -> dict[str, Kind]:
        """Return the names in a folder and what each is; links and devices are ``other``."""
        if not folder.is_dir():
            return {}
        with _explained(folder, "list"), os.scandir(folder) as listed:
            return {entry.name: _kind(entry) for entry in sorted(listed, key=lambda entry: entry.name)}


def staging_path(path: Path) -> Path:
    """Return where the new content of ``path`` is written before it is put in place."""
    return path.with_name(f".{path.name}.tmp")


def write_new(disk: Storage, path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Create a file with content and fsync it. The caller fsyncs the folder, once for all new names in it."""
    descriptor = disk.open_new(path, mode=mode)
    try:
        disk.write_all(descriptor, data)
        disk.fsync(descriptor)
    except StorageFailure:
        with suppress(StorageFailure):  # the first failure is the one to report
            disk.close(descriptor)
        raise
    disk.close(descriptor)


def publish_new(disk: Storage, path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Create a file whole or not at all, durably: written beside its place, synced, renamed. It must not exist."""
    staged = staging_path(path)
    if staged.name in disk.entries(path.parent):
        disk.remove(staged)  # of one that was killed in mid-write
    try:
        write_new(disk, staged, data, mode=mode)
        disk.rename(staged, path)
    except StorageFailure:
        with suppress(StorageFailure):  # the first failure is the one to report
            disk.remove(staged)
        raise


def _kind(entry: os.DirEntry[str]) -> Kind:
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "other"


@contextmanager
def _explained(path: Path, doing: str, *, passing: tuple[type[OSError], ...] = ()) -> Iterator[None]:
    try:
        yield
    except passing:
        raise
    except OSError as error:
        raise _failure(error, path, doing) from error


def _failure(error: OSError, path: Path, doing: str) -> StorageFailure:
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    advice = _ADVICE.get(error.errno or 0, "nothing further is written; find the cause, then resume")
    text = error.strerror or str(error)
    return StorageFailure(f"could not {doing} {path}: {text} ({name}); {advice}. What was durable before is intact.")
