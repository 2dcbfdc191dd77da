"""What an interrupted attempt had written: kept, under names that nobody takes for evidence of a whole attempt."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trialplate.errors import UsageError
from trialplate.store.fsio import Storage
from trialplate.store.layout import LEFTOVER, ROW


def set_aside(place: Path, stored: bytes, *, disk: Storage) -> None:
    """Copy each leftover in the folder of an attempt under a name of its own, and remove the original.

    ``stored``: the row that the attempt gets, which stays when it is there already. Copied, not renamed: a file whose
    sync never came, or failed, cannot be made durable any more. Can be killed and repeated.
    """
    present = disk.entries(place)
    for name in present:
        data = disk.read(place / name)
        if name.endswith(LEFTOVER) or (name == ROW and data == stored):
            continue
        target = f"{name}{LEFTOVER}"
        while target in present and disk.read(place / target) != data:
            target = f"{target}{LEFTOVER}"
        disk.replace(place / target, data)
        disk.remove(place / name)


def refuse_reserved(names: Iterable[str]) -> None:
    """Raise UsageError for an artifact with a name that is kept for leftovers."""
    for name in sorted(names):
        if name.endswith(LEFTOVER):
            raise UsageError(f"artifact {name!r}: names that end in {LEFTOVER} are kept for interrupted attempts")
