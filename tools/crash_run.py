"""Run every crash point of a campaign and print the count: a disk in memory that fails, stops or loses power.

A point is one system call of the writer and one thing that happens there. `--sample N` takes every N-th.
Exit code 1 when something that must hold does not hold at some point; each is named.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from crash_matrix import BASES, Point, Violated, examine, points, undisturbed


def kind(point: Point) -> str:
    """Return what happens at a point, in words."""
    words = {
        "fail": "call fails",
        "fill": "disk becomes full in mid-write",
        "short": "short write",
        "tear": "process killed in mid-write",
        "stop": "process killed",
    }[point.fault.action]
    if point.power is not None:
        words += ", then the power goes"
    return words + (", and the next process is killed too" if point.second is not None else "")


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every N-th point (default: all)")
    chosen = tuple(points())[:: parser.parse_args().sample]
    start_s = perf_counter()
    violated = []
    for point in chosen:
        try:
            examine(point)
        except Violated as error:
            violated.append(str(error))
    calls = {base: len(undisturbed(base).calls) for base in BASES}
    print(f"system calls of the undisturbed runs: {', '.join(f'{n} {base}' for base, n in calls.items())}")
    for words, count in sorted(Counter(map(kind, chosen)).items()):
        print(f"{count:7}  {words}")
    print(f"{len(chosen):7}  crash points in {perf_counter() - start_s:.0f} s, {len(violated)} violated")
    for text in violated:
        print(f"VIOLATED {text}")
    return 1 if violated else 0


if __name__ == "__main__":
    sys.exit(main())
