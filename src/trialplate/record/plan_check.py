"""Is a plan one that can be replayed? Nothing is repaired: a plan that breaks a rule is not replayed.

Source: atomic skills, section 6, steps 6 and 7.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from trialplate.errors import CaseFault, PlanFault
from trialplate.record.skills import SkillPlan
from trialplate.spec.skills import SkillCase

MIN_WAYPOINTS, MAX_WAYPOINTS = 2, 20_000
MAX_SEGMENTS = 64
MAX_NAME = 64


def check_trajectory(plan: SkillPlan, case: SkillCase) -> None:
    """Raise PlanFault ``planner_reported_failure`` with a detail where a plan cannot be replayed as it is.

    Arm targets beyond the joint limits are not refused: they are replayed, and told of.
    """
    rows, dof = plan.trajectory, len(case.dof)
    if not isinstance(rows, np.ndarray) or not np.issubdtype(rows.dtype, np.floating):
        kind = rows.dtype if isinstance(rows, np.ndarray) else type(rows).__name__
        raise _refused("wrong_dtype", f"the trajectory is {kind}, expected a float array (T, {dof})")
    if rows.dtype.itemsize > 8:
        raise _refused("wrong_dtype", f"the trajectory is {rows.dtype}, expected float64: nothing is rounded here")
    if rows.ndim == 2 and len(rows) > MAX_WAYPOINTS:
        raise _refused("too_long", f"{len(rows)} waypoints, expected at most {MAX_WAYPOINTS}")
    if rows.size == 0 or (rows.ndim == 2 and len(rows) < MIN_WAYPOINTS):
        raise _refused(
            "empty_trajectory", f"the trajectory has shape {rows.shape}, expected at least {MIN_WAYPOINTS} waypoints"
        )
    if rows.ndim != 2 or rows.shape[1] != dof:
        names = ", ".join(column.name for column in case.dof)
        raise _refused("wrong_dof", f"the trajectory has shape {rows.shape}, expected (T, {dof}): {names}")
    if not np.isfinite(rows).all():
        row, column = (int(index) for index in np.argwhere(~np.isfinite(rows))[0])
        raise _refused("non_finite_trajectory", f"waypoint {row}, {case.dof[column].name}: {rows[row, column]}")
    if not _positive(plan.dt_s):
        raise _refused("bad_dt", f"dt_s is {plan.dt_s!r}, expected a finite number above 0")
    _check_grippers(plan, case)


def _positive(number: Any) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return 0 < number <= sys.float_info.max


def _check_grippers(plan: SkillPlan, case: SkillCase) -> None:
    for column in case.gripper_columns:
        values = plan.trajectory[:, column]
        outside = np.flatnonzero((values < 0.0) | (values > 1.0))
        if outside.size:
            row = int(outside[0])
            raise _refused(
                "gripper_out_of_range",
                f"waypoint {row}, {case.dof[column].name}: {values[row]!r}, expected an opening fraction in [0, 1]",
            )


def check_segments(segments: Mapping[str, Any], required: Sequence[str], *, waypoints: int) -> None:
    """Raise CaseFault ``invalid_case`` where the required segments are not there, in order and apart.

    ``segments``: name -> slice. Gaps and further names are allowed.
    """
    for name in required:
        if name not in segments:
            raise CaseFault(
                f"the plan has no segment {name!r}{_offer(name, segments)}: it is never guessed which waypoints were"
                " meant",
                detail="missing_segment",
            )
    end, before = 0, ""
    for name in required:
        start, stop = _bounds(name, segments[name], waypoints=waypoints)
        if start < end:
            raise CaseFault(
                f"segment {name!r} starts at {start}, before the end of {before!r} at {end}; expected the order"
                f" {', '.join(required)} without overlap",
                detail="segment_order",
            )
        end, before = stop, name


def _bounds(name: str, part: Any, *, waypoints: int) -> tuple[int, int]:
    start, stop = getattr(part, "start", None), getattr(part, "stop", None)
    if type(start) is not int or type(stop) is not int or getattr(part, "step", None) not in (None, 1):
        raise CaseFault(
            f"segment {name!r} is {part!r}, expected a slice of two whole numbers with step 1",
            detail="segment_out_of_range",
        )
    if stop <= start:
        raise CaseFault(
            f"segment {name!r} is [{start}, {stop}): expected a stop above its start", detail="segment_order"
        )
    if start < 0 or stop > waypoints:
        raise CaseFault(
            f"segment {name!r} is [{start}, {stop}): the plan has waypoints 0 to {waypoints - 1}",
            detail="segment_out_of_range",
        )
    return start, stop


def _offer(name: str, segments: Mapping[str, Any]) -> str:
    found = [key for key in segments if isinstance(key, str)]
    close = get_close_matches(name, found, n=1, cutoff=0.5)
    if close:
        return f"; it has {close[0]!r}, did you mean {name!r}?"
    return f"; it has {', '.join(sorted(found)[:12])}" if found else "; it has none at all"


def _refused(detail: str, message: str) -> PlanFault:
    return PlanFault(message, code="planner_reported_failure", detail=detail)
