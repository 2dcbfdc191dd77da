"""What a second worker brings: one lock run by one process worker and by two.

The clock runs from the first finished attempt to the last, so that the start of the workers is left out. Everything
else is on: journal, traces, durable writes. A round counts only while other programs left both cores to it; where no
round counts, or on one core, the figure is left out.
"""

from __future__ import annotations

import os
import resource
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from figures import Figure, main

from trialplate import api
from trialplate.registry import load_suite
from trialplate.run.campaign import Progress

STAT = Path("/proc/stat")
IDLE, IO_WAIT = 3, 4  # of the first line of /proc/stat
OTHERS_AT_MOST_CORES = 0.25
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


@dataclass(frozen=True, slots=True)
class Spent:
    """One run: seconds from the first finished attempt to the last, and cores that other programs kept busy."""

    wall_s: float
    others_cores: float


def timed(folder: Path, scenarios: list[str], *, workers: int) -> Spent:
    """Lock the protocol anew and run it once."""
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
    start_s, others_s = perf_counter(), busy_s() - own_s()
    report = api.run(lock, workers=workers, executor="processes", progress=progress).report
    others_cores = (busy_s() - own_s() - others_s) / (perf_counter() - start_s)
    if report is None or not report.complete:
        raise SystemExit(f"the run with {workers} workers is not complete: {report}")
    return Spent(finished_s[-1] - finished_s[0], others_cores)


def busy_s() -> float:
    """Return processor seconds that this machine has not idled since it started; 0 where it does not say."""
    if not STAT.is_file():
        return 0.0
    ticks = [int(field) for field in STAT.read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    return float(sum(ticks) - ticks[IDLE] - ticks[IO_WAIT]) / os.sysconf("SC_CLK_TCK")


def own_s() -> float:
    """Return processor seconds of this process and its ended children; 0 where the machine does not say its own."""
    if not STAT.is_file():
        return 0.0
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)


def measure(quick: bool) -> list[Figure]:
    """Alternate one and two workers; the ratio is the median over the rounds that count."""
    name, cores = "two process workers over one", len(os.sched_getaffinity(0))
    if cores < 2:
        return [Figure(name, None, ">=", 1.7, "", "one core")]
    scenarios = [scenario.id for scenario in load_suite("pick-place").scenarios()][: 4 if quick else 40]
    rounds: list[dict[int, Spent]] = []
    with tempfile.TemporaryDirectory(prefix="trialplate-bench-") as folder:
        for n in range(1 if quick else 5):
            order = (1, 2) if n % 2 == 0 else (2, 1)
            rounds.append({w: timed(Path(folder) / f"{n}-{w}", scenarios, workers=w) for w in order})
    free_cores = cores - 2
    alone = [r for r in rounds if max(r[1].others_cores, r[2].others_cores) <= free_cores + OTHERS_AT_MOST_CORES]
    if not alone:
        busiest = median(max(r[1].others_cores, r[2].others_cores) for r in rounds)
        note = f"other programs kept {busiest:.1f} of {cores} cores busy in each of {len(rounds)} rounds"
        return [Figure(name, None, ">=", 1.7, "", note)]
    rate = (2 * len(scenarios) - 1) / median(r[2].wall_s for r in alone)
    note = (
        f"{2 * len(scenarios)} attempts a run, start of workers excluded, {cores} cores, {len(alone)} of "
        f"{len(rounds)} rounds undisturbed; {rate:.1f} attempts/s with two workers"
    )
    return [Figure(name, median(r[1].wall_s / r[2].wall_s for r in alone), ">=", 1.7, "", note)]


if __name__ == "__main__":
    main(measure, __doc__ or "")
