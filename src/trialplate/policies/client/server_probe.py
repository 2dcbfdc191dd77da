"""Try a policy server without a world: synthetic observations, its latency, and whether a batch changes its answers.

The pictures and numbers are drawn from the ranges that the policy declares; they show nothing real, so the actions
are worth nothing. Source: policy contract, section 9 (``policy probe``).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import ceil
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import PolicyFault, UsageError
from trialplate.policies.client.websocket import RemoteHello, WebSocketActor, describe
from trialplate.policies.setting import ActorSetting
from trialplate.policies.validation import validate_chunk
from trialplate.record import ActionChunk, EpisodeInfo, History, Measurement, Observation, Remaining
from trialplate.spec.channels import ObservationSpec, ProprioSpec
from trialplate.spec.protocol import Budgets

MAX_CALLS = 1_000
_SEED = 20_240_926


@dataclass(frozen=True, slots=True)
class Probe:
    """What a probe found. ``equal``: whether serial and batched answers are the same bytes, None without a batch.

    ``serial_ms``, ``batch_ms``: latency of each call. ``faults``: what the answers did against the declared actions.
    """

    hello: RemoteHello
    serial_ms: tuple[float, ...]
    batch_ms: tuple[float, ...]
    batch_sizes: tuple[int | None, ...]
    equal: bool | None
    faults: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return the plain form."""
        return {
            "software": self.hello.software,
            "registration_sha256": self.hello.registration.sha256(),
            "max_message_bytes": self.hello.max_message_bytes,
            "calls": len(self.serial_ms) + len(self.batch_ms),
            "serial_ms": {"p50": rank(self.serial_ms, 0.5), "p95": rank(self.serial_ms, 0.95)},
            "batch_ms": {"p50": rank(self.batch_ms, 0.5), "p95": rank(self.batch_ms, 0.95)},
            "batch_sizes": sorted({size for size in self.batch_sizes if size is not None}),
            "serial_equals_batch": self.equal,
            "faults": list(self.faults),
        }


def rank(values: Sequence[float], q: float) -> float | None:
    """Return the nearest-rank quantile, None of nothing."""
    ordered = sorted(values)
    return ordered[max(0, ceil(len(ordered) * q) - 1)] if ordered else None


def probe(
    uri: str, *, batch: int, calls: int = 20, connect_timeout_s: float = 30.0, call_timeout_s: float = 180.0
) -> Probe:
    """Ask a policy server ``calls`` questions one by one, then the same ones from ``batch`` clients at once.

    Raises UsageError for a batch or a number of calls that is none, ValueError for a timeout that is none, and
    whatever speaks against the server.
    """
    if not 1 <= batch <= 256 or not 1 <= calls <= MAX_CALLS:
        raise UsageError(f"expected a batch of 1 to 256 and 1 to {MAX_CALLS} calls, got {batch} and {calls}")
    budgets = Budgets(
        connect_timeout_s=connect_timeout_s, call_timeout_s=call_timeout_s, first_call_timeout_s=call_timeout_s
    )
    hello = describe(uri, connect_timeout_s=connect_timeout_s, max_message_bytes=2**26)
    if batch > 1 and hello.policy_spec.state == "instance":
        raise UsageError(
            "the policy declares state 'instance': it serves one client at a time, so there is no batch to probe;"
            " ask for --batch 1"
        )
    setting = _setting(hello, budgets)
    looks = [synthetic(hello.policy_spec.expects, setting, number) for number in range(calls)]
    alone = _Client(uri, setting)
    try:
        serial = [alone.ask(look) for look in looks]
    finally:
        alone.close()
    together = _together(uri, setting, looks, batch) if batch > 1 else []
    equal = None if not together else all(_same(a, b) for a, b in zip(serial, together, strict=True))
    faults = tuple(dict.fromkeys(answer.fault for answer in [*serial, *together] if answer.fault is not None))
    return Probe(
        hello,
        tuple(answer.latency_ms for answer in serial),
        tuple(answer.latency_ms for answer in together),
        tuple(answer.batch_size for answer in together),
        equal,
        faults,
    )


@dataclass(frozen=True, slots=True)
class _Answer:
    rows: NDArray[np.float64] | None
    latency_ms: float
    batch_size: int | None
    fault: str | None


class _Client:
    """One client with an episode of its own."""

    def __init__(self, uri: str, setting: ActorSetting) -> None:
        self._setting = setting
        self._actor = WebSocketActor(uri, setting)
        self._begun: str | None = None

    def ask(self, look: Observation) -> _Answer:
        """Begin the look's episode and ask once; a fault of the policy is an answer, too."""
        rows, size, fault = None, None, None
        start_s = perf_counter()
        try:
            self._begin(look)
            start_s = perf_counter()
            decision = self._actor.ask(look, _nothing)
            size = decision.batch_size
            if isinstance(decision.decision, ActionChunk):
                most = self._setting.budgets.max_chunk_length
                rows = validate_chunk(decision.decision.vectors, self._setting.action, max_rows=most)
        except PolicyFault as error:
            fault = f"{error.code}: {error.message}"
        return _Answer(rows, (perf_counter() - start_s) * 1000, size, fault)

    def _begin(self, look: Observation) -> None:
        text, hz = look.instruction or "", self._setting.action.control_hz
        info = EpisodeInfo(look.episode, text, hz, 1, max_steps=MAX_CALLS, policy_seed=0)
        self._actor.reset(info, None)  # type: ignore[arg-type]

    def close(self) -> None:
        """Leave."""
        self._actor.close()


def _together(uri: str, setting: ActorSetting, looks: Sequence[Observation], batch: int) -> list[_Answer]:
    """Ask the same questions from several clients at once; the answers stand in the order of the questions."""
    clients = [_Client(uri, setting) for _ in range(batch)]
    try:
        with ThreadPoolExecutor(max_workers=batch) as pool:
            answers: list[_Answer] = []
            for start in range(0, len(looks), batch):
                part = looks[start : start + batch]
                asks: list[Callable[[], _Answer]] = [
                    partial(client.ask, look) for client, look in zip(clients, part, strict=False)
                ]
                answers += pool.map(lambda ask: ask(), asks)
            return answers
    finally:
        for client in clients:
            client.close()


def _same(one: _Answer, other: _Answer) -> bool:
    if one.rows is None or other.rows is None:
        return one.rows is other.rows and (one.fault is None) == (other.fault is None)
    return one.rows.tobytes() == other.rows.tobytes()


def synthetic(expects: ObservationSpec, setting: ActorSetting, number: int) -> Observation:
    """Return observation ``number`` of an endless, repeatable series, as a policy with these channels expects it."""
    draw = np.random.default_rng([_SEED, number])
    images = {camera.name: draw.integers(0, 256, size=camera.shape, dtype=np.uint8) for camera in expects.cameras}
    past = expects.history
    return Observation(
        episode=draw.bytes(16).hex(),
        call_index=0,
        observation_id=secrets.token_hex(16),
        registration_sha256=setting.registration_sha256,
        step_index=0,
        instruction=f"synthetic instruction {number}" if expects.instruction else None,
        images=images,
        proprio={channel.name: _numbers(draw, channel) for channel in expects.proprio},
        remaining=Remaining(MAX_CALLS, None),
        history=None if past is None else _history(expects, past.frames, past.actions),
        meta={name: _META[name] for name in expects.meta},
    )


_META: dict[str, float | None] = {
    "step_index": 0, "sim_time_s": 0.0, "control_hz": 20.0, "remaining_steps": MAX_CALLS, "remaining_calls": None,
}  # fmt: skip


def _numbers(draw: np.random.Generator, channel: ProprioSpec) -> NDArray[np.float64]:
    low = np.array(channel.low if channel.low is not None else [-1.0] * channel.dim)
    high = np.array(channel.high if channel.high is not None else [1.0] * channel.dim)
    return np.asarray(low + (high - low) * draw.random(channel.dim), dtype=np.float64)


def _history(expects: ObservationSpec, frames: int, actions: int) -> History:
    return History({camera.name: (None,) * frames for camera in expects.cameras}, (None,) * actions)


def _setting(hello: RemoteHello, budgets: Budgets) -> ActorSetting:
    declared, registration = hello.policy_spec, hello.registration
    return ActorSetting(
        "probe", declared, declared.expects, declared.emits, registration, registration.sha256(), replan_interval=1,
        max_steps=MAX_CALLS, budgets=budgets,
    )  # fmt: skip


def _nothing() -> Measurement:
    raise UsageError("a probe has no world to measure")
