"""A plan as it grows: joint paths timed by minimum jerk, gripper ramps, dwells, named segments.

Largest joint step 0.010 rad per waypoint; at least 15 waypoints of dwell at the end of every segment.
Source: atomic-skills specification, section 5, "Baseline".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np

from trialplate.suites.atomic_skills.channels import ARM_DOF
from trialplate.suites.atomic_skills.planners.kinematics import ArmKinematics
from trialplate.suites.atomic_skills.rigid import FloatArray, rotation_vector, turn

LARGEST_STEP_RAD = 0.010
PEAK_SPEED = 1.875  # of a minimum-jerk motion, over its mean
DWELL_ROWS = 20
GRIP_ROWS = 40
PIECE_M = 0.004
PIECE_RAD = 0.02
LARGEST_PIECE_RAD = 0.25
"""Most that a joint may turn between two pieces of a straight line: more is another arm configuration."""

Along = Callable[[float], FloatArray]
"""A tool path: share of the way in [0, 1] -> tool frame (4, 4)."""


class Unreachable(Exception):
    """A tool pose or path that an arm cannot take."""


def minimum_jerk(share: FloatArray) -> FloatArray:
    """Return the share of the way covered at each share of the time."""
    return 10.0 * share**3 - 15.0 * share**4 + 6.0 * share**5


def timed(path_rad: FloatArray, *, largest_step_rad: float = LARGEST_STEP_RAD) -> FloatArray:
    """Return rows (N, n) along a joint path (K, n), without its first point: minimum jerk over its length.

    Length is measured by the joint that moves most.
    """
    pieces = np.abs(np.diff(path_rad, axis=0)).max(axis=1)
    length = np.concatenate([[0.0], np.cumsum(pieces)])
    if length[-1] == 0.0:
        return path_rad[:0]
    rows = max(2, math.ceil(PEAK_SPEED * length[-1] / largest_step_rad))
    where = length[-1] * minimum_jerk(np.linspace(0.0, 1.0, rows + 1)[1:])
    return np.column_stack([np.interp(where, length, column) for column in path_rad.T])


def straight(start: FloatArray, end: FloatArray) -> Along:
    """Return the straight line between two tool frames, turning evenly about one axis."""
    vector = rotation_vector(end[:3, :3] @ start[:3, :3].T)
    angle = float(np.linalg.norm(vector))

    def along(share: float) -> FloatArray:
        made = np.eye(4)
        made[:3, 3] = start[:3, 3] + share * (end[:3, 3] - start[:3, 3])
        made[:3, :3] = start[:3, :3] if angle < 1e-9 else turn(vector, share * angle) @ start[:3, :3]
        return made

    return along


def pieces_of(along: Along) -> int:
    """Return how many pieces a tool path needs."""
    frames = [along(share) for share in np.linspace(0.0, 1.0, 9)]
    way_m = sum(float(np.linalg.norm(b[:3, 3] - a[:3, 3])) for a, b in pairwise(frames))
    turned = sum(float(np.linalg.norm(rotation_vector(b[:3, :3] @ a[:3, :3].T))) for a, b in pairwise(frames))
    return max(2, math.ceil(way_m / PIECE_M), math.ceil(turned / PIECE_RAD))


class Path:
    """Rows (T, dof) in the order of execution, and the segments that they form."""

    def __init__(self, arms: Sequence[ArmKinematics], start: Sequence[float]) -> None:
        self.arms = tuple(arms)
        self._now = np.array(start, dtype=np.float64)
        self._rows: list[FloatArray] = []
        self.segments: dict[str, slice] = {}
        self.before_grasp = 0
        """Rows before the hand goes for what it is to take."""

    @property
    def rows(self) -> FloatArray:
        """All rows so far, (T, dof)."""
        return np.array(self._rows, dtype=np.float64).reshape(-1, len(self._now))

    def joints(self, arm: int = 0) -> FloatArray:
        """Return the commanded joints (6,) of an arm, a copy."""
        return self._now[ARM_DOF * arm : ARM_DOF * arm + ARM_DOF - 1].copy()

    def tool(self, arm: int = 0) -> FloatArray:
        """Return the commanded tool frame (4, 4) of an arm."""
        return self.arms[arm].forward(self.joints(arm))

    @contextmanager
    def segment(self, name: str, *, dwell: int = DWELL_ROWS) -> Iterator[None]:
        """Name the rows that the block adds, with a dwell at their end."""
        first = len(self._rows)
        yield
        self.hold(dwell)
        self.segments[name] = slice(first, len(self._rows))

    def hold(self, rows: int) -> None:
        """Stand still."""
        self._rows += [self._now.copy() for _ in range(rows)]

    def grip(self, fractions: Mapping[int, float], *, rows: int = GRIP_ROWS) -> None:
        """Move grippers of some arms to opening fractions, evenly."""
        start = self._now.copy()
        end = start.copy()
        for arm, fraction in fractions.items():
            end[ARM_DOF * arm + ARM_DOF - 1] = fraction
        for share in np.linspace(0.0, 1.0, rows + 1)[1:]:
            self._now = start + share * (end - start)
            self._rows.append(self._now.copy())
        self._now = end

    def holding(self, arms: Sequence[int]) -> None:
        """Command closed grippers from the next row on: what is held was read as opened by its width."""
        for arm in arms:
            self._now[ARM_DOF * arm + ARM_DOF - 1] = 0.0

    def joint_path(self, paths: Mapping[int, FloatArray], *, largest_step_rad: float = LARGEST_STEP_RAD) -> None:
        """Follow joint paths (K, 6) of some arms at once; all have the same K and begin where the arm is."""
        listed = sorted(paths)
        together = timed(np.hstack([paths[arm] for arm in listed]), largest_step_rad=largest_step_rad)
        for row in together:
            for position, arm in enumerate(listed):
                self._now[ARM_DOF * arm : ARM_DOF * arm + ARM_DOF - 1] = row[6 * position : 6 * position + 6]
            self._rows.append(self._now.copy())

    def mark_grasp(self) -> None:
        """Say that the rows from here on may touch what is to be taken."""
        self.before_grasp = len(self._rows)

    def to_joints(self, target_rad: FloatArray, *, arm: int = 0) -> None:
        """Move one arm straight in joint space."""
        self.joint_path({arm: np.array([self.joints(arm), target_rad])})

    def along(self, ways: Mapping[int, Along], *, largest_step_rad: float = LARGEST_STEP_RAD) -> None:
        """Lead the tools of some arms along paths at once. Raises Unreachable."""
        pieces = max(pieces_of(way) for way in ways.values())
        paths = {arm: self.follow(way, arm=arm, pieces=pieces) for arm, way in ways.items()}
        self.joint_path(paths, largest_step_rad=largest_step_rad)

    def follow(self, along: Along, *, arm: int, pieces: int, start_rad: FloatArray | None = None) -> FloatArray:
        """Return the joint path (pieces + 1, 6) of a tool path. Raises Unreachable where the arm cannot follow."""
        found = [self.joints(arm) if start_rad is None else start_rad]
        for share in np.linspace(0.0, 1.0, pieces + 1)[1:]:
            solved = self.arms[arm].near(along(float(share)), found[-1])
            if solved is None or np.abs(solved - found[-1]).max() > LARGEST_PIECE_RAD:
                raise Unreachable(f"arm {arm} cannot follow its tool path beyond {share:.2f} of the way")
            found.append(solved)
        return np.array(found)

    def lines(self, targets: Mapping[int, FloatArray], *, largest_step_rad: float = LARGEST_STEP_RAD) -> None:
        """Lead the tools of some arms straight to frames (4, 4) at once. Raises Unreachable."""
        ways = {arm: straight(self.tool(arm), target) for arm, target in targets.items()}
        self.along(ways, largest_step_rad=largest_step_rad)

    def line(self, target: FloatArray, *, arm: int = 0, largest_step_rad: float = LARGEST_STEP_RAD) -> None:
        """Lead the tool of one arm straight to a frame (4, 4). Raises Unreachable."""
        self.lines({arm: target}, largest_step_rad=largest_step_rad)
