"""A policy behind our own WebSocket dialect: what comes back is believed only as far as it answers what was asked."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from lying_servers import BUSY_S, LONG_S, Answer, hello_of, honest, own_server, websocket_server
from served_policies import DECLARED, Stub, asked, begin, camera, look, nothing, setting
from trialplate.errors import ContractFault, HarnessFault, PolicyFault, TrialplateError
from trialplate.policies.client.websocket import WebSocketActor, describe, unverified
from trialplate.policies.server.hosting import serving
from trialplate.policies.wire import openpi, own
from trialplate.record import Ack, ActionChunk, Stop
from trialplate.spec.channels import ObservationSpec
from trialplate.spec.registration import Registration

REGISTRATION = Registration.model_validate_json('{"model": {"name": "m", "revision": "1"}}')


def hear(uri: str, *, max_message_bytes: int = 2**26) -> Any:
    return describe(uri, connect_timeout_s=3.0, max_message_bytes=max_message_bytes)


@contextmanager
def actor_for(answer: Answer, **budgets: Any) -> Iterator[WebSocketActor]:
    """Yield an actor that has begun an episode with a server that answers by ``answer``."""
    with own_server(hello_of(DECLARED), answer) as uri:
        actor = WebSocketActor(uri, setting(**budgets))
        try:
            actor.reset(begin(), None)  # type: ignore[arg-type]
            yield actor
        finally:
            actor.close()


def fault_of(answer: Answer, **budgets: Any) -> TrialplateError:
    """Return the fault that a server's answer to an observation is."""

    def after_the_reset(message: dict[str, Any]) -> Any:
        return answer(message) if message["type"] == "observation" else honest(message)

    with actor_for(after_the_reset, **budgets) as actor, pytest.raises(TrialplateError) as raised:
        actor.ask(look(), nothing)
    return raised.value


# -- hello -----------------------------------------------------------------------------------------------------------


def test_a_hello_tells_declaration_identity_software_and_the_smaller_limit() -> None:
    with own_server(hello_of(DECLARED, REGISTRATION, max_message_bytes=5_000_000), honest) as uri:
        hello = hear(uri, max_message_bytes=9_000_000)
        assert hello.policy_spec == DECLARED
        assert hello.registration == REGISTRATION
        assert hello.software.startswith("trialplate ")
        assert hello.max_message_bytes == 5_000_000
        assert hear(uri, max_message_bytes=3_000_000).max_message_bytes == 3_000_000


def test_nothing_that_a_server_says_of_itself_counts_as_verified() -> None:
    said = Registration.model_validate_json(
        '{"model": {"name": "m", "verified": true}, "checkpoint": {"ref": "c", "verified": true},'
        ' "roles": [{"role": "planner", "name": "p", "verified": true}]}'
    )
    with own_server(hello_of(DECLARED, said), honest) as uri:
        heard = hear(uri).registration
    assert heard == unverified(said) != said
    assert not heard.model.verified
    assert not heard.roles[0].verified


@pytest.mark.parametrize(
    ("hello", "code"),
    [
        (hello_of(DECLARED, protocol="trialplate.policy/2"), "version_mismatch"),
        (hello_of(DECLARED, surprise=1), "wire_malformed"),
        (hello_of(DECLARED, role="service"), "wire_malformed"),
        (hello_of(DECLARED, role="driver"), "wire_malformed"),
        (hello_of(DECLARED, max_message_bytes=True), "wire_malformed"),
        (hello_of(DECLARED, policy_spec={"expects": {"instruction": True}}), "contract_undeclared"),
        (own.encode({"protocol": "trialplate.policy/1", "type": "ready", "episode": "0" * 32}), "wire_malformed"),
        ("hello", "wire_malformed"),
        (b"", "wire_malformed"),
        (b"\xc1", "wire_malformed"),
        (own.encode({"type": "hello"}), "wire_malformed"),
        (openpi.encode({"x": np.zeros(2)}), "wire_dialect_mismatch"),
    ],
)
def test_a_first_frame_that_is_no_hello_of_this_contract_is_refused(hello: bytes | str, code: str) -> None:
    with own_server(hello, honest) as uri, pytest.raises(ContractFault) as refused:
        hear(uri)
    assert refused.value.code == code


def test_observations_that_would_not_fit_are_refused_at_the_handshake_with_both_sizes() -> None:
    wide = DECLARED.model_copy(
        update={"expects": ObservationSpec(instruction=False, cameras=(camera("a", 300, 300),))}
    )
    with own_server(hello_of(wide, max_message_bytes=200_000), honest) as uri:
        with pytest.raises(ContractFault, match=r"335536 bytes .* 200000") as refused:
            hear(uri)
        assert refused.value.code == "message_too_large"


# -- requests --------------------------------------------------------------------------------------------------------


def test_reset_observation_ack_end_and_close_go_out_in_order_under_increasing_ids() -> None:
    seen: list[tuple[str, int | None]] = []

    def note(message: dict[str, Any]) -> Any:
        seen.append((message["type"], message.get("id")))
        return honest(message)

    with actor_for(note) as actor:
        actor.ask(look(), nothing)
        actor.acknowledge(Ack("e" * 32, 0, True, 1, 1, 0, 0, None, "observation"))
        actor.ask(look(call_index=1), nothing)
        actor.end("step_limit")
    kinds = ["hello", "reset", "observation", "ack", "observation", "episode_end", "close"]
    assert [kind for kind, _ in seen] == kinds
    assert [number for _, number in seen] == [None, 1, 2, None, 3, None, 4]


def test_a_decision_comes_back_with_its_rows_usage_latency_and_batch_size() -> None:
    metered = {
        "usage": {"requests": 1, "input_tokens": 10, "output_tokens": 2, "cost": None, "cost_reason": "not_reported"},
        "usage_reason": None, "latency_ms": 12.5, "latency_ms_reason": None, "batch_size": 4,
        "chunk": {"vectors": np.array([[1.0, 0.25]], dtype=np.float32)},
    }  # fmt: skip
    with actor_for(
        lambda message: honest(message, **metered) if message["type"] == "observation" else honest(message)
    ) as actor:
        decision = actor.ask(look(), nothing)
    assert decision.echo == "policy"
    assert (decision.usage.input_tokens, decision.usage.cost) == (10, None)  # type: ignore[union-attr]
    assert (decision.latency_ms, decision.batch_size) == (12.5, 4)
    assert decision.decision.vectors.dtype == np.float32  # type: ignore[union-attr]


def test_a_served_policy_answers_as_it_does_in_this_process() -> None:
    with serving(Stub) as uri:
        actor = WebSocketActor(uri, setting())
        actor.reset(begin(), None)  # type: ignore[arg-type]
        for index, word in enumerate(("left", "down", "up")):
            seen = look(word=word, call_index=index)
            assert np.array_equal(asked(actor, seen), Stub().act(seen).vectors)  # type: ignore[union-attr]
        assert actor.ask(look(word="stop", call_index=3), nothing).decision == Stop("done")
        actor.close()


# -- answers that do not answer --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "kind", "code"),
    [
        ({"id": 1}, ContractFault, "stale_observation"),
        ({"id": 99}, ContractFault, "stale_observation"),
        ({"id": True}, ContractFault, "wire_malformed"),
        ({"id": None}, ContractFault, "wire_malformed"),
        ({"observation_id": "0" * 32}, ContractFault, "stale_observation"),
        ({"episode": "0" * 32}, ContractFault, "out_of_order"),
        ({"call_index": 5}, ContractFault, "out_of_order"),
        ({"registration": "0" * 64}, ContractFault, "identity_changed"),
        ({"protocol": "trialplate.policy/9"}, ContractFault, "version_mismatch"),
        ({"surprise": 1}, PolicyFault, "invalid_response_schema"),
        ({"chunk": None}, PolicyFault, "invalid_response_schema"),
        ({"stop": {"reason": None}}, PolicyFault, "invalid_response_schema"),
        ({"chunk": {"action": [[0.0, 0.0]]}}, PolicyFault, "invalid_response_schema"),
        ({"type": "ready"}, PolicyFault, "invalid_response_schema"),
    ],
)
def test_a_decision_that_does_not_answer_the_observation_is_refused(
    changed: dict[str, Any], kind: type[TrialplateError], code: str
) -> None:
    fault = fault_of(lambda message: honest(message, **changed))
    assert type(fault) is kind
    assert fault.code == code


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("a text frame", "wire_malformed"),
        (b"", "wire_malformed"),
        (b"\x81", "wire_malformed"),
        (b"\x91" * 10_000, "wire_malformed"),
        (own.encode({"id": 2})[:-1], "wire_malformed"),
        (own.encode({"protocol": "trialplate.policy/1", "type": "decision"}), "wire_malformed"),
        (openpi.encode({"id": 2, "chunk": np.zeros((1, 2))}), "wire_dialect_mismatch"),
    ],
)
def test_a_frame_that_cannot_be_read_is_nobodys_merit(frame: bytes | str, code: str) -> None:
    fault = fault_of(lambda message: frame)
    assert isinstance(fault, ContractFault)
    assert fault.code == code


@pytest.mark.parametrize(
    ("code", "name", "kind", "charged"),
    [
        ("policy_exception", "policy", PolicyFault, "policy_exception"),
        ("forbidden_tool", "policy", PolicyFault, "forbidden_tool"),
        ("out_of_order", "protocol", ContractFault, "out_of_order"),
        ("simulator_crash", "infrastructure", PolicyFault, "policy_exception"),  # not a policy's to say
        ("no_such_code", "policy", ContractFault, "wire_malformed"),
    ],
)
def test_an_error_of_the_server_is_the_fault_that_it_names(
    code: str, name: str, kind: type[TrialplateError], charged: str
) -> None:
    def refuse(message: dict[str, Any]) -> dict[str, Any]:
        error = {"protocol": "trialplate.policy/1", "type": "error", "code": code, "class": name, "message": "why"}
        return {**error, "id": message["id"]}

    fault = fault_of(refuse)
    assert type(fault) is kind
    assert fault.code == charged
    assert "why" in fault.message


def test_after_a_fault_of_the_policy_the_conversation_goes_on() -> None:
    def bad_first(message: dict[str, Any]) -> Any:
        return honest(message, surprise=1) if message.get("call_index") == 0 else honest(message)

    with actor_for(bad_first) as actor:
        with pytest.raises(PolicyFault, match="surprise"):
            actor.ask(look(), nothing)
        assert np.array_equal(asked(actor, look(call_index=1)), [[1.0, 0.5]])


def test_after_an_answer_to_something_else_the_connection_is_gone_until_the_next_episode() -> None:
    def stale_first(message: dict[str, Any]) -> Any:
        return honest(message, id=1) if message.get("call_index") == 0 else honest(message)

    with actor_for(stale_first) as actor:
        with pytest.raises(ContractFault, match="must repeat"):
            actor.ask(look(), nothing)
        with pytest.raises(HarnessFault) as gone:
            actor.ask(look(call_index=1), nothing)
        assert gone.value.code == "transport_lost"
        actor.reset(begin("f" * 32), None)  # type: ignore[arg-type]
        assert len(asked(actor, look(call_index=1, episode="f" * 32))) == 1


def test_an_answer_that_nobody_asked_for_between_two_episodes_is_never_taken_for_one() -> None:
    def twice(connection: Any) -> None:
        connection.send(hello_of(DECLARED))
        for frame in connection:
            message = own.decode(frame, max_bytes=2**27)
            reply = honest(message)
            if reply is not None:
                connection.send(own.encode(reply))
                if message["type"] == "observation":
                    connection.send(own.encode(reply))

    with websocket_server(twice) as uri:
        actor = WebSocketActor(uri, setting())
        actor.reset(begin(), None)  # type: ignore[arg-type]
        actor.ask(look(), nothing)
        time.sleep(0.1)
        actor.reset(begin("f" * 32), None)  # type: ignore[arg-type]
        actor.ask(look(episode="f" * 32), nothing)
        with pytest.raises(ContractFault) as stale:
            actor.ask(look(call_index=1, episode="f" * 32), nothing)
        assert stale.value.code == "stale_observation"
        actor.close()


# -- time ------------------------------------------------------------------------------------------------------------


def test_the_first_call_has_its_own_time() -> None:
    enough = threading.Event()

    def slow(message: dict[str, Any]) -> Any:
        if message["type"] == "observation":
            enough.wait(0.4 if message["call_index"] == 0 else LONG_S)
        return honest(message)

    with actor_for(slow, first_call_timeout_s=LONG_S, call_timeout_s=0.2) as actor:
        try:
            actor.ask(look(), nothing)
            start_s = time.monotonic()
            with pytest.raises(PolicyFault, match=r"no answer within 0\.2 s") as late:
                actor.ask(look(call_index=1), nothing)
            assert late.value.code == "policy_timeout"
            assert time.monotonic() - start_s < BUSY_S  # with the time of the first call LONG_S
        finally:
            enough.set()


def test_a_reset_that_never_comes_back_is_the_policys_timeout() -> None:
    with own_server(hello_of(DECLARED), lambda message: None) as uri:
        actor = WebSocketActor(uri, setting(first_call_timeout_s=0.2, close_timeout_s=0.2))
        with pytest.raises(PolicyFault) as late:
            actor.reset(begin(), None)  # type: ignore[arg-type]
        assert late.value.code == "policy_timeout"
        actor.close()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Be interrupted by SIGINT also where whoever started the tests has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_during_a_call_gets_through_and_leaves_no_connection() -> None:
    caller, interrupted = threading.get_ident(), threading.Event()

    def interrupt(message: dict[str, Any]) -> Any:
        if message["type"] == "observation":
            signal.pthread_kill(caller, signal.SIGINT)
            interrupted.wait(10)  # nothing is answered before
        return honest(message)

    with actor_for(interrupt) as actor:
        with pytest.raises(KeyboardInterrupt):
            actor.ask(look(), nothing)
        interrupted.set()
        with pytest.raises(HarnessFault, match="gone"):
            actor.ask(look(call_index=1), nothing)


def test_a_server_that_goes_away_after_its_last_decision_costs_the_episode_nothing() -> None:
    gone = threading.Event()

    def once(connection: Any) -> None:
        connection.send(hello_of(DECLARED))
        for _ in range(3):
            reply = honest(own.decode(connection.recv(), max_bytes=2**27))
            if reply is not None:
                connection.send(own.encode(reply))
        connection.close_socket()
        gone.set()

    with websocket_server(once) as uri:
        actor = WebSocketActor(uri, setting())
        actor.reset(begin(), None)  # type: ignore[arg-type]
        actor.ask(look(), nothing)
        assert gone.wait(3)
        actor.acknowledge(Ack("e" * 32, 0, True, 1, 1, 0, 0, None, "episode_end"))
        actor.end("terminated")
        actor.close()


# -- identity --------------------------------------------------------------------------------------------------------


def test_another_identity_than_the_locked_one_is_refused_at_the_first_connection() -> None:
    with own_server(hello_of(DECLARED, REGISTRATION), honest) as uri:
        actor = WebSocketActor(uri, setting())
        with pytest.raises(ContractFault, match="model was None, is") as changed:
            actor.reset(begin(), None)  # type: ignore[arg-type]
        assert changed.value.code == "identity_changed"
        actor.close()


def test_another_declaration_than_the_locked_one_is_refused() -> None:
    other = DECLARED.model_copy(update={"chunk_length": 9})
    with own_server(hello_of(other), honest) as uri:
        actor = WebSocketActor(uri, setting())
        with pytest.raises(ContractFault) as changed:
            actor.reset(begin(), None)  # type: ignore[arg-type]
        assert changed.value.code == "contract_mismatch"
        actor.close()


def test_a_server_that_restarts_between_two_episodes_is_taken_again_when_it_is_the_same() -> None:
    with own_server(hello_of(DECLARED), honest) as uri:
        actor = WebSocketActor(uri, setting())
        actor.reset(begin(), None)  # type: ignore[arg-type]
        before = actor.ask(look(), nothing).decision
    port = int(uri.rpartition(":")[2])
    with own_server(hello_of(DECLARED), honest, port=port):
        actor.reset(begin("f" * 32), None)  # type: ignore[arg-type]
        again = actor.ask(look(episode="f" * 32), nothing).decision
        actor.close()
    assert isinstance(before, ActionChunk) and isinstance(again, ActionChunk)
    assert np.array_equal(before.vectors, again.vectors)
