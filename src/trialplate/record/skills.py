"""A skill plan as a planner hands it over, and what scoring reads off its replay, stage by stage."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

_OPERATORS = {"le": operator.le, "ge": operator.ge, "lt": operator.lt, "gt": operator.gt}


@dataclass(frozen=True, slots=True)
class SkillPlan:
    """Waypoints for every column of a case.

    ``trajectory`` (T, dof) float64: rad for arm joints, opening fraction (0 closed, 1 open) for grippers. ``dt_s``:
    the planner's own spacing; recorded, and not used by a scored replay. ``segments``: name -> half-open slice of
    waypoints with step 1. ``belief``: what the planner thinks of its own success, for example ``{"grasped": True}``;
    recorded, never scored.
    """

    trajectory: NDArray[np.float64]
    dt_s: float
    segments: Mapping[str, slice]
    belief: Mapping[str, bool] | None = None


@dataclass(frozen=True, slots=True)
class StagePart:
    """One number that a stage looks at: it holds when ``value`` keeps to ``threshold`` in the sense of ``op``.

    ``op``: ``le`` or ``ge``, inclusive, ``lt`` or ``gt``. ``value`` is rounded to 1e-12 of its unit,
    so that a sum of decimals that is exact on paper is exact here.
    """

    name: str
    value: float
    op: Literal["le", "ge", "lt", "gt"]
    threshold: float
    unit: str

    @property
    def holds(self) -> bool:
        """Whether the number keeps to the threshold."""
        return bool(_OPERATORS[self.op](self.value, self.threshold))


@dataclass(frozen=True, slots=True)
class StageRecord:
    """One stage of a skill as it was read.

    ``passed``: None for a stage that was not reached. ``value``, ``unit``, ``threshold``: of the part that decides,
    the first that does not hold or else the first. ``sample``: index of the waypoint whose end was read, counted on
    through the settle; None when nothing was read. ``parts``: every number that was looked at.
    """

    stage: str
    reached: bool
    passed: bool | None
    value: float | None
    unit: str | None
    threshold: float | None
    sample: int | None
    parts: tuple[StagePart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFacts:
    """What is told of a trial of a skill beside its outcome; none of it decides the status but ``stages``.

    ``failure_detail``: the code that goes with a reason, None where there is none. ``believed``: the planner's word.
    ``trusted`` and ``motion_valid``: None when nothing was replayed, then ``motion_detail`` is ``not_replayed``.
    ``max_tracking_error_rad``: over arm joints and waypoints. ``collisions``: unintended contacts, the strongest of
    each pair. ``diagnostics``: numbers that are shown and never scored. ``plan_time_us``: None when nothing was
    planned.
    """

    skill: str
    case_set: str
    case_domain: str | None
    axis: str | None
    difficulty: str
    stages: tuple[StageRecord, ...]
    failure_detail: str | None = None
    believed: Mapping[str, bool] = field(default_factory=dict)
    measured: Mapping[str, bool] = field(default_factory=dict)
    trusted: bool | None = None
    motion_valid: bool | None = None
    motion_detail: str | None = "not_replayed"
    max_tracking_error_rad: float | None = None
    max_tracking_error_rad_reason: str | None = "not_replayed"
    unintended_n: float | None = None
    collisions: tuple[str, ...] = ()
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    plan_time_us: int | None = None
