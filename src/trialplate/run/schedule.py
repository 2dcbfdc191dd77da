"""The dense, paired, shuffled order of all planned trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from trialplate.interfaces import Scenario
from trialplate.spec.protocol import Protocol

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Trial:
    """One planned attempt. ``ordinal`` is dense from 0; ``trial_id`` is its six-digit text."""

    trial_id: str
    ordinal: int
    arm: str
    scenario: str
    repeat: int

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Trial:
        """Rebuild a trial from the lock."""
        return cls(**document)


def make_schedule(protocol: Protocol, scenarios: Sequence[Scenario]) -> list[dict[str, Any]]:
    """Return every (arm, scenario, repeat) once, in the registered order, as plain documents.

    ``shuffled``: a Fisher-Yates shuffle driven by ``PCG64(seed).random_raw``, whose stream does not change
    between numpy versions. ``blocks``: the same stream orders the blocks of one scenario and repeat, then the arms
    within the first block, within the second, and so on. Arms share scenarios and repeats, so they stay paired in
    any order.
    """
    blocks = [
        [(arm.name, scenario.id, repeat) for arm in protocol.arms]
        for repeat in range(protocol.suite.repeats)
        for scenario in scenarios
    ]
    stream = np.random.PCG64(protocol.schedule.seed)
    if protocol.schedule.order == "blocks":
        _shuffle(blocks, stream)
        for block in blocks:
            _shuffle(block, stream)
    trials = [trial for block in blocks for trial in block]
    if protocol.schedule.order == "shuffled":
        _shuffle(trials, stream)
    return [
        {"trial_id": f"{ordinal:06d}", "ordinal": ordinal, "arm": arm, "scenario": scenario, "repeat": repeat}
        for ordinal, (arm, scenario, repeat) in enumerate(trials)
    ]


def _shuffle(items: list[Item], stream: np.random.PCG64) -> None:
    for last in range(len(items) - 1, 0, -1):
        pick = int(stream.random_raw()) % (last + 1)
        items[last], items[pick] = items[pick], items[last]
