"""Evidence that contradicts itself is moved out of the way: whole, unrepaired, with the reason beside it.

Nothing is deleted, and the moved folder keeps every byte, so it can be checked where it lies.
Source: evidence specification, sections 5 and 11.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from trialplate.canonical import canonical_json
from trialplate.errors import StorageFailure, UsageError
from trialplate.store.chain import HEAD, JOURNAL, system_clock
from trialplate.store.findings import EvidenceProblem, Finding
from trialplate.store.fsio import Disk, Storage, publish_new

QUARANTINE = "quarantine"
REASON = "reason.json"
_REASON = re.compile(r"[a-z0-9_]{1,60}")


class Quarantined(EvidenceProblem):
    """A campaign that was found broken and moved. ``place``: where it lies now."""

    def __init__(self, finding: Finding, *, place: Path) -> None:
        super().__init__(finding)
        self.place = place
        self.message = (
            f"{finding}. Nothing was repaired: the campaign was moved as it is to {place}, and {REASON} beside it "
            "says why. Its trials can be run again only under a new lock, in another folder."
        )
        self.args = (self.message,)


def is_broken(finding: Finding) -> bool:
    """Return whether a finding means that something durable is gone or changed, so that nobody may write on."""
    return finding.exit_code == 1 or finding.path == HEAD


def quarantine(
    folder: Path,
    *,
    reason: str,
    findings: Sequence[Finding] = (),
    into: Path | None = None,
    disk: Storage | None = None,
    utc: str | None = None,
) -> Path:
    """Move a folder to ``<into>/quarantine/<utc>-<reason>/<its name>`` and return that path.

    ``into`` (on the same file system) is by default the folder that it lies in; ``reason`` is a code. ``reason.json``
    is durable before the move, the move before the return; killed in between, the folder lies where it lay. Raises
    UsageError ``campaign_busy`` while a writer holds the journal, StorageFailure.
    """
    if _REASON.fullmatch(reason) is None:
        raise UsageError(f"reason {reason!r}: expected a code of lower-case letters, digits and underscores")
    disk, utc = disk or Disk(), utc or system_clock().utc
    held = _lock(folder, disk)
    try:
        place = _free(_home(folder, into) / f"{_compact(utc)}-{reason}", disk)
        disk.make_folder(place)
        document = {
            "schema": "trialplate.quarantine/1",
            "utc": utc,
            "name": folder.name,
            "reason": reason,
            "findings": [asdict(item) for item in findings],
        }
        publish_new(disk, place / REASON, canonical_json(document), mode=0o444)
        disk.rename(folder, place / folder.name)
    finally:
        if held is not None:
            disk.close(held)
    return place / folder.name


def _home(folder: Path, into: Path | None) -> Path:
    return (into if into is not None else folder.parent) / QUARANTINE


def _free(place: Path, disk: Storage) -> Path:
    """Return the first of ``place``, ``place-2``, ``place-3``, ... that is not there."""
    present = disk.entries(place.parent)
    names = [place.name, *(f"{place.name}-{number}" for number in range(2, len(present) + 3))]
    return place.with_name(next(name for name in names if name not in present))


def _lock(folder: Path, disk: Storage) -> int | None:
    """Hold the journal, so that nobody starts to write in the meantime; None where there is none to be written to."""
    if JOURNAL not in disk.entries(folder):
        return None
    try:
        descriptor = disk.open_append(folder / JOURNAL)
    except StorageFailure as failure:
        if isinstance(failure.__cause__, PermissionError):  # of a sealed copy, which is read-only
            return None
        raise
    try:
        disk.lock(descriptor)
    except BaseException:
        disk.close(descriptor)
        raise
    return descriptor


def _compact(utc: str) -> str:
    """Return ``2026-11-30T10:35:50.000000Z`` as ``20261130T103550.000000Z``, which any file system takes."""
    return utc.replace("-", "").replace(":", "")
