"""Rows and outcomes made by hand."""

from __future__ import annotations

from typing import Any

from block_films import PICK_PLACE

from trialplate.canonical import array_digest
from trialplate.record import Outcome, Row, StageResult, Status, Trace, TraceRef

STAGES = PICK_PLACE.names


def row_of(trace: Trace | None, *, termination: str = "step_limit", **changes: Any) -> Row:
    """Return a row that agrees with its trace."""
    reference = None
    if trace is not None:
        reference = TraceRef("episodes/000000-0/trace.parquet", "f" * 64, trace.content_sha256(), 1000, trace.steps)
    values: dict[str, Any] = {
        "trial_id": "000000", "ordinal": 0, "attempt": 0, "arm": "a", "scenario": "pp-001", "family": "pp-001",
        "domain": "nominal", "variant": "standard_objects", "repeat": 0, "env_seed": 7, "termination": termination,
        "fault_code": None, "fault_message": None, "control_steps": trace.steps if trace else 0, "calls": 1,
        "rows_proposed": 1, "rows_executed": 1, "rows_dropped": 0, "rows_discarded": 0, "calls_rejected": 0,
        "short_chunks": 0, "usage": None, "usage_reason": "not_metered", "echo": "harness",
        "initial_state_sha256": trace.state_sha256[0] if trace else None,
        "applied_scene_sha256": "b" * 64, "scenario_sha256": "c" * 64, "registration_sha256": "d" * 64,
        "actions_sha256": array_digest(trace.action) if trace and trace.steps else None,
        "trace": reference, "exchange": None,
    }  # fmt: skip
    return Row(**(values | changes))


def outcome(
    arm: str,
    number: int,
    status: str = "PASS",
    *,
    stages_passed: int | None = None,
    domain: str = "nominal",
    variant: str = "plain",
    **changes: Any,
) -> Outcome:
    """Return an outcome of trial ``number`` on scenario ``s-NNN``."""
    measured = status in ("PASS", "FAIL")
    climbed = len(STAGES) if status == "PASS" else (stages_passed or 0)
    stages = tuple(StageResult(name, n < climbed, 10 * n if n < climbed else None) for n, name in enumerate(STAGES))
    values: dict[str, Any] = {
        "trial_id": f"{arm}-{number:03d}", "arm": arm, "scenario": f"s-{number:03d}", "family": f"s-{number:03d}",
        "domain": domain, "variant": variant, "repeat": 0, "status": Status(status),
        "reason": {"PASS": "chain_complete", "FAIL": "stage_not_passed"}.get(status, "policy_exception"),
        "stages": stages if measured else (), "success_once": status == "PASS" if measured else None,
        "success_final": status == "PASS" if measured else None,
        "first_failed_stage": STAGES[climbed] if status == "FAIL" else None, "termination": "step_limit",
        "control_steps": 300, "trace_content_sha256": "e" * 64, "initial_state_sha256": f"{number:064x}",
    }  # fmt: skip
    return Outcome(**(values | changes))
