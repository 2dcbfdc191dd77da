"""Read what somebody brings along to a check: digests kept elsewhere, keys, weights, a ledger, what to replay."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trialplate.errors import UsageError

if TYPE_CHECKING:
    from trialplate.store.expected import Expected

MAX_KEY_FILE_BYTES = 1024 * 1024


def expected_of(
    lock: str | None, root: str | None, *, heads: Sequence[str], keys: Path | None, threshold: int,
    weights: Path | None = None, holdouts: Path | None = None,
) -> Expected:  # fmt: skip
    """Return what a check is to expect. Raises UsageError for what is no digest, head, key, folder or ledger."""
    from trialplate.store.expected import Expected
    from trialplate.store.signing import Trust, read_keys
    from trialplate.store.witness import read_witness

    if keys is None and threshold != 1:
        raise UsageError(f"--threshold {threshold} without --keys: expected a file of public keys")
    trust = Trust(read_keys(_key_file(keys)), threshold) if keys is not None else None
    for name, path in (("weights", weights), ("holdouts", holdouts)):
        if path is not None and not path.exists():
            raise UsageError(f"--{name} {path}: nothing of that name is there")
    return Expected(lock, root, tuple(read_witness(text) for text in heads), trust, weights, holdouts)


def replay_wanted(given: Sequence[str] | None) -> int | Literal["all"] | None:
    """Read what follows --replay: nothing, `all`, or a number of at least 1. Raises UsageError."""
    if given is None:
        return None
    text = given[0] if given else "all"
    if text == "all":
        return "all"
    if len(given) > 1 or not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UsageError(f"--replay {' '.join(given)}: expected `all` or how many attempts to pick, 1 or more")
    return int(text)


def beacon_bytes(given: str | None, *, replay: Sequence[str] | None) -> bytes | None:
    """Read --beacon: 64 hex digits, and only where attempts are to be picked. Raises UsageError."""
    if given is None:
        return None
    if not re.fullmatch("[0-9a-fA-F]{64}", given):
        raise UsageError(f"--beacon {given}: expected 32 bytes of public randomness as 64 hex digits")
    if replay_wanted(replay) in (None, "all"):
        raise UsageError("--beacon picks attempts for --replay N; nothing is picked here")
    return bytes.fromhex(given)


def _key_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEY_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--keys {path}: it cannot be read ({error.strerror})") from None
    if len(data) > MAX_KEY_FILE_BYTES:
        raise UsageError(f"--keys {path}: expected at most {MAX_KEY_FILE_BYTES} bytes of public keys")
    return data
