"""A policy that asks a vla-eval model server: one object between two protocols, nothing else.

    [[arms]]
    name = "theirs"
    policy = "vla_eval_arm.py:VlaEvalArm"
    [arms.options]
    address = "ws://gpu:8000"
    suite = "toy-reach"
    profile = "front"
    channels = "front,ee_pos"

What a vla-eval server reads is its own convention: ``images`` by name, ``state`` (the numbers joined in the order of
``channels``) and ``task_description``. It declares no meaning of its numbers, so the operator does, by naming
channels of the suite; they are sent as the suite sends them. Its messages are msgpack maps of ``type``, ``payload``,
``seq`` and ``timestamp``, with arrays in the form of our own dialect.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from websockets.sync.client import ClientConnection, connect

from trialplate.policies.wire import own
from trialplate.record import ActionChunk, EpisodeInfo, Observation
from trialplate.registry import load_suite
from trialplate.spec.channels import PolicySpec

LIMIT_BYTES = 2**26


class VlaEvalArm:
    """One connection to one server, made for each episode, so that nothing is carried from one to the next.

    ``channels``: cameras and numbers of the suite's ``profile``, joined by commas. ``rows``: the most that the server
    answers at once. ``timeout_s``: for each answer. Whatever goes wrong is raised, and the harness charges it.
    """

    def __init__(
        self, *, address: str, suite: str, profile: str, channels: str, rows: int = 1, instruction: bool = True,
        timeout_s: float = 60.0,
    ) -> None:  # fmt: skip
        known = load_suite(suite)
        expects = known.profiles[profile].only(*channels.split(","), instruction=instruction)
        self._spec = PolicySpec(expects=expects, emits=known.action, chunk_length=rows)
        self._address, self._timeout_s = address, timeout_s
        self._numbers = [name for name in channels.split(",") if name in expects.proprio_names]
        self._open = ExitStack()
        self._door: ClientConnection | None = None
        self._number = 0

    def spec(self) -> PolicySpec:
        """Return what the operator declared by naming channels."""
        return self._spec

    def reset(self, episode: EpisodeInfo) -> None:
        """Connect anew and begin an episode."""
        self.close()
        opening = connect(self._address, compression=None, max_size=LIMIT_BYTES)
        self._door, self._number = self._open.enter_context(opening), 0
        self._send("hello", {"harness_version": "trialplate", "protocol_version": 1})
        greeted = self._receive("hello")
        if greeted.get("protocol_version", 1) != 1:
            raise ValueError(f"the server speaks protocol {greeted['protocol_version']!r}, expected 1")
        self._send("episode_start", {"task": {"name": episode.instruction}})

    def act(self, observation: Observation) -> ActionChunk:
        """Send one look and return the rows that come back; a single row may come without its leading axis."""
        payload: dict[str, Any] = {"images": dict(observation.images)}
        if self._numbers:
            payload["state"] = np.concatenate([observation.proprio[name] for name in self._numbers])
        if observation.instruction is not None:
            payload["task_description"] = observation.instruction
        self._send("observation", payload)
        actions = self._receive("action")["actions"]
        return ActionChunk(actions[np.newaxis] if np.ndim(actions) == 1 else actions)

    def close(self) -> None:
        """Hang up."""
        self._open.close()
        self._door = None

    def _send(self, kind: str, payload: Mapping[str, Any]) -> None:
        assert self._door is not None
        self._number += 1
        message = {"type": kind, "payload": payload, "seq": self._number, "timestamp": time.time()}
        self._door.send(own.encode(message))

    def _receive(self, kind: str) -> Any:
        assert self._door is not None
        frame = self._door.recv(timeout=self._timeout_s, decode=False)
        message = own.decode(bytes(frame), max_bytes=LIMIT_BYTES)
        if message["type"] != kind:
            raise ValueError(f"expected {kind}, the server sent {message['type']}: {str(message['payload'])[:400]}")
        if kind == "action" and message["seq"] != self._number:
            raise ValueError(f"expected the answer to {self._number}, got the one to {message['seq']}")
        return message["payload"]
