"""What an attempt costs to record, beyond what the disk itself takes to make as many bytes durable.

Ours is the writer of a campaign: the start of an attempt, its files and its row, its end, the head. Bare is a loop of
system calls that does the same durable writes in the same order with the same bytes: appends and syncs of one file,
new files, syncs of their folder, one file put in the place of another. Both take turns, attempt by attempt, in two
folders of one disk. The figure is the median over attempts of the difference between ours and bare; it is left out
where other programs left no core to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from figures import Figure, main
from many_episodes import Recording, lock_campaign, run_once
from workers import OTHERS_AT_MOST_CORES, busy_s, own_s

from trialplate.store.campaign import CampaignWriter
from trialplate.store.chain import HEAD, JOURNAL
from trialplate.store.layout import EPISODES, Planned

SUITE, ARM, SCENARIOS = "pick-place", "oracle", 1
MILLISECONDS_TARGET = 5.0


class Bare:
    """The same writes by system calls alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / EPISODES).mkdir()
        self._journal = os.open(folder / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append(self, line: bytes) -> None:
        """Append to the journal, durably."""
        os.write(self._journal, line)
        os.fsync(self._journal)

    def record(self, start: bytes, files: dict[str, bytes], end: bytes, head: bytes) -> None:
        """Write one attempt: a record, the files in a new folder, a record, the head."""
        self.append(start)
        paths = sorted(files)
        place = (self._folder / paths[0]).parent
        place.mkdir()
        _sync_folder(place.parent)
        for path in paths:
            _write(self._folder / path, files[path])
        _sync_folder(place)
        self.append(end)
        staged = self._folder / f".{HEAD}.tmp"
        _write(staged, head)
        staged.replace(self._folder / HEAD)
        _sync_folder(self._folder)


def _write(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(handle, data)
    os.fsync(handle)
    os.close(handle)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(handle)
    os.close(handle)


class Written:
    """What a writer left of one attempt, so that the same bytes can be written again."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._read = folder, (folder / JOURNAL).stat().st_size

    def lines(self) -> Iterator[bytes]:
        """Yield the records since the last look."""
        with (self._folder / JOURNAL).open("rb") as journal:
            journal.seek(self._read)
            for line in journal:
                self._read += len(line)
                yield line

    def files(self, planned: Planned) -> dict[str, bytes]:
        """Return path -> content of everything in the folder of an attempt."""
        place = self._folder / EPISODES / f"{planned.trial_id}-0"
        return {path.relative_to(self._folder).as_posix(): path.read_bytes() for path in place.iterdir()}

    def head(self) -> bytes:
        """Return the head."""
        return (self._folder / HEAD).read_bytes()


@contextmanager
def _timed(spent_s: list[float]) -> Iterator[None]:
    start_s = perf_counter()
    yield
    spent_s.append(perf_counter() - start_s)


def measure(quick: bool) -> list[Figure]:
    """Record attempts of one scenario, each by the writer and then by the bare loop."""
    attempts = 20 if quick else 200
    ours_s: list[float] = []
    bare_s: list[float] = []
    with TemporaryDirectory(prefix="trialplate-bench-") as place:
        view = run_once(Path(place), suite=SUITE, arms=[ARM], scenarios=SCENARIOS)
        recording = Recording.of(view, view.rows[0])
        lock = lock_campaign(Path(place), "many", suite=SUITE, arms=[ARM], scenarios=SCENARIOS, repeats=attempts)
        target = Path(place) / "bare"
        target.mkdir()
        bare = Bare(target)
        with CampaignWriter.create(lock.path.parent, lock_bytes=lock.path.read_bytes()) as writer:
            writer.open_run({"host": "benchmark", "workers": 1})
            written = Written(lock.path.parent)
            start_s, others_s = perf_counter(), busy_s() - own_s()
            for planned in writer.unstarted:
                row = recording.again(planned, lock.sha256, SUITE)
                with _timed(ours_s):
                    writer.start_attempt(planned.trial_id, ordinal=planned.ordinal, arm=planned.arm)
                    writer.end_attempt(row, trace=recording.trace, exchange=recording.exchange)
                start, end = written.lines()
                files, head = written.files(planned), written.head()
                with _timed(bare_s):
                    bare.record(start, files, end, head)
            others_cores = (busy_s() - own_s() - others_s) / (perf_counter() - start_s)
    size = sum(len(data) for data in files.values()) / 1024
    note = (
        f"{1000 * median(ours_s):.1f} ms an attempt, {1000 * median(bare_s):.1f} ms by the bare writes and syncs;"
        f" {len(files)} files of {size:.0f} KiB together, medians of {attempts}"
    )
    beyond_ms: float | None = 1000 * median(ours - bare for ours, bare in zip(ours_s, bare_s, strict=True))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if others_cores > cores - 1 + OTHERS_AT_MOST_CORES:
        note = f"other programs kept {others_cores:.1f} of {cores} cores busy: {beyond_ms:.1f} ms beyond; {note}"
        beyond_ms = None
    return [Figure("recording an attempt, beyond the disk", beyond_ms, "<=", MILLISECONDS_TARGET, "ms", note)]


if __name__ == "__main__":
    main(measure, __doc__ or "")
