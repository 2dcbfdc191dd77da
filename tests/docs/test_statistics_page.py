"""The page on statistics shows what the commands print, to the letter."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from pages import DOCS, ROOT, blocks, rows, text

from trialplate.cli import main
from trialplate.stats import Interval, clopper_pearson_interval, wilson_interval

SHOWN = [body.removeprefix("$ ").split("\n", 1) for body in blocks(DOCS / "statistics.md", "text")]


def test_the_page_shows_every_command_on_counts() -> None:
    assert {command.split()[1] for command, _ in SHOWN} == {"interval", "compare", "plan"}
    assert len(SHOWN) >= 8


@pytest.mark.parametrize(("command", "printed"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_prints_what_the_page_shows(
    command: str, printed: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command)[1:])
    assert ended.value.code in (0, 1)
    assert capsys.readouterr().out.replace("\u00a0", " ") == printed


def test_every_question_of_the_table_can_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [re.findall(r"`([^`]+)`", row[1]) for row in rows("statistics.md", "Which question, which answer")]
    commands = [first if "PROTOCOL" not in first else "" for first, *_ in asked]
    assert len(commands) >= 10
    for command in filter(None, commands):
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(command)[1:])
        assert ended.value.code == 0, command
        assert capsys.readouterr().out


def smallest_coverage(method: Callable[[int, int], Interval], n: int) -> float:
    ends = [method(k, n) for k in range(n + 1)]
    low, high = np.array([[end.low] for end in ends]), np.array([[end.high] for end in ends])
    rates = np.arange(2, 1999) / 2000.0
    chance = scipy.stats.binom.pmf(np.arange(n + 1)[:, None], n, rates)
    return float((chance * ((low <= rates) & (rates <= high))).sum(axis=0).min())


@pytest.mark.parametrize("row", rows("statistics.md", "Why two intervals"), ids=lambda row: row[0])
def test_the_coverage_on_the_page_is_the_exact_minimum(row: list[str]) -> None:
    n, shown = int(row[0]), [float(cell) for cell in row[1:]]
    found = [smallest_coverage(method, n) for method in (wilson_interval, clopper_pearson_interval)]
    assert found == pytest.approx(shown, abs=0.0005)


def test_the_page_says_how_wide_pairs_that_never_differ_leave_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "--paired", "0,0,100"])
    assert "−3.7 to +3.7" in capsys.readouterr().out and "-3.7 to +3.7" in text(DOCS / "statistics.md")
