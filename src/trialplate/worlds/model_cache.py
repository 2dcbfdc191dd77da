"""Compiled worlds kept for reuse, with the proof at every reset that a reused world equals a fresh one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trialplate.errors import HarnessFault
from trialplate.worlds.simulation import FloatArray, World, model_digest

BuildWorld = Callable[[], World]


@dataclass(slots=True)
class _Entry:
    world: World
    model_sha256: str
    initial_sha256: str


class WorldCache:
    """At most ``capacity`` worlds, keyed by scene digest; the least recently used one goes first."""

    def __init__(self, *, capacity: int = 8) -> None:
        if capacity < 1:
            raise HarnessFault(f"a world cache keeps at least 1 world, got {capacity}", code="reset_failed")
        self.capacity = capacity
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def fresh_or_reused(self, scene_sha256: str, build: BuildWorld) -> tuple[World, str]:
        """Return a world that was just reset, and the digest of its initial state.

        A reused world must show the model digest and the initial-state digest of the day it was built; anything else
        is a :class:`HarnessFault` ``reset_failed``, and the world is thrown away.
        """
        entry = self._entries.pop(scene_sha256, None)
        if entry is None:
            world = build()
            initial = world.reset()
            self._keep(scene_sha256, _Entry(world, model_digest(world.model), initial))
            return world, initial
        initial = entry.world.reset()
        model = model_digest(entry.world.model)
        if initial != entry.initial_sha256 or model != entry.model_sha256:
            what = "state" if initial != entry.initial_sha256 else "model"
            raise HarnessFault(
                f"the reused world of scene {scene_sha256[:12]} differs from the fresh one in its initial {what}: "
                "an episode changed something that reset does not put back",
                code="reset_failed",
            )
        self._keep(scene_sha256, entry)
        return entry.world, initial

    def _keep(self, scene_sha256: str, entry: _Entry) -> None:
        self._entries[scene_sha256] = entry
        while len(self._entries) > self.capacity:
            self._entries.popitem(last=False)


def trajectory_digests(world: World, controls: FloatArray) -> tuple[str, ...]:
    """Reset, apply control vectors (T, nu) and return T + 1 state digests: the proof that two worlds are equal."""
    digests = [world.reset()]
    for ctrl in np.asarray(controls, dtype=np.float64):
        world.step(ctrl)
        digests.append(world.state_digest())
    return tuple(digests)
