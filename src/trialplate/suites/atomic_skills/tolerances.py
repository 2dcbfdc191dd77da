"""Every number that decides about a stage or about trust, with its version. They go into the lock.

Absolute, inclusive, never scaled by the command. Source: atomic skills, sections 7 and 12.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from trialplate.spec.channels import Frozen

VERSION = "1"
SetName = Literal["PRIMITIVE", "TASK"]


class Tolerance(Frozen):
    """How far a pose may be from what was asked for."""

    position_m: float
    rotation_rad: float


class Scoring(Frozen):
    """All of them.

    ``engaged``: motion in m or rad that shows that a target was moved. ``pad_force_n``: normal force on each finger
    of a hand that holds. ``press_fraction``: of the usable stroke. ``hand_over_phases``: contact phases of a hand
    over, each of which may cost one position tolerance.
    """

    version: str = VERSION
    primitive: Tolerance = Tolerance(position_m=0.003, rotation_rad=math.radians(0.3))
    task: Tolerance = Tolerance(position_m=0.01, rotation_rad=math.radians(5.0))
    lift_m: float = 0.04
    press_fraction: float = 0.80
    drop_m: float = 0.15
    engaged: float = 1e-3
    pad_force_n: float = 0.1
    hand_over_phases: int = 3
    tracking_error_rad: float = 0.10
    limit_margin: float = 1e-3
    unintended_n: float = 1.0
    settle_rows: int = 80
    setup_hold_rows: int = 10


SCORING = Scoring()
PRIMITIVE_SKILLS = ("move_joints", "move_end_effector")
CALIBRATED_SKILLS = ("slide", "open_door", "axis_align", "pour", "twist", "move_held_object")
"""Skills of the TASK set whose quantity the arm still controls at the instant: a calibration looks at these."""


def tolerance_set(skill: str) -> SetName:
    """Return the tolerance set of a skill."""
    return "PRIMITIVE" if skill in PRIMITIVE_SKILLS else "TASK"


SETTINGS: dict[str, Any] = {"scoring": SCORING.model_dump(mode="json")}
"""What they contribute to the settings of the suite in a lock."""
