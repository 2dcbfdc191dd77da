"""The policies that the wire benchmark serves: one that answers at once, one that multiplies a matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from wire_world import ACTION_DIM, SUITE

from trialplate.record import ActionChunk, Decision, EpisodeInfo, Observation
from trialplate.spec.channels import PolicySpec

MATRIX, BATCH = 4096, 8
_ROWS = np.zeros((1, ACTION_DIM), dtype=np.float32)


class Dummy:
    """Answers at once, with one row of float32."""

    def spec(self) -> PolicySpec:
        """Use both pictures and the numbers."""
        return PolicySpec(expects=SUITE.profiles["pictures"], emits=SUITE.action, chunk_length=1, state="none")

    def reset(self, episode: EpisodeInfo) -> None:
        """Nothing is remembered."""

    def act(self, observation: Observation) -> Decision:
        """Send one row of zeros."""
        return ActionChunk(_ROWS)

    def close(self) -> None:
        """Nothing is held."""


class Product:
    """Costs one product of a 4096 x 4096 float32 matrix per call, whether for one observation or for eight.

    The batch is padded to eight columns, as a model compiled for one shape does it. Without that the linear algebra
    takes a cheaper way for a single column, and the figure is about that, not about the server.
    """

    def __init__(self) -> None:
        self._matrix = np.random.default_rng(0).standard_normal((MATRIX, MATRIX), dtype=np.float32)

    def spec(self) -> PolicySpec:
        """Use the numbers, in batches of up to eight."""
        return PolicySpec(
            expects=SUITE.profiles["numbers"], emits=SUITE.action, chunk_length=1, state="none", max_batch_size=BATCH
        )

    def reset(self, episode: EpisodeInfo) -> None:
        """Nothing is remembered."""

    def act(self, observation: Observation) -> Decision:
        """Decide for one."""
        return self.act_batch([observation])[0]

    def act_batch(self, observations: Sequence[Observation]) -> list[Decision]:
        """Decide for several with one product."""
        looks = np.zeros((MATRIX, BATCH), dtype=np.float32)
        for column, observation in enumerate(observations):
            looks[: len(observation.proprio["arm"]), column] = observation.proprio["arm"]
        product = self._matrix @ looks
        return [ActionChunk(np.tanh(product[None, :ACTION_DIM, column])) for column in range(len(observations))]

    def close(self) -> None:
        """Nothing is held."""
