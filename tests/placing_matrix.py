"""Sealing and publishing on a disk in memory, disturbed at every system call that changes anything.

Afterwards the folder that is being made is absent or whole, and the pointer is the old or the new one; the command
that is said again ends in the same bytes as one that nothing happened to.
Source: evidence specification, section 13, row 53.
"""

from __future__ import annotations

import copy
import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from unittest import mock

from crash_matrix import Power, Violated
from sealed import Golden
from trialplate import fingerprint, publishing, sealing
from trialplate.canonical import canonical_json
from trialplate.errors import StorageFailure, TrialplateError
from trialplate.sealing import FreshVerdict
from trialplate.store.fsio import Disk
from trialplate.store.placing import BUSY
from trialplate.store.pointer import POINTER, Pointer, read_pointer
from trialplate.testing.faulty_disk import CHANGING, Fault, FaultyDisk, ProcessEnded

GOOD = FreshVerdict(0, {"findings": []})
SOURCE, ROOM, CAMPAIGN = Path("/bundles"), Path("/public"), Path("/campaign")
OLD = Pointer(1, "b" * 64, None)


class Act(Protocol):
    """Something that puts a folder in place, and what must hold whatever happens to it."""

    name: str

    def start(self) -> FaultyDisk:
        """Return a disk on which it can be done."""

    def go(self, disk: FaultyDisk) -> None:
        """Do it, or go on with it, as the command does when it is said again."""

    def assert_holds(self, disk: FaultyDisk) -> None:
        """Raise AssertionError unless what is made is absent or whole."""

    def assert_finished(self, disk: FaultyDisk) -> None:
        """Raise AssertionError unless everything is there and nothing else."""


def compared(disk: FaultyDisk, files: Mapping[str, bytes]) -> Callable[[Path], FreshVerdict]:
    """Return a verifier that compares a folder in memory with the files that it must have."""

    def verify(folder: Path) -> FreshVerdict:
        if disk.tree(folder) == files:
            return GOOD
        return FreshVerdict(1, {"findings": [{"code": "hash_mismatch"}]})

    return verify


# -- sealing ---------------------------------------------------------------------------------------------------


class Sealing:
    """The golden campaign, without raw controls, is sealed. What is derived from it is computed once."""

    name = "sealing"

    def __init__(self, golden: Golden) -> None:
        self.bundle_id = golden.lean.name
        self.whole = {path: (golden.lean / path).read_bytes() for path in _files(golden.lean)}
        own = _files(golden.campaign)
        self._view = sealing.read_campaign(golden.campaign)
        self._contents = {
            path: CAMPAIGN / path if path in own else data
            for path, data in self.whole.items()
            if path not in ("bundle.json", "MANIFEST.json")
        }
        self._base = FaultyDisk()
        for path in own:
            self._base.make_folder((CAMPAIGN / path).parent)
            self._base.replace(CAMPAIGN / path, self.whole[path])

    def start(self) -> FaultyDisk:
        return copy.deepcopy(self._base)

    def go(self, disk: FaultyDisk) -> None:
        if self.bundle_id in disk.entries(ROOM):
            return  # `target_exists`: there is nothing left to do
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(sealing, "_closed", lambda source: self._view))
            stack.enter_context(mock.patch.object(sealing, "gather", lambda *given, **named: self._contents))
            made = sealing.seal(CAMPAIGN, ROOM, disk=disk, verifier=compared(disk, self.whole))
        assert made.bundle_id == self.bundle_id

    def assert_holds(self, disk: FaultyDisk) -> None:
        there = disk.tree(ROOM / self.bundle_id) if self.bundle_id in disk.entries(ROOM) else None
        assert there in (None, self.whole), "a bundle in part"
        assert disk.tree(CAMPAIGN) == self._base.tree(CAMPAIGN), "the campaign was written to"

    def assert_finished(self, disk: FaultyDisk) -> None:
        assert disk.tree(ROOM / self.bundle_id) == self.whole
        assert set(disk.entries(ROOM)) - {"quarantine"} == {BUSY, self.bundle_id}


def _files(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]


# -- publishing ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Small:
    """A few files that stand for a promoted bundle, and the record beside it."""

    bundle_id: str
    files: dict[str, bytes]
    record: bytes

    def put(self, disk: Disk) -> Path:
        """Write the bundle and its record into memory, durably."""
        folder = SOURCE / self.bundle_id
        for name, data in self.files.items():
            disk.make_folder((folder / name).parent)
            disk.replace(folder / name, data, mode=0o444)
        disk.replace(publishing.record_path(folder), self.record)
        return folder


def make_small(golden: Golden) -> Small:
    """Take bundle document, lock and nested files of the golden bundle, and promote them. Needs ``one_harness``."""
    names = ("bundle.json", "lock.json", "rows.jsonl", "models/mine.json", "qualification/null/head.json")
    files = {name: (golden.bundle / name).read_bytes() for name in names}
    disk = FaultyDisk()
    bare = Small(golden.bundle.name, files, b"{}")
    done = publishing.promote(bare.put(disk), disk=disk, verifier=compared(disk, files))
    assert done.exit_code == 0
    return Small(golden.bundle.name, files, canonical_json(done.document))


def one_harness() -> mock._patch[Callable[[], dict[str, str]]]:
    """Return a patch by which the package is not hashed again at every crash point."""
    return mock.patch.object(fingerprint, "harness", lambda: {"sha256": "ab" * 32})


class Publishing:
    """A small bundle is published into a folder that has a current one, or none yet (``old``)."""

    def __init__(self, small: Small, *, old: bool) -> None:
        self.name = "publishing a second bundle" if old else "publishing the first bundle"
        self.small = small
        self.old = OLD if old else None
        self._base = FaultyDisk()
        small.put(self._base)
        if old:
            self._base.make_folder(ROOM / OLD.bundle_id)
            self._base.replace(ROOM / POINTER, OLD.stored())

    def start(self) -> FaultyDisk:
        return copy.deepcopy(self._base)

    def publish(self, disk: FaultyDisk) -> publishing.Published:
        """Publish; nothing is looked at before."""
        verifier = compared(disk, self.small.files)
        return publishing.publish(SOURCE / self.small.bundle_id, ROOM, disk=disk, verifier=verifier)

    def go(self, disk: FaultyDisk) -> None:
        if f"{self.small.bundle_id}.promotion.json" not in disk.entries(ROOM):
            self.publish(disk)

    def assert_holds(self, disk: FaultyDisk) -> None:
        there = disk.tree(ROOM / self.small.bundle_id) if self.small.bundle_id in disk.entries(ROOM) else None
        assert there in (None, self.small.files), "a bundle in part"
        pointer = read_pointer(disk, ROOM)
        new = pointer is not None and pointer.bundle_id == self.small.bundle_id and there is not None
        assert pointer == self.old or new, "a pointer to nothing"

    def assert_finished(self, disk: FaultyDisk) -> None:
        bundle_id = self.small.bundle_id
        assert disk.tree(ROOM / bundle_id) == self.small.files
        assert read_pointer(disk, ROOM) == (self.old.next(bundle_id) if self.old else Pointer(1, bundle_id, None))
        left = set(disk.entries(ROOM)) - {"quarantine", OLD.bundle_id}
        assert left == {BUSY, POINTER, bundle_id, f"{bundle_id}.promotion.json"}


# -- the points ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """One crash point of an act: the call, what happens there, and what the power does afterwards."""

    call: str
    fault: Fault
    power: Power | None = None


def places(act: Act) -> Iterator[Place]:
    """Yield every crash point of an act, in the order of its calls."""
    trial = act.start().next_process()
    act.go(trial)
    act.assert_finished(trial)
    for at, call in enumerate(trial.calls):
        if call.name not in CHANGING:
            continue
        where = f"{call.name} {call.path}"
        yield Place(where, Fault(at))
        yield from (Place(where, Fault(at), Power("mixed", names, at)) for names in ("lost", "kept", "mixed"))
        yield from (Place(where, Fault(at, "fail", number)) for number in (errno.ENOSPC, errno.EIO))
        if call.name == "write":
            yield Place(where, Fault(at, "tear"))
            yield Place(where, Fault(at, "fill", errno.ENOSPC))


def examine(act: Act, place: Place) -> None:
    """Carry out one crash point. Raises Violated that names it."""
    disk = act.start().next_process(fault=place.fault)
    try:
        try:
            act.go(disk)
        except ProcessEnded:
            assert place.fault.action in ("stop", "tear")
        except StorageFailure as failure:
            assert errno.errorcode[place.fault.number] in failure.message, failure.message
        else:
            raise AssertionError("it went on as if nothing had happened")
        power = place.power
        after = (
            disk.next_process()
            if power is None
            else disk.after_power_cut(files=power.files, names=power.names, seed=power.seed)
        )
        act.assert_holds(after)
        act.go(after)
        act.assert_finished(after)
    except (AssertionError, TrialplateError, ProcessEnded, LookupError, OSError) as error:
        raise Violated(f"{act.name}: {place}: {type(error).__name__}: {error}") from error
