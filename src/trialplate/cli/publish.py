"""Promote and publish bundles, and find the current one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from trialplate.cli.output import YES, emit, finding_lines, plain, say
from trialplate.errors import UsageError

Json = Annotated[bool, Parameter(name="--json", negative="")]


def register(app: App) -> None:
    """Add this group's commands."""
    for command in (promote, publish, current):
        app.command(command)


def promote(bundle: Path, /, *, json: Json = False) -> int:
    """Verify a bundle in a fresh process, and record beside it whether it may be published, and why not.

    Parameters
    ----------
    bundle
        The bundle folder.
    json
        Print one JSON document.
    """
    from trialplate import publishing

    done = publishing.promote(bundle)

    def text() -> None:
        print(f"{done.document['result']} {done.document['bundle_id']}")
        found = done.verdict.document.get("findings", ()) if done.verdict.exit_code else ()
        for line in finding_lines(found):
            say(line)
        for reason in done.reasons:
            if reason in publishing.BESIDE_FINDINGS:
                say(f"{reason}: {publishing.BESIDE_FINDINGS[reason]}")
        print(f"record {plain(str(done.path))}")

    found = list(done.verdict.document.get("findings", ()))
    emit({**done.document, "record": str(done.path), "findings": found}, as_json=json, text=text)
    return done.exit_code


def publish(bundle: Path, /, *, into: Path, json: Json = False) -> int:
    """Copy a promoted bundle into a folder of published ones, verify the copy, and point to it as the current one.

    Parameters
    ----------
    bundle
        The bundle folder.
    into
        The folder of published bundles.
    json
        Print one JSON document.
    """
    from trialplate import publishing

    done = publishing.publish(bundle, into)
    facts = {"bundle": str(done.path), "version": done.pointer.version, "bundle_id": done.pointer.bundle_id}
    emit(facts, as_json=json, text=lambda: print(f"published {done.path} as version {done.pointer.version}"))
    return YES


def current(published: Path, /, *, seen: str | None = None, json: Json = False) -> int:
    """Say which published bundle is the current one. An older version than one that was seen before is refused.

    Parameters
    ----------
    published
        The folder of published bundles.
    seen
        What this command printed before, as VERSION:ID.
    json
        Print one JSON document.
    """
    from trialplate.store.fsio import Disk
    from trialplate.store.pointer import accept, read_pointer, read_seen

    pointer = read_pointer(Disk(), published)
    if pointer is None:
        raise UsageError(f"nothing is published in {published}", code="nothing_published")
    if seen is not None:
        accept(pointer, seen=read_seen(seen))
    folder = published / pointer.bundle_id
    emit(
        {"bundle": str(folder), "version": pointer.version, "bundle_id": pointer.bundle_id},
        as_json=json,
        text=lambda: print(f"{folder}\n{pointer.version}:{pointer.bundle_id}"),
    )
    return YES
