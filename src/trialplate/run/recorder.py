"""Collect the columns of one episode while it runs; cheap per step, checked at the end."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.record import Column, Measurement, Trace
from trialplate.run.frames import PendingDigest


class Recorder:
    """Preallocated columns for ``max_steps`` control steps of actions (dim,) and measurements (D,)."""

    def __init__(self, columns: Sequence[Column], *, action_dim: int, max_steps: int) -> None:
        self._columns = tuple(columns)
        width = sum(column.dim for column in columns)
        self._action = np.empty((max_steps, action_dim))
        self._measured = np.empty((max_steps + 1, width))
        self._wall_us = np.empty(max_steps + 1, dtype=np.int64)
        self._states: list[str] = []
        self._calls: list[tuple[dict[str, Any], PendingDigest]] = []
        self._start_ns = perf_counter_ns()
        self.steps = 0

    def begin(self, measurement: Measurement, state_sha256: str) -> None:
        """Record the world at rest, step 0."""
        self._start_ns = perf_counter_ns()
        self._put(0, measurement, state_sha256)

    def step(self, action: NDArray[np.float64], measurement: Measurement, state_sha256: str) -> None:
        """Record one executed action (dim,) and the world after it."""
        self._action[self.steps] = action
        self.steps += 1
        self._put(self.steps, measurement, state_sha256)

    def call(self, entry: dict[str, Any], digest: PendingDigest) -> None:
        """Record one policy call, and the digest of what was shown: it may still be on its way."""
        self._calls.append((entry, digest))

    def amend_call(self, **members: int) -> None:
        """Say what became of the last call, once it is known."""
        entry, digest = self._calls[-1]
        self._calls[-1] = ({**entry, **members}, digest)

    @property
    def call_count(self) -> int:
        """How many policy calls there were so far."""
        return len(self._calls)

    @property
    def calls(self) -> tuple[dict[str, Any], ...]:
        """The policy calls so far, each with the digest of its pictures: ``frames_sha256``, None without any."""
        return tuple({**entry, "frames_sha256": digest.result()} for entry, digest in self._calls)

    def _put(self, row: int, measurement: Measurement, state_sha256: str) -> None:
        self._measured[row] = measurement.values
        self._wall_us[row] = (perf_counter_ns() - self._start_ns) // 1000
        self._states.append(state_sha256)

    def trace(self) -> Trace | None:
        """Return the trace, or None when the world never came to rest at step 0."""
        if not self._states:
            return None
        rows = self.steps + 1
        measured: dict[str, NDArray[np.float64]] = {}
        start = 0
        for column in self._columns:
            measured[column.name] = self._measured[:rows, start : start + column.dim].copy()
            start += column.dim
        return Trace(
            action=self._action[: self.steps].copy(),
            measured=measured,
            state_sha256=tuple(self._states),
            step_wall_us=self._wall_us[:rows].copy(),
            calls=self.calls,
        )
