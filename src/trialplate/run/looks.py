"""A stopping rule as a run sees it: who may start, and whether it is over. What decides lies with the scorer."""

from __future__ import annotations

from typing import Literal, Protocol

from trialplate.record import Row

STOPPED = "registered_stop"
"""Why a run ended that its rule stopped; it is complete."""


class StopRule(Protocol):
    """Told of every attempt that ended, in any order; asked before each trial is started."""

    def take(self, row: Row, trace: bytes | None) -> None:
        """Take in one ended attempt and its trace."""
        ...

    def admits(self, ordinal: int) -> Literal["yes", "wait", "no"]:
        """Return whether a trial may start: ``wait`` until the attempts before a look have ended, ``no`` for good."""
        ...

    def stop(self) -> str | None:
        """Return in one line why the run is over; None while it is not."""
        ...
