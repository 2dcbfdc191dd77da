"""A policy served to clients of openpi: what is in their map, what is in ours, and what is refused beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from served_policies import DECLARED, MAPPING, camera
from trialplate.errors import ContractFault, HarnessFault, LockError, PolicyFault
from trialplate.policies.messages.openpi_mapping import OpenpiMapping
from trialplate.policies.server.openpi_dialect import OpenpiDialect, OpenpiSession
from trialplate.policies.server.sessions import Begin, Decide, Say
from trialplate.policies.wire import openpi, own
from trialplate.record import ActionChunk, PolicyDecision, Stop
from trialplate.spec.channels import HistorySpec, PolicySpec
from trialplate.spec.registration import Registration

SERVED = DECLARED.model_copy(update={"expects": DECLARED.expects.model_copy(update={"meta": ()})})
MAP: dict[str, Any] = {
    "observation/image": np.arange(192, dtype=np.uint8).reshape(8, 8, 3),
    "observation/state": np.array([1.0, 2.0, 3.0, 4.0], dtype=np.float32),
    "prompt": "left",
}


def dialect(
    declared: PolicySpec = SERVED, table: dict[str, Any] = MAPPING, *, max_message_bytes: int = 2**26
) -> OpenpiDialect:
    mapping = OpenpiMapping(table, declared.expects)
    return OpenpiDialect(declared, Registration(), mapping=mapping, max_message_bytes=max_message_bytes)


DIALECT = dialect()


def session() -> OpenpiSession:
    return DIALECT.session()


def test_the_first_frame_tells_identity_and_declaration() -> None:
    told = openpi.decode(dialect().greeting, max_bytes=2**20)
    assert told["registration_sha256"] == Registration().sha256()
    assert told["policy_spec"] == SERVED.model_dump(mode="json")


def test_the_first_map_begins_an_episode_and_the_next_ones_go_on_with_it() -> None:
    one = session()
    reset, first = one.receive(openpi.encode(MAP))
    (second,) = one.receive(openpi.encode(MAP))
    assert isinstance(reset, Begin) and isinstance(first, Decide) and isinstance(second, Decide)
    assert reset.info.instruction == "left"
    assert reset.info.episode == first.observation.episode == second.observation.episode
    assert (first.observation.call_index, second.observation.call_index) == (0, 1)
    assert first.observation.observation_id != second.observation.observation_id
    assert np.array_equal(first.observation.images["front"], MAP["observation/image"])
    assert first.observation.proprio["joint_pos"].tolist() == [1.0, 2.0, 3.0]
    assert first.observation.proprio["finger"].tolist() == [4.0]
    other, _ = session().receive(openpi.encode(MAP))
    assert isinstance(other, Begin)
    assert other.info.episode != reset.info.episode
    assert other.info.policy_seed != reset.info.policy_seed


@pytest.mark.parametrize(
    "frame",
    [
        "text", b"", b"\xc1", own.encode({"a": np.zeros(2)}), openpi.encode({}), openpi.encode({**MAP, "more": 1}),
        openpi.encode({**MAP, "prompt": 3}), openpi.encode({**MAP, "observation/state": [1.0, 2.0, 3.0, 4.0]}),
        openpi.encode({**MAP, "observation/state": np.zeros(3)}),
        openpi.encode({**MAP, "observation/state": np.zeros(4, dtype=np.int64)}),
        openpi.encode({**MAP, "observation/image": np.zeros((8, 8, 3))}),
        openpi.encode({**MAP, "observation/image": np.zeros((3, 8, 8), dtype=np.uint8)}),
    ],
)  # fmt: skip
def test_a_map_that_is_not_the_agreed_one_is_told_as_text_and_ends_the_connection(frame: bytes | str) -> None:
    one = session()
    (step,) = one.receive(frame)
    assert isinstance(step, Say)
    reply = one.reply(step, None)
    assert isinstance(reply.data, str)
    assert reply.data.startswith(("wire_malformed: ", "wire_dialect_mismatch: "))
    assert (reply.closes, reply.code) == (True, 1011)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=300), st.text(max_size=40)))
def test_no_bytes_make_a_session_raise(data: bytes | str) -> None:
    assert all(isinstance(step, Begin | Decide | Say) for step in session().receive(data))


def replied(vectors: Any) -> dict[str, Any] | str:
    """Return what goes back for rows: a map, or the text of a failure."""
    one = session()
    _, step = one.receive(openpi.encode(MAP))
    decision = vectors if isinstance(vectors, Stop | Exception) else ActionChunk(vectors)
    outcome = decision if isinstance(decision, Exception) else PolicyDecision(decision, latency_ms=3.0)
    reply = one.reply(step, outcome)
    if isinstance(reply.data, str):
        assert (reply.closes, reply.code) == (True, 1011)
        return reply.data
    return openpi.decode(reply.data, max_bytes=2**20)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [[[1, 0.5]], [(1.0, 0.5)], np.array([[1.0, 0.5]], dtype=np.float32)])
def test_rows_go_back_as_an_array_with_the_time_that_they_took(rows: Any) -> None:
    reply = replied(rows)
    assert isinstance(reply, dict)
    assert reply["actions"].tolist() == [[1.0, 0.5]]
    assert reply["server_timing"] == {"infer_ms": 3.0}


def test_float32_rows_stay_float32() -> None:
    assert replied(np.zeros((1, 2), dtype=np.float32))["actions"].dtype == np.float32  # type: ignore[index,call-overload]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([[True, 0.5]], "invalid_action"),
        ([[None, 0.5]], "invalid_action"),
        ([["1.0", 0.5]], "invalid_action"),
        ([1.0, 0.5], "invalid_response_schema"),
        ([[1.0], [1.0, 0.5]], "invalid_response_schema"),
        (np.zeros((1, 2), dtype=np.int64), "invalid_response_schema"),
        (np.zeros((1, 2), dtype=np.bool_), "invalid_response_schema"),
        (np.zeros(2), "invalid_response_schema"),
        (Stop("done"), "invalid_response_schema"),
        (PolicyFault("no plan", code="policy_exception"), "policy_exception: no plan"),
        (HarnessFault("shutting down", code="transport_lost"), "transport_lost"),
    ],
)
def test_what_is_no_row_of_numbers_does_not_become_one_and_is_told_as_text(rows: Any, told: str) -> None:
    reply = replied(rows)
    assert isinstance(reply, str)
    assert reply.startswith(told)


# -- refused before a port is opened --------------------------------------------------------------------------------


def without(key: str) -> dict[str, Any]:
    return {name: source for name, source in MAPPING.items() if name != key}


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (without("observation/image"), "front is in no key"),
        ({**without("observation/state"), "state": "proprio:finger"}, "joint_pos is in no key"),
        (without("prompt"), "the instruction is in no key"),
    ],
)
def test_a_channel_that_the_table_does_not_carry_is_refused_and_not_filled_in(table: Any, told: str) -> None:
    with pytest.raises(LockError, match=told) as refused:
        dialect(table=table)
    assert refused.value.code == "contract_mismatch"


@pytest.mark.parametrize("channel", [{"meta": ("step_index",)}, {"history": HistorySpec(frames=1, actions=1)}])
def test_a_channel_that_the_dialect_does_not_know_is_refused(channel: dict[str, Any]) -> None:
    more = SERVED.model_copy(update={"expects": SERVED.expects.model_copy(update=channel)})
    with pytest.raises(LockError, match="history") as refused:
        dialect(more)
    assert refused.value.code == "contract_mismatch"


def test_a_message_that_would_not_fit_is_refused() -> None:
    wide = SERVED.model_copy(
        update={"expects": SERVED.expects.model_copy(update={"cameras": (camera("front", 600, 600),)})}
    )
    with pytest.raises(ContractFault) as refused:
        dialect(wide, max_message_bytes=2**20)
    assert refused.value.code == "message_too_large"
