"""Run every benchmark, one after the other, and write its figures into docs/performance.md when asked to.

Exit code 1 when a target is missed or a script fails; the others run all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from figures import Figure

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
BEGIN, END = "<!-- figures: begin, written by benchmarks/table.py -->", "<!-- figures: end -->"
SCRIPTS = (
    *("control_loop.py", "cameras.py", "workers.py", "replay.py", "verify.py", "journal.py"),
    *("startup.py", "demo_memory.py", "skills.py"),
    *("wire.py", "wire_overhead.py", "wire_batching.py"),
    *("bootstrap.py", "exact_tests.py", "campaign_statistics.py"),
)


def run(script: str, *, quick: bool) -> tuple[list[dict[str, Any]], int]:
    """Run one script, show what it prints, and return its figures and its exit code."""
    print(f"== {script}", flush=True)
    command = [sys.executable, str(HERE / script), *(["--quick"] if quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="", flush=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.returncode


def machine() -> str:
    """Name the machine by its kind, not by its name."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    packages = ", ".join(f"{name} {version(name)}" for name in ("mujoco", "mink", "numpy"))
    return f"{platform.system()} {platform.machine()}, {cores} cores, Python {platform.python_version()}, {packages}"


def table(found: list[dict[str, Any]]) -> str:
    """Return the figures as a table in Markdown."""
    rows = ["| figure | measured | must be | | how |", "|---|---|---|---|---|"]
    for document in found:
        passed = document.pop("passed")
        figure = Figure(**document)
        unit = f" {figure.unit}" if figure.unit else ""
        measured = "not available here" if figure.value is None else f"{figure.value:.3g}{unit}"
        verdict = {True: "met", False: "missed", None: "unknown"}[passed]
        rows.append(
            f"| {figure.name} | {measured} | {figure.bound} {figure.target:g}{unit} | {verdict} | {figure.note} |"
        )
    return "\n".join(rows)


def write(found: list[dict[str, Any]]) -> None:
    """Put machine and table between the markers of the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, marker, after = rest.partition(END)
    if not marker:
        raise SystemExit(f"{PAGE.name} lacks the lines {BEGIN!r} and {END!r}; put them where the table belongs")
    PAGE.write_text(f"{before}{BEGIN}\nMeasured on {machine()}.\n\n{table(found)}\n{END}{after}", encoding="utf-8")


def main() -> int:
    """Run all scripts; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rounds, to see that everything runs")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    options = parser.parse_args()
    if options.quick and options.write:
        parser.error("a quick run is not worth writing down")
    found: list[dict[str, Any]] = []
    failed = []
    for script in SCRIPTS:
        figures, code = run(script, quick=options.quick)
        found += figures
        if code != 0:
            failed.append(script)
    if options.write:
        write(found)
    if failed:
        print(f"missed or failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
