"""Build a folder beside its place, durably, and put it there whole or not at all.

Files are created anew, never through a link, and read-only; every file is synced, then every folder from the bottom
up; then one rename that replaces nothing, and the parent is synced. Source: evidence specification, section 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from trialplate.canonical import sha256_hex
from trialplate.errors import UsageError
from trialplate.store.findings import problem
from trialplate.store.fsio import Storage, write_new
from trialplate.store.manifest import Entry

READ_ONLY = 0o444
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


def place(disk: Storage, staging: Path, *, target: Path) -> None:
    """Give a folder that was built its name. Raises UsageError ``target_exists``: nothing is ever replaced."""
    if target.name in disk.entries(target.parent):
        raise UsageError(
            f"{target} is there already, and nothing is replaced: look at what it is, or choose another folder.",
            code="target_exists",
        )
    disk.rename_noreplace(staging, target)


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
