"""Commands on this machine: doctor, and the demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from trialplate.cli.output import NO, YES, emit, progress_bar

Json = Annotated[bool, Parameter(name="--json", negative="")]


def register(app: App) -> None:
    """Add this group's commands."""
    app.command(doctor)
    app.command(demo)


def doctor(*, json: Json = False) -> int:
    """Say what this machine can do: processor, GL back end and its measured frame rate, packages, disk.

    Parameters
    ----------
    json
        Print one JSON document.
    """
    from trialplate.doctor import examine_machine

    facts = examine_machine()

    def text() -> None:
        for item in facts["checks"]:
            print(f"{'ok  ' if item['ok'] else 'MISS'} {item['name']}: {item['found']}")
            if item["advice"]:
                print(f"     {item['advice']}")

    emit(facts, as_json=json, text=text)
    return YES if facts["usable"] else NO


def demo(
    *,
    out: Path = Path("report.html"),
    campaigns: Path = Path("campaigns"),
    workers: int | None = None,
    json: Json = False,
) -> int:
    """Run the whole main path on real input and write a report: four arms and a control over 68 scenarios.

    Parameters
    ----------
    out
        The report to write.
    campaigns
        Folder in which the campaign is made.
    workers
        Worker processes; by default one per core, at most four.
    json
        Print one JSON document.
    """
    from trialplate import demo as demonstration

    facts: dict[str, Any] = {}
    with progress_bar("episodes", quiet=json) as bar:
        facts = demonstration.run(out=out, campaigns=campaigns, workers=workers, progress=bar)

    def text() -> None:
        from trialplate.cli.output import table
        from trialplate.cli.rates import RATE_HEADER, rate_rows, rate_title

        table(f"{rate_title(facts['analysis'])}: pick-place", RATE_HEADER, rate_rows(facts["analysis"]))
        for claim in facts["claims"]:
            print(f"claim {claim['name']}: {claim['verdict']} ({', '.join(claim['reasons'])})")
        print(f"verified: exit {facts['verify_exit_code']}\nreport: {facts['report']}\nevidence: {facts['campaign']}")

    emit(facts, as_json=json, text=text)
    return YES
