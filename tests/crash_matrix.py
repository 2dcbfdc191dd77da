"""One campaign on a disk in memory, disturbed at every system call in every way: what a crash point is, and what must
hold at each.

A point is a system call of the undisturbed run and something that happens there: the process is killed, the power
goes, the call fails, a write is short. Afterwards a new process goes on as ``trialplate run --resume`` does. Then the
journal was never broken, no attempt that had ended is lost or run twice, whatever had started and not ended is
visible as interrupted, everything else has the bytes of an undisturbed run, and a last power cut takes nothing away.
Source: evidence specification, section 13, rows 44 to 48, and section 14, point 1.
"""

from __future__ import annotations

import copy
import errno
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from golden import StepClock, interrupted_row, lock_bytes, lock_document, run_trial
from trialplate.canonical import sha256_hex
from trialplate.errors import StorageFailure, TrialplateError
from trialplate.store.campaign import CampaignWriter
from trialplate.store.chain import HEAD, JOURNAL, read_head, scan
from trialplate.store.fsio import publish_new
from trialplate.store.layout import LOCK as LOCK_NAME
from trialplate.store.layout import ROWS
from trialplate.store.verify import check
from trialplate.store.view import read_campaign
from trialplate.testing.faulty_disk import CHANGING, FATES, Fate, Fault, FaultyDisk, ProcessEnded

CAMPAIGN = Path("/campaigns/c")
LOCK = lock_bytes(repeats=1, schedule=lock_document(repeats=1)["schedule"][:3])
DIGEST = sha256_hex(LOCK)
ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.EACCES)
INTERRUPTED = "interrupted"


class Violated(AssertionError):
    """Something that must hold at every crash point does not hold at this one."""


@dataclass(frozen=True, slots=True)
class Power:
    """What is left of un-synced bytes and names when the power goes."""

    files: Fate
    names: Fate
    seed: int


@dataclass(frozen=True, slots=True)
class Point:
    """One crash point. ``base``: what the disturbed process starts from; ``power``: the power goes where it ends.

    ``second``: the process that goes on afterwards is disturbed as well, and a third one has to finish.
    """

    base: str
    fault: Fault
    power: Power | None = None
    second: int | None = None

    def __str__(self) -> str:
        number = f" {errno.errorcode[self.fault.number]}" if self.fault.action in ("fail", "fill") else ""
        power = f", power cut {self.power.files}/{self.power.names}/{self.power.seed}" if self.power else ""
        again = f", disturbed again with seed {self.second}" if self.second is not None else ""
        return f"{self.base}: call {self.fault.at} {self.fault.action}{number}{power}{again}"


# -- the scenario ----------------------------------------------------------------------------------------------


def go_on(disk: FaultyDisk, told: list[str]) -> CampaignWriter:
    """Lock where there is no lock, then run what is left and close, as a command would. ``told``: what had ended."""
    present = disk.tree(CAMPAIGN)
    clock = StepClock(start_s=36_000 + 1000 * len(told))
    if LOCK_NAME not in present:
        disk.make_folder(CAMPAIGN)
        publish_new(disk, CAMPAIGN / LOCK_NAME, LOCK, mode=0o444)
    if present.get(JOURNAL):
        writer = CampaignWriter.resume(CAMPAIGN, lock_sha256=DIGEST, disk=disk, clock=clock)
    else:
        writer = CampaignWriter.create(CAMPAIGN, lock_bytes=LOCK, disk=disk, clock=clock)
    try:
        _finish(writer, told)
    except StorageFailure:
        _assert_stopped(writer, disk)
        writer.close()
        raise
    return writer


def _finish(writer: CampaignWriter, told: list[str]) -> None:
    writer.open_run({"host": "golden", "workers": 1, "run_id": "c0" * 16})
    for attempt in writer.open_attempts:
        writer.interrupt_attempt(interrupted_row(attempt.trial, attempt=attempt.attempt))
    writer.inputs_checked({"careful": DIGEST})
    for planned in writer.unstarted:
        run_trial(writer, planned)
        told.append(planned.trial_id)
    writer.inputs_checked({"careful": DIGEST})
    writer.close_run(complete=True)


def _assert_stopped(writer: CampaignWriter, disk: FaultyDisk) -> None:
    """After a failed write the next record is refused, and the journal stays as it is."""
    before = disk.tree(CAMPAIGN).get(JOURNAL)
    try:
        writer.note("after_the_failure", {})
    except TrialplateError:
        pass
    else:
        raise Violated("the writer went on after a failed write")
    if disk.tree(CAMPAIGN).get(JOURNAL) != before:
        raise Violated("the journal grew after a failed write")


# -- the bases: what a disturbed process finds -----------------------------------------------------------------


def _nothing() -> FaultyDisk:
    disk = FaultyDisk()
    disk.make_folder(CAMPAIGN.parent)
    return disk


def _torn() -> FaultyDisk:
    """The first process died inside the record that should have ended the second episode."""
    whole = _nothing().next_process()
    go_on(whole, [])
    writes = [n for n, call in enumerate(whole.calls) if call.name == "write" and call.path.name == JOURNAL]
    return _died(_nothing(), Fault(writes[5], "tear"))


def _half_written() -> FaultyDisk:
    """The first process died between the two files of the second episode, and left them un-synced."""
    whole = _nothing().next_process()
    go_on(whole, [])
    writes = [n for n, call in enumerate(whole.calls) if call.name == "write" and "000001-0" in str(call.path)]
    return _died(_nothing(), Fault(writes[0] + 1, "stop"))


def _died(disk: FaultyDisk, fault: Fault) -> FaultyDisk:
    try:
        go_on(disk := disk.next_process(fault=fault), [])
    except ProcessEnded:
        return disk
    raise AssertionError(f"{fault} did not happen")


_MAKE = {"from nothing": _nothing, "from a torn record": _torn, "from half an episode": _half_written}
BASES = tuple(_MAKE)
_TOLD = {"from nothing": (), "from a torn record": ("000000",), "from half an episode": ("000000",)}


@cache
def _base(name: str) -> FaultyDisk:
    return _MAKE[name]()


def start(base: str, fault: Fault | None = None) -> FaultyDisk:
    """Return a new process on a copy of a base."""
    return copy.deepcopy(_base(base)).next_process(fault=fault)


@cache
def undisturbed(base: str) -> FaultyDisk:
    """Return the disk after a process that nothing happens to."""
    disk = start(base)
    go_on(disk, list(_TOLD[base]))
    return disk


@cache
def reference() -> dict[str, bytes]:
    """Return the files of the run from nothing that nothing happened to."""
    return undisturbed("from nothing").tree(CAMPAIGN)


# -- the points ------------------------------------------------------------------------------------------------


def points() -> Iterator[Point]:
    """Yield every crash point, in the order of the calls."""
    for base in BASES:
        for at, call in enumerate(undisturbed(base).calls):
            for number in ERRNOS:
                yield Point(base, Fault(at, "fail", number))
            if call.name == "fsync":
                yield from (Point(base, Fault(at, "fail", errno.EIO), power) for power in _powers(at)[:4])
            if call.name == "write":
                yield from (Point(base, Fault(at, "fill", number)) for number in (errno.ENOSPC, errno.EDQUOT))
                yield Point(base, Fault(at, "short"))
                yield Point(base, Fault(at, "tear"))
            if call.name in CHANGING:
                yield Point(base, Fault(at, "stop"))
                yield from (Point(base, Fault(at, "stop"), power) for power in _powers(at))
                yield from (Point(base, Fault(at, "stop"), second=seed) for seed in (2 * at, 2 * at + 1))
                yield Point(base, Fault(at, "stop"), Power("mixed", "mixed", at + 7), second=at)


def _powers(at: int) -> list[Power]:
    extremes = [Power(files, names, at) for files in FATES for names in ("lost", "kept")]
    return [Power("mixed", "mixed", at), *extremes, *(Power("mixed", "mixed", 1000 * n + at) for n in range(1, 4))]


# -- what must hold --------------------------------------------------------------------------------------------


def examine(point: Point) -> None:
    """Carry out one crash point. Raises Violated that names it."""
    try:
        _examine(point)
    except (AssertionError, TrialplateError, ProcessEnded, LookupError, OSError) as error:
        call = undisturbed(point.base).calls[point.fault.at]
        raise Violated(f"{point} ({call.name} {call.path}): {type(error).__name__}: {error}") from error


def _examine(point: Point) -> None:
    told = list(_TOLD[point.base])
    disk = _disturbed(point, told)
    if disk is None:
        return
    if point.second is not None:
        disk = _disturbed_again(disk, told, seed=point.second)
    go_on(disk, told)
    _assert_finished(disk, told, crashes=1 + (point.base != "from nothing") + (point.second is not None))
    after = disk.after_power_cut(files="lost", names="lost")
    if after.tree(CAMPAIGN) != disk.tree(CAMPAIGN):
        changed = {name for name, data in disk.tree(CAMPAIGN).items() if after.tree(CAMPAIGN).get(name) != data}
        raise Violated(f"a power cut after the end still changes {sorted(changed)}")


def _disturbed(point: Point, told: list[str]) -> FaultyDisk | None:
    """Run until the fault, and return the disk that the next process finds; None when the run rightly went on."""
    disk = start(point.base, point.fault)
    try:
        go_on(disk, told)
    except ProcessEnded:
        pass
    except TrialplateError as failure:
        _assert_explained(failure, point.fault, disk.calls[point.fault.at].path)
    else:
        if point.fault.action == "fail" and not _may_be_passed_over(disk, point.fault):
            raise Violated("a call failed and nobody noticed")
        _assert_finished(disk, told, crashes=int(point.base != "from nothing"))
        return None
    return _next(disk, point.power)


def _next(disk: FaultyDisk, power: Power | None) -> FaultyDisk:
    after = (
        disk.next_process()
        if power is None
        else disk.after_power_cut(files=power.files, names=power.names, seed=power.seed)
    )
    _assert_not_broken(after)
    return after


def _disturbed_again(disk: FaultyDisk, told: list[str], *, seed: int) -> FaultyDisk:
    """Disturb the process that goes on, at a call that follows from the seed."""
    calls = len(undisturbed("from nothing").calls)
    fault = Fault((seed * 7919) % calls, "tear" if seed % 3 == 0 else "stop")
    again = disk.next_process(fault=fault)
    with suppress(ProcessEnded):
        go_on(again, told)
    return _next(again, Power("mixed", "mixed", seed) if seed % 2 else None)


def _may_be_passed_over(disk: FaultyDisk, fault: Fault) -> bool:
    """The name of the folder that a campaign lies in is synced where this user may; it was there before."""
    call = disk.calls[fault.at]
    return fault.number == errno.EACCES and call.name == "open" and call.path in (CAMPAIGN.parent, *CAMPAIGN.parents)


def _assert_explained(failure: TrialplateError, fault: Fault, path: Path) -> None:
    if not isinstance(failure, StorageFailure):
        raise Violated(f"expected a storage failure, got {type(failure).__name__}: {failure.message}")
    if errno.errorcode[fault.number] not in failure.message or str(path.parent) not in failure.message:
        raise Violated(f"the failure names neither cause nor path: {failure.message}")


def _assert_not_broken(disk: FaultyDisk) -> None:
    """Clean or torn, and the head is never ahead."""
    present = disk.tree(CAMPAIGN)
    if present.get(LOCK_NAME, LOCK) != LOCK:
        raise Violated("the lock is not whole")
    head = read_head(present[HEAD]) if HEAD in present else None
    found = scan(present.get(JOURNAL, b""), lock_sha256=DIGEST, head=head)
    if found.status == "broken":
        raise Violated(f"the journal is broken: {found.problem}")


def _assert_finished(disk: FaultyDisk, told: list[str], *, crashes: int) -> None:
    """The campaign is whole, and differs from the undisturbed one by its visible interrupted attempts only."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as scratch:
        folder = Path(scratch) / "c"
        disk.export(CAMPAIGN, folder)
        findings = check(folder).findings
        if findings:
            raise Violated(f"not whole: {[str(item) for item in findings]}")
        rows = read_campaign(folder).rows
    present, wanted = disk.tree(CAMPAIGN), reference()
    lines = dict(zip((row.trial_id for row in rows), present[ROWS].splitlines(), strict=True))
    expected = dict(zip(("000000", "000001", "000002"), wanted[ROWS].splitlines(), strict=True))
    if set(lines) != set(expected):
        raise Violated(f"trials {sorted(lines)} instead of {sorted(expected)}")
    interrupted = {row.trial_id for row in rows if row.termination == INTERRUPTED}
    lost = interrupted & set(told)
    if lost:
        raise Violated(f"{sorted(lost)} had ended, and is interrupted now")
    if len(interrupted) > crashes:
        raise Violated(f"{len(interrupted)} attempts interrupted by {crashes} crashes")
    for trial in expected.keys() - interrupted:
        place = f"episodes/{trial}-0/"
        of_trial = {name: data for name, data in present.items() if name.startswith(place)}
        if lines[trial] != expected[trial] or of_trial != {n: d for n, d in wanted.items() if n.startswith(place)}:
            raise Violated(f"trial {trial} has other bytes than in the undisturbed run")
