"""The recorded columns of one episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trialplate.canonical import array_digest, document_sha256


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the trace: ``dim`` numbers per control step, in ``unit`` (``1`` for none)."""

    name: str
    dim: int
    unit: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """Columns over control steps 0..T; row 0 is the world at rest after reset.

    ``action`` (T, dim): row t-1 is the executed action that led to step t. ``measured``: name -> (T+1, dim)
    float64. ``state_sha256``: T+1 digests of the full simulator state. ``step_wall_us`` (T+1,) int64 is the
    wall clock of each step since reset; it is kept, and is no part of the content digest.
    ``calls``: one entry per policy call (integers and digests, see the run loop).
    """

    action: NDArray[np.float64]
    measured: Mapping[str, NDArray[np.float64]]
    state_sha256: tuple[str, ...]
    step_wall_us: NDArray[np.int64]
    calls: tuple[Mapping[str, int | str | None], ...]

    @property
    def steps(self) -> int:
        """Number of executed control steps, T."""
        return len(self.action)

    def content_sha256(self) -> str:
        """Digest of everything but wall clocks: equal for equal episodes, whatever wrote the file."""
        columns = {name: array_digest(values) for name, values in self.measured.items()}
        action = array_digest(self.action) if len(self.action) else None
        return document_sha256(
            {"action": action, "measured": columns, "state": list(self.state_sha256), "calls": _timeless(self.calls)}
        )


def _timeless(calls: Sequence[Mapping[str, int | str | None]]) -> list[dict[str, int | str | None]]:
    """Leave the wall clocks out of recorded calls; most calls have the same members, so these are sorted out once."""
    kept: dict[tuple[str, ...], tuple[str, ...]] = {}
    timeless = []
    for call in calls:
        members = tuple(call)
        names = kept.get(members)
        if names is None:
            names = kept[members] = tuple(name for name in members if not name.endswith("_us"))
        timeless.append({name: call[name] for name in names})
    return timeless
