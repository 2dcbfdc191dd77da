"""The service over HTTP: the order of the contract, one answer to each act, and nothing for whoever lacks the key."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic
from typing import Any

import numpy as np
import pytest

from served_run import HELLO, PROTOCOL, REGISTER, TOKEN, ServedRun, decision, setting
from trialplate.policies.messages import parse_ack, parse_hello, parse_observation, parse_spec
from trialplate.policies.wire import own, strict_json

MANAGEMENT = [
    ("POST", "/v1/hello"), ("POST", "/v1/register"), ("POST", "/v1/episodes"),
    ("POST", f"/v1/episodes/{'a' * 32}/close"),
    ("POST", "/v1/abort"), ("GET", "/v1/status"), ("GET", "/v1/results"),
]  # fmt: skip


@pytest.fixture
def run() -> Iterator[ServedRun]:
    with ServedRun() as served:
        yield served


@pytest.fixture(scope="module")
def held() -> Iterator[tuple[ServedRun, str]]:
    """Give a run with an episode in flight, for tests that change nothing, and the id of the episode."""
    with ServedRun() as served, served.client() as driver:
        yield served, served.begin(driver)


def _error(response: Any) -> tuple[int, str]:
    body = response.json()
    assert body["type"] == "error" and body["class"] in ("policy", "protocol", "infrastructure")
    return response.status_code, body["code"]


# -- the order -----------------------------------------------------------------------------------------------------


def test_a_driver_plays_every_planned_episode_to_its_end(run: ServedRun) -> None:
    with run.client() as driver, run.client(token=None) as actor:
        id_ = run.begin(driver)
        ends, acks = [], []
        while id_ is not None:
            base = f"/v1/episodes/{id_}"
            parse_spec(actor.get(f"{base}/spec").json())
            while (shown := actor.get(f"{base}/observe").json())["type"] == "observation":
                acks.append(parse_ack(actor.post(f"{base}/act", json=decision(shown)).raise_for_status().json()))
            ends.append(shown["reason"])
            id_ = driver.post("/v1/episodes").json()["episode"]
        assert ends == ["step_limit", "step_limit"]
        assert [ack.executed for ack in acks] == [2] * 6 and all(ack.accepted for ack in acks)
        assert driver.post("/v1/episodes").json()["reason"] == "complete"
        assert driver.get("/v1/status").json()["state"] == "complete"
        assert driver.get("/v1/results").json()["attempts"][0]["status"] == "FAIL"
    assert run.looks == 6


def test_the_hello_of_the_service_says_every_term(run: ServedRun) -> None:
    with run.client() as driver:
        hello = parse_hello(driver.post("/v1/hello", json=HELLO).json())
    assert hello.role == "service"
    assert hello.observation_spec == run.terms.observation and hello.action_spec == run.terms.action
    assert (hello.replan_interval, hello.limits.max_steps, hello.encodings) == (2, 6, ["json", "msgpack"])


def test_the_smaller_message_limit_wins_and_one_too_small_for_an_observation_is_refused(run: ServedRun) -> None:
    with run.client() as driver:
        small = driver.post("/v1/hello", json={**HELLO, "max_message_bytes": 100_000})
        assert small.json()["max_message_bytes"] == 100_000
        assert _error(driver.post("/v1/hello", json={**HELLO, "max_message_bytes": 1000})) == (
            413,
            "message_too_large",
        )


def test_register_needs_hello_and_an_episode_needs_register(run: ServedRun) -> None:
    with run.client() as driver:
        assert _error(driver.post("/v1/register", json=REGISTER)) == (409, "out_of_order")
        driver.post("/v1/hello", json=HELLO).raise_for_status()
        assert _error(driver.post("/v1/episodes")) == (409, "registration_missing")
        assert driver.get("/v1/status").json()["state"] == "waiting"
    assert run.started == 0


def test_the_locked_identity_is_confirmed_and_another_one_is_exploratory() -> None:
    with ServedRun() as run, run.client() as driver:
        driver.post("/v1/hello", json=HELLO)
        locked = driver.post("/v1/register", json=REGISTER).json()
        assert locked == {
            "protocol": PROTOCOL, "type": "registered", "registration_sha256": run.terms.registration_sha256,
            "exploratory": False,
        }  # fmt: skip
        assert driver.post("/v1/register", json=REGISTER).json() == locked
        other = {**REGISTER, "registration": {"model": {"name": "another"}}}
        assert driver.post("/v1/register", json=other).json()["exploratory"] is True
        assert driver.post("/v1/register", json=REGISTER).json() == locked  # a mistake is corrected in time
        driver.post("/v1/episodes").raise_for_status()
        assert _error(driver.post("/v1/register", json=other)) == (409, "identity_changed")
    with ServedRun() as run, run.client() as driver, run.client(token=None) as actor:
        driver.post("/v1/hello", json=HELLO)
        other = driver.post("/v1/register", json={**REGISTER, "registration": {"model": {"name": "another"}}}).json()
        assert other["exploratory"] is True
        assert run.desk.registered["stub"].model is not None
        id_ = driver.post("/v1/episodes").json()["episode"]
        assert actor.get(f"/v1/episodes/{id_}/observe").json()["registration"] == other["registration_sha256"]


def test_a_policy_that_does_not_fit_is_refused_before_anything_runs(run: ServedRun) -> None:
    spec = run.terms.declared.model_dump(mode="json")
    spec["expects"]["proprio"][0]["unit"] = "deg"
    with run.client() as driver:
        driver.post("/v1/hello", json=HELLO)
        response = driver.post("/v1/register", json={**REGISTER, "policy_spec": spec})
        assert _error(response) == (409, "contract_mismatch")
        assert "joint_pos.unit" in response.json()["message"]
        fits = {**REGISTER, "policy_spec": run.terms.declared.model_dump(mode="json")}
        assert driver.post("/v1/register", json=fits).json()["exploratory"] is False


def test_where_several_arms_are_served_each_is_named_and_registered() -> None:
    with ServedRun(others={"rival": setting("rival")}) as run, run.client() as driver:
        assert _error(driver.post("/v1/hello", json=HELLO)) == (400, "wire_malformed")
        assert _error(driver.post("/v1/hello", json={**HELLO, "arm": "nobody"})) == (400, "wire_malformed")
        for arm in ("stub", "rival"):
            driver.post("/v1/hello", json={**HELLO, "arm": arm}).raise_for_status()
            assert _error(driver.post("/v1/episodes")) == (409, "registration_missing")
            driver.post("/v1/register", json={**REGISTER, "arm": arm}).raise_for_status()
        assert driver.post("/v1/episodes").json()["arm"] == "stub"


def test_a_second_episode_does_not_begin_while_one_is_in_flight_and_status_finds_the_one_that_is(
    run: ServedRun,
) -> None:
    with run.client() as driver:
        id_ = run.begin(driver)
        assert _error(driver.post("/v1/episodes")) == (409, "out_of_order")
        assert driver.get("/v1/status").json()["episode"] == id_


def test_results_are_closed_while_another_episode_may_begin(run: ServedRun) -> None:
    with run.client() as driver:
        run.begin(driver)
        assert _error(driver.get("/v1/results")) == (409, "out_of_order")


# -- one episode ---------------------------------------------------------------------------------------------------


def test_observe_gives_the_same_bytes_each_time_and_takes_no_new_picture(run: ServedRun) -> None:
    with run.client() as driver, run.client(token=None) as actor:
        address = f"/v1/episodes/{run.begin(driver)}/observe"
        first = actor.get(address)
        assert {actor.get(address).content for _ in range(3)} == {first.content}
        packed = actor.get(address, headers={"accept": "application/msgpack"})
        assert packed.headers["content-type"] == "application/msgpack"
        spec = run.terms.observation
        one = parse_observation(strict_json.loads(first.content, max_bytes=2**20), spec)
        other = parse_observation(own.decode(packed.content, max_bytes=2**20), spec)
        assert np.array_equal(one.images["front"], other.images["front"])
        assert one.observation_id == other.observation_id
    assert run.looks == 1


def test_a_camera_that_is_declared_png_comes_as_png_with_the_same_pixels() -> None:
    with (
        ServedRun(setting(encoding="png", height=16)) as run,
        run.client() as driver,
        run.client(token=None) as actor,
    ):
        response = actor.get(f"/v1/episodes/{run.begin(driver)}/observe")
        assert response.json()["images"]["front"]["encoding"] == "png"
        seen = parse_observation(strict_json.loads(response.content, max_bytes=2**20), run.terms.observation)
        assert np.array_equal(
            seen.images["front"], np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8)
        )


def test_an_act_may_come_as_msgpack(run: ServedRun) -> None:
    with run.client() as driver, run.client(token=None) as actor:
        base = f"/v1/episodes/{run.begin(driver)}"
        shown = own.decode(
            actor.get(f"{base}/observe", headers={"accept": "application/msgpack"}).content, max_bytes=2**20
        )
        chosen = decision(shown)
        chosen["chunk"] = {"vectors": np.array([[0.5, 0.5]], dtype=np.float32)}
        headers = {"content-type": "application/msgpack"}
        assert actor.post(f"{base}/act", content=own.encode(chosen), headers=headers).json()["executed"] == 1


def test_a_rejected_action_is_a_200_with_an_ack_that_says_so(run: ServedRun) -> None:
    with run.client() as driver, run.client(token=None) as actor:
        base = f"/v1/episodes/{run.begin(driver)}"
        shown = actor.get(f"{base}/observe").json()
        response = actor.post(f"{base}/act", json=decision(shown, [[0.0, 0.0], [0.0, 2.0]]))
        ack = parse_ack(response.json())
        assert response.status_code == 200
        assert (ack.accepted, ack.executed, ack.next) == (False, 0, "episode_end")
        assert ack.issue is not None and (ack.issue.code, ack.issue.row) == ("invalid_action", 1)
        assert actor.get(f"{base}/observe").json()["reason"] == "error"


def test_under_feedback_the_same_observation_comes_again_with_the_issue() -> None:
    terms = setting(invalid_action_handling="feedback", max_calls=3)
    with ServedRun(terms) as run, run.client() as driver, run.client(token=None) as actor:
        base = f"/v1/episodes/{run.begin(driver)}"
        first = actor.get(f"{base}/observe").json()
        assert actor.post(f"{base}/act", json=decision(first, [[9.0, 9.0]])).json()["next"] == "observation"
        second = actor.get(f"{base}/observe").json()
        assert (second["observation_id"], second["call_index"]) == (first["observation_id"], 1)
        assert second["issue"]["code"] == "invalid_action"
        assert second["images"] == first["images"]
        nonsense = actor.post(f"{base}/act", json={**decision(second), "chunk": None})
        assert _error(nonsense) == (400, "invalid_response_schema")
        third = actor.get(f"{base}/observe").json()
        assert (third["call_index"], third["issue"]["code"]) == (2, "invalid_response_schema")
        assert actor.post(f"{base}/act", json=decision(third)).json()["accepted"] is True


def test_the_same_nonsense_again_uses_up_another_call_and_sent_once_more_at_the_end_none() -> None:
    terms = setting(invalid_action_handling="feedback", max_calls=3)
    with ServedRun(terms) as run, run.client() as driver, run.client(token=None) as actor:
        base = f"/v1/episodes/{run.begin(driver)}"
        for index in range(3):
            assert actor.get(f"{base}/observe").json()["call_index"] == index
            assert _error(actor.post(f"{base}/act", json={})) == (400, "invalid_response_schema")
        assert actor.get(f"{base}/observe").json()["reason"] == "error"
        assert _error(actor.post(f"{base}/act", json={})) == (400, "invalid_response_schema")
    assert (run.looks, run.executed) == (1, [])


def test_a_driver_that_goes_by_the_ack_may_ask_for_the_next_episode_at_once(run: ServedRun) -> None:
    run.ending_s = 0.3
    with run.client() as driver, run.client(token=None) as actor:
        base = f"/v1/episodes/{run.begin(driver)}"
        while True:
            shown = actor.get(f"{base}/observe").json()
            if actor.post(f"{base}/act", json=decision(shown)).json()["next"] == "episode_end":
                break
        assert driver.post("/v1/episodes").status_code == 201


def test_stop_takes_only_a_stop(run: ServedRun) -> None:
    with run.client() as driver, run.client(token=None) as actor:
        base = f"/v1/episodes/{run.begin(driver)}"
        shown = actor.get(f"{base}/observe").json()
        stop = {**decision(shown), "chunk": None, "stop": {"reason": "done"}}
        assert actor.post(f"{base}/stop", json=stop).json()["next"] == "episode_end"
        assert actor.get(f"{base}/observe").json()["reason"] == "policy_stop"
        base = f"/v1/episodes/{driver.post('/v1/episodes').json()['episode']}"
        shown = actor.get(f"{base}/observe").json()
        assert _error(actor.post(f"{base}/stop", json=decision(shown))) == (400, "invalid_response_schema")


def test_the_driver_can_end_an_episode_that_is_in_flight(run: ServedRun) -> None:
    with run.client() as driver, run.client(token=None) as actor:
        id_ = run.begin(driver)
        actor.get(f"/v1/episodes/{id_}/observe")
        assert driver.post(f"/v1/episodes/{id_}/close").json()["reason"] == "aborted"
        assert driver.post(f"/v1/episodes/{id_}/close").json()["reason"] == "aborted"
        assert driver.post("/v1/episodes").status_code == 201
        assert _error(driver.post(f"/v1/episodes/{id_}/close")) == (404, "unknown_episode")
    assert [fault.code for fault in run.faults][:1] == ["interrupted"]


def test_abort_ends_the_attempt_in_flight_and_starts_no_other(run: ServedRun) -> None:
    with run.client() as driver, run.client(token=None) as actor:
        id_ = run.begin(driver)
        actor.get(f"/v1/episodes/{id_}/observe")
        assert driver.post("/v1/abort").json()["state"] == "aborted"
        run.thread.join(20)
        assert driver.post("/v1/episodes").json() == {
            "protocol": PROTOCOL, "type": "episode", "episode": None, "actor": None, "reason": "aborted",
        }  # fmt: skip
    assert (run.started, [fault.code for fault in run.faults]) == (1, ["interrupted"])


def test_a_request_that_waits_when_we_shut_down_hears_it() -> None:
    with ServedRun(executing_s=0.5) as run, run.client() as driver, run.client(token=None) as actor:
        base = f"/v1/episodes/{run.begin(driver)}"
        shown = actor.get(f"{base}/observe").json()
        threading.Timer(0.1, run.table.stop, ["signal"]).start()
        assert _error(actor.post(f"{base}/act", json=decision(shown)))[0] == 503
        assert _error(driver.post("/v1/episodes"))[0] == 503


def test_a_timeout_ends_the_attempt_and_a_late_decision_is_refused() -> None:
    with ServedRun(setting(first_call_timeout_s=0.2)) as run, run.client() as driver, run.client(token=None) as actor:
        base = f"/v1/episodes/{run.begin(driver)}"
        shown = actor.get(f"{base}/observe").json()
        ends_s = monotonic() + 20
        while not run.faults and monotonic() < ends_s:
            threading.Event().wait(0.01)
        assert _error(actor.post(f"{base}/act", json=decision(shown))) == (409, "out_of_order")
        assert actor.get(f"{base}/observe").json()["reason"] == "error"
    assert ([fault.code for fault in run.faults], run.executed) == (["policy_timeout"], [])


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"observation_id": "0" * 32}, (409, "stale_observation")),
        ({"registration": "0" * 64}, (409, "identity_changed")),
        ({"call_index": 5}, (409, "out_of_order")),
        ({"episode": "0" * 32}, (409, "out_of_order")),
        ({"protocol": "trialplate.policy/2"}, (400, "version_mismatch")),
        ({"surprise": 1}, (400, "invalid_response_schema")),
        ({"stop": {"reason": None}}, (400, "invalid_response_schema")),
        ({"usage": 0}, (400, "invalid_response_schema")),
        ({"type": "observation"}, (400, "invalid_response_schema")),
    ],
)
def test_a_wrong_decision_executes_nothing_and_ends_the_attempt(
    run: ServedRun, changed: dict[str, Any], expected: tuple[int, str]
) -> None:
    with run.client() as driver, run.client(token=None) as actor:
        base = f"/v1/episodes/{run.begin(driver)}"
        shown = actor.get(f"{base}/observe").json()
        assert _error(actor.post(f"{base}/act", json=decision(shown, **changed))) == expected
        assert actor.get(f"{base}/observe").json()["reason"] == "error"
    assert ([fault.code for fault in run.faults], run.executed) == ([expected[1]], [])


# -- keys ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), MANAGEMENT)
def test_management_needs_the_token_before_anything_else_is_looked_at(
    held: tuple[ServedRun, str], method: str, path: str
) -> None:
    with held[0].client(token=None) as stranger:
        for headers in ({}, {"authorization": "Bearer " + "0" * 64}, {"authorization": TOKEN}, {"cookie": TOKEN}):
            response = stranger.request(method, path, headers=headers, content=b"not json")
            assert _error(response) == (401, "unauthorized")


def test_a_token_in_the_address_opens_nothing(run: ServedRun) -> None:
    with run.client(token=None) as stranger, run.client() as driver:
        for query in (f"?token={TOKEN}", f"?access_token={TOKEN}", "?"):
            assert _error(stranger.get(f"/v1/status{query}"))[0] == 401
        assert _error(driver.get(f"/v1/status?token={TOKEN}")) == (401, "unauthorized")
        id_ = run.begin(driver)
        assert _error(stranger.get(f"/v1/episodes/{id_}/observe?token={TOKEN}")) == (401, "unauthorized")


def test_no_actor_route_refuses_the_token(run: ServedRun) -> None:
    with run.client() as driver:
        base = f"/v1/episodes/{run.begin(driver)}"
        assert driver.get(f"{base}/spec").status_code == 200
        shown = driver.get(f"{base}/observe").json()
        assert driver.post(f"{base}/act", json=decision(shown)).status_code == 200


def test_unknown_foreign_and_past_ids_cannot_be_told_apart(run: ServedRun) -> None:
    with run.client() as driver, run.client(token=None) as stranger:
        past = run.begin(driver)
        driver.post(f"/v1/episodes/{past}/close")
        present = driver.post("/v1/episodes").json()["episode"]
        assert present != past
        answers = set()
        for id_ in (past, "0" * 32, "x", present[:-1], present.upper(), "0000000000000000000000000000000é"):
            for method, door in (("GET", "observe"), ("GET", "spec"), ("POST", "act"), ("POST", "stop")):
                response = stranger.request(method, f"/v1/episodes/{id_}/{door}")
                answers.add((response.status_code, response.content, tuple(sorted(response.headers.items()))))
        assert {status for status, _, _ in answers} == {404}
        assert len(answers) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/", "/v1", "/v1/episodes/", "/v1/episodes/../results", "/v1/episodes/%2e%2e/results", "//healthz",
        "/V1/status",
        "/v1/episodes/{id}/", "/v1/episodes/{id}/observe/", "/v1/episodes/{id}%2fobserve",
        "/v1/episodes/{id}/observe%00",
        "/v1/episodes/{id}/../../status", "/docs", "/openapi.json", "/v1/episodes/{id}", "/v1/episodes//observe",
    ],
)  # fmt: skip
def test_no_way_of_writing_an_address_reaches_what_has_another(held: tuple[ServedRun, str], path: str) -> None:
    run, id_ = held
    answer = _raw(run, f"GET {path.replace('{id}', id_)} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), answer[:200]
    assert b"location" not in answer.lower()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_other_verbs_find_nothing(held: tuple[ServedRun, str], method: str) -> None:
    run, id_ = held
    with run.client() as driver:
        for path in ("/healthz", "/v1/status", f"/v1/episodes/{id_}/observe", f"/v1/episodes/{id_}/act"):
            response = driver.request(method, path)
            assert _error(response) == (404, "unknown_episode")
            assert "allow" not in response.headers


def test_nothing_that_an_actor_hears_names_benchmark_machine_day_or_software(run: ServedRun) -> None:
    with run.client() as driver, run.client(token=None) as actor:
        base = f"/v1/episodes/{run.begin(driver)}"
        shown = actor.get(f"{base}/observe")
        heard = [
            shown, actor.get(f"{base}/spec"), actor.post(f"{base}/act", json=decision(shown.json())),
            actor.post(f"{base}/act", content=b"{"), actor.get(f"{base}/observe"), actor.get("/v1/results"),
            actor.get("/nowhere"), actor.post(f"{base}/act", content=b"\x00" * 2**20), actor.get("/healthz"),
        ]  # fmt: skip
    text = "\n".join(f"{response.headers} {response.text}" for response in heard).lower()
    for word in (
        "secret",
        'seed": 0',
        "uvicorn",
        "starlette",
        "python",
        "toy",
        "stub",
        "traceback",
        "/src/",
        "score",
    ):
        assert word not in text, word
    assert not any(name in response.headers for response in heard for name in ("date", "server"))


# -- bodies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"\xff\xfe", b"[" * 90_000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"null", b'"text"', b"[]",
        b"1e999",
        b'{"protocol": NaN}', b'{"a": 1, "a": 2}', b'{"a": 9007199254740993000}',
    ],
)  # fmt: skip
def test_a_body_that_cannot_be_read_is_a_400(run: ServedRun, body: bytes) -> None:
    with run.client() as driver, run.client(token=None) as actor:
        status, code = _error(driver.post("/v1/hello", content=body))
        assert (status, code) == (400, "wire_malformed")
        base = f"/v1/episodes/{run.begin(driver)}"
        actor.get(f"{base}/observe")
        status, code = _error(actor.post(f"{base}/act", content=body))
        assert status == 400 and code in ("wire_malformed", "invalid_response_schema")


@pytest.mark.parametrize("form", ["declared", "chunked"])
def test_a_body_above_the_limit_is_a_413_however_it_comes(run: ServedRun, form: str) -> None:
    size = run.desk.decision_bytes + 1
    with run.client() as driver, run.client(token=None) as actor:
        base = f"/v1/episodes/{run.begin(driver)}"
        actor.get(f"{base}/observe")
        content: Any = b" " * size if form == "declared" else iter([b" " * 65_536] * (size // 65_536 + 1))
        assert _error(actor.post(f"{base}/act", content=content)) == (413, "message_too_large")
        assert _error(driver.post("/v1/register", content=b" " * 300_000)) == (413, "message_too_large")
    assert [fault.code for fault in run.faults][:1] == ["message_too_large"]


def test_a_body_that_breaks_off_is_no_answer(run: ServedRun) -> None:
    with run.client() as driver, run.client(token=None) as actor:
        base = f"/v1/episodes/{run.begin(driver)}"
        shown = actor.get(f"{base}/observe").json()
        body = json.dumps(decision(shown)).encode()
        head = f"POST {base}/act HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        with socket.create_connection(_at(run)) as half:
            half.sendall(head + body[: len(body) // 2])
        assert actor.post(f"{base}/act", content=body).json()["accepted"] is True


def test_a_body_that_is_an_error_is_the_policys_own_failure(run: ServedRun) -> None:
    message = {
        "protocol": PROTOCOL,
        "type": "error",
        "code": "simulator_crash",
        "class": "infrastructure",
        "message": "x",
    }
    with run.client() as driver, run.client(token=None) as actor:
        base = f"/v1/episodes/{run.begin(driver)}"
        actor.get(f"{base}/observe")
        assert _error(actor.post(f"{base}/act", json=message)) == (400, "policy_exception")
    assert [fault.code for fault in run.faults][:1] == ["policy_exception"]


# -- others at the same time ---------------------------------------------------------------------------------------


def test_two_decisions_at_once_execute_one(run: ServedRun) -> None:
    run.executing_s = 0.2
    with run.client() as driver, run.client(token=None) as actor:
        base = f"/v1/episodes/{run.begin(driver)}"
        shown = actor.get(f"{base}/observe").json()
        same, other = decision(shown), decision(shown, [[0.1, 0.1]])
        answers: dict[str, list[Any]] = {"same": [], "other": []}

        def send(name: str, body: dict[str, Any]) -> None:
            with run.client(token=None) as client:
                answers[name].append(client.post(f"{base}/act", json=body))

        first = threading.Thread(target=send, args=("same", same))
        first.start()
        threading.Event().wait(0.08)
        rest = [threading.Thread(target=send, args=args) for args in [("same", same)] * 3 + [("other", other)] * 3]
        for thread in [*rest]:
            thread.start()
        for thread in [first, *rest]:
            thread.join(20)
        assert {response.content for response in answers["same"]} == {answers["same"][0].content}
        assert all(response.json()["accepted"] for response in answers["same"])
        assert {_error(response) for response in answers["other"]} == {(409, "out_of_order")}
    assert run.executed == [2]


def _at(run: ServedRun) -> tuple[str, int]:
    host, _, port = run.address.removeprefix("http://").rpartition(":")
    return host, int(port)


def _raw(run: ServedRun, request: bytes, *, wait_s: float = 5.0) -> bytes:
    """Send bytes and return whatever comes back until the service closes or ``wait_s`` is over."""
    deadline_s = monotonic() + wait_s
    answer = b""
    with socket.create_connection(_at(run), timeout=wait_s) as raw, suppress(OSError):
        raw.sendall(request)
        while monotonic() < deadline_s and (data := raw.recv(65_536)):
            answer += data
    return answer
