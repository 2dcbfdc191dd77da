"""A campaign of any number of episodes from a few that were run: recordings repeat, everything else is as in a run.

Each scenario is run once. Then another lock plans it many times, and the store's own writer records every planned
attempt: a row of its own, with the trial, the repeat and the seed that it must have, and the recording of the run.
"""

from __future__ import annotations

import resource
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trialplate import api
from trialplate.canonical import env_seed
from trialplate.record import Row
from trialplate.registry import load_suite
from trialplate.store.campaign import CampaignWriter
from trialplate.store.fsio import Disk
from trialplate.store.layout import Planned, exchange_path, trace_path
from trialplate.store.view import CampaignView, read_campaign

REPLAN_INTERVAL = 8
PROTOCOL = """
schema = "trialplate.protocol/1"
name = "many"
question = "What does a campaign of many episodes cost?"
run_class = "development"
suite = {{ name = "{suite}", version = "{version}", repeats = {repeats}, scenarios = {scenarios} }}
"""
ARM = """
[[arms]]
name = "{arm}"
policy = "control:{arm}"
replan_interval = {replan_interval}
"""


@dataclass(frozen=True, slots=True)
class Recording:
    """The row of one attempt that was run, and its files."""

    row: Row
    trace: bytes
    exchange: bytes | None

    @classmethod
    def of(cls, view: CampaignView, row: Row) -> Recording:
        """Read the files of a row."""
        if row.trace is None:
            raise SystemExit(f"scenario {row.scenario} left no recording: {row.fault_message}")
        exchange = (view.folder / row.exchange.path).read_bytes() if row.exchange is not None else None
        return cls(row, (view.folder / row.trace.path).read_bytes(), exchange)

    def again(self, planned: Planned, lock_sha256: str, suite: str) -> Row:
        """Return the row of a planned trial that went as this one did."""
        row, exchange = self.row, self.row.exchange
        assert row.trace is not None
        if exchange is not None:
            exchange = replace(exchange, path=exchange_path(planned.trial_id, 0))
        return replace(
            row,
            trial_id=planned.trial_id,
            ordinal=planned.ordinal,
            repeat=planned.repeat,
            env_seed=env_seed(lock_sha256, suite, scenario=planned.scenario, repeat=planned.repeat),
            trace=replace(row.trace, path=trace_path(planned.trial_id, 0)),
            exchange=exchange,
        )


def make_campaign(folder: Path, *, suite: str, arms: Sequence[str], scenarios: int, repeats: int) -> Path:
    """Return a complete campaign of ``scenarios`` x ``repeats`` episodes of each arm below ``folder``."""
    view = run_once(folder, suite=suite, arms=arms, scenarios=scenarios)
    recorded = {(row.arm, row.scenario): Recording.of(view, row) for row in view.rows}
    many = lock_campaign(folder, "many", suite=suite, arms=arms, scenarios=scenarios, repeats=repeats)
    opened = next(record["data"] for record in view.records if record["type"] == "run.open")
    checked = next(record["data"] for record in view.records if record["type"] == "inputs.checked")
    sources = {name: digest for name, digest in checked.items() if name != "digests"}
    target, unsynced = many.path.parent, Disk(durability="process")
    with CampaignWriter.create(target, lock_bytes=many.path.read_bytes(), disk=unsynced) as writer:
        told = {key: value for key, value in opened.items() if key not in ("run_id", "durability")}
        writer.open_run(told | {"planned": len(writer.unstarted)})
        writer.inputs_checked(checked["digests"], sources=sources)
        for planned in writer.unstarted:
            recording = recorded[planned.arm, planned.scenario]
            writer.start_attempt(planned.trial_id, ordinal=planned.ordinal, arm=planned.arm)
            row = recording.again(planned, writer.lock_sha256, suite)
            writer.end_attempt(row, trace=recording.trace, exchange=recording.exchange)
        writer.inputs_checked(checked["digests"], sources=sources)
        writer.close_run(complete=True)
    return target


def run_once(folder: Path, *, suite: str, arms: Sequence[str], scenarios: int) -> CampaignView:
    """Run each arm once over the first scenarios of a suite."""
    few = lock_campaign(folder, "few", suite=suite, arms=arms, scenarios=scenarios, repeats=1)
    return read_campaign(api.run(few, recording="minimal").folder)


def lock_campaign(
    folder: Path, name: str, *, suite: str, arms: Sequence[str], scenarios: int, repeats: int
) -> api.Lock:
    """Lock a campaign of the first scenarios of a suite in a folder of that name."""
    found = load_suite(suite)
    listed = [scenario.id for scenario in found.scenarios()][:scenarios]
    path = folder / f"{name}.toml"
    text = PROTOCOL.format(
        suite=suite, version=found.version, repeats=repeats, scenarios=str(listed).replace("'", '"')
    )
    text += "".join(ARM.format(arm=arm, replan_interval=REPLAN_INTERVAL) for arm in arms)
    path.write_text(text, encoding="utf-8")
    return api.lock(api.load_protocol(path), into=folder / name)


def cpu_s() -> float:
    """Return processor seconds of this process and its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)
