"""The published schemas say what the parser says: about everything that we write, and about everything near it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from sample_messages import ACTION, SPEC, bare_observation, observation, written

from trialplate.errors import TrialplateError
from trialplate.policies import messages as read
from trialplate.policies.messages.handshake import read_document
from trialplate.policies.messages.handshake_types import TYPES, schema_documents
from trialplate.policies.validation import validate_chunk
from trialplate.policies.wire import strict_json
from trialplate.record import ActionChunk

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "src" / "trialplate" / "policies" / "messages" / "schemas"
WRITTEN = written()
WRONG: tuple[Any, ...] = (None, True, -1, 1.5, "x", "", [], {}, [[]], {"x": 1}, 2**60)
SPECS = ("hello_policy", "hello_service", "register", "spec")


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


VALIDATORS = {name: validator(name) for name in TYPES}


def as_json(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as its JSON says it, arrays in their JSON form."""
    plain: dict[str, Any] = json.loads(strict_json.dumps(message))
    return plain


def accepted(name: str, message: Any) -> bool:
    """Return whether the parser takes a message that came as JSON."""
    try:
        decoded = strict_json.loads(json.dumps(message).encode(), max_bytes=2**26)
        if name == "observation":
            read.parse_observation(decoded, SPEC if message.get("images") else bare_spec())
        elif name == "decision":
            chunk = read.parse_decision(decoded, expected=observation()).decision
            if isinstance(chunk, ActionChunk):
                validate_chunk(chunk.vectors, ACTION, max_rows=256)
        else:
            read_document(TYPES[name], decoded)
    except TrialplateError:
        return False
    return True


def bare_spec() -> Any:
    return SPEC.model_copy(update={"cameras": (), "proprio": (), "history": None, "meta": (), "instruction": False})


def mutants(message: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the message with one thing changed: a key gone, a key too many, a value of another kind."""

    def places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        if isinstance(value, dict):
            yield path
            for key, item in value.items():
                yield from places(item, (*path, key))
        elif isinstance(value, list) and value:
            yield from places(value[0], (*path, 0))

    def at(root: Any, path: tuple[Any, ...]) -> Any:
        for key in path:
            root = root[key]
        return root

    for path in places(message, ()):
        for key in [*at(message, path), "surplus"]:
            for change in ("gone", *WRONG) if key != "surplus" else ("x",):
                changed = deepcopy(message)
                if change == "gone" and key != "surplus":
                    del at(changed, path)[key]
                else:
                    at(changed, path)[key] = change
                if changed != message:
                    yield f"{'.'.join(map(str, (*path, key)))} -> {change!r}", changed


@pytest.mark.parametrize("name", TYPES)
def test_the_file_of_a_schema_is_what_the_types_say(name: str) -> None:
    document = schema_documents()[name]
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert json.loads(text) == document, "run tools/write_schemas.py"
    jsonschema.Draft202012Validator.check_schema(document)


def test_there_is_a_file_for_every_message_and_no_other() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(TYPES) == {name for name, _ in WRITTEN}


@pytest.mark.parametrize(("name", "message"), WRITTEN, ids=[name for name, _ in WRITTEN])
def test_every_message_that_is_written_is_valid_for_the_schema_and_for_the_parser(
    name: str, message: dict[str, Any]
) -> None:
    sent = as_json(message)
    VALIDATORS[name].validate(sent)
    assert accepted(name, sent)


@pytest.mark.parametrize(("name", "message"), WRITTEN, ids=[name for name, _ in WRITTEN])
def test_a_changed_message_is_refused_by_both_or_by_neither(name: str, message: dict[str, Any]) -> None:
    sent = as_json(message)
    refused, differ = 0, []
    for change, mutant in mutants(sent):
        parser, schema = accepted(name, mutant), VALIDATORS[name].is_valid(mutant)
        refused += not parser and not schema
        if parser != schema and not _beyond_a_schema(name, change, parser=parser):
            differ.append(f"{change}: the parser says {parser}, the schema {schema}")
    assert differ == []
    assert refused >= 8


def _beyond_a_schema(name: str, change: str, *, parser: bool) -> bool:
    """Return whether only the parser can know: what was agreed, what is echoed, how two members fit each other."""
    path, _, value = change.partition(" -> ")
    if parser:
        return False
    if value == repr(2**60):  # no whole number of JSON may be so large
        return True
    echoed = name == "decision" and path in ("call_index", "id")
    first = path.split(".")[0]
    agreed = name == "observation" and first in ("images", "proprio", "history", "meta", "instruction")
    counted = name == "decision" and path.startswith("chunk")
    fitting = name in SPECS and first in (
        "observation_spec",
        "action_spec",
        "policy_spec",
        "registration",
    )
    return echoed or agreed or counted or fitting


@pytest.mark.parametrize("name", sorted({name for name, _ in WRITTEN}))
def test_a_message_of_another_protocol_or_type_is_refused_by_both(name: str) -> None:
    sent = as_json(next(message for kind, message in WRITTEN if kind == name))
    for change in ({"protocol": "trialplate.policy/2"}, {"type": "surprise"}, {"protocol": None}):
        assert not VALIDATORS[name].is_valid({**sent, **change})
        assert not accepted(name, {**sent, **change})


def test_row_16_no_schema_takes_both_chunk_and_stop_or_neither() -> None:
    sent = as_json(next(message for kind, message in WRITTEN if kind == "decision"))
    stop, chunk = {"reason": None}, sent["chunk"]
    neither = {key: value for key, value in sent.items() if key not in ("chunk", "stop")}
    for wrong in (neither, {**neither, "chunk": None, "stop": None}, {**neither, "chunk": chunk, "stop": stop}, {}):
        assert not VALIDATORS["decision"].is_valid(wrong)
        assert not accepted("decision", wrong)
    for right in ({**neither, "chunk": chunk, "stop": None}, {**neither, "chunk": None, "stop": stop}):
        assert VALIDATORS["decision"].is_valid(right)
        assert accepted("decision", right)


def test_a_bare_observation_needs_nothing_that_was_not_agreed() -> None:
    sent = as_json(read.observation_message(bare_observation()))
    assert accepted("observation", sent)
