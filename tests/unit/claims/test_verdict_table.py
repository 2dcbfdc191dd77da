"""The table of comparisons shows the interval to read."""

from __future__ import annotations

import pytest
from test_pairwise import LOST, WON, analyse, arm

from trialplate.cli.verdicts import show_verdicts


def test_arms_that_never_differ_have_an_interval_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    show_verdicts(analyse(arm("a", WON), arm("b", WON)).comparisons, unit="family", title="Registered comparisons")
    shown = capsys.readouterr().out
    assert "0.0 to 0.0" not in shown and "−8.8 to +8.8" in shown


def test_arms_that_differ_have_the_interval_of_their_families(capsys: pytest.CaptureFixture[str]) -> None:
    pair = analyse(arm("a", WON), arm("b", LOST)).comparisons[0]
    show_verdicts([pair], unit="family", title="Registered comparisons")
    assert f"+{100 * (pair.families.low or 0):.1f} to" in capsys.readouterr().out
