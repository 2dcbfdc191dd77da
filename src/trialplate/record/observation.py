"""What a policy may see, and what only scorers and privileged controls may see: two unrelated types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trialplate.record.decision import Issue


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
class History:
    """A fixed length of the past, oldest first; None where the episode is too young to have one.

    ``images``: name -> one picture per earlier look. ``actions``: executed rows (dim,) as the policy sends them.
    """

    images: Mapping[str, tuple[NDArray[np.uint8] | None, ...]]
    actions: tuple[NDArray[np.float64] | None, ...]


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left of the budgets: control steps, and calls (None: unlimited)."""

    steps: int
    calls: int | None


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at the world through the channels that the arm declared.

    ``images``: name -> (H, W, 3) uint8 as its :class:`~trialplate.spec.channels.CameraSpec` says. ``proprio``:
    name -> (dim,) float64 in the unit of its :class:`~trialplate.spec.channels.ProprioSpec`. ``instruction``: None
    when the arm does not use it. ``observation_id``: 32 random hex digits. ``registration_sha256``: the identity
    that the harness has bound to this arm. ``issue``: what was wrong with the decision before, under feedback
    handling. No scenario label, scene digest, seed, object pose or score is ever here.
    """

    episode: str
    call_index: int
    observation_id: str
    registration_sha256: str
    step_index: int
    instruction: str | None
    images: Mapping[str, NDArray[np.uint8]]
    proprio: Mapping[str, NDArray[np.float64]]
    remaining: Remaining
    history: History | None = None
    meta: Mapping[str, float | None] = field(default_factory=dict)
    issue: Issue | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One privileged reading of the world: ``values`` (D,) float64, in the order of the suite's columns."""

    values: NDArray[np.float64]
