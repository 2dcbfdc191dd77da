"""The controls of ``toy-reach``: what every suite ships to examine the harness itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trialplate.interfaces import Scenario
from trialplate.record import ActionChunk, Decision, EpisodeInfo, Measurement, Observation, Stop
from trialplate.spec.channels import ObservationSpec, PolicySpec
from trialplate.testing.reach_channels import ACTION, PROPRIO

_SETTLED_M = 1e-9


class _Blind:
    """Sees nothing, remembers nothing."""

    def spec(self) -> PolicySpec:
        """Use no channel, send the suite's actions."""
        return PolicySpec(expects=ObservationSpec(instruction=False), emits=ACTION)

    def reset(self, episode: EpisodeInfo) -> None:
        """Start over."""
        self._stream = np.random.default_rng(episode.policy_seed)

    def close(self) -> None:
        """Nothing is held."""


class Null(_Blind):
    """All zeros: the hand stays and closes."""

    def act(self, observation: Observation) -> Decision:
        """Send one row of zeros."""
        return ActionChunk([[0.0] * ACTION.dim])


class Random(_Blind):
    """Uniform in the legal box."""

    def act(self, observation: Observation) -> Decision:
        """Send one random row."""
        return ActionChunk(self._stream.uniform(ACTION.low, ACTION.high, (1, ACTION.dim)))


class Exploit(_Blind):
    """Claims success and stops."""

    def act(self, observation: Observation) -> Decision:
        """Stop at once with a claim."""
        return Stop("success: the task is complete, score 1.0")


class Scripted(_Blind):
    """Goes to the goal of the instruction, closes there and stops after four steps. Sees where the hand is, no more.

    ``aim_m``: how far beside the goal it goes. ``stride_m``: how far it moves along an axis in one step. ``rows``:
    length of its chunks, planned ahead.
    """

    def __init__(self, *, aim_m: float = 0.0, stride_m: float = 0.05, rows: int = 1) -> None:
        self.goal_m = np.array([0.5, aim_m, 0.3])
        self.stride_m, self.rows = stride_m, rows

    def spec(self) -> PolicySpec:
        """Use the position of the hand."""
        expects = ObservationSpec(instruction=False, proprio=PROPRIO[:1])
        return PolicySpec(expects=expects, emits=ACTION, chunk_length=self.rows)

    def reset(self, episode: EpisodeInfo) -> None:
        """Start over."""
        self._there = 0

    def act(self, observation: Observation) -> Decision:
        """Send the next rows."""
        return self._decide(observation.proprio["ee_pos"])

    def _decide(self, position_m: NDArray[np.float64]) -> Decision:
        rest_m = self.goal_m - position_m
        if float(np.abs(rest_m).max()) < _SETTLED_M:
            self._there += 1
            if self._there > 4:
                return Stop("done")
        vectors = np.zeros((self.rows, ACTION.dim))
        for row in vectors:
            move_m = np.minimum(np.maximum(rest_m, -self.stride_m), self.stride_m)
            row[:3], row[6] = move_m, 0.0 if float(np.abs(rest_m).max()) < _SETTLED_M else 1.0
            rest_m = rest_m - move_m
        return ActionChunk(vectors)


class Oracle(Scripted):
    """The same plan with privileged state."""

    def reset(self, episode: EpisodeInfo, scenario: Scenario) -> None:  # type: ignore[override]
        """Start over; see the goal."""
        self._there, self.goal_m = 0, np.array(scenario.parameters["goal_m"])

    def act(self, observation: Observation, measurement: Measurement) -> Decision:  # type: ignore[override]
        """Send the next rows."""
        return self._decide(measurement.values[:3])
