"""Acceptance cases of the policy contract that concern policy servers, over real sockets.

The number in each name is the row of the contract's acceptance table.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from typing import Any

import numpy as np
import pytest
from remote_rollout import DECLARED, Still, ended, guest
from rollout import STILL
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from lying_servers import (
    BUSY_S,
    LONG_S,
    closed_port,
    hello_of,
    honest,
    openpi_server,
    own_server,
    silent_server,
    socket_server,
)
from served_policies import DECLARED as SMALL
from served_policies import Batching as SmallBatching
from served_policies import Instance, asked, begin, camera, look, setting
from served_policies import Stub as SmallStub
from trialplate.errors import ContractFault, PolicyFault
from trialplate.policies.client import line as line_module
from trialplate.policies.client.websocket import WebSocketActor, describe
from trialplate.policies.server import server as server_module
from trialplate.policies.server.hosting import serving
from trialplate.policies.server.server import ServeSettings
from trialplate.policies.wire import own
from trialplate.record import ActionChunk, Decision, Observation
from trialplate.spec.channels import ObservationSpec

ROWS = np.array([STILL])


def still(message: dict[str, Any], **changed: Any) -> Any:
    """Return what an honest server of toy-reach answers, with members of a decision changed."""
    chunk = {"chunk": {"vectors": [STILL]}} if message["type"] == "observation" else {}
    return honest(message, **(chunk | changed if chunk else {}))


# -- answers to something else --------------------------------------------------------------------------------------


def test_row_22_a_decision_that_repeats_the_previous_observation_id_is_an_error_and_nothing_of_it_runs() -> None:
    previous: list[str] = []

    def late(message: dict[str, Any]) -> Any:
        if message["type"] != "observation":
            return still(message)
        previous.append(message["observation_id"])
        return still(message, observation_id=previous[-2] if len(previous) == 3 else previous[-1])

    with own_server(hello_of(DECLARED), late) as uri, guest(uri) as harness:
        assert ended(harness.play()) == ("ERROR", "stale_observation", 2)
        assert ended(harness.play()) == (None, None, 5)


@pytest.mark.parametrize("openpi", [False, True], ids=["own", "openpi"])
def test_row_31_a_reply_after_the_timeout_is_never_taken_for_another_answer(openpi: bool) -> None:
    calls: list[int] = []

    def slow_once(answer: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            time.sleep(0.5)
        return answer

    def speak_own(message: dict[str, Any]) -> Any:
        return slow_once(still(message)) if message["type"] == "observation" else still(message)

    def speak_openpi(message: dict[str, Any]) -> Any:
        return slow_once({"actions": ROWS})

    server = openpi_server(speak_openpi) if openpi else own_server(hello_of(DECLARED), speak_own)
    with server as uri, guest(uri, openpi=openpi, call_timeout_s=0.25) as harness:
        first = harness.play()
        assert ended(first) == ("FAIL", "policy_timeout", 2)
        time.sleep(0.4)  # the late reply is on its way to a connection that nobody reads any more
        assert ended(harness.play()) == (None, None, 5)
    assert len(calls) == 3 + 5


# -- sizes ----------------------------------------------------------------------------------------------------------


def wide(cameras: int) -> Any:
    """Return the declaration of a policy that expects so many pictures of 720 x 1280 x 3."""
    listed = tuple(camera(f"camera_{number}", 720, 1280) for number in range(cameras))
    return SMALL.model_copy(update={"expects": ObservationSpec(instruction=True, cameras=listed)})


def seen_by_a_server(cameras: int) -> tuple[Observation, dict[str, Any]]:
    """Send one look of so many cameras to a policy server; return what went out and what the policy saw."""
    seen: dict[str, Any] = {}
    declared = wide(cameras)

    class Keeping(SmallStub):
        def spec(self) -> Any:
            return declared

        def act(self, observation: Observation) -> Any:
            seen.update(observation.images)
            return ActionChunk([[1.0, 0.5]])

    with serving(Keeping) as uri:
        actor = WebSocketActor(uri, setting(declared, call_timeout_s=30.0, first_call_timeout_s=30.0))
        actor.reset(begin(), None)  # type: ignore[arg-type]
        sent = look(declared)
        asked(actor, sent)
        actor.close()
    return sent, seen


@pytest.mark.parametrize("cameras", [3, 24])
def test_row_28_three_and_24_large_cameras_arrive_pixel_by_pixel(cameras: int) -> None:
    sent, seen = seen_by_a_server(cameras)
    assert sum(pixels.nbytes for pixels in sent.images.values()) == cameras * 2_764_800
    assert all(np.array_equal(sent.images[name], seen[name]) for name in sent.images)
    assert len(seen) == cameras


def test_row_28_twenty_five_are_refused_at_the_handshake_by_either_side_with_both_sizes() -> None:
    declared = wide(25)
    with own_server(hello_of(declared), honest) as uri:
        with pytest.raises(ContractFault, match=r"69185536 bytes .* 67108864") as heard:
            describe(uri, connect_timeout_s=3.0, max_message_bytes=2**26)
        assert heard.value.code == "message_too_large"
        with pytest.raises(ContractFault, match="69185536"):
            WebSocketActor(uri, setting(declared)).reset(begin(), None)  # type: ignore[arg-type]

    class Wide(SmallStub):
        def spec(self) -> Any:
            return declared

    with pytest.raises(ContractFault, match=r"69185536 bytes .* 67108864"), serving(Wide):
        pass


# -- time -----------------------------------------------------------------------------------------------------------


class Thinking(Still):
    """Takes its time in its second call, or until it is enough."""

    def __init__(self, think_s: float) -> None:
        self._think_s, self.enough = think_s, threading.Event()

    def act(self, observation: Observation) -> Decision:
        if observation.call_index == 1:
            self.enough.wait(self._think_s)
        return ActionChunk([STILL])


def thought(think_s: float, *, call_timeout_s: float) -> tuple[tuple[str | None, str | None, int], float]:
    """Let a policy think; return how its attempt ended and after how many seconds."""
    policy = Thinking(think_s)
    with serving(lambda: policy) as uri, guest(uri, call_timeout_s=call_timeout_s) as harness:
        start_s = time.monotonic()
        try:
            return ended(harness.play()), time.monotonic() - start_s
        finally:
            policy.enough.set()


def test_row_29_inference_longer_than_many_keepalives_goes_on_and_above_the_call_timeout_it_is_a_policy_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_module, "PING_INTERVAL_S", 0.1)
    monkeypatch.setattr(server_module, "PING_INTERVAL_S", 0.1)
    assert thought(1.2, call_timeout_s=BUSY_S)[0] == (None, None, 5)
    timeout, took_s = thought(LONG_S, call_timeout_s=0.6)
    assert timeout == ("FAIL", "policy_timeout", 1)
    assert took_s < BUSY_S  # LONG_S for who waits for the answer


@pytest.mark.slow
def test_row_29_inference_of_120_s_goes_on_under_a_timeout_of_180_s_and_one_of_600_s_does_not() -> None:
    with ThreadPoolExecutor(2) as pool:
        short, long = (pool.submit(thought, think_s, call_timeout_s=180.0) for think_s in (120.0, 600.0))
        assert short.result()[0] == (None, None, 5)
        (status, code, steps), took_s = long.result()
    assert (status, code, steps) == ("FAIL", "policy_timeout", 1)
    assert 180.0 <= took_s < 200.0  # 600 s for who waits for the answer


def soonest_s(do: Callable[[], None]) -> float:
    """Return the seconds of the first of five tries below one, or else the fewest: the machine may be busy."""
    took_s: list[float] = []
    while len(took_s) < 5 and min(took_s, default=1.0) >= 1.0:
        start_s = time.monotonic()
        do()
        took_s.append(time.monotonic() - start_s)
    return min(took_s)


@contextmanager
def thinking_server(kind: type[SmallStub]) -> Iterator[str]:
    """Yield the address of a server whose policy thinks for LONG_S, or until this is left."""
    at_work, enough = threading.Event(), threading.Event()

    class Busy(kind):  # type: ignore[valid-type,misc]
        def act(self, observation: Observation) -> Any:
            at_work.set()
            enough.wait(LONG_S)
            return super().act(observation)

    with ExitStack() as stack:
        uri = stack.enter_context(serving(Busy))
        actor = WebSocketActor(uri, setting(kind.declared, first_call_timeout_s=2 * LONG_S))
        actor.reset(begin(), None)  # type: ignore[arg-type]
        asking = threading.Thread(target=lambda: asked(actor, look()))
        asking.start()
        assert at_work.wait(BUSY_S)
        try:
            yield uri
        finally:
            enough.set()
            asking.join(BUSY_S)
            actor.close()


@pytest.mark.parametrize("kind", [SmallStub, Instance], ids=["any number of clients", "one client"])
def test_row_30_a_second_client_and_a_health_check_are_answered_within_a_second_during_inference(
    kind: type[SmallStub],
) -> None:
    def second_client() -> None:
        if kind is Instance:
            with pytest.raises(InvalidStatus) as refused:
                connect(uri, open_timeout=BUSY_S)
            assert refused.value.response.status_code == 503
            assert b"one client at a time" in (refused.value.response.body or b"")
        else:
            with connect(uri, compression=None, open_timeout=BUSY_S) as second:
                assert own.decode(second.recv(timeout=BUSY_S), max_bytes=2**20)["type"] == "hello"  # type: ignore[arg-type]

    def health_check() -> None:
        with closing(HTTPConnection("127.0.0.1", int(uri.rpartition(":")[2]), timeout=BUSY_S)) as health:
            health.request("GET", "/healthz")
            assert health.getresponse().status == 200

    with thinking_server(kind) as uri:
        assert soonest_s(second_client) < 1.0
        assert soonest_s(health_check) < 1.0


def refused_to_connect(port: int) -> str:
    """Return why no episode begins at a port, which must be told within the connect timeout."""
    with guest(f"ws://127.0.0.1:{port}", connect_timeout_s=0.4) as harness:
        start_s = time.monotonic()
        attempt = harness.play()
        assert ended(attempt) == ("ERROR", "connect_failed", 0)
        assert time.monotonic() - start_s < BUSY_S  # without a limit LONG_S or for ever
        assert attempt.fault is not None
        return attempt.fault.message


def test_row_32_a_closed_a_silent_and_a_half_open_port_are_told_apart_within_the_connect_timeout() -> None:
    with closed_port() as port:
        assert "refused" in refused_to_connect(port).lower()
    with socket_server(lambda peer: None) as port:
        assert "does not answer the WebSocket handshake" in refused_to_connect(port)
    with silent_server() as uri:
        assert "does not send the first message" in refused_to_connect(int(uri.rpartition(":")[2]))


# -- an openpi server that fails ------------------------------------------------------------------------------------


def test_row_34_a_traceback_of_an_openpi_server_is_the_policys_exception_with_its_text_in_512_bytes() -> None:
    text = "Traceback (most recent call last):\n" + '  File "serve.py", line 1\n' * 100 + "CudaError: out of memory"
    with openpi_server(lambda message: text) as uri, guest(uri, openpi=True) as harness:
        attempt = harness.play()
        assert ended(attempt) == ("FAIL", "policy_exception", 0)
        assert attempt.fault is not None
        assert attempt.fault.message.endswith("CudaError: out of memory")
        assert 400 < len(attempt.fault.message.encode()) <= 512


# -- many clients ---------------------------------------------------------------------------------------------------


def together(uri: str, *words: str) -> list[Any]:
    """Ask with each word from a client of its own, all at once; return decisions and faults in order."""
    barrier = threading.Barrier(len(words))

    def ask(number: int, word: str) -> Any:
        actor = WebSocketActor(uri, setting())
        episode = f"{number:032x}"
        try:
            actor.reset(begin(episode, word=word), None)  # type: ignore[arg-type]
            barrier.wait(5)
            return actor.ask(look(word=word, episode=episode), lambda: None)  # type: ignore[arg-type,return-value]
        except PolicyFault as fault:
            return fault
        finally:
            actor.close()

    with ThreadPoolExecutor(len(words)) as pool:
        return list(pool.map(ask, range(len(words)), words))


def settings_for(batch: int) -> ServeSettings:
    return ServeSettings(port=0, max_batch_size=batch, max_wait_s=2.0)


@pytest.mark.parametrize("kind", [SmallBatching, SmallStub], ids=["decides together", "decides one by one"])
def test_row_40_four_environments_with_four_instructions_in_one_batch_each_get_their_own_answer(
    kind: type[SmallStub],
) -> None:
    sizes: list[int] = []

    class Noting(SmallBatching):
        def act_batch(self, observations: Sequence[Any]) -> list[Any]:
            sizes.append(len(observations))
            return super().act_batch(observations)

    with serving(Noting if kind is SmallBatching else kind, settings=settings_for(4)) as uri:
        for _ in range(3):
            found = together(uri, "down", "left", "up", "right")
            assert [float(answer.decision.vectors[0][0]) for answer in found] == [4.0, 1.0, 3.0, 2.0]
            assert [answer.batch_size for answer in found] == [4] * 4
    assert sizes == ([4] * 3 if kind is SmallBatching else [])


@pytest.mark.parametrize("kind", [SmallBatching, SmallStub], ids=["decides together", "decides one by one"])
def test_row_41_one_item_of_three_that_raises_fails_only_itself(kind: type[SmallStub]) -> None:
    with serving(kind, settings=settings_for(3)) as uri:
        left, raised, right = together(uri, "left", "raise", "right")
    assert isinstance(raised, PolicyFault)
    assert (raised.code, "no plan for this word" in raised.message) == ("policy_exception", True)
    assert [float(answer.decision.vectors[0][0]) for answer in (left, right)] == [1.0, 2.0]
    assert (left.batch_size, right.batch_size) == (3, 3)
