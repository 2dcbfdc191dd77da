"""The folder of one mailbox: what is put there whole, and what of an actor's files is taken.

Every open is relative to a handle of the folder and follows no link. A file is taken only when it is a regular file
with one name, it is read once and hashed as it was read. Source: policy contract, section 4.4.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from trialplate.canonical import sha256_hex
from trialplate.errors import ContractFault, HarnessFault, PolicyFault, StorageFailure

SPEC, DONE, OBSERVATIONS, ANSWERS = "spec.json", "done.json", "obs", "act"
MAX_NAMES = 100_000
"""An actor whose folder of answers holds more names is refused: looking through them would cost the run its time."""

OPAQUE = re.compile(r"[0-9a-f]{32}")
"""The name of a mailbox, whole."""

_NAME = re.compile(r"[0-9]{5,7}\.json")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
_CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO, errno.EAGAIN})
"""How the system refuses to open what an actor has put there (EAGAIN: it holds a lease): else it is ours."""

_CHUNK_BYTES = 1024 * 1024
Identity = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Taken:
    """What was found under the name of an answer. ``data`` is None when it was refused, ``refusal`` says why.

    ``identity`` tells a file from another one that was later given the same name.
    """

    name: str
    index: int
    identity: Identity
    size_bytes: int
    data: bytes | None
    refusal: str = ""

    @property
    def sha256(self) -> str | None:
        """Digest of the bytes as they were read."""
        return sha256_hex(self.data) if self.data is not None else None


def answer_name(index: int) -> str:
    """Return the name of the answer to an observation."""
    return f"{index:05d}.json"


class MailboxFolder:
    """The open folder of one episode.

    ``create`` makes it, empty and with its subfolders, and holds it: as long as the run that made it lives, nobody
    else can claim it. Raises HarnessFault ``transport_lost`` when the folder or a part of it is gone, StorageFailure
    when its disk is full or broken.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handles: list[int] = []
        with _lost(path, "open"):
            for part in (path, path / OBSERVATIONS, path / ANSWERS):
                self._handles.append(os.open(part, _FOLDER))

    @classmethod
    def create(cls, root: Path, name: str) -> MailboxFolder:
        """Make ``root/name``, which must not exist. Raises HarnessFault ``connect_failed`` when it does.

        ``name``: 32 hex digits; an opaque name is never a path.
        """
        if OPAQUE.fullmatch(name) is None:
            raise HarnessFault(f"a mailbox is named by 32 hex digits, got {name[:60]!r}", code="connect_failed")
        path = root / name
        try:
            root.mkdir(parents=True, exist_ok=True)
            for part in (path, path / OBSERVATIONS, path / ANSWERS):
                part.mkdir()
        except FileExistsError:
            raise HarnessFault(
                f"mailbox {path}: something of that name is there already, from another run with this root or put "
                "there by somebody: nothing in it is used. Choose an empty root.",
                code="connect_failed",
            ) from None
        except OSError as error:
            raise _failure(error, path, "make") from error
        made = cls(path)
        made.claim()
        return made

    def claim(self) -> bool:
        """Hold the mailbox until it is closed or this process dies.

        False when another process holds it, or nobody can hold anything on its file system.
        """
        try:
            fcntl.flock(self._handles[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def has_ended(self) -> bool:
        """Return whether something stands in the place of ``done.json``."""
        with _lost(self.path, "list"), os.scandir(self._handles[0]) as entries:
            return any(entry.name == DONE for entry in entries)

    def publish(self, files: Mapping[str, bytes], *, into: str = "") -> None:
        """Put files in place, each written under another name, synced and renamed, in the order given.

        ``into``: ``obs``, or empty for the mailbox itself.
        """
        handle = self._handles[1 if into == OBSERVATIONS else 0]
        for name, data in files.items():
            staged = f"{name}.{secrets.token_hex(8)}.tmp"
            with _lost(self.path / into / name, "write"):
                try:
                    _write(handle, staged, data)
                    os.rename(staged, name, src_dir_fd=handle, dst_dir_fd=handle)
                except OSError:
                    with suppress(OSError):  # the first failure is the one to report
                        os.unlink(staged, dir_fd=handle)
                    raise

    def answers(self) -> dict[int, str]:
        """Return the names that are names of answers: index -> name. Others are nobody's business.

        Raises HarnessFault ``transport_lost`` when the folder was removed or replaced, PolicyFault
        ``invalid_response_schema`` for more than ``MAX_NAMES`` names.
        """
        self._refuse_lost()
        found: dict[int, str] = {}
        with _lost(self.path / ANSWERS, "list"), os.scandir(self._handles[2]) as entries:
            for number, entry in enumerate(entries):
                if number >= MAX_NAMES:
                    raise PolicyFault(
                        f"{ANSWERS}/ holds more than {MAX_NAMES} names; write one answer for each observation",
                        code="invalid_response_schema",
                    )
                if _is_answer(entry.name):
                    found[int(entry.name[:-5])] = entry.name
        return dict(sorted(found.items()))

    def other_names(self, *, most: int = 4) -> tuple[str, ...]:
        """Return a few names in the folder of answers that are names of no answer, to tell people about."""
        with suppress(OSError), os.scandir(self._handles[2]) as entries:
            names = (entry.name for entry in entries if not _is_answer(entry.name))
            return tuple(ascii(name[:60]) for name, _ in zip(names, range(most), strict=False))
        return ()

    def identity(self, name: str) -> Identity | None:
        """Return what tells the file of that name from another one, None when there is none."""
        try:
            return _identity(os.stat(name, dir_fd=self._handles[2], follow_symlinks=False))
        except OSError:
            return None

    def take(self, name: str, *, limit_bytes: int) -> Taken | None:
        """Read an answer once; None when it is gone again.

        What is no regular file with one name, and what is too long, comes back refused, unread.
        """
        index = int(name[:-5])
        try:
            entry = os.stat(name, dir_fd=self._handles[2], follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failure(error, self.path / ANSWERS / name, "look at") from error
        if refusal := irregular(entry):
            return Taken(name, index, _identity(entry), entry.st_size, None, refusal)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(name, flags, dir_fd=self._handles[2])
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in _CLOSED:
                raise _failure(error, self.path / ANSWERS / name, "open") from error
            return Taken(name, index, _identity(entry), 0, None, f"a file that cannot be opened ({error.strerror})")
        with os.fdopen(handle, "rb", buffering=0) as file, _lost(self.path / ANSWERS / name, "read"):
            return _take_open(file.fileno(), name, index, limit_bytes)

    def close(self) -> None:
        """Give the handles back."""
        handles, self._handles = self._handles, []
        for handle in handles:
            os.close(handle)

    def _refuse_lost(self) -> None:
        place = self.path / ANSWERS
        with _lost(place, "find"):
            if not os.path.samestat(os.lstat(place), os.fstat(self._handles[2])):
                raise HarnessFault(f"mailbox {place} was replaced by another folder", code="transport_lost")


def _is_answer(name: str) -> bool:
    """Return whether a name is the one that an answer has: five digits, more only where five do not hold it."""
    return _NAME.fullmatch(name) is not None and name == answer_name(int(name[:-5]))


def irregular(entry: os.stat_result) -> str:
    """Return what a file is when it is not a regular file with one name, else nothing."""
    if stat.S_ISLNK(entry.st_mode):
        return "a symbolic link"
    if stat.S_ISDIR(entry.st_mode):
        return "a folder"
    if not stat.S_ISREG(entry.st_mode):
        return f"a special file ({stat.filemode(entry.st_mode)[0]})"
    return f"a file with {entry.st_nlink} names" if entry.st_nlink != 1 else ""


def too_large(taken: Taken, limit_bytes: int) -> ContractFault:
    """Return the fault of an answer that is longer than a message may be."""
    return ContractFault(
        f"{ANSWERS}/{taken.name} has {taken.size_bytes} bytes, a message has at most {limit_bytes}",
        code="message_too_large",
    )


def _take_open(handle: int, name: str, index: int, limit_bytes: int) -> Taken:
    """Read from an open file; what it is is asked again, of the handle."""
    entry = os.fstat(handle)
    identity = _identity(entry)
    if refusal := irregular(entry):
        return Taken(name, index, identity, entry.st_size, None, refusal)
    pieces, left = [], limit_bytes + 1
    while entry.st_size <= limit_bytes and left > 0 and (piece := os.read(handle, min(left, _CHUNK_BYTES))):
        pieces.append(piece)
        left -= len(piece)
    if entry.st_size > limit_bytes or left <= 0:
        return Taken(name, index, identity, max(entry.st_size, limit_bytes + 1 - left), None)
    data = b"".join(pieces)
    return Taken(name, index, identity, len(data), data)


def _identity(entry: os.stat_result) -> Identity:
    return entry.st_dev, entry.st_ino, entry.st_ctime_ns, entry.st_size


def _write(folder: int, name: str, data: bytes) -> None:
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _lost(path: Path, doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _failure(error, path, doing) from error


def _failure(error: OSError, path: Path, doing: str) -> HarnessFault:
    text = f"mailbox: could not {doing} {path}: {error.strerror or error}"
    if error.errno in _DISK:
        return StorageFailure(f"{text}; free or repair the disk of the mailbox, then resume")
    return HarnessFault(f"{text}; the mailbox was moved, removed or closed to this user", code="transport_lost")
