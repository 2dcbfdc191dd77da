"""What commands print: text for people, one JSON document with ``--json``, and stable exit codes."""

from __future__ import annotations

import json as json_module
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version as distribution_version
from time import monotonic
from typing import Any

from cyclopts import App, CycloptsError

from trialplate.errors import EvidenceError, ProtocolError, StorageFailure, TrialplateError, UsageError

YES, NO, BAD_INPUT, BLOCKED = 0, 1, 2, 3


def version() -> str:
    """Return the installed version."""
    return distribution_version("trialplate")


def guarded(app: App, arguments: list[str]) -> int:
    """Run a command; turn an error into one clear message and an exit code. Never a traceback for bad input."""
    as_json = "--json" in arguments
    try:
        result = app(arguments, exit_on_error=False, print_error=False)
        return result if isinstance(result, int) else YES
    except CycloptsError as error:
        _complain(UsageError(_said(error)), as_json=as_json)
        return BAD_INPUT
    except TrialplateError as error:
        _complain(error, as_json=as_json)
        return _exit_code(error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return NO
    except BrokenPipeError:  # the reader of our output went away: the evidence is complete all the same
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO
    except OSError as error:
        _complain(UsageError(f"{error.strerror or error}: {error.filename or 'output'}"), as_json=as_json)
        return BAD_INPUT


def _said(error: CycloptsError) -> str:
    """Return what is wrong with a command line; an option that is unknown beside one that is missing is named too."""
    unknown = [token for token in error.unused_tokens or () if token.startswith("--") and token not in str(error)]
    return f"{str(error).rstrip('.')}; unknown here: {', '.join(unknown)}" if unknown else str(error)


def told(code: int, failure: OSError | None) -> int:
    """Return the exit code of a command whose output may have been lost: what nobody was told is no yes."""
    if failure is None or code != YES:
        return code
    if not isinstance(failure, BrokenPipeError):  # whoever closed the pipe knows
        print(f"trialplate: done, but the output could not be written: {failure.strerror}", file=sys.stderr)
    return NO


def _exit_code(error: TrialplateError) -> int:
    """Return 1 for evidence that contradicts itself and for a failed write, 2 for what is malformed or refused."""
    from trialplate.store.findings import EvidenceProblem

    if isinstance(error, EvidenceProblem):
        return error.finding.exit_code
    return NO if isinstance(error, (EvidenceError, StorageFailure)) else BAD_INPUT


def _complain(error: TrialplateError, *, as_json: bool) -> None:
    from trialplate.store.quarantine import Quarantined

    if as_json:
        document: dict[str, Any] = {"error": error.code, "message": error.message}
        if isinstance(error, ProtocolError):
            document["faults"] = [{"path": fault.path, "message": fault.message} for fault in error.faults]
        if isinstance(error, Quarantined):
            document["moved_to"] = str(error.place)
        print(json_module.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(f"trialplate: {plain(str(error))}", file=sys.stderr)


def emit(document: Mapping[str, Any], *, as_json: bool, text: Callable[[], None]) -> None:
    """Print a result: the document with ``--json``, else what ``text`` prints."""
    if as_json:
        print(json_module.dumps(dict(document), indent=2, ensure_ascii=False))
    else:
        text()


def table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table for people; a column without any entry is left out."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = [at for at in range(len(header)) if not rows or any(row[at] for row in rows)]
    drawn = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for at in shown:
        drawn.add_column(header[at], overflow="fold")  # a name that is cut short is another name
    for row in rows:
        drawn.add_row(*(Text(plain(row[at])) for at in shown))
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    Console(width=None if known else 160).print(drawn)


def finding_lines(findings: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what a check found: code and place, what was expected, what is there. The same in many files once.

    ``findings``: with members ``code path pointer expected found``, in the order of the stages.
    """
    places: dict[tuple[str, ...], list[str]] = {}
    for item in findings:
        key = tuple(plain(str(item[name])) for name in ("code", "pointer", "expected", "found"))
        places.setdefault(key, []).append(plain(str(item["path"])))
    for (code, pointer, expected, found), paths in places.items():
        files = "file" if len(paths) == 2 else "files"
        more = f" (and {len(paths) - 1} more {files}: {', '.join(paths[1:3])}{', ...' * (len(paths) > 3)})"
        yield f"{code}: {paths[0]}{f'#{pointer}' * bool(pointer)}{more * (len(paths) > 1)}"
        yield f"  expected {expected or 'nothing'}"
        yield f"  found    {found or 'nothing'}"


def say(line: str) -> None:
    """Print a line, folded between words where the width is known (a terminal, or COLUMNS)."""
    width = shutil.get_terminal_size(fallback=(0, 0)).columns
    if not 0 < width < len(line):
        print(line)
        return
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    print(textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))


def plain(text: str) -> str:
    """Return text with control and bidirectional characters shown, so that a name cannot steer a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def progress_bar(label: str, *, quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
    """Yield a function (done, total, note) that draws a bar with rate and time left on a terminal.

    Away from a terminal it prints a line every ten seconds, so that logs stay short.
    """
    if quiet:
        yield lambda done, total, note: None
        return
    if not sys.stderr.isatty():
        yield _lines(label)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=None, rate="", note="")
        rate = _rate()
        yield lambda done, total, note: bar.update(
            task, completed=done, total=total, rate=rate(done)[1], note=plain(note)
        )


def _rate() -> Callable[[int], tuple[float, str]]:
    start_s, first = monotonic(), None

    def rate(done: int) -> tuple[float, str]:
        nonlocal first
        first = done if first is None else first
        elapsed_s = monotonic() - start_s
        per_s = (done - first) / elapsed_s if elapsed_s > 0.5 else 0.0
        return per_s, f"{per_s:.1f}/s" if per_s else ""

    return rate


def _lines(label: str) -> Callable[[int, int, str], None]:
    rate, printed_s = _rate(), monotonic()

    def line(done: int, total: int, note: str) -> None:
        nonlocal printed_s
        per_s, text = rate(done)
        if done == total or monotonic() - printed_s >= 10:
            printed_s = monotonic()
            left = f", {(total - done) / per_s:.0f} s left" if per_s and done < total else ""
            print(f"{label}: {done}/{total} {text}{left}", file=sys.stderr, flush=True)

    return line
