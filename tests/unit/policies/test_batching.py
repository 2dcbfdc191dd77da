"""Requests that arrive together are decided together; each gets its own answer, a bad item fails only itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any, ClassVar

import numpy as np
import pytest

from lying_servers import BUSY_S, LONG_S
from trialplate.errors import HarnessFault, PolicyFault, TrialplateError
from trialplate.policies.server.batching import Ask, Batcher, Delivery, Job
from trialplate.record import ActionChunk, Decision, EpisodeInfo, Observation, PolicyDecision, Remaining
from trialplate.spec.channels import PolicySpec


def look(text: str, *, call_index: int = 0) -> Observation:
    return Observation(
        episode="0" * 32, call_index=call_index, observation_id="1" * 32, registration_sha256="2" * 64, step_index=0,
        instruction=text, images={}, proprio={}, remaining=Remaining(10, None),
    )  # fmt: skip


class Echo:
    """Answers with the length of the instruction; raises on ``bad``."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.sizes: list[int] = []
        self.closed = False

    def spec(self) -> PolicySpec:
        raise AssertionError

    def reset(self, episode: EpisodeInfo) -> None: ...

    def act(self, observation: Observation) -> Decision:
        self.threads.add(threading.get_ident())
        self.sizes.append(1)
        return self.decide(observation)

    def decide(self, observation: Observation) -> Decision:
        if observation.instruction == "bad":
            raise ValueError("this one is bad")
        return ActionChunk([[float(len(observation.instruction or ""))]])

    def close(self) -> None:
        self.closed = True


class Together(Echo):
    """Decides a whole batch; a bad item is an exception in its place."""

    def act_batch(self, observations: Sequence[Observation]) -> list[Any]:
        self.sizes.append(len(observations))
        answers: list[Any] = []
        for observation in observations:
            try:
                answers.append(self.decide(observation))
            except ValueError as error:
                answers.append(error)
        return answers


class AllOrNothing(Together):
    """Raises for the whole batch when one item is bad."""

    def act_batch(self, observations: Sequence[Observation]) -> list[Any]:
        return [self.decide(observation) for observation in observations]


class Desk:
    """A batcher and what it delivered."""

    def __init__(self, policy: Any, **options: Any) -> None:
        self.batches: SimpleQueue[Sequence[Delivery]] = SimpleQueue()
        self.policy = policy
        self.batcher = Batcher(lambda: policy, deliver=self.batches.put, **options)

    def ask(self, *texts: str) -> None:
        for text in texts:
            self.batcher.submit(Ask(look(text), token=text))

    def answers(self, count: int) -> dict[str, PolicyDecision | TrialplateError]:
        found: dict[str, PolicyDecision | TrialplateError] = {}
        while len(found) < count:
            found |= {ask.token: outcome for ask, outcome in self.batches.get(timeout=BUSY_S)}
        return found

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.batcher.close(timeout_s=5)


def number(outcome: PolicyDecision | TrialplateError) -> float:
    assert isinstance(outcome, PolicyDecision)
    assert isinstance(outcome.decision, ActionChunk)
    return float(np.asarray(outcome.decision.vectors)[0, 0])


@pytest.mark.parametrize("kind", [Echo, Together])
def test_four_requests_in_one_batch_each_get_their_own_answer(kind: type[Echo]) -> None:
    with Desk(kind(), max_batch_size=4, max_wait_s=LONG_S) as desk:
        start_s = time.monotonic()
        desk.ask("a", "bb", "ccc", "dddd")
        found = desk.answers(4)
        assert {text: number(outcome) for text, outcome in found.items()} == {"a": 1, "bb": 2, "ccc": 3, "dddd": 4}
        assert [outcome.batch_size for outcome in found.values()] == [4] * 4  # type: ignore[union-attr]
        assert time.monotonic() - start_s < BUSY_S  # a full batch does not wait LONG_S
        assert desk.policy.sizes == ([4] if kind is Together else [1] * 4)


@pytest.mark.parametrize("kind", [Echo, Together, AllOrNothing])
def test_one_bad_item_of_three_fails_only_itself(kind: type[Echo]) -> None:
    with Desk(kind(), max_batch_size=3, max_wait_s=LONG_S) as desk:
        desk.batcher.limit(3, alone_again=True)
        desk.ask("a", "bad", "ccc")
        found = desk.answers(3)
        assert (number(found["a"]), number(found["ccc"])) == (1, 3)
        bad = found["bad"]
        assert isinstance(bad, PolicyFault)
        assert bad.code == "policy_exception"
        assert "this one is bad" in bad.message


def test_a_batch_that_failed_as_a_whole_is_not_asked_again_when_the_policy_remembers_episodes() -> None:
    with Desk(AllOrNothing(), max_batch_size=3, max_wait_s=LONG_S) as desk:
        desk.ask("a", "bad", "ccc")
        assert all(isinstance(outcome, PolicyFault) for outcome in desk.answers(3).values())


def test_a_batch_closes_its_wait_after_the_first_request() -> None:
    with Desk(Together(), max_batch_size=8, max_wait_s=0.2) as desk:
        both_are_there = threading.Event()
        desk.batcher.submit(Job(lambda _: both_are_there.wait(LONG_S), lambda _: None))
        start_s = time.monotonic()
        desk.ask("a")
        time.sleep(0.05)
        desk.ask("bb")
        both_are_there.set()
        found = desk.answers(2)
        waited_s = time.monotonic() - start_s
        assert 0.15 < waited_s < BUSY_S  # without an end of its own the batch is never full
        assert [outcome.batch_size for outcome in found.values()] == [2, 2]  # type: ignore[union-attr]


def test_without_a_wait_a_single_request_is_answered_at_once() -> None:
    with Desk(Together(), max_batch_size=8) as desk:
        desk.ask("a")
        (outcome,) = desk.answers(1).values()
        assert isinstance(outcome, PolicyDecision)
        assert outcome.batch_size == 1
        assert outcome.latency_ms is not None


def test_a_latency_that_the_policy_reports_is_kept() -> None:
    class Timed(Echo):
        def act(self, observation: Observation) -> Any:
            return PolicyDecision(ActionChunk([[1.0]]), latency_ms=12.5)

    with Desk(Timed()) as desk:
        desk.ask("a")
        (outcome,) = desk.answers(1).values()
        assert isinstance(outcome, PolicyDecision)
        assert outcome.latency_ms == 12.5


@pytest.mark.parametrize("answer", [[], [ActionChunk([[1.0]])] * 3, "ab"])
def test_a_batch_with_the_wrong_number_or_kind_of_answers_is_the_policys_fault(answer: Any) -> None:
    class Wrong(Together):
        def act_batch(self, observations: Sequence[Observation]) -> Any:
            return answer

    with Desk(Wrong(), max_batch_size=2, max_wait_s=2.0) as desk:
        desk.ask("a", "bb")
        for outcome in desk.answers(2).values():
            assert isinstance(outcome, PolicyFault)
            assert outcome.code == "invalid_response_schema"


def test_everything_happens_in_one_thread_that_is_not_ours_and_ends_with_close() -> None:
    made: list[int] = []

    def make() -> Echo:
        made.append(threading.get_ident())
        return Echo()

    batches: SimpleQueue[Sequence[Delivery]] = SimpleQueue()
    policies: list[Echo] = []
    batcher = Batcher(lambda: policies.append(make()) or policies[0], deliver=batches.put)  # type: ignore[func-returns-value]
    (policy,) = policies
    batcher.submit(Ask(look("a")))
    batches.get(timeout=5)
    assert policy.threads == set(made) != {threading.get_ident()}
    assert batcher.close(timeout_s=5)
    assert policy.closed
    assert made[0] not in {thread.ident for thread in threading.enumerate()}


def test_what_making_the_policy_raises_comes_out_of_the_constructor() -> None:
    def make() -> Echo:
        raise PolicyFault("no checkpoint", code="policy_exception")

    with pytest.raises(PolicyFault, match="no checkpoint"):
        Batcher(make, deliver=lambda batch: None)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), MemoryError(), RecursionError()])
def test_nothing_that_a_policy_raises_ends_its_thread(error: BaseException) -> None:
    class Raising(Echo):
        def decide(self, observation: Observation) -> Decision:
            if observation.instruction == "end":
                raise error
            return super().decide(observation)

    with Desk(Raising()) as desk:
        desk.ask("end", "bb")
        found = desk.answers(2)
        assert isinstance(found["end"], PolicyFault)
        assert number(found["bb"]) == 2


def test_a_reset_that_arrives_during_a_batch_waits_until_it_is_decided() -> None:
    order: list[str] = []

    class Slow(Together):
        def act_batch(self, observations: Sequence[Observation]) -> list[Any]:
            order.append("act")
            return super().act_batch(observations)

        def reset(self, episode: EpisodeInfo) -> None:
            order.append("reset")

    with Desk(Slow(), max_batch_size=2, max_wait_s=0.3) as desk:
        desk.ask("a")
        time.sleep(0.05)
        done: SimpleQueue[Any] = SimpleQueue()
        desk.batcher.submit(Job(lambda policy: policy.reset(None), done.put))
        time.sleep(0.05)
        desk.ask("bb")
        desk.answers(2)
        assert done.get(timeout=5) is None
    assert order == ["act", "reset"]


def test_a_withdrawn_request_is_not_decided() -> None:
    gate = threading.Event()

    class Gated(Echo):
        def decide(self, observation: Observation) -> Decision:
            gate.wait(5)
            return super().decide(observation)

    with Desk(Gated()) as desk:
        desk.ask("first")
        time.sleep(0.05)
        ask = Ask(look("late"), token="late")
        desk.batcher.submit(ask)
        ask.withdrawn = True
        gate.set()
        desk.ask("third")
        assert set(desk.answers(2)) == {"first", "third"}


def test_what_waits_when_the_server_closes_is_answered_with_a_fault() -> None:
    gate = threading.Event()

    class Gated(Echo):
        def decide(self, observation: Observation) -> Decision:
            gate.wait(5)
            return super().decide(observation)

    desk = Desk(Gated())
    desk.ask("first")
    time.sleep(0.05)
    closing = threading.Thread(target=lambda: desk.batcher.close(timeout_s=5))
    closing.start()
    time.sleep(0.05)
    desk.ask("late")
    gate.set()
    found = desk.answers(2)
    closing.join(5)
    assert number(found["first"]) == 5
    assert isinstance(found["late"], HarnessFault)


def test_a_job_returns_what_it_raised_and_the_thread_goes_on() -> None:
    done: SimpleQueue[Any] = SimpleQueue()
    with Desk(Echo()) as desk:
        for work in (lambda policy: 1 / 0, lambda policy: "free"):
            desk.batcher.submit(Job(work, done.put))
        assert "ZeroDivisionError" in done.get(timeout=5).message
        assert done.get(timeout=5) == "free"


class Liar(Echo):
    """Returns what is not a decision, or what misbehaves when it is looked at."""

    def decide(self, observation: Observation) -> Any:
        return self.answers.get(observation.instruction or "", ActionChunk([[1.0]]))

    class Moody:
        @property
        def __class__(self) -> Any:
            raise SystemExit(3)

    class Bad(list[Any]):
        def __iter__(self) -> Any:
            raise KeyboardInterrupt("no")

    answers: ClassVar[dict[str, Any]] = {
        "fault of the harness": HarnessFault("the wire broke", code="transport_lost"),
        "moody": Moody(),
        "moody rows": ActionChunk(Moody()),
        "rows that interrupt": ActionChunk([Bad()]),
        "objects": ActionChunk(np.array([[object()]])),
        "text for rows": ActionChunk("ab"),
        "an endless number": ActionChunk([[10**40]]),
        "none": None,
    }


@pytest.mark.parametrize("word", Liar.answers)
@pytest.mark.parametrize("together", [False, True])
def test_whatever_a_policy_returns_is_its_own_fault_and_its_thread_goes_on(word: str, together: bool) -> None:
    class TogetherLiar(Liar):
        def act_batch(self, observations: Sequence[Observation]) -> list[Any]:
            return [self.decide(observation) for observation in observations]

    with Desk(TogetherLiar() if together else Liar(), max_batch_size=2, max_wait_s=1.0 if together else 0.0) as desk:
        desk.ask(*([word, "beside it"] if together else [word]))
        outcome = desk.answers(2 if together else 1)[word]
        assert isinstance(outcome, PolicyFault)
        assert outcome.code in ("invalid_response_schema", "invalid_action", "policy_exception")


def test_rows_of_a_policys_own_kind_are_read_in_its_thread_and_copied() -> None:
    class Mine(list[Any]):
        def __iter__(self) -> Any:
            readers.add(threading.current_thread().name)
            return super().__iter__()

    readers: set[str] = set()
    row = Mine([0.0])

    class Own(Echo):
        def decide(self, observation: Observation) -> Decision:
            return ActionChunk([row])

    with Desk(Own()) as desk:
        desk.ask("a")
        (outcome,) = desk.answers(1).values()
        row[0] = 7.0
        assert number(outcome) == 0.0
    assert readers == {"trialplate-policy"}
