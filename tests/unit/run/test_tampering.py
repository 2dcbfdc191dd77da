"""A policy in this process takes apart all that it is handed; the recording is that of one which only looks."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

from trialplate.record import ActionChunk, EpisodeInfo, Exchange, Observation
from trialplate.registry import load_suite
from trialplate.run.attempt import Attempt, Limits, Setting
from trialplate.run.loop import run_attempt
from trialplate.run.seating import seat_policy
from trialplate.spec.channels import PolicySpec
from trialplate.store.exchanges import read_exchanges
from trialplate.testing.reach import ReachWorld

SUITE = load_suite("toy-reach")
ROWS = [[0.01, -0.02, 0.03, 0.0, 0.0, 0.0, 1.0]]


class Honest:
    """Sends one row and leaves everything as it is."""

    def __init__(self, profile: str) -> None:
        self._profile = profile

    def spec(self) -> PolicySpec:
        return PolicySpec(expects=SUITE.profiles[self._profile], emits=SUITE.action)

    def reset(self, episode: EpisodeInfo) -> None:
        pass

    def act(self, observation: Observation) -> Any:
        return ActionChunk(ROWS)

    def close(self) -> None:
        pass


class Tampering(Honest):
    """Writes wherever it can be written. ``wrote``: what it could change of its own copy."""

    wrote = 0

    def reset(self, episode: EpisodeInfo) -> None:
        object.__setattr__(episode, "episode", "f" * 32)
        object.__setattr__(episode, "max_steps", 10_000)

    def act(self, observation: Observation) -> Any:
        past = observation.history
        arrays = [*observation.images.values(), *observation.proprio.values()]
        arrays += [] if past is None else [array for array in past.actions if array is not None]
        for array in arrays:
            with contextlib.suppress(ValueError):
                array.setflags(write=True)
                array[...] = 0
                self.wrote += 1
        maps: list[Any] = [observation.images, observation.proprio, observation.meta]
        for held in maps if past is None else [*maps, past.images]:
            for name in list(held):
                held[name] = np.zeros((64, 64, 3), dtype=np.uint8)
        object.__setattr__(observation.remaining, "steps", 7)
        for name, value in (("call_index", 99), ("step_index", 99), ("observation_id", "0" * 32)):
            object.__setattr__(observation, name, value)
        return ActionChunk(ROWS)


def _played(policy: Honest, profile: str) -> Attempt:
    info = EpisodeInfo("a" * 32, SUITE.instruction, 20.0, 1, SUITE.max_steps, 7)
    setting = Setting(SUITE, SUITE.scenarios()[0], info, 1, Limits(5, 256, 1, 10.0, 10.0), "detailed")
    return run_attempt(seat_policy(policy, SUITE, profile=profile), ReachWorld(body="own", profile=profile), setting)


def _kept(attempt: Attempt) -> list[Exchange]:
    return list(read_exchanges(attempt.exchanges.finish() or b""))


def _pictures(calls: list[Exchange]) -> list[dict[str, bytes]]:
    return [{name: image.tobytes() for name, image in call.images.items()} for call in calls]


@pytest.mark.parametrize("profile", ["standard", "history"])
def test_what_a_policy_writes_into_its_observations_is_nowhere_in_the_recording(profile: str) -> None:
    liar = Tampering(profile)
    honest, tampered = _played(Honest(profile), profile), _played(liar, profile)
    assert liar.wrote == 0 and tampered.fault is None and tampered.recorder.steps == 5
    one, other = _kept(honest), _kept(tampered)
    assert _pictures(one) == _pictures(other) and any(_pictures(one))
    for mine, theirs in zip(one, other, strict=True):
        assert mine.frames_sha256 == theirs.frames_sha256
        assert theirs.observation.episode == "a" * 32
        assert (theirs.observation.call_index, theirs.observation.step_index) == (
            mine.observation.call_index,
            mine.observation.step_index,
        )
        assert theirs.observation.remaining == mine.observation.remaining
        assert mine.rows is not None and theirs.rows is not None and np.array_equal(mine.rows, theirs.rows)
        assert {name: value.tolist() for name, value in theirs.observation.proprio.items()} == {
            name: value.tolist() for name, value in mine.observation.proprio.items()
        }
