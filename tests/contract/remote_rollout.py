"""Attempts of toy-reach by a policy behind an address, by the same loop as every campaign."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rollout import STILL, SUITE

from trialplate.errors import DEFAULT_STATUS
from trialplate.interfaces import Actor
from trialplate.policies.client.openpi import OpenpiActor
from trialplate.policies.client.websocket import WebSocketActor
from trialplate.policies.setting import ActorSetting
from trialplate.record import ActionChunk, Decision, EpisodeInfo, Observation, PolicyDecision
from trialplate.run.attempt import Attempt, Limits, Setting
from trialplate.run.attempt import Seat as LoopSeat
from trialplate.run.loop import run_attempt
from trialplate.run.seating import seat_policy
from trialplate.spec.channels import ObservationSpec, PolicySpec
from trialplate.spec.protocol import Budgets
from trialplate.spec.registration import Registration
from trialplate.testing.reach import ReachWorld

EXPECTS = ObservationSpec(instruction=True, proprio=SUITE.profiles["state"].proprio)
DECLARED = PolicySpec(expects=EXPECTS, emits=SUITE.action, state="none", max_batch_size=16)
MAPPING = {"observation/state": tuple(f"proprio:{name}" for name in EXPECTS.proprio_names), "prompt": "instruction"}


class Still:
    """Holds the hand where it is; the base of the policies here."""

    declared = DECLARED

    def spec(self) -> PolicySpec:
        """Everything of the profile."""
        return self.declared

    def reset(self, episode: EpisodeInfo) -> None:
        """Nothing is remembered."""

    def act(self, observation: Observation) -> Decision | PolicyDecision:
        """Hold."""
        return ActionChunk([STILL])

    def close(self) -> None:
        """Nothing is held."""


class Guest:
    """An actor at the loop, for several attempts."""

    def __init__(self, actor: Actor, budgets: Budgets, *, max_steps: int) -> None:
        self._actor, self._budgets, self._max_steps = actor, budgets, max_steps
        self._episodes = 0

    def play(self, *, instruction: str = SUITE.instruction) -> Attempt:
        """Run one attempt; faults are in it."""
        self._episodes += 1
        info = EpisodeInfo(f"{self._episodes:032x}", instruction, 20.0, 1, self._max_steps, 7)
        plain = seat_policy(Still(), SUITE, profile="state")
        seat = LoopSeat(
            self._actor, plain.expects, plain.action, plain.adapters, plain.cameras, plain.proprio,
            Registration().sha256(),
        )  # fmt: skip
        limits = Limits(self._max_steps, 256, 1, self._budgets.call_timeout_s, self._budgets.first_call_timeout_s)
        scenario = SUITE.scenarios()[self._episodes % 10]
        return run_attempt(seat, ReachWorld(body="own", profile="state"), Setting(SUITE, scenario, info, 1, limits))


@contextmanager
def guest(
    uri: str, *, openpi: bool = False, max_steps: int = 5, mapping: Mapping[str, Any] = MAPPING, **budgets: Any
) -> Iterator[Guest]:
    """Yield the loop's side of a policy server; ``openpi``: in that dialect."""
    short = {"connect_timeout_s": 3.0, "call_timeout_s": 20.0, "first_call_timeout_s": 20.0, "close_timeout_s": 0.5}
    limits, registration = Budgets(**(short | budgets)), Registration()
    setting = ActorSetting(
        "arm", DECLARED, EXPECTS, SUITE.action, registration, registration.sha256(), replan_interval=1,
        max_steps=max_steps, budgets=limits,
    )  # fmt: skip
    actor: Actor
    actor = (
        OpenpiActor(uri, setting, mapping=mapping, single_vector=False) if openpi else WebSocketActor(uri, setting)
    )
    try:
        yield Guest(actor, limits, max_steps=max_steps)
    finally:
        actor.close()


def ended(attempt: Attempt) -> tuple[str | None, str | None, int]:
    """Return status and code of an attempt's fault, None for both where there is none, and the executed rows."""
    code = None if attempt.fault is None else attempt.fault.code
    return None if code is None else DEFAULT_STATUS[code], code, attempt.recorder.steps
