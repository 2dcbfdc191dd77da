"""Ctrl-C and SIGTERM: at once while an episode runs, after the write while something is being written."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_EXIT_CODE = 130


class Interrupt:
    """Whether somebody asked the run to stop, told apart from an arm that raises KeyboardInterrupt itself."""

    def __init__(self) -> None:
        self.asked = False
        self._holding = False

    def ask(self, _signal: int, _frame: FrameType | None) -> None:
        """Handle the signal. A second one ends the process at once: an arm may swallow the first."""
        if self.asked and not self._holding:
            os._exit(_EXIT_CODE)  # nothing durable is lost; resume shows what was in flight
        self.asked = True
        if not self._holding:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let a write finish before an interrupt is raised."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self.asked:
            raise KeyboardInterrupt


_present = Interrupt()


def asked() -> bool:
    """Return whether a signal asked this process to stop."""
    return _present.asked


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Install the handlers; what is in flight when one fires becomes a visible interrupted attempt."""
    global _present
    _present = interrupt = Interrupt()
    previous = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, interrupt.ask)
    except ValueError:  # not the main thread: the caller's own handling stands
        yield interrupt
        return
    try:
        yield interrupt
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        _present = Interrupt()
