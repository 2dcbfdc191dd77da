"""Seal campaigns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from trialplate.cli.output import BLOCKED, YES, emit

Json = Annotated[bool, Parameter(name="--json", negative="")]


def register(app: App) -> None:
    """Add this group's commands."""
    app.command(seal)


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
        print(f"sealed {bundle.path}")
        if verdict.exit_code:
            print(f"BLOCKED: {', '.join(verdict.reasons)}. The bundle stays visible, and cannot be promoted.")
        print(f"lock {bundle.lock_sha256}\nroot {bundle.root}\nid   {bundle.bundle_id}\nKeep this outside.")

    emit(facts, as_json=json, text=text)
    return BLOCKED if verdict.exit_code else YES
