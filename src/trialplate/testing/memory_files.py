"""Files and folders in memory, as running programs see them and as a power cut would leave them.

A written byte is durable after a sync of its file, a new, changed or removed name after a sync of its folder (a move
between two folders after a sync of both); each change of names is kept or lost as a whole. A failed sync of a file
dooms what it should have written: a later sync succeeds without it, as Linux does.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

Fate = Literal["lost", "kept", "cut", "zeroed", "hole", "mixed"]
"""What becomes of the un-synced bytes of a file: none are left, all are, a prefix in the order of writing, zeros in
their place, a hole of zeros among them, or for each file one of these."""
FATES: tuple[Fate, ...] = ("lost", "kept", "cut", "zeroed", "hole")
ROOT = 0


@dataclass(frozen=True, slots=True)
class Change:
    """One un-synced change of a file: ``data`` written at ``offset``, or, without data, a cut to that size."""

    offset: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        """Do it."""
        if self.data is None:
            del content[self.offset :]
            return
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(self.data)] = self.data


@dataclass(slots=True)
class File:
    """One file. ``content``: what a program reads; ``durable``: what a power cut leaves for certain.

    ``pending`` becomes durable with the next sync; ``doomed`` never does.
    """

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)
    doomed: list[Change] = field(default_factory=list)

    def change(self, change: Change) -> None:
        """Change what programs read."""
        change.apply(self.content)
        self.pending.append(change)

    def sync(self) -> None:
        """Make what is pending durable."""
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def fail_sync(self) -> None:
        """Do what the kernel does when the device fails: report it once, and forget that anything was pending."""
        self.doomed += self.pending
        self.pending.clear()

    def survivor(self, fate: Fate, draw: Random) -> bytearray:
        """Return what is left after a power cut."""
        unsynced = self.doomed + self.pending
        if fate == "mixed":
            fate = draw.choice(FATES)
        if fate == "lost" or not unsynced:
            return bytearray(self.durable)
        left = bytearray(self.durable if fate == "cut" else self.content)
        if fate == "cut":
            whole = draw.randrange(len(unsynced))
            for change in unsynced[:whole]:
                change.apply(left)
            torn = unsynced[whole]
            if torn.data is not None:
                Change(torn.offset, torn.data[: draw.randrange(len(torn.data) + 1)]).apply(left)
        elif fate == "zeroed":
            for change in unsynced:
                _blank(left, change)
        elif fate == "hole":
            _blank(left, draw.choice(unsynced), draw=draw)
        return left


def _blank(content: bytearray, change: Change, *, draw: Random | None = None) -> None:
    """Put zeros where a change wrote: everywhere, or in one drawn range of it."""
    if change.data is None:
        return
    start, stop = change.offset, min(change.offset + len(change.data), len(content))
    if draw is not None and stop > start:
        start = draw.randrange(start, stop)
        stop = draw.randint(start + 1, stop)
    if stop > start:
        content[start:stop] = bytes(stop - start)


@dataclass(slots=True)
class NameChange:
    """One change of names: ``gone`` and ``come`` are (folder, name) or None; durable when ``waiting`` is empty."""

    number: int
    gone: tuple[int, str] | None
    come: tuple[int, str] | None
    waiting: set[int]

    def apply(self, names: dict[int, dict[str, int]]) -> None:
        """Do it; a name that leads elsewhere by now is left alone."""
        if self.gone is not None and names[self.gone[0]].get(self.gone[1]) == self.number:
            del names[self.gone[0]][self.gone[1]]
        if self.come is not None:
            names[self.come[0]][self.come[1]] = self.number


class MemoryFiles:
    """A tree of files. Paths are absolute; there are no links. Raises OSError as a kernel does.

    ``names``: folder number -> name -> number, as programs see it. ``holders``: file number -> the open file that
    holds its lock.
    """

    def __init__(self) -> None:
        self.files: dict[int, File] = {}
        self.names: dict[int, dict[str, int]] = {ROOT: {}}
        self.holders: dict[int, object] = {}
        self._durable_names: dict[int, dict[str, int]] = {ROOT: {}}
        self._log: list[NameChange] = []
        self._last = ROOT

    def find(self, path: Path, *, start: int = ROOT) -> int:
        """Return the number of what a path leads to. Raises FileNotFoundError, NotADirectoryError."""
        number = start
        for part in path.parts:
            if part in (path.root, "."):
                continue
            if number not in self.names:
                raise _error(errno.ENOTDIR, path)
            if part not in self.names[number]:
                raise _error(errno.ENOENT, path)
            number = self.names[number][part]
        return number

    def create(self, folder: int, name: str, *, kind: Literal["file", "folder"]) -> int:
        """Create an empty file or folder and return its number. Raises FileExistsError."""
        if name in self.names[folder]:
            raise _error(errno.EEXIST, Path(name))
        self._last += 1
        if kind == "file":
            self.files[self._last] = File()
        else:
            self.names[self._last] = {}
            self._durable_names[self._last] = {}
        self._rename(self._last, gone=None, come=(folder, name))
        return self._last

    def move(self, gone: tuple[int, str], come: tuple[int, str]) -> None:
        """Give something another name. A file replaces a file, and a folder an empty folder, without a word."""
        number, there = self.names[gone[0]][gone[1]], self.names[come[0]].get(come[1])
        if number == there:
            return
        if there in self.names and number in self.files:
            raise _error(errno.EISDIR, Path(come[1]))
        if there in self.files and number in self.names:
            raise _error(errno.ENOTDIR, Path(come[1]))
        if there is not None and self.names.get(there):
            raise _error(errno.ENOTEMPTY, Path(come[1]))
        self._rename(number, gone=gone, come=come)

    def remove(self, folder: int, name: str) -> None:
        """Remove a file's name. Raises FileNotFoundError, IsADirectoryError."""
        if name not in self.names[folder]:
            raise _error(errno.ENOENT, Path(name))
        number = self.names[folder][name]
        if number in self.names:
            raise _error(errno.EISDIR, Path(name))
        self._rename(number, gone=(folder, name), come=None)

    def sync_names(self, folder: int) -> None:
        """Make the names in a folder durable."""
        for change in self._log:
            change.waiting.discard(folder)
        while self._log and not self._log[0].waiting:
            self._log.pop(0).apply(self._durable_names)

    def after_power_cut(self, *, files: Fate, names: Fate, draw: Random) -> MemoryFiles:
        """Return what is left. ``names``: un-synced changes of names are ``lost``, ``kept``, or each as drawn."""
        left = MemoryFiles()
        left.names = {folder: dict(inside) for folder, inside in self._durable_names.items()}
        odds = {"lost": 0.0, "kept": 1.0}.get(names, 0.5)
        for change in self._log:
            if not change.waiting or draw.random() < odds:
                change.apply(left.names)
        left._durable_names = {folder: dict(inside) for folder, inside in left.names.items()}
        for number, file in self.files.items():
            content = file.survivor(files, draw)
            left.files[number] = File(content, bytearray(content))
        left._last = self._last
        return left

    def export(self, path: Path, into: Path) -> None:
        """Write the tree below ``path`` as programs see it into a real folder, which is made."""
        number = self.find(path)
        if number in self.files:
            into.write_bytes(self.files[number].content)
            return
        into.mkdir()
        for name in self.names[number]:
            self.export(path / name, into / name)

    def tree(self, path: Path) -> dict[str, bytes]:
        """Return every file below a folder: relative path, with ``/`` -> content; empty when it is not there."""
        try:
            top = self.find(path)
        except FileNotFoundError:
            return {}
        found: dict[str, bytes] = {}
        below = [("", top)]
        while below:
            prefix, number = below.pop()
            for name, inner in self.names[number].items():
                if inner in self.files:
                    found[f"{prefix}{name}"] = bytes(self.files[inner].content)
                else:
                    below.append((f"{prefix}{name}/", inner))
        return found

    def _rename(self, number: int, *, gone: tuple[int, str] | None, come: tuple[int, str] | None) -> None:
        waiting = {place[0] for place in (gone, come) if place is not None}
        change = NameChange(number, gone, come, waiting)
        change.apply(self.names)
        self._log.append(change)


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
