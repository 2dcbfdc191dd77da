"""A small campaign with made-up rows: two arms, three scenarios, two repeats, traces of a few steps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from trialplate.canonical import array_digest, canonical_json, sha256_hex
from trialplate.record import Column, Event, Row, Timing, Trace
from trialplate.store.campaign import CampaignWriter
from trialplate.store.chain import Stamp
from trialplate.store.fsio import Disk, Storage
from trialplate.store.layout import Planned, trace_path
from trialplate.store.traces import trace_bytes, trace_reference

COLUMNS = (
    Column("block_position_m", 3, "m", "centre of the block, world frame"),
    Column("gripper_width_m", 1, "m", "distance of the fingers"),
)
ARMS = ("careful", "hasty")
SCENARIOS = ("near", "far", "tilted")
CREATED_UTC = "2026-11-29T09:00:00.000000Z"


class StepClock:
    """A clock that moves by one second at every look, from ten o'clock."""

    def __init__(self, *, start_s: int = 36_000) -> None:
        self._now_s = start_s

    def __call__(self) -> Stamp:
        self._now_s += 1
        hours, rest = divmod(self._now_s, 3600)
        minutes, seconds = divmod(rest, 60)
        return Stamp(f"2026-11-29T{hours:02d}:{minutes:02d}:{seconds:02d}.000000Z", self._now_s * 1_000_000)


def lock_document(*, repeats: int = 2, interrupted: str = "error", **changes: Any) -> dict[str, Any]:
    """A lock with every member that the store reads."""
    trials = [(arm, scenario, repeat) for repeat in range(repeats) for scenario in SCENARIOS for arm in ARMS]
    schedule = [
        {"trial_id": f"{n:06d}", "ordinal": n, "arm": arm, "scenario": scenario, "repeat": repeat}
        for n, (arm, scenario, repeat) in enumerate(trials)
    ]
    return {
        "schema": "trialplate.lock/1",
        "created_utc": CREATED_UTC,
        "protocol": {"name": "golden", "schedule": {"interrupted": interrupted, "max_replacements": 2}},
        "suite": {"columns": [{"name": c.name, "dim": c.dim, "unit": c.unit} for c in COLUMNS]},
        "schedule": schedule,
        **changes,
    }


def lock_bytes(*, repeats: int = 2, interrupted: str = "error", **changes: Any) -> bytes:
    """The stored form of ``lock_document``."""
    return canonical_json(lock_document(repeats=repeats, interrupted=interrupted, **changes))


def make_trace(seed: int, *, steps: int = 4) -> Trace:
    """A trace whose every number follows from the seed."""
    stream = np.random.default_rng(seed)
    return Trace(
        action=stream.normal(size=(steps, 7)),
        measured={column.name: stream.normal(size=(steps + 1, column.dim)) for column in COLUMNS},
        state_sha256=tuple(hashlib.sha256(f"{seed}/{step}".encode()).hexdigest() for step in range(steps + 1)),
        step_wall_us=np.arange(steps + 1, dtype=np.int64) * 50_000,
        calls=({"step": 0, "rows": steps, "images_sha256": None, "wall_us": 1200, "note": "first"},),
    )


@cache
def _stored_trace(seed: int) -> tuple[Trace, bytes]:
    trace = make_trace(seed)
    return trace, trace_bytes(trace, COLUMNS)


def make_row(planned: Planned, *, attempt: int = 0, **changes: Any) -> tuple[Row, bytes]:
    """A row of a planned trial, and the bytes of its trace."""
    trace, data = _stored_trace(planned.ordinal * 100 + attempt)
    row = Row(
        trial_id=planned.trial_id,
        ordinal=planned.ordinal,
        attempt=attempt,
        arm=planned.arm,
        scenario=planned.scenario,
        family=planned.scenario,
        domain="table",
        variant="plain",
        repeat=planned.repeat,
        env_seed=1000 + planned.ordinal // 2,
        termination="policy_stop",
        fault_code=None,
        fault_message=None,
        control_steps=trace.steps,
        calls=1,
        rows_proposed=trace.steps,
        rows_executed=trace.steps,
        rows_dropped=0,
        initial_state_sha256=trace.state_sha256[0],
        applied_scene_sha256=sha256_hex(b"scene"),
        scenario_sha256=sha256_hex(planned.scenario.encode()),
        registration_sha256=sha256_hex(planned.arm.encode()),
        actions_sha256=array_digest(trace.action),
        trace=trace_reference(trace, data, path=trace_path(planned.trial_id, attempt)),
        events=(Event(2, "disturbance", "a push of 3 N"),),
        applied_scene={"block_m": [0.5, -0.125, 0.02], "mass_kg": 0.1},
        timing=Timing(200_000, 1200, 900, 1200, 1200),
    )
    return replace(row, **changes), data


def interrupted_row(planned: Planned, *, attempt: int = 0) -> Row:
    """The row of an attempt that a crash cut off."""
    row, _ = make_row(planned, attempt=attempt)
    return replace(
        row,
        termination="interrupted",
        fault_code="interrupted",
        fault_message="the process ended in mid-episode",
        trace=None,
        actions_sha256=None,
        initial_state_sha256=None,
        timing=None,
        events=(),
    )


def run_trial(writer: CampaignWriter, planned: Planned, *, attempt: int = 0, **changes: Any) -> None:
    """Start and end one attempt."""
    writer.start_attempt(planned.trial_id, ordinal=planned.ordinal, arm=planned.arm, attempt=attempt)
    row, trace = make_row(planned, attempt=attempt, **changes)
    writer.end_attempt(row, trace=trace)


def finish(writer: CampaignWriter, *, told: Callable[[str], None] = lambda _: None) -> None:
    """Do what is left of a campaign: end interrupted attempts, run the rest, close."""
    writer.open_run({"host": "golden", "workers": 1})
    for attempt in writer.open_attempts:
        writer.interrupt_attempt(interrupted_row(attempt.trial, attempt=attempt.attempt))
    writer.inputs_checked({"careful": sha256_hex(b"careful"), "hasty": sha256_hex(b"hasty")})
    for planned, attempt in writer.replaceable:
        run_trial(writer, planned, attempt=attempt)
        told(f"{planned.trial_id}-{attempt}")
    for planned in writer.unstarted:
        run_trial(writer, planned)
        told(f"{planned.trial_id}-0")
    writer.inputs_checked({"careful": sha256_hex(b"careful"), "hasty": sha256_hex(b"hasty")})
    writer.close_run(complete=True)


def begin(folder: Path, *, lock: bytes | None = None, disk: Storage | None = None) -> CampaignWriter:
    """A new writer with a steady clock, without syncs unless a disk is given."""
    disk = disk or Disk(durability="process")
    return CampaignWriter.create(folder, lock_bytes=lock or lock_bytes(), disk=disk, clock=StepClock())


def again(folder: Path, *, lock: bytes | None = None, disk: Storage | None = None) -> CampaignWriter:
    """A writer that resumes, an hour later."""
    disk = disk or Disk(durability="process")
    clock = StepClock(start_s=40_000)
    return CampaignWriter.resume(folder, lock_sha256=sha256_hex(lock or lock_bytes()), disk=disk, clock=clock)


def build(folder: Path, *, lock: bytes | None = None, disk: Storage | None = None) -> Path:
    """A complete, closed campaign."""
    with begin(folder, lock=lock, disk=disk) as writer:
        finish(writer)
    return folder


def build_torn(folder: Path, *, lock: bytes | None = None) -> Path:
    """A complete campaign that was once cut off inside a record, in mid-episode, and resumed."""
    with begin(folder, lock=lock) as writer:
        writer.open_run({"host": "golden", "workers": 1})
        trials = writer.unstarted
        run_trial(writer, trials[0])
        writer.start_attempt(trials[1].trial_id, ordinal=1, arm=trials[1].arm)
    place = folder / f"episodes/{trials[1].trial_id}-0"
    place.mkdir()
    (place / "trace.parquet").write_bytes(b"PAR1 and then the lights went out")
    with (folder / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"data":{"artifacts":[{"path":"epis')
    with again(folder, lock=lock) as writer:
        finish(writer)
    return folder


def snapshot(folder: Path) -> Mapping[str, bytes]:
    """Every file of a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
