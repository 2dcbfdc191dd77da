"""The lock file of a campaign folder, written once before anything else is there, and what stands beside it."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path

from trialplate.canonical import sha256_hex
from trialplate.errors import EvidenceError, LockError, UsageError
from trialplate.store.amendments import AMENDMENTS
from trialplate.store.chain import HEAD, JOURNAL, PARTIAL
from trialplate.store.fsio import Disk, Storage, publish_new, staging_path
from trialplate.store.layout import EPISODES, LOCK, ROWS, TOP_FILES, TOP_FOLDERS, read_plan


def write_lock(folder: Path, lock_bytes: bytes, *, disk: Storage | None = None) -> str:
    """Create the campaign folder with its ``lock.json`` (mode 0444) and return the digest of the lock.

    The same lock may be written again as long as it is the same. Raises LockError (``other_campaign``,
    ``late_lock``, ``lock_incomplete``), UsageError ``folder_not_empty``, EvidenceError for a lock without a dense
    schedule, StorageFailure.
    """
    disk = disk or Disk()
    plan = read_plan(lock_bytes)
    disk.make_folder(folder)
    present = {name: kind for name, kind in disk.entries(folder).items() if name != staging_path(folder / LOCK).name}
    if LOCK in present:
        refuse_other_lock(folder, disk.read(folder / LOCK), wanted=plan.sha256)
        return plan.sha256
    refuse_late(folder, present)
    if present:
        raise UsageError(
            f"{folder} is not empty: found {', '.join(list(present)[:5])}. Choose an empty folder.",
            code="folder_not_empty",
        )
    publish_new(disk, folder / LOCK, lock_bytes, mode=0o444)
    return plan.sha256


def refuse_late(folder: Path, present: Container[str]) -> None:
    """Raise LockError ``late_lock`` for a folder that holds evidence and no lock."""
    evidence = [name for name in (JOURNAL, HEAD, PARTIAL, EPISODES, ROWS) if name in present]
    if evidence and LOCK not in present:
        raise LockError(
            f"{folder} holds {', '.join(evidence)} and no {LOCK}: a lock must be older than the first attempt. "
            "Choose an empty folder.",
            code="late_lock",
        )


def refuse_other_lock(folder: Path, lock_bytes: bytes, *, wanted: str) -> None:
    """Raise LockError ``other_campaign`` naming both digests, or ``lock_incomplete``, unless it is the wanted one."""
    found = sha256_hex(lock_bytes)
    if found == wanted:
        return
    try:
        read_plan(lock_bytes)
    except EvidenceError as error:
        raise LockError(f"{folder / LOCK} is no whole lock: {error}", code="lock_incomplete") from None
    raise LockError(
        f"{folder} belongs to another lock: expected {wanted}, found {found}. Choose another folder.",
        code="other_campaign",
    )


def refuse_foreign(folder: Path, present: Mapping[str, str]) -> None:
    """Raise UsageError ``folder_not_empty`` for anything in a campaign folder that belongs to no campaign."""
    staging = {staging_path(Path(name)).name for name in TOP_FILES}
    for name, kind in present.items():
        expected = "folder" if name in TOP_FOLDERS else "file"
        if name not in TOP_FILES | staging | TOP_FOLDERS or kind != expected:
            raise UsageError(
                f"{folder / name} does not belong to a campaign (a {kind}): move it elsewhere",
                code="folder_not_empty",
            )


def write_amendments(folder: Path, files: Mapping[str, bytes], *, disk: Storage) -> None:
    """Write every amendment (path -> content) that is not there yet, mode 0444; what is there stays as it is."""
    if not files:
        return
    place = folder / AMENDMENTS
    disk.make_folder(place)
    remove_staging(place, disk=disk)
    present = disk.entries(place)
    for path, data in files.items():
        if (folder / path).name not in present:
            publish_new(disk, folder / path, data, mode=0o444)


def remove_staging(place: Path, *, disk: Storage) -> None:
    """Remove what is left of files that somebody was killed while writing."""
    for name, kind in disk.entries(place).items():
        if kind == "file" and name.startswith(".") and name.endswith(".tmp"):
            disk.remove(place / name)
