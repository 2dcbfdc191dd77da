"""How long a person waits before anything happens: whole processes, interpreter included, nothing subtracted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

from figures import Figure, main

COMMAND = Path(sys.executable).with_name("trialplate")
STARTS = (
    ("import trialplate", (sys.executable, "-c", "import trialplate"), 0.5),
    ("trialplate --help", (str(COMMAND), "--help"), 0.8),
)


def seconds(command: tuple[str, ...]) -> float:
    """Run a command to its end and return how long it took."""
    start_s = perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return perf_counter() - start_s


def measure(quick: bool) -> list[Figure]:
    """Median of five starts, after one that fills the file cache."""
    figures = []
    for name, command, target_s in STARTS:
        if not Path(command[0]).is_file():
            figures.append(Figure(name, None, "<=", target_s, "s", f"{COMMAND.name} is not installed beside python"))
            continue
        seconds(command)
        spent_s = [seconds(command) for _ in range(1 if quick else 5)]
        figures.append(
            Figure(name, median(spent_s), "<=", target_s, "s", f"median of {len(spent_s)}, warm file cache")
        )
    return figures


if __name__ == "__main__":
    main(measure, __doc__ or "")
