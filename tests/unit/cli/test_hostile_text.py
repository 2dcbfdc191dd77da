"""Text of a policy server cannot steer the terminal of who probes it."""

from __future__ import annotations

from typing import Any

import pytest

from lying_servers import hello_of, honest, own_server
from served_policies import DECLARED
from trialplate.cli.policy_servers import probe
from trialplate.policies.messages.writing import error_message

STEERING = "\x1b]0;owned\x07\x1b[2J\u202e"


def test_a_probe_shows_control_characters_of_a_server_and_prints_none(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(message: dict[str, Any]) -> dict[str, Any] | None:
        if message["type"] != "observation":
            return honest(message)
        return {**error_message("policy_exception", f"no plan {STEERING}"), "id": message["id"]}

    with own_server(hello_of(DECLARED, software=f"server {STEERING}"), answer) as uri:
        assert probe(uri, calls=1) == 1
    printed = capsys.readouterr().out
    assert printed.count("\\x1b") == 4
    assert [character for character in printed if not character.isprintable() and character != "\n"] == []
