"""``trialplate --help`` leads a reader along the main path, and no command stands outside of it all."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest
from cyclopts import App

from trialplate.cli import app
from trialplate.cli.headings import HEADINGS

LISTED = [name for names in HEADINGS.values() for name in names.split()]


def test_every_command_stands_under_one_heading() -> None:
    assert sorted(LISTED) == sorted(name for name in app if not name.startswith("-"))


def test_help_prints_the_headings_and_the_main_path_in_order_within_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    app.help_print([])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    places = [printed.index(f"─ {heading} ─") for heading in [*HEADINGS, "Options"]]
    assert places == sorted(places)
    path = [printed.index(f"│ {name} ") for name in next(iter(HEADINGS.values())).split()]
    assert path == sorted(path)


def _leaves(parent: App) -> Iterator[App]:
    for name in parent:
        if not name.startswith("-"):
            child = parent[name]
            yield from _leaves(child) if child.default_command is None else [child]


def test_every_command_takes_json_as_the_help_says() -> None:
    for command in _leaves(app):
        assert command.default_command is not None
        assert "json" in inspect.signature(command.default_command).parameters, command.name
