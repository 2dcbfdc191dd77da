"""One thread in which a policy lives: it is made there, decides there, and is closed there.

Requests that arrive together are decided together. A batch closes at ``max_batch_size`` requests or ``max_wait_s``
after its first one; with no wait it takes what lies there. Each outcome goes to its own request, and one bad item
fails only itself. Source: policy contract, section 4.3.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic, perf_counter
from typing import Any

from trialplate.errors import HarnessFault, PolicyFault, TrialplateError
from trialplate.interfaces import BatchPolicy
from trialplate.policies.charging import charged, recordable, said
from trialplate.policies.in_process import in_process_decision
from trialplate.policies.messages.writing import sendable_rows
from trialplate.record import ActionChunk, Observation, PolicyDecision

Outcome = PolicyDecision | TrialplateError
Delivery = tuple["Ask", Outcome]


@dataclass(slots=True, eq=False)
class Ask:
    """One observation that waits for its decision. ``withdrawn``: nobody wants the answer any more."""

    observation: Observation
    token: Any = None
    withdrawn: bool = False
    arrived_s: float = field(default_factory=monotonic)


@dataclass(slots=True, eq=False)
class Job:
    """Something else that the policy must do in its thread; ``done`` is called there with the result or the fault."""

    work: Callable[[Any], Any]
    done: Callable[[Any], None]


class Batcher:
    """Runs a policy in one thread. ``make`` is called in it first; what it raises comes out of the constructor.

    ``deliver`` is called in that thread with all outcomes of one batch. ``state`` ``none`` in the policy's
    declaration allows a batch that failed as a whole to be asked again one by one.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        *,
        max_batch_size: int = 1,
        max_wait_s: float = 0.0,
        deliver: Callable[[Sequence[Delivery]], None],
    ) -> None:
        self._make, self._deliver = make, deliver
        self._max_batch_size, self._max_wait_s = max_batch_size, max_wait_s
        self._queue: SimpleQueue[Ask | Job | None] = SimpleQueue()
        self._aside: deque[Job | None] = deque()
        self._policy: Any = None
        self._batches = self._alone_again = False
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._live, name="trialplate-policy", daemon=True)
        self._thread.start()
        while not self._ready.wait(timeout=1.0):  # a checkpoint may take minutes; an interrupt gets through
            continue
        if self._failure is not None:
            self._thread.join(timeout=1.0)
            raise self._failure

    def limit(self, max_batch_size: int, *, alone_again: bool) -> None:
        """Set the largest batch, and whether a batch that failed as a whole may be asked again one by one."""
        self._max_batch_size, self._alone_again = max_batch_size, alone_again

    def submit(self, item: Ask | Job) -> None:
        """Queue a request; returns at once."""
        self._queue.put(item)

    def close(self, *, timeout_s: float) -> bool:
        """Close the policy and end its thread; what still waits is answered with a fault.

        Returns False when the policy is still busy after ``timeout_s``: the thread then ends with the process.
        """
        self._queue.put(None)
        self._thread.join(timeout=timeout_s)
        return not self._thread.is_alive()

    # -- in the policy's thread ----------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            self._policy = self._make()
            self._batches = isinstance(self._policy, BatchPolicy)
        except BaseException as error:  # raised again in the thread that waits for it
            self._failure = error
            return
        finally:
            self._ready.set()
        while (item := self._next()) is not None:
            if isinstance(item, Job):
                item.done(_outcome(item.work, self._policy))
            else:
                self._decide(self._collect(item))
        _outcome(lambda policy: charged(policy.close, doing="close"), self._policy)
        self._refuse_the_rest()

    def _next(self) -> Ask | Job | None:
        return self._aside.popleft() if self._aside else self._queue.get()

    def _collect(self, first: Ask) -> list[Ask]:
        """Return the batch that ``first`` opens. Jobs that arrive meanwhile wait until it is decided."""
        batch = [first]
        closes_s = first.arrived_s + self._max_wait_s
        while len(batch) < self._max_batch_size and None not in self._aside:
            left_s = closes_s - monotonic()
            try:
                item = self._queue.get(timeout=left_s) if left_s > 0 else self._queue.get_nowait()
            except Empty:
                break
            if isinstance(item, Ask):
                batch.append(item)
            else:
                self._aside.append(item)
        return batch

    def _decide(self, collected: list[Ask]) -> None:
        batch = [ask for ask in collected if not ask.withdrawn]
        if not batch:
            return
        observations = [ask.observation for ask in batch]
        start_s = perf_counter()
        together = len(batch) > 1 and self._batches
        outcomes = self._together(observations) if together else [self._alone(each) for each in observations]
        latency_ms = (perf_counter() - start_s) * 1000
        self._deliver(
            [
                (ask, _noted(outcome, batch_size=len(batch), latency_ms=latency_ms))
                for ask, outcome in zip(batch, outcomes, strict=True)
            ]
        )

    def _alone(self, observation: Observation) -> Outcome:
        doing = f"act, call {observation.call_index}"
        outcome: Outcome = _outcome(
            lambda policy: _plain(charged(lambda: policy.act(observation), doing=doing)), self._policy
        )
        return outcome

    def _together(self, observations: list[Observation]) -> list[Outcome]:
        doing = f"act_batch of {len(observations)}"
        answers = _outcome(
            lambda policy: charged(lambda: list(policy.act_batch(observations)), doing=doing), self._policy
        )
        if isinstance(answers, TrialplateError):
            if self._alone_again:
                return [self._alone(observation) for observation in observations]
            return [PolicyFault(answers.message, code=answers.code) for _ in observations]
        if len(answers) != len(observations):
            message = f"{doing} returned {len(answers)} answers"
            return [PolicyFault(message, code="invalid_response_schema") for _ in observations]
        return [_outcome(partial(_item, doing=doing), answer) for answer in answers]

    def _refuse_the_rest(self) -> None:
        while True:
            try:
                item = self._aside.popleft() if self._aside else self._queue.get_nowait()
            except Empty:
                return
            gone = HarnessFault("the policy server is shutting down", code="transport_lost")
            if isinstance(item, Job):
                item.done(gone)
            elif item is not None:
                self._deliver([(item, gone)])


def _outcome(work: Callable[[Any], Any], subject: Any) -> Any:
    """Return what ``work(subject)`` returns, or the fault that it raised."""
    try:
        return work(subject)
    except TrialplateError as fault:
        return fault
    except BaseException as error:  # nothing may end this thread: every request gets its answer
        return HarnessFault(f"{type(error).__name__} in the policy server: {error}"[:512], code="transport_lost")


def _item(answer: Any, *, doing: str) -> PolicyDecision:
    """Return one answer of a batch; an exception in its place is raised as the policy's."""
    if issubclass(type(answer), BaseException):
        charged(lambda: _raise(answer), doing=doing)
    return _plain(answer)


def _plain(answer: Any) -> PolicyDecision:
    """Return a decision in which nothing of the policy's own is left: no other thread runs its code to read it.

    Raises PolicyFault for what is no decision, or holds rows that cannot be read.
    """
    decision = in_process_decision(answer)
    if not isinstance(decision.decision, ActionChunk):
        return decision
    try:
        return replace(decision, decision=ActionChunk(sendable_rows(decision.decision.vectors)))
    except PolicyFault:
        raise
    except BaseException as error:  # rows that make the reading itself fail are the policy's, too
        message = f"rows that cannot be read: {type(error).__name__}: {said(error)}"
        raise PolicyFault(recordable(message), code="invalid_action") from None


def _raise(error: BaseException) -> None:
    raise error


def _noted(outcome: Outcome, *, batch_size: int, latency_ms: float) -> Outcome:
    """Add to a decision how many were decided together, and how long that took unless the policy said so itself."""
    if not isinstance(outcome, PolicyDecision):
        return outcome
    known = outcome.latency_ms is not None
    return replace(outcome, batch_size=batch_size, latency_ms=outcome.latency_ms if known else latency_ms)
