"""One pick and place as a sequence of phases, driven by what its user believes about the scene.

The oracle feeds it measurements, the scripted arm feeds it what it sees; the motion is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trialplate.suites.pick_place.motion import CLOSE, OPEN, TOP_SPEED_M, quarter_turn_rad, still, straight
from trialplate.suites.pick_place.settings import ActionScale

FloatArray = NDArray[np.float64]

LOWEST_GRASP_M = 0.012
"""Lowest tool centre at a grasp: the finger tips are 0.009 m below it."""
SET_DOWN_M = 0.002
"""The block is let go this far above where it rests."""
CARRYING_SPEED_M = 0.028
NEAR_SPEED_M = 0.016
MOVED_M = 0.012
"""A block that is believed this far from where the hand descends has moved: the approach starts again."""
OPEN_GAP_M = 0.07
RETREAT_M = 0.10
CLOSING_STEPS = 16
HOLD_STEPS = 14


@dataclass(frozen=True, slots=True)
class Belief:
    """What the user of a sequence takes for true now, in the world frame.

    ``hand_m`` (3,) is the commanded tool centre, ``block_m`` (3,) the block's centre, ``goal_m`` (2,) the goal's;
    ``rest_m`` is the height of the centre of a resting block; ``gap_m`` the opening of the fingers.
    """

    hand_m: FloatArray
    hand_yaw_rad: float
    block_m: FloatArray
    block_yaw_rad: float
    goal_m: FloatArray
    rest_m: float
    holds: bool
    gap_m: float


class PickSequence:
    """Approach, descend, close, lift, carry, lower, open, retreat, hold.

    ``carry_m`` is a height of the tool centre that is free of things; at most ``rows`` actions come at a time, and
    ``wait_rows`` while the gripper closes or opens.
    """

    def __init__(self, *, carry_m: float, scale: ActionScale, rows: int, wait_rows: int = 2) -> None:
        self._carry_m = carry_m
        self._scale = scale
        self._rows = rows
        self._wait_rows = wait_rows
        self._phase = "approach"
        self._speed_m = 0.0
        self._spent = 0
        self._grip_m = np.zeros(3)
        self._left_from_m = np.zeros(3)
        self._phases: dict[str, Callable[[Belief], FloatArray | None]] = {
            "approach": self._approach,
            "descend": self._descend,
            "close": self._close,
            "lift": self._lift,
            "carry": self._carry,
            "lower": self._lower,
            "open": self._open,
            "retreat": self._retreat,
            "hold": self._hold,
        }

    @property
    def phase(self) -> str:
        """The present phase."""
        return self._phase

    def next_rows(self, belief: Belief) -> FloatArray | None:
        """Return the next actions (n, 7), n >= 1, or None when the block was placed and stayed.

        A phase that has nothing left to do hands over to the next one within the same call.
        """
        while True:
            phase = self._phase
            rows = self._phases[phase](belief)
            if rows is None or len(rows):
                return rows
            if self._phase == phase:
                self._enter(self._after(phase), belief)

    def _after(self, phase: str) -> str:
        names = list(self._phases)
        return names[names.index(phase) + 1]

    def _enter(self, phase: str, belief: Belief) -> None:
        self._phase, self._speed_m, self._spent = phase, 0.0, 0
        if phase == "lift":
            self._grip_m = belief.hand_m - belief.block_m
        self._left_from_m = belief.hand_m.copy()

    def _go(
        self,
        belief: Belief,
        target_m: FloatArray,
        *,
        gripper: float,
        top_speed_m: float = TOP_SPEED_M,
        turn_rad: float = 0.0,
    ) -> FloatArray:
        rows = straight(
            target_m - belief.hand_m,
            gripper=gripper,
            scale=self._scale,
            rows=self._rows,
            speed_m=self._speed_m,
            top_speed_m=top_speed_m,
            turn_rad=turn_rad,
        )
        if len(rows):
            self._speed_m = float(np.sqrt((rows[-1, :3] ** 2).sum())) * self._scale.translation_m
        return rows

    def _wait(self, steps: int, *, gripper: float) -> FloatArray:
        """Return rows until ``steps`` of this phase are spent."""
        rows = min(self._rows, steps - self._spent)
        self._spent += max(rows, 0)
        return still(max(rows, 0), gripper=gripper)

    def _restart(self, belief: Belief) -> FloatArray:
        self._enter("approach", belief)
        return still(0, gripper=OPEN)

    def _approach(self, belief: Belief) -> FloatArray:
        turn_rad = quarter_turn_rad(belief.block_yaw_rad - belief.hand_yaw_rad)
        target_m = np.array([*belief.block_m[:2], self._carry_m])
        return self._go(belief, target_m, gripper=OPEN, turn_rad=turn_rad)

    def _descend(self, belief: Belief) -> FloatArray:
        if math.dist(belief.hand_m[:2], belief.block_m[:2]) > MOVED_M:
            return self._restart(belief)
        target_m = np.array([*belief.block_m[:2], max(belief.block_m[2], LOWEST_GRASP_M)])
        return self._go(belief, target_m, gripper=OPEN, top_speed_m=NEAR_SPEED_M)

    def _close(self, belief: Belief) -> FloatArray:
        if belief.holds:
            return still(0, gripper=CLOSE)
        if self._spent >= CLOSING_STEPS:
            return self._restart(belief)
        self._spent += self._wait_rows
        return still(self._wait_rows, gripper=CLOSE)

    def _lift(self, belief: Belief) -> FloatArray:
        if not belief.holds:
            return self._restart(belief)
        target_m = np.array([*self._left_from_m[:2], self._carry_m])
        return self._go(belief, target_m, gripper=CLOSE, top_speed_m=CARRYING_SPEED_M)

    def _carry(self, belief: Belief) -> FloatArray:
        if not belief.holds:
            return self._restart(belief)
        target_m = np.array([*(belief.goal_m + self._grip_m[:2]), self._carry_m])
        return self._go(belief, target_m, gripper=CLOSE, top_speed_m=CARRYING_SPEED_M)

    def _lower(self, belief: Belief) -> FloatArray:
        if not belief.holds:
            return self._restart(belief)
        height_m = belief.rest_m + self._grip_m[2] + SET_DOWN_M
        target_m = np.array([*(belief.goal_m + self._grip_m[:2]), height_m])
        return self._go(belief, target_m, gripper=CLOSE, top_speed_m=NEAR_SPEED_M)

    def _open(self, belief: Belief) -> FloatArray:
        if belief.gap_m >= OPEN_GAP_M:
            return still(0, gripper=OPEN)
        return still(self._wait_rows, gripper=OPEN)

    def _retreat(self, belief: Belief) -> FloatArray:
        return self._go(belief, self._left_from_m + np.array([0.0, 0.0, RETREAT_M]), gripper=OPEN)

    def _hold(self, belief: Belief) -> FloatArray | None:
        rows = self._wait(HOLD_STEPS, gripper=OPEN)
        return rows if len(rows) else None
