"""Files that are computed from the evidence: they can be computed again, and replaced."""

from __future__ import annotations

from pathlib import Path

from trialplate.errors import UsageError, nearest
from trialplate.store.fsio import Disk, Storage
from trialplate.store.layout import DERIVED


def write_derived(folder: Path, name: str, data: bytes, *, disk: Storage | None = None) -> None:
    """Put a file that is computed from the evidence (``DERIVED``) in place, atomically."""
    if name not in DERIVED:
        raise UsageError(f"{name!r} is no derived file of a campaign{nearest(name, DERIVED)}")
    (disk or Disk()).replace(folder / name, data)
