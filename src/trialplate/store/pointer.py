"""``current.json``: which published bundle is the current one. Its version grows by one, and never goes back.

Source: evidence specification, section 11.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trialplate.canonical import MAX_SAFE_INTEGER, canonical_json, read_stored
from trialplate.errors import CanonicalError, EvidenceError, UsageError
from trialplate.store.findings import EvidenceProblem, malformed, problem
from trialplate.store.fsio import Storage

POINTER = "current.json"
SCHEMA = "trialplate.pointer/1"
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Pointer:
    """A version from 1, the bundle that it names, and the one that the version before named (None for the first)."""

    version: int
    bundle_id: str
    prev_bundle_id: str | None

    def document(self) -> dict[str, Any]:
        """Return the plain form."""
        return {
            "schema": SCHEMA,
            "version": self.version,
            "bundle_id": self.bundle_id,
            "prev_bundle_id": self.prev_bundle_id,
        }

    def stored(self) -> bytes:
        """Return the stored form."""
        return canonical_json(self.document())

    def next(self, bundle_id: str) -> Pointer:
        """Return the pointer that follows this one."""
        return Pointer(self.version + 1, bundle_id, self.bundle_id)


def read_pointer(disk: Storage, folder: Path) -> Pointer | None:
    """Return the pointer of a folder of published bundles, None where nothing was published.

    Raises EvidenceError ``malformed``, ``version_unsupported`` or ``schema_mismatch``.
    """
    if POINTER not in disk.entries(folder):
        return None
    return parse_pointer(disk.read(folder / POINTER))


def parse_pointer(data: bytes) -> Pointer:
    """Read a stored pointer. Raises EvidenceError ``malformed``, ``version_unsupported`` or ``schema_mismatch``."""
    try:
        value = read_stored(data)
    except CanonicalError as error:
        raise malformed(POINTER, error) from None
    if not isinstance(value, dict):
        raise _mismatch("", "an object", value)
    schema = value.get("schema")
    if schema != SCHEMA:
        known = isinstance(schema, str) and schema.startswith("trialplate.pointer/")
        code = "version_unsupported" if known else "schema_mismatch"
        raise problem(code, POINTER, pointer="/schema", expected=SCHEMA, found=schema)
    if set(value) != {"schema", "version", "bundle_id", "prev_bundle_id"}:
        raise _mismatch("", "exactly schema, version, bundle_id, prev_bundle_id", ", ".join(sorted(value)))
    version = value["version"]
    if type(version) is not int or not 1 <= version <= MAX_SAFE_INTEGER:
        raise _mismatch("/version", "an integer from 1", version)
    for name in ("bundle_id", "prev_bundle_id"):
        first = name == "prev_bundle_id" and version == 1
        given = value[name]
        if (given is not None) if first else not (isinstance(given, str) and _DIGEST.fullmatch(given)):
            raise _mismatch(f"/{name}", "null in version 1" if first else "64 lower-case hex digits", given)
    return Pointer(version, value["bundle_id"], value["prev_bundle_id"])


@dataclass(frozen=True, slots=True)
class Seen:
    """What a reader remembers of a pointer."""

    version: int
    bundle_id: str


def read_seen(text: str) -> Seen:
    """Read VERSION:ID. Raises UsageError."""
    version, _, bundle_id = text.partition(":")
    if not (version.isdecimal() and version.isascii() and len(version) < 16 and _DIGEST.fullmatch(bundle_id)):
        raise UsageError(f"{text!r}: expected VERSION:ID, a number and the 64 hex digits of a bundle's id")
    return Seen(int(version), bundle_id)


def accept(pointer: Pointer, *, seen: Seen) -> Pointer:
    """Return a pointer that may follow the one that a reader has seen.

    Raises EvidenceError ``pointer_rollback`` for an older version, or another bundle under the same one, and
    ``pointer_skipped`` for a next version that does not follow the one that was seen.
    """
    same = pointer.bundle_id == seen.bundle_id
    if pointer.version < seen.version or (pointer.version == seen.version and not same):
        raise EvidenceError(
            f"{POINTER} says version {pointer.version}, bundle {pointer.bundle_id}: version {seen.version}, bundle "
            f"{seen.bundle_id}, was seen before. Somebody put an older pointer in its place; do not use this bundle",
            code="pointer_rollback",
        )
    if pointer.version == seen.version + 1 and pointer.prev_bundle_id != seen.bundle_id:
        raise _skipped(pointer, seen.version + 1, seen.bundle_id)
    return pointer


def advance(old: Pointer | None, new: Pointer) -> Pointer:
    """Return ``new`` when it is exactly the next pointer behind ``old``. Raises EvidenceError ``pointer_skipped``."""
    expected = old.next(new.bundle_id) if old is not None else Pointer(1, new.bundle_id, None)
    if new != expected:
        raise _skipped(new, expected.version, expected.prev_bundle_id)
    return new


def _skipped(new: Pointer, version: int, previous: str | None) -> EvidenceError:
    return EvidenceError(
        f"{POINTER} says version {new.version} behind bundle {new.prev_bundle_id}: expected version {version} behind "
        f"{previous}. A version is missing in between, or another one was published",
        code="pointer_skipped",
    )


def _mismatch(pointer: str, expected: str, found: Any) -> EvidenceProblem:
    return problem("schema_mismatch", POINTER, pointer=pointer, expected=expected, found=str(found)[:120])
