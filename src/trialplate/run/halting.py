"""Stop an arm whose first attempts all fail in the same way before any control: a run never prints 0 % for a set-up.

Source: policy contract, section 3, halt rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trialplate.record import Row
from trialplate.record.halting import FIRST_TRIALS, systematic_error


class Halting:
    """Looks at the first trials of each arm under test. ``halted``: the arms that start no further trial."""

    def __init__(self, lock_document: Mapping[str, Any]) -> None:
        judged = {arm["name"] for arm in lock_document["arms"] if arm["role"] == "arm"}
        self._first: dict[str, list[int]] = {name: [] for name in judged}
        for trial in lock_document["schedule"]:
            if trial["arm"] in judged and len(self._first[trial["arm"]]) < FIRST_TRIALS:
                self._first[trial["arm"]].append(trial["ordinal"])
        self._rows: dict[str, list[Row]] = {name: [] for name in judged}
        self.halted: set[str] = set()

    def looks_at(self, arm: str, ordinal: int) -> bool:
        """Return whether an attempt of this trial could halt its arm."""
        return ordinal in self._first.get(arm, ())

    def take(self, row: Row) -> None:
        """Take in one ended attempt."""
        if self.looks_at(row.arm, row.ordinal):
            self._rows[row.arm].append(row)
            if systematic_error(self._rows[row.arm], planned=self._first[row.arm]) is not None:
                self.halted.add(row.arm)
