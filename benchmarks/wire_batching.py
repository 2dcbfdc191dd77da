"""What batching brings: eight environments ask one policy server, which decides eight together or one at a time.

The policy pads every batch to the same shape, as a compiled model does: a call costs one product of a 4096 x 4096
float32 matrix with eight columns, however many of them are asked for. The environments are eight clients in threads
of one process; each asks again as soon as it has its answer. Both servers are processes of their own and take turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import mean, median
from time import perf_counter
from typing import Any

from figures import Figure, main
from wire_contenders import serving
from wire_policy import BATCH, MATRIX

from trialplate.policies.client.server_probe import synthetic
from trialplate.policies.client.websocket import WebSocketActor, describe
from trialplate.policies.setting import ActorSetting
from trialplate.record import EpisodeInfo, Observation
from trialplate.spec.protocol import Budgets

NAME = "batches of 8 over batches of 1, steps/s of 8 environments"
TARGET = 3.0
MAX_WAIT_MS = 10
STEPS, ROUNDS = 100, 5
QUICK_STEPS, QUICK_ROUNDS = 10, 1
WARM_UP_STEPS = 5


class Environment:
    """One client with one endless episode: look, ask, count."""

    def __init__(self, uri: str, setting: ActorSetting, number: int) -> None:
        self._actor = WebSocketActor(uri, setting)
        self._look: Observation = synthetic(setting.observation, setting, number)
        self._hz, self._steps = setting.action.control_hz, 0

    def begin(self) -> None:
        """Begin the episode."""
        info = EpisodeInfo(self._look.episode, "", self._hz, 1, max_steps=10**6, policy_seed=0)
        self._actor.reset(info, None)  # type: ignore[arg-type]

    def run(self, steps: int) -> list[int]:
        """Take ``steps`` steps of one row each; return the size of the batch of each."""
        sizes = []
        for _ in range(steps):
            decision = self._actor.ask(replace(self._look, call_index=self._steps, step_index=self._steps), _nothing)
            self._steps += 1
            assert decision.batch_size is not None
            sizes.append(decision.batch_size)
        return sizes

    def close(self) -> None:
        """Leave the server."""
        self._actor.close()


def _nothing() -> Any:
    raise AssertionError("a policy behind a wire is never shown a measurement")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a server: steps a second of all environments together, and the mean size of a batch."""

    steps_per_s: float
    batch_size: float


class Contender:
    """A server of its own with eight environments in front of it."""

    def __init__(self, stack: ExitStack, pool: ThreadPoolExecutor, *options: str) -> None:
        self._pool = pool
        uri = stack.enter_context(serving("wire_policy:Product", *options))
        hello = describe(uri, connect_timeout_s=30.0, max_message_bytes=2**26)
        declared, registration = hello.policy_spec, hello.registration
        setting = ActorSetting(
            "bench", declared, declared.expects, declared.emits, registration, registration.sha256(),
            replan_interval=1, max_steps=10**6, budgets=Budgets(),
        )  # fmt: skip
        self._environments = [Environment(uri, setting, number) for number in range(BATCH)]
        for environment in self._environments:
            stack.callback(environment.close)
            environment.begin()
        self.turn(WARM_UP_STEPS)

    def turn(self, steps: int) -> Turn:
        """Let every environment take ``steps`` steps at the same time."""
        start_s = perf_counter()
        sizes = [size for part in self._pool.map(lambda one: one.run(steps), self._environments) for size in part]
        return Turn(BATCH * steps / (perf_counter() - start_s), mean(sizes))


def rounds_of(together: Contender, alone: Contender, *, steps: int, rounds: int) -> Sequence[tuple[Turn, Turn]]:
    """Let the two servers take turns, either first in turn."""
    found = []
    for n in range(rounds):
        first, second = (together, alone) if n % 2 == 0 else (alone, together)
        turns = first.turn(steps), second.turn(steps)
        found.append(turns if n % 2 == 0 else turns[::-1])
    return found


def measure(quick: bool) -> list[Figure]:
    """Return the median over the rounds of the ratio within a round."""
    steps, rounds = (QUICK_STEPS, QUICK_ROUNDS) if quick else (STEPS, ROUNDS)
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=BATCH))
        batched = ("--max-batch-size", str(BATCH), "--max-wait-ms", str(MAX_WAIT_MS))
        together, alone = Contender(stack, pool, *batched), Contender(stack, pool, "--max-batch-size", "1")
        found = rounds_of(together, alone, steps=steps, rounds=rounds)
    fast, slow = (median(pair[which].steps_per_s for pair in found) for which in (0, 1))
    note = (
        f"{fast:.0f} steps/s in batches of {mean(pair[0].batch_size for pair in found):.1f} (max_wait_ms"
        f" {MAX_WAIT_MS}), {slow:.0f} steps/s one by one; {MATRIX} x {MATRIX} float32 by {BATCH} columns per call"
    )
    return [Figure(NAME, median(a.steps_per_s / b.steps_per_s for a, b in found), ">=", TARGET, "", note)]


if __name__ == "__main__":
    main(measure, __doc__ or "")
