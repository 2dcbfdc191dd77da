"""What a client of our own dialect may say to a policy server, and what it hears back; no socket is involved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from served_policies import DECLARED, begin, camera, look
from trialplate.errors import ContractFault, HarnessFault, PolicyFault
from trialplate.policies.messages.handshake import parse_hello, service_hello_message, terms_part
from trialplate.policies.messages.reading import parse_decision, parse_ready
from trialplate.policies.messages.writing import (
    ack_message,
    close_message,
    episode_end_message,
    observation_message,
    reset_message,
)
from trialplate.policies.server.own_dialect import OwnDialect, OwnSession
from trialplate.policies.server.sessions import Begin, Decide, Say, Step
from trialplate.policies.wire import openpi, own
from trialplate.record import Ack, ActionChunk, PolicyDecision, Stop
from trialplate.spec.channels import HistorySpec, ObservationSpec
from trialplate.spec.protocol import Budgets
from trialplate.spec.registration import Registration

DIALECT = OwnDialect(DECLARED, Registration(), max_message_bytes=2**26)
EPISODE = "e" * 32


def frame(message: dict[str, Any], number: int | None = None, **changed: Any) -> bytes:
    numbered = {} if number is None else {"id": number}
    return own.encode({**message, **numbered, **changed})


def begun() -> OwnSession:
    """Return a session whose client has begun an episode under id 0."""
    session = DIALECT.session()
    (step,) = session.receive(frame(reset_message(begin(EPISODE)), 0))
    assert isinstance(step, Begin)
    return session


def refused(steps: Sequence[Step]) -> tuple[str, int | None, bool]:
    """Return code, id and whether the connection ends, of a message that was refused."""
    (step,) = steps
    assert isinstance(step, Say)
    reply = own.decode(step.data, max_bytes=2**20)  # type: ignore[arg-type]
    assert reply["type"] == "error"
    return reply["code"], reply["id"], step.closes


# -- what a session reads -------------------------------------------------------------------------------------------


def test_the_greeting_tells_declaration_identity_and_the_limit_that_this_policy_needs() -> None:
    hello = parse_hello(own.decode(DIALECT.greeting, max_bytes=2**20))
    assert hello.policy_spec == DECLARED  # type: ignore[union-attr]
    assert hello.registration == Registration()  # type: ignore[union-attr]
    assert hello.max_message_bytes == DIALECT.limit_bytes == 2**20


def test_the_limit_follows_what_the_policy_expects_and_stays_below_the_servers_own() -> None:
    wide = DECLARED.model_copy(
        update={"expects": ObservationSpec(instruction=False, cameras=(camera("a", 720, 1280),))}
    )
    assert OwnDialect(wide, Registration(), max_message_bytes=2**26).limit_bytes == 720 * 1280 * 3 + 65_536
    past = DECLARED.model_copy(
        update={
            "expects": ObservationSpec(
                instruction=False, cameras=(camera("a", 720, 1280),), history=HistorySpec(frames=2, actions=100)
            )
        }
    )
    assert OwnDialect(past, Registration(), max_message_bytes=2**26).limit_bytes > 3 * 720 * 1280 * 3 + 65_536 + 1600
    with pytest.raises(ContractFault, match="2830336 bytes") as small:
        OwnDialect(wide, Registration(), max_message_bytes=2**21)
    assert small.value.code == "message_too_large"


def test_reset_observation_and_close_become_steps_that_are_answered_under_their_ids() -> None:
    session = begun()
    seen = look(word="up")
    (step,) = session.receive(frame(observation_message(seen), 3))
    assert isinstance(step, Decide)
    assert step.observation.observation_id == seen.observation_id
    assert np.array_equal(step.observation.images["front"], seen.images["front"])
    reply = session.reply(step, PolicyDecision(ActionChunk([[1.0, 0.5]]), batch_size=2))
    message = own.decode(reply.data, max_bytes=2**20)  # type: ignore[arg-type]
    assert message["id"] == 3
    assert parse_decision(message, expected=seen).batch_size == 2
    (end,) = session.receive(frame(close_message(), 4))
    assert isinstance(end, Say) and end.closes
    assert own.decode(session.reply(end, None).data, max_bytes=2**20)["id"] == 4  # type: ignore[arg-type]


def test_hello_ack_and_end_of_an_episode_are_read_and_not_answered() -> None:
    session = begun()
    terms = terms_part(DECLARED.expects, DECLARED.emits, replan_interval=1, budgets=Budgets(), max_steps=10)
    told = (
        service_hello_message(terms, encodings=("msgpack",), max_message_bytes=2**26),
        ack_message(Ack(EPISODE, 0, True, 1, 1, 0, 0, None, "observation")),
        episode_end_message(EPISODE, "terminated"),
    )
    assert [session.receive(frame(message)) for message in told] == [(), (), ()]


@pytest.mark.parametrize("number", [0, -1, True, None, 1.0, "1", 2**53])
def test_a_request_whose_id_does_not_increase_is_refused(number: Any) -> None:
    message = {**observation_message(look()), "id": number}
    assert refused(begun().receive(own.encode(message)))[0] in ("out_of_order", "wire_malformed")


def test_an_observation_of_an_episode_that_was_not_begun_on_this_connection_is_refused() -> None:
    assert refused(DIALECT.session().receive(frame(observation_message(look()), 1))) == ("out_of_order", 1, False)
    other = look(episode="f" * 32)
    assert refused(begun().receive(frame(observation_message(other), 1))) == ("out_of_order", 1, False)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("text", "wire_malformed"),
        (b"", "wire_malformed"),
        (b"\xc1", "wire_malformed"),
        (b"\x80\x04\x95\x05", "wire_malformed"),
        (own.encode({"a": 1}), "wire_malformed"),
        (own.encode({"protocol": "trialplate.policy/2", "type": "reset"}), "version_mismatch"),
        (openpi.encode({"x": np.zeros(2)}), "wire_dialect_mismatch"),
        (frame({"protocol": "trialplate.policy/1", "type": "dance"}), "wire_malformed"),
        (frame({"protocol": "trialplate.policy/1", "type": "dance" * 1000}), "wire_malformed"),
        (frame({"protocol": "trialplate.policy/1", "type": "decision"}), "wire_malformed"),
        (b"\0" * (2**20 + 1), "message_too_large"),
    ],
)
def test_a_message_without_an_id_that_cannot_be_read_is_told_and_ends_the_connection(
    data: bytes | str, code: str
) -> None:
    assert refused(begun().receive(data)) == (code, None, True)


def test_a_request_that_is_wrong_is_told_under_its_id_and_the_conversation_goes_on() -> None:
    session = begun()
    lacking = observation_message(look())
    del lacking["images"]["front"]
    assert refused(session.receive(frame(lacking, 1))) == ("contract_mismatch", 1, False)
    assert refused(session.receive(frame(observation_message(look()), 2, surprise=1))) == ("wire_malformed", 2, False)
    (step,) = session.receive(frame(observation_message(look()), 3))
    assert isinstance(step, Decide)


# -- what it answers ------------------------------------------------------------------------------------------------


def answered(outcome: Any) -> dict[str, Any]:
    reply = begun().reply(Decide(look(), 7), outcome)
    assert not reply.closes
    message: dict[str, Any] = own.decode(reply.data, max_bytes=2**20)  # type: ignore[arg-type]
    assert message["id"] == 7
    return message


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (PolicyFault("why", code="policy_exception"), "policy_exception"),
        (PolicyFault("why", code="forbidden_tool"), "forbidden_tool"),
        (ContractFault("why", code="out_of_order"), "out_of_order"),
        (PolicyDecision(ActionChunk([[object()]])), "invalid_response_schema"),
        (PolicyDecision(ActionChunk(None)), "invalid_response_schema"),
    ],
)
def test_a_fault_is_answered_under_the_requests_id(outcome: Any, code: str) -> None:
    message = answered(outcome)
    assert (message["type"], message["code"]) == ("error", code)


def test_stop_is_answered_and_a_reset_with_ready() -> None:
    assert answered(PolicyDecision(Stop("done")))["stop"] == {"reason": "done"}
    info = begin(EPISODE)
    reply = begun().reply(Begin(info, 5), None)
    message = own.decode(reply.data, max_bytes=2**20)  # type: ignore[arg-type]
    parse_ready(message, episode=EPISODE)
    assert message["id"] == 5


def test_a_server_that_goes_away_says_so_by_its_close_code_and_never_blames_the_policy() -> None:
    reply = begun().reply(Decide(look(), 7), HarnessFault("shutting down", code="transport_lost"))
    assert (reply.data, reply.closes, reply.code) == (None, True, 1001)


# -- whatever comes -------------------------------------------------------------------------------------------------

SAMPLES = (
    frame(reset_message(begin(EPISODE)), 1),
    frame(observation_message(look()), 1),
    frame(ack_message(Ack(EPISODE, 0, True, 1, 1, 0, 0, None, "observation"))),
    frame(episode_end_message(EPISODE, "error")),
    frame(close_message(), 1),
    DIALECT.greeting,
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=400), st.text(max_size=50)))
def test_no_bytes_make_a_session_raise(data: bytes | str) -> None:
    for step in begun().receive(data):
        assert isinstance(step, Begin | Decide | Say)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(SAMPLES), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4), st.data()
)
def test_no_damaged_message_makes_a_session_raise(
    sample: bytes, damage: list[tuple[int, int]], data: st.DataObject
) -> None:
    damaged = bytearray(sample)
    for place, value in damage:
        damaged[place % len(damaged)] = value
    cut = data.draw(st.integers(0, len(damaged)))
    for step in begun().receive(bytes(damaged[: cut or None])):
        assert isinstance(step, Begin | Decide | Say)
