"""Valid messages with something wrong in a random place: a server answers each, a client knows whose fault it is."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lying_servers import hello_of, honest
from served_policies import DECLARED, EMITS, EXPECTS, MAPPING, begin, look
from trialplate.errors import ContractFault, PolicyFault
from trialplate.policies.client.openpi import read_metadata
from trialplate.policies.client.websocket import read_hello
from trialplate.policies.messages.openpi_mapping import OpenpiMapping
from trialplate.policies.messages.reading import parse_decision
from trialplate.policies.messages.writing import (
    close_message,
    episode_end_message,
    observation_message,
    reset_message,
)
from trialplate.policies.server.openpi_dialect import OpenpiDialect
from trialplate.policies.server.own_dialect import OwnDialect
from trialplate.policies.server.sessions import Decide, Session
from trialplate.policies.validation import validate_chunk
from trialplate.policies.wire import openpi, own
from trialplate.record import ActionChunk, PolicyDecision
from trialplate.spec.registration import Registration

ROUNDS = 1500
LIMIT = 2**26
WRONG: list[Any] = [
    None, True, 0, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 1.5, float("nan"), float("inf"), "", "x", "\x00",
    "a" * 600, "e" * 32, "0" * 64, b"", b"\xff", [], [1], [[]], [None], {}, {"a": 1}, np.zeros(3),
    np.zeros((8, 8, 3), dtype="|u1"), np.zeros((), dtype="<i8"), np.zeros((0, 7)), np.array([True]), "\u202e",
]  # fmt: skip
NAMES = ("another", "type", "id", "chunk", "stop", "__ndarray__", "nd")
DECISION = PolicyDecision(ActionChunk(np.array([[1.0, 0.5]])))
LOOK = look()
HELLO = own.decode(hello_of(DECLARED), max_bytes=LIMIT)
REQUESTS = [
    {**observation_message(LOOK), "id": 2}, {**reset_message(begin()), "id": 1}, {**close_message(), "id": 9},
    episode_end_message("e" * 32, "terminated"), HELLO,
]  # fmt: skip
ANSWER = honest({**observation_message(LOOK), "id": 3}, latency_ms=1.0, latency_ms_reason=None) or {}


class Chance:
    """Repeatable mistakes."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def wrong(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return a message with one to three mistakes in it."""
        message = copy.deepcopy(message)
        for _ in range(self._draw.choice((1, 1, 1, 2, 3))):
            places = list(_places(message))
            if places:
                self._spoil(*self._draw.choice(places))
        return message

    def damaged(self, frame: bytes) -> bytes:
        """Return a frame, every seventh time with a byte that is another."""
        if self._draw.randrange(7):
            return frame
        at = self._draw.randrange(len(frame))
        return frame[:at] + bytes([self._draw.randrange(256)]) + frame[at + 1 :]

    def one_of(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        return self._draw.choice(messages)

    def _spoil(self, owner: Any, key: Any) -> None:
        kind = self._draw.random()
        if kind < 0.6:
            owner[key] = copy.deepcopy(self._draw.choice(WRONG))
        elif kind < 0.8:
            del owner[key]
        elif isinstance(owner, dict):
            owner[self._draw.choice(NAMES)] = copy.deepcopy(self._draw.choice(WRONG))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Find every place in a message: its owner, and its key there."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from _places(item)


def converse(session: Session, frame: bytes) -> Iterator[bytes | str]:
    """Let a session answer a frame as a policy would that decides at once."""
    for step in session.receive(frame):
        reply = session.reply(step, DECISION if isinstance(step, Decide) else None)
        if reply.data is not None:
            yield reply.data


def test_a_session_answers_whatever_it_is_sent_with_a_message_that_can_be_read() -> None:
    dialect, chance = OwnDialect(DECLARED, Registration(), max_message_bytes=LIMIT), Chance(1)
    said: Counter[str] = Counter()
    for _ in range(ROUNDS):
        session = dialect.session()
        assert list(converse(session, own.encode({**reset_message(begin()), "id": 0})))
        for data in converse(session, chance.damaged(own.encode(chance.wrong(chance.one_of(REQUESTS))))):
            assert isinstance(data, bytes)
            said[own.decode(data, max_bytes=LIMIT)["type"]] += 1
    assert set(said) == {"error", "decision", "ready", "close"}


def test_an_openpi_session_answers_whatever_it_is_sent_with_actions_or_a_text() -> None:
    expects = EXPECTS.model_copy(update={"meta": ()})
    declared = DECLARED.model_copy(update={"expects": expects})
    mapping = OpenpiMapping(MAPPING, expects)
    dialect = OpenpiDialect(declared, Registration(), mapping=mapping, max_message_bytes=LIMIT)
    seen = {"observation/image": LOOK.images["front"], "observation/state": np.zeros(4), "prompt": "left"}
    chance, said = Chance(2), Counter[type]()
    for _ in range(ROUNDS):
        frame = chance.damaged(openpi.encode(chance.wrong(seen)))
        said.update(type(data) for data in converse(dialect.session(), frame))
    assert sum(said.values()) == ROUNDS
    assert set(said) == {bytes, str}


def test_a_client_knows_whose_fault_a_wrong_answer_is() -> None:
    chance, found = Chance(3), Counter[str]()
    for _ in range(ROUNDS):
        message = own.encode(chance.wrong(ANSWER))
        try:
            decision = parse_decision(own.decode(message, max_bytes=LIMIT), expected=LOOK).decision
            if isinstance(decision, ActionChunk):
                validate_chunk(decision.vectors, EMITS, max_rows=256)
            found["fine"] += 1
        except (PolicyFault, ContractFault) as fault:
            found[fault.code] += 1
            assert len(fault.message.encode()) <= 512
    assert {"fine", "invalid_action", "invalid_response_schema", "wire_malformed"} <= set(found)


@pytest.mark.parametrize("dialect", ["own", "openpi"])
def test_a_first_frame_with_mistakes_is_refused_or_read(dialect: str) -> None:
    chance, refused = Chance(4), 0
    for _ in range(ROUNDS):
        try:
            if dialect == "own":
                read_hello(own.encode(chance.wrong(HELLO)), max_message_bytes=LIMIT)
            else:
                metadata = {"a": 1, "b": {"c": [1, 2.0, "x"]}, "d": np.zeros(3)}
                read_metadata(openpi.encode(chance.wrong(metadata)), max_message_bytes=LIMIT)
        except ContractFault:
            refused += 1
    assert 0 < refused < ROUNDS
