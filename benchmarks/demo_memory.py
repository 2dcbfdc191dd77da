"""How much memory the demonstration takes: resident memory of `trialplate demo` and all its children, added up.

Sampled from /proc while it runs; pages that processes share count once for each of them, so the figure is an upper
bound. The quick mode watches the start of the command alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic, sleep

from figures import Figure, main

PROC = Path("/proc")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SAMPLE_EVERY_S = 0.05
QUICK_S = 6.0
PARENT_FIELD, RESIDENT_FIELD = 1, 21  # of /proc/PID/stat, counted after the name in brackets
COMMAND = Path(sys.executable).with_name("trialplate")


def resident_bytes(root: int) -> tuple[int, int]:
    """Return resident memory of a process and its descendants, and how many processes that are."""
    parents: dict[int, int] = {}
    resident: dict[int, int] = {}
    for folder in PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        parents[int(folder.name)] = int(fields[PARENT_FIELD])
        resident[int(folder.name)] = int(fields[RESIDENT_FIELD]) * PAGE_BYTES
    family = {root}
    grew = True
    while grew:
        more = {child for child, parent in parents.items() if parent in family} - family
        family |= more
        grew = bool(more)
    alive = family & resident.keys()
    return sum(resident[pid] for pid in alive), len(alive)


def watch(command: list[str], *, folder: Path, at_most_s: float | None) -> tuple[int, int, int | None, float]:
    """Run a command; return its peak in bytes, the processes then, its exit code (None: cut short), the seconds."""
    start_s, peak, processes = monotonic(), 0, 0
    with (folder / "output.txt").open("wb") as output:
        demo = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        while demo.poll() is None:
            now, count = resident_bytes(demo.pid)
            if now > peak:
                peak, processes = now, count
            if at_most_s is not None and monotonic() - start_s > at_most_s:
                os.killpg(demo.pid, signal.SIGKILL)
                demo.wait()
                return peak, processes, None, monotonic() - start_s
            sleep(SAMPLE_EVERY_S)
    return peak, processes, demo.returncode, monotonic() - start_s


def measure(quick: bool) -> list[Figure]:
    """Run the demonstration once, in a temporary folder."""
    name = "peak memory of trialplate demo"
    if not PROC.is_dir() or not COMMAND.is_file():
        return [Figure(name, None, "<", 1.5, "GB", "needs /proc, and trialplate installed beside python")]
    with tempfile.TemporaryDirectory(prefix="trialplate-bench-") as temporary:
        folder = Path(temporary)
        peak, processes, code, spent_s = watch(
            [str(COMMAND), "demo"], folder=folder, at_most_s=QUICK_S if quick else None
        )
        if code not in (None, 0):
            raise SystemExit(f"trialplate demo ended with {code}:\n{(folder / 'output.txt').read_text()[-2000:]}")
    how = f"in the first {QUICK_S:g} s" if quick else f"in {spent_s:.0f} s"
    return [Figure(name, peak / 1e9, "<", 1.5, "GB", f"{processes} processes at the peak, {how}")]


if __name__ == "__main__":
    main(measure, __doc__ or "")
