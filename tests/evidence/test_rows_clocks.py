"""Where the wall clock was set while a run went on, the journal says so, and nothing is ordered or timed by it."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from golden import finish, interrupted_row, lock_bytes, run_trial
from trialplate.canonical import sha256_hex
from trialplate.errors import UsageError
from trialplate.store.campaign import CampaignWriter
from trialplate.store.chain import Stamp, system_clock
from trialplate.store.clocks import TOLERANCE_US, clock_step
from trialplate.store.fsio import Disk
from trialplate.store.verify import check
from trialplate.store.view import CampaignView, read_campaign

LOCK = lock_bytes()
START = datetime(2026, 11, 30, 10, tzinfo=UTC)


class SetClock:
    """A pair of clocks that go on by a millisecond at every look; ``set_by`` sets the wall clock only."""

    def __init__(self, *, start: datetime = START, mono_us: int = 5_000_000) -> None:
        self.wall, self.mono_us = start, mono_us

    def __call__(self) -> Stamp:
        self.pass_us(1000)
        return Stamp(self.wall.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), self.mono_us)

    def pass_us(self, span_us: int) -> None:
        self.wall += timedelta(microseconds=span_us)
        self.mono_us += span_us

    def set_by(self, **span: float) -> None:
        self.wall += timedelta(**span)


def _writer(folder: Path, clock: SetClock) -> CampaignWriter:
    disk = Disk(durability="process")
    if folder.exists():
        return CampaignWriter.resume(folder, lock_sha256=sha256_hex(LOCK), disk=disk, clock=clock)
    return CampaignWriter.create(folder, lock_bytes=LOCK, disk=disk, clock=clock)


def _steps(view: CampaignView) -> list[dict[str, Any]]:
    events = [record["data"] for record in view.records if record["type"] == "event"]
    return [dict(data) for data in events if data["kind"] == "clock_step"]


def _run(folder: Path, clock: SetClock, *changes: dict[str, float]) -> CampaignView:
    """A run in which the clock is set by each of these, one after the other, in mid-episode."""
    with _writer(folder, clock) as writer:
        writer.open_run({"host": "golden"})
        for planned, change in zip(writer.unstarted, changes, strict=False):
            writer.start_attempt(planned.trial_id, ordinal=planned.ordinal, arm=planned.arm)
            clock.set_by(**change)
            writer.interrupt_attempt(interrupted_row(planned))
        finish(writer)
    return read_campaign(folder)


@pytest.mark.parametrize("hours", [1, -1])
def test_row_54_a_clock_that_is_set_by_an_hour_is_told_once_and_the_order_stays_that_of_the_records(
    tmp_path: Path, hours: int
) -> None:
    view = _run(tmp_path / "c", SetClock(), {"hours": hours})
    (step,) = _steps(view)
    assert abs(step["step_us"] - hours * 3_600_000_000) < 10_000
    before = view.records[step["seq_before"]]
    assert (before["type"], before["utc"]) == ("attempt.start", step["utc_before"])
    assert check(tmp_path / "c").findings == ()
    assert [record["seq"] for record in view.records] == list(range(len(view.records)))
    assert all(one["mono_us"] < other["mono_us"] for one, other in zip(view.records, view.records[1:], strict=False))


def test_row_54_a_clock_set_back_behind_the_lock_makes_no_late_lock(tmp_path: Path) -> None:
    clock = SetClock(start=datetime(2026, 11, 29, 9, 0, 5, tzinfo=UTC))  # the golden lock is of nine o'clock
    view = _run(tmp_path / "c", clock, {"minutes": -30}, {"minutes": -30})
    assert len(_steps(view)) == 2
    assert min(record["utc"] for record in view.records) < view.lock_document["created_utc"]
    assert check(tmp_path / "c").findings == ()


def test_row_54_a_run_into_2038_is_like_any_other(tmp_path: Path) -> None:
    view = _run(tmp_path / "c", SetClock(start=datetime(2038, 1, 19, 3, 14, 7, 990_000, tzinfo=UTC)), {})
    assert {record["utc"][:17] for record in view.records} == {"2038-01-19T03:14:"}
    assert view.records[-1]["utc"] > "2038-01-19T03:14:08"
    assert _steps(view) == [] and check(tmp_path / "c").findings == ()


def test_row_54_summer_time_is_no_step() -> None:
    """The records are in UTC; the zone of the machine may change while it runs."""
    zones, before = ("Europe/Berlin", "Pacific/Kiritimati", "UTC"), os.environ.get("TZ")
    first = system_clock()
    record = {"seq": 0, "utc": first.utc, "mono_us": first.mono_us}
    try:
        for zone in zones:
            os.environ["TZ"] = zone
            time.tzset()
            assert clock_step(record, system_clock()) is None
    finally:
        os.environ.pop("TZ") if before is None else os.environ.__setitem__("TZ", before)
        time.tzset()


def test_a_clock_that_is_slewed_is_not_set() -> None:
    record = {"seq": 3, "utc": "2026-11-30T10:00:00.000000Z", "mono_us": 0}
    for drift_us, told in ((0, False), (TOLERANCE_US, False), (-TOLERANCE_US, False), (4_600_000, False),
                           (4_600_001, True), (-4_600_001, True)):  # fmt: skip
        clock = SetClock(start=START, mono_us=0)
        clock.pass_us(3_600_000_000 - 1000)  # an hour, in which a clock may be slewed by 3.6 s
        clock.set_by(microseconds=drift_us)
        step = clock_step(record, clock())
        assert (step is not None) is told, drift_us
        assert step is None or step["step_us"] == drift_us


def test_row_55_after_a_reboot_nothing_is_recorded_before_the_run_says_that_it_goes_on(tmp_path: Path) -> None:
    before, after = SetClock(mono_us=9_000_000_000), SetClock(start=START + timedelta(hours=1), mono_us=12_000_000)
    writer = _writer(tmp_path / "c", before)
    writer.open_run({"boot_id": "one"})
    run_trial(writer, writer.plan.trials[0])
    writer.start_attempt("000001", ordinal=1, arm=writer.plan.trials[1].arm)
    writer.close()  # as the lights go out
    with _writer(tmp_path / "c", after) as writer:
        (attempt,) = writer.open_attempts
        for call in (
            lambda: writer.interrupt_attempt(interrupted_row(attempt.trial)),
            lambda: writer.start_attempt("000002", ordinal=2, arm=writer.plan.trials[2].arm),
            lambda: writer.note("anything", {}),
        ):
            with pytest.raises(UsageError, match=r"run\.resume"):
                call()
        writer.open_run({"boot_id": "two"})
        writer.interrupt_attempt(interrupted_row(attempt.trial))
        finish(writer)
    view = read_campaign(tmp_path / "c")
    boots = [record["data"]["boot_id"] for record in view.records if "boot_id" in record["data"]]
    assert boots == ["one", "two"]
    assert _steps(view) == [], "the clocks of two boots are not compared"
    (row,) = [row for row in view.rows if row.termination == "interrupted"]
    assert row.timing is None, "a duration across a reboot is unknown"
    assert check(tmp_path / "c").findings == ()
