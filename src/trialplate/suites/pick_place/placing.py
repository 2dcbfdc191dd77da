"""Where the block starts, where it has to go, and where other things may stand: points (x, y) on the table, in m."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from trialplate.errors import UsageError
from trialplate.suites.pick_place.draw import Draw

Point = tuple[float, float]

WORK_X_M = (0.35, 0.65)
WORK_Y_M = (-0.25, 0.25)
NOMINAL_X_M = (0.40, 0.60)
NOMINAL_Y_M = (-0.20, 0.20)
CENTRE_M = (0.50, 0.0)
RIM_M: tuple[Point, ...] = ((0.34, 0.25), (0.66, -0.23), (0.66, 0.23))
CLEAR_OF_HAND_M = 0.15
"""The open hand reaches 0.11 m to either side of the fingers; nothing tall stands nearer to a grasp or a release."""

_TRIES = 10_000
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Spot:
    """Start and goal of the block, and its turn about the vertical at the start."""

    start_m: Point
    goal_m: Point
    yaw_rad: float = 0.0


def nominal(draw: Draw) -> Spot:
    """Both inside the nominal rectangle, 0.18 to 0.32 m apart."""

    def pair() -> Spot:
        return Spot(_point(draw, NOMINAL_X_M, NOMINAL_Y_M), _point(draw, NOMINAL_X_M, NOMINAL_Y_M))

    return _first(pair, lambda spot: 0.18 <= math.dist(spot.start_m, spot.goal_m) <= 0.32)


def centred(draw: Draw) -> Spot:
    """The start within 0.03 m of the middle of the work area."""
    x_m, y_m = CENTRE_M
    start_m = (draw.uniform(x_m - 0.02, x_m + 0.02), draw.uniform(y_m - 0.02, y_m + 0.02))
    goal_m = _first(lambda: _point(draw, NOMINAL_X_M, NOMINAL_Y_M), lambda at: math.dist(at, start_m) >= 0.16)
    return Spot(start_m, goal_m)


def at_the_rim(draw: Draw, n: int) -> Spot:
    """The start at the rim of the reachable work area."""
    goal_m = (draw.uniform(0.46, 0.54), draw.uniform(-0.05, 0.05))
    return Spot(RIM_M[n], goal_m)


def wide(draw: Draw) -> Spot:
    """Start and goal on opposite sides, far enough apart for things to stand in between."""
    side = 1.0 if draw.unit() < 0.5 else -1.0
    start_m = (draw.uniform(0.42, 0.56), round(side * draw.uniform(0.18, 0.21), 4))
    goal_m = (draw.uniform(0.42, 0.56), round(-side * draw.uniform(0.18, 0.21), 4))
    return Spot(start_m, goal_m)


def anywhere(draw: Draw) -> Spot:
    """Both drawn over the whole work area, the block turned by up to 15 deg."""
    yaw_rad = draw.uniform(-0.26, 0.26)

    def pair() -> Spot:
        return Spot(_point(draw, WORK_X_M, WORK_Y_M), _point(draw, WORK_X_M, WORK_Y_M), yaw_rad)

    return _first(pair, lambda spot: math.dist(spot.start_m, spot.goal_m) >= 0.18)


def clutter(draw: Draw, spot: Spot, *, count: int) -> list[Point]:
    """Places of obstacles: the first on the straight way from start to goal, the others around."""
    middle = ((spot.start_m[0] + spot.goal_m[0]) / 2.0, (spot.start_m[1] + spot.goal_m[1]) / 2.0)
    placed = [(round(middle[0], 4), round(middle[1], 4))]
    while len(placed) < count:
        placed.append(_clear_point(draw, (0.36, 0.70), (-0.30, 0.30), spot=spot, placed=placed, apart_m=0.085))
    return placed


def bystanders(draw: Draw, spot: Spot, *, count: int) -> list[Point]:
    """Places of distractors: clear of the block, of the goal, and of each other."""
    placed: list[Point] = []
    while len(placed) < count:
        placed.append(_clear_point(draw, (0.36, 0.66), (-0.28, 0.28), spot=spot, placed=placed, apart_m=0.10))
    return placed


def _clear_point(
    draw: Draw,
    x_m: tuple[float, float],
    y_m: tuple[float, float],
    *,
    spot: Spot,
    placed: Sequence[Point],
    apart_m: float,
) -> Point:
    def clear(at: Point) -> bool:
        hand_fits = _clearance(at, [spot.start_m, spot.goal_m]) >= CLEAR_OF_HAND_M
        return hand_fits and _clearance(at, placed) >= apart_m

    return _first(lambda: _point(draw, x_m, y_m), clear)


def _clearance(at: Point, others: Sequence[Point]) -> float:
    return min((math.dist(at, other) for other in others), default=math.inf)


def _point(draw: Draw, x_m: tuple[float, float], y_m: tuple[float, float]) -> Point:
    return (draw.uniform(*x_m), draw.uniform(*y_m))


def _first(candidate: Callable[[], _T], fits: Callable[[_T], bool]) -> _T:
    for _ in range(_TRIES):
        found = candidate()
        if fits(found):
            return found
    raise UsageError(f"no placement found in {_TRIES} draws; the constraints of this variant cannot be met")
