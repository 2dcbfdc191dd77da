"""Where a run and the requests of a driver meet: the run in its own thread, the requests in an event loop.

The run announces an episode, puts an observation on the table and waits for the decision; requests look at what lies
there, answer it once, and wait for what became of the answer. Neither side ever waits for ever, and nothing sleeps
while it holds the table.

Source: policy contract, sections 3 and 4.2.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Literal, TypeVar

from trialplate.errors import ContractFault, HarnessFault, PolicyFault, TrialplateError
from trialplate.policies.service.episode import KEPT_REPLIES, Call, Episode, Reply
from trialplate.record import Ack, EndReason, EpisodeInfo, Observation, PolicyDecision

Found = TypeVar("Found")
Ending = Literal["complete", "halted", "aborted"]
IDLE_TIMEOUT_S = 3600.0
"""For how long nobody may ask for an episode: a driver that thinks longer than that says so now and then."""


class Rendezvous:
    """One table. Methods without ``async`` are called by the run, or return at once.

    ``idle_timeout_s``: for how long no driver may show itself while the run waits for one.
    """

    def __init__(self, *, idle_timeout_s: float = IDLE_TIMEOUT_S) -> None:
        self._table = threading.Condition()
        self._sleepers: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._idle_timeout_s, self._heard_s = idle_timeout_s, monotonic()
        self._episode: Episode | None = None
        self._begun = 0  # episodes announced so far
        self._wanted = False
        self._granted = False
        self._lost_openings = 0
        self._stopped: str | None = None
        self._idle = False
        self._ending: Ending | None = None
        self._trial = ""
        self._ids: dict[str, str] = {}

    # -- the run's side --------------------------------------------------------------------------------------------

    def wait_for_driver(self) -> bool:
        """Wait until a driver asks for the first episode, before the run begins; False when it must not begin."""
        with self._table:
            return self._wait_wanted()

    def wait_for_next(self, trial: str) -> bool:
        """Wait until a driver asks for the next episode; False when the run must stop instead.

        Called before an attempt of ``trial`` is journaled.
        """
        with self._table:
            if self._granted:  # the attempt that was asked for failed before it was announced
                self._granted, self._lost_openings = False, self._lost_openings + 1
                self._ring()
            self._granted, self._trial = self._wait_wanted(), trial
            self._wanted = False
            return self._granted

    def no_more(self, why: Ending) -> None:
        """Tell whoever asks for the next episode that there is none: all are done, or the run was halted."""
        with self._table:
            self._ending, self._wanted, self._granted = self._ending or why, False, False
            self._ring()

    def stop(self, why: str) -> None:
        """End everything: the run's waits raise or return False, the driver's requests hear that we shut down."""
        with self._table:
            self._stopped = self._stopped or why
            self._ring()

    def open(self, info: EpisodeInfo, *, arm: str) -> None:
        """Announce an episode; the one before is forgotten, and its id with it. Raises HarnessFault when stopped."""
        with self._table:
            self._refuse_stopped()
            self._episode = Episode(secrets.token_hex(16), arm, info)
            self._ids[self._trial] = self._episode.id
            self._begun += 1
            self._granted = False
            self._ring()

    def decide(self, observation: Observation, *, limit_s: float) -> PolicyDecision:
        """Put an observation on the table and return the decision to it.

        Raises PolicyFault ``policy_timeout`` after ``limit_s``, HarnessFault ``interrupted`` when the episode is
        closed or the run stopped, and whatever was wrong with the answer.
        """
        with self._table:
            episode = self._present(observation.episode)
            call = episode.call = Call(replace(observation, episode=episode.id))
            episode.calls += 1
            self._ring()
            self._table.wait_for(
                lambda: call.outcome is not None or episode.closing or self._stopped is not None, limit_s
            )
            self._refuse_stopped()
            outcome = call.outcome
            if outcome is None and episode.closing:
                outcome = HarnessFault("the driver closed the episode", code="interrupted")
            elif outcome is None:
                outcome = PolicyFault(
                    f"no decision to call {observation.call_index} within {limit_s} s", code="policy_timeout"
                )
            call.outcome = outcome
        if isinstance(outcome, TrialplateError):
            raise outcome
        return outcome

    def settle(self, ack: Ack) -> None:
        """Take the observation off the table and reply to whoever answered it."""
        with self._table:
            episode = self._episode
            if episode is None or episode.call is None or episode.info.episode != ack.episode:
                return
            call, episode.call = episode.call, None
            episode.over = ack.next == "episode_end"
            if call.claimed is not None:
                fault = call.outcome if isinstance(call.outcome, TrialplateError) else None
                episode.replies[call.claimed] = fault or replace(ack, episode=episode.id)
                if not call.named:
                    episode.nameless.add(call.claimed)
                while len(episode.replies) > KEPT_REPLIES:
                    forgotten, _ = episode.replies.popitem(last=False)
                    episode.nameless.discard(forgotten)
            self._ring()

    def finish(self, reason: EndReason) -> None:
        """End the present episode. Its id stays good for its last reply until the next one is opened."""
        with self._table:
            if self._episode is not None and self._episode.ended is None:
                self._episode.ended = "aborted" if self._episode.closing and reason == "error" else reason
                self._episode.call = None
                self._ring()

    # -- the driver's side -----------------------------------------------------------------------------------------

    def hear(self) -> None:
        """Note that a driver is there."""
        self._heard_s = monotonic()

    @property
    def idle(self) -> bool:
        """Whether everything ended because no driver was there."""
        return self._idle

    @property
    def heard_s(self) -> float:
        """When a driver was there last, by the clock of ``monotonic``."""
        return self._heard_s

    @property
    def stopped(self) -> str | None:
        """Why everything ended, None while it goes on."""
        return self._stopped

    @property
    def ending(self) -> Ending | None:
        """Why no further episode begins, None while one may."""
        return self._ending

    @property
    def present(self) -> Episode | None:
        """The present episode: in flight, or ended and not yet followed by another."""
        return self._episode

    def id_of(self, trial: str) -> str | None:
        """Return the id under which a trial was played last, None when it was not played here."""
        return self._ids.get(trial)

    async def next_episode(self, *, timeout_s: float) -> Episode | None:
        """Ask for the next planned episode and return it once it is announced; None when all are done.

        Raises ContractFault ``out_of_order`` while one is in flight or asked for, HarnessFault ``reset_failed`` when
        the attempt failed before it was announced, ``interrupted`` when we shut down.
        """
        with self._table:
            if self._wanted or self._granted or self._in_flight():
                raise ContractFault("an episode is in flight or asked for", code="out_of_order")
            self._wanted = self._ending is None
            begun, lost = self._begun, self._lost_openings
            self._ring()

        def opened() -> Callable[[], Episode | None] | None:
            if self._begun > begun:
                return lambda: self._episode
            if self._lost_openings > lost:
                return _raising(HarnessFault("the attempt failed before it began", code="reset_failed"))
            if self._ending is not None:
                return lambda: None
            if self._stopped is not None:
                return _raising(HarnessFault("the service is shutting down", code="interrupted"))
            return None

        found = await self._until(opened, timeout_s=timeout_s)
        if found is None:
            with self._table:
                self._wanted = False
            raise HarnessFault("the next episode did not begin in time", code="reset_failed")
        return found()

    async def look(self, episode: Episode, *, timeout_s: float) -> Call | EndReason:
        """Return what lies on the table, waiting while a decision is being carried out; or how the episode ended.

        Raises HarnessFault ``interrupted`` when we shut down or nothing comes within ``timeout_s``.
        """

        def shown() -> Call | EndReason | HarnessFault | None:
            if episode.ended is not None:
                return episode.ended
            if self._stopped is not None:
                return HarnessFault("the service is shutting down", code="interrupted")
            return episode.call if episode.call is not None and episode.call.outcome is None else None

        found: Call | EndReason | HarnessFault | None = await self._until(shown, timeout_s=timeout_s)
        if found is None:
            raise HarnessFault("no observation came in time", code="interrupted")
        if isinstance(found, HarnessFault):
            raise found
        return found

    def claim(self, episode: Episode, digest: bytes) -> Call | None:
        """Reserve the observation on the table for one body; None when that body has answered a call already.

        Raises ContractFault ``out_of_order`` when nothing waits for a decision, or another body was first.
        """
        with self._table:
            call = episode.call
            if digest in episode.nameless and call is not None and call.claimed is None and call.outcome is None:
                del episode.replies[digest]  # the same nonsense again is the answer to this call
                episode.nameless.discard(digest)
            if digest in episode.replies or (call is not None and call.claimed == digest):
                return None
            if call is None or call.outcome is not None or episode is not self._episode:
                raise ContractFault("nothing waits for a decision now", code="out_of_order")
            if call.claimed is not None:
                raise ContractFault("another decision to this call came first", code="out_of_order")
            call.claimed = digest
            return call

    def release(self, call: Call) -> None:
        """Take back a claim: the body was no answer to this call, which stays open."""
        with self._table:
            if call.outcome is None:
                call.claimed = None
                self._ring()

    def answer(self, call: Call, outcome: PolicyDecision | TrialplateError) -> None:
        """Hand the run what the body said: a decision, or what is wrong with it. Without effect after a timeout."""
        with self._table:
            if call.outcome is None:
                call.outcome = outcome
                self._ring()

    async def reply(self, episode: Episode, digest: bytes, *, timeout_s: float) -> Reply:
        """Return what became of the body that claimed a call, waiting until it is carried out.

        A HarnessFault ``interrupted`` stands for what is never going to be known.
        """

        def settled() -> Reply | None:
            known = episode.replies.get(digest)
            if known is not None:
                return known
            waits = episode.call is not None and episode.call.claimed == digest and episode.ended is None
            if not waits or self._stopped is not None:
                return HarnessFault("the decision was not carried out", code="interrupted")
            return None

        found: Reply | None = await self._until(settled, timeout_s=timeout_s)
        if found is None:
            return HarnessFault("the decision was not carried out in time", code="interrupted")
        return found

    async def close(self, episode: Episode, *, timeout_s: float) -> EndReason:
        """End an episode that is in flight, at its next call; return how it ended."""
        with self._table:
            episode.closing = episode.closing or episode.ended is None
            self._ring()

        def ended() -> EndReason | None:
            return "aborted" if episode.ended is None and self._stopped is not None else episode.ended

        reason: EndReason | None = await self._until(ended, timeout_s=timeout_s)
        return "aborted" if reason is None else reason

    def _wait_wanted(self) -> bool:
        """Wait until a driver asks, for ``idle_timeout_s`` from now or from when one was heard. The table is held."""
        self._heard_s = monotonic()
        while not self._wanted and self._stopped is None:
            left_s = self._heard_s + self._idle_timeout_s - monotonic()
            if left_s > 0:
                self._table.wait(left_s)
                continue
            self._stopped, self._idle = f"no driver was there for {self._idle_timeout_s:g} s", True
            self._ring()
        return self._stopped is None

    # -- waiting ---------------------------------------------------------------------------------------------------

    async def _until(self, check: Callable[[], Found | None], *, timeout_s: float) -> Found | None:
        """Return the first thing that ``check`` finds, looking after every change; None after ``timeout_s``."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while True:
            woken: asyncio.Future[None] = loop.create_future()
            with self._table:
                found = check()
                if found is not None:
                    return found
                self._sleepers.append((loop, woken))
            try:
                async with asyncio.timeout_at(deadline_s):
                    await woken
            except TimeoutError:
                return None
            finally:
                with self._table, suppress(ValueError):
                    self._sleepers.remove((loop, woken))

    def _ring(self) -> None:
        """Wake both sides; the table is held."""
        self._table.notify_all()
        sleepers, self._sleepers = self._sleepers, []
        for loop, woken in sleepers:
            with suppress(RuntimeError):  # its loop has ended, and the sleeper with it
                loop.call_soon_threadsafe(_wake, woken)

    def _in_flight(self) -> bool:
        present = self._episode
        going_on = present is not None and present.ended is None and not present.over
        return going_on and self._ending is None

    def _present(self, episode: str) -> Episode:
        self._refuse_stopped()
        if self._episode is None or self._episode.info.episode != episode:
            raise HarnessFault("the episode was not announced to the driver", code="interrupted")
        return self._episode

    def _refuse_stopped(self) -> None:
        if self._stopped is not None:
            raise HarnessFault(f"the service stopped: {self._stopped}", code="interrupted")


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


def _raising(fault: TrialplateError) -> Callable[[], None]:
    def fail() -> None:
        raise fault

    return fail
