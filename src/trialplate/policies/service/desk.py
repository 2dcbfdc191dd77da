"""What the service does for each request, whatever carried it: the order of the contract, and one answer to each act.

Source: policy contract, sections 3 and 4.2.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from trialplate.canonical import JsonValue
from trialplate.errors import ContractFault, PolicyFault, TrialplateError
from trialplate.policies.matching import compare
from trialplate.policies.messages import (
    agreed_bytes,
    episode_message,
    no_episode_message,
    parse_hello,
    parse_register,
    registered_message,
    results_message,
    service_hello_message,
    spec_message,
    status_message,
    terms_part,
)
from trialplate.policies.messages.reading import parse_decision, text_at
from trialplate.policies.messages.writing import PROTOCOL, ack_message, episode_end_message, observation_message
from trialplate.policies.service.answers import shutting_down, unknown_episode, written
from trialplate.policies.service.episode import Call, Episode, body_digest
from trialplate.policies.service.rendezvous import Rendezvous
from trialplate.policies.setting import ActorSetting
from trialplate.record import Observation
from trialplate.spec.registration import Registration

MANAGEMENT_BYTES = 262_144
"""Largest message of a driver that is no decision: hello, register."""

BYTES_PER_NUMBER = 64
"""What one number of a chunk may take with its separators and indentation."""

DECISION_BYTES = 65_536
ENCODINGS: tuple[Literal["json", "msgpack"], ...] = ("json", "msgpack")
IN_LOOP_BYTES = 16_384
"""Above this a body is read beside the event loop, so that others are answered meanwhile."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How far the run is."""

    planned: int
    initiated: int
    ended: int


class Desk:
    """Everything behind the doors. ``arms``: the served arms of the lock, as locked.

    ``counts`` says how far the run is; ``results`` scores what was recorded, and may take its time.
    """

    def __init__(
        self,
        rendezvous: Rendezvous,
        arms: Mapping[str, ActorSetting],
        *,
        counts: Callable[[], Counts],
        results: Callable[[], Sequence[Mapping[str, JsonValue]]],
    ) -> None:
        self.rendezvous = rendezvous
        self._arms, self._counts, self._results = dict(arms), counts, results
        self._greeted: set[str] = set()
        self._registered: dict[str, Registration] = {}
        self._begun = False
        self._scoring = asyncio.Lock()
        self._scored: list[dict[str, JsonValue]] | None = None
        self._told, self._read = 0, False

    # -- limits ----------------------------------------------------------------------------------------------------

    @property
    def decision_bytes(self) -> int:
        """Return the largest decision that can be a valid one; what is larger is refused unread."""
        return max(
            min(
                arm.budgets.max_message_bytes,
                DECISION_BYTES + BYTES_PER_NUMBER * arm.budgets.max_chunk_length * arm.action.dim,
            )
            for arm in self._arms.values()
        )

    @property
    def patience_s(self) -> float:
        """Return how long a request may wait for the run: as long as an episode may take."""
        return max(arm.budgets.episode_timeout_s for arm in self._arms.values())

    @property
    def thinking_s(self) -> float:
        """Return how long an actor may think about one observation."""
        return max(max(a.budgets.call_timeout_s, a.budgets.first_call_timeout_s) for a in self._arms.values())

    @property
    def registered(self) -> Mapping[str, Registration]:
        """The identities that came, by arm."""
        return dict(self._registered)

    # -- management ------------------------------------------------------------------------------------------------

    def hello(self, message: Any) -> dict[str, Any]:
        """Answer a driver's hello. Raises ContractFault."""
        hello = parse_hello(message)
        if hello.role != "driver":
            raise ContractFault(f"a driver says hello here, got role {hello.role!r}", code="wire_malformed")
        setting = self._arm(hello.arm)
        limit = agreed_bytes(setting.budgets.max_message_bytes, hello.max_message_bytes, spec=setting.observation)
        self._greeted.add(setting.arm)
        return service_hello_message(_terms(setting), encodings=ENCODINGS, max_message_bytes=limit)

    def register(self, message: Any) -> dict[str, Any]:
        """Bind the identity of an arm; it may be corrected until an episode is asked for. Raises ContractFault."""
        register = parse_register(message)
        setting = self._arm(register.arm)
        if setting.arm not in self._greeted:
            raise ContractFault("hello comes before register", code="out_of_order")
        if register.policy_spec is not None:
            match = compare(
                setting.observation,
                setting.action,
                register.policy_spec,
                replan_interval=setting.replan_interval,
                max_message_bytes=setting.budgets.max_message_bytes,
            )
            if match.problems:
                first = match.problems[0]
                code = first.code if first.code in _REFUSED_MATCHES else "contract_mismatch"
                raise ContractFault(f"{len(match.problems)} of it do not fit, first: {first}", code=code)
        registration = identity_of(register.registration, setting)
        if not self._begun:
            self._registered[setting.arm] = registration
        bound = self._registered[setting.arm]
        if bound.sha256() != registration.sha256():
            raise ContractFault(
                f"{bound.sha256()} is registered already, got {registration.sha256()}", code="identity_changed"
            )
        return registered_message(bound.sha256(), exploratory=bound.sha256() != setting.registration_sha256)

    async def start(self) -> dict[str, Any]:
        """Start the next planned attempt and return it once it is announced. Raises ContractFault or HarnessFault."""
        missing = sorted(self._arms.keys() - self._registered.keys())
        if missing:
            named = f" (arm {missing[0]!r})" if len(self._arms) > 1 else ""
            raise ContractFault(f"register comes before the first episode{named}", code="registration_missing")
        self._refuse_late()
        self._begun = True
        episode = await self.rendezvous.next_episode(timeout_s=self.patience_s)
        if episode is None:
            self._told += 1
            return no_episode_message(self.rendezvous.ending or "complete")
        started = episode_message(episode.id)
        return started if len(self._arms) == 1 else {**started, "arm": episode.arm}

    async def close(self, id_: str) -> dict[str, Any]:
        """End an episode; one that is in flight is recorded as interrupted."""
        episode = self.episode(id_)
        return episode_end_message(id_, await self.rendezvous.close(episode, timeout_s=self.patience_s))

    def abort(self) -> dict[str, Any]:
        """End the run; the attempt in flight is recorded as interrupted."""
        self.rendezvous.no_more("aborted")
        self.rendezvous.stop("the driver aborted it")
        self._told += 1
        return self.status()

    def status(self) -> dict[str, Any]:
        """Return how far the run is; nothing about how it goes."""
        counts, ending = self._counts(), self.rendezvous.ending
        waiting = "waiting" if self._arms.keys() - self._registered.keys() else "running"
        plain = status_message(
            ending or waiting,  # type: ignore[arg-type]
            planned=counts.planned,
            initiated=counts.initiated,
            ended=counts.ended,
        )
        present = self.rendezvous.present
        in_flight = present is not None and present.ended is None and ending is None
        return {**plain, "episode": present.id if present is not None and in_flight else None}

    async def results(self) -> dict[str, Any]:
        """Return every attempt with its score, once no further attempt can begin. Raises ContractFault before."""
        if self.rendezvous.ending is None:
            raise ContractFault("there are results when no further episode can begin", code="out_of_order")
        async with self._scoring:
            if self._scored is None:
                self._scored = [dict(item) for item in await asyncio.to_thread(self._results)]
        return results_message(self._scored)

    async def has_read(self) -> None:
        """Note that the results have been sent."""
        self._read = True

    @property
    def all_read(self) -> bool:
        """Return whether the only driver that there can be has got the last answer that there is."""
        return self._read and len(self._arms) == 1

    @property
    def all_told(self) -> bool:
        """Return whether as many drivers as there can be were told that no further episode begins."""
        return self._read or self._told >= len(self._arms)

    # -- the holder of an id ---------------------------------------------------------------------------------------

    def episode(self, id_: str) -> Episode:
        """Return the present episode when this is its id; raises the refusal that says nothing otherwise."""
        present = self.rendezvous.present
        if present is None or not self.is_present(id_):
            raise unknown_episode()
        return present

    def is_present(self, id_: str) -> bool:
        """Return whether this is the id of the present episode."""
        present = self.rendezvous.present
        return present is not None and hmac.compare_digest(present.id.encode(), id_.encode("utf-8", "replace"))

    def spec(self, episode: Episode) -> dict[str, Any]:
        """Return what holds for the whole episode."""
        setting = self._arms[episode.arm]
        return spec_message(
            replace(episode.info, episode=episode.id),
            self._registered[episode.arm].sha256(),
            terms=_terms(setting),
        )

    async def observe(self, episode: Episode) -> Call | dict[str, Any]:
        """Return what lies on the table, or the message that the episode has ended."""
        found = await self.rendezvous.look(episode, timeout_s=self.patience_s)
        return found if isinstance(found, Call) else episode_end_message(episode.id, found)

    async def shown(self, episode: Episode, call: Call, *, form: str) -> bytes:
        """Return an observation in one form, each time the same bytes."""

        def write(observation: Observation) -> bytes:
            return written(observation_message(observation, spec=self._arms[episode.arm].observation), form=form)

        return await asyncio.to_thread(call.written, form, write)

    async def act(
        self, episode: Episode, body: bytes, *, decode: Callable[[bytes], Any], only_stop: bool = False
    ) -> dict[str, Any]:
        """Hand the run what came whole as a decision, and return its ack once it is carried out.

        Raises whatever was wrong with it; the same bytes again get the same answer, and run nothing.
        """
        self._refuse_late()
        digest = body_digest(b"stop" + body if only_stop else body)
        call = self.rendezvous.claim(episode, digest)
        if call is not None:
            try:
                outcome = await _outcome(call, body, decode=decode, only_stop=only_stop)
            except BaseException:
                self.rendezvous.release(call)
                raise
            self.rendezvous.answer(call, outcome)
        reply = await self.rendezvous.reply(episode, digest, timeout_s=self.patience_s)
        if isinstance(reply, TrialplateError):
            raise reply
        return ack_message(reply)

    async def unreadable(self, episode: Episode, fault: TrialplateError) -> None:
        """Hand the run an answer that cannot be read, when a call is open: it is charged like on any other wire."""
        digest = body_digest(repr(fault).encode())
        try:
            call = self.rendezvous.claim(episode, digest)
        except ContractFault:
            return
        if call is not None:
            self.rendezvous.answer(call, fault)
            await self.rendezvous.reply(episode, digest, timeout_s=self.patience_s)

    # -- the inside ------------------------------------------------------------------------------------------------

    def _arm(self, name: str | None) -> ActorSetting:
        if name is None and len(self._arms) == 1:
            return next(iter(self._arms.values()))
        if name is None or name not in self._arms:
            asked = "no arm" if name is None else f"arm {name!r}"
            raise ContractFault(f"{asked}; expected one of {', '.join(sorted(self._arms))}", code="wire_malformed")
        return self._arms[name]

    def _refuse_late(self) -> None:
        if self.rendezvous.stopped is not None and self.rendezvous.ending is None:
            raise shutting_down()


_REFUSED_MATCHES = ("contract_mismatch", "contract_undeclared", "message_too_large")


def identity_of(came: Registration, setting: ActorSetting) -> Registration:
    """Return the identity of a policy behind this service: its own word, and the adapters that are ours."""
    ours = setting.registration.adapters
    theirs = tuple(adapter for adapter in came.adapters if adapter not in ours)
    return came.model_copy(update={"adapters": theirs + ours})


def _terms(setting: ActorSetting) -> dict[str, Any]:
    return terms_part(
        setting.observation,
        setting.action,
        replan_interval=setting.replan_interval,
        budgets=setting.budgets,
        max_steps=setting.max_steps,
    )


async def _outcome(call: Call, body: bytes, *, decode: Callable[[bytes], Any], only_stop: bool) -> Any:
    """Return the decision in a body or what is wrong with it; raises when it answers an earlier call."""

    def read() -> Any:
        message = decode(body)
        if _answers_an_earlier_call(message, call):
            return None
        call.named = _call_index(message) == call.observation.call_index
        decision = parse_decision(message, expected=call.observation)
        if only_stop and message.get("stop") is None:
            raise PolicyFault(
                "stop: expected a decision to stop; nothing was executed", code="invalid_response_schema"
            )
        return decision

    try:
        found = read() if len(body) <= IN_LOOP_BYTES else await asyncio.to_thread(read)
    except TrialplateError as fault:
        return fault
    if found is None:
        raise ContractFault("that call has been answered already", code="out_of_order")
    return found


def _answers_an_earlier_call(message: Any, call: Call) -> bool:
    """Return whether a message is an answer to a call of this episode that has been answered before."""
    if not isinstance(message, dict) or text_at(message, "protocol") != PROTOCOL:
        return False
    index = _call_index(message)
    early = index is not None and 0 <= index < call.observation.call_index
    return early and text_at(message, "episode") == call.observation.episode


def _call_index(message: Any) -> int | None:
    index = message.get("call_index") if isinstance(message, dict) else None
    return index if type(index) is int else None
