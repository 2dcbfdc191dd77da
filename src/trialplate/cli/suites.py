"""Commands on suites: list, show, qualify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from trialplate.cli.output import NO, YES, emit, progress_bar, table

Json = Annotated[bool, Parameter(name="--json", negative="")]


def register(app: App) -> None:
    """Add this group's commands."""
    app.command(suites)
    app.command(qualify)
    suite = App(name="suite", help="Look at one suite.")
    suite.command(show)
    app.command(suite)


def suites(*, json: Json = False) -> int:
    """List the installed suites.

    Parameters
    ----------
    json
        Print one JSON document.
    """
    from trialplate.registry import load_suite, suite_names

    found = [load_suite(name) for name in suite_names()]
    listed = [
        {"name": suite.name, "version": suite.version, "scenarios": len(suite.scenarios()), "summary": suite.summary}
        for suite in found
    ]
    rows = [tuple(str(value) for value in item.values()) for item in listed]
    emit(
        {"suites": listed},
        as_json=json,
        text=lambda: table("Suites", ("name", "version", "scenarios", "what it measures"), rows),
    )
    return YES


def show(name: str, /, *, json: Json = False) -> int:
    """Show a suite: what it measures and what not, its stages, controls, channels and scenarios.

    Parameters
    ----------
    name
        The suite's name.
    json
        Print one JSON document.
    """
    from trialplate.canonical import document_sha256
    from trialplate.registry import load_suite

    suite = load_suite(name)
    counts: dict[str, int] = {}
    for scenario in suite.scenarios():
        key = f"{scenario.domain} / {scenario.variant}"
        counts[key] = counts.get(key, 0) + 1
    facts: dict[str, Any] = {
        "name": suite.name,
        "version": suite.version,
        "summary": suite.summary,
        "does_not_measure": suite.scope_note,
        "instruction": suite.instruction,
        "manifest_sha256": document_sha256(suite.manifest_document()),
        "scenarios": counts,
        "scenario_ids": [scenario.id for scenario in suite.scenarios()],
        "stages": dict(suite.stage_meanings),
        "controls": {key: control.meaning for key, control in suite.controls.items()},
        "profiles": {
            key: [c.name for c in spec.cameras] + [p.name for p in spec.proprio]
            for key, spec in suite.profiles.items()
        },
        "action": [component.name for component in suite.action.components],
        "max_steps": suite.max_steps,
    }

    def text() -> None:
        for key, value in facts.items():
            if isinstance(value, dict):
                print(f"{key}:")
                for inner, what in value.items():
                    print(f"  {inner}: {', '.join(what) if isinstance(what, list) else what}")
            else:
                print(f"{key}: {', '.join(value) if isinstance(value, list) else value}")

    emit(facts, as_json=json, text=text)
    return YES


def qualify(suite: str, /, *, out: Path, workers: int = 1, json: Json = False) -> int:
    """Put the harness itself to the exam: null and exploit pass nothing, the oracle passes all, three times the same.

    Parameters
    ----------
    suite
        The suite's name.
    out
        Folder for the raw control campaigns and qualification.json.
    workers
        Worker processes.
    json
        Print one JSON document.
    """
    from trialplate import exam

    with progress_bar("qualify", quiet=json) as bar:
        result = exam.qualify(suite, into=out, workers=workers, progress=lambda d, t, note: bar(d, t, note))
    document = result.document()

    def text() -> None:
        rows = [(c["name"], "yes" if c["passed"] else "NO", c["found"], c["expected"]) for c in document["checks"]]
        table(f"Qualification of {suite}", ("check", "holds", "found", "expected"), rows)
        print(f"{'qualified' if result.passed else 'NOT QUALIFIED'}: {document['qualification_id']}")

    emit(document, as_json=json, text=text)
    return YES if result.passed else NO
