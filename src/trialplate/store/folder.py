"""A campaign folder that is only read: every open is relative to its handle and follows no link."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Literal

from trialplate.canonical import MAX_DOCUMENT_BYTES, MAX_LINE_BYTES
from trialplate.errors import UsageError
from trialplate.store.findings import Collector, EvidenceProblem, Finding, problem

MAX_FILES = 1_000_000
MAX_FILE_BYTES = 4 * 1024**3
MAX_TOTAL_BYTES = 1024**4
MAX_LEVELS = 8
_CHUNK_BYTES = 1024 * 1024
_LINKED = (errno.ELOOP, errno.ENOTDIR)
"""What the kernel says when a link, or a file, was put where a folder or a file was seen."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits of what is read from the folder of a stranger. They only go down: UsageError for one above its default.

    Files below the folder, bytes of one file, of all files together, of a document, and of a line of JSONL.
    """

    files: int = MAX_FILES
    file_bytes: int = MAX_FILE_BYTES
    total_bytes: int = MAX_TOTAL_BYTES
    document_bytes: int = MAX_DOCUMENT_BYTES
    line_bytes: int = MAX_LINE_BYTES

    def __post_init__(self) -> None:
        for item in fields(self):
            value, most = getattr(self, item.name), item.default
            if not 1 <= value <= most:
                raise UsageError(f"a cap of {value} for {item.name}: expected 1 to {most}")


CAPS = Caps()


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

    def contents(self, *, caps: Caps = CAPS, counted: str | None = None) -> Contents:
        """List everything below. Links, hard-linked files, devices and files beyond the caps are findings.

        What lies in the folders of the folder ``counted`` is looked at and not listed: it may be much. Raises
        EvidenceError ``size_limit``, ``unreadable``, ``path_unsafe``.
        """
        files: dict[str, int] = {}
        folders: set[str] = set()
        found = Collector()
        total = 0
        for count, (path, entry) in enumerate(self._walk("", self._handle, level=0)):
            if count == caps.files:
                raise problem("size_limit", self.path.name, expected=f"at most {caps.files} files", found="more")
            kind = _irregular(entry)
            listed = counted is None or path.count("/") < 2 or not path.startswith(f"{counted}/")
            if kind:
                found.add("not_regular_file", path, expected="a regular file", found=kind)
            elif stat.S_ISDIR(entry.st_mode):
                if listed:
                    folders.add(path)
            else:
                total += entry.st_size
                if listed:
                    files[path] = entry.st_size
                if entry.st_size > caps.file_bytes:
                    size = f"{entry.st_size} bytes"
                    found.add("size_limit", path, expected=f"at most {caps.file_bytes} bytes", found=size)
        if total > caps.total_bytes:
            raise problem("size_limit", self.path.name, expected=f"at most {caps.total_bytes} bytes", found=total)
        return Contents(files, frozenset(folders), found.listed())

    def listing(self, path: str) -> dict[str, int | None]:
        """Return what lies directly in a folder: name -> size of a regular file, None for anything else."""
        with self._opened(path, kind="folder") as descriptor, _unreadable(path):
            entries = {name: os.stat(name, dir_fd=descriptor, follow_symlinks=False) for name in _names(descriptor)}
        return {
            name: None if stat.S_ISDIR(entry.st_mode) or _irregular(entry) else entry.st_size
            for name, entry in entries.items()
        }

    def is_folder(self, path: str) -> bool:
        """Return whether a path leads to a folder, without following links."""
        try:
            with self._opened(path, kind="folder"):
                return True
        except EvidenceProblem:
            return False

    def below(self, path: str) -> Iterator[str]:
        """Yield the path of every regular file below a folder."""
        with self._opened(path, kind="folder") as descriptor:
            for name, entry in self._walk(path, descriptor, level=path.count("/") + 1):
                if stat.S_ISREG(entry.st_mode):
                    yield name

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
        """Return a file as long as it was when it was opened.

        Raises EvidenceError ``size_limit``, ``file_missing``, ``not_regular_file``.
        """
        with self._opened(path) as descriptor:
            size = os.fstat(descriptor).st_size
            if size > limit_bytes:
                raise problem("size_limit", path, expected=f"at most {limit_bytes} bytes", found=f"{size} bytes")
            pieces = []
            with _unreadable(path):
                while size > 0 and (piece := os.read(descriptor, min(size, _CHUNK_BYTES))):
                    pieces.append(piece)
                    size -= len(piece)
        return b"".join(pieces)

    def lines(self, path: str, *, limit_bytes: int) -> Iterator[bytes]:
        """Yield the lines of a file, each with its end of line; the last one may lack it, and a line beyond
        ``limit_bytes`` comes in pieces. One line is held at a time. What is appended meanwhile is left out."""
        with self._opened(path) as descriptor, _unreadable(path), os.fdopen(os.dup(descriptor), "rb") as file:
            left = os.fstat(descriptor).st_size
            while line := file.readline(min(left, limit_bytes + 1)):
                left -= len(line)
                yield line

    def sha256(self, path: str) -> str:
        """Return the SHA-256 of a file, read in pieces. Raises EvidenceError ``size_limit`` for one that grows."""
        digest = hashlib.sha256()
        with self._opened(path) as descriptor, _unreadable(path):
            left = size = os.fstat(descriptor).st_size
            while piece := os.read(descriptor, _CHUNK_BYTES):
                digest.update(piece)
                left -= len(piece)
                if left < 0:
                    raise problem("size_limit", path, expected=f"{size} bytes", found="a file that grows")
        return digest.hexdigest()

    @contextmanager
    def _opened(self, path: str, *, kind: Literal["file", "folder"] = "file") -> Iterator[int]:
        *parents, name = path.split("/")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        handles = [self._handle]
        try:
            with _unreadable(path):
                for parent in parents:
                    handles.append(os.open(parent, flags | os.O_DIRECTORY, dir_fd=handles[-1]))
                handles.append(os.open(name, flags | os.O_NONBLOCK, dir_fd=handles[-1]))
            entry = os.fstat(handles[-1])
            found = "a folder" if stat.S_ISDIR(entry.st_mode) else _irregular(entry) or "file"
            if found not in (kind, f"a {kind}"):
                raise problem("not_regular_file", path, expected=f"a regular {kind}", found=found)
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
        if error.errno in _LINKED:
            found = "a link, or a file in the place of a folder"
            raise problem("not_regular_file", path, expected="a regular file", found=found) from None
        raise problem("unreadable", path, expected="a readable file", found=error.strerror) from None
