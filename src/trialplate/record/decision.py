"""What a policy returns: a closed union."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ActionChunk:
    """Rows of actions to run one after the other, ``vectors`` of shape (n, dim), n >= 1.

    The values are whatever the policy sent: the loop validates every row before the first one runs.
    """

    vectors: Any


@dataclass(frozen=True, slots=True)
class Stop:
    """The policy ends its episode. It awards nothing: the scorer decides from what was recorded."""

    reason: str | None = None


Decision = ActionChunk | Stop
