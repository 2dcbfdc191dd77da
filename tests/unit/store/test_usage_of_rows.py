"""What a stored row says of metered usage is read strictly: nothing behind it may trip over its form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trialplate.record import Row
from trialplate.standalone import verify_bundle
from trialplate.store.findings import EvidenceProblem
from trialplate.store.rows import parse_row, row_bytes

ROW = Row(
    trial_id="000000", ordinal=0, attempt=0, arm="a", scenario="s", family="f", domain="d", variant="v", repeat=0,
    env_seed=1, termination="policy_stop", fault_code=None, fault_message=None, control_steps=0, calls=0,
    rows_proposed=0, rows_executed=0, rows_dropped=0, initial_state_sha256=None, applied_scene_sha256=None,
    scenario_sha256="0" * 64, registration_sha256="0" * 64, actions_sha256=None, trace=None,
)  # fmt: skip
WHOLE = {"requests": 2, "input_tokens": 10, "output_tokens": None, "cost": 0.25}


def second(row: Row) -> Any:
    return verify_bundle.fit(row.document(), verify_bundle.ROW, "row.json")


@pytest.mark.parametrize("usage", [None, WHOLE, dict.fromkeys(WHOLE)])
def test_usage_is_null_or_says_of_every_member_a_number_or_null(usage: Any) -> None:
    row = replace(ROW, usage=usage)
    assert parse_row(row_bytes(row), "row.json").usage == usage
    second(row)


@pytest.mark.parametrize(
    ("usage", "pointer"),
    [
        ("10", "/usage"), (10, "/usage"), ([], "/usage"), ({}, "/usage"), (WHOLE | {"more": 1}, "/usage"),
        (WHOLE | {"cost": "0.25"}, "/usage/cost"), (WHOLE | {"requests": True}, "/usage/requests"),
        (WHOLE | {"cost": [1]}, "/usage/cost"),
    ],
)  # fmt: skip
def test_usage_in_another_form_is_refused_by_both_verifiers_with_its_place(usage: Any, pointer: str) -> None:
    row = replace(ROW, usage=usage)
    with pytest.raises(EvidenceProblem) as found:
        parse_row(row_bytes(row), "row.json")
    assert (found.value.finding.code, found.value.finding.pointer) == ("schema_mismatch", pointer)
    with pytest.raises(verify_bundle.Wrong) as told:
        second(row)
    assert (told.value.args[0], told.value.args[2]) == ("schema_mismatch", pointer)
