"""Scenes to learn on: the suite's own generator with other seeds, proven to be none of the 68 that are measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trialplate.canonical import document_sha256
from trialplate.errors import UsageError
from trialplate.interfaces import Scenario
from trialplate.suites.pick_place.scenarios import SUITE_SEED, generate, scenarios

APART_M = 0.01
"""A training scene whose start and goal together lie nearer than this to those of a measured scene is left out."""

TRAINING_SEEDS = tuple(range(1001, 1017))
HELD_OUT_SEEDS = (9001, 9002, 9003)


@dataclass(frozen=True, slots=True)
class Disjointness:
    """How far a set of scenes is from the 68: ``nearest_m`` is over start and goal as one point in four numbers."""

    scenes: int
    shared_digests: int
    nearest_m: float
    scenes_sha256: str

    @property
    def holds(self) -> bool:
        """Whether no scene is shared and none is near."""
        return self.shared_digests == 0 and self.nearest_m >= APART_M


def drawn_scenes(seeds: Iterable[int]) -> tuple[Scenario, ...]:
    """Return the scenes of every seed, less those that lie too near to a measured one.

    Raises UsageError for the seed of the suite itself.
    """
    measured = scenarios()
    kept: list[Scenario] = []
    for seed in seeds:
        if seed == SUITE_SEED:
            raise UsageError(f"seed {seed} is the suite's own: its scenes are measured, never learnt")
        kept += [scene for scene in generate(seed) if nearest_m(scene, measured) >= APART_M]
    return tuple(kept)


def disjointness(scenes: Sequence[Scenario]) -> Disjointness:
    """Compare ``scenes`` with the shipped manifest, by digest of the scene and by distance of start and goal."""
    measured = scenarios()
    digests = [scene_sha256(scene) for scene in scenes]
    shared = set(digests) & {scene_sha256(scene) for scene in measured}
    nearest = min(nearest_m(scene, measured) for scene in scenes)
    return Disjointness(len(scenes), len(shared), nearest, document_sha256(sorted(digests)))


def scene_sha256(scenario: Scenario) -> str:
    """Digest of what stands in the scene, whatever its name."""
    return document_sha256(dict(scenario.parameters))


def nearest_m(scene: Scenario, others: Sequence[Scenario]) -> float:
    """Return the least distance of start and goal together, over ``others``."""
    here = _start_and_goal(scene)
    return min(math.dist(here, _start_and_goal(other)) for other in others)


def _start_and_goal(scenario: Scenario) -> tuple[float, ...]:
    parameters = scenario.parameters
    return (*parameters["block"]["pos_m"][:2], *parameters["goal"]["pos_m"][:2])
