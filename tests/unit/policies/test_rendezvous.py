"""The run in one thread, requests in an event loop: they meet, and neither ever waits for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import Any, TypeVar

import pytest

from trialplate.errors import ContractFault, HarnessFault, PolicyFault
from trialplate.policies.service.episode import KEPT_REPLIES, Episode, body_digest
from trialplate.policies.service.rendezvous import Rendezvous
from trialplate.record import Ack, ActionChunk, EpisodeInfo, Observation, PolicyDecision, Remaining

FIRST, SECOND = "a" * 32, "b" * 32
DECISION = PolicyDecision(ActionChunk([[0.0]]))
BUSY_S = 20.0
T = TypeVar("T")


def _info(episode: str = FIRST) -> EpisodeInfo:
    return EpisodeInfo(episode, "touch the button", 20.0, 1, 40, 7)


def _observation(call_index: int = 0, episode: str = FIRST) -> Observation:
    return Observation(
        episode,
        call_index,
        "c" * 32,
        "d" * 64,
        call_index,
        None,
        images={},
        proprio={},
        remaining=Remaining(40, None),
    )


def _ack(call_index: int = 0, *, episode: str = FIRST, last: bool = False) -> Ack:
    return Ack(episode, call_index, True, 1, 1, 0, 0, None, "episode_end" if last else "observation")


def _meet(run: Callable[[Rendezvous], T], drive: Callable[[Rendezvous], Coroutine[Any, Any, Any]]) -> T:
    """Run one side in a thread, the other in an event loop; return what the run returned, or raise what it raised."""
    table = Rendezvous()
    with ThreadPoolExecutor(1) as pool:
        done: Future[T] = pool.submit(run, table)

        async def driving() -> None:
            async with asyncio.timeout(BUSY_S):
                await drive(table)

        try:
            asyncio.run(driving())
        finally:
            if not done.done():
                threading.Timer(1.0, table.stop, ["the test is over"]).start()
        return done.result(timeout=BUSY_S)


async def _claimed(table: Rendezvous, episode: Episode, body: bytes) -> Any:
    call = await table.look(episode, timeout_s=BUSY_S)
    assert not isinstance(call, str)
    assert table.claim(episode, body_digest(body)) is call
    return call


def test_a_decision_reaches_the_run_and_its_ack_the_driver() -> None:
    seen: list[object] = []

    def run(table: Rendezvous) -> PolicyDecision:
        assert table.wait_for_next("t")
        table.open(_info(), arm="a")
        decision = table.decide(_observation(), limit_s=BUSY_S)
        table.settle(_ack(last=True))
        table.finish("terminated")
        return decision

    async def drive(table: Rendezvous) -> None:
        episode = await table.next_episode(timeout_s=BUSY_S)
        assert episode is not None and episode.id != FIRST  # what the run calls it is told to nobody
        call = await _claimed(table, episode, b"body")
        assert call.observation.episode == episode.id
        seen.append(episode.id)
        table.answer(call, DECISION)
        seen.append(await table.reply(episode, body_digest(b"body"), timeout_s=BUSY_S))
        seen.append(await table.look(episode, timeout_s=BUSY_S))

    assert _meet(run, drive) is DECISION
    id_, ack, end = seen
    assert (ack, end) == (_ack(episode=str(id_), last=True), "terminated")


def test_an_episode_that_was_asked_for_before_the_run_was_ready_begins_all_the_same() -> None:
    asked = threading.Event()

    def run(table: Rendezvous) -> bool:
        asked.wait(2)
        going = table.wait_for_next("t")
        table.open(_info(), arm="a")
        return going

    async def drive(table: Rendezvous) -> None:
        opening = asyncio.create_task(table.next_episode(timeout_s=BUSY_S))
        await asyncio.sleep(0.05)
        asked.set()
        episode = await opening
        assert episode is not None and table.id_of("t") == episode.id

    assert _meet(run, drive)


def test_no_second_episode_begins_while_one_is_in_flight_or_asked_for() -> None:
    def run(table: Rendezvous) -> None:
        assert table.wait_for_next("t")
        table.open(_info(), arm="a")

    async def drive(table: Rendezvous) -> None:
        await table.next_episode(timeout_s=BUSY_S)
        with pytest.raises(ContractFault) as refused:
            await table.next_episode(timeout_s=BUSY_S)
        assert refused.value.code == "out_of_order"

    _meet(run, drive)


def test_an_attempt_that_fails_before_it_is_announced_is_told_to_whoever_asked_for_it() -> None:
    def run(table: Rendezvous) -> bool:
        assert table.wait_for_next("t")
        return table.wait_for_next("t")  # the attempt came to nothing

    async def drive(table: Rendezvous) -> None:
        with pytest.raises(HarnessFault) as failed:
            await table.next_episode(timeout_s=BUSY_S)
        assert failed.value.code == "reset_failed"
        opening = asyncio.create_task(table.next_episode(timeout_s=BUSY_S))
        await asyncio.sleep(0.05)
        table.open(_info(), arm="a")
        assert (await opening) is not None

    assert _meet(run, drive)


def test_whoever_asks_after_the_last_episode_is_told_that_all_are_done() -> None:
    async def drive(table: Rendezvous) -> None:
        assert await table.next_episode(timeout_s=BUSY_S) is None

    _meet(lambda table: table.no_more("complete"), drive)


def test_a_driver_that_never_asks_stops_the_run_after_a_while() -> None:
    table = Rendezvous(idle_timeout_s=0.05)
    assert not table.wait_for_next("t")
    assert table.idle and table.stopped == "no driver was there for 0.05 s"


def test_a_driver_that_shows_itself_is_waited_for_from_then_on() -> None:
    table = Rendezvous(idle_timeout_s=0.4)
    over = threading.Event()

    def show() -> None:
        while not over.wait(0.05):
            table.hear()

    driver = threading.Thread(target=show)
    driver.start()
    ended = threading.Timer(1.0, over.set)
    ended.start()
    start_s = monotonic()
    assert not table.wait_for_next("t") and table.idle
    assert monotonic() - start_s > 1.2  # 0.4 for who counts from the beginning
    driver.join()


def test_a_run_that_somebody_ends_is_not_idle() -> None:
    table = Rendezvous(idle_timeout_s=0.05)
    table.stop("the driver aborted it")
    assert not table.wait_for_next("t") and not table.idle


def test_a_silent_actor_is_a_policy_timeout_and_its_late_answer_reaches_nobody() -> None:
    late: list[object] = []
    over = threading.Event()

    def run(table: Rendezvous) -> float:
        table.open(_info(), arm="a")
        start_s = monotonic()
        with pytest.raises(PolicyFault) as silent:
            table.decide(_observation(), limit_s=0.1)
        assert silent.value.code == "policy_timeout"
        table.settle(_ack(last=True))
        table.finish("error")
        over.set()
        return monotonic() - start_s

    async def drive(table: Rendezvous) -> None:
        while table.present is None:
            await asyncio.sleep(0.01)
        assert await table.look(table.present, timeout_s=BUSY_S) is not None
        assert await asyncio.to_thread(over.wait, BUSY_S)  # without a limit it waits for ever
        with pytest.raises(ContractFault) as refused:
            table.claim(table.present, body_digest(b"late"))
        late.append(refused.value.code)

    assert _meet(run, drive) > 0.09
    assert late == ["out_of_order"]


def test_what_is_wrong_with_an_answer_is_raised_in_the_run_and_told_to_the_driver() -> None:
    fault = ContractFault("another observation", code="stale_observation")

    def run(table: Rendezvous) -> None:
        table.open(_info(), arm="a")
        with pytest.raises(ContractFault) as raised:
            table.decide(_observation(), limit_s=BUSY_S)
        assert raised.value is fault
        table.settle(_ack(last=True))
        table.finish("error")

    async def drive(table: Rendezvous) -> None:
        while table.present is None:
            await asyncio.sleep(0.01)
        episode = table.present
        table.answer(await _claimed(table, episode, b"stale"), fault)
        assert await table.reply(episode, body_digest(b"stale"), timeout_s=BUSY_S) is fault
        assert await table.look(episode, timeout_s=BUSY_S) == "error"

    _meet(run, drive)


def test_the_same_body_answers_once_and_another_body_never() -> None:
    def run(table: Rendezvous) -> PolicyDecision:
        table.open(_info(), arm="a")
        decision = table.decide(_observation(), limit_s=BUSY_S)
        threading.Event().wait(0.2)  # the decision is being carried out
        table.settle(_ack())
        return decision

    async def drive(table: Rendezvous) -> None:
        while table.present is None:
            await asyncio.sleep(0.01)
        episode = table.present
        call = await _claimed(table, episode, b"body")
        with pytest.raises(ContractFault) as second:
            table.claim(episode, body_digest(b"other"))
        assert second.value.code == "out_of_order"
        table.answer(call, DECISION)
        assert table.claim(episode, body_digest(b"body")) is None  # while it is carried out
        ack = _ack(episode=episode.id)
        assert await table.reply(episode, body_digest(b"body"), timeout_s=BUSY_S) == ack
        assert table.claim(episode, body_digest(b"body")) is None  # and afterwards
        assert await table.reply(episode, body_digest(b"body"), timeout_s=BUSY_S) == ack
        with pytest.raises(ContractFault):
            table.claim(episode, body_digest(b"other"))

    assert _meet(run, drive) is DECISION


def test_a_claim_that_was_given_back_leaves_the_call_open() -> None:
    def run(table: Rendezvous) -> PolicyDecision:
        table.open(_info(), arm="a")
        return table.decide(_observation(), limit_s=BUSY_S)

    async def drive(table: Rendezvous) -> None:
        while table.present is None:
            await asyncio.sleep(0.01)
        table.release(await _claimed(table, table.present, b"not for this call"))
        table.answer(await _claimed(table, table.present, b"body"), DECISION)

    assert _meet(run, drive) is DECISION


def test_only_the_latest_replies_are_kept() -> None:
    table = Rendezvous()
    table.open(_info(), arm="a")
    for index in range(KEPT_REPLIES + 5):
        _answer_when_asked(table, index)
        table.decide(_observation(index), limit_s=BUSY_S)
        table.settle(_ack(index))
    assert table.present is not None
    assert len(table.present.replies) == KEPT_REPLIES
    assert body_digest(b"4") not in table.present.replies


def _answer_when_asked(table: Rendezvous, index: int) -> None:
    """Answer the next call from another thread, as soon as it lies on the table."""

    async def answering() -> None:
        episode = table.present
        assert episode is not None
        while episode.call is None or episode.call.observation.call_index != index:
            await asyncio.sleep(0.001)
        table.answer(await _claimed(table, episode, str(index).encode()), DECISION)

    threading.Thread(target=lambda: asyncio.run(answering()), daemon=True).start()


def test_closing_an_episode_ends_it_at_its_next_call_as_aborted() -> None:
    def run(table: Rendezvous) -> str:
        table.open(_info(), arm="a")
        with pytest.raises(HarnessFault) as closed:
            table.decide(_observation(), limit_s=5)
        table.settle(_ack(last=True))
        table.finish("error")
        return closed.value.code

    async def drive(table: Rendezvous) -> None:
        while table.present is None:
            await asyncio.sleep(0.01)
        assert await table.close(table.present, timeout_s=BUSY_S) == "aborted"
        assert await table.close(table.present, timeout_s=BUSY_S) == "aborted"  # again: the same answer

    assert _meet(run, drive) == "interrupted"


def test_stopping_ends_every_wait_on_both_sides() -> None:
    def run(table: Rendezvous) -> str:
        table.open(_info(), arm="a")
        with pytest.raises(HarnessFault) as stopped:
            table.decide(_observation(), limit_s=5)
        assert not table.wait_for_next("t")
        with pytest.raises(HarnessFault):
            table.open(_info(SECOND), arm="a")
        return stopped.value.code

    async def drive(table: Rendezvous) -> None:
        while table.present is None:
            await asyncio.sleep(0.01)
        episode = table.present
        call = await _claimed(table, episode, b"body")
        waiting = asyncio.create_task(table.reply(episode, body_digest(b"body"), timeout_s=5))
        await asyncio.sleep(0.05)
        table.stop("abort")
        unknown = await waiting
        assert isinstance(unknown, HarnessFault) and unknown.code == "interrupted"
        table.answer(call, DECISION)
        with pytest.raises(HarnessFault):
            await table.look(episode, timeout_s=5)
        with pytest.raises(HarnessFault):
            table.open(_info(SECOND), arm="a")

    assert _meet(run, drive) == "interrupted"


def test_an_observation_is_written_once_in_each_form() -> None:
    written: list[str] = []
    table = Rendezvous()
    table.open(_info(), arm="a")

    async def looking() -> None:
        episode = table.present
        assert episode is not None
        call = await _claimed(table, episode, b"body")
        for form in ("json", "json", "msgpack"):
            assert call.written(form, lambda _: written.append(form) or form.encode()) == form.encode()  # noqa: B023
        table.answer(call, DECISION)

    driver = threading.Thread(target=lambda: asyncio.run(looking()))
    driver.start()
    table.decide(_observation(), limit_s=BUSY_S)
    driver.join(2)
    assert written == ["json", "msgpack"]
