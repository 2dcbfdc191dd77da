"""How scripted arms move: straight lines of small Cartesian deltas, and one sequence from approach to rest.

Pure numbers, no simulator. An action is 7 numbers in [-1, 1]; see ``channels.action_spec``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trialplate.suites.pick_place.geometry import rotate
from trialplate.suites.pick_place.settings import ActionScale

FloatArray = NDArray[np.float64]

OPEN, CLOSE = -1.0, 1.0
TOP_SPEED_M = 0.032  # per control step
SPEED_GAIN_M = 0.008  # most by which the speed grows from one step to the next
BRAKING = 0.45  # share of the remaining way that one step may take
ARRIVED_M = 0.0008
TURN_RAD = 0.06  # most that one step turns the hand
ARRIVED_RAD = 0.004


def straight(
    offset_m: FloatArray,
    *,
    gripper: float,
    scale: ActionScale,
    rows: int,
    speed_m: float = 0.0,
    top_speed_m: float = TOP_SPEED_M,
    turn_rad: float = 0.0,
) -> FloatArray:
    """Return at most ``rows`` actions (n, 7) along ``offset_m`` (3,), while turning about the vertical.

    Speeds are metres per control step: the first step starts from ``speed_m``, grows by ``SPEED_GAIN_M`` and is at
    most ``top_speed_m``; the last ones slow down. Fewer rows come back when the way ends earlier, none at the end.
    """
    left = offset_m.copy()
    actions = []
    for _ in range(rows):
        distance_m = float(np.sqrt(left @ left))
        if distance_m < ARRIVED_M and abs(turn_rad) < ARRIVED_RAD:
            break
        speed_m = min(speed_m + SPEED_GAIN_M, top_speed_m, max(distance_m * BRAKING, 2 * ARRIVED_M))
        share = min(1.0, speed_m / distance_m) if distance_m > 0.0 else 0.0
        turn = math.copysign(min(abs(turn_rad), TURN_RAD), turn_rad)
        step = left * share
        actions.append([*(step / scale.translation_m), 0.0, 0.0, turn / scale.rotation_rad, gripper])
        left = left - step
        turn_rad -= turn
    return np.array(actions, dtype=np.float64).reshape(-1, 7)


def still(rows: int, *, gripper: float) -> FloatArray:
    """Return ``rows`` actions (rows, 7) that do not move the hand."""
    actions = np.zeros((rows, 7))
    actions[:, 6] = gripper
    return actions


def yaw_rad(quat_wxyz: Sequence[float]) -> float:
    """Return the turn about the vertical of a frame's x axis."""
    x, y, _ = rotate(quat_wxyz, (1.0, 0.0, 0.0))
    return math.atan2(y, x)


def quarter_turn_rad(angle_rad: float) -> float:
    """Return the equal angle of a square's symmetry in [-45 deg, 45 deg)."""
    quarter = math.pi / 2
    return (angle_rad + quarter / 2) % quarter - quarter / 2
