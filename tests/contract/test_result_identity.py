"""Section 8 of the policy contract: every result says what it is the result of, and what nobody knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from toy_campaigns import SCRIPTED, cli

from trialplate import api
from trialplate.canonical import canonical_json, read_stored
from trialplate.lock import read_lock

STOPS_AT_ONCE = (
    "from trialplate import Stop\nfrom trialplate.testing.toy import Scripted\n\n\n"
    "class Arm(Scripted):\n    def act(self, observation):\n        return Stop('done, success')\n"
)
CLAIMS_A_LATENCY = (
    "from trialplate import PolicyDecision\nfrom trialplate.testing.toy import Scripted\n\n\n"
    "class Arm(Scripted):\n    def act(self, observation):\n"
    "        return PolicyDecision(super().act(observation), latency_ms=1e9)\n"
)
RAISES_IN_RESET = (
    "from trialplate.testing.toy import Scripted\n\n\n"
    "class Arm(Scripted):\n    def reset(self, episode):\n        raise RuntimeError('no weights')\n"
)


def summary(folder: Path) -> dict[str, Any]:
    cli("analyse", folder)
    document: dict[str, Any] = read_stored((folder / "summary.json").read_bytes())
    return document


def unexplained(value: Any, path: str = "") -> Iterator[str]:
    """Yield every null without a reason beside it."""
    if isinstance(value, dict):
        for key, item in value.items():
            told = value.get(f"{key}_reason") or (not key.endswith("reason") and value.get("reason"))
            if item is None and not key.endswith("reason") and not told:
                yield f"{path}/{key}"
            yield from unexplained(item, f"{path}/{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from unexplained(item, f"{path}/{number}")


@pytest.mark.parametrize("source", [SCRIPTED, STOPS_AT_ONCE, RAISES_IN_RESET])
def test_every_unknown_of_a_result_is_null_with_its_reason(campaign: Callable[..., Path], source: str) -> None:
    found = set(unexplained(summary(campaign("c", source))))
    of_no_checkout = {f"/arms/0/registration/policy_source/{name}" for name in ("version", "dirty")}
    assert found <= of_no_checkout  # both are explained by git_revision_reason


def test_a_result_names_benchmark_protocol_arm_wire_counts_and_usage(campaign: Callable[..., Path]) -> None:
    folder = campaign("c", SCRIPTED)
    found = summary(folder)
    assert found["protocol"]["lock_sha256"] == read_lock(folder / "lock.json").sha256
    assert (found["benchmark"]["name"], found["benchmark"]["plan"], found["protocol"]["denominator"]) == (
        "toy", "custom", "measured",
    )  # fmt: skip
    assert found["run"]["complete"] and found["run"]["recordings"] == ["detailed"]
    (arm,) = found["arms"]
    assert (arm["attached"], arm["declared_by"], arm["role"]) == ("python", "policy", "arm")
    assert arm["registration"]["policy_source"]["verified"] is True and arm["run_as"] == []
    assert arm["registration"]["model"] is None and arm["registration"]["model_reason"] == "not_reported"
    assert set(arm["specs"]) == {"observation_sha256", "action_sha256", "policy_spec_sha256"}
    assert arm["conduct"]["calls"] >= arm["conduct"]["calls_executed"] > 0
    assert arm["conduct"]["rows_executed"] == arm["conduct"]["control_steps"]
    assert arm["conduct"]["terminations"] == {"policy_stop": 6}
    assert (arm["usage"]["requests"], arm["usage"]["requests_reason"]) == (None, "not_metered")
    assert (arm["usage"]["components"], arm["usage"]["components_reason"]) == (None, "not_reported")
    assert 0 <= arm["latency_p50_us"] <= arm["latency_p95_us"]
    assert (arm["progress"], arm["progress_reason"]) == (None, "not_reported")
    assert arm["blinding"] == {"state": "no_leak_disclosed", "trials": []}
    assert [rate["denominator"] for rate in arm["rates"]] == ["measured", "valid"]


def test_what_a_policy_says_of_its_own_latency_enters_no_summary(campaign: Callable[..., Path]) -> None:
    (arm,) = summary(campaign("c", CLAIMS_A_LATENCY))["arms"]
    assert arm["counts"]["errored"] == 0 and arm["conduct"]["calls_executed"] > 0
    assert 0 <= arm["latency_p50_us"] <= arm["latency_p95_us"] < 60e6  # what it claims is eleven days


def test_a_disclosed_leak_is_part_of_the_identity_of_the_result(campaign: Callable[..., Path]) -> None:
    folder = campaign("c", SCRIPTED)
    assert cli("disclose", folder, "--attempt", "000002-0", "--what", "a label named the task").returncode == 0
    (arm,) = summary(folder)["arms"]
    assert arm["blinding"] == {"state": "compromised", "trials": ["000002"]} and arm["counts"]["initiated"] == 6


def test_a_summary_that_was_edited_is_not_reproduced(campaign: Callable[..., Path]) -> None:
    folder = campaign("c", SCRIPTED)
    document = summary(folder)
    assert api.verify(folder).findings == ()
    document["arms"][0]["usage"].update(requests=0)
    del document["arms"][0]["usage"]["requests_reason"]  # an unknown that is written as a zero
    (folder / "summary.json").chmod(0o644)
    (folder / "summary.json").write_bytes(canonical_json(document))
    (found,) = api.verify(folder).findings
    assert (found.code, found.path, found.exit_code) == ("accounting_not_reproduced", "summary.json", 1)
