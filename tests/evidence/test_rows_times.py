"""Rows 56 and 60 of the evidence specification: what cannot have been at that time, and any number of workers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forger import Clock, Forger
from sealed import PROTOCOL, Golden, make_campaign
from trialplate import api, exam
from trialplate.canonical import canonical_json
from trialplate.record import Row
from trialplate.store import merkle
from trialplate.store.chain import Stamp
from trialplate.store.view import read_campaign

SHORT = PROTOCOL.replace("\n[fault_table]", "\n[budgets]\nmax_steps = 12\n\n[fault_table]")
"""The golden protocol with too few control steps for anything."""


def _codes(folder: Path) -> tuple[int, list[tuple[str, str]]]:
    verdict = exam.verify(folder)
    return verdict.exit_code, list(dict.fromkeys((item.code, item.pointer) for item in verdict.findings))


@pytest.fixture
def campaign(golden: Golden, tmp_path: Path) -> Path:
    """A copy of the golden campaign, to be forged."""
    folder = Path(shutil.copytree(golden.campaign, tmp_path / "campaign"))
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def _kept(folder: Path, changed: Callable[[list[dict[str, Any]]], None] = lambda records: None) -> Clock:
    """The clocks of a journal as they were, but for what ``changed`` does to its records."""
    records = [json.loads(line) for line in (folder / "journal.jsonl").read_bytes().splitlines()]
    changed(records)
    stamps: Iterator[Stamp] = iter([Stamp(record["utc"], record["mono_us"]) for record in records])
    return lambda: next(stamps)


def _at(records: list[dict[str, Any]], kind: str, trial_id: str) -> int:
    return next(n for n, r in enumerate(records) if r["type"] == kind and r["data"]["trial_id"] == trial_id)


# -- row 56 ------------------------------------------------------------------------------------------------------


def test_a_chain_rebuilt_with_the_same_times_is_found_good(campaign: Path) -> None:
    Forger(campaign, clock=_kept(campaign)).seal()
    assert _codes(campaign) == (0, [])


def test_row_56_an_attempt_that_ends_before_it_starts_is_found_by_its_clock(campaign: Path) -> None:
    def ends_early(records: list[dict[str, Any]]) -> None:
        start, end = _at(records, "attempt.start", "000004"), _at(records, "attempt.end", "000004")
        records[end]["mono_us"] = records[start]["mono_us"] - 1

    Forger(campaign, clock=_kept(campaign, ends_early)).seal()
    exit_code, found = _codes(campaign)
    assert exit_code == 1
    assert [code for code, _ in found] == ["clock_reversed"]


def test_row_56_an_end_that_stands_before_its_start_is_found_whatever_the_clocks_say(campaign: Path) -> None:
    forger = Forger(campaign, clock=_kept(campaign))
    start, end = (_at(forger.records, kind, "000004") for kind in ("attempt.start", "attempt.end"))
    forger.records[start], forger.records[end] = forger.records[end], forger.records[start]
    forger.seal()
    exit_code, found = _codes(campaign)
    assert exit_code == 1 and "end_without_start" in [code for code, _ in found]


def test_row_56_two_attempts_at_a_time_of_a_run_with_one_worker_are_found(campaign: Path) -> None:
    forger = Forger(campaign, clock=_kept(campaign))
    end, start = _at(forger.records, "attempt.end", "000004"), _at(forger.records, "attempt.start", "000005")
    assert end < start
    forger.records.insert(end, forger.records.pop(start))
    forger.seal()
    exit_code, found = _codes(campaign)
    assert (exit_code, [code for code, _ in found]) == (1, ["attempts_overlap"])


def test_row_56_two_attempts_at_a_time_of_a_run_with_two_workers_are_no_finding(tmp_path: Path) -> None:
    folder = make_campaign(tmp_path / "made")
    both = api.run(api.read_lock(folder / "lock.json"), into=tmp_path / "two", workers=2).folder
    kinds = [record["type"] for record in read_campaign(both).records if record["type"].startswith("attempt.")]
    assert ["attempt.start"] * 2 in [kinds[n : n + 2] for n in range(len(kinds))]
    assert _codes(both) == (0, [])


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign whose arms run out of control steps before anything is carried anywhere."""
    return make_campaign(tmp_path_factory.mktemp("hasty"), protocol=SHORT)


def test_row_56_a_success_behind_the_last_allowed_control_step_is_not_reproduced(
    hasty: Path, golden: Golden, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(hasty, tmp_path / "forged"))
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    unhurried = {(row.arm, row.scenario): row for row in read_campaign(golden.campaign).rows}
    out_of_steps = [row for row in read_campaign(folder).rows if row.termination == "step_limit"]
    slow = next(row for row in out_of_steps if row.arm == "scripted")
    longer = read_campaign(golden.campaign).load_trace(unhurried[slow.arm, slow.scenario])
    assert longer.steps > 12
    assert _status(golden.campaign, unhurried[slow.arm, slow.scenario].trial_id) == "PASS"
    forger = Forger(folder, clock=_kept(folder))
    key = f"{slow.trial_id}-{slow.attempt}"
    forger.edit_trace(key, lambda trace: longer)
    ended = unhurried[slow.arm, slow.scenario]
    counted = ("termination", "calls", "rows_proposed", "rows_executed", "rows_dropped", "rows_discarded")
    forger.edit_row(key, lambda row: row.update({name: getattr(ended, name) for name in counted}))
    forger.seal()
    assert _status(folder, slow.trial_id) == "PASS"
    exit_code, found = _codes(folder)
    assert exit_code == 1
    assert ("grades_not_reproduced", "/control_steps") in found, found


def _status(folder: Path, trial_id: str) -> str:
    return next(str(outcome.status) for outcome in api.score(folder) if outcome.trial_id == trial_id)


# -- row 60 ------------------------------------------------------------------------------------------------------


def _scored(row: Row) -> bytes:
    """A row without its times, and without the run and the files that hold them."""
    document = json.loads(json.dumps(row.document()))
    for name in ("timing", "run_id", "exchange"):
        document.pop(name, None)
    if document["trace"] is not None:
        document["trace"] = document["trace"]["content_sha256"]
    return canonical_json(document)


def test_row_60_one_two_and_four_workers_leave_the_same_rows_the_same_root_and_the_same_results(
    toy_protocol: Path, tmp_path: Path
) -> None:
    lock = api.lock(api.load_protocol(toy_protocol), into=toy_protocol.parent / "lock.json")
    seen = []
    for workers in (1, 2, 4):
        folder = api.run(lock, into=tmp_path / f"workers-{workers}", workers=workers).folder
        api.report(folder, api.judge(api.analyse(api.score(folder), lock), lock), to=tmp_path / "report.html")
        rows = [_scored(row) for row in read_campaign(folder).rows]
        outcomes = canonical_json([outcome.document() for outcome in api.score(folder)])
        seen.append((rows, merkle.root(rows), outcomes))
        assert _codes(folder) == (0, [])
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0][0]) == 36


def test_row_60_only_the_times_of_two_runs_of_one_lock_differ(toy_protocol: Path, tmp_path: Path) -> None:
    lock = api.lock(api.load_protocol(toy_protocol), into=toy_protocol.parent / "lock.json")
    views = [read_campaign(api.run(lock, into=tmp_path / str(n), workers=n).folder) for n in (1, 2)]
    for one, other in zip(*(view.rows for view in views), strict=True):
        differing = {name for name in one.__slots__ if getattr(one, name) != getattr(other, name)}
        assert differing <= {"timing", "run_id", "trace", "exchange"}
        assert one.trace is None or one.trace.content_sha256 == other.trace.content_sha256
        assert np.array_equal(views[0].load_trace(one).action, views[1].load_trace(other).action)
        assert replace(one, timing=None).document() != one.document()
