"""One attempt of toy-reach by a policy that is a function, with every observation, ack and end kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trialplate.policies.in_process import InProcessActor
from trialplate.record import Ack, EpisodeInfo, Observation
from trialplate.registry import load_suite
from trialplate.run.attempt import Attempt, Limits, Recording, Seat, Setting
from trialplate.run.loop import run_attempt
from trialplate.run.seating import seat_policy
from trialplate.spec.channels import PolicySpec
from trialplate.testing.reach import ReachWorld

SUITE = load_suite("toy-reach")
STILL = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
INFO = EpisodeInfo("a" * 32, SUITE.instruction, 20.0, 1, SUITE.max_steps, 7)


class Answers:
    """A policy that is one function of the observation."""

    def __init__(self, act: Callable[[Observation], Any], *, profile: str = "state") -> None:
        self._act, self._profile = act, profile
        self.seen: list[Observation] = []

    def spec(self) -> PolicySpec:
        """Everything the profile sends."""
        return PolicySpec(expects=SUITE.profiles[self._profile], emits=SUITE.action)

    def reset(self, episode: EpisodeInfo) -> None:
        """Forget what was seen."""
        self.seen = []

    def act(self, observation: Observation) -> Any:
        """Keep the observation, answer by the function."""
        self.seen.append(observation)
        return self._act(observation)

    def close(self) -> None:
        """Nothing is held."""


class Told(InProcessActor):
    """An actor that keeps what it was told."""

    def __init__(self, policy: Any) -> None:
        super().__init__(policy, privileged=False, genuine=lambda: False)
        self.acks: list[Ack] = []
        self.ends: list[str] = []

    def acknowledge(self, ack: Ack) -> None:
        """Keep it."""
        self.acks.append(ack)

    def end(self, reason: str) -> None:
        """Keep it."""
        self.ends.append(reason)


@dataclass(frozen=True)
class Played:
    """What a rollout left on both sides."""

    attempt: Attempt
    seen: list[Observation]
    acks: list[Ack]
    ends: list[str]
    kinds: list[str] = field(default_factory=list)


def play(
    act: Callable[[Observation], Any],
    *,
    profile: str = "state",
    world: Any = None,
    replan_interval: int = 1,
    max_steps: int = 60,
    recording: Recording = "minimal",
    **limits: Any,
) -> Played:
    """Run one attempt and return it with what the policy saw and was told."""
    policy = Answers(act, profile=profile)
    told = Told(policy)
    plain = seat_policy(policy, SUITE, profile=profile)
    seat = Seat(
        told, plain.expects, plain.action, plain.adapters, plain.cameras, plain.proprio, plain.registration_sha256
    )
    bounds = Limits(max_steps, 256, replan_interval, 10.0, 10.0, **limits)
    setting = Setting(SUITE, SUITE.scenarios()[0], INFO, 1, bounds, recording)
    attempt = run_attempt(seat, world or ReachWorld(body="own", profile=profile), setting)
    return Played(attempt, policy.seen, told.acks, told.ends, [call["kind"] for call in attempt.recorder.calls])
