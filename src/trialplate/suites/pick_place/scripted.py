"""A baseline that sees only its cameras: colour segmentation, rays to the table, and the pick sequence.

It uses what the suite documents in public (nominal pose of the primary camera, mount of the wrist camera, height of
the table) and what an observation shows, nothing else. ``eyes`` is ``both`` or ``primary``; without the wrist camera
it trusts the nominal camera pose to the end.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trialplate.record import ActionChunk, Decision, EpisodeInfo, Observation, Stop
from trialplate.spec.channels import PolicySpec
from trialplate.suites.pick_place.channels import action_spec, standard_profile
from trialplate.suites.pick_place.geometry import looking, rotate, unit_quat
from trialplate.suites.pick_place.motion import yaw_rad
from trialplate.suites.pick_place.sequence import Belief, PickSequence
from trialplate.suites.pick_place.settings import suite_settings
from trialplate.suites.pick_place.sight import Blob, Eye, carried_eye, find, focal_px, on_plane
from trialplate.suites.pick_place.staging import PRIMARY_EYE_M, PRIMARY_FOVY_DEG, PRIMARY_TARGET_M

FloatArray = NDArray[np.float64]

CHUNK_ROWS = 12
WAIT_ROWS = 6
CARRY_M = 0.23
"""Height of the tool centre on the way: over anything that may stand on the table."""
TYPICAL_EDGE_M = 0.04
EDGES_M = (0.015, 0.06)
FACES_SEEN = 0.7
"""Height, in edges, of the middle of what a camera above a cube sees of it: the top and a little of one side."""
HAND_TO_TOOL_M = 0.1034
PRIMARY = Eye(PRIMARY_EYE_M, looking(PRIMARY_EYE_M, PRIMARY_TARGET_M), PRIMARY_FOVY_DEG)
WRIST_MOUNT = Eye((0.05, 0.0, 0.0), unit_quat((0.0, 0.707108, 0.707108, 0.0)), 75.0)
HOLDING_GAP_M = (0.006, 0.07)
STEADY_M = 0.0006
NEWS_M = 0.004
"""A second look counts when it moves the block further than this; less is a pixel's worth of noise."""


class Scripted:
    """Look, hover, look again, grasp, carry, let go."""

    def __init__(self, *, eyes: Literal["both", "primary"] = "both") -> None:
        self._eyes = eyes
        self._scale = suite_settings().action

    def spec(self) -> PolicySpec:
        """Both cameras or one, and the robot's own state."""
        return PolicySpec(
            expects=standard_profile().only(
                *(("primary", "wrist") if self._eyes == "both" else ("primary",)), "ee_pos", "ee_quat", "finger_pos"
            ),
            emits=action_spec(suite_settings()),
            chunk_length=CHUNK_ROWS,
        )

    def reset(self, episode: EpisodeInfo) -> None:
        """Forget everything."""
        self._sequence = PickSequence(carry_m=CARRY_M, scale=self._scale, rows=CHUNK_ROWS, wait_rows=WAIT_ROWS)
        self._sent = np.zeros((0, 7))
        self._sent_at = 0
        self._hand_m: FloatArray | None = None
        self._block_m: FloatArray | None = None
        self._goal_m: FloatArray | None = None
        self._edge_m = TYPICAL_EDGE_M
        self._gap_m = 0.0

    def act(self, observation: Observation) -> Decision:
        """Look where it helps, then return the next rows of the sequence."""
        hand_m = self._follow_hand(observation)
        if self._sequence.phase == "approach":
            self._look(observation)
        if self._block_m is None or self._goal_m is None:
            missing = "red block" if self._block_m is None else "green target"
            return Stop(f"no {missing} in sight")
        gap_m = float(observation.proprio["finger_pos"].sum())
        belief = Belief(
            hand_m=hand_m,
            hand_yaw_rad=yaw_rad(observation.proprio["ee_quat"].tolist()),
            block_m=self._block_m,
            block_yaw_rad=0.0,
            goal_m=self._goal_m,
            rest_m=self._edge_m / 2.0,
            holds=self._holds(gap_m),
            gap_m=gap_m,
        )
        self._gap_m = gap_m
        rows = self._sequence.next_rows(belief)
        if rows is None:
            return Stop("placed, as far as can be seen")
        self._sent, self._sent_at = rows, observation.step_index
        return ActionChunk(rows)

    def close(self) -> None:
        """Nothing to release."""

    def _follow_hand(self, observation: Observation) -> FloatArray:
        """Add up the commands that were executed: a delta moves the commanded pose, not the measured one."""
        if self._hand_m is None:
            self._hand_m = observation.proprio["ee_pos"].copy()
        executed = self._sent[: observation.step_index - self._sent_at]
        self._hand_m = self._hand_m + executed[:, :3].sum(axis=0) * self._scale.translation_m
        self._sent, self._sent_at = np.zeros((0, 7)), observation.step_index
        return self._hand_m

    def _holds(self, gap_m: float) -> bool:
        """Fingers that stopped before they met hold something."""
        between = HOLDING_GAP_M[0] < gap_m < HOLDING_GAP_M[1]
        if self._sequence.phase == "close":
            return between and abs(gap_m - self._gap_m) < STEADY_M
        return between

    def _look(self, observation: Observation) -> None:
        if self._eyes == "both" and self._look_down(observation):
            return
        if self._block_m is None or self._goal_m is None:
            self._look_across(observation)

    def _look_across(self, observation: Observation) -> None:
        """The primary camera, from its nominal pose."""
        picture = observation.images["primary"]
        block, goal = find(picture, "red"), find(picture, "green")
        if block is not None and self._block_m is None:
            self._block_m = _seen_at(PRIMARY, block, picture.shape, height_m=self._edge_m / 2.0)
        if goal is not None and self._goal_m is None:
            on_table = _seen_at(PRIMARY, goal, picture.shape, height_m=0.0)
            self._goal_m = None if on_table is None else on_table[:2]

    def _look_down(self, observation: Observation) -> bool:
        """The wrist camera, from the measured hand; return whether the whole block is seen."""
        picture = observation.images["wrist"]
        hand_wxyz = observation.proprio["ee_quat"].tolist()
        along = rotate(hand_wxyz, (0.0, 0.0, HAND_TO_TOOL_M))
        hand_m = [a - b for a, b in zip(observation.proprio["ee_pos"].tolist(), along, strict=True)]
        eye = carried_eye(hand_m, hand_wxyz, mount=WRIST_MOUNT)
        goal = find(picture, "green")
        if goal is not None and not goal.cut:
            on_table = _seen_at(eye, goal, picture.shape, height_m=0.0)
            self._goal_m = self._goal_m if on_table is None else on_table[:2]
        block = find(picture, "red")
        if block is None or block.cut:
            return False
        edge_m = _edge_m(eye, block, picture.shape)
        found = _seen_at(eye, block, picture.shape, height_m=FACES_SEEN * edge_m)
        if found is not None and self._is_news(found):
            self._edge_m = edge_m
            self._block_m = np.array([found[0], found[1], edge_m / 2.0])
        return found is not None and self._goal_m is not None

    def _is_news(self, found_m: FloatArray) -> bool:
        return self._block_m is None or math.dist(found_m[:2], self._block_m[:2]) > NEWS_M


def _seen_at(eye: Eye, blob: Blob, shape: tuple[int, ...], *, height_m: float) -> FloatArray | None:
    point = on_plane(eye, (blob.column_px, blob.row_px), size_px=(shape[0], shape[1]), height_m=height_m)
    return None if point is None else np.array(point)


def _edge_m(eye: Eye, blob: Blob, shape: tuple[int, ...]) -> float:
    """Return the edge of a cube on the table whose top, seen from above, is ``blob.width_px`` wide."""
    focal = focal_px(eye, shape[0])
    edge_m = blob.width_px * eye.pos_m[2] / (focal + blob.width_px)
    return min(max(edge_m, EDGES_M[0]), EDGES_M[1])


def primary_only() -> Scripted:
    """Return the baseline that sees through the primary camera alone."""
    return Scripted(eyes="primary")
