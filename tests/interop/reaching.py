"""The few lines of a policy that runs on both sides: numpy only, the same bits under numpy 1 and 2."""

import numpy as np

GOAL_M, STRIDE_M = np.array([0.5, 0.0, 0.3]), 0.04


def rows_for(position_m):
    """Return two rows (2, 7) of float32 that lead towards the goal; the gripper closes there."""
    rest_m = GOAL_M - position_m
    rows = np.zeros((2, 7), dtype=np.float32)
    for row in rows:
        move_m = np.minimum(np.maximum(rest_m, -STRIDE_M), STRIDE_M)
        row[:3], row[6] = move_m, 0.0 if np.abs(rest_m).max() < 1e-6 else 1.0
        rest_m = rest_m - move_m
    return rows
