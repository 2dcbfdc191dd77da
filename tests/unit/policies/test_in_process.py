"""What a policy in this process is handed, and what of it is its own."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from trialplate.policies.in_process import InProcessActor
from trialplate.record import ActionChunk, History, Issue, Measurement, Observation, Remaining

SHOWN = Observation(
    "e" * 32, 3, "o" * 32, "r" * 64, 5, "lift it",
    {"wrist": np.zeros((2, 2, 3), np.uint8)}, {"pose": np.zeros(2)}, Remaining(7, 4),
    History({"wrist": (None,)}, (None,)), {"step_index": 5.0}, Issue("invalid_action", 1, "pose", "finite"),
)  # fmt: skip


class Taker:
    """Keeps what it is shown, and takes it apart."""

    def act(self, observation: Observation) -> ActionChunk:
        self.shown = replace(observation)
        for mapping in (observation.images, observation.proprio, observation.meta):
            mapping.clear()
        object.__setattr__(observation.remaining, "steps", 10**6)
        object.__setattr__(observation.issue, "code", "none")
        object.__setattr__(observation, "instruction", "drop it")
        return ActionChunk(np.zeros((1, 2)))


def test_a_policy_sees_everything_that_is_shown_and_takes_only_its_own_copy_apart() -> None:
    taker = Taker()
    actor = InProcessActor(taker, privileged=False, genuine=lambda: True)
    before = {field.name: getattr(SHOWN, field.name) for field in fields(SHOWN)}
    assert None not in before.values()
    for _ in range(2):  # the second time it would see what it did the first time
        actor.ask(SHOWN, lambda: Measurement(np.zeros(1)))
        assert taker.shown.remaining.steps == 10**6, "its own copy is what it wrote into"
        assert taker.shown.instruction == "lift it"
    assert {field.name: getattr(SHOWN, field.name) for field in fields(SHOWN)} == before
    assert SHOWN.remaining == Remaining(7, 4)
    assert SHOWN.issue == Issue("invalid_action", 1, "pose", "finite")
    assert list(SHOWN.images) == ["wrist"] and list(SHOWN.proprio) == ["pose"] and SHOWN.meta == {"step_index": 5.0}


def test_nothing_that_is_shown_is_left_out_of_the_copy() -> None:
    seen: list[Observation] = []

    class Looker:
        def act(self, observation: Observation) -> ActionChunk:
            seen.append(observation)
            return ActionChunk(np.zeros((1, 2)))

    InProcessActor(Looker(), privileged=False, genuine=lambda: True).ask(SHOWN, lambda: Measurement(np.zeros(1)))
    for field in fields(SHOWN):
        assert getattr(seen[0], field.name) == getattr(SHOWN, field.name), field.name
