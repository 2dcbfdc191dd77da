"""Give a planner of skills its seat: who it is, before the lock, and what a suite of skills cannot take."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trialplate.errors import LockError
from trialplate.interfaces import Suite
from trialplate.lock import Described, arm_place
from trialplate.policies.planning.process import PlannerCard, PlannerSource, describe_planner
from trialplate.run.skills import PlannerSeat
from trialplate.spec.channels import ObservationSpec, PolicySpec
from trialplate.spec.protocol import ArmChoice, Budgets


def describe_skill_arm(arm: ArmChoice, suite: Suite, *, budgets: Budgets, base: Path) -> Described:
    """Hear who a planner is. Raises LockError for an arm that is none, or has what a planner cannot have."""
    reference, _, _ = arm_place(arm, suite)
    if arm.scheme not in ("control", "python"):
        raise LockError(
            f"arm {arm.name!r}: suite {suite.name} takes planners in Python, expected control:NAME, module:attr or"
            f" file.py:attr, got {arm.policy!r}. Wrap a policy behind a server into a planner that rolls it out",
            code="planner_scheme",
        )
    unused = {"adapters": arm.adapters, "declares": arm.declares, "as_suite": arm.as_suite, "mapping": arm.mapping}
    if named := [name for name, value in unused.items() if value]:
        raise LockError(
            f"arm {arm.name!r}: a planner is handed a case and returns a plan, so it has no {', '.join(named)}",
            code="planner_option",
        )
    source = PlannerSource(reference, base, arm.weights, arm.options)
    card = describe_planner(source, timeout_s=budgets.connect_timeout_s)
    declared = PolicySpec(
        expects=ObservationSpec(instruction=False), emits=suite.action, state="none", declared_by="operator"
    )
    return Described(declared, None, (), (), card.document())


def seat_planner(arm: Mapping[str, Any], *, base: Path, budgets: Budgets) -> PlannerSeat:
    """Return the seat of a planner of the lock."""
    choice, card = arm["choice"], arm["planner"]
    return PlannerSeat(
        PlannerSource(arm["reference"], base, tuple(choice["weights"]), dict(choice["options"])),
        PlannerCard(card["id"], card["version"], tuple(card["capabilities"])),
        budgets.connect_timeout_s,
    )
