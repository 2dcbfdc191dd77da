"""Can the motion of a replay be trusted? Told beside every result, never part of it.

Source: atomic skills, section 7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trialplate.record import Row
from trialplate.suites.atomic_skills.readings import Floats, Readings

COLLISION_EVENT = "unintended_contact"
"""Kind of the events that name a pair of geoms and the largest normal force between them."""


@dataclass(frozen=True, slots=True)
class Motion:
    """``valid``: the plan asked for nothing beyond the joint limits. ``detail``: what is wrong, None when nothing is.

    ``unintended_n``: largest normal force of a contact that should not be. ``collisions``: the pairs.
    """

    valid: bool
    trusted: bool
    detail: str | None
    max_tracking_error_rad: float
    unintended_n: float
    collisions: tuple[str, ...]


def judge_motion(r: Readings, row: Row) -> Motion:
    """Return what the motion of a whole replay was like. Grippers are left out of limits and tracking."""
    columns = list(r.case.arm_columns)
    low, high = (
        np.array([getattr(r.case.dof[column], side) for column in columns]) + sign * r.limits.limit_margin
        for side, sign in (("low", -1.0), ("high", 1.0))
    )
    asked = r.trace.action[r.start : r.start + r.waypoints, columns]
    achieved = r.column("q")[1:, columns]
    error_rad = float(np.abs(asked - achieved[: r.waypoints]).max())
    unintended_n = float(r.column("unintended_n")[1:].max())
    valid = _inside(asked, low, high)
    wrong = [
        *([] if valid else ["the plan asks for arm joints beyond their limits"]),
        *([] if _inside(achieved, low, high) else ["arm joints went beyond their limits"]),
        *([] if error_rad <= r.limits.tracking_error_rad else [f"tracking error {error_rad:.4f} rad"]),
        *([] if unintended_n <= r.limits.unintended_n else [f"unintended contact of {unintended_n:.2f} N"]),
    ]
    pairs = tuple(sorted({event.detail for event in row.events if event.kind == COLLISION_EVENT}))
    return Motion(valid, not wrong, "; ".join(wrong) or None, error_rad, unintended_n, pairs)


def _inside(rows: Floats, low: Floats, high: Floats) -> bool:
    return bool(((rows >= low) & (rows <= high)).all())
