"""Messages come back as they were sent, and every mistake is charged to the side that made it."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_messages import (
    ACTION,
    BUDGETS,
    EPISODE,
    IDENTITY,
    INFO,
    ISSUE,
    LOOK,
    PEOPLE,
    POLICY,
    SPEC,
    TERMS,
    bare_observation,
    observation,
)

from trialplate.errors import (
    CONTRACT_FAULTS,
    HARNESS_FAULTS,
    POLICY_FAULTS,
    ContractFault,
    HarnessFault,
    PolicyFault,
)
from trialplate.policies import messages as m
from trialplate.policies.validation import validate_chunk
from trialplate.policies.wire import openpi, own, strict_json
from trialplate.record import Ack, ActionChunk, Issue, Observation, PolicyDecision, Stop, Usage

LIMIT = 2**26
WIRES = [(own.encode, own.decode), (openpi.encode, openpi.decode), (strict_json.dumps, strict_json.loads)]
BARE = SPEC.model_copy(update={"cameras": (), "proprio": (), "history": None, "meta": (), "instruction": False})


def over(write: Any, read: Any, message: dict[str, Any]) -> Any:
    return read(write(message), max_bytes=LIMIT)


def decision(**changes: Any) -> dict[str, Any]:
    """Return a valid decision to ``observation()`` with members changed; ``...`` takes one away."""
    message = {
        "protocol": m.PROTOCOL, "type": "decision", "episode": EPISODE, "call_index": 3, "observation_id": LOOK,
        "registration": IDENTITY, "chunk": {"vectors": [[0.0] * 7]}, "usage": None, "usage_reason": "not_metered",
        "latency_ms": None, "latency_ms_reason": "not_metered",
    }  # fmt: skip
    changed = {**message, **changes}
    return {key: value for key, value in changed.items() if value is not ...}


def fault(message: Any, **changes: Any) -> PolicyFault | ContractFault:
    with pytest.raises((PolicyFault, ContractFault)) as raised:
        m.parse_decision(message, expected=observation(**changes))
    found: PolicyFault | ContractFault = raised.value
    assert len(found.message.encode()) <= 512
    return found


# -- decisions -----------------------------------------------------------------------------------------------------


def test_the_minimal_decision_of_the_contract_is_read() -> None:
    found = m.parse_decision(decision(), expected=observation())
    assert found == PolicyDecision(ActionChunk([[0.0] * 7]), echo="policy")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"protocol": "trialplate.policy/2"}, "version_mismatch"),
        ({"episode": "0" * 32}, "out_of_order"),
        ({"call_index": 2}, "out_of_order"),
        ({"call_index": 4}, "out_of_order"),
        ({"observation_id": "1" * 32}, "stale_observation"),
        ({"registration": "0" * 64}, "identity_changed"),
        ({"episode": "0" * 32, "observation_id": "1" * 32, "registration": "0" * 64}, "out_of_order"),
        ({"observation_id": "1" * 32, "registration": "0" * 64}, "stale_observation"),
    ],
)
def test_row_22_a_decision_that_answers_something_else_is_on_no_policys_account(
    changes: dict[str, Any], code: str
) -> None:
    found = fault(decision(**changes))
    assert isinstance(found, ContractFault)
    assert found.code == code


@pytest.mark.parametrize(
    "message",
    [
        {}, [], None, "stop", 3, decision(type="observation"), decision(type=...), decision(protocol=...),
        decision(chunk=...), decision(chunk=None), decision(stop={"reason": None}), decision(surplus=1),
        decision(chunk={}), decision(chunk={"vectors": None}), decision(chunk={"vectors": "[[0]]"}),
        decision(chunk={"vectors": 1.0}), decision(chunk={"action": [[0.0] * 7]}), decision(chunk=[[0.0] * 7]),
        decision(chunk={"vectors": [[0.0] * 7], "dt": 0.05}), decision(chunk=..., stop={}),
        decision(chunk=..., stop={"reason": 3}), decision(chunk=..., stop="done"), decision(call_index=True),
        decision(call_index=3.0), decision(call_index="3"), decision(call_index=-1),
        decision(episode=EPISODE.upper()),
        decision(episode=EPISODE + "\n"), decision(episode=None), decision(registration=IDENTITY[:-1]),
        decision(usage=...), decision(usage_reason=...), decision(usage_reason="because"), decision(latency_ms=...),
        decision(latency_ms=-1.0, latency_ms_reason=None), decision(latency_ms=float("nan"), latency_ms_reason=None),
        decision(latency_ms=1e300, latency_ms_reason=None), decision(latency_ms=1e9 + 1, latency_ms_reason=None),
        decision(latency_ms=1.0), decision(latency_ms=True, latency_ms_reason=None), decision(usage={}),
        decision(usage={"requests": 1}, usage_reason=None), decision(batch_size=0),
        decision(chunk=..., stop={"reason": "a\x00b"}),
    ],
    ids=lambda message: json.dumps(message, default=str)[-60:],
)  # fmt: skip
def test_row_16_a_map_that_is_no_valid_decision_is_the_policys_doing(message: Any) -> None:
    found = fault(message)
    assert isinstance(found, PolicyFault)
    assert found.code == "invalid_response_schema"


def test_types_are_checked_before_the_echo_and_the_echo_before_exactly_one() -> None:
    assert fault(decision(observation_id="1" * 32, surplus=1)).code == "invalid_response_schema"
    assert fault(decision(observation_id="1" * 32, chunk=None)).code == "stale_observation"


@pytest.mark.parametrize(
    ("vectors", "code"),
    [
        ([[0.0] * 8], "invalid_action"),
        (np.zeros((0, 7)), "invalid_action"),
        ([], "invalid_action"),
        ([[0.0] * 7, [0.0] * 6], "invalid_action"),
        (np.zeros((1, 7), np.int64), "invalid_action"),
        ([[True] + [0.0] * 6], "invalid_action"),
        ([["nan"] + [0.0] * 6], "invalid_action"),
        ([[None] + [0.0] * 6], "invalid_action"),
        (np.full((1, 7), np.nan), "invalid_action"),
    ],
    ids=["8-vector", "(0, 7)", "no rows", "ragged", "integers", "bool", "text", "null", "NaN"],
)
def test_row_16_what_is_wrong_with_a_row_is_left_to_the_check_of_actions_and_is_the_policys_doing(
    vectors: Any, code: str
) -> None:
    sent = over(own.encode, own.decode, decision(chunk={"vectors": vectors}))
    found = m.parse_decision(sent, expected=observation()).decision
    assert isinstance(found, ActionChunk)
    with pytest.raises(PolicyFault) as refused:
        validate_chunk(found.vectors, ACTION, max_rows=256)
    assert refused.value.code == code


@pytest.mark.parametrize(("write", "read"), WIRES, ids=["own", "openpi", "json"])
@pytest.mark.parametrize(
    "sent",
    [
        PolicyDecision(ActionChunk(np.array([[0.1, -0.05, 5e-324, 0.0, 0.0, -0.0, 1.0]]))),
        PolicyDecision(ActionChunk(np.array([[0.05] * 7], np.float32))),
        PolicyDecision(ActionChunk([[0.1] * 7, [0, 0, 0, 0, 0, 0, 1]]), usage=Usage(1, 2, 3, 0.25), latency_ms=1.5),
        PolicyDecision(ActionChunk(((0.1,) * 7,)), usage=Usage(None, 0, None, None), latency_ms=0),
        PolicyDecision(Stop("fertig – ✓"), usage_reason="withheld", batch_size=3),
        PolicyDecision(Stop()),
    ],
)
def test_a_decision_comes_back_from_every_encoding_to_the_same_bits(
    write: Any, read: Any, sent: PolicyDecision
) -> None:
    message = over(write, read, m.decision_message(sent, observation()))
    found = m.parse_decision(message, expected=observation())
    if isinstance(sent.decision, ActionChunk):
        before, after = np.asarray(sent.decision.vectors), np.asarray(found.decision.vectors)  # type: ignore[union-attr]
        assert (after.dtype, after.tobytes()) == (before.dtype, before.tobytes())
    else:
        assert found.decision == sent.decision
    assert dataclasses.replace(found, decision=sent.decision) == dataclasses.replace(sent, echo="policy")


@pytest.mark.parametrize(
    ("vectors", "code"),
    [
        (np.zeros((1, 7), object), "invalid_action"),
        (np.zeros((1, 7), np.float16), "invalid_action"),
        (np.zeros((1, 7), complex), "invalid_action"),
        ([[np.float32(0.5)] * 7], "invalid_action"),
        ([[1j] * 7], "invalid_action"),
        ([object()], "invalid_action"),
        ("rows", "invalid_response_schema"),
        (None, "invalid_response_schema"),
        (iter([[0.0] * 7]), "invalid_response_schema"),
    ],
    ids=[
        "objects",
        "float16",
        "complex",
        "float32 in a list",
        "complex in a list",
        "row",
        "text",
        "None",
        "iterator",
    ],
)
def test_rows_that_no_message_can_hold_are_refused_as_they_are_in_one_process(vectors: Any, code: str) -> None:
    with pytest.raises(PolicyFault) as refused:
        m.decision_message(PolicyDecision(ActionChunk(vectors)), observation())
    assert refused.value.code == code
    with pytest.raises(PolicyFault) as in_process:
        validate_chunk(vectors, ACTION, max_rows=256)
    assert in_process.value.code == code


def test_the_rows_of_a_decision_are_those_that_were_there_when_it_was_written() -> None:
    rows = np.zeros((1, 7))
    message = m.decision_message(PolicyDecision(ActionChunk(rows)), observation())
    rows[:] = 1.0
    assert message["chunk"]["vectors"].tolist() == [[0.0] * 7]


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", POLICY_FAULTS + CONTRACT_FAULTS + HARNESS_FAULTS)
def test_an_error_of_the_service_is_the_fault_that_it_names(code: str) -> None:
    found = m.fault_of(m.error_message(code, "what happened"), sender="service")
    kind = PolicyFault if code in POLICY_FAULTS else ContractFault if code in CONTRACT_FAULTS else HarnessFault
    assert (type(found), found.code) == (kind, code)
    assert "what happened" in found.message


@pytest.mark.parametrize("code", HARNESS_FAULTS)
def test_a_policy_cannot_put_its_failure_on_the_harness(code: str) -> None:
    found = m.fault_of(m.error_message(code, "the simulator crashed, not me"))
    assert (type(found), found.code) == (PolicyFault, "policy_exception")


def test_an_error_in_place_of_a_decision_is_raised() -> None:
    assert fault(m.error_message("policy_exception", "no weights")).code == "policy_exception"
    assert fault({**m.error_message("policy_exception", "x"), "class": "nobody"}).code == "wire_malformed"
    assert fault({**m.error_message("policy_exception", "x"), "code": "bad_luck"}).code == "wire_malformed"


def test_an_error_of_an_unknown_code_is_never_written() -> None:
    with pytest.raises(KeyError):
        m.error_message("bad_luck", "x")


def test_every_code_has_a_class_and_a_status() -> None:
    assert m.CLASS_OF.keys() == m.HTTP_STATUS.keys()
    assert {m.HTTP_STATUS[code] for code in HARNESS_FAULTS} == {503}
    assert m.HTTP_STATUS["registration_missing"] == m.HTTP_STATUS["out_of_order"] == 409


@given(st.text(max_size=700))
def test_the_text_of_an_error_is_at_most_512_bytes_and_can_be_stored(text: str) -> None:
    message = m.error_message("policy_exception", text)["message"]
    assert len(message.encode()) <= 512
    assert "\x00" not in message


awkward = st.text(st.sampled_from('aé✓"\\\n\x00\ud800'), max_size=600)


@given(st.one_of(st.none(), awkward), st.one_of(st.none(), awkward), st.integers(0, 65535))
def test_row_8_an_issue_is_at_most_512_bytes_and_names_its_row(
    rule: str | None, component: str | None, row: int
) -> None:
    message = m.ack_message(
        Ack(EPISODE, 0, False, 5, 0, 0, 0, Issue("invalid_action", row, component, rule), "observation")
    )
    assert len(json.dumps(message["issue"], ensure_ascii=False, separators=(",", ":")).encode()) <= 512
    found = m.parse_ack(over(own.encode, own.decode, message)).issue
    assert found is not None
    assert (found.code, found.row) == ("invalid_action", row)
    assert (found.rule is None, found.component is None) == (rule is None, component is None)


# -- observations --------------------------------------------------------------------------------------------------


def assert_same(found: Observation, sent: Observation) -> None:
    for field in dataclasses.fields(Observation):
        if field.name not in ("images", "proprio", "history"):
            assert getattr(found, field.name) == getattr(sent, field.name), field.name
    for name, pixels in sent.images.items():
        assert found.images[name].dtype == np.uint8
        assert np.array_equal(found.images[name], pixels)
    assert {name: values.tobytes() for name, values in found.proprio.items()} == {
        name: values.tobytes() for name, values in sent.proprio.items()
    }
    assert (found.history is None) == (sent.history is None)
    if sent.history is not None and found.history is not None:
        for name, looks in sent.history.images.items():
            for before, after in zip(looks, found.history.images[name], strict=True):
                assert np.array_equal(before, after) if before is not None else after is None
        for before, after in zip(sent.history.actions, found.history.actions, strict=True):
            assert np.array_equal(before, after) if before is not None else after is None


@pytest.mark.parametrize(("write", "read"), WIRES, ids=["own", "openpi", "json"])
@pytest.mark.parametrize("png", [SPEC, None], ids=["as the spec says", "raw"])
@pytest.mark.parametrize(("issue", "calls"), [(None, None), (ISSUE, 4)], ids=["plain", "with an issue"])
def test_an_observation_comes_back_from_every_encoding_to_the_same_bits(
    write: Any, read: Any, png: Any, issue: Issue | None, calls: int | None
) -> None:
    sent = observation(issue=issue, calls=calls)
    found = m.parse_observation(over(write, read, m.observation_message(sent, spec=png)), SPEC)
    assert_same(found, sent)


def test_a_bare_observation_comes_back() -> None:
    sent = bare_observation()
    assert_same(m.parse_observation(over(own.encode, own.decode, m.observation_message(sent)), BARE), sent)


def test_pictures_may_come_as_nested_lists() -> None:
    message = m.observation_message(observation())
    message["images"] = {name: pixels.tolist() for name, pixels in message["images"].items()}
    assert_same(m.parse_observation(over(strict_json.dumps, strict_json.loads, message), SPEC), observation())


@pytest.mark.parametrize(
    "pixels",
    [
        [[[0, 0, 256]] * 4] * 2, [[[0, 0, -1]] * 4] * 2, [[[0, 0, 1.0]] * 4] * 2, [[[0, 0, True]] * 4] * 2,
        [[[0] * 3] * 3] * 2, [[[0] * 4] * 3] * 2, [[0] * 12] * 2, [0] * 24, [], [[], []], [[[0] * 6, []]] * 2 * 2,
        np.zeros((2, 4, 3), np.float32), np.zeros((4, 2, 3), np.uint8), np.zeros((2, 4), np.uint8), None, "x", {},
    ],
    ids=repr,
)  # fmt: skip
def test_a_picture_that_is_not_what_was_agreed_is_refused(pixels: Any) -> None:
    message = m.observation_message(observation())
    message["images"]["front"] = pixels
    with pytest.raises(ContractFault) as refused:
        m.parse_observation(message, SPEC)
    assert refused.value.code in ("contract_mismatch", "wire_malformed")


@pytest.mark.parametrize(
    "change",
    [
        {"images": {}}, {"proprio": {}}, {"proprio": {"q": [0.0] * 4}}, {"proprio": {"q": [0.0] * 3, "r": []}},
        {"instruction": None}, {"history": None}, {"meta": {}}, {"history": {"images": {}, "actions": [None] * 2}},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_row_5_channels_that_were_not_agreed_are_refused_and_nothing_is_filled_in(change: dict[str, Any]) -> None:
    with pytest.raises(ContractFault) as refused:
        m.parse_observation({**m.observation_message(observation()), **change}, SPEC)
    assert refused.value.code == "contract_mismatch"


@pytest.mark.parametrize(
    "change",
    [
        {"surplus": 1}, {"call_index": -1}, {"proprio": {"q": [float("nan"), 0.0, 0.0]}}, {"remaining": {"steps": 3}},
        {"remaining": {"steps": 3, "calls": None}},
        {"remaining": {"steps": 3, "calls": 4, "calls_reason": "unlimited"}},
        {"proprio": {"q": ["0", 0.0, 0.0]}}, {"type": "ack"}, {"issue": "bad"},
    ],
    ids=repr,
)  # fmt: skip
def test_an_observation_that_cannot_be_read_is_on_no_policys_account(change: dict[str, Any]) -> None:
    with pytest.raises(ContractFault) as refused:
        m.parse_observation({**m.observation_message(observation()), **change}, SPEC)
    assert refused.value.code == "wire_malformed"


def test_an_observation_of_24_large_cameras_fits_and_of_25_is_refused_with_both_sizes() -> None:
    def spec(count: int) -> Any:
        return SimpleNamespace(size_bytes=count * 720 * 1280 * 3)

    assert m.needed_bytes(spec(3)) == 8294400 + 65536
    assert m.agreed_bytes(67108864, 2**27, spec=spec(24)) == 67108864
    with pytest.raises(ContractFault, match=r"69185536.*67108864") as refused:
        m.agreed_bytes(2**27, 67108864, spec=spec(25))
    assert refused.value.code == "message_too_large"


# -- the rest of an episode ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("write", "read"), WIRES, ids=["own", "openpi", "json"])
def test_acks_ends_and_resets_come_back(write: Any, read: Any) -> None:
    ack = Ack(EPISODE, 3, False, 5, 2, 0, 0, ISSUE, "observation")
    assert m.parse_ack(over(write, read, m.ack_message(ack))) == ack
    assert m.parse_reset(over(write, read, m.reset_message(INFO))) == INFO
    assert m.parse_episode_end(over(write, read, m.episode_end_message(EPISODE, "error"))) == (EPISODE, "error")


def test_ready_for_another_episode_is_out_of_order_and_an_error_in_its_place_is_raised() -> None:
    m.parse_ready(m.ready_message(EPISODE), episode=EPISODE)
    with pytest.raises(ContractFault) as refused:
        m.parse_ready(m.ready_message(EPISODE), episode="0" * 32)
    assert refused.value.code == "out_of_order"
    with pytest.raises(PolicyFault):
        m.parse_ready(m.error_message("policy_exception", "no"), episode=EPISODE)


def test_the_number_of_a_request_may_stand_in_every_message() -> None:
    assert m.parse_reset({**m.reset_message(INFO), "id": 4}) == INFO
    assert m.parse_decision(decision(id=4), expected=observation()).echo == "policy"
    assert fault(decision(id="4")).code == "invalid_response_schema"


# -- handshake -----------------------------------------------------------------------------------------------------


def test_hellos_come_back_with_their_specs() -> None:
    policy = m.parse_hello(m.policy_hello_message(POLICY, PEOPLE, encodings=["msgpack"], max_message_bytes=2**20))
    assert (policy.role, policy.max_message_bytes) == ("policy", 2**20)
    assert (policy.policy_spec, policy.registration) == (POLICY, PEOPLE)  # type: ignore[union-attr]
    service = m.parse_hello(m.service_hello_message(TERMS, encodings=["json"], max_message_bytes=2**20))
    assert (service.observation_spec, service.action_spec) == (SPEC, ACTION)  # type: ignore[union-attr]
    driver = m.parse_hello(m.driver_hello_message(encodings=["json", "msgpack"], max_message_bytes=2**20))
    assert (driver.role, driver.encodings) == ("driver", ["json", "msgpack"])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"protocol": "trialplate.policy/2"}, "version_mismatch"),
        ({"protocol": "openpi"}, "version_mismatch"),
        ({"protocol": None}, "wire_malformed"),
        ({"role": "scorer"}, "wire_malformed"),
        ({"type": "observation"}, "wire_malformed"),
        ({"surplus": 1}, "wire_malformed"),
        ({"max_message_bytes": True}, "wire_malformed"),
        ({"max_message_bytes": 0}, "wire_malformed"),
        ({"encodings": ["pickle"]}, "wire_malformed"),
        ({"encodings": []}, "wire_malformed"),
        ({"action_spec_sha256": "0" * 64}, "spec_hash_mismatch"),
        ({"observation_spec_sha256": "0" * 64}, "spec_hash_mismatch"),
        ({"observation_spec": np.zeros(2)}, "wire_malformed"),
    ],
    ids=repr,
)
def test_a_hello_that_does_not_keep_the_contract_is_refused(change: dict[str, Any], code: str) -> None:
    hello = m.service_hello_message(TERMS, encodings=["json"], max_message_bytes=2**20)
    with pytest.raises(ContractFault) as refused:
        m.parse_hello({**hello, **change})
    assert refused.value.code == code


def test_what_an_episode_promises_is_what_a_policy_is_told_at_reset() -> None:
    spec = m.parse_spec(m.spec_message(INFO, IDENTITY, terms=TERMS))
    assert m.info_of(spec) == INFO
    assert (spec.limits.max_calls, spec.limits.max_calls_reason) == (None, "unlimited")
    assert spec.limits.call_timeout_s == BUDGETS.call_timeout_s


def test_a_registration_comes_back_with_the_same_digest() -> None:
    found = m.parse_register(over(strict_json.dumps, strict_json.loads, m.register_message(PEOPLE, POLICY)))
    assert found.registration.sha256() == PEOPLE.sha256()
    assert found.policy_spec == POLICY
    assert m.parse_registered(m.registered_message(IDENTITY, exploratory=False)).registration_sha256 == IDENTITY


def test_an_episode_is_there_with_its_address_or_absent_with_its_reason() -> None:
    assert m.parse_episode(m.episode_message(EPISODE)).actor == f"/v1/episodes/{EPISODE}"
    assert m.parse_episode(m.no_episode_message("complete")).episode is None
    for wrong in ({"reason": "complete"}, {"episode": None}, {"actor": None}):
        with pytest.raises(ContractFault):
            m.parse_episode({**m.episode_message(EPISODE), **wrong})


def test_requests_without_a_body_are_read_by_name() -> None:
    assert m.parse_request({**m.request_message("observe"), "id": 1}).type == "observe"
    assert m.parse_request(m.close_message(EPISODE)).type == "close"
    with pytest.raises(ContractFault):
        m.parse_request({"protocol": m.PROTOCOL, "type": "reset"})
