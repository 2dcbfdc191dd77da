"""Standard output that a run does not depend on: what cannot be printed is lost, and nobody pays for it.

A closed pipe, a full disk behind ``> log`` or a terminal that went away would otherwise raise in whoever prints next:
in the middle of a run, or in an arm, which would be charged with it.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import Any, TextIO

_STANDARD = (0, 1, 2)


class Lossy(io.RawIOBase):
    """A descriptor that takes everything.

    ``failure``: why the first thing that was lost could not be written; ``lost_bytes``: how much was lost.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.failure: OSError | None = None
        self.lost_bytes = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return os.isatty(self._descriptor)

    def write(self, data: Any, /) -> int:
        """Write it all, or lose the rest."""
        rest = memoryview(data)
        size = len(rest)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            self.failure = self.failure or error
            self.lost_bytes += len(rest)
        return size


def hold_descriptors() -> None:
    """Open what is closed among 0, 1 and 2 on nothing: else the next file takes the number, and prints go into it."""
    for descriptor in _STANDARD:
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number: this one


def print_lossily() -> Lossy:
    """Put streams that never raise in the place of ``sys.stdout`` and ``sys.stderr``; return what lies under stdout.

    A stream that somebody else has put there already stays.
    """
    hold_descriptors()
    out, err = Lossy(1), Lossy(2)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(out, sys.stdout, line_buffering=out.isatty())
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(err, sys.stderr, line_buffering=True)
    return out


def tell(text: str, *, stream: TextIO) -> None:
    """Print a line that somebody waits for. Raises OSError when it is lost, also on a stream that never raises."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    stream.flush()  # what is lost of earlier lines is not counted against this one
    lost_before = raw.lost_bytes if isinstance(raw, Lossy) else 0
    print(text, file=stream, flush=True)
    if isinstance(raw, Lossy) and raw.lost_bytes > lost_before:
        assert raw.failure is not None
        raise raw.failure


def _text(raw: Lossy, before: TextIO | None, *, line_buffering: bool) -> TextIO:
    if before is not None:
        with suppress(OSError, ValueError):
            before.flush()
    encoding = before.encoding if before is not None else "utf-8"
    errors = before.errors if before is not None else "backslashreplace"
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors=errors, line_buffering=line_buffering)
