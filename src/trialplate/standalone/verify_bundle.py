#!/usr/bin/env python3
"""Check a sealed bundle with nothing but the standard library: names, digests, and the Merkle root over its rows.

Usage: verify_bundle.py PATH. Exit code 0 holds, 1 something was changed, 2 malformed.
"""

import hashlib
import json
import os
import re
import sys
from pathlib import Path

UNLISTED = {"bundle.json", "MANIFEST.json", "attestation.dsse.json"}
SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,126}")


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def root_of(leaves: list[bytes]) -> bytes:
    """Return the RFC 9162 root over leaves."""
    if len(leaves) <= 1:
        return hashlib.sha256(b"\x00" + leaves[0] if leaves else b"").digest()
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + root_of(leaves[:split]) + root_of(leaves[split:])).digest()


def findings(folder: Path) -> list[str]:
    """Return what is wrong with a bundle, one line each."""
    bundle = json.loads((folder / "bundle.json").read_bytes())
    found = []
    if digest_of(folder / "bundle.json") != folder.resolve().name.removeprefix(".staging-"):
        found.append("bundle_id_mismatch: bundle.json")
    if digest_of(folder / "MANIFEST.json") != bundle["manifest_sha256"]:
        return [*found, "manifest_mismatch: MANIFEST.json"]
    listed = {entry["path"]: entry for entry in json.loads((folder / "MANIFEST.json").read_bytes())["files"]}
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    found += [f"file_extra: {path}" for path in sorted(there - listed.keys() - UNLISTED)]
    found += [f"file_missing: {path}" for path in sorted(listed.keys() - there)]
    for path in sorted(listed.keys() & there):
        if not all(SEGMENT.fullmatch(part) for part in path.split("/")):
            found.append(f"path_unsafe: {path}")
        elif digest_of(folder / path) != listed[path]["sha256"]:
            found.append(f"hash_mismatch: {path}")
    lines = (folder / "rows.jsonl").read_bytes().split(b"\n")[:-1]
    if {"n": len(lines), "root": root_of(lines).hex()} != bundle["rows"]:
        found.append("rows_root_mismatch: bundle.json")
    return found


def main() -> int:
    """Print what is wrong, and return the exit code."""
    try:
        found = findings(Path(sys.argv[1]))
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        print(f"malformed: {error}")
        return 2
    print("\n".join(found) or "names, digests and the root over the rows hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
