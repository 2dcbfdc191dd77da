"""What is taken from a mailbox, and everything that an actor may leave there instead of an answer in time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mailbox_bench import (
    DEADLINE_S,
    EPISODE,
    Bench,
    look,
    reply,
    setting,
)
from trialplate.errors import ContractFault, PolicyFault, TrialplateError
from trialplate.policies.mailbox import folder as mailbox_folder
from trialplate.record import ActionChunk, EpisodeInfo


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A mailbox with an open episode."""
    made = Bench(tmp_path / "root").reset()
    yield made
    made.actor.close()


def _code(error: type[TrialplateError], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    return caught.value.code


# -- what is taken ---------------------------------------------------------------------------------------------


def test_an_answer_is_taken_with_its_digest_and_nothing_is_metered(bench: Bench) -> None:
    shown = look(0)
    usage = {"requests": 3, "input_tokens": 5, "output_tokens": 7, "cost": None, "cost_reason": "not_reported"}
    message = {**reply(shown), "usage": usage}
    del message["usage_reason"]
    data = json.dumps(message).encode()
    bench.acts = [lambda: None, lambda: bench.write(0, data)]
    decision = bench.ask(shown)
    assert isinstance(decision.decision, ActionChunk)
    assert decision.decision.vectors == [[0.5, -1.0]]
    assert (decision.usage, decision.usage_reason) == (None, "not_metered")
    assert decision.echo == "policy"
    assert decision.remarks["mailbox_file_sha256"] == hashlib.sha256(data).hexdigest()
    assert decision.remarks["mailbox_looks"] == 3
    assert decision.remarks["claimed_usage"]["requests"] == 3
    assert len(bench.events()) == 1  # that it was opened


def test_the_first_answer_has_the_first_timeout_and_the_later_ones_theirs(bench: Bench) -> None:
    shown = look(0)
    waits = int(2 * DEADLINE_S / 0.05) - 1
    bench.acts = [*[lambda: None] * (waits - 1), lambda: bench.write(0, reply(shown))]
    bench.ask(shown)
    start_s = bench.now_s
    assert _code(PolicyFault, lambda: bench.ask(look(1))) == "policy_timeout"
    assert bench.now_s - start_s == pytest.approx(DEADLINE_S)


def test_it_is_looked_for_every_fifty_milliseconds(bench: Bench) -> None:
    waits: list[float] = []
    pause = bench.pause
    bench.actor._pause = lambda s: (waits.append(s), pause(s))  # type: ignore[assignment, func-returns-value]
    assert _code(PolicyFault, lambda: bench.ask(look(0))) == "policy_timeout"
    assert set(np.round(waits[:-1], 6)) == {0.05}


def test_a_file_that_is_not_yet_renamed_is_ignored(bench: Bench) -> None:
    (bench.act / "00000.json.tmp").write_text("{")
    (bench.act / "0.json").write_text("{}")
    with pytest.raises(PolicyFault) as caught:
        bench.ask(look(0))
    assert caught.value.code == "policy_timeout"
    assert "'00000.json.tmp'" in caught.value.message or "'0.json'" in caught.value.message
    assert len(bench.events()) == 1


def test_what_is_changed_after_reading_has_no_effect(bench: Bench) -> None:
    first, second = look(0), look(1)
    bench.acts = [lambda: bench.write(0, reply(first))]
    bench.ask(first)

    def meddle() -> None:
        bench.write(0, reply(first, chunk={"vectors": [[9.0, 9.0]]}))

    bench.acts = [meddle, lambda: bench.write(1, reply(second))]
    assert bench.ask(second).decision.vectors == [[0.5, -1.0]]
    bench.actor.end("terminated")
    assert len(bench.events()) == 1


@pytest.mark.parametrize(
    "kind", ["link", "dangling link", "link to folder", "hard link", "fifo", "folder", "unreadable"]
)
def test_what_is_no_plain_file_is_refused_unread(bench: Bench, tmp_path: Path, kind: str) -> None:
    if kind == "unreadable" and os.geteuid() == 0:
        pytest.skip("nothing is unreadable for this user")
    shown = look(0)
    good = tmp_path / "elsewhere.json"
    good.write_text(json.dumps(reply(shown)))
    place = bench.act / "00000.json"
    put: dict[str, Callable[[], object]] = {
        "link": lambda: place.symlink_to(good),
        "dangling link": lambda: place.symlink_to(tmp_path / "nothing"),
        "link to folder": lambda: place.symlink_to(tmp_path),
        "hard link": lambda: os.link(good, place),
        "fifo": lambda: os.mkfifo(place),
        "folder": lambda: place.mkdir(),
        "unreadable": lambda: (place.write_text("{}"), place.chmod(0)),
    }
    bench.acts = [put[kind]]
    with pytest.raises(PolicyFault) as caught:
        bench.ask(shown)
    assert caught.value.code == "invalid_response_schema"
    (event,) = bench.events("response_refused")
    assert event["sha256"] is None
    assert event["refusal"]


@pytest.mark.parametrize(
    ("data", "error", "code"),
    [
        (b"", ContractFault, "wire_malformed"),
        (b'{"protocol": ', ContractFault, "wire_malformed"),
        (b"\xff\xfe{}", ContractFault, "wire_malformed"),
        (b"[" * 10_000 + b"]" * 10_000, ContractFault, "wire_malformed"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, ContractFault, "wire_malformed"),
        (b'{"type": "decision", "type": "decision"}', ContractFault, "wire_malformed"),
        (b'{"x": NaN}', ContractFault, "wire_malformed"),
        (b"\x00" * 100, ContractFault, "wire_malformed"),
    ],
)
def test_bytes_that_are_no_strict_json_are_a_broken_wire(
    bench: Bench, data: bytes, error: type[TrialplateError], code: str
) -> None:
    bench.acts = [lambda: bench.write(0, data)]
    assert _code(error, lambda: bench.ask(look(0))) == code
    (event,) = bench.events("response_refused")
    assert event["sha256"] == hashlib.sha256(data).hexdigest()
    assert event["code"] == code


@pytest.mark.parametrize(
    ("changes", "error", "code"),
    [
        ({"chunk": None}, PolicyFault, "invalid_response_schema"),
        ({"stop": {"reason": None}}, PolicyFault, "invalid_response_schema"),
        ({"action": [[0.0, 0.0]]}, PolicyFault, "invalid_response_schema"),
        ({"chunk": {"action": [[0.0, 0.0]]}}, PolicyFault, "invalid_response_schema"),
        ({"score": 1.0}, PolicyFault, "invalid_response_schema"),
        ({"observation_id": "f" * 32}, ContractFault, "stale_observation"),
        ({"call_index": 1}, ContractFault, "out_of_order"),
        ({"episode": "f" * 32}, ContractFault, "out_of_order"),
        ({"registration": "f" * 64}, ContractFault, "identity_changed"),
        ({"protocol": "trialplate.policy/2"}, ContractFault, "version_mismatch"),
    ],
)
def test_an_answer_that_is_no_decision_to_this_observation_is_charged_where_it_belongs(
    bench: Bench, changes: dict[str, Any], error: type[TrialplateError], code: str
) -> None:
    shown = look(0)
    bench.acts = [lambda: bench.write(0, reply(shown, **changes))]
    assert _code(error, lambda: bench.ask(shown)) == code


def test_an_actor_cannot_name_a_fault_of_the_harness(bench: Bench) -> None:
    forged = {
        "protocol": "trialplate.policy/1",
        "type": "error",
        "code": "simulator_crash",
        "class": "infrastructure",
        "message": "it was not me",
    }
    bench.acts = [lambda: bench.write(0, forged)]
    assert _code(PolicyFault, lambda: bench.ask(look(0))) == "invalid_response_schema"


@pytest.mark.parametrize("sparse", [False, True])
def test_an_answer_that_is_too_long_is_refused_without_reading_it_whole(tmp_path: Path, sparse: bool) -> None:
    made = Bench(tmp_path, setting(max_message_bytes=65_536)).reset()

    def write() -> None:
        staged = made.act / "big.tmp"
        with staged.open("wb") as file:
            if sparse:
                file.truncate(2**40)
            else:
                file.write(b" " * 65_537)
        staged.rename(made.act / "00000.json")

    made.acts = [write]
    with pytest.raises(ContractFault) as caught:
        made.ask(look(0))
    assert caught.value.code == "message_too_large"
    assert str(2**40 if sparse else 65_537) in caught.value.message
    made.actor.close()


def test_an_answer_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    made = Bench(tmp_path, setting(max_message_bytes=65_536)).reset()
    shown = look(0)
    text = json.dumps(reply(shown)).encode()
    made.acts = [lambda: made.write(0, text + b" " * (65_536 - len(text)))]
    assert isinstance(made.ask(shown).decision, ActionChunk)
    made.actor.close()


# -- wrong numbers and late answers ------------------------------------------------------------------------------


def test_an_answer_under_another_number_is_recorded_and_not_executed(bench: Bench) -> None:
    first, second = look(0), look(1)
    bench.acts = [lambda: bench.write(0, reply(first))]
    bench.ask(first)
    bench.acts = [lambda: bench.write(2, reply(look(2)))]
    with pytest.raises(PolicyFault) as caught:
        bench.ask(second)
    assert caught.value.code == "invalid_response_schema"
    assert "00002.json" in caught.value.message
    (event,) = bench.events("wrong_index")
    assert (event["file"], event["due"]) == ("act/00002.json", 1)
    assert len(event["sha256"]) == 64


def test_an_answer_that_waits_for_its_observation_is_no_answer_to_it(bench: Bench) -> None:
    bench.write(0, reply(look(0)))
    assert _code(PolicyFault, lambda: bench.ask(look(0))) == "invalid_response_schema"
    assert bench.events("wrong_index")[0]["file"] == "act/00000.json"
    assert (bench.folder / "obs" / "00000.json").exists()  # so that no actor waits for it for ever


def test_after_a_wrong_number_the_same_name_takes_a_new_answer_when_it_is_due(bench: Bench) -> None:
    bench.acts = [lambda: bench.write(1, reply(look(1)))]
    assert _code(PolicyFault, lambda: bench.ask(look(0))) == "invalid_response_schema"
    again = look(1, identity="0" * 32)
    bench.acts = [lambda: None, lambda: bench.write(1, reply(again, chunk={"vectors": [[0.25, 1.0]]}))]
    assert bench.ask(again).decision.vectors == [[0.25, 1.0]]
    assert len(bench.events("wrong_index")) == 1


def test_an_old_answer_under_a_wrong_number_is_not_taken_when_its_number_comes(bench: Bench) -> None:
    bench.acts = [lambda: bench.write(1, reply(look(1)))]
    assert _code(PolicyFault, lambda: bench.ask(look(0))) == "invalid_response_schema"
    assert _code(PolicyFault, lambda: bench.ask(look(1))) == "policy_timeout"


def test_many_wrong_numbers_are_counted_and_not_listed_without_end(bench: Bench) -> None:
    def flood() -> None:
        for index in range(10, 60):
            bench.write(index, b"{}")

    bench.acts = [flood]
    assert _code(PolicyFault, lambda: bench.ask(look(0))) == "invalid_response_schema"
    events = bench.events("wrong_index")
    assert len(events) == 9
    assert events[-1]["more"] == 42


def test_a_folder_full_of_names_is_charged_to_the_actor(bench: Bench, monkeypatch: Any) -> None:
    monkeypatch.setattr(mailbox_folder, "MAX_NAMES", 20)
    for number in range(25):
        (bench.act / f"note-{number}").touch()
    assert _code(PolicyFault, lambda: bench.ask(look(0))) == "invalid_response_schema"


def test_an_answer_after_the_deadline_is_recorded_as_late_and_never_executed(bench: Bench) -> None:
    shown = look(0)
    assert _code(PolicyFault, lambda: bench.ask(shown)) == "policy_timeout"
    data = json.dumps(reply(shown)).encode()
    bench.acts = [lambda: None, lambda: bench.write(0, data)]
    bench.actor.end("error")
    (event,) = bench.events("late_response")
    assert event["file"] == "act/00000.json"
    assert event["sha256"] == hashlib.sha256(data).hexdigest()
    assert (bench.folder / "done.json").exists()


def test_after_a_timeout_it_is_watched_for_the_close_timeout_and_no_longer(bench: Bench) -> None:
    assert _code(PolicyFault, lambda: bench.ask(look(0))) == "policy_timeout"
    start_s = bench.now_s
    bench.actor.end("error")
    assert bench.now_s - start_s == pytest.approx(1.0)
    assert bench.events("late_response") == []


def test_an_answer_that_comes_even_later_is_recorded_with_the_next_episode(bench: Bench) -> None:
    assert _code(PolicyFault, lambda: bench.ask(look(0))) == "policy_timeout"
    bench.actor.end("error")
    bench.write(0, reply(look(0)))
    bench.reset(EpisodeInfo("f" * 32, "x", 20.0, 1, 60, 7), name="f" * 32)
    (event,) = bench.events("late_response")
    assert event["episode"] == EPISODE


def test_an_ordinary_end_does_not_wait(bench: Bench) -> None:
    shown = look(0)
    bench.acts = [lambda: bench.write(0, reply(shown))]
    bench.ask(shown)
    start_s = bench.now_s
    bench.actor.end("step_limit")
    assert bench.now_s == start_s


def test_an_answer_that_is_there_only_after_the_last_look_before_the_deadline_is_late(bench: Bench) -> None:
    shown, deadline_s = look(1), bench.now_s + DEADLINE_S

    def at_the_deadline() -> None:
        if bench.now_s >= deadline_s:
            bench.write(1, reply(shown))

    bench.acts = [at_the_deadline] * 200
    assert _code(PolicyFault, lambda: bench.ask(shown)) == "policy_timeout"
    bench.actor.end("error")
    assert len(bench.events("late_response")) == 1
