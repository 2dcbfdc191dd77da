"""Commands on what stands beside a lock: amendments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from trialplate.cli.output import YES, emit, plain

Json = Annotated[bool, Parameter(name="--json", negative="")]


def register(app: App) -> None:
    """Add this group's commands."""
    app.command(amend)


def amend(campaign: Path, /, *, kind: str, reason: str, text: str, json: Json = False) -> int:
    """Append an amendment to the lock of a campaign. It is chained, printed everywhere, and never changes a rule.

    A rule, tolerance, seed, schedule, denominator or analysis is changed by a new version under a new lock.

    Parameters
    ----------
    campaign
        The campaign folder.
    kind
        disclosure (something that a reader has to know), text_correction (a wording that was wrong), custody (who
        keeps keys, digests and anchors) or stop (a registered stop was invoked).
    reason
        Why it is written.
    text
        What it says.
    json
        Print one JSON document.
    """
    from trialplate.store.amending import amend as append
    from trialplate.store.amendments import amendment_path

    made = append(campaign, kind=kind, reason=reason, text=text)
    facts = {
        "campaign": str(campaign), "file": amendment_path(made.n), "sha256": made.sha256, "n": made.n,
        "kind": made.kind, "created_utc": made.created_utc, "attempts_seen": made.attempts_seen,
    }  # fmt: skip

    def tell() -> None:
        print(plain(f"amendment {made.line()}"))
        print(f"{campaign / amendment_path(made.n)}\n{made.sha256}\nKeep this digest outside.")

    emit(facts, as_json=json, text=tell)
    return YES
