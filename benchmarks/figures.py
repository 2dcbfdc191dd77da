"""What every benchmark prints, and how it compares: rounds take turns, so that a busy machine hits both alike."""

from __future__ import annotations

import argparse
import json
import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import Literal

BOUNDS = {">=": operator.ge, "<=": operator.le, "<": operator.lt}


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number against its target. ``value`` is None where it cannot be measured, ``note`` says why."""

    name: str
    value: float | None
    bound: Literal[">=", "<=", "<"]
    target: float
    unit: str
    note: str

    @property
    def passed(self) -> bool | None:
        """Whether the target is met; None when nothing was measured."""
        return None if self.value is None else BOUNDS[self.bound](self.value, self.target)

    def line(self) -> str:
        """Return the line for people."""
        unit = f" {self.unit}" if self.unit else ""
        must = f"(must be {self.bound} {self.target:g}{unit})"
        if self.value is None:
            return f"{self.name}: not available here {must}: {self.note}"
        return f"{self.name}: {self.value:.3g}{unit} {must} {'PASS' if self.passed else 'FAIL'}"


@dataclass(frozen=True, slots=True)
class Turns:
    """Seconds of two contenders that took turns, round by round."""

    ours_s: tuple[float, ...]
    theirs_s: tuple[float, ...]

    @property
    def speed_ratio(self) -> float:
        """Our speed divided by theirs: the median over rounds of the ratio within a round."""
        return median(theirs / ours for ours, theirs in zip(self.ours_s, self.theirs_s, strict=True))


def take_turns(ours: Callable[[], object], theirs: Callable[[], object], *, rounds: int) -> Turns:
    """Time two contenders ``rounds`` times each, either first in turn, after one round that does not count."""
    ours(), theirs()
    spent: dict[str, list[float]] = {"ours": [], "theirs": []}
    for n in range(rounds):
        order = [("ours", ours), ("theirs", theirs)]
        for name, contender in order if n % 2 == 0 else reversed(order):
            start_s = perf_counter()
            contender()
            spent[name].append(perf_counter() - start_s)
    return Turns(tuple(spent["ours"]), tuple(spent["theirs"]))


def main(measure: Callable[[bool], Sequence[Figure]], doc: str) -> None:
    """Run one benchmark: one JSON line and one line for people per figure; exit 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rounds, to see that it runs")
    figures = measure(parser.parse_args().quick)
    for figure in figures:
        print(json.dumps({**asdict(figure), "passed": figure.passed}))
        print(figure.line(), flush=True)
    sys.exit(1 if any(figure.passed is False for figure in figures) else 0)
