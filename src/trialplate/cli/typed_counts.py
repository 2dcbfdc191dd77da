"""Counts as people type them: ``17/20``, ``8/10,9/10``, ``12,4,100``. Nothing is guessed, and nothing repaired."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from pathlib import Path

from trialplate.errors import UsageError

LARGEST = 2**53 - 1
WHOLE = re.compile(r"[0-9]{1,40}")
NUMBER = r"[-+]?(?:\d[\d_.]*(?:e[-+]?\d+)?|nan|inf(?:inity)?)"
COUNTS = re.compile(rf"\s*{NUMBER}\s*(?:/|:|of|out\s+of)\s*{NUMBER}\s*", re.IGNORECASE)
EXAMPLE = "expected passes/episodes, two whole numbers such as 17/20"


def is_typed(text: str) -> bool:
    """Return whether an argument is meant as counts: it reads like them, and no file or folder has that name."""
    return COUNTS.fullmatch(text) is not None and not Path(text).exists()


def counts(argument: str, text: str) -> tuple[int, int]:
    """Return (k, n) of ``k/n``. Raises UsageError that names the argument."""
    parts = text.strip().split("/")
    if len(parts) != 2:
        raise UsageError(f"{argument}: {EXAMPLE}, got {text!r}")
    k, n = (whole(argument, part, shown=text) for part in parts)
    if n == 0:
        raise UsageError(f"{argument}: no episode in {text!r}; a rate needs at least one")
    if k > n:
        raise UsageError(f"{argument}: {k} passed of {n}: more passes than episodes in {text!r}")
    return k, n


def whole(argument: str, text: str, *, shown: str | None = None, least: int = 0) -> int:
    """Return a whole number that is exact in every sum."""
    said = repr(text if shown is None else shown)
    if WHOLE.fullmatch(text.strip()) is None:
        raise UsageError(f"{argument}: {EXAMPLE if shown else 'expected a whole number'}, got {said}")
    number = int(text)
    if not least <= number <= LARGEST:
        raise UsageError(f"{argument}: expected {least} to {LARGEST}, got {said}")
    return number


def pairs(argument: str, text: str) -> tuple[int, int, int]:
    """Return (b, c, n) of ``B,C,N``: pairs that only A passed, that only B passed, and all pairs."""
    parts = text.split(",")
    if len(parts) != 3:
        raise UsageError(
            f"{argument}: expected B,C,N (only A passed, only B passed, all pairs) such as 12,4,100, got {text!r}"
        )
    b, c, n = (whole(argument, part) for part in parts)
    if n == 0:
        raise UsageError(f"{argument}: no pair in {text!r}")
    if b + c > n:
        raise UsageError(f"{argument}: {b} + {c} pairs differ, and there are only {n} in {text!r}")
    return b, c, n


def clusters(argument: str, text: str) -> tuple[list[int], list[int]]:
    """Return (k, n) of each cluster, from ``k/n,k/n,...`` or from a CSV file with columns k and n."""
    if text.lower().endswith(".csv") or Path(text).is_file():
        found = _read(argument, Path(text))
    else:
        found = [counts(f"{argument}, cluster {at}", part) for at, part in enumerate(text.split(","), 1)]
    if not found:
        raise UsageError(f"{argument}: no cluster in {text!r}")
    if sum(n for _, n in found) > LARGEST:
        raise UsageError(f"{argument}: the episodes add up to more than {LARGEST}")
    return [k for k, _ in found], [n for _, n in found]


def shares(argument: str, text: str, *, names: Sequence[str]) -> tuple[float, ...]:
    """Return as many shares as there are names, from text such as ``0.85,0.7``."""
    parts = text.split(",")
    if len(parts) != len(names):
        raise UsageError(f"{argument}: expected {','.join(names)}, shares between 0 and 1, got {text!r}")
    found = []
    for name, part in zip(names, parts, strict=True):
        try:
            number = float(part)
        except ValueError:
            raise UsageError(f"{argument}: {name} is no number in {text!r}") from None
        found.append(share(f"{argument}, {name}", number, closed=True))
    return tuple(found)


def share(argument: str, value: float, *, closed: bool = False) -> float:
    """Return a share strictly between 0 and 1; with ``closed`` also 0 and 1."""
    inside = 0.0 <= value <= 1.0 if closed else 0.0 < value < 1.0
    if not inside:
        hint = "; write 0.15 for 15 percent" if value > 1.0 and math.isfinite(value) else ""
        between = "from 0 to 1" if closed else "between 0 and 1"
        raise UsageError(f"{argument}: expected a share {between}, got {value}{hint}")
    return value


def confidence_of(value: float) -> float:
    """Return a confidence: a one-sided bound needs more than one half."""
    if not 0.5 < value < 1.0:
        hint = "; write 0.95 for 95 percent" if value > 1.0 and math.isfinite(value) else ""
        raise UsageError(f"--confidence: expected a share between 0.5 and 1, got {value}{hint}")
    return value


def _read(argument: str, path: Path) -> list[tuple[int, int]]:
    """Return the counts of a CSV file; a column ``cluster`` names clusters, and no name stands twice."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
    except FileNotFoundError:
        raise UsageError(f"{argument}: no file {path}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{argument}: {path} cannot be read: {error}") from None
    found, seen = [], set()
    for line, row in enumerate(rows, 2):
        where = f"{argument}, line {line} of {path}"
        if row.get("k") is None or row.get("n") is None:
            raise UsageError(f"{where}: expected columns k and n, named in the first line")
        name = row.get("cluster")
        if name is not None and name in seen:
            raise UsageError(f"{where}: cluster {name!r} stands twice; give its episodes together")
        seen.add(name)
        found.append(counts(where, f"{row['k']}/{row['n']}"))
    return found
