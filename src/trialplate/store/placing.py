"""Build a folder beside its place, durably, and put it there whole or not at all.

Files are created anew, never through a link, and read-only; every file is synced, then every folder from the bottom
up; then one rename that replaces nothing, and the parent is synced. Source: evidence specification, section 11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from trialplate.canonical import sha256_hex
from trialplate.errors import StorageFailure, UsageError
from trialplate.store.chain import Stamp, system_clock
from trialplate.store.findings import problem
from trialplate.store.fsio import Storage, write_new
from trialplate.store.manifest import Entry
from trialplate.store.quarantine import quarantine

READ_ONLY = 0o444
STAGING_PREFIX = ".staging-"
BUSY = ".building.lock"
Content = bytes | Path
"""What a file will hold: bytes in memory, or those of another file."""


def measure(disk: Storage, contents: Mapping[str, Content]) -> list[Entry]:
    """Return path, digest and size of what each file will hold."""
    found = []
    for path, content in contents.items():
        data = _bytes(disk, content)
        found.append(Entry(path, sha256_hex(data), len(data)))
    return found


def build(disk: Storage, folder: Path, *, contents: Mapping[str, Content], expected: Mapping[str, Entry]) -> None:
    """Write a new folder durably. Raises EvidenceError ``hash_mismatch`` when a file changed since it was measured.

    ``expected``: path -> entry; a file without one is written as it is.
    """
    if disk.entries(folder):
        raise UsageError(f"{folder} is not empty; it is built once", code="folder_not_empty")
    below = {folder, *(folder / parent for path in contents for parent in PurePosixPath(path).parents)}
    for place in sorted(below, key=lambda path: len(path.parts)):
        disk.make_folder(place)
    for path, content in sorted(contents.items()):
        data = _bytes(disk, content)
        entry = expected.get(path)
        if entry is not None and entry.sha256 != sha256_hex(data):
            raise problem("hash_mismatch", path, expected=entry.sha256, found=sha256_hex(data))
        write_new(disk, folder / path, data, mode=READ_ONLY)
    for place in sorted(below, key=lambda path: len(path.parts), reverse=True):
        disk.fsync_dir(place)


def refuse_taken(disk: Storage, target: Path) -> None:
    """Raise UsageError ``target_exists`` where anything stands in the place of a folder to be built."""
    if target.name in disk.entries(target.parent):
        raise UsageError(
            f"{target} is there already, and nothing is replaced: look at what it is, or choose another folder.",
            code="target_exists",
        )


def place(disk: Storage, staging: Path, *, target: Path) -> None:
    """Give a folder that was built its name. Raises UsageError ``target_exists``: nothing is ever replaced."""
    refuse_taken(disk, target)
    disk.rename_noreplace(staging, target)


@contextmanager
def building(disk: Storage, room: Path, *, clock: Callable[[], Stamp] = system_clock) -> Iterator[None]:
    """Hold the right to build in a folder, alone. Staging that one left behind who died is moved to its quarantine.

    Raises UsageError ``room_busy`` while somebody else builds there.
    """
    disk.make_folder(room)
    path = room / BUSY
    if BUSY not in disk.entries(room):
        _make_lock(disk, path)
    descriptor = disk.open_append(path)
    try:
        try:
            disk.lock(descriptor)
        except UsageError as error:
            if error.code != "campaign_busy":
                raise
            raise UsageError(
                f"somebody else builds in {room} now: wait until that has ended", code="room_busy"
            ) from None
        for name in disk.entries(room):
            if name.startswith(STAGING_PREFIX):
                quarantine(room / name, reason="stale_staging", into=room, disk=disk, utc=clock().utc)
        yield
    finally:
        disk.close(descriptor)


def _make_lock(disk: Storage, path: Path) -> None:
    try:
        descriptor = disk.open_new(path)
    except StorageFailure:
        if path.name not in disk.entries(path.parent):
            raise
        return  # another one made it in between
    disk.close(descriptor)
    disk.fsync_dir(path.parent)


def files_below(disk: Storage, folder: Path, *, prefix: str = "") -> dict[str, Path]:
    """Return path -> place of every file below a folder. Raises EvidenceError ``not_regular_file`` for a link."""
    found: dict[str, Path] = {}
    for name, kind in disk.entries(folder).items():
        path = f"{prefix}{name}"
        if kind == "other":
            raise problem("not_regular_file", path, expected="a file or a folder", found="a link or a device")
        found |= files_below(disk, folder / name, prefix=f"{path}/") if kind == "folder" else {path: folder / name}
    return found


def _bytes(disk: Storage, content: Content) -> bytes:
    return content if isinstance(content, bytes) else disk.read(content)
