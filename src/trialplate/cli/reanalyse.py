"""Read a campaign again under a corrected plan or grader; what comes out is secondary and licenses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from trialplate.cli.output import YES, emit, plain, table

Json = Annotated[bool, Parameter(name="--json", negative="")]


def register(app: App) -> None:
    """Add this group's command."""
    app.command(reanalyse)


def reanalyse(
    campaign: Path, /, *, reason: str, out: Path, plan: Path | None = None,
    grader: Literal["locked", "installed"] = "locked", json: Json = False,
) -> int:  # fmt: skip
    """Analyse a campaign again with a correction. The result is labelled secondary, and no claim can stand on it.

    The campaign is only read: its registered analysis and its claims stay as they are.

    Parameters
    ----------
    campaign
        The campaign folder.
    reason
        What was wrong.
    out
        The file to write, outside the campaign.
    plan
        A TOML file whose tables [analysis] and [fault_table] replace members of the registered ones.
    grader
        installed takes stages and fault table from the suite as it is installed now; locked those of the lock.
    json
        Print one JSON document.
    """
    from trialplate.claims.wording import sentence
    from trialplate.cli.rates import RATE_HEADER, rate_rows, rate_title
    from trialplate.secondary import reanalyse as again

    document = again(campaign, reason=reason, to=out, plan=plan, grader=grader)

    def text() -> None:
        table(f"{rate_title(document['analysis'])}, re-analysed", RATE_HEADER, rate_rows(document["analysis"]))
        changed = len(document["changed_outcomes"])
        lock = document["rereads"]["lock_sha256"][:16]
        print(plain(sentence("secondary", lock=lock, changed=changed, reason=reason)))
        print(out)

    emit(document, as_json=json, text=text)
    return YES
