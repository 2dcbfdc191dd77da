"""Read what somebody brings along to a check: digests that were kept elsewhere, and keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trialplate.errors import UsageError

if TYPE_CHECKING:
    from trialplate.store.expected import Expected

MAX_KEY_FILE_BYTES = 1024 * 1024


def expected_of(
    lock: str | None, root: str | None, *, heads: Sequence[str], keys: Path | None, threshold: int
) -> Expected:
    """Return what a check is to expect. Raises UsageError for what is no digest, no head or no key."""
    from trialplate.store.expected import Expected
    from trialplate.store.signing import Trust, read_keys
    from trialplate.store.witness import read_witness

    if keys is None and threshold != 1:
        raise UsageError(f"--threshold {threshold} without --keys: expected a file of public keys")
    trust = Trust(read_keys(_key_file(keys)), threshold) if keys is not None else None
    return Expected(lock, root, tuple(read_witness(text) for text in heads), trust)


def _key_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEY_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--keys {path}: it cannot be read ({error.strerror})") from None
    if len(data) > MAX_KEY_FILE_BYTES:
        raise UsageError(f"--keys {path}: expected at most {MAX_KEY_FILE_BYTES} bytes of public keys")
    return data
