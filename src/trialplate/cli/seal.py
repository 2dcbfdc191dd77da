"""Seal campaigns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from trialplate.cli.output import BLOCKED, YES, emit, finding_lines, plain, say

Json = Annotated[bool, Parameter(name="--json", negative="")]


def register(app: App) -> None:
    """Add this group's commands."""
    for command in (seal, sign, pack, unpack):
        app.command(command)


def seal(
    campaign: Path, /, *, out: Path, qualification: Path | None = None, workers: int = 1, json: Json = False
) -> int:
    """Seal a campaign that has ended into OUT/<id>, a folder named by its content. The campaign is only read.

    Parameters
    ----------
    campaign
        The campaign folder.
    out
        The folder in which the bundle is put.
    qualification
        Folder written by `trialplate qualify`; its raw controls become part of the bundle.
    workers
        Processes that draw the pictures of the report.
    json
        Print one JSON document.
    """
    from trialplate import sealing

    bundle = sealing.seal(campaign, out, qualification=qualification, workers=workers)
    verdict = bundle.verdict
    facts = {
        "bundle": str(bundle.path),
        "bundle_id": bundle.bundle_id,
        "lock_sha256": bundle.lock_sha256,
        "root": bundle.root,
        "verified": verdict.exit_code,
        "reasons": list(verdict.reasons),
    }

    def text() -> None:
        print(f"sealed {plain(str(bundle.path))}")
        if verdict.exit_code:
            print(f"BLOCKED: {', '.join(verdict.reasons)}. The bundle stays visible, and cannot be promoted.")
            for line in finding_lines(verdict.document.get("findings", ())):
                say(line)
        print(f"lock {bundle.lock_sha256}\nroot {bundle.root}\nid   {bundle.bundle_id}")
        say("Keep this outside: whoever has these digests can tell the bundle from one that was made up later.")

    emit(facts, as_json=json, text=text)
    return BLOCKED if verdict.exit_code else YES


def sign(bundle: Path, /, *, key: Path, json: Json = False) -> int:
    """Sign a bundle whose digests hold, beside signatures that are there. What it says is not verified by this.

    Parameters
    ----------
    bundle
        The bundle folder.
    key
        Private Ed25519 key, as `openssl genpkey -algorithm ed25519` writes it.
    json
        Print one JSON document.
    """
    from trialplate.store.attesting import attest

    keyid, count = attest(bundle, key)
    facts = {"bundle_id": bundle.resolve().name, "keyid": keyid, "signatures": count}
    emit(facts, as_json=json, text=lambda: print(f"signed by key {keyid}; signatures now: {count}"))
    return YES


def pack(bundle: Path, /, *, out: Path, json: Json = False) -> int:
    """Write a bundle as one zip file, for transport. The same bundle gives the same bytes.

    Parameters
    ----------
    bundle
        The bundle folder.
    out
        The file to write; it must not exist.
    json
        Print one JSON document.
    """
    from trialplate.store.archive import pack as write_archive

    path = write_archive(bundle, out)
    emit({"archive": str(path), "bytes": path.stat().st_size}, as_json=json, text=lambda: print(path))
    return YES


def unpack(
    archive: Path,
    /,
    *,
    out: Path,
    max_files: int = 1_000_000,
    max_total_bytes: int = 64 * 1024**3,
    json: Json = False,
) -> int:
    """Unpack a bundle into OUT/<id>. Names and sizes are judged before anything is written. Verify it next.

    Parameters
    ----------
    archive
        The zip file.
    out
        The folder in which the bundle is put.
    max_files
        How many files are unpacked at most.
    max_total_bytes
        How many bytes are unpacked at most.
    json
        Print one JSON document.
    """
    from trialplate.store.archive import ArchiveCaps
    from trialplate.store.archive import unpack as read_archive

    path = read_archive(archive, out, caps=ArchiveCaps(files=max_files, total_bytes=max_total_bytes))
    emit(
        {"bundle": str(path)}, as_json=json, text=lambda: print(f"{path}\nNot verified yet: trialplate verify {path}")
    )
    return YES
