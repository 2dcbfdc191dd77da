"""Every example of the page about the wire is read by the production parser, and is valid for its schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from trialplate.errors import CONTRACT_FAULTS
from trialplate.policies import messages as m
from trialplate.policies.messages.handshake import read_document
from trialplate.policies.messages.handshake_types import TYPES
from trialplate.policies.wire import own, strict_json
from trialplate.record import Observation, Remaining

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "wire.md").read_text(encoding="utf-8")
SCHEMAS = ROOT / "src" / "trialplate" / "policies" / "messages" / "schemas"
LIMIT = 2**26


def _read(body: str) -> Any:
    return strict_json.loads(body.encode(), max_bytes=LIMIT)


EXAMPLES = [_read(body) for body in re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)]


def schema_name(message: dict[str, Any]) -> str:
    """Return the schema of an example; a name with data is a reply, the name alone a request."""
    kind = str(message["type"])
    if kind == "hello":
        return f"hello_{message['role']}"
    bare = message.keys() <= {"protocol", "type", "id"}
    return "request" if bare and kind in ("describe", "observe", "start", "abort", "status", "results") else kind


def test_the_page_shows_every_message() -> None:
    assert {schema_name(message) for message in EXAMPLES} == set(TYPES)


@pytest.mark.parametrize("message", EXAMPLES, ids=schema_name)
def test_every_example_is_read_by_the_parser_and_valid_for_its_schema(message: dict[str, Any]) -> None:
    name = schema_name(message)
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(json.loads(strict_json.dumps(message)))
    match name:
        case "decision":
            assert m.parse_decision(message, expected=_expected(message)).echo == "policy"
        case "observation":
            TYPES[name].model_validate(message)
        case "hello_driver" | "hello_policy" | "hello_service":
            assert m.parse_hello(message).role == name.removeprefix("hello_")
        case "spec":
            assert m.parse_spec(message).episode == message["episode"]
        case "error":
            assert m.fault_of(message).code == message["code"]
        case _:
            read_document(TYPES[name], message)


def _expected(message: dict[str, Any]) -> Observation:
    episode, look, identity = message["episode"], message["observation_id"], message["registration"]
    return Observation(episode, message["call_index"], look, identity, 0, None, {}, {}, Remaining(1, None))


def test_the_golden_frame_of_the_page_is_the_array_that_it_is_said_to_be() -> None:
    (frame,) = re.findall(r"^[0-9a-f]{100,}$", PAGE, re.MULTILINE)
    assert len(bytes.fromhex(frame)) == 56
    assert own.decode(bytes.fromhex(frame), max_bytes=LIMIT).tolist() == [[0.0, 0.5], [1.0, -1.0]]


def test_the_raw_array_of_the_page_is_that_array_too() -> None:
    (form,) = re.findall(r'^\{"encoding": "raw".*\}$', PAGE, re.MULTILINE)
    assert _read(form).tolist() == [[0.0, 0.5], [1.0, -1.0]]


def test_the_table_of_statuses_says_what_the_service_answers() -> None:
    shown: dict[str, int] = {}
    for status, codes in re.findall(r"^\| (\d{3}) \| [^|]*\|([^|]*)\|$", PAGE, re.MULTILINE):
        shown |= dict.fromkeys(re.findall(r"`([a-z_]+)`", codes), int(status))
    for code in (*CONTRACT_FAULTS, "unauthorized", "unknown_episode", "shutting_down", "invalid_response_schema"):
        assert shown.pop(code) == m.HTTP_STATUS[code], code
    assert shown == {}
