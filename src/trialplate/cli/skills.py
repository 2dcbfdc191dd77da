"""Commands on suites that hang on a simulator's drive and on models of others: calibrate, assets prefetch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from trialplate.cli.output import NO, YES, emit, progress_bar, table

Json = Annotated[bool, Parameter(name="--json", negative="")]


def register(app: App) -> None:
    """Add this group's commands."""
    app.command(calibrate)
    assets = App(name="assets", help="Look at the models of others that a suite needs.")
    assets.command(prefetch)
    app.command(assets)


def calibrate(suite: str, /, *, out: Path, repeats: int = 5, json: Json = False) -> int:
    """Measure how far the suite's own planner ends from what was asked, here, against the shipped tolerances.

    Parameters
    ----------
    suite
        The suite's name.
    out
        The file for the calibration, bound to this simulator, these models and this kind of machine.
    repeats
        Jittered starts of each case, at least 5.
    json
        Print one JSON document.
    """
    from trialplate.canonical import canonical_json
    from trialplate.errors import UsageError
    from trialplate.registry import load_attribute, load_suite

    reference = load_suite(suite).calibration
    if reference is None:
        raise UsageError(f"suite {suite!r} has no calibration: its tolerances are not those of a drive")
    with progress_bar("calibrating", quiet=json) as told:
        document: dict[str, Any] = load_attribute(reference)(
            repeats=repeats, progress=lambda done, total: told(done, total, "")
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(canonical_json(document))
    margins = document["margins"]
    rows = [tuple(_shown(margin[name]) for name in _SHOWN) for margin in margins]
    emit(document, as_json=json, text=lambda: table("Calibration", _HEADS, rows))
    return YES if all(margin["reachable"] for margin in margins) else NO


_SHOWN = ("set_name", "unit", "n", "worst", "worst_case", "tolerance", "margin", "note")
_HEADS = ("set", "unit", "errors", "worst", "in case", "tolerance", "margin", "note")


def _shown(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def prefetch(suite: str, /, *, json: Json = False) -> int:
    """Say of every model of others that a suite can use whether it is on this machine, before a run needs it.

    Nothing is downloaded: the nominal models come with the package. One that only held-out domains need may be
    absent.

    Parameters
    ----------
    suite
        The suite's name.
    json
        Print one JSON document.
    """
    from trialplate.registry import load_attribute, load_suite

    reference = load_suite(suite).assets
    found: list[dict[str, Any]] = [] if reference is None else load_attribute(reference)()
    rows = [(item["model"], item["needed_by"], item["sha256"] or "absent") for item in found]

    def text() -> None:
        table("Models", ("model", "needed by", "identity"), rows)
        for item in found:
            if item["advice"] is not None:
                print(item["advice"])

    emit({"suite": suite, "models": found}, as_json=json, text=text)
    return YES if all(item["sha256"] is not None for item in found if item["needed_by"] == "nominal") else NO
