"""A policy behind a file mailbox: observations are put there, answers are looked for.

``<root>/<32 hex>/`` holds ``spec.json``, ``obs/NNNNN.json`` with its pictures, ``act/NNNNN.json`` written by the
actor, and at the end ``done.json``. One observation is open at a time. What an actor writes is read once; what comes
under another number, or too late, is recorded and never executed. A development transport: it meters nothing, knows
nobody's identity and is no sandbox. Source: policy contract, section 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from typing import Any

from trialplate.errors import ContractFault, HarnessFault, PolicyFault, StorageFailure
from trialplate.interfaces import Scenario
from trialplate.policies.mailbox.files import observation_files, spec_document
from trialplate.policies.mailbox.folder import (
    ANSWERS,
    DONE,
    OBSERVATIONS,
    SPEC,
    Identity,
    MailboxFolder,
    Taken,
    answer_name,
    too_large,
)
from trialplate.policies.messages import parse_decision
from trialplate.policies.messages.reading import text_at
from trialplate.policies.setting import ActorSetting
from trialplate.policies.wire import strict_json
from trialplate.record import Ack, EndReason, EpisodeInfo, Event, Measurement, Observation, PolicyDecision

POLL_S = 0.05
MOST_STRANGERS = 8
"""Answers under wrong numbers that are recorded one by one at a look; of more only the count is."""
STRANGER_BYTES = 1024 * 1024
"""As much of an answer that is not executed is read, to record its digest."""
MOST_EVENTS = 256

Announce = Callable[[Path], Mapping[str, str]]


@dataclass(slots=True)
class _Open:
    """The mailbox of one episode.

    ``consumed``: numbers that were due when a file was taken under them. ``known``: files that were recorded under a
    number that was not due; under the same name only another file counts.
    """

    episode: str
    folder: MailboxFolder
    consumed: set[int] = field(default_factory=set)
    known: set[Identity] = field(default_factory=set)
    due: int | None = None
    step: int = 0
    overdue: bool = False
    ended: bool = False
    seen: int = 0


class MailboxActor:
    """One arm of a run whose actor reads and writes files below ``root``.

    ``announce``: told the folder of an episode once all that an actor needs at first lies there; what it returns is
    recorded with the name of the folder as ``mailbox_opened``. ``new_name``: makes the name of a folder, 32 random
    hex digits. ``clock`` and ``pause`` are replaced in tests. ``broken``: a full disk, a root where no mailbox can be
    made, or nobody to tell; the attempt ends with it, and another one would, too.
    """

    def __init__(
        self,
        root: Path,
        setting: ActorSetting,
        *,
        announce: Announce = lambda folder: {},
        new_name: Callable[[], str] = lambda: token_hex(16),
        clock: Callable[[], float] = monotonic,
        pause: Callable[[float], None] = sleep,
    ) -> None:
        self._root, self._setting, self._announce = root, setting, announce
        self._new_name, self._clock, self._pause = new_name, clock, pause
        self._open: _Open | None = None
        self._before: _Open | None = None
        self._events: list[Event] = []
        self.broken: HarnessFault | None = None

    def reset(self, episode: EpisodeInfo, scenario: Scenario) -> None:
        """Make the mailbox of an episode. Raises HarnessFault when its name is taken or its disk fails."""
        with self._breaking(HarnessFault):
            self._begin(episode)

    def _begin(self, episode: EpisodeInfo) -> None:
        self._put_away()
        if self._before is not None:
            self._look_back(self._before)
        box = _Open(episode.episode, MailboxFolder.create(self._root, self._new_name()))
        self._open = box
        box.folder.publish({SPEC: strict_json.dumps(spec_document(self._setting, episode))})
        try:
            told = self._announce(box.folder.path)
        except OSError as error:
            raise HarnessFault(f"nobody can be told of the mailbox: {error}", code="connect_failed") from error
        self._see("mailbox_opened", box, mailbox=box.folder.path.name, **told)

    def ask(self, observation: Observation, measure: Callable[[], Measurement]) -> PolicyDecision:
        """Put an observation there and wait for its answer.

        Raises PolicyFault ``policy_timeout`` or ``invalid_response_schema`` (a link, a wrong number, no decision),
        ContractFault ``wire_malformed`` (no JSON), ``message_too_large`` or a wrong echo, HarnessFault
        ``transport_lost`` when the mailbox is gone, StorageFailure when its disk is full.
        """
        with self._breaking(StorageFailure):
            return self._ask(observation)

    def _ask(self, observation: Observation) -> PolicyDecision:
        box, budgets, due = self._opened(), self._setting.budgets, observation.call_index
        limit_s = budgets.call_timeout_s if due else budgets.first_call_timeout_s
        deadline_s = self._clock() + limit_s
        box.due, box.step = due, observation.step_index
        early = self._record_strangers(box, "wrong_index", due=None)
        document, pictures = observation_files(observation, self._setting.observation)
        box.folder.publish(pictures, into=OBSERVATIONS)
        box.folder.publish({answer_name(due): strict_json.dumps(document)}, into=OBSERVATIONS)
        if early is not None:
            raise _refused(
                f"{ANSWERS}/{early} was there before {OBSERVATIONS}/{answer_name(due)}: it is not executed"
            )
        looks = 0
        while (left_s := deadline_s - self._clock()) > 0:
            looks += 1
            taken = self._look(box, due)
            if taken is not None:
                return self._decision(box, taken, observation, looks)
            self._pause(min(POLL_S, left_s))
        box.overdue = True
        others = box.folder.other_names()
        hint = f"; {ANSWERS}/ holds {', '.join(others)}" if others else ""
        raise PolicyFault(
            f"no {ANSWERS}/{answer_name(due)} within {limit_s:g} s of its observation{hint}", code="policy_timeout"
        )

    def acknowledge(self, ack: Ack) -> None:
        """Say nothing: an actor sees what became of its rows in the next observation, or the end."""

    def end(self, reason: EndReason) -> None:
        """Put ``done.json`` there, and record what the actor has written and nobody has read.

        After a timeout the mailbox is watched for up to ``close_timeout_s``, so that a late answer is seen as late.
        """
        box = self._open
        if box is None:
            return
        with self._breaking(StorageFailure):
            self._publish_end(box, reason)
        until_s = self._clock() + (self._setting.budgets.close_timeout_s if box.overdue else 0)
        while self._record_strangers(box, "late_response", due=None) is None:
            left_s = until_s - self._clock()
            if left_s <= 0:
                break
            self._pause(min(POLL_S, left_s))

    def close(self) -> None:
        """Give the open mailbox back."""
        self._put_away()
        self._before = None

    def drain_events(self) -> tuple[Event, ...]:
        """Return and forget what was seen since the last call and is part of no decision; the detail is JSON.

        ``late_response``: an answer that came after the deadline or the end; ``wrong_index``: one under a number that
        was not due; ``response_refused``: one that is no decision; ``mailbox_opened``: where, and what the actor was
        told.
        """
        events, self._events = tuple(self._events), []
        return events

    @contextmanager
    def _breaking(self, *kinds: type[HarnessFault]) -> Iterator[None]:
        """Remember a fault after which no further mailbox can be expected to work."""
        try:
            yield
        except kinds as fault:
            self.broken = fault
            raise

    def _opened(self) -> _Open:
        if self._open is None:
            raise HarnessFault("no mailbox is open: reset comes before the first observation", code="transport_lost")
        return self._open

    def _look(self, box: _Open, due: int) -> Taken | None:
        """Return the answer that is due when it is there; what stands under another number is refused."""
        names = box.folder.answers()
        if due in names and box.folder.identity(names[due]) not in box.known:
            taken = box.folder.take(names[due], limit_bytes=self._setting.budgets.max_message_bytes)
            if taken is not None:
                box.consumed.add(due)
                return taken
        wrong = self._record_strangers(box, "wrong_index", due=due)
        if wrong is not None:
            raise _refused(f"{ANSWERS}/{wrong} was written while {answer_name(due)} was due: it is not executed")
        return None

    def _decision(self, box: _Open, taken: Taken, observation: Observation, looks: int) -> PolicyDecision:
        limit_bytes = self._setting.budgets.max_message_bytes
        try:
            if taken.refusal:
                raise _refused(f"{ANSWERS}/{taken.name} is {taken.refusal}: it is not read", rule="a plain file")
            if taken.data is None:
                raise too_large(taken, limit_bytes)
            message = strict_json.loads(taken.data, max_bytes=limit_bytes)
            if isinstance(message, dict) and text_at(message, "type") == "error":  # it could name a fault of ours
                raise _refused(f"{ANSWERS}/{taken.name} is an error message", rule="a decision")
            decision = parse_decision(message, expected=observation)
        except (PolicyFault, ContractFault) as fault:
            self._see("response_refused", box, **_facts(taken), code=fault.code)
            raise
        remarks: dict[str, Any] = {
            **decision.remarks,
            "mailbox_file_sha256": taken.sha256,
            "mailbox_file_bytes": taken.size_bytes,
            "mailbox_looks": looks,
        }
        if decision.usage is not None:  # a mailbox meters nothing: what an actor says of its usage is its word
            remarks["claimed_usage"] = _claimed(decision)
        return replace(decision, usage=None, usage_reason="not_metered", remarks=remarks)

    def _record_strangers(self, box: _Open, kind: str, *, due: int | None) -> str | None:
        """Record every answer that is not due and was not recorded before; return the name of the first."""
        expected = {*box.consumed, *(() if due is None else (due,))}
        found = self._strangers(box.folder, expected, box.known)
        for taken in found[:MOST_STRANGERS]:
            self._see(kind, box, **_facts(taken), due=box.due)
        if len(found) > MOST_STRANGERS:
            self._see(kind, box, more=len(found) - MOST_STRANGERS, due=box.due)
        return found[0].name if found else None

    def _strangers(self, folder: MailboxFolder, expected: Set[int], known: set[Identity]) -> list[Taken]:
        """Take every file under a number that is not expected and that was not recorded before."""
        found: list[Taken] = []
        for index, name in folder.answers().items():
            identity = folder.identity(name)
            if index in expected or identity is None or identity in known:
                continue
            taken = folder.take(name, limit_bytes=STRANGER_BYTES if len(found) < MOST_STRANGERS else 0)
            if taken is not None:
                known.add(taken.identity)
                found.append(taken)
        return found

    def _put_away(self) -> None:
        box, self._open = self._open, None
        if box is None:
            return
        if not box.ended:  # interrupted: nobody has told the actor
            with suppress(HarnessFault):
                self._publish_end(box, "aborted")
        box.folder.close()
        self._before = box

    def _publish_end(self, box: _Open, reason: EndReason) -> None:
        box.ended = True
        box.folder.publish({DONE: strict_json.dumps({"reason": reason})})

    def _look_back(self, box: _Open) -> None:
        """Record what came into a mailbox after its episode; one that was taken away since is nobody's fault."""
        with suppress(HarnessFault, PolicyFault):
            box.folder = MailboxFolder(box.folder.path)
            try:
                self._record_strangers(box, "late_response", due=None)
            finally:
                box.folder.close()

    def _see(self, kind: str, box: _Open, **facts: Any) -> None:
        """Record something, up to ``MOST_EVENTS`` for an episode; an actor cannot fill the evidence with files."""
        box.seen += 1
        if box.seen <= MOST_EVENTS:
            detail = strict_json.dumps({"episode": box.episode, **facts}).decode("utf-8")
            self._events.append(Event(box.step, kind, detail))


def _facts(taken: Taken) -> dict[str, Any]:
    facts: dict[str, Any] = {"file": f"{ANSWERS}/{taken.name}", "size_bytes": taken.size_bytes}
    facts["sha256"] = taken.sha256
    if taken.data is None:
        facts["sha256_reason"] = "unavailable"
        facts["refusal"] = taken.refusal or "longer than is read"
    return facts


def _claimed(decision: PolicyDecision) -> dict[str, Any]:
    usage = decision.usage
    assert usage is not None
    return {
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": usage.cost,
    }


def _refused(message: str, *, rule: str = "one answer, under the number of the observation") -> PolicyFault:
    return PolicyFault(message, code="invalid_response_schema", rule=rule)
