"""Whoever holds the id of an episode can harm that episode, and nothing else: neither the run nor the next one."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from served_run import HELLO, REGISTER, ServedRun, decision
from trialplate.errors import PolicyFault
from trialplate.policies.in_process import in_process_decision
from trialplate.policies.wire import own
from trialplate.record import ActionChunk, PolicyDecision, Usage

MSGPACK = {"content-type": "application/msgpack"}
ARRAYS = [np.array([1.0, 2.0]), np.array([]), np.array(0.0), np.array([[True], [False]])]
MEMBERS = [
    "protocol",
    "type",
    "episode",
    "call_index",
    "observation_id",
    "registration",
    "stop",
    "usage",
    "latency_ms",
]
METERED = {"requests": 1, "input_tokens": 2, "output_tokens": 3, "cost": 0.5}


@pytest.fixture
def run() -> Iterator[ServedRun]:
    with ServedRun(episodes=100) as served:
        yield served


@pytest.fixture
def driver(run: ServedRun) -> Iterator[httpx.Client]:
    with run.client() as client:
        client.post("/v1/hello", json=HELLO).raise_for_status()
        client.post("/v1/register", json=REGISTER).raise_for_status()
        yield client


def _begin(driver: httpx.Client) -> tuple[str, dict[str, Any]]:
    """Start an episode; return its address and the first observation."""
    base = str(driver.post("/v1/episodes").raise_for_status().json()["actor"])
    return base, driver.get(f"{base}/observe").json()


def _plays(driver: httpx.Client) -> bool:
    """Return whether the next episode is played to its end like any other."""
    base, seen = _begin(driver)
    while seen["type"] == "observation":
        if not driver.post(f"{base}/act", json=decision(seen)).json()["accepted"]:
            return False
        seen = driver.get(f"{base}/observe").json()
    return str(seen["reason"]) == "step_limit"


def _as_json(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    data = base64.b64encode(array.tobytes()).decode()
    return {"encoding": "raw", "dtype": array.dtype.str, "shape": list(array.shape), "data_b64": data}


# -- messages that lie -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_an_array_in_place_of_something_else_is_charged_to_the_policy_and_the_run_goes_on(
    run: ServedRun, driver: httpx.Client, member: str, encoding: str
) -> None:
    for array in ARRAYS:
        base, seen = _begin(driver)
        sent: dict[str, Any]
        if encoding == "json":
            sent = {"json": decision(seen, **{member: _as_json(array)})}
        else:
            sent = {"content": own.encode(decision(seen, **{member: array})), "headers": MSGPACK}
        answer = driver.post(f"{base}/act", **sent)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_response_schema")
        assert driver.get(f"{base}/observe").json()["reason"] == "error"
    assert [fault.code for fault in run.faults] == ["invalid_response_schema"] * len(ARRAYS)
    assert run.executed == [] and _plays(driver)


@pytest.mark.parametrize("member", ["role", "arm", "type", "protocol", "registration", "policy_spec"])
def test_an_array_in_a_drivers_message_is_refused(driver: httpx.Client, member: str) -> None:
    for array in ARRAYS:
        for path, message in (("/v1/hello", HELLO), ("/v1/register", REGISTER)):
            answer = driver.post(path, json={**message, member: _as_json(array)})
            assert (answer.status_code, answer.json()["code"]) == (400, "wire_malformed")


@pytest.mark.parametrize(
    "more",
    [
        *({"usage": {**METERED, name: 10**9 + 1}, "usage_reason": None} for name in METERED),
        {"usage": {**METERED, "cost": 1.7e308}, "usage_reason": None},
        {"usage": {**METERED, "requests": 2**53}, "usage_reason": None},
        {"batch_size": 2**31},
        {"batch_size": 2**53},
    ],
    ids=repr,
)
def test_a_count_that_no_evidence_can_hold_is_charged_to_the_policy(
    run: ServedRun, driver: httpx.Client, more: dict[str, Any]
) -> None:
    base, seen = _begin(driver)
    answer = driver.post(f"{base}/act", json=decision(seen, **more))
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_response_schema")
    assert [fault.code for fault in run.faults] == ["invalid_response_schema"]
    assert _plays(driver)


@pytest.mark.parametrize("usage", [Usage(requests=10**9 + 1), Usage(output_tokens=2**53), Usage(cost=1.7e308)])
def test_a_policy_in_this_process_has_the_same_limit(usage: Usage) -> None:
    with pytest.raises(PolicyFault, match="usage: expected 0 to 1000000000"):
        in_process_decision(PolicyDecision(ActionChunk([[0.0]]), usage=usage))
