"""What a run stands on, looked at after loading and after the last episode: code and checkpoints of its arms.

Each look hashes every file again. Between two looks a file may be changed and put back with the content that it had;
then its digest is the same, and the file system still says that it was written. That counts as a change, too.
Source: fair pick-and-place protocol, section 7; evidence specification, sections 5 and 7.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trialplate import fingerprint
from trialplate.canonical import document_sha256
from trialplate.errors import LockError, TrialplateError
from trialplate.lock import Lock, locked_inputs
from trialplate.registry import load_suite

Mark = tuple[int, int, int, int, int]
"""Inode, size, time of the last write, time of the last change of any kind, number of names; times in nanoseconds."""

Marks = Mapping[str, Mapping[str, Mark]]
"""Arm -> file -> its mark."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found. ``digests``: arm -> digest of its code and weights, or what is wrong with them.

    ``suite_sha256``, ``harness_sha256``: digests of the sources that measure and score.
    """

    digests: Mapping[str, str]
    suite_sha256: str
    harness_sha256: str
    marks: Marks

    def sources(self) -> dict[str, str]:
        """Return the digests of suite and harness by name."""
        return {"suite_sha256": self.suite_sha256, "harness_sha256": self.harness_sha256}

    def document(self) -> dict[str, Any]:
        """Return the data of the ``inputs.checked`` record of this look."""
        return {"digests": dict(self.digests), **self.sources()}


def look(lock: Lock, *, since: Look | None = None) -> Look:
    """Hash the inputs of every arm. ``since``: an earlier look of this run; what was written after it has changed.

    Of a policy that runs elsewhere nothing can be read here: its identity is compared at each connection.
    """
    arms = {arm["name"]: arm for arm in lock.document["arms"]}
    marks = {name: arm_marks(arm, base=lock.base) for name, arm in arms.items()}
    digests = {name: _digest(arm, lock.base) for name, arm in arms.items()}
    for name, before in since.marks.items() if since is not None else ():
        written = first_written(before, marks[name])
        if written is not None:
            now = digests[name]
            told = "as locked, but" if now == locked_inputs(lock.document)[name] else f"{now}, and"
            digests[name] = f"{told} {written} was written during the run"
    return Look(digests, _suite_sha256(lock.document), fingerprint.harness()["sha256"], marks)


def changed_arms(lock_document: Mapping[str, Any], checked: Mapping[str, Any]) -> frozenset[str]:
    """Return the arms whose inputs were not the locked ones at a check (the data of ``inputs.checked``).

    All of them where suite or harness were not: then nothing was measured by what was locked.
    """
    locked = locked_inputs(lock_document)
    sources = {
        "suite_sha256": lock_document["suite"]["sources"]["sha256"],
        "harness_sha256": lock_document["harness"]["sha256"],
    }
    if any(checked.get(name) != digest for name, digest in sources.items()):
        return frozenset(locked)
    digests = checked["digests"]
    return frozenset(name for name in {*locked, *digests} if digests.get(name) != locked.get(name))


def arm_marks(arm: Mapping[str, Any], *, base: Path) -> dict[str, Mark]:
    """Return file -> mark of the code and weights of an arm of the lock; nothing of one that runs elsewhere."""
    if arm["source"] is None:
        return {}
    return policy_marks(arm["reference"], weights=arm["choice"]["weights"], base=base)


def policy_marks(reference: str, *, weights: Sequence[str], base: Path) -> dict[str, Mark]:
    """Return file -> mark of the code and weights of a policy; what cannot be looked at has none."""
    found: dict[str, Mark] = {}
    for name, path in _files(reference, weights, base):
        try:
            entry = os.lstat(path)
        except OSError:
            continue  # gone: the missing mark says so
        found[name] = (entry.st_ino, entry.st_size, entry.st_mtime_ns, entry.st_ctime_ns, entry.st_nlink)
    return found


def first_written(before: Mapping[str, Mark], now: Mapping[str, Mark]) -> str | None:
    """Return the first file that was written, replaced, added or removed between two looks, None when none was.

    Another name for a file (a hard link, as package caches make them) is no change of it.
    """
    for name in sorted({*before, *now}):
        one, other = before.get(name), now.get(name)
        if one is None or other is None or one[:3] != other[:3]:
            return name
        if one[3] != other[3] and one[4] == other[4]:
            return name
    return None


def _files(reference: str, weights: Sequence[str], base: Path) -> Iterator[tuple[str, Path]]:
    """Yield every file that belongs to a policy; nothing where they cannot be listed."""
    try:
        _, code = fingerprint.policy_files(reference, base=base)
        shards = fingerprint.checkpoint_files(weights, base=base)
    except (TrialplateError, OSError):
        return  # the digest of this look says what is wrong
    yield from ((f"source {name}", path) for name, path in code.items())
    yield from ((f"weights {name}", path) for name, path in shards.items())


def _digest(arm: Mapping[str, Any], base: Path) -> str:
    """Return the digest of an arm's code and weights as they lie, or what is wrong with them."""
    if arm["source"] is None:
        return document_sha256({"registration": arm["registration_sha256"]})
    try:
        _, code = fingerprint.policy_files(arm["reference"], base=base)
        source = fingerprint.source_sha256(code)
        weights = fingerprint.checkpoint(arm["choice"]["weights"], base=base)
    except LockError as error:
        return f"cannot be read: {error.code}"
    except OSError as error:
        return f"cannot be read: {type(error).__name__}"
    return document_sha256({"source": source, "weights": weights})


def _suite_sha256(lock_document: Mapping[str, Any]) -> str:
    try:
        digest: str = fingerprint.sources(load_suite(lock_document["suite"]["name"]).sources)["sha256"]
    except (TrialplateError, OSError) as error:
        return f"cannot be read: {type(error).__name__}"
    return digest
