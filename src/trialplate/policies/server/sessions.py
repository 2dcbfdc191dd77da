"""What the messages of one connection to a policy server mean: a conversation without sockets.

A dialect makes one session per connection. ``receive`` turns a message into steps; the server carries each out in the
policy's thread and gives the outcome back to ``reply``. Source: policy contract, section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trialplate.policies.messages.handshake import needed_bytes
from trialplate.record import EpisodeInfo, Observation
from trialplate.spec.channels import PolicySpec

SMALLEST_LIMIT_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Begin:
    """The policy forgets the episode before."""

    info: EpisodeInfo
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Decide:
    """The policy decides."""

    observation: Observation
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Say:
    """The policy is not asked; ``closes``: the connection ends after it."""

    data: bytes | str | None
    closes: bool = False


Step = Begin | Decide | Say


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back. ``code``: the WebSocket close code when ``closes``."""

    data: bytes | str | None
    closes: bool = False
    code: int = 1000


class Session(Protocol):
    """One connection's conversation."""

    def receive(self, data: bytes | str) -> Sequence[Step]:
        """Read one message. Raises nothing: a message that cannot be read is answered."""
        ...

    def reply(self, step: Step, outcome: Any) -> Reply:
        """Return the answer to a step: ``outcome`` is a decision, a fault, or None."""
        ...


class Dialect(Protocol):
    """How clients are spoken to."""

    greeting: bytes
    limit_bytes: int

    def session(self) -> Session:
        """Begin a conversation."""
        ...


def limit_for(declared: PolicySpec, max_message_bytes: int) -> int:
    """Return the largest message that this policy needs, at least 1 MiB and at most ``max_message_bytes``."""
    expects = declared.expects
    past = 9 * expects.history.actions * declared.emits.dim if expects.history else 0
    return min(max_message_bytes, max(SMALLEST_LIMIT_BYTES, needed_bytes(expects) + past))
