from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from attempts import outcome, row_of
from block_films import PICK_PLACE, success_film

from trialplate.errors import EvidenceError
from trialplate.record import Conduct, Outcome
from trialplate.scoring.conduct import arm_conduct, total_usage
from trialplate.scoring.score import score_attempt
from trialplate.spec.channels import ActionComponent, ActionSpec

ALL_KNOWN = {"requests": 2, "input_tokens": 10, "output_tokens": 4, "cost": 0.1}


def went(**changes: Any) -> Conduct:
    values: dict[str, Any] = {
        "calls": 5, "calls_executed": 4, "calls_rejected": 1, "short_chunks": 2, "rows_proposed": 40,
        "rows_executed": 30, "rows_dropped": 7, "rows_discarded": 3, "usage": None, "usage_reason": "not_metered",
        "echo": "harness", "action_low": (-1.0, 0.0), "action_high": (1.0, 90.0),
    }  # fmt: skip
    return Conduct(**(values | changes))


def attempts(*conducts: Conduct) -> list[Outcome]:
    return [replace(outcome("a", n), conduct=conduct, control_steps=30) for n, conduct in enumerate(conducts)]


def metered(*usages: Mapping[str, Any] | str) -> list[Conduct]:
    return [
        went(usage=None, usage_reason=usage) if isinstance(usage, str) else went(usage=usage, usage_reason=None)
        for usage in usages
    ]


def action(*, low: float | None = -90.0, high: float | None = 90.0) -> ActionSpec:
    def component(name: str, lowest: float | None, highest: float | None) -> ActionComponent:
        return ActionComponent(
            name=name, dim=1, kind="other", mode="absolute", delta_base=None, unit="deg", frame=None, rotation=None,
            gripper=None, low=(lowest,), high=(highest,), bounds_reason=None if lowest is not None else "unlimited",
        )  # fmt: skip

    return ActionSpec(control_hz=20.0, dim=2, components=(component("x", -1.0, 1.0), component("joint", low, high)))


def test_calls_and_rows_are_summed_over_the_attempts() -> None:
    found = arm_conduct(attempts(went(), went(calls=1, echo="policy")), None)
    assert found is not None
    assert (found.calls, found.calls_executed, found.calls_rejected, found.short_chunks) == (6, 8, 2, 4)
    assert (found.rows_proposed, found.rows_executed, found.rows_dropped, found.rows_discarded) == (80, 60, 14, 6)
    assert found.control_steps == 60 and found.terminations == {"step_limit": 2}
    assert found.echo == ("harness", "policy") and found.compromised == 0


def test_results_without_their_recordings_have_no_conduct() -> None:
    assert arm_conduct([*attempts(went()), outcome("a", 9)], None) is None
    assert arm_conduct([], None) is None


def test_attempts_on_which_a_leak_was_disclosed_are_counted() -> None:
    made = [
        replace(o, blinding="compromised") if n == 1 else o for n, o in enumerate(attempts(went(), went(), went()))
    ]
    found = arm_conduct(made, None)
    assert found is not None and found.compromised == 1


def test_known_usage_is_summed_and_a_known_zero_is_a_value() -> None:
    parts = metered(ALL_KNOWN, ALL_KNOWN | {"cost": 0.2, "requests": 0})
    assert (total_usage(parts, "requests").value, total_usage(parts, "input_tokens").value) == (2, 20)
    assert total_usage(parts, "cost").value == pytest.approx(0.3) and total_usage(parts, "cost").reason is None
    assert total_usage(metered(dict.fromkeys(ALL_KNOWN, 0)), "cost").value == 0


def test_one_unknown_call_makes_the_sum_unknown_and_never_zero() -> None:
    for unknown in ("not_metered", "withheld", "unavailable"):
        total = total_usage(metered(ALL_KNOWN, unknown), "cost")
        assert (total.value, total.reason) == (None, unknown)
    partly = metered(ALL_KNOWN, ALL_KNOWN | {"cost": None})
    assert total_usage(partly, "cost").reason == "not_reported"
    assert total_usage(partly, "requests").value == 4


def test_an_attempt_in_which_nothing_was_asked_has_no_part_in_the_sum() -> None:
    assert total_usage(metered(ALL_KNOWN, "not_applicable"), "requests").value == 2
    assert total_usage(metered("not_applicable"), "requests").reason == "not_applicable"


def test_costs_are_summed_the_same_in_any_order() -> None:
    costs = [0.1, 1e16, 0.3, -1e16, 0.7]
    parts = metered(*({**ALL_KNOWN, "cost": cost} for cost in costs))
    assert total_usage(parts, "cost") == total_usage(list(reversed(parts)), "cost")


def codes(*conducts: Conduct, of: ActionSpec | None) -> list[tuple[str, str]]:
    found = arm_conduct(attempts(*conducts), of)
    assert found is not None
    return [(warning.code, warning.scalar) for warning in found.warnings]


def test_a_number_that_never_changes_over_the_run_is_pointed_out() -> None:
    still = went(action_low=(0.25, 0.0), action_high=(0.25, 50.0))
    assert codes(still, still, of=action()) == [("constant_dimension", "x[0]")]
    assert codes(still, still, of=None) == [("constant_dimension", "[0]")]
    other = went(action_low=(0.5, 0.0), action_high=(0.5, 50.0))
    assert codes(still, other, of=action()) == []  # constant in each attempt, not over the run


def test_one_executed_row_says_nothing_about_what_changes() -> None:
    assert codes(went(rows_executed=1, action_low=(0.0, 0.0), action_high=(0.0, 0.0)), of=action()) == []
    assert codes(went(rows_executed=0, action_low=None, action_high=None), of=action()) == []


@pytest.mark.parametrize(
    ("low", "high", "reach", "flagged"),
    [(-90.0, 90.0, 3.0, True), (-90.0, 90.0, 3.01, False), (-30.0, 30.0, 1.0, False), (-30.0, 30.1, 1.0, True),
     (0.0, 255.0, 1.0, True), (None, None, 1.0, False)],
)  # fmt: skip
def test_values_near_zero_in_a_wide_range_look_normalised(
    low: float | None, high: float | None, reach: float, flagged: bool
) -> None:
    seen = went(action_low=(-1.0, -reach), action_high=(1.0, reach))
    assert codes(seen, of=action(low=low, high=high)) == ([("looks_normalised", "joint[0]")] if flagged else [])


def test_recorded_actions_of_another_dimension_are_refused() -> None:
    with pytest.raises(EvidenceError, match="one dimension"):
        codes(went(action_low=(0.0,), action_high=(1.0,)), of=action())


def test_the_conduct_of_an_attempt_comes_from_its_row_and_its_trace() -> None:
    trace = success_film().trace()
    trace = replace(trace, calls=tuple({"index": n, "executed": n % 2} for n in range(5)))
    row = row_of(trace, calls=5, rows_proposed=9, rows_discarded=2, calls_rejected=3, short_chunks=1)
    found = score_attempt(row, trace, chain=PICK_PLACE, fault_table={}).conduct
    assert found is not None
    assert (found.calls, found.calls_executed, found.calls_rejected, found.rows_discarded) == (5, 2, 3, 2)
    assert found.action_low == tuple(trace.action.min(axis=0)) and found.usage_reason == "not_metered"
    assert np.all(np.asarray(found.action_high) >= np.asarray(found.action_low))


def test_an_attempt_without_a_recording_executed_nothing() -> None:
    row = row_of(None, termination="interrupted", usage_reason="unavailable")
    found = score_attempt(row, None, chain=PICK_PLACE, fault_table={}).conduct
    assert found is not None and found.calls_executed == 0 and found.action_low is None
