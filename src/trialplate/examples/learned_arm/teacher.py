"""The demonstrator: the oracle's phases as a memoryless rule, so that it can label any state a student gets into.

It is privileged in one thing: it knows whether the grasp attachment holds. Where block and goal are it takes from the
same filtered estimates as the student, because an aim that the student cannot see cannot be imitated.
"""

from __future__ import annotations

import math

import numpy as np
from policy import ACTION_M, CHUNK_ROWS, GOAL_RADIUS_M, OPEN_GAP_M, ROW_NUMBERS, FloatArray, Situation

CLOSE, OPEN = 1.0, -1.0
CARRY_M = 0.19
"""Height of the tool centre on the way, above everything the generator stands there: the student sees no obstacle."""
RETREAT_M = 0.12
LOWEST_GRASP_M = 0.012
SET_DOWN_M = 0.003
TOP_STEP_M = 0.026
BRAKING = 0.38  # share of the remaining way that one step may take
FUNNEL = 4.0  # height gained per metre off the axis of a descent
ON_AXIS_M = 0.004
AT_GRASP_M = 0.005
LIFT_FIRST_M = 0.06
EMPTY_GAP_M = 0.008

Row = tuple[FloatArray, float]
"""A step of the tool centre (3,) in m, and the gripper command."""


def label(situation: Situation, *, attached: bool) -> FloatArray:
    """Return the rows (CHUNK_ROWS, 4) that the demonstrator would send now.

    The hand goes where it is sent; what the gripper does is not foreseen: after a change of its command the
    remaining rows wait.
    """
    hand_m = situation.hand_m.copy()
    rows = np.zeros((CHUNK_ROWS, ROW_NUMBERS))
    first: float | None = None
    waits: float | None = None
    for row in rows:
        step_m, gripper = _row(hand_m, situation, attached=attached)
        first = gripper if first is None else first
        waits = waits or (gripper if gripper != first else None)
        row[:3] = 0.0 if waits else step_m / ACTION_M
        row[3] = waits or gripper
        hand_m = hand_m + row[:3] * ACTION_M
    return rows


def _row(hand_m: FloatArray, situation: Situation, *, attached: bool) -> Row:
    if attached:
        return _carry(hand_m, situation)
    if math.hypot(*(situation.goal_m - situation.block_m[:2])) < GOAL_RADIUS_M - 0.005:
        return _leave(hand_m, situation)
    return _fetch(hand_m, situation)


def _carry(hand_m: FloatArray, situation: Situation) -> Row:
    away_m = situation.goal_m - hand_m[:2]
    off_m = math.hypot(*away_m)
    grasp_m = max(situation.rest_m, LOWEST_GRASP_M)
    if off_m < 2 * ON_AXIS_M and hand_m[2] < grasp_m + 2 * SET_DOWN_M:
        return np.zeros(3), OPEN
    height_m = min(CARRY_M, grasp_m + SET_DOWN_M + FUNNEL * max(0.0, off_m - ON_AXIS_M))
    lifted = (hand_m[2] - grasp_m - LIFT_FIRST_M) / LIFT_FIRST_M
    share = 1.0 if off_m < 1.5 * GOAL_RADIUS_M else min(1.0, max(0.0, lifted))
    return _towards(away_m, height_m - hand_m[2], share=share), CLOSE


def _leave(hand_m: FloatArray, situation: Situation) -> Row:
    if situation.gap_m < OPEN_GAP_M:
        return np.zeros(3), OPEN
    return _towards(np.zeros(2), RETREAT_M - hand_m[2], share=1.0), OPEN


def _fetch(hand_m: FloatArray, situation: Situation) -> Row:
    away_m = situation.block_m[:2] - hand_m[:2]
    off_m = math.hypot(*away_m)
    grasp_m = max(situation.rest_m, LOWEST_GRASP_M)
    if off_m < 1.5 * ON_AXIS_M and abs(hand_m[2] - grasp_m) < AT_GRASP_M:
        closing = situation.gripper >= 0.0
        ready = situation.gap_m > EMPTY_GAP_M if closing else situation.gap_m > OPEN_GAP_M
        return np.zeros(3), CLOSE if ready else OPEN
    height_m = min(CARRY_M, grasp_m + FUNNEL * max(0.0, off_m - ON_AXIS_M))
    share = min(1.0, max(0.0, 2.0 - (height_m - hand_m[2]) / 0.02))
    return _towards(away_m, height_m - hand_m[2], share=share), OPEN


def _towards(away_m: FloatArray, up_m: float, *, share: float) -> FloatArray:
    """Return one step (3,): braking in the last centimetres, at most ``TOP_STEP_M`` long, sideways by ``share``."""
    step_m = np.array([*(away_m * share), up_m]) * BRAKING
    length_m = math.hypot(*step_m)
    return step_m * min(1.0, TOP_STEP_M / length_m) if length_m > 0.0 else step_m
