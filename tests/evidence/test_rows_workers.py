"""Row 59 of the evidence specification: a worker returns a result for another trial, twice, or after its timeout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lying_workers
from trialplate import api
from trialplate.record import Row
from trialplate.run import executors
from trialplate.store.view import CampaignView, read_campaign


@pytest.fixture
def lock_file(toy_protocol: Path, tmp_path: Path) -> Path:
    text = toy_protocol.read_text(encoding="utf-8") + "\n[budgets]\nepisode_timeout_s = 2.0\n"
    toy_protocol.write_text(text, encoding="utf-8")
    return api.lock(api.load_protocol(toy_protocol), into=tmp_path / "lock.json").path


def _run(lock_file: Path, folder: Path, lie: Any, monkeypatch: pytest.MonkeyPatch) -> CampaignView:
    with monkeypatch.context() as patch:
        patch.setattr(executors, "_serve", lie)
        api.run(lock_file, into=folder, workers=1, executor="processes")
    return read_campaign(folder)


def _refused(view: CampaignView) -> list[dict[str, Any]]:
    events = [record["data"] for record in view.records if record["type"] == "event"]
    return [dict(data) for data in events if data["kind"] == "result_refused"]


def _told(row: Row) -> dict[str, Any]:
    """A row without its times and the run that it is of."""
    document = json.loads(json.dumps(row.document()))
    return {key: value for key, value in document.items() if key not in ("timing", "run_id", "trace", "exchange")}


def _others_are_as_calm(view: CampaignView, lock_file: Path, calm: Path) -> None:
    if not calm.exists():
        api.run(lock_file, into=calm)
    expected = {row.trial_id: _told(row) for row in read_campaign(calm).rows}
    found = {row.trial_id: _told(row) for row in view.rows}
    assert set(found) == set(expected)
    differing = {trial for trial in found if found[trial] != expected[trial]}
    assert differing <= {lying_workers.LIAR}
    assert api.verify(view.folder).exit_code == 0


@pytest.mark.parametrize(
    ("lie", "reason", "fault"),
    [
        (lying_workers.another_trial, "another_trial", "worker_lost"),
        (lying_workers.twice, "twice", None),
        (lying_workers.late, "late", "worker_timeout"),
        (lying_workers.nonsense, None, "worker_lost"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_row_59_a_result_that_nobody_waits_for_is_refused_and_told_and_changes_no_row(
    lock_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: Any, reason: str | None, fault: str | None
) -> None:
    view = _run(lock_file, tmp_path / "lied", lie, monkeypatch)
    found = _refused(view)
    trial = "000001" if reason == "another_trial" else lying_workers.LIAR
    told = [(item["reason"], item["trial_id"], item["attempt"]) for item in found]
    assert told == ([(reason, trial, 0)] if reason else [])
    assert all(item["asked"] == f"{lying_workers.LIAR}-0" for item in found if reason != "twice")
    (of_liar,) = [row for row in view.rows if row.trial_id == lying_workers.LIAR]
    assert of_liar.fault_code == fault
    _others_are_as_calm(view, lock_file, tmp_path / "calm")
