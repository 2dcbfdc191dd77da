"""From outcomes to a page that people read, and one comparison of counts, both while a person waits.

Campaign: 2,000 episodes of two arms of the toy suite (see ``many_episodes``), scored before. `analyse` and `judge`
compute from outcomes in memory; `report` reads journal and rows again, finds that no recording changed since the
campaign was scored, and writes the page; both arms carry the block, so that there is no failure to draw. The command
is a whole process, interpreter and imports included. Each is the fastest round.

The bootstrap of a large campaign must not depend on the order of rows, nor on how many threads its libraries use: two
processes, one thread and two, with rows in two orders, must give the same bytes, else nothing is measured at all.
Its seconds and memory are figures of ``bootstrap``, those of single tests and plans of ``exact_tests``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from figures import Figure, main
from many_episodes import make_campaign
from workers import OTHERS_AT_MOST_CORES, busy_s, own_s

from trialplate import api

SCENARIOS, REPEATS, ARMS = 6, 167, ("scripted", "oracle")
CAMPAIGN_TARGET_S, COMMAND_TARGET_S = 3.0, 2.0
COMMAND = Path(sys.executable).with_name("trialplate")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
DRAWN = """
import hashlib, sys
import numpy as np
from trialplate.stats import family_bootstrap, family_totals
policies, episodes, families, draws, order = map(int, sys.argv[1:])
rng = np.random.default_rng(1)
rows = policies * episodes
columns = {
    "family": rng.integers(0, families, rows, dtype=np.int32),
    "arm": np.repeat(np.arange(policies, dtype=np.int16), episodes),
    "passed": rng.integers(0, 10, rows, dtype=np.int8) // 3 % 2,
    "cost": rng.integers(1, 10**9, rows),
    "time": rng.integers(1, 10**8, rows),
}
place = np.random.default_rng(order).permutation(rows)
columns = {name: values[place] for name, values in columns.items()}
names = [f"family-{n}" for n in range(families)], [f"policy-{n}" for n in range(policies)]
totals = family_totals(*names, **columns)
found = family_bootstrap(totals.totals, draws=draws, unknown=totals.unknown)
print(hashlib.sha256(repr(found).encode()).hexdigest())
"""


def refuse_other_draws(sizes: tuple[int, int, int, int]) -> None:
    """Draw the same campaign twice, with other threads and another order of rows. Raises SystemExit."""
    found = set()
    for threads in ("1", "2"):
        command = [sys.executable, "-c", DRAWN, *map(str, sizes), threads]
        environment = os.environ | dict.fromkeys(THREADS, threads)
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
        found.add(done.stdout)
    if len(found) != 1:
        raise SystemExit("the bootstrap depends on the number of threads or on the order of rows")


def of_campaign(folder: Path, *, repeats: int, rounds: int) -> Figure:
    """Analyse, judge and report a campaign a few times."""
    campaign = make_campaign(folder, suite="toy", arms=ARMS, scenarios=SCENARIOS, repeats=repeats)
    outcomes = api.score(campaign)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    spent_s, alone_s = [], []
    for n in range(rounds):
        start_s, others_s = perf_counter(), busy_s() - own_s()
        claims = api.judge(api.analyse(outcomes, campaign / "lock.json"), campaign / "lock.json")
        middle_s = perf_counter()
        api.report(campaign, claims, to=folder / f"{n}.html")
        end_s = perf_counter()
        spent_s.append((end_s - start_s, middle_s - start_s))
        if (busy_s() - own_s() - others_s) / (end_s - start_s) <= cores - 1 + OTHERS_AT_MOST_CORES:
            alone_s.append(end_s - start_s)
    whole_s, without_s = min(spent_s)
    note = (
        f"{len(alone_s)} of {rounds} rounds undisturbed; fastest {whole_s:.2f} s, {without_s:.2f} s before the report"
    )
    name = f"analyse, judge and report of {len(outcomes)} episodes"
    return Figure(name, min(alone_s) if alone_s else None, "<", CAMPAIGN_TARGET_S, "s", note)


def of_counts(*, rounds: int) -> Figure:
    """Compare 17 of 20 with 14 of 20 from the command line."""
    name = "trialplate compare 17/20 14/20"
    if not COMMAND.is_file():
        return Figure(name, None, "<", COMMAND_TARGET_S, "s", f"{COMMAND.name} is not installed beside python")
    spent_s = []
    for _ in range(rounds + 1):  # the first fills the file cache
        start_s = perf_counter()
        subprocess.run([str(COMMAND), "compare", "17/20", "14/20"], check=True, capture_output=True)
        spent_s.append(perf_counter() - start_s)
    return Figure(name, min(spent_s[1:]), "<", COMMAND_TARGET_S, "s", f"a whole process, the fastest of {rounds}")


def measure(quick: bool) -> list[Figure]:
    """Draw twice, then measure both."""
    refuse_other_draws((4, 1_000, 50, 200) if quick else (20, 100_000, 1_000, 2_000))
    with TemporaryDirectory() as folder:
        of_all = of_campaign(Path(folder), repeats=5 if quick else REPEATS, rounds=1 if quick else 5)
    return [of_all, of_counts(rounds=1 if quick else 5)]


if __name__ == "__main__":
    main(measure, __doc__ or "")
