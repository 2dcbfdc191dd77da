from __future__ import annotations

from typing import Any

import pytest

from trialplate.errors import CONTRACT_FAULTS, HARNESS_FAULTS, POLICY_FAULTS
from trialplate.record import Row
from trialplate.record.halting import systematic_error


def row(ordinal: int, fault: str | None = "policy_exception", *, steps: int = 0, attempt: int = 0) -> Row:
    values: dict[str, Any] = {
        "trial_id": f"{ordinal:06d}", "ordinal": ordinal, "attempt": attempt, "arm": "a", "scenario": f"s-{ordinal}",
        "family": "f", "domain": "d", "variant": "v", "repeat": 0, "env_seed": 1,
        "termination": "step_limit" if fault is None else "fault", "fault_code": fault, "fault_message": fault,
        "control_steps": steps, "calls": 1, "rows_proposed": 0, "rows_executed": steps, "rows_dropped": 0,
        "rows_discarded": 0, "calls_rejected": 0, "short_chunks": 0, "usage": None, "usage_reason": "not_metered",
        "echo": "harness", "initial_state_sha256": None, "applied_scene_sha256": None, "scenario_sha256": "0" * 64,
        "registration_sha256": "1" * 64, "actions_sha256": None, "trace": None, "exchange": None,
    }  # fmt: skip
    return Row(**values)


@pytest.mark.parametrize("code", [*POLICY_FAULTS, *CONTRACT_FAULTS])
def test_the_same_fault_of_the_arm_at_the_first_three_trials_is_systematic(code: str) -> None:
    assert systematic_error([row(0, code), row(4, code), row(9, code)]) == code


@pytest.mark.parametrize("code", HARNESS_FAULTS)
def test_a_fault_of_the_harness_says_nothing_about_the_arm(code: str) -> None:
    assert systematic_error([row(n, code) for n in range(3)]) is None


def test_two_trials_are_too_few() -> None:
    assert systematic_error([row(0), row(1)]) is None


def test_one_control_step_shows_that_the_arm_works() -> None:
    assert systematic_error([row(0), row(1), row(2, steps=1)]) is None


def test_two_kinds_of_fault_are_not_one() -> None:
    assert systematic_error([row(0), row(1, "policy_timeout"), row(2)]) is None


def test_an_attempt_without_a_fault_breaks_the_row() -> None:
    assert systematic_error([row(0), row(1, None, steps=3), row(2)]) is None


def test_only_the_first_three_by_ordinal_count_in_whatever_order_they_end() -> None:
    assert systematic_error([row(7, None), row(2), row(0), row(1)]) == "policy_exception"
    assert systematic_error([row(0, None), row(1), row(2), row(3)]) is None


def test_while_a_run_goes_on_nothing_is_said_before_the_first_three_planned_trials_ended() -> None:
    planned = (0, 3, 5, 8)
    assert systematic_error([row(0), row(5), row(8)], planned=planned) is None
    assert systematic_error([row(0), row(5), row(8), row(3)], planned=planned) == "policy_exception"


def test_the_last_attempt_of_a_trial_counts() -> None:
    interrupted = row(0, "connect_failed")
    assert systematic_error([row(0, attempt=1), interrupted, row(1), row(2)]) == "policy_exception"
    assert systematic_error([row(0), row(0, None, steps=5, attempt=1), row(1), row(2)]) is None
