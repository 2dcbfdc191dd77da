"""A real campaign whose rows or traces were rewritten, with every digest, still contradicts itself or its lock."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forger import Forger
from trialplate import api
from trialplate.canonical import read_stored
from trialplate.record import Trace
from trialplate.store.chain import system_clock

PROTOCOL = """
schema = "trialplate.protocol/1"
name = "endings"
question = "How may an attempt have ended?"
run_class = "development"
[suite]
name = "toy-faults"
version = "1"
scenarios = ["fault-none", "fault-step-refused", "fault-step-fault", "fault-camera-frozen"]
[schedule]
order = "manifest"
[[arms]]
name = "scripted"
policy = "control:scripted"
[[arms]]
name = "null"
policy = "control:null"
[[arms]]
name = "wild"
policy = "arms.py:Wild"
"""
WILD = """
from trialplate.testing.reach_controls import Scripted


class Wild(Scripted):
    def act(self, observation):
        return [[9.0] * 7] if observation.step_index == 2 else super().act(observation)
"""
SCRIPTED_NONE, NULL_NONE, WILD_NONE = "000000-0", "000001-0", "000002-0"
BROKEN, REFUSED = "000003-0", "000006-0"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest")
    (folder / "arms.py").write_text(WILD, encoding="utf-8")
    (folder / "protocol.toml").write_text(PROTOCOL, encoding="utf-8")
    api.run(api.lock(api.load_protocol(folder / "protocol.toml"), into=folder / "c"))
    assert api.verify(folder / "c").findings == ()
    return folder / "c"


@pytest.fixture
def forger(honest: Path, tmp_path: Path) -> Forger:
    return Forger(Path(shutil.copytree(honest, tmp_path / "c")), clock=system_clock)


def found(forger: Forger) -> set[tuple[str, str]]:
    forger.seal()
    verdict = api.verify(forger.folder)
    assert verdict.exit_code != 0
    return {(item.path, item.pointer) for item in verdict.findings}


def row_of(forger: Forger, key: str) -> dict[str, Any]:
    document: dict[str, Any] = read_stored((forger.folder / f"episodes/{key}/row.json").read_bytes())
    return document


def test_the_attempts_end_in_every_way(forger: Forger) -> None:
    ends = {key: row_of(forger, key)["termination"] for key in (SCRIPTED_NONE, NULL_NONE, WILD_NONE, REFUSED, BROKEN)}
    assert list(ends.values()) == ["policy_stop", "step_limit", "fault", "control_rejected", "fault"]
    assert row_of(forger, WILD_NONE)["fault_code"] == "invalid_response_schema"


@pytest.mark.parametrize(
    ("key", "termination", "fault_code"),
    [
        (SCRIPTED_NONE, "step_limit", None),
        (SCRIPTED_NONE, "control_rejected", None),
        (SCRIPTED_NONE, "interrupted", None),
        (NULL_NONE, "policy_stop", None),
        (NULL_NONE, "interrupted", None),
        (WILD_NONE, "policy_stop", None),
        (WILD_NONE, "step_limit", None),
        (WILD_NONE, "interrupted", None),
        (REFUSED, "policy_stop", None),
        (REFUSED, "step_limit", None),
        (BROKEN, "policy_stop", None),
        (BROKEN, "control_rejected", None),
        (BROKEN, "interrupted", None),
    ],
)
def test_an_attempt_that_is_said_to_have_ended_otherwise_than_its_trace_is_found(
    forger: Forger, key: str, termination: str, fault_code: str | None
) -> None:
    forger.edit_row(key, lambda row: row.update(termination=termination, fault_code=fault_code, fault_message=None))
    assert (f"episodes/{key}/row.json", "/termination") in found(forger)


def test_another_fault_than_the_one_of_the_last_call_is_found(forger: Forger) -> None:
    forger.edit_row(WILD_NONE, lambda row: row.update(fault_code="transport_lost"))  # a failure turned into our error
    assert (f"episodes/{WILD_NONE}/row.json", "/fault_code") in found(forger)


@pytest.mark.parametrize("name", ["calls_rejected", "short_chunks", "rows_discarded", "rows_executed"])
def test_a_count_that_is_not_that_of_the_calls_is_found(forger: Forger, name: str) -> None:
    forger.edit_row(SCRIPTED_NONE, lambda row: row.update({name: row[name] + 1}))
    assert (f"episodes/{SCRIPTED_NONE}/row.json", f"/{name}") in found(forger)


def rewrite_actions(forger: Forger, key: str, edit: Callable[[np.ndarray], None]) -> None:
    """Change the recorded actions of one attempt, and every digest of trace, row and journal with them."""

    def edited(trace: Trace) -> Trace:
        action = trace.action.copy()
        edit(action)
        return replace(trace, action=action)

    forger.edit_trace(key, edited)


def _put(step: int, scalar: int, value: float) -> Callable[[np.ndarray], None]:
    def edit(action: np.ndarray) -> None:
        action[step, scalar] = value

    return edit


@pytest.mark.parametrize(("scalar", "value"), [(0, 0.0501), (2, -0.06), (5, 0.51), (6, 1.0000001), (6, -1e-9)])
def test_a_recorded_action_outside_the_declared_bounds_is_found(forger: Forger, scalar: int, value: float) -> None:
    rewrite_actions(forger, SCRIPTED_NONE, _put(1, scalar, value))
    assert (f"episodes/{SCRIPTED_NONE}/trace.parquet", f"/action/1/{scalar}") in found(forger)


def test_a_float32_value_at_a_bound_was_legal_and_is_no_finding(forger: Forger) -> None:
    rewrite_actions(forger, SCRIPTED_NONE, _put(1, 0, float(np.float32(0.05))))
    forger.seal()
    assert api.verify(forger.folder).findings == ()
