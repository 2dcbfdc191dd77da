"""Run every crash point of a campaign, its sealing and its publication, and print the count.

A point is one system call on a disk in memory and one thing that happens there: the process is killed, the power is
cut, the call fails. What must hold: a run that goes on ends in the bytes of an undisturbed one, apart from attempts
that were cut off, which stay visible as interrupted; a bundle and a publication are absent or whole. Exit code 1
when something does not hold at some point; each is named.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import placing_matrix
from crash_matrix import BASES, Point, Power, Violated, examine, points, undisturbed
from sealed import make_golden
from trialplate.testing.faulty_disk import Fault

WORDS = {
    "fail": "call fails",
    "fill": "disk becomes full in mid-write",
    "short": "short write",
    "tear": "process killed in mid-write",
    "stop": "process killed",
}


def kind(fault: Fault, power: Power | None, *, again: bool = False) -> str:
    """Return what happens at a point, in words."""
    words = WORDS[fault.action] + (", then the power goes" if power is not None else "")
    return words + (", and the next process is killed too" if again else "")


def run_points(sample: int, violated: list[str]) -> Counter[str]:
    """Examine the points of a run and of the runs that go on after it."""
    chosen: tuple[Point, ...] = tuple(points())[::sample]
    for point in chosen:
        try:
            examine(point)
        except Violated as error:
            violated.append(str(error))
    return Counter(kind(point.fault, point.power, again=point.second is not None) for point in chosen)


def placing_points(act: placing_matrix.Act, sample: int, violated: list[str]) -> Counter[str]:
    """Examine the points of a sealing or a publication."""
    chosen = tuple(placing_matrix.places(act))[::sample]
    for place in chosen:
        try:
            placing_matrix.examine(act, place)
        except Violated as error:
            violated.append(str(error))
    return Counter(kind(place.fault, place.power) for place in chosen)


def tell(name: str, kinds: Counter[str]) -> int:
    """Print how many points there are of each kind, and return how many in all."""
    total = sum(kinds.values())
    print(f"{total:7}  {name}", flush=True)
    for words, count in sorted(kinds.items()):
        print(f"{count:14}  {words}", flush=True)
    return total


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every N-th point (default: all)")
    sample = parser.parse_args().sample
    start_s = perf_counter()
    violated: list[str] = []
    calls = {base: len(undisturbed(base).calls) for base in BASES}
    print(f"system calls of the undisturbed runs: {', '.join(f'{n} {base}' for base, n in calls.items())}")
    total = tell("a run and its recovery", run_points(sample, violated))
    with TemporaryDirectory() as scratch:
        golden = make_golden(Path(scratch))
        with placing_matrix.one_harness():
            small = placing_matrix.make_small(golden)
            publishings = [placing_matrix.Publishing(small, old=old) for old in (False, True)]
            for act in (placing_matrix.Sealing(golden), *publishings):
                total += tell(act.name, placing_points(act, sample, violated))
    print(f"{total:7}  crash points in {perf_counter() - start_s:.0f} s, {len(violated)} violated")
    for text in violated:
        print(f"VIOLATED {text}")
    return 1 if violated else 0


if __name__ == "__main__":
    sys.exit(main())
