"""A campaign folder that is only read: every open is relative to its handle and follows no link."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from trialplate.store.findings import Finding, finding, problem

MAX_FILES = 1_000_000
MAX_FILE_BYTES = 4 * 1024**3
MAX_TOTAL_BYTES = 1024**4
MAX_LEVELS = 8
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Contents:
    """What lies in a folder: file path -> size, folder paths, and what may not lie there. Paths use ``/``."""

    files: dict[str, int]
    folders: frozenset[str]
    findings: tuple[Finding, ...]


class Folder:
    """An open folder. Raises EvidenceError ``unreadable``, ``archive_refused``, ``not_regular_file``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_file():
            raise problem("archive_refused", path.name, expected="a folder", found="a file; unpack it first")
        with _unreadable(path.name):
            self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)

    def contents(
        self,
        *,
        max_files: int = MAX_FILES,
        max_file_bytes: int = MAX_FILE_BYTES,
        max_total_bytes: int = MAX_TOTAL_BYTES,
    ) -> Contents:
        """List everything below. Links, hard-linked files, devices and files beyond the limits are findings."""
        files: dict[str, int] = {}
        folders: set[str] = set()
        found: list[Finding] = []
        for path, entry in self._walk("", self._handle, level=0):
            kind = _irregular(entry)
            if kind:
                found.append(finding("not_regular_file", path, expected="a regular file", found=kind))
            elif stat.S_ISDIR(entry.st_mode):
                folders.add(path)
            else:
                files[path] = entry.st_size
                if entry.st_size > max_file_bytes:
                    size = f"{entry.st_size} bytes"
                    found.append(finding("size_limit", path, expected=f"at most {max_file_bytes} bytes", found=size))
            if len(files) + len(folders) > max_files:
                raise problem("size_limit", self.path.name, expected=f"at most {max_files} files", found="more")
        total = sum(files.values())
        if total > max_total_bytes:
            raise problem("size_limit", self.path.name, expected=f"at most {max_total_bytes} bytes", found=total)
        return Contents(files, frozenset(folders), tuple(found))

    def _walk(self, prefix: str, handle: int, *, level: int) -> Iterator[tuple[str, os.stat_result]]:
        if level > MAX_LEVELS:
            raise problem("path_unsafe", prefix, expected=f"at most {MAX_LEVELS} folders deep", found="more")
        with _unreadable(prefix or self.path.name):
            names = _names(handle)
        for name in names:
            path = f"{prefix}/{name}" if prefix else name
            with _unreadable(path):
                entry = os.stat(name, dir_fd=handle, follow_symlinks=False)
            yield path, entry
            if stat.S_ISDIR(entry.st_mode):
                with _unreadable(path):
                    below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
                try:
                    yield from self._walk(path, below, level=level + 1)
                finally:
                    os.close(below)

    def names(self) -> tuple[str, ...]:
        """Return the names directly in the folder, sorted."""
        with _unreadable(self.path.name):
            return _names(self._handle)

    def read(self, path: str, *, limit_bytes: int) -> bytes:
        """Return a file. Raises EvidenceError ``size_limit``, ``file_missing``, ``not_regular_file``."""
        with self._opened(path) as descriptor:
            size = os.fstat(descriptor).st_size
            if size > limit_bytes:
                raise problem("size_limit", path, expected=f"at most {limit_bytes} bytes", found=f"{size} bytes")
            pieces = []
            left = limit_bytes + 1
            with _unreadable(path):
                while left > 0 and (piece := os.read(descriptor, min(left, _CHUNK_BYTES))):
                    pieces.append(piece)
                    left -= len(piece)
        if left == 0:
            raise problem("size_limit", path, expected=f"at most {limit_bytes} bytes", found="a file that grows")
        return b"".join(pieces)

    def sha256(self, path: str) -> str:
        """Return the SHA-256 of a file, read in pieces."""
        digest = hashlib.sha256()
        with self._opened(path) as descriptor, _unreadable(path):
            while piece := os.read(descriptor, _CHUNK_BYTES):
                digest.update(piece)
        return digest.hexdigest()

    @contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        *parents, name = path.split("/")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        handles = [self._handle]
        try:
            with _unreadable(path):
                for parent in parents:
                    handles.append(os.open(parent, flags | os.O_DIRECTORY, dir_fd=handles[-1]))
                handles.append(os.open(name, flags | os.O_NONBLOCK, dir_fd=handles[-1]))
            kind = _irregular(os.fstat(handles[-1]))
            if kind or stat.S_ISDIR(os.fstat(handles[-1]).st_mode):
                raise problem("not_regular_file", path, expected="a regular file", found=kind or "a folder")
            yield handles[-1]
        finally:
            for handle in handles[1:]:
                os.close(handle)


def _names(handle: int) -> tuple[str, ...]:
    with os.scandir(handle) as entries:
        return tuple(sorted(entry.name for entry in entries))


def _irregular(entry: os.stat_result) -> str:
    """Return what a file is when it is neither a folder nor a regular file with one name, else nothing."""
    if stat.S_ISDIR(entry.st_mode):
        return ""
    if stat.S_ISLNK(entry.st_mode):
        return "a symbolic link"
    if not stat.S_ISREG(entry.st_mode):
        return f"a special file ({stat.filemode(entry.st_mode)[0]})"
    return f"a file with {entry.st_nlink} names" if entry.st_nlink > 1 else ""


@contextmanager
def _unreadable(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise problem("file_missing", path, expected="a file", found="none") from None
    except OSError as error:
        raise problem("unreadable", path, expected="a readable file", found=error.strerror) from None
