"""Closed-loop episodes on training scenes: what the arm saw, and what the demonstrator would have done there.

The first round is driven by the demonstrator with disturbed actions, later rounds by the student (DAgger). The
labels are always the demonstrator's undisturbed rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from policy import CHANNELS, FloatArray, Memory, Situation, as_actions
from teacher import label

from trialplate.interfaces import Scenario
from trialplate.suites.pick_place.channels import OBJECT_ESTIMATE, SLICES
from trialplate.suites.pick_place.settings import suite_settings
from trialplate.suites.pick_place.world.environment import PickPlace

REPLAN_ROWS = 4
RESTED_CALLS = 6  # calls recorded after the block was placed

Driver = Callable[[Situation, FloatArray], FloatArray]
"""From a situation and the demonstrator's rows (n, 4) to the rows (n, 4) to execute."""


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """Inputs (n, 25) and labels (n, rows, 4) of all calls, float32; ``episodes`` and how many ended placed."""

    features: np.ndarray
    labels: np.ndarray
    episodes: int
    placed: int

    def sha256(self) -> str:
        """Digest of the numbers learnt from."""
        digest = hashlib.sha256()
        for part in (self.features, self.labels):
            digest.update(str(part.shape).encode())
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()


def joined(parts: Iterable[Demonstrations]) -> Demonstrations:
    """Return one set of several."""
    listed = list(parts)
    return Demonstrations(
        np.concatenate([part.features for part in listed]),
        np.concatenate([part.labels for part in listed]),
        sum(part.episodes for part in listed),
        sum(part.placed for part in listed),
    )


def disturbed(seed: int, *, share: float, deviation: float) -> Driver:
    """Return the demonstrator with noise of ``deviation`` on the translation of a ``share`` of its calls."""
    stream = np.random.default_rng(seed)

    def drive(_: Situation, rows: FloatArray) -> FloatArray:
        if stream.random() >= share:
            return rows
        noisy = rows.copy()
        noisy[:, :3] = np.tanh(np.arctanh(rows[:, :3] * 0.999) + stream.normal(0.0, deviation, 3))
        return noisy

    return drive


def collect(scenes: Iterable[Scenario], drive: Driver, *, seed: int) -> Demonstrations:
    """Run one episode in every scene and record each call. ``seed`` + n feeds the estimates of episode n."""
    environment = PickPlace(profile=OBJECT_ESTIMATE)
    features: list[FloatArray] = []
    labels: list[FloatArray] = []
    episodes = placed = 0
    for scene in scenes:
        placed += _episode(environment, scene, drive, seed=seed + episodes, features=features, labels=labels)
        episodes += 1
    environment.close()
    return Demonstrations(np.array(features, np.float32), np.array(labels, np.float32), episodes, placed)


def _episode(
    environment: PickPlace,
    scene: Scenario,
    drive: Driver,
    *,
    seed: int,
    features: list[FloatArray],
    labels: list[FloatArray],
) -> bool:
    environment.reset(scene, seed=seed)
    memory = Memory()
    step = rested = 0
    while step < suite_settings().max_steps and rested < RESTED_CALLS:
        situation = memory.look(environment.sense((), proprio=CHANNELS).proprio, step=step)
        rows = label(situation, attached=_attached(environment))
        features.append(situation.features())
        labels.append(rows)
        actions = as_actions(drive(situation, rows))
        memory.sent(actions)
        for action in actions[:REPLAN_ROWS]:
            if environment.step(action) is not None:
                return False
            step += 1
        rested = rested + 1 if _placed(environment) else 0
    return rested == RESTED_CALLS


def _attached(environment: PickPlace) -> bool:
    return bool(environment.measure().values[SLICES["attached"]][0])


def _placed(environment: PickPlace) -> bool:
    """Return whether the block lies on the goal and the open hand has gone up; a hint, not a verdict."""
    seen = {name: environment.measure().values[where] for name, where in SLICES.items()}
    low = seen["object_height_m"][0] < 0.01 and seen["goal_offset_m"][0] < 0.05
    return bool(low and not seen["attached"][0] and seen["gripper_command"][0] < 0.0)
