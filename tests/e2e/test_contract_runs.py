"""Whole campaigns over the wires of the policy contract: equal bytes, visible faults, compared identities."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from trialplate import api, exam
from trialplate.errors import LockError, UsageError
from trialplate.store.view import read_campaign
from wire_campaign import arm, command, protocol, rows, served


def _digests(folder: Path, arm: str) -> list[tuple[str, str | None, str | None]]:
    return sorted(
        (r.scenario, r.actions_sha256, r.trace.content_sha256 if r.trace else None) for r in rows(folder, arm)
    )


def test_row_38_a_policy_server_gives_the_same_trace_as_the_object_and_the_campaign_verifies(tmp_path: Path) -> None:
    path = protocol(tmp_path, arm("inside", "arms.py:Arm"), arm("wire", "ws://127.0.0.1:1"))
    with served(tmp_path / "arms.py", "Arm") as (uri, _):
        path.write_text(path.read_text(encoding="utf-8").replace("ws://127.0.0.1:1", uri), encoding="utf-8")
        lock = api.lock(api.load_protocol(path), into=tmp_path / "c")
        with pytest.raises(UsageError, match="one instance"):
            api.run(lock, workers=2)
        api.run(lock, executor="processes")
    assert _digests(tmp_path / "c", "inside") == _digests(tmp_path / "c", "wire")
    assert {row.echo for row in rows(tmp_path / "c", "wire")} == {"policy"}
    assert command("verify", str(tmp_path / "c"))["findings"] == []


def test_row_34_an_arm_that_always_fails_before_any_control_is_halted_and_gets_no_rate(tmp_path: Path) -> None:
    path = protocol(tmp_path, arm("broken", "arms.py:Raising"), arm("whole", "arms.py:Arm"))
    lock = api.lock(api.load_protocol(path), into=tmp_path / "c")
    done = command("run", str(tmp_path / "c"), expected=1)
    assert (done["stopped_by"], done["complete"]) == ("systematic_error", False)
    assert len(rows(tmp_path / "c", "broken")) == 3 and len(rows(tmp_path / "c", "whole")) == 5
    analysed = {a.arm: a for a in api.analyse(api.score(tmp_path / "c"), lock).arms}
    assert analysed["broken"].rate.rate is None and "systematic_error" in analysed["broken"].state_reasons
    assert analysed["whole"].rate.rate is not None
    again = command("run", str(tmp_path / "c"), "--resume", expected=1)
    assert again["stopped_by"] == "systematic_error" and len(rows(tmp_path / "c", "broken")) == 3


def test_a_server_that_dies_in_mid_episode_costs_that_episode_and_no_other(tmp_path: Path) -> None:
    path = protocol(tmp_path, arm("wire", "ws://127.0.0.1:1"))
    with served(tmp_path / "arms.py", "Rude") as (uri, server):
        path.write_text(path.read_text(encoding="utf-8").replace("ws://127.0.0.1:1", uri), encoding="utf-8")
        lock = api.lock(api.load_protocol(path), into=tmp_path / "c")
        api.run(lock)
        assert server.wait(10) == 9
    found = rows(tmp_path / "c", "wire")
    assert [row.fault_code for row in found] == [None, "transport_lost", *["connect_failed"] * 3]
    assert (found[1].control_steps, found[1].trace is not None) == (3, True)
    assert {outcome.status for outcome in api.score(tmp_path / "c")} == {"PASS", "ERROR"}
    assert command("verify", str(tmp_path / "c"))["findings"] == []


def test_another_identity_behind_the_address_runs_as_exploratory_and_no_claim_stands_on_it(tmp_path: Path) -> None:
    claim = '[[claims]]\nname = "half"\nkind = "threshold_rate"\narm = "wire"\nrate = 0.5\n'
    path = protocol(tmp_path, arm("wire", "ws://127.0.0.1:1"), more=claim)
    with served(tmp_path / "arms.py", "Arm") as (uri, _):
        path.write_text(path.read_text(encoding="utf-8").replace("ws://127.0.0.1:1", uri), encoding="utf-8")
        api.lock(api.load_protocol(path), into=tmp_path / "c")
    with served(tmp_path / "arms.py", "Counting") as (other, _):
        done = command("run", str(tmp_path / "c"), "--policy", other)
    assert done["complete"] and done["exploratory"] == ["wire"]
    opened = read_campaign(tmp_path / "c").records[0]["data"]
    assert list(opened["registrations"]) == ["wire"] and opened["addresses"] == {"wire": other}
    (judged,) = exam.judge_campaign(tmp_path / "c", qualification=None)
    assert judged.verdict == "ineligible" and "exploratory_registration" in judged.reasons
    (analysed,) = command("analyse", str(tmp_path / "c"), expected=1)["arms"]
    assert (analysed["state"], analysed["state_reasons"]) == ("EXPLORATORY", ["exploratory_registration"])
    (summed,) = json.loads((tmp_path / "c" / "summary.json").read_bytes())["arms"]
    assert summed["state"] == "EXPLORATORY" and summed["run_as"] == [opened["registrations"]["wire"]]
    assert command("verify", str(tmp_path / "c"), expected=3)


def test_row_26_a_checkpoint_that_changes_during_the_run_invalidates_the_arm(tmp_path: Path) -> None:
    path = protocol(tmp_path, arm("wire", "ws://127.0.0.1:1"))
    with served(tmp_path / "arms.py", "Rude") as (uri, server):
        port = int(uri.rsplit(":", 1)[1])
        path.write_text(path.read_text(encoding="utf-8").replace("ws://127.0.0.1:1", uri), encoding="utf-8")
        lock = api.lock(api.load_protocol(path), into=tmp_path / "c")
        with _replaced_after_death(server, tmp_path / "arms.py", "Arm", port=port) as tell:
            api.run(lock, progress=tell)
    codes = [row.fault_code for row in rows(tmp_path / "c", "wire")]
    assert codes[:2] == [None, "transport_lost"] and set(codes[2:]) == {"identity_changed"}
    (analysed,) = api.analyse(api.score(tmp_path / "c"), lock).arms
    assert analysed.rate.rate is None and "identity_changed" in analysed.state_reasons


@contextmanager
def _replaced_after_death(
    server: subprocess.Popen[str], file: Path, name: str, *, port: int
) -> Iterator[Callable[[Any], None]]:
    """Put another policy behind the same port as soon as the first server is gone."""
    others: list[Any] = []

    def tell(progress: Any) -> None:
        if not others and server.poll() is not None:
            other = served(file, name, port=port)
            other.__enter__()
            others.append(other)

    yield tell
    for other in others:
        other.__exit__(None, None, None)
    assert others


def test_row_39_a_policy_with_a_state_of_its_own_has_one_instance_in_each_worker(tmp_path: Path) -> None:
    path = protocol(tmp_path, arm("alone", "arms.py:Arm"), scenarios=10)
    lock = api.lock(api.load_protocol(path), into=tmp_path / "lock")
    api.run(lock, into=tmp_path / "serial")
    api.run(lock, into=tmp_path / "four", workers=4)
    assert _digests(tmp_path / "serial", "alone") == _digests(tmp_path / "four", "alone")


@pytest.mark.parametrize(("policy", "told"), [
    ("lerobot+grpc://host:50051", "unsupported_scheme"), ("gr00t+zmq://host:5555", "unsupported_scheme"),
    ("http://host:80", "unsupported_scheme"), ("ws://host", "host:port"), ("ws://user:secret@host:1", "credentials"),
])  # fmt: skip
def test_row_51_a_scheme_that_is_not_spoken_is_refused_by_name(tmp_path: Path, policy: str, told: str) -> None:
    path = protocol(tmp_path, arm("a", policy))
    refused = command("validate", str(path), expected=2)
    assert told in refused["message"]


@pytest.mark.parametrize("value", ["-1", "0", "nan", "true", '"3"', "inf"])
def test_row_33_a_time_that_is_none_is_refused(tmp_path: Path, value: str) -> None:
    path = protocol(tmp_path, arm("a", "arms.py:Arm"))
    text = path.read_text(encoding="utf-8").replace("call_timeout_s = 5.0", f"call_timeout_s = {value}", 1)
    path.write_text(text, encoding="utf-8")
    assert "call_timeout_s" in command("validate", str(path), expected=2)["message"]


def test_row_32_a_closed_port_is_refused_before_anything_runs_with_its_reason(tmp_path: Path) -> None:
    path = protocol(tmp_path, arm("a", "ws://127.0.0.1:9"), more="")
    text = path.read_text(encoding="utf-8").replace("connect_timeout_s = 5.0", "connect_timeout_s = 0.5")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LockError, match=re.compile("refused", re.IGNORECASE)) as caught:
        api.lock(api.load_protocol(path), into=tmp_path / "c")
    assert caught.value.code == "connect_failed" and not (tmp_path / "c").exists()


def test_row_50_a_minimal_recording_scores_as_a_detailed_one(tmp_path: Path) -> None:
    path = protocol(tmp_path, 'name = "seeing"\npolicy = "arms.py:Arm"\nprofile = "standard"')
    lock = api.lock(api.load_protocol(path), into=tmp_path / "lock")
    for recording in ("minimal", "detailed"):
        api.run(lock, into=tmp_path / recording, recording=recording)  # type: ignore[arg-type]
        api.score(tmp_path / recording)
    results = [(tmp_path / name / "results.jsonl").read_bytes() for name in ("minimal", "detailed")]
    assert results[0] == results[1]
