"""A made comparison of four arms over shared families, with cost and time known, and a run that ended early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from made_campaign import SCENARIOS, STAGES, SUITE, conduct, lock_document, outcome, strip

from trialplate.claims import judge_claims
from trialplate.record import Outcome, StageResult, Status
from trialplate.report import Media, ReportData
from trialplate.scoring.stopping import stopping_of
from trialplate.scoring.summary import analyse_outcomes
from trialplate.spec.channels import ActionComponent, ActionSpec
from trialplate.spec.plan import AnalysisPlan, ClaimRule, CostClaim, NonInferiorityClaim, SuperiorityClaim

ARMS = ("atlas-2", "birch", "cedar-mini", "dune")
SHARES = {"atlas-2": 0.84, "birch": 0.62, "cedar-mini": 0.8, "dune": 0.82}
COSTS = {"atlas-2": 0.031, "birch": 0.012, "cedar-mini": 0.004, "dune": 0.022}
PAIRS = (("atlas-2", "birch"), ("atlas-2", "dune"), ("cedar-mini", "birch"))
RULES: tuple[ClaimRule, ...] = (
    SuperiorityClaim(name="ahead-of-birch", kind="superiority", arm="atlas-2", against="birch"),
    NonInferiorityClaim(name="keeps-up", kind="non_inferiority", arm="atlas-2", against="dune", margin=0.08),
    CostClaim(name="cheaper", kind="cost_efficiency", arm="cedar-mini", against="birch"),
)
ACTION = ActionSpec(
    control_hz=20.0,
    dim=2,
    components=(
        ActionComponent(
            name="joints", dim=2, kind="joint_position", mode="absolute", delta_base=None, unit="rad", frame="joint",
            rotation=None, gripper=None, low=(-3.0, -3.0), high=(3.0, 3.0),
        ),
    ),
)  # fmt: skip


@cache
def four_arms(repeats: int = 3, *, seed: int = 20260926) -> tuple[Outcome, ...]:
    """Every trial of four arms; a family is a scenario with its repeats, and hard ones are hard for every arm."""
    draws = np.random.default_rng(seed)
    ease = draws.normal(0.0, 0.12, len(SCENARIOS))
    made: list[Outcome] = []
    for arm, share in SHARES.items():
        for number in range(len(SCENARIOS)):
            for repeat in range(repeats):
                passes, missed = draws.random() < share + ease[number], int(draws.integers(0, len(STAGES)))
                climbed = len(STAGES) if passes else missed
                made.append(_ended(outcome(arm, number, climbed=climbed, ordinal=len(made)), repeat, draws))
    return tuple(made)


def _ended(made: Outcome, repeat: int, draws: Any) -> Outcome:
    """The same outcome with times of its own and a metered cost for every call."""
    gap = int(draws.integers(14, 34))
    stages = tuple(
        StageResult(s.name, s.passed, gap * (n + 1) if s.passed else None) for n, s in enumerate(made.stages)
    )
    stops = made.status is Status.FAIL and draws.random() < 0.45
    steps = gap * len(STAGES) + 10 if made.status is Status.PASS else int(draws.integers(40, 290)) if stops else 300
    told = conduct("vla-small", steps=steps)
    usage = dict(told.usage or {}) | {"cost": round(COSTS[made.arm] * told.calls, 6)}
    return replace(
        made, repeat=repeat, stages=stages, control_steps=steps, conduct=replace(told, usage=usage),
        termination="policy_stop" if stops or made.status is Status.PASS else "step_limit",
    )  # fmt: skip


def four_arm_data(
    made: Sequence[Outcome] | None = None,
    *,
    rules: Sequence[ClaimRule] = RULES,
    plan: AnalysisPlan | None = None,
    planned: Sequence[Outcome] | None = None,
    repeats: int = 3,
    pictures: bool = False,
    **protocol: Any,
) -> ReportData:
    """The whole input of a report on four arms. ``planned``: of every planned trial, where not all were run."""
    chosen = four_arms(repeats) if made is None else tuple(made)
    roles = dict.fromkeys(ARMS, "arm")
    plan = (
        plan
        if plan is not None
        else AnalysisPlan(
            comparisons=PAIRS, draws=6000, registered_effect=0.1, registered_discordance=0.35, design_effect=1.5
        )
    )
    protocol |= {"name": "four-arms", "question": "Which of four policies places more blocks, and at what cost?"}
    lock = lock_document(roles, **protocol)
    lock["suite"]["action"] = ACTION.model_dump(mode="json")
    lock["schedule"] = [
        {"trial_id": o.trial_id, "arm": o.arm, "scenario": o.scenario, "repeat": o.repeat}
        for o in sorted(planned or chosen, key=lambda o: (o.scenario, o.repeat, ARMS.index(o.arm)))
    ]
    analysis = analyse_outcomes(
        chosen, planned={arm: sum(o.arm == arm for o in chosen) for arm in ARMS}, stages=STAGES,
        errors_rule="bounds", plan=plan, tested=ARMS, action=ACTION, stopping=stopping_of(lock, chosen),
    )  # fmt: skip
    missed = [o for o in chosen if o.status is not Status.PASS]
    media = {o.trial_id: Media(filmstrip_jpeg=strip(n % 5)) for n, o in enumerate(missed)}
    return ReportData(
        lock=lock, lock_sha256="8e" * 32, suite=SUITE, analysis=analysis, claims=judge_claims(analysis, rules, ()),
        outcomes=chosen, media=media if pictures else {},
    )  # fmt: skip
