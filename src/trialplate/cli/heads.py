"""Show how far a run is, and print heads of its journal: kept outside, they tell what was recorded by then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trialplate.cli.output import progress_bar

if TYPE_CHECKING:
    from trialplate.run.campaign import Progress


@contextmanager
def attempts_bar(folder: Path, *, json: bool) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that draws a bar over attempts, and prints a head after every hundredth of them.

    With ``json`` nothing is drawn and heads go to standard error.
    """
    from trialplate.store.witness import HEADS_EVERY

    with progress_bar("episodes", quiet=json) as bar:

        def show(progress: Progress) -> None:
            last = progress.last
            bar(progress.done, progress.total, f"{last.arm} {last.scenario}" if last else "")
            if last and progress.done % HEADS_EVERY == 0 and progress.done < progress.total:
                told = f"journal head {journal_head(folder)} after {progress.done} attempts; keep this outside"
                print(told, file=sys.stderr if json else sys.stdout, flush=True)

        yield show


def journal_head(folder: Path) -> str:
    """Return COUNT:DIGEST of the head of a campaign, as ``trialplate verify --expect-head`` takes it."""
    from trialplate.canonical import MAX_LINE_BYTES
    from trialplate.store.chain import HEAD, read_head
    from trialplate.store.folder import Folder
    from trialplate.store.witness import Witness

    with Folder(folder) as opened:
        head = read_head(opened.read(HEAD, limit_bytes=MAX_LINE_BYTES))
    return str(Witness(head.count, head.head_sha256))
