"""Every system call of a campaign, disturbed in every way. Rows 44 to 48 of ``tests/evidence`` take a sample."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

import crash_matrix
from crash_matrix import BASES, Point, Violated, examine, points, undisturbed
from trialplate.store.fsio import Disk
from trialplate.testing.faulty_disk import CHANGING

POINTS = tuple(points())


def test_the_matrix_holds_every_call_and_every_fault() -> None:
    for base in BASES:
        calls = undisturbed(base).calls
        assert len(calls) > 200
        failing = {(p.fault.at, p.fault.number) for p in POINTS if p.base == base and p.fault.action == "fail"}
        assert failing == {(at, number) for at in range(len(calls)) for number in crash_matrix.ERRNOS}
        stops = {p.fault.at for p in POINTS if p.base == base and p.fault.action == "stop"}
        assert stops == {at for at, call in enumerate(calls) if call.name in CHANGING}
    print(f"\n{len(POINTS)} crash points over {sum(len(undisturbed(base).calls) for base in BASES)} system calls")


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
def test_a_campaign_disturbed_at_every_call_resumes_to_the_same_bytes(base: str) -> None:
    count = 0
    for point in POINTS:
        if point.base == base:
            examine(point)
            count += 1
    print(f"\n{base}: {count} crash points")


@pytest.mark.parametrize("forgotten", ["row.json", "journal.jsonl", "head.json", "the folders"])
def test_the_matrix_notices_a_store_that_forgets_one_sync(monkeypatch: pytest.MonkeyPatch, forgotten: str) -> None:
    base = BASES[0]
    chosen = [p for p in POINTS if p.base == base and p.power is not None and p.fault.action == "stop"][::9]
    sync_file, sync_folder = Disk.fsync, Disk.fsync_dir

    def sync(disk: Disk, descriptor: int) -> None:
        if forgotten not in disk._paths[descriptor].name:
            sync_file(disk, descriptor)

    def sync_names(disk: Disk, folder: Path) -> None:
        if forgotten != "the folders":
            sync_folder(disk, folder)

    monkeypatch.setattr(Disk, "fsync", sync)
    monkeypatch.setattr(Disk, "fsync_dir", sync_names)
    with pytest.raises(Violated):
        for point in chosen:
            examine(point)


@pytest.mark.parametrize("number", [errno.EIO], ids=errno.errorcode.get)
def test_a_point_says_what_it_is(number: int) -> None:
    point = Point("from nothing", crash_matrix.Fault(7, "fail", number), crash_matrix.Power("cut", "lost", 3), 5)
    assert str(point) == "from nothing: call 7 fail EIO, power cut cut/lost/3, disturbed again with seed 5"
