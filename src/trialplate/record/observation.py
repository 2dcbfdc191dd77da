"""What a policy may see, and what only scorers and privileged controls may see: two unrelated types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class EpisodeInfo:
    """What a policy is told at reset. ``policy_seed`` is its own; the environment's seed is never shown."""

    episode: str  # 32 hex digits, opaque
    instruction: str
    control_hz: float
    replan_interval: int
    max_steps: int
    policy_seed: int


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at the world through the channels that the arm declared.

    ``images``: name -> (H, W, 3) uint8 RGB, upright. ``proprio``: name -> (dim,) float64 in the unit of its
    :class:`~trialplate.spec.channels.ProprioSpec`. ``registration_sha256``: the identity that the harness has
    bound to this arm. No scenario label, seed, object pose or score is ever here.
    """

    episode: str
    call_index: int
    step_index: int
    instruction: str
    images: Mapping[str, NDArray[np.uint8]]
    proprio: Mapping[str, NDArray[np.float64]]
    scenario_sha256: str
    applied_scene_sha256: str
    registration_sha256: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """One privileged reading of the world: ``values`` (D,) float64, in the order of the suite's columns."""

    values: NDArray[np.float64]
