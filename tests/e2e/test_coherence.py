"""Edits that recompute every digest are still found where lock, suite and traces disagree."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trialplate import api
from trialplate.canonical import document_sha256
from trialplate.coherence import (
    declared_registrations,
    input_findings,
    lock_findings,
    registration_findings,
    row_findings,
)
from trialplate.errors import LockError
from trialplate.store.view import CampaignView, read_campaign
from trialplate.testing.toy import TOY
from trialplate.verification import analyse_document, claim_blockers, score_view


@pytest.fixture
def view(toy_protocol: Path, tmp_path: Path) -> CampaignView:
    """A finished toy campaign."""
    folder = tmp_path / "c"
    api.run(api.lock(api.load_protocol(toy_protocol), into=folder))
    return read_campaign(folder)


def test_an_honest_campaign_has_no_finding(view: CampaignView) -> None:
    assert not [*lock_findings(view.lock_document, TOY), *row_findings(view, TOY), *input_findings(view)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("domain", "far"), ("variant", "x"), ("family", "x"), ("env_seed", 1), ("scenario_sha256", "0" * 64),
        ("registration_sha256", "0" * 64), ("calls", 999), ("rows_proposed", 999), ("rows_dropped", 999),
        ("rows_executed", 999), ("control_steps", 999), ("applied_scene", None),
    ],
)  # fmt: skip
def test_a_row_field_that_was_changed_is_named(view: CampaignView, name: str, value: Any) -> None:
    row = next(row for row in view.rows if row.domain == "near")
    edited = replace(view, rows=(replace(row, **{name: value}),))
    assert [finding.pointer for finding in row_findings(edited, TOY)] == [f"/{name}"]


def test_an_easier_chain_or_a_shorter_schedule_in_the_lock_is_found(view: CampaignView) -> None:
    document = json.loads(json.dumps(view.lock_document))
    document["suite"]["chain"]["stages"] = document["suite"]["chain"]["stages"][:1]
    document["schedule"] = document["schedule"][:4]
    document["arms"][0]["role"] = "arm"
    document["protocol"]["question"] = "Another?"
    pointers = {finding.pointer for finding in lock_findings(document, TOY)}
    assert pointers == {"/suite/chain", "/schedule", "/arms/0/arm_sha256", "/arms/0/role", "/protocol_sha256"}


@pytest.mark.parametrize(
    ("key", "value"),
    [("role", "arm"), ("privileged", True), ("profile", "other"), ("options", {"x": 1}), ("replan_interval", 7),
     ("policy", "control:oracle"), ("reference", "other:Arm"), ("name", "other")],
)  # fmt: skip
def test_an_arm_that_is_rewritten_with_its_digest_still_differs_from_the_protocol(
    view: CampaignView, key: str, value: Any
) -> None:
    document = json.loads(json.dumps(view.lock_document))
    arm = document["arms"][0]
    arm[key] = value
    del arm["arm_sha256"]
    arm["arm_sha256"] = document_sha256(arm)
    pointers = [finding.pointer for finding in lock_findings(document, TOY)]
    assert pointers == ["/arms"] if key == "name" else [f"/arms/0/{key}"]


def _declared(view: CampaignView, **registrations: str) -> CampaignView:
    first, *rest = view.records
    opened = {**first, "data": {**first["data"], "registrations": registrations}}
    return replace(view, records=(opened, *rest))  # type: ignore[arg-type]


def test_another_identity_is_accepted_only_where_the_run_declared_it(view: CampaignView) -> None:
    row = next(row for row in view.rows if row.arm == "scripted")
    other = replace(view, rows=(replace(row, registration_sha256="7" * 64),))
    assert [finding.pointer for finding in row_findings(other, TOY)] == ["/registration_sha256"]
    assert [*row_findings(_declared(other, scripted="7" * 64), TOY)] == []
    assert [finding.pointer for finding in row_findings(_declared(other, oracle="7" * 64), TOY)] == [
        "/registration_sha256"
    ]


def test_a_declared_identity_is_intact_and_blocked_and_the_locked_one_is_neither(view: CampaignView) -> None:
    locked = {arm["name"]: arm["registration_sha256"] for arm in view.lock_document["arms"]}
    assert registration_findings(_declared(view, scripted=locked["scripted"])) == []
    declared = _declared(view, scripted="7" * 64)
    (found,) = registration_findings(declared)
    assert (found.code, found.exit_code, found.found) == ("exploratory_registration", 3, "7" * 64)
    assert declared_registrations(declared) == {"scripted": frozenset({"7" * 64})}
    analysis = analyse_document(score_view(view), view.lock_document)
    assert "exploratory_registration" in claim_blockers(analysis, view.lock_document, view=declared)
    assert "exploratory_registration" not in claim_blockers(analysis, view.lock_document, view=view)
    told = analyse_document(score_view(declared), view.lock_document)
    assert {arm.arm for arm in told.arms if arm.state == "EXPLORATORY"} == {"scripted"}
    assert not any("exploratory_registration" in arm.state_reasons for arm in analysis.arms)


def test_a_missing_check_of_the_inputs_is_found(view: CampaignView) -> None:
    for drop in (0, -1):
        checks = [record for record in view.records if record["type"] == "inputs.checked"]
        records = tuple(record for record in view.records if record is not checks[drop])
        assert [item.code for item in input_findings(replace(view, records=records))] == ["inputs_changed_during_run"]


def test_a_lock_with_a_shorter_schedule_is_refused_before_anything_runs(toy_protocol: Path, tmp_path: Path) -> None:
    lock = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "lock.json")
    document = json.loads(lock.path.read_bytes())
    document["schedule"] = document["schedule"][:4]
    edited = tmp_path / "edited.json"
    edited.write_bytes(api.lock_bytes(document))
    with pytest.raises(LockError, match="edited"):
        api.run(edited, into=tmp_path / "c")
