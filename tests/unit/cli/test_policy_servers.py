"""What `trialplate policy serve` and `policy probe` take, and what they refuse before a port is opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from served_policies import Stub
from trialplate.cli.policy_servers import probe, read_bind, read_mapping, read_options, serve
from trialplate.errors import LockError, UsageError
from trialplate.policies.server.hosting import serving

POLICY = f"{Path(__file__).parents[2] / 'served_policies.py'}:Stub"


@pytest.mark.parametrize(
    ("text", "found"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:8000", ("::1", 8000)), ("localhost:65535", ("localhost", 65535))],
)
def test_an_address_to_listen_on_is_host_and_port(text: str, found: tuple[str, int]) -> None:
    assert read_bind(text) == found


@pytest.mark.parametrize(
    "text", ["", "8000", ":8000", "host", "host:", "host:-1", "host:x", "host:65536", "host:1.5"]
)
def test_what_is_no_address_to_listen_on_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        read_bind(text)


def test_options_are_read_as_toml_and_else_as_text() -> None:
    lines = ["a=1", "b=0.5", "c=true", 'd="x y"', "e=some text", "f=", "g=[1]", "h=a=b"]
    expected = {"a": 1, "b": 0.5, "c": True, "d": "x y", "e": "some text", "f": "", "g": "[1]", "h": "a=b"}
    assert read_options(lines) == expected


@pytest.mark.parametrize("lines", [["a"], ["=1"], ["a b=1"], ["a=1", "a=2"]])
def test_an_option_that_is_none_is_refused(lines: list[str]) -> None:
    with pytest.raises(UsageError, match="option"):
        read_options(lines)


def test_a_mapping_is_read_with_lists_joined_by_plus() -> None:
    lines = ["observation/image=camera:front", "observation/state=proprio:a+proprio:b", "prompt=instruction"]
    assert read_mapping(lines, dialect="openpi") == {
        "observation/image": "camera:front",
        "observation/state": ("proprio:a", "proprio:b"),
        "prompt": "instruction",
    }
    assert read_mapping([], dialect="own") == {}


@pytest.mark.parametrize(
    ("lines", "dialect"),
    [(["a"], "openpi"), (["=x"], "openpi"), (["a="], "openpi"), (["a=x", "a=y"], "openpi"), ([], "openpi"),
     (["a=x"], "own")],
)  # fmt: skip
def test_a_mapping_that_is_none_or_belongs_to_the_other_dialect_is_refused(lines: list[str], dialect: str) -> None:
    with pytest.raises(UsageError, match="mapping"):
        read_mapping(lines, dialect=dialect)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"bind": "8000"}, "HOST:PORT"), ({"bind": "0.0.0.0:0"}, "allow-remote"),
        ({"max_batch_size": 0}, "max_batch"),
        ({"max_batch_size": 65}, "declares max_batch_size 64"), ({"max_wait_ms": float("nan")}, "max_wait_ms"),
        ({"max_wait_ms": -1.0}, "max_wait_ms"), ({"close_timeout_s": 0.0}, "close_timeout_s"),
        ({"max_message_bytes": 0}, "max_message_bytes"), ({"option": ("x",)}, "KEY=VALUE"),
        ({"dialect": "openpi"}, "go together"), ({"mapping": ("a=instruction",)}, "go together"),
        ({"identity": Path("no/such.toml")}, "identity"),
    ],
)  # fmt: skip
def test_a_server_that_cannot_be_is_refused_by_name(options: dict[str, Any], told: str) -> None:
    policy = POLICY.replace(":Stub", ":Batching")
    with pytest.raises(UsageError, match=told):
        serve(policy, **{"bind": "127.0.0.1:0", **options})


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("no_such_module:X", {}), ("none.py:X", {}), (POLICY.replace(":Stub", ":Stob"), {}),
        (POLICY, {"weights": ("no.npz",)}), (POLICY, {"option": ("speed=1",)}),
        (POLICY, {"dialect": "openpi", "mapping": ("image=camera:front",)}),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_made_is_refused_with_its_reason(policy: str, options: dict[str, Any]) -> None:
    with pytest.raises(LockError):
        serve(policy, bind="127.0.0.1:0", **options)


def test_a_probe_prints_what_it_found_for_people_and_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Stub) as uri:
        assert probe(uri, calls=3, batch=2) == 0
        told = capsys.readouterr().out
        assert "serial  p50" in told and "batch  p50" in told and "answers equal" in told
        assert probe(uri, calls=3, json=True) == 0
        document = json.loads(capsys.readouterr().out)
    assert (document["uri"], document["calls"], document["faults"]) == (uri, 3, [])


def test_a_probe_of_a_policy_that_fails_says_no(capsys: pytest.CaptureFixture[str]) -> None:
    class Failing(Stub):
        def act(self, observation: Any) -> Any:
            raise ValueError("no plan")

    with serving(Failing) as uri:
        assert probe(uri, calls=2) == 1
    assert "fault: policy_exception" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("127.0.0.1:1", "ws://"), ("openpi+ws://127.0.0.1:1", "our own dialect"), ("http://host:1", "unsupported"),
        ("lerobot+grpc://127.0.0.1:1", "unsupported_scheme"), ("ws://127.0.0.1", "host:port"),
        ("ws://127.0.0.1:1", "connect_failed"),
    ],
)  # fmt: skip
def test_a_probe_of_what_is_no_policy_server_is_refused(uri: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        probe(uri, connect_timeout_s=0.2)
