"""A skill case as a document, and the closed list of reasons for which a trial of a skill does not pass.

Source: atomic skills, sections 4 and 9.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from trialplate.canonical import document_sha256
from trialplate.errors import EvidenceError
from trialplate.spec.channels import Frozen

Finite = Annotated[float, Field(allow_inf_nan=False)]
Pose = tuple[Finite, Finite, Finite, Finite, Finite, Finite, Finite]
CaseSet = Literal["nominal", "robustness", "adaptability"]
UNLABELLED = ("set", "domain", "axis")
"""Members that are null in a planner's copy of a case."""

FAULT_TABLE: Mapping[str, str] = {
    "planner_exception": "FAIL",
    "planner_reported_failure": "FAIL",
    "timeout": "FAIL",
    "object_not_grasped": "FAIL",
    "object_dropped": "FAIL",
    "release_failure": "FAIL",
    "task_goal_miss": "FAIL",
    "unsupported_capability": "EXCLUDED",
    "invalid_case": "ERROR",
}
"""Every reason that a trial of a skill can have, and its status where the protocol registers no other."""

REMAPPABLE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("planner_exception", "planner_reported_failure", "timeout"), ("FAIL", "ERROR")),
    **{reason: (status,) for reason, status in FAULT_TABLE.items() if not reason.startswith(("planner_", "time"))},
}
"""Reason -> the statuses that a protocol may register for it."""

PLAN_DETAILS = (
    "empty_trajectory",
    "too_long",
    "non_finite_trajectory",
    "wrong_dof",
    "wrong_dtype",
    "bad_dt",
    "gripper_out_of_range",
)
"""Details of ``planner_reported_failure`` for a plan that is none."""

RESET, SETUP, WAYPOINT, SETTLE = 0, 1, 2, 3
"""Values of the column ``sample_kind``: what led to a row of a trace."""
Phase = Literal["setup", "waypoint", "settle"]
PHASES: Mapping[int, Phase] = {SETUP: "setup", WAYPOINT: "waypoint", SETTLE: "settle"}

CASE_DETAILS = (
    "missing_segment",
    "segment_out_of_range",
    "segment_order",
    "setup_failed",
    "vacuous_at_start",
    "initial_contact",
    "perturbation_not_applied",
    "equality_constraint",
    "replay_crash",
    "replay_diverged",
    "trace_incomplete",
    "interrupted",
)
"""Details of ``invalid_case``."""

ASSET_MISSING = "asset_missing"
"""Detail of ``reset_failed`` where a robot of a held-out domain is not on the machine, and why rates are unknown."""


class Dof(Frozen):
    """One column of a plan. ``unit``: ``rad`` for an arm joint, ``1`` for the opening fraction of a gripper."""

    name: str
    unit: Literal["rad", "1"]
    low: Finite
    high: Finite


class SkillCase(Frozen):
    """One frozen scene, start, command and skill.

    ``q_start`` (dof,) in the units of ``dof``. ``poses``: name -> x, y, z in m and a unit quaternion wxyz, in the
    world's frame. ``command``: what the skill is asked for. ``segments``: required names, in order. ``world``: the
    scene as the suite builds it. ``screen``: whether a grasp was attainable when the suite was built, and
    how that was found; None for skills that sample none. ``case_sha256``: digest of every other member.
    """

    case_id: str
    skill: str
    set: CaseSet | None
    domain: str | None
    axis: str | None
    difficulty: Literal["simple", "medium", "hard"]
    scene: str
    model_path: str
    q_start: Annotated[tuple[Finite, ...], Field(min_length=1)]
    dof: Annotated[tuple[Dof, ...], Field(min_length=1)]
    poses: dict[str, Pose]
    command: dict[str, Any]
    segments: Annotated[tuple[str, ...], Field(min_length=1)]
    required_capabilities: tuple[str, ...]
    grasp_seed: Annotated[int, Field(ge=0)]
    plan_timeout_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 60.0
    world: dict[str, Any] = Field(default_factory=dict)
    screen: dict[str, Any] | None = None
    case_sha256: str

    @model_validator(mode="after")
    def _columns_fit(self) -> SkillCase:
        if len(self.q_start) != len(self.dof):
            raise ValueError(f"q_start has {len(self.q_start)} numbers, dof names {len(self.dof)} columns")
        names = [column.name for column in self.dof]
        if len(set(names)) != len(names):
            raise ValueError(f"columns of dof repeat: {names}")
        return self

    @property
    def arm_columns(self) -> tuple[int, ...]:
        """Indices of the columns that are arm joints."""
        return tuple(index for index, column in enumerate(self.dof) if column.unit == "rad")

    @property
    def gripper_columns(self) -> tuple[int, ...]:
        """Indices of the columns that are grippers, one for each arm in their order."""
        return tuple(index for index, column in enumerate(self.dof) if column.unit == "1")

    @property
    def attainable(self) -> bool:
        """Whether the screen of the manifest found a grasp; True where none is sampled."""
        return self.screen is None or self.screen.get("attainable") is not False


def skill_case(document: Mapping[str, Any]) -> SkillCase:
    """Return a case from its document. Raises EvidenceError that names the first member that does not fit."""
    try:
        return SkillCase.model_validate_json(json.dumps(dict(document)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        name = document.get("case_id")
        raise EvidenceError(f"skill case {name!r}: {place}: {first['msg']}", code="case_malformed") from None


def case_sha256(document: Mapping[str, Any]) -> str:
    """Return the digest that stands in ``case_sha256``: of every other member."""
    return document_sha256({key: value for key, value in document.items() if key != "case_sha256"})


def shown_case(document: Mapping[str, Any], *, repeat: int) -> dict[str, Any]:
    """Return the copy of a case that a planner sees in a repeat (from 0): unlabelled, its grasp seed moved along."""
    blank: dict[str, Any] = dict.fromkeys(UNLABELLED)
    return {**document, **blank, "grasp_seed": document["grasp_seed"] + repeat}
