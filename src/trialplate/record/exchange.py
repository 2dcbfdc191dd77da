"""One call of a policy as it was exchanged: what it was shown, what it answered, what became of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trialplate.record.decision import Ack, PolicyDecision
from trialplate.record.observation import Observation


@dataclass(frozen=True, slots=True)
class Exchange:
    """One observation, the reply and its ack.

    ``kind``: ``chunk``, ``stop``, ``rejected`` (a reply that was not executed) or ``fault`` (no reply that could be
    read). ``rows`` (n, dim) float64 as the policy sent them, None unless the chunk was valid. ``reply``: None for a
    fault. ``images``: the pictures as sent, kept by the recorder when the recording is detailed, else empty.
    """

    observation: Observation
    kind: Literal["chunk", "stop", "rejected", "fault"]
    rows: NDArray[np.float64] | None
    reply: PolicyDecision | None
    ack: Ack
    frames_sha256: str | None
    images: Mapping[str, NDArray[np.uint8]]
