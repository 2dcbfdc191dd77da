"""A mailbox under test: a clock that stands still, and an actor that acts while nobody waits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trialplate.policies.mailbox.actor import MailboxActor
from trialplate.policies.setting import ActorSetting
from trialplate.record import EpisodeInfo, Event, Issue, Measurement, Observation, Remaining
from trialplate.spec.channels import CameraSpec, HistorySpec, ObservationSpec, PolicySpec
from trialplate.spec.protocol import Budgets
from trialplate.spec.registration import Registration
from trialplate.testing.toy import ACTION, STANDARD, TOY

EPISODE = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
INFO = EpisodeInfo(EPISODE, TOY.instruction, 20.0, 1, TOY.max_steps, 7)
SCENARIO = TOY.scenarios()[0]
REGISTRATION = Registration()
MEASURE: Callable[[], Measurement] = lambda: Measurement(np.zeros(1))  # noqa: E731
DEADLINE_S = 5.0


def camera(name: str = "front", **changes: Any) -> CameraSpec:
    """A small camera."""
    said = {"height": 6, "width": 8, "layout": "hwc", "color": "rgb", "orientation": "upright", **changes}
    return CameraSpec(name=name, **said)


def seeing(*cameras: CameraSpec, history: HistorySpec | None = None) -> ObservationSpec:
    """The toy's channels with cameras."""
    return ObservationSpec(instruction=True, cameras=cameras, proprio=STANDARD.proprio, history=history)


def setting(*, observation: ObservationSpec = STANDARD, arm: str = "quiet-arm", **budgets: Any) -> ActorSetting:
    """What a mailbox must know of a run of the toy suite."""
    limits = {"call_timeout_s": DEADLINE_S, "first_call_timeout_s": 2 * DEADLINE_S, "close_timeout_s": 1.0}
    return ActorSetting(
        arm,
        PolicySpec(expects=observation, emits=ACTION),
        observation,
        ACTION,
        REGISTRATION,
        REGISTRATION.sha256(),
        replan_interval=1,
        max_steps=TOY.max_steps,
        budgets=Budgets(**{**limits, **budgets}),
    )


def look(index: int = 0, *, identity: str | None = None, issue: Issue | None = None, **changes: Any) -> Observation:
    """One look at the toy world."""
    said: dict[str, Any] = {
        "episode": EPISODE,
        "call_index": index,
        "observation_id": identity or f"{index:032x}",
        "registration_sha256": REGISTRATION.sha256(),
        "step_index": index,
        "instruction": None,
        "images": {},
        "proprio": {name: np.array([0.1 * n]) for n, name in enumerate(STANDARD.proprio_names)},
        "remaining": Remaining(TOY.max_steps - index, None),
        "issue": issue,
    }
    return Observation(**{**said, **changes})


def reply(observation: Observation, **changes: Any) -> dict[str, Any]:
    """A good answer; a change of None takes a member away."""
    message: dict[str, Any] = {
        "protocol": "trialplate.policy/1",
        "type": "decision",
        "episode": observation.episode,
        "call_index": observation.call_index,
        "observation_id": observation.observation_id,
        "registration": observation.registration_sha256,
        "chunk": {"vectors": [[0.5, -1.0]]},
        "usage": None,
        "usage_reason": "not_metered",
        "latency_ms": None,
        "latency_ms_reason": "not_metered",
    }
    message |= changes
    return {key: value for key, value in message.items() if key not in changes or changes[key] is not None}


class Bench:
    """A mailbox actor of the harness, and the other side's hands.

    ``acts``: done one after the other, one at each wait of the harness.
    """

    def __init__(self, root: Path, wanted: ActorSetting | None = None, **more: Any) -> None:
        self.now_s = 100.0
        self.acts: list[Callable[[], object]] = []
        self.root, self.name = root, EPISODE
        named = {"new_name": lambda: self.name, **more}
        self.actor = MailboxActor(root, wanted or setting(), clock=self.clock, pause=self.pause, **named)

    def clock(self) -> float:
        return self.now_s

    def pause(self, wait_s: float) -> None:
        self.now_s += wait_s
        if self.acts:
            self.acts.pop(0)()

    @property
    def folder(self) -> Path:
        return self.root / self.name

    def reset(self, info: EpisodeInfo = INFO, *, name: str = EPISODE) -> Bench:
        self.name = name
        self.actor.reset(info, SCENARIO)
        return self

    def ask(self, observation: Observation) -> Any:
        return self.actor.ask(observation, MEASURE)

    @property
    def act(self) -> Path:
        return self.folder / "act"

    def write(self, index: int, message: Mapping[str, Any] | bytes) -> Path:
        """Write an answer as an actor should: whole, then renamed."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        staged = self.act / f"{index:05d}.json.tmp"
        staged.write_bytes(data)
        return staged.rename(self.act / f"{index:05d}.json")

    def read(self, index: int) -> Any:
        """Return an observation as the actor finds it."""
        return json.loads((self.folder / "obs" / f"{index:05d}.json").read_bytes())

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Drain the events; return the details of one kind."""
        drained: tuple[Event, ...] = self.actor.drain_events()
        return [json.loads(event.detail) for event in drained if kind is None or event.kind == kind]
