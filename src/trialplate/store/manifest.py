"""``MANIFEST.json``: path, digest and size of every file of a bundle, and the rule for paths.

A path must mean the same file on every system, so the alphabet is narrow, device names are refused, and names that
differ only in case are one name. Source: evidence specification, section 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from trialplate.canonical import MAX_DOCUMENT_BYTES, MAX_SAFE_INTEGER, canonical_json, read_stored
from trialplate.errors import CanonicalError
from trialplate.store.findings import EvidenceProblem, malformed, problem

MANIFEST = "MANIFEST.json"
SCHEMA = "trialplate.manifest/1"
MAX_PATH_CHARACTERS = 240
MAX_MANIFEST_BYTES = 192 * 1024**2
"""Room for a million files. Above the 16 MiB of every other document only the exact form is read."""

_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,126}")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
_DIGEST = re.compile("[0-9a-f]{64}")
_ENTRY = re.compile(
    rb'\{"path":"([A-Za-z0-9_][A-Za-z0-9_./-]*)","sha256":"([0-9a-f]{64})","size":(0|[1-9][0-9]{0,14})\}([,\]])'
)
_HEAD, _TAIL = b'{"files":[', b',"schema":"' + SCHEMA.encode() + b'"}'
_MEMBERS = {"path": str, "sha256": str, "size": int}


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: path with ``/``, SHA-256 in hex, size in bytes."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a bundle, sorted by the bytes of their paths."""

    files: tuple[Entry, ...]

    def document(self) -> dict[str, Any]:
        """Return the plain form."""
        listed = [{"path": item.path, "sha256": item.sha256, "size": item.size} for item in self.files]
        return {"schema": SCHEMA, "files": listed}

    def stored(self) -> bytes:
        """Return the stored form."""
        return canonical_json(self.document())

    def by_path(self) -> dict[str, Entry]:
        """Return path -> entry."""
        return {item.path: item for item in self.files}


def path_allowed(path: str) -> bool:
    """Return whether a path may stand in a manifest: ASCII segments joined by ``/`` that every system reads alike."""
    if len(path) > MAX_PATH_CHARACTERS:
        return False
    return all(
        _SEGMENT.fullmatch(part) is not None and not part.endswith(".") and _DEVICE.fullmatch(part) is None
        for part in path.split("/")
    )


def make_manifest(entries: Iterable[Entry]) -> Manifest:
    """Return the manifest of these files. Raises EvidenceError ``path_unsafe``."""
    files = tuple(sorted(entries, key=lambda item: item.path))  # ASCII: characters sort as bytes do
    for wrong in unsafe_paths(item.path for item in files):
        raise wrong
    return Manifest(files)


def unsafe_paths(paths: Iterable[str]) -> Iterator[EvidenceProblem]:
    """Yield a problem for each path that is not allowed, or that is another one when letter case is ignored."""
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for number, path in enumerate(paths):
        if not path_allowed(path):
            yield _unsafe(path, number, "ASCII names that every system reads alike")
            continue
        folded = path.casefold()
        other = files.get(folded) or folders.get(folded)
        above = path
        while other is None and "/" in above:
            above = above.rpartition("/")[0]
            spelled = folders.setdefault(above.casefold(), above)
            other = files.get(above.casefold()) or (spelled if spelled != above else None)
        if other is not None:
            yield _unsafe(path, number, f"no second name beside {other!r}")
        files[folded] = path


def _unsafe(path: str, number: int, expected: str) -> EvidenceProblem:
    shown = path[:MAX_PATH_CHARACTERS]
    return problem("path_unsafe", shown, pointer=f"/files/{number}", expected=expected, found=shown)


def parse_manifest(data: bytes) -> Manifest:
    """Read a stored manifest.

    Raises EvidenceError ``size_limit``, ``malformed``, ``version_unsupported``, ``schema_mismatch``, ``path_unsafe``
    with the place. The general reader is only asked where the exact form does not match: it says why.
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise problem("size_limit", MANIFEST, expected=f"at most {MAX_MANIFEST_BYTES} bytes", found=len(data))
    files = _exact(data)
    if files is None:
        if len(data) > MAX_DOCUMENT_BYTES:
            raise problem("size_limit", MANIFEST, expected=f"at most {MAX_DOCUMENT_BYTES} bytes", found=len(data))
        files = _explained(data)
    for wrong in unsafe_paths(item.path for item in files):
        raise wrong
    for number, (before, item) in enumerate(pairwise(files), 1):
        if before.path >= item.path:
            raise _mismatch(f"/files/{number}/path", f"a path behind {before.path}", item.path)
    return Manifest(files)


def _exact(data: bytes) -> tuple[Entry, ...] | None:
    """Read the canonical form of a well-formed manifest without building a document; None for anything else."""
    if not (data.startswith(_HEAD) and data.endswith(_TAIL)):
        return None
    files: list[Entry] = []
    place, end = len(_HEAD), len(data) - len(_TAIL)
    while found := _ENTRY.match(data, place, end):
        path, digest, size, separator = found.groups()
        files.append(Entry(path.decode("ascii"), digest.decode("ascii"), int(size)))
        place = found.end()
        if separator == b"]":
            break
    return tuple(files) if place == end and data[place - 1 : place] == b"]" and files else None


def _explained(data: bytes) -> tuple[Entry, ...]:
    """Read a manifest with the general reader, which says what is wrong with it."""
    try:
        document = read_stored(data)
    except CanonicalError as error:
        raise malformed(MANIFEST, error) from None
    if not isinstance(document, dict):
        raise _mismatch("", "an object", type(document).__name__)
    schema = document.get("schema")
    if schema != SCHEMA:
        known = isinstance(schema, str) and schema.startswith("trialplate.manifest/")
        code = "version_unsupported" if known else "schema_mismatch"
        raise problem(code, MANIFEST, pointer="/schema", expected=SCHEMA, found=schema)
    listed = document.get("files")
    if set(document) != {"schema", "files"} or not isinstance(listed, list):
        raise _mismatch("", "exactly schema and a list of files", ", ".join(sorted(document)))
    return tuple(_entry(item, f"/files/{number}") for number, item in enumerate(listed))


def _entry(item: Any, pointer: str) -> Entry:
    if not isinstance(item, dict) or {key: type(value) for key, value in item.items()} != _MEMBERS:
        raise _mismatch(pointer, "exactly path, sha256 (texts) and size (an integer)", str(item)[:120])
    if _DIGEST.fullmatch(item["sha256"]) is None:
        raise _mismatch(f"{pointer}/sha256", "64 lower-case hex digits", item["sha256"][:80])
    if not 0 <= item["size"] <= MAX_SAFE_INTEGER:
        raise _mismatch(f"{pointer}/size", "a number of bytes", str(item["size"]))
    return Entry(**item)


def _mismatch(pointer: str, expected: str, found: str) -> EvidenceProblem:
    return problem("schema_mismatch", MANIFEST, pointer=pointer, expected=expected, found=found)
