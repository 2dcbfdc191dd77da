"""How long it takes to check a campaign of 2,000 episodes, and how much memory one of 100,000 takes.

The first holds recordings of the oracle over every scenario of pick-place (see ``many_episodes``). Checked is all
that `trialplate verify` checks without a replay: digests, chain, rows, rules, grades, analysis and summary, the
recordings read by as many workers as there are cores, two at most. Seconds are those of the fastest round. A round
counts only while other programs left the cores to it; the note tells the processor seconds in any case. Hashing:
every file of that campaign by the reader of the store and by the program `sha256sum`, in turns, from the file cache.
The second verifier is one file that runs by itself; it does not look into recordings.

The campaign of 100,000 is one of the toy suite. A process of its own checks it as the store does, attempts included,
and reports its peak.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from figures import Figure, main, take_turns
from many_episodes import cpu_s, make_campaign
from workers import OTHERS_AT_MOST_CORES, busy_s, own_s

from trialplate import exam
from trialplate.sealing import FreshVerdict, seal
from trialplate.store.folder import Folder
from trialplate.store.fsio import Disk

SCENARIOS, REPEATS = 68, 30
MANY_SCENARIOS, MANY_REPEATS, MANY_ARMS = 6, 8_334, ("scripted", "oracle")
SECONDS_TARGET, HASHING_TARGET, MEBIBYTES_TARGET = 5.0, 0.6, 300.0
KIBIBYTES, MEBIBYTE = 1024, 2**20  # in a mebibyte; bytes of one
CHECK_MANY = """
import json, re, sys
from pathlib import Path
from time import perf_counter
from trialplate.store.verify import check
start_s = perf_counter()
seen = check(Path(sys.argv[1]))
status = Path("/proc/self/status")  # what the kernel tells by rusage includes the parent, as it was at the start
peak = re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text()) if status.is_file() else None
print(json.dumps({
    "seconds": perf_counter() - start_s,
    "attempts": len(seen.survey.ended) if seen.survey is not None else 0,
    "findings": [str(finding) for finding in seen.findings[:3]],
    "kibibytes": int(peak[1]) if peak is not None else None,
}))
"""
SECOND_VERIFIER = Path(__file__).parent.parent / "tools" / "verify_bundle.py"


def seconds_of_verify(campaign: Path, *, rounds: int) -> Figure:
    """Check a campaign a few times by all workers; it must be intact."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(2, cores)
    spent_s, processor_s, alone_s = [], [], []
    attempts = 0
    for _ in range(rounds):
        start_s, start_cpu_s, others_s = perf_counter(), cpu_s(), busy_s() - own_s()
        verdict = exam.verify(campaign, workers=workers)
        spent_s.append(perf_counter() - start_s)
        processor_s.append(cpu_s() - start_cpu_s)
        if verdict.exit_code != 0:
            raise SystemExit(f"a campaign written a moment ago does not verify: {verdict.findings[:3]}")
        attempts = verdict.attempts
        if (busy_s() - own_s() - others_s) / spent_s[-1] <= cores - workers + OTHERS_AT_MOST_CORES:
            alone_s.append(spent_s[-1])
    size = sum(path.stat().st_size for path in campaign.rglob("*") if path.is_file()) / MEBIBYTE
    note = f"{size:.0f} MiB, {workers} workers, {len(alone_s)} of {rounds} rounds undisturbed"
    note += f"; fastest round {min(spent_s):.1f} s with {min(processor_s):.1f} processor seconds"
    return Figure(f"verify of {attempts} episodes", min(alone_s) if alone_s else None, "<", SECONDS_TARGET, "s", note)


def hashing(campaign: Path, *, rounds: int) -> Figure:
    """Hash every file with the store's reader and with sha256sum, in turns."""
    name = "hashing of a campaign / sha256sum"
    files = sorted(path.relative_to(campaign).as_posix() for path in campaign.rglob("*") if path.is_file())
    program = shutil.which("sha256sum")
    if program is None:
        return Figure(name, None, ">=", HASHING_TARGET, "", "no program sha256sum here")

    def ours() -> None:
        with Folder(campaign) as folder:
            for path in files:
                folder.sha256(path)

    def theirs() -> None:
        names = "\0".join(files).encode()
        subprocess.run(["xargs", "-0", program], cwd=campaign, input=names, stdout=subprocess.DEVNULL, check=True)

    ratio = take_turns(ours, theirs, rounds=rounds).speed_ratio
    return Figure(name, ratio, ">=", HASHING_TARGET, "", f"speed, {len(files)} files, one thread each")


def second_verifier(campaign: Path, folder: Path, *, rounds: int) -> Figure:
    """Seal the campaign and check the bundle with the one file that runs by itself."""
    bundle = seal(
        campaign, folder, disk=Disk(durability="process"), verifier=lambda _: FreshVerdict(0, {})
    ).path  # fmt: skip
    spent_s = []
    for _ in range(rounds):
        start_s = perf_counter()
        done = subprocess.run(
            [sys.executable, str(SECOND_VERIFIER), str(bundle)], capture_output=True, text=True, check=False
        )
        spent_s.append(perf_counter() - start_s)
        if done.returncode not in (0, 3):
            raise SystemExit(f"a bundle sealed a moment ago does not verify: {done.stdout[:400]}{done.stderr[:400]}")
    note = f"the same campaign, sealed; a whole process, the fastest of {rounds}"
    return Figure("tools/verify_bundle.py on its bundle", min(spent_s), "<", SECONDS_TARGET, "s", note)


def memory(folder: Path, *, repeats: int) -> Figure:
    """Measure the peak of a process that checks a large campaign."""
    campaign = make_campaign(folder, suite="toy", arms=MANY_ARMS, scenarios=MANY_SCENARIOS, repeats=repeats)
    command = [sys.executable, "-c", CHECK_MANY, str(campaign)]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    if found["findings"]:
        raise SystemExit(f"a campaign written a moment ago does not check: {found['findings']}")
    if found["kibibytes"] is None:
        return Figure("memory of a large check", None, "<", MEBIBYTES_TARGET, "MiB", "no peak is told here")
    note = f"peak of a process of its own that checks chain, rows and recordings, {found['seconds']:.0f} s"
    name = f"memory for {found['attempts']:.0f} episodes"
    return Figure(name, found["kibibytes"] / KIBIBYTES, "<", MEBIBYTES_TARGET, "MiB", note)


def measure(quick: bool) -> list[Figure]:
    """Make both campaigns and measure."""
    scenarios, repeats, rounds = (2, 40, 1) if quick else (SCENARIOS, REPEATS, 5)
    with TemporaryDirectory() as place:
        folders = [Path(place) / name for name in ("campaign", "bundles", "large")]
        for folder in folders:
            folder.mkdir()
        campaign = make_campaign(
            folders[0], suite="pick-place", arms=("oracle",), scenarios=scenarios, repeats=repeats
        )
        return [
            seconds_of_verify(campaign, rounds=rounds),
            hashing(campaign, rounds=rounds),
            second_verifier(campaign, folders[1], rounds=rounds),
            memory(folders[2], repeats=10 if quick else MANY_REPEATS),
        ]


if __name__ == "__main__":
    main(measure, __doc__ or "")
