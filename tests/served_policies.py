"""Policies that tests put behind a server, here or in a process of its own."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trialplate.policies.setting import ActorSetting
from trialplate.record import ActionChunk, Decision, EpisodeInfo, Observation, PolicyDecision, Remaining, Stop
from trialplate.spec.channels import (
    ActionComponent,
    ActionSpec,
    CameraSpec,
    GripperRange,
    ObservationSpec,
    PolicySpec,
    ProprioSpec,
)
from trialplate.spec.protocol import Budgets
from trialplate.spec.registration import Registration


def camera(name: str, height: int = 8, width: int = 8) -> CameraSpec:
    return CameraSpec(name=name, height=height, width=width, layout="hwc", color="rgb", orientation="upright")


def numbers(name: str, dim: int) -> ProprioSpec:
    return ProprioSpec(name=name, dim=dim, unit="rad", frame="joint", rotation=None, gripper=None)


EMITS = ActionSpec(
    control_hz=20.0,
    dim=2,
    components=(
        ActionComponent(
            name="move", dim=1, kind="joint_position", mode="absolute", delta_base=None, unit="rad", frame="joint",
            rotation=None, gripper=None, low=(-10.0,), high=(10.0,),
        ),
        ActionComponent(
            name="gripper", dim=1, kind="gripper", mode="absolute", delta_base=None, unit="1", frame=None,
            rotation=None, gripper=GripperRange(closed=0.0, open=1.0), low=(0.0,), high=(1.0,),
        ),
    ),
)  # fmt: skip
EXPECTS = ObservationSpec(
    instruction=True, cameras=(camera("front"),), proprio=(numbers("joint_pos", 3), numbers("finger", 1)),
    meta=("step_index", "remaining_calls"),
)  # fmt: skip
DECLARED = PolicySpec(
    expects=EXPECTS, emits=EMITS, chunk_length=4, state="none", max_batch_size=64, needs_reset=False
)
MAPPING = {
    "observation/image": "camera:front",
    "observation/state": ("proprio:joint_pos", "proprio:finger"),
    "prompt": "instruction",
}
WORDS: dict[str, float] = {"left": 1.0, "right": 2.0, "up": 3.0, "down": 4.0}


class Stub:
    """Answers with the number of its instruction, and a row that says what it saw."""

    declared = DECLARED

    def __init__(self, *, sleep_s: float = 0.0) -> None:
        self.sleep_s = sleep_s
        self.episodes: list[EpisodeInfo] = []

    def spec(self) -> PolicySpec:
        return self.declared

    def reset(self, episode: EpisodeInfo) -> None:
        self.episodes.append(episode)

    def act(self, observation: Observation) -> Decision | PolicyDecision:
        word = observation.instruction or ""
        if word == "slow" and observation.call_index == 1:
            time.sleep(self.sleep_s)
        if word == "raise":
            raise ValueError("no plan for this word")
        if word == "stop":
            return Stop("done")
        if word == "exit":
            os._exit(9)
        seen = float(sum(pixels.sum(dtype=np.int64) for pixels in observation.images.values()) % 7)
        return ActionChunk(np.array([[WORDS.get(word, 0.0), 0.5], [seen, 1.0]]))

    def close(self) -> None: ...


class Instance(Stub):
    """Serves one client."""

    declared = DECLARED.model_copy(update={"state": "instance", "max_batch_size": 1})


class Batching(Stub):
    """Decides in batches."""

    def act_batch(self, observations: Sequence[Observation]) -> list[Any]:
        answers: list[Any] = []
        for observation in observations:
            try:
                answers.append(self.act(observation))
            except ValueError as error:
                answers.append(error)
        return answers


def look(
    declared: PolicySpec = DECLARED, *, word: str = "left", call_index: int = 0, episode: str = "e" * 32,
    registration_sha256: str = "a" * 64,
) -> Observation:  # fmt: skip
    """Return an observation with random pictures of what a policy expects."""
    expects = declared.expects
    return Observation(
        episode=episode,
        call_index=call_index,
        observation_id=secrets.token_hex(16),
        registration_sha256=registration_sha256,
        step_index=2 * call_index,
        instruction=word if expects.instruction else None,
        images={c.name: np.frombuffer(os.urandom(c.size_bytes), np.uint8).reshape(c.shape) for c in expects.cameras},
        proprio={channel.name: np.linspace(0.0, 1.0, channel.dim) for channel in expects.proprio},
        remaining=Remaining(100, None),
        meta={"step_index": 2 * call_index, "remaining_calls": None} if expects.meta else {},
    )


def begin(episode: str = "e" * 32, *, word: str = "left") -> EpisodeInfo:
    return EpisodeInfo(episode, word, control_hz=20.0, replan_interval=2, max_steps=100, policy_seed=7)


def setting(
    declared: PolicySpec = DECLARED, registration: Registration | None = None, **budgets: Any
) -> ActorSetting:
    """Return what an actor must know of its run, with timeouts that a busy machine keeps."""
    registration = registration or Registration()
    short = {"connect_timeout_s": 3.0, "call_timeout_s": 20.0, "first_call_timeout_s": 20.0, "close_timeout_s": 1.0}
    return ActorSetting(
        "arm", declared, declared.expects, declared.emits, registration, registration.sha256(), replan_interval=2,
        max_steps=100, budgets=Budgets(**(short | budgets)),
    )  # fmt: skip


def nothing() -> Any:
    raise AssertionError("a policy behind a wire is never shown a measurement")


def asked(actor: Any, observation: Observation) -> np.ndarray:
    """Ask once and return the rows."""
    decision = actor.ask(observation, nothing).decision
    assert isinstance(decision, ActionChunk)
    return np.asarray(decision.vectors)


@contextmanager
def process(name: str, *, port: int = 0, **options: Any) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve a policy of this file in a process of its own; yield its address and the process."""
    arguments = [sys.executable, "-m", "trialplate.cli", "policy", "serve", f"{Path(__file__)}:{name}"]
    arguments += ["--bind", f"127.0.0.1:{port}", "--json"]
    for key, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            arguments += [f"--{key.replace('_', '-')}", str(each)]
    running = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )  # fmt: skip
    try:
        assert running.stdout is not None and running.stderr is not None
        said = ""
        while not said.endswith("}\n"):
            line = running.stdout.readline()
            assert line, running.stderr.read()
            said += line
        yield json.loads(said)["uri"], running
    finally:
        running.kill()
        running.communicate(timeout=10)


def with_registration(actor_setting: ActorSetting, registration: Registration) -> ActorSetting:
    return replace(actor_setting, registration=registration, registration_sha256=registration.sha256())


class WideEyed(Stub):
    """Expects three pictures of 720 x 1280 x 3."""

    declared = DECLARED.model_copy(
        update={
            "expects": ObservationSpec(
                instruction=True, cameras=tuple(camera(name, 720, 1280) for name in ("front", "left", "right"))
            )
        }
    )
