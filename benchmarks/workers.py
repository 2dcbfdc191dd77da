"""What a second worker brings: one lock run by one process worker and by two.

The clock runs from the first finished attempt to the last, so that the start of the workers is left out. Everything
else is on: journal, traces, durable writes. On one core there is nothing to compare, and the figure is left out.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from figures import Figure, main

from trialplate import api
from trialplate.registry import load_suite
from trialplate.run.campaign import Progress

PROTOCOL = """
schema = "trialplate.protocol/1"
name = "bench-workers"
question = "How much faster are two workers?"
run_class = "development"

[suite]
name = "pick-place"
version = "{version}"
scenarios = {scenarios}

[[arms]]
name = "null"
policy = "control:null"
replan_interval = 8

[[arms]]
name = "oracle"
policy = "control:oracle"
replan_interval = 8
"""


def seconds(folder: Path, scenarios: list[str], *, workers: int) -> float:
    """Run the lock once and return the seconds from its first finished attempt to its last."""
    folder.mkdir()
    protocol = folder / "protocol.toml"
    version = load_suite("pick-place").version
    listed = str(scenarios).replace("'", '"')
    protocol.write_text(PROTOCOL.format(version=version, scenarios=listed), encoding="utf-8")
    finished_s: list[float] = []

    def progress(now: Progress) -> None:
        if now.last is not None:
            finished_s.append(perf_counter())

    lock = api.lock(api.load_protocol(protocol), into=folder / "campaign")
    report = api.run(lock, workers=workers, executor="processes", progress=progress).report
    if report is None or not report.complete:
        raise SystemExit(f"the run with {workers} workers is not complete: {report}")
    return finished_s[-1] - finished_s[0]


def measure(quick: bool) -> list[Figure]:
    """Alternate one and two workers; the ratio is the median over rounds."""
    name, cores = "two process workers over one", len(os.sched_getaffinity(0))
    if cores < 2:
        return [Figure(name, None, ">=", 1.7, "", "one core")]
    scenarios = [scenario.id for scenario in load_suite("pick-place").scenarios()][: 4 if quick else 40]
    rounds = 1 if quick else 5
    ratios, rates = [], []
    with tempfile.TemporaryDirectory(prefix="trialplate-bench-") as folder:
        for n in range(rounds):
            spent: dict[int, float] = {}
            for workers in (1, 2) if n % 2 == 0 else (2, 1):
                spent[workers] = seconds(Path(folder) / f"{n}-{workers}", scenarios, workers=workers)
            ratios.append(spent[1] / spent[2])
            rates.append((2 * len(scenarios) - 1) / spent[2])
    note = (
        f"{2 * len(scenarios)} attempts a run, start of workers excluded, {cores} cores; "
        f"{median(rates):.1f} attempts/s with two workers"
    )
    return [Figure(name, median(ratios), ">=", 1.7, "", note)]


if __name__ == "__main__":
    main(measure, __doc__ or "")
