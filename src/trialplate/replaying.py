"""Replay: which attempts are simulated again, by how many workers, and whether they can be compared here at all.

One build of one simulator repeats bit for bit; another version or processor does not. Then nothing is compared, and
there is no tolerance. Source: evidence specification, section 10, "Replay".
"""

from __future__ import annotations

import multiprocessing
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trialplate import fingerprint
from trialplate.canonical import canonical_json
from trialplate.errors import HarnessFault, TrialplateError
from trialplate.interfaces import Suite
from trialplate.record import Row
from trialplate.registry import load_attribute, load_suite
from trialplate.resimulation import Repeat, Repeater
from trialplate.store import merkle
from trialplate.store.findings import Finding, finding, ordered
from trialplate.store.view import CampaignView

NOT_COMPARABLE = "not_comparable_here"
GROUP = 8
"""Most attempts that a worker takes at once: those of one scenario share its compiled world."""
_MACHINE = ("cpu_family", "vector_extensions", "architecture", "libc", "byteorder", "system")
_DRAWN_ONLY = ("rendering", "rendering_reason")
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay found: ``picked`` of ``total`` attempts, by ``root`` and ``beacon`` (hex) unless it was all.

    ``findings`` holds ``replay_mismatch`` or ``not_comparable_here``; then ``repeats`` is empty. ``controls``:
    attempts of the raw controls that were simulated again beside those of the campaign.
    """

    findings: tuple[Finding, ...]
    repeats: tuple[Repeat, ...]
    picked: int
    total: int
    root: str
    beacon: str | None
    controls: int = 0

    @property
    def simulated(self) -> int:
        """Attempts that were simulated again."""
        return sum(repeat.reason is None for repeat in self.repeats)

    @property
    def different(self) -> int:
        """Attempts that were simulated again and do not equal their recording."""
        return sum(repeat.reason is None and bool(repeat.findings) for repeat in self.repeats)

    def line(self) -> str:
        """Return what a reader may rely on."""
        if not self.repeats and self.picked:
            return f"replayed 0 of {self.total} episodes: not comparable here"
        parts = [f"replayed {self.simulated} of {self.total} episodes: {self.different or 'none'} differ"]
        if left := len(self.repeats) - self.simulated:
            parts.append(f"{left} picked left no recording to replay")
        if self.beacon is not None:
            parts.append(f"picked by beacon {self.beacon} from rows {self.root}")
        if self.controls:
            parts.append(f"{self.controls} attempts of the raw controls replayed as well")
        return "; ".join(parts)

    def document(self) -> dict[str, Any]:
        """Return the plain form."""
        return {
            "picked": self.picked,
            "total": self.total,
            "simulated": self.simulated,
            "different": self.different,
            "rows_root": self.root,
            "beacon": self.beacon,
            "controls": self.controls,
            "left_nothing": {f"{r.trial_id}-{r.attempt}": r.reason for r in self.repeats if r.reason is not None},
        }


def replay(
    view: CampaignView,
    *,
    episodes: int | None = None,
    beacon: bytes | None = None,
    workers: int = 1,
    progress: Told = lambda done, total: None,
) -> Replay:
    """Simulate attempts of a campaign again: all of them, or ``episodes`` of them that nobody could choose.

    ``beacon``: 32 bytes of public randomness that pick them together with the Merkle root of the rows; without it
    they are drawn on this machine, and told. ``workers``: processes, in parallel over attempts.
    """
    root, total = rows_root(view.rows), len(view.rows)
    rows: Sequence[Row] = view.rows
    if episodes is not None and episodes < total:
        beacon = secrets.token_bytes(32) if beacon is None else beacon
        rows = [view.rows[index] for index in merkle.audit_sample(root, beacon, n=total, k=episodes)]
    else:
        beacon = None
    found = comparability(view.lock_document)
    repeats = () if found else repeat_rows(view, rows, workers=workers, progress=progress)
    found += [item for repeat in repeats for item in repeat.findings]
    return Replay(ordered(found), repeats, len(rows), total, root, beacon.hex() if beacon is not None else None)


def rows_root(rows: Sequence[Row]) -> str:
    """Return the Merkle root over rows in their order, as a bundle has it."""
    return merkle.root(canonical_json(row.document()) for row in rows)


def comparability(lock: Mapping[str, Any]) -> list[Finding]:
    """Return what forbids a comparison here: whatever of suite, simulator, packages or machine is not the lock's."""
    name = lock["suite"]["name"]
    try:
        suite = load_suite(name)
    except TrialplateError as error:
        return [_elsewhere("/suite/name", name, error.message)]
    if not suite.replayable:
        return [_elsewhere("/suite/name", "a suite with a simulator", f"suite {name} has none: nothing to replay")]
    try:
        simulator = load_attribute(suite.identity)()
    except ImportError as error:
        return [_elsewhere("/simulator", lock["simulator"], f"its simulator does not import here: {error}")]
    here = {
        "suite": {"sources": fingerprint.sources(suite.sources)},
        "simulator": simulator,
        "distributions": fingerprint.distributions(),
        "machine": fingerprint.machine(),
    }
    locked, present = _decisive(lock, suite), _decisive(here, suite)
    return [
        _elsewhere(pointer, locked.get(pointer), present.get(pointer))
        for pointer in sorted({*locked, *present})
        if locked.get(pointer) is None or locked.get(pointer) != present.get(pointer)
    ]


def _decisive(document: Mapping[str, Any], suite: Suite) -> dict[str, Any]:
    """Return pointer -> value of everything that decides about the bits of a state. Pictures decide about none."""
    packages, machine = document["distributions"], document["machine"]
    facts = {f"/machine/{key}": machine.get(key) for key in _MACHINE}
    facts["/suite/sources/sha256"] = document["suite"]["sources"]["sha256"]
    facts |= {
        f"/distributions/{name}/version": packages[name]["version"] for name in suite.computed_by if name in packages
    }
    facts |= {f"/simulator/{key}": value for key, value in document["simulator"].items() if key not in _DRAWN_ONLY}
    return facts


def _elsewhere(pointer: str, locked: object, here: object) -> Finding:
    return finding(NOT_COMPARABLE, "lock.json", pointer=pointer, expected=locked, found=here)


# -- which attempts, in which process --------------------------------------------------------------------------


def repeat_rows(
    view: CampaignView, rows: Sequence[Row], *, workers: int = 1, progress: Told = lambda done, total: None
) -> tuple[Repeat, ...]:
    """Simulate these attempts again and return them in their order. Raises HarnessFault when a worker dies."""
    groups = _groups(rows)
    done: dict[tuple[str, int], Repeat] = {}
    progress(0, len(rows))
    for repeats in _everywhere(view.folder, view.lock_document, groups, workers=min(workers, len(groups))):
        done |= {(repeat.trial_id, repeat.attempt): repeat for repeat in repeats}
        progress(len(done), len(rows))
    return tuple(done[row.trial_id, row.attempt] for row in rows)


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Put attempts of one scenario together, a few at a time."""
    by_scenario: dict[str, list[Row]] = {}
    for row in rows:
        by_scenario.setdefault(row.scenario, []).append(row)
    return [listed[n : n + GROUP] for listed in by_scenario.values() for n in range(0, len(listed), GROUP)]


def _everywhere(
    folder: Path, lock: Mapping[str, Any], groups: Sequence[list[Row]], *, workers: int
) -> Iterator[list[Repeat]]:
    if workers <= 1:
        repeater = Repeater(folder, lock)
        try:
            yield from map(repeater.repeat_all, groups)
        finally:
            repeater.close()
        return
    spawn = multiprocessing.get_context("spawn")  # fork after a GL context exists hangs the child
    pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_begin, initargs=(folder, dict(lock)))
    try:
        for done in as_completed([pool.submit(_repeat_group, group) for group in groups]):
            yield done.result()
    except BrokenProcessPool:
        raise HarnessFault(
            "a worker of the replay died; the evidence says nothing about it. Try again with fewer --workers",
            code="worker_lost",
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


_HERE: list[Repeater] = []  # the one repeater of a worker process


def _begin(folder: Path, lock: Mapping[str, Any]) -> None:
    _HERE.append(Repeater(folder, lock))


def _repeat_group(rows: list[Row]) -> list[Repeat]:
    return _HERE[0].repeat_all(rows)
