"""Tell an answer: its sentence, a table that fits 80 columns, and the notes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING

from trialplate.cli.output import NO, YES, emit, plain

if TYPE_CHECKING:
    from trialplate.claims.answers import Answer

COLUMNS = 80
WIDTHS = (30, 22, 22)
NO_BREAK = "\u00a0"


def tell(answer: Answer, *, as_json: bool) -> int:
    """Print an answer, and return the exit code: 1 where the answer is no."""

    def text() -> None:
        print(_folded(answer.sentence))
        print()
        for line in answer.lines:
            for row in _rows((line.what, line.value, line.method)):
                print(row)
        for note in answer.notes:
            print()
            print(_folded(note))

    emit(answer.document(), as_json=as_json, text=text)
    return YES if answer.holds else NO


def _folded(text: str) -> str:
    return "\n".join(wrap(_shown(text), COLUMNS, break_long_words=False, break_on_hyphens=False))


def _shown(text: str) -> str:
    """Return text that cannot steer a terminal; the spaces that hold a number and its sign together stay."""
    return NO_BREAK.join(map(plain, text.split(NO_BREAK)))


def _rows(cells: tuple[str, str, str]) -> Iterator[str]:
    """Yield the lines of one row; a cell that is too long goes on below."""
    folded = [wrap(_shown(cell), width) for cell, width in zip(cells, WIDTHS, strict=True)]
    for parts in zip_longest(*folded, fillvalue=""):
        padded = [part.ljust(width) for part, width in zip(parts, WIDTHS, strict=True)]
        yield ("  " + "  ".join(padded)).rstrip()
