"""Every durable write of the store, as a dozen operations over the system calls of ``trialplate.store.kernel``.

A new or renamed file is durable only after fsync of the file *and* of its folder. A failed fsync is final: the
kernel may report success the next time without having written anything, so nobody tries again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Protocol

from trialplate.errors import StorageFailure, UsageError
from trialplate.store.kernel import Kernel, Kind, SystemKernel

Durability = Literal["fsync", "process"]
_PIECE_BYTES = 1024 * 1024

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

    def size(self, descriptor: int) -> int:
        """Return how many bytes an open file has now, whoever wrote them."""
        ...

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut an open file to ``size`` bytes."""
        ...

    def replace(self, path: Path, data: bytes, *, mode: int = 0o644) -> None:
        """Put a whole new content in place, atomically and durably: the old one or the new one, never a mix."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Give a file or a folder of our own another name, durably. The target must not exist."""
        ...

    def rename_noreplace(self, source: Path, target: Path) -> None:
        """Rename durably; whatever stands in the place of the target, and whoever put it there, is not replaced."""
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

    def anchor(self, folder: Path) -> None:
        """Reach everything below a folder through one handle, so that nothing lands in another in its place."""
        ...

    def release(self, folder: Path) -> None:
        """Give that handle back."""
        ...


class Disk:
    """A file system as this machine's kernel offers it, or as another ``kernel`` plays it.

    ``durability``: ``fsync`` survives a power cut; ``process`` syncs nothing and survives a killed process only.
    """

    def __init__(self, *, durability: Durability = "fsync", kernel: Kernel | None = None) -> None:
        if durability not in ("fsync", "process"):
            raise UsageError(f"durability {durability!r}: expected 'fsync' or 'process'")
        self.durability: Durability = durability
        self._kernel = kernel or SystemKernel()
        self._paths: dict[int, Path] = {}
        self._durable: set[Path] = set()
        self._anchors: set[Path] = set()

    def open_new(self, path: Path, *, mode: int = 0o644) -> int:
        """Create a file that must not exist (O_EXCL, O_NOFOLLOW)."""
        return self._open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, "create")

    def open_append(self, path: Path) -> int:
        """Open an existing file for appending (O_APPEND, O_NOFOLLOW)."""
        return self._open(path, os.O_WRONLY | os.O_APPEND, 0, "open")

    def _open(self, path: Path, flags: int, mode: int, doing: str) -> int:
        with _explained(path, doing):
            descriptor = self._kernel.open(path, flags | os.O_NOFOLLOW, mode=mode)
        self._paths[descriptor] = path
        return descriptor

    def write_all(self, descriptor: int, data: bytes) -> None:
        """Write every byte; short writes go on, and Python repeats interrupted calls itself (PEP 475)."""
        rest = memoryview(data)
        with _explained(self._paths[descriptor], f"write {len(data)} bytes to"):
            while rest:
                written = self._kernel.write(descriptor, rest)
                if written == 0:
                    raise OSError(errno.EIO, "a write made no progress")
                rest = rest[written:]

    def fsync(self, descriptor: int) -> None:
        """Make the file's content durable; does nothing under ``process``."""
        if self.durability == "fsync":
            with _explained(self._paths[descriptor], "fsync"):
                self._kernel.fsync(descriptor)

    def fsync_dir(self, folder: Path) -> None:
        """Make the names in a folder durable; does nothing under ``process``."""
        if self.durability == "fsync":
            with _explained(folder, "fsync the folder"):
                self._sync_opened(self._kernel.open(folder, os.O_RDONLY | os.O_DIRECTORY))

    def _sync_opened(self, handle: int) -> None:
        try:
            self._kernel.fsync(handle)
        finally:
            self._kernel.close(handle)

    def close(self, descriptor: int) -> None:
        """Give the descriptor back; an error that the file system kept until now is raised."""
        path = self._paths.pop(descriptor)
        with _explained(path, "close"):
            self._kernel.close(descriptor)

    def lock(self, descriptor: int) -> None:
        """Take the exclusive ``flock``, without waiting. A dead process holds none by nature."""
        path = self._paths[descriptor]
        try:
            self._kernel.flock(descriptor)
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
            return self._kernel.leads_to(path, descriptor)

    def size(self, descriptor: int) -> int:
        """Return how many bytes an open file has now, whoever wrote them."""
        with _explained(self._paths[descriptor], "look at"):
            return self._kernel.size(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut an open file to ``size`` bytes."""
        with _explained(self._paths[descriptor], f"cut to {size} bytes:"):
            self._kernel.truncate(descriptor, size)

    def replace(self, path: Path, data: bytes, *, mode: int = 0o644) -> None:
        """Write beside it, fsync, rename over it, fsync the folder."""
        staged = staging_path(path)
        with suppress(FileNotFoundError), _explained(staged, "remove", passing=(FileNotFoundError,)):
            self._kernel.unlink(staged)
        try:
            write_new(self, staged, data, mode=mode)
            with _explained(path, "put the new content in place of"):
                self._kernel.rename(staged, path)
        except StorageFailure:
            with suppress(OSError):  # the failure is raised anyway; this only gives the space back
                self._kernel.unlink(staged)
            raise
        self.fsync_dir(path.parent)

    def rename(self, source: Path, target: Path) -> None:
        """Look, then rename: for names that nobody else gives, where the check cannot be overtaken."""
        with _explained(source, f"rename to {target.name}:"):
            if self._kernel.kind(target) is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
            self._kernel.rename(source, target)
        self._sync_both(source, target)

    def rename_noreplace(self, source: Path, target: Path) -> None:
        """Rename by one call that never replaces. Raises UsageError ``no_rename_noreplace`` where there is none."""
        try:
            self._kernel.rename_noreplace(source, target)
        except OSError as error:
            if error.errno == errno.ENOSYS:
                raise UsageError(
                    f"{target} lies on a file system that cannot rename without replacing, where two writers could "
                    "overwrite each other: choose a folder on a local disk.",
                    code="no_rename_noreplace",
                ) from None
            raise _failure(error, source, f"rename to {target}:") from error
        self._sync_both(source, target)

    def _sync_both(self, source: Path, target: Path) -> None:
        self.fsync_dir(target.parent)
        if source.parent != target.parent:
            self.fsync_dir(source.parent)

    def remove(self, path: Path) -> None:
        """Remove a file of our own staging."""
        with _explained(path, "remove"):
            self._kernel.unlink(path)
        self.fsync_dir(path.parent)

    def make_folder(self, path: Path) -> None:
        """Create a folder and its missing parents; every new name is synced.

        So is the name of the deepest one that is there: whoever made it may have been killed before its sync.
        """
        line = [path, *path.parents]
        with _explained(path, "look for the folder"):
            there = next((n for n, folder in enumerate(line) if self._kernel.kind(folder) is not None), len(line))
        if there < len(line):
            self._settle(line[there])
        for folder in reversed(line[:there]):
            with _explained(folder, "create the folder"), suppress(FileExistsError):
                self._kernel.mkdir(folder)
            self.fsync_dir(folder.parent)
            self._durable.add(folder)

    def _settle(self, folder: Path) -> None:
        """Make the name of a folder durable, once. Above a campaign, one whose parent may not be read is not ours."""
        if folder in self._durable or self.durability == "process":
            return
        inside = any(folder.parent.is_relative_to(top) for top in self._anchors)
        with _explained(folder.parent, "fsync the folder"):
            try:
                handle = self._kernel.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
            except PermissionError:
                if inside:
                    raise
                return
            self._sync_opened(handle)
        self._durable.add(folder)

    def read(self, path: Path) -> bytes:
        """Return a whole regular file (O_NOFOLLOW)."""
        with _explained(path, "read"):
            descriptor = self._kernel.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                pieces = []
                while piece := self._kernel.read(descriptor, _PIECE_BYTES):
                    pieces.append(piece)
            finally:
                self._kernel.close(descriptor)
        return b"".join(pieces)

    def entries(self, folder: Path) -> dict[str, Kind]:
        """Return the names in a folder and what each is; links and devices are ``other``."""
        with (
            suppress(FileNotFoundError, NotADirectoryError),
            _explained(folder, "list", passing=(FileNotFoundError, NotADirectoryError)),
        ):
            return dict(sorted(self._kernel.entries(folder).items()))
        return {}

    def anchor(self, folder: Path) -> None:
        """Hold the folder open."""
        with _explained(folder, "open the folder"):
            self._kernel.anchor(folder)
        self._anchors.add(folder)

    def release(self, folder: Path) -> None:
        """Close it; nothing happens when it was not held."""
        self._kernel.release(folder)
        self._anchors.discard(folder)


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
