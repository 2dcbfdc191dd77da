"""Row 57 of the evidence specification: clocks that are further apart than the registered tolerance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import wire_campaign as wire
from trialplate import api, exam
from trialplate.policies.client import clock
from trialplate.spec.protocol import Protocol
from trialplate.store.view import CampaignView, read_campaign
from trialplate.verification.clocks import sync_blockers, unsynchronised

CLAIM = '\n[[claims]]\nname = "half"\nkind = "threshold_rate"\narm = "far"\nrate = 0.5\n'


def clocks(*, required: bool, max_sync_error_s: float = 30.0) -> str:
    return f"\n[clocks]\nmax_sync_error_s = {max_sync_error_s}\nrequired = {str(required).lower()}\n{CLAIM}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A policy server in a process of its own, and the folder of its policy."""
    folder = tmp_path_factory.mktemp("server")
    wire.protocol(folder, wire.arm("far", "ws://127.0.0.1:1"))
    with wire.served(folder / "arms.py", "Arm") as (uri, _):
        yield uri, folder


def played(folder: Path, uri: str, more: str) -> CampaignView:
    folder.mkdir(exist_ok=True)
    arms = (wire.arm("far", uri), wire.arm("near", "arms.py:Arm"))
    path = wire.protocol(folder, *arms, more=more, scenarios=1)
    return read_campaign(api.run(api.lock(api.load_protocol(path), into=folder / "c")).folder)


def told(view: CampaignView) -> list[dict[str, Any]]:
    events = [record["data"] for record in view.records if record["type"] == "event"]
    return [dict(data) for data in events if data["kind"] == "clock_sync"]


def test_row_57_clocks_within_the_tolerance_are_kept_in_the_journal_and_stand_against_nothing(
    server: tuple[str, Path], tmp_path: Path
) -> None:
    view = played(tmp_path, server[0], clocks(required=True))
    (seen,) = told(view)
    assert seen["arm"] == "far" and 0 < seen["sync_error_s"] <= 30 and seen["server_date"].endswith("GMT")
    assert (unsynchronised(view), sync_blockers(view)) == ((), [])
    assert "sync_unverified" not in exam.judge_campaign(view.folder)[0].reasons
    assert exam.verify(view.folder).findings == ()


@pytest.mark.parametrize("hours", [1, -1])
def test_row_57_clocks_that_are_further_apart_make_the_claim_ineligible_where_sync_is_required(
    server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    now = clock.time
    monkeypatch.setattr(clock, "time", lambda: now() + 3600 * hours)
    view = played(tmp_path, server[0], clocks(required=True))
    assert 3500 < told(view)[0]["sync_error_s"] < 3700
    assert unsynchronised(view) == ("far",)
    (claim,) = exam.judge_campaign(view.folder)
    assert claim.verdict == "ineligible" and "sync_unverified" in claim.reasons
    assert exam.verify(view.folder).findings == ()  # the claims are reproduced, blocker and all


def test_row_57_where_sync_is_not_required_it_is_reported_and_no_blocker(
    server: tuple[str, Path], tmp_path: Path
) -> None:
    view = played(tmp_path, server[0], clocks(required=False, max_sync_error_s=0.001))
    assert (unsynchronised(view), sync_blockers(view)) == (("far",), [])
    claims = exam.judge_campaign(view.folder)
    assert "sync_unverified" not in claims[0].reasons
    api.report(view.folder, claims, to=tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "far: its clock and that of the harness may be more than the registered 0.001 s apart" in text


def test_row_57_nobody_looks_at_clocks_where_nothing_is_registered(server: tuple[str, Path], tmp_path: Path) -> None:
    view = played(tmp_path, server[0], CLAIM)
    assert told(view) == []
    assert (unsynchronised(view), sync_blockers(view)) == ((), [])


def _with(view: CampaignView, records: list[Any]) -> CampaignView:
    return replace(view, records=tuple(records))


def test_row_57_what_is_not_known_at_the_start_of_an_attempt_is_not_close(
    server: tuple[str, Path], tmp_path: Path
) -> None:
    view = played(tmp_path, server[0], clocks(required=True))
    records = list(view.records)
    at = next(n for n, record in enumerate(records) if record["data"].get("kind") == "clock_sync")
    without = records[:at] + records[at + 1 :]
    assert unsynchronised(_with(view, without)) == ("far",)
    assert unsynchronised(_with(view, [*without, records[at]])) == ("far",)
    for error_s in (None, True, "1", -1.0, 30.001):
        data = {**records[at]["data"], "sync_error_s": error_s}
        changed = [*records[:at], {**records[at], "data": data}, *records[at + 1 :]]
        assert unsynchronised(_with(view, changed)) == ("far",), error_s
    resumed = {**records[at], "type": "run.resume", "data": {"run_id": view.run_id}}
    assert unsynchronised(_with(view, [*records[: at + 1], resumed, *records[at + 1 :]])) == ("far",)


@pytest.mark.parametrize("fault", ["max_sync_error_s = 0", "max_sync_error_s = 1.0\nrequired = 1", "required = true"])
def test_a_tolerance_that_is_none_is_refused(fault: str) -> None:
    from trialplate.spec.protocol import read_toml, structure_faults

    parsed, faults = structure_faults(read_toml(f"[clocks]\n{fault}\n", source="x"))
    assert parsed is None and [item for item in faults if item.path.startswith("clocks")]
    assert Protocol.model_fields["clocks"].default is None
