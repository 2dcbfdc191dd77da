"""A policy behind openpi's dialect: no ids and no reset, so each doubt about an answer ends the connection."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from lying_servers import Infer, openpi_server, websocket_server
from served_policies import DECLARED, MAPPING, asked, begin, camera, look, nothing, setting
from trialplate.errors import ContractFault, HarnessFault, LockError, PolicyFault, TrialplateError
from trialplate.policies.client.openpi import OpenpiActor, describe_openpi, plain
from trialplate.policies.wire import openpi, own
from trialplate.record import Ack
from trialplate.spec.channels import ObservationSpec
from trialplate.spec.registration import Registration

ROWS = np.array([[1.0, 0.5], [2.0, 1.0]], dtype=np.float32)
END = Ack("e" * 32, 0, True, 2, 2, 0, 0, None, "episode_end")


def good(message: dict[str, Any]) -> dict[str, Any]:
    return {"actions": ROWS}


@contextmanager
def actor_for(
    infer: Infer, *, single_vector: bool = False, metadata: Any = None, **budgets: Any
) -> Iterator[OpenpiActor]:
    """Yield an actor that has begun an episode with a server that answers by ``infer``."""
    with openpi_server(infer, metadata=metadata) as uri:
        actor = OpenpiActor(uri, setting(**budgets), mapping=MAPPING, single_vector=single_vector)
        try:
            actor.reset(begin(), None)  # type: ignore[arg-type]
            yield actor
        finally:
            actor.close()


def fault_of(reply: Any, **options: Any) -> TrialplateError:
    """Return the fault that a server's answer is."""
    with actor_for(lambda message: reply, **options) as actor, pytest.raises(TrialplateError) as raised:
        actor.ask(look(), nothing)
    return raised.value


# -- what goes out and what comes back ------------------------------------------------------------------------------


def test_a_server_is_sent_exactly_the_keys_of_the_table_with_pixels_and_numbers_as_they_are() -> None:
    sent: list[dict[str, Any]] = []

    def keep(message: dict[str, Any]) -> dict[str, Any]:
        sent.append(message)
        return good(message)

    seen = look(word="up")
    with actor_for(keep) as actor:
        actor.ask(seen, nothing)
    (message,) = sent
    assert message.keys() == MAPPING.keys()
    assert np.array_equal(message["observation/image"], seen.images["front"])
    assert message["observation/image"].dtype == np.uint8
    joined = np.concatenate([seen.proprio["joint_pos"], seen.proprio["finger"]])
    assert np.array_equal(message["observation/state"], joined)
    assert message["prompt"] == "up"


def test_a_reply_is_a_decision_whose_echo_the_client_filled_in_and_other_keys_are_kept() -> None:
    large = np.arange(1000.0)
    reply = {"actions": ROWS, "server_timing": {"infer_ms": 12.5}, "value": np.float32(0.25), "features": large}
    with actor_for(lambda message: reply) as actor:
        decision = actor.ask(look(), nothing)
    assert decision.echo == "client"
    assert decision.decision.vectors.dtype == np.float32  # type: ignore[union-attr]
    assert np.array_equal(decision.decision.vectors, ROWS)  # type: ignore[union-attr]
    assert (decision.latency_ms, decision.usage, decision.usage_reason) == (12.5, None, "not_metered")
    assert decision.remarks is not None
    assert decision.remarks.keys() == {"server_timing", "value", "features"}
    assert decision.remarks["value"] == 0.25
    assert decision.remarks["features"]["shape"] == [1000]  # type: ignore[index]


@pytest.mark.parametrize(
    "timing", [None, 3, {"infer_ms": True}, {"infer_ms": -1.0}, {"infer_ms": float("nan")}, {"infer_ms": "3"}]
)
def test_a_server_that_tells_no_time_leaves_the_latency_unknown_and_never_zero(timing: Any) -> None:
    with actor_for(lambda message: {"actions": ROWS, "server_timing": timing}) as actor:
        decision = actor.ask(look(), nothing)
    assert (decision.latency_ms, decision.latency_ms_reason) == (None, "not_reported")


def test_one_row_without_its_axis_is_refused_unless_the_protocol_allows_it() -> None:
    fault = fault_of({"actions": ROWS[0]})
    assert (type(fault), fault.code) == (PolicyFault, "invalid_response_schema")
    assert "single_vector" in fault.message
    with actor_for(lambda message: {"actions": ROWS[0]}, single_vector=True) as actor:
        assert np.array_equal(asked(actor, look()), ROWS[:1])


@pytest.mark.parametrize(
    "reply",
    [
        {}, {"action": ROWS}, {"actions": None}, {"actions": ROWS.tolist()}, {"actions": 1.0},
        {"actions": np.float32(1.0)}, {"actions": ROWS[None]}, {"actions": np.zeros(())},
    ],
)  # fmt: skip
def test_a_map_without_rows_is_the_policys_fault_and_the_connection_stays(reply: dict[str, Any]) -> None:
    with actor_for(lambda message: reply if message["prompt"] == "bad" else good(message)) as actor:
        with pytest.raises(PolicyFault) as wrong:
            actor.ask(look(word="bad"), nothing)
        assert wrong.value.code == "invalid_response_schema"
        assert np.array_equal(asked(actor, look(call_index=1)), ROWS)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"", "wire_malformed"),
        (b"\x81", "wire_malformed"),
        (b"\x80\x04\x95K.", "wire_malformed"),
        (own.encode({"actions": ROWS}), "wire_dialect_mismatch"),
        (bytes.fromhex("81a7616374696f6e7382c4026e64c3a474797065a33c6634"), "wire_dialect_mismatch"),
    ],
)
def test_a_frame_that_cannot_be_read_ends_the_connection(frame: bytes, code: str) -> None:
    with actor_for(lambda message: frame) as actor:
        with pytest.raises(ContractFault) as wrong:
            actor.ask(look(), nothing)
        assert wrong.value.code == code
        with pytest.raises(HarnessFault, match="gone"):
            actor.ask(look(call_index=1), nothing)


def test_a_traceback_is_the_policys_exception_with_its_last_lines_kept_in_512_bytes() -> None:
    text = "Traceback (most recent call last):\n" + "  File somewhere ä\n" * 500 + "ValueError: no such key: é\x00"
    fault = fault_of(text)
    assert (type(fault), fault.code) == (PolicyFault, "policy_exception")
    assert fault.message.endswith("ValueError: no such key: é\\x00")
    assert len(fault.message.encode()) <= 512


def test_a_traceback_that_comes_late_is_still_the_policys_and_is_not_taken_for_an_answer() -> None:
    def fail_late(connection: Any) -> None:
        connection.send(openpi.encode({}))
        connection.recv()
        connection.send(openpi.encode({"actions": ROWS}))
        connection.send("Traceback: the queue broke")
        connection.close(1011)

    with websocket_server(fail_late) as uri:
        actor = OpenpiActor(uri, setting(), mapping=MAPPING, single_vector=False)
        actor.reset(begin(), None)  # type: ignore[arg-type]
        actor.ask(look(), nothing)
        time.sleep(0.1)
        with pytest.raises(PolicyFault, match="the queue broke"):
            actor.ask(look(call_index=1), nothing)
        actor.close()


def test_an_answer_that_nobody_asked_for_is_refused_before_the_next_question_goes_out() -> None:
    asked_for: list[bytes] = []

    def twice(connection: Any) -> None:
        connection.send(openpi.encode({}))
        for frame in connection:
            asked_for.append(frame)
            connection.send(openpi.encode({"actions": ROWS}))
            connection.send(openpi.encode({"actions": 7 * ROWS}))

    with websocket_server(twice) as uri:
        actor = OpenpiActor(uri, setting(), mapping=MAPPING, single_vector=False)
        actor.reset(begin(), None)  # type: ignore[arg-type]
        actor.ask(look(), nothing)
        time.sleep(0.1)
        with pytest.raises(ContractFault) as stale:
            actor.ask(look(call_index=1), nothing)
        assert stale.value.code == "stale_observation"
        actor.reset(begin("f" * 32), None)  # type: ignore[arg-type]
        assert np.array_equal(asked(actor, look(episode="f" * 32)), ROWS)
        actor.close()
    assert len(asked_for) == 2


# -- connections and time -------------------------------------------------------------------------------------------


def test_each_episode_has_a_connection_of_its_own_that_its_end_closes() -> None:
    opened: list[int] = []

    def converse(connection: Any) -> None:
        number = len(opened)
        opened.append(0)
        connection.send(openpi.encode({}))
        for _ in connection:
            opened[number] += 1
            connection.send(openpi.encode({"actions": ROWS}))

    with websocket_server(converse) as uri:
        actor = OpenpiActor(uri, setting(), mapping=MAPPING, single_vector=False)
        for number in range(3):
            episode = f"{number:032x}"
            actor.reset(begin(episode), None)  # type: ignore[arg-type]
            for call in range(2):
                actor.ask(look(episode=episode, call_index=call), nothing)
                actor.acknowledge(END)
            actor.end("terminated")
        actor.reset(begin("d" * 32), None)  # type: ignore[arg-type]
        actor.reset(begin("f" * 32), None)  # type: ignore[arg-type]
        actor.close()
    assert opened == [2, 2, 2, 0, 0]


def test_after_a_timeout_the_late_answer_is_never_read() -> None:
    def late(message: dict[str, Any]) -> dict[str, Any]:
        if message["prompt"] == "slow":
            time.sleep(0.4)
            return {"actions": 7 * ROWS}
        return good(message)

    with actor_for(late, call_timeout_s=0.2) as actor:
        actor.ask(look(), nothing)
        with pytest.raises(PolicyFault) as timeout:
            actor.ask(look(word="slow", call_index=1), nothing)
        assert timeout.value.code == "policy_timeout"
        time.sleep(0.3)
        with pytest.raises(HarnessFault) as gone:
            actor.ask(look(call_index=2), nothing)
        assert gone.value.code == "transport_lost"
        actor.reset(begin("f" * 32), None)  # type: ignore[arg-type]
        assert np.array_equal(asked(actor, look(episode="f" * 32)), ROWS)


# -- who answers ----------------------------------------------------------------------------------------------------


def test_metadata_is_told_as_plain_data_whatever_it_holds() -> None:
    told = {
        "name": "pi\x00", "seed": 2**60,
        "scale": float("inf"), "raw": b"\0\1", "shape": np.array([1, 2]), "flag": np.bool_(True),
        "weights": np.zeros(300), "nested": [{"a": None}],
    }  # fmt: skip
    with openpi_server(good, metadata=told) as uri:
        found = describe_openpi(uri, connect_timeout_s=3.0, max_message_bytes=2**20)
    assert found["name"] == "pi\\x00"
    assert (found["seed"], found["scale"], found["shape"], found["flag"]) == (str(2**60), "inf", [1, 2], True)
    assert found["raw"] == {"bytes": 2, "sha256": plain(b"\0\1")["sha256"]}  # type: ignore[index,call-overload]
    assert found["weights"]["shape"] == [300]  # type: ignore[index,call-overload]
    assert found["nested"] == [{"a": None}]


@pytest.mark.parametrize(
    ("metadata", "kind", "code"),
    [
        ("Traceback: no checkpoint", PolicyFault, "policy_exception"),
        (b"\x01", ContractFault, "wire_malformed"),
        (b"", ContractFault, "wire_malformed"),
        (own.encode({"a": np.zeros(2)}), ContractFault, "wire_dialect_mismatch"),
    ],
)
def test_a_first_frame_that_is_no_metadata_is_refused(
    metadata: bytes | str, kind: type[TrialplateError], code: str
) -> None:
    with openpi_server(good, metadata=metadata) as uri:
        with pytest.raises(kind) as refused:
            describe_openpi(uri, connect_timeout_s=3.0, max_message_bytes=2**20)
        assert refused.value.code == code
        actor = OpenpiActor(uri, setting(), mapping=MAPPING, single_vector=False)
        with pytest.raises(kind):
            actor.reset(begin(), None)  # type: ignore[arg-type]


def test_metadata_that_changes_between_two_episodes_is_another_identity() -> None:
    versions = iter(("1", "1", "2"))

    def converse(connection: Any) -> None:
        connection.send(openpi.encode({"version": next(versions)}))
        for _ in connection:
            connection.send(openpi.encode({"actions": ROWS}))

    with websocket_server(converse) as uri:
        actor = OpenpiActor(uri, setting(), mapping=MAPPING, single_vector=False)
        actor.reset(begin(), None)  # type: ignore[arg-type]
        actor.reset(begin("d" * 32), None)  # type: ignore[arg-type]
        with pytest.raises(ContractFault) as changed:
            actor.reset(begin("f" * 32), None)  # type: ignore[arg-type]
        assert changed.value.code == "identity_changed"


def test_metadata_other_than_the_locked_one_is_refused_at_the_first_connection() -> None:
    locked = Registration(server_metadata_sha256="0" * 64)
    with openpi_server(good) as uri:
        actor = OpenpiActor(uri, setting(registration=locked), mapping=MAPPING, single_vector=False)
        with pytest.raises(ContractFault) as changed:
            actor.reset(begin(), None)  # type: ignore[arg-type]
        assert changed.value.code == "identity_changed"


# -- refused before anything runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mapping", "told"),
    [
        ({}, "empty"),
        ({"image": "camera:back"}, "back"),
        ({"a": "camera:front", "b": "camera:front"}, "two cameras"),
        ({"state": ("proprio:joint_pos", "camera:front")}, "expected"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_without_a_connection(mapping: dict[str, Any], told: str) -> None:
    with pytest.raises(LockError, match=told):
        OpenpiActor("ws://127.0.0.1:1", setting(), mapping=mapping, single_vector=False)


def test_observations_above_the_limit_are_refused_without_a_connection() -> None:
    wide = DECLARED.model_copy(
        update={"expects": ObservationSpec(instruction=False, cameras=(camera("a", 300, 300),))}
    )
    with pytest.raises(ContractFault, match="335536") as refused:
        OpenpiActor(
            "ws://127.0.0.1:1",
            setting(wide, max_message_bytes=200_000),
            mapping={"a": "camera:a"},
            single_vector=False,
        )
    assert refused.value.code == "message_too_large"
