"""An episode as the service holds it: what lies on the table, and the answers that can be asked for again.

Source: policy contract, sections 3 and 4.2.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from trialplate.errors import TrialplateError
from trialplate.record import Ack, EndReason, EpisodeInfo, Observation, PolicyDecision

Reply = Ack | TrialplateError
KEPT_REPLIES = 64
"""How many answers of an episode can be asked for again: the latest."""


@dataclass(slots=True, eq=False)
class Call:
    """One observation on the table. ``claimed``: digest of the body that answers it; ``outcome``: what was in it.

    ``named``: that body says itself which call it answers.
    """

    observation: Observation
    claimed: bytes | None = None
    named: bool = False
    outcome: PolicyDecision | TrialplateError | None = None
    _written: dict[str, bytes] = field(default_factory=dict)
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def written(self, form: str, write: Callable[[Observation], bytes]) -> bytes:
        """Return the observation as bytes in one form, the same bytes each time; ``write`` runs once per form."""
        with self._writing:
            if form not in self._written:
                self._written[form] = write(self.observation)
            return self._written[form]


@dataclass(slots=True, eq=False)
class Episode:
    """The present episode: what lies on the table, the answers that can be asked for again, and how it ended.

    ``id`` is what a holder knows: random, because whoever has it may act. The run's own name of the episode follows
    from the lock, so it is never told. ``over``: the last ack has said that the end comes next. ``nameless``: digests
    of answered bodies that name no call, so that the same bytes may also be meant for the next.
    """

    id: str
    arm: str
    info: EpisodeInfo
    call: Call | None = None
    calls: int = 0
    replies: OrderedDict[bytes, Reply] = field(default_factory=OrderedDict)
    nameless: set[bytes] = field(default_factory=set)
    ended: EndReason | None = None
    closing: bool = False
    over: bool = False


def body_digest(body: bytes) -> bytes:
    """Return what two byte-equal bodies have in common."""
    return hashlib.sha256(body).digest()
