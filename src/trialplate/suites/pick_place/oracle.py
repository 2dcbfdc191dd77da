"""The positive control: a scripted arm that may see the scenario and every measurement. Never ranked.

It proves that each scenario can be passed through the same action interface that every arm uses. Source: fair
pick-and-place protocol, section 7.
"""

from __future__ import annotations

import numpy as np

from trialplate.interfaces import Scenario
from trialplate.record import ActionChunk, Decision, EpisodeInfo, Measurement, Observation, Stop
from trialplate.spec.channels import PolicySpec
from trialplate.suites.pick_place.channels import SLICES, action_spec
from trialplate.suites.pick_place.motion import yaw_rad
from trialplate.suites.pick_place.scene_spec import Scene, read_scene
from trialplate.suites.pick_place.sequence import Belief, PickSequence
from trialplate.suites.pick_place.settings import suite_settings

CHUNK_ROWS = 8
CARRY_M = 0.15
"""Height of the tool centre on the way, where nothing stands in it."""
CLEARANCE_M = 0.04
"""Kept between what is carried and what it is carried over."""


class Oracle:
    """The pick sequence, fed with measurements; every call plans anew from what is true then."""

    def spec(self) -> PolicySpec:
        """It needs no observation channel: it reads measurements."""
        return PolicySpec(emits=action_spec(suite_settings()), chunk_length=CHUNK_ROWS)

    def reset(self, episode: EpisodeInfo, scenario: Scenario) -> None:
        """Plan how high to carry."""
        scene = read_scene(scenario.parameters)
        self._goal_m = np.array(scene.goal.pos_m[:2])
        self._rest_m = scene.block.half_size_m[2]
        self._sequence = PickSequence(carry_m=carry_height_m(scene), scale=suite_settings().action, rows=CHUNK_ROWS)

    def act(self, observation: Observation, measurement: Measurement) -> Decision:
        """Return the next rows of the present phase, or stop when the block was placed and stayed."""
        seen = {name: measurement.values[where] for name, where in SLICES.items()}
        belief = Belief(
            hand_m=seen["commanded_pos_m"],
            hand_yaw_rad=yaw_rad(seen["ee_quat_wxyz"].tolist()),
            block_m=seen["object_pos_m"],
            block_yaw_rad=yaw_rad(seen["object_quat_wxyz"].tolist()),
            goal_m=self._goal_m,
            rest_m=self._rest_m,
            holds=bool(seen["attached"][0]),
            gap_m=float(seen["finger_gap_m"][0]),
        )
        rows = self._sequence.next_rows(belief)
        return Stop("placed") if rows is None else ActionChunk(rows)

    def close(self) -> None:
        """Nothing to release."""


def carry_height_m(scene: Scene) -> float:
    """Return a height of the tool centre at which the held block passes over everything in the scene."""
    things = (*scene.obstacles, *scene.distractors, *([scene.occluder] if scene.occluder else []))
    highest_m = max((thing.pos_m[2] + thing.half_size_m[2] for thing in things), default=0.0)
    return max(CARRY_M, highest_m + 2.0 * scene.block.half_size_m[2] + CLEARANCE_M)
