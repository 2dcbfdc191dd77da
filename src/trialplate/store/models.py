"""Checkpoint manifests: every file of an arm's weights by path, size and digest, as the lock has them.

``models/<arm>.json`` of a bundle follows from the lock alone. Whoever holds the checkpoint can hash it again and see
whether these are the files that were measured. Source: evidence specification, sections 7 and 10.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trialplate.canonical import canonical_json, file_sha256, read_stored
from trialplate.errors import CanonicalError
from trialplate.store.findings import EvidenceProblem, Finding, finding, malformed, problem

MODELS = "models"
SCHEMA = "trialplate.model/1"
_ABSENT = "no file"


def model_path(arm: str) -> str:
    """Return where the manifest of an arm lies in a bundle."""
    return f"{MODELS}/{arm}.json"


def model_documents(lock_document: Mapping[str, Any]) -> dict[str, bytes]:
    """Return path -> stored form of the manifest of every arm."""
    return {model_path(arm["name"]): canonical_json(_manifest(arm)) for arm in lock_document["arms"]}


def _manifest(arm: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of an arm. ``files`` is null for a policy elsewhere, of which only its word is known."""
    here = arm["source"] is not None
    listed = [{"path": w["path"], "sha256": w["sha256"], "size": w["size_bytes"]} for w in arm["weights"]]
    files: dict[str, Any] = {"files": listed} if here else {"files": None, "files_reason": "not_here"}
    registration = arm["registration"]
    said = {name: registration[name] for name in ("checkpoint", "checkpoint_reason") if name in registration}
    return {
        "schema": SCHEMA,
        "arm": arm["name"],
        **files,
        **said,
        "registration_sha256": arm["registration_sha256"],
    }


def model_findings(stored: Mapping[str, bytes], lock_document: Mapping[str, Any]) -> list[Finding]:
    """Compare the manifests of a bundle (path -> content, below ``models/``) with its lock.

    Findings: ``model_digest_mismatch`` for one that is not what the lock says, missing or of no arm; ``malformed``,
    ``schema_mismatch`` and ``version_unsupported`` for what is no manifest at all.
    """
    expected = model_documents(lock_document)
    found: list[Finding] = []
    for path in sorted({*expected, *stored}):
        if path not in stored or path not in expected:
            pair = {"expected": "a manifest of this arm", "found": "none"}
            extra = {"expected": "no such arm", "found": "a manifest"}
            found.append(finding("model_digest_mismatch", path, **(pair if path in expected else extra)))
            continue
        try:
            found += _compared(path, stored[path], expected=read_stored(expected[path]))
        except EvidenceProblem as error:
            found.append(error.finding)
    return found


def _compared(path: str, data: bytes, *, expected: Mapping[str, Any]) -> list[Finding]:
    try:
        document = read_stored(data)
    except CanonicalError as error:
        raise malformed(path, error) from None
    if not isinstance(document, dict) or set(document) != set(expected):
        listed = ", ".join(sorted(expected))
        raise problem("schema_mismatch", path, expected=f"exactly {listed}", found=str(document)[:120])
    if document["schema"] != SCHEMA:
        known = isinstance(document["schema"], str) and document["schema"].startswith("trialplate.model/")
        code = "version_unsupported" if known else "schema_mismatch"
        raise problem(code, path, pointer="/schema", expected=SCHEMA, found=document["schema"])
    return [
        finding(
            "model_digest_mismatch", path, pointer=f"/{name}", expected=_shown(value), found=_shown(document[name])
        )
        for name, value in expected.items()
        if canonical_json(document[name]) != canonical_json(value)
    ]


def weight_findings(lock_document: Mapping[str, Any], *, base: Path) -> list[Finding]:
    """Hash the weights of every arm where they lie, relative to ``base``, and compare them with the lock.

    Findings: ``model_digest_mismatch`` for a shard swapped, missing, added or edited, ``not_regular_file`` for
    a link or anything else that is no plain file. Nothing is followed, loaded or written.
    """
    found: list[Finding] = []
    for arm in lock_document["arms"]:
        if arm["source"] is None:
            continue
        locked = {shard["path"]: shard for shard in arm["weights"]}
        lying = dict(_lying(arm["choice"]["weights"], base))
        for name in sorted({*locked, *lying}):
            wrong = _shard(name, locked.get(name), base / name, entry=lying.get(name))
            found += [] if wrong is None else [wrong]
    return found


def _lying(names: Any, base: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield (name, what it is) of everything that lies where weights are named; folders are walked, links are not."""
    for name in names:
        place, relative = base / name, Path(name)
        try:
            entry = os.lstat(place)
        except OSError:
            continue
        if not stat.S_ISDIR(entry.st_mode):
            yield relative.as_posix(), entry
            continue
        for folder, folders, files in os.walk(place):
            links = [inner for inner in folders if (Path(folder) / inner).is_symlink()]
            for inner in sorted([*links, *files]):
                path = Path(folder) / inner
                yield (relative / path.relative_to(place)).as_posix(), os.lstat(path)


def _shard(
    name: str, locked: Mapping[str, Any] | None, path: Path, *, entry: os.stat_result | None
) -> Finding | None:
    if entry is not None and not stat.S_ISREG(entry.st_mode):
        kind = "a link" if stat.S_ISLNK(entry.st_mode) else "no regular file"
        return finding("not_regular_file", name, expected="a regular file", found=kind)
    if locked is None:
        return finding("model_digest_mismatch", name, expected=_ABSENT, found="a file that the lock does not know")
    wanted = f"{locked['size_bytes']} bytes, {locked['sha256']}"
    if entry is None:
        return finding("model_digest_mismatch", name, expected=wanted, found=_ABSENT)
    try:
        lying = f"{entry.st_size} bytes, {file_sha256(path)}"
    except OSError as error:
        return finding("unreadable", name, expected="a readable file", found=error.strerror)
    return None if lying == wanted else finding("model_digest_mismatch", name, expected=wanted, found=lying)


def _shown(value: Any) -> str:
    text = canonical_json(value).decode()
    return text if len(text) <= 200 else f"{text[:197]}..."
