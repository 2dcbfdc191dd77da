"""The mailbox: what is put there, what is taken, and everything that an actor may leave there instead."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mailbox_bench import (
    DEADLINE_S,
    EPISODE,
    INFO,
    MEASURE,
    SCENARIO,
    Bench,
    camera,
    look,
    reply,
    seeing,
    setting,
)
from trialplate.errors import ContractFault, HarnessFault, PolicyFault, StorageFailure, TrialplateError
from trialplate.examples.clients.mailbox_actor import answer, hosting, serve
from trialplate.interfaces import WitnessActor
from trialplate.policies.mailbox import folder as mailbox_folder
from trialplate.policies.mailbox.actor import MailboxActor
from trialplate.policies.messages import parse_observation
from trialplate.record import ActionChunk, EpisodeInfo, History, Issue, Remaining, Stop
from trialplate.spec.channels import ActionSpec, HistorySpec, ObservationSpec
from trialplate.testing.toy import ACTION, STANDARD, Scripted


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


def _pictures(stream: np.random.Generator, *shape: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return stream.integers(0, 256, shape, dtype=np.uint8)


# -- what is put there -----------------------------------------------------------------------------------------


def test_a_mailbox_has_exactly_the_files_of_the_contract(bench: Bench) -> None:
    first = look(0)
    bench.acts = [lambda: bench.write(0, reply(first))]
    bench.ask(first)
    bench.actor.end("policy_stop")
    names = {str(path.relative_to(bench.folder)) for path in bench.folder.rglob("*")}
    assert names == {"spec.json", "obs", "act", "obs/00000.json", "act/00000.json", "done.json"}
    assert json.loads((bench.folder / "done.json").read_bytes()) == {"reason": "policy_stop"}


def test_the_terms_are_there_before_anybody_is_told_of_the_folder(tmp_path: Path) -> None:
    told: list[tuple[str, list[str]]] = []

    def announce(folder: Path) -> dict[str, str]:
        told.append((folder.name, sorted(path.name for path in folder.iterdir())))
        return {"template_sha256": "ab"}

    made = Bench(tmp_path, announce=announce).reset(name="e" * 32)
    assert told == [("e" * 32, ["act", "obs", "spec.json"])]
    assert made.events("mailbox_opened") == [{"episode": EPISODE, "mailbox": "e" * 32, "template_sha256": "ab"}]
    made.actor.close()


def test_a_mailbox_has_a_random_name_that_follows_from_nothing(tmp_path: Path) -> None:
    actor = MailboxActor(tmp_path, setting())
    for _ in range(3):
        actor.reset(INFO, SCENARIO)  # the same episode each time
    actor.close()
    names = {path.name for path in tmp_path.iterdir()}
    assert len(names) == 3
    assert EPISODE not in names
    assert all(re.fullmatch(r"[0-9a-f]{32}", name) for name in names)


def test_an_actor_is_told_of_the_end_of_an_episode_that_was_broken_off(bench: Bench) -> None:
    bench.actor.close()
    assert json.loads((bench.folder / "done.json").read_bytes()) == {"reason": "aborted"}


def test_the_terms_hold_public_specs_and_limits_and_no_seed(bench: Bench) -> None:
    terms = json.loads((bench.folder / "spec.json").read_bytes())
    assert ObservationSpec.model_validate_json(json.dumps(terms["observation_spec"])) == STANDARD
    assert ActionSpec.model_validate_json(json.dumps(terms["action_spec"])) == ACTION
    assert terms["replan_interval"] == 1
    assert terms["limits"]["call_timeout_s"] == DEADLINE_S
    assert (terms["limits"]["max_calls"], terms["limits"]["max_calls_reason"]) == (None, "unlimited")
    assert "seed" not in json.dumps(terms)


@pytest.mark.parametrize("layout", ["hwc", "chw"])
def test_an_observation_reads_back_to_the_same_pixels_and_numbers(tmp_path: Path, layout: Any) -> None:
    stream = np.random.default_rng(5)
    spec = seeing(
        camera(layout=layout), camera("wrist-2", layout=layout, color="bgr"), history=HistorySpec(frames=2, actions=2)
    )
    shape = (6, 8, 3) if layout == "hwc" else (3, 6, 8)
    images = {name: _pictures(stream, *shape) for name in spec.camera_names}
    past = {name: (None, _pictures(stream, *shape)) for name in spec.camera_names}
    shown = look(
        0,
        instruction="bring the block to the goal",
        images=images,
        proprio={"hand": np.array([0.1 + 0.2]), "block": np.array([1 / 3]), "goal": np.array([-0.0])},
        history=History(past, (None, np.array([0.25, -1.0]))),
    )
    made = Bench(tmp_path, setting(observation=spec)).reset()
    seen: list[Any] = []

    class Watching:
        def reset(self, episode: EpisodeInfo) -> None:
            seen.append(episode)

        def act(self, observation: Any) -> Stop:
            seen.append(observation)
            return Stop()

    def respond() -> None:
        document = made.read(0)
        made.write(0, answer(document, hosting(Watching(), made.folder)(document, made.folder / "obs")))

    made.acts = [respond]
    assert made.ask(shown).decision == Stop()
    episode, observation = seen
    assert (episode.episode, episode.policy_seed) == (EPISODE, 0)
    for name in spec.camera_names:
        assert np.array_equal(observation.images[name], images[name])
        assert observation.history.images[name][0] is None
        assert np.array_equal(observation.history.images[name][1], past[name][1])
    for name, values in shown.proprio.items():
        assert observation.proprio[name].tobytes() == values.tobytes()
    assert np.array_equal(observation.history.actions[1], [0.25, -1.0])
    made.actor.close()


def test_a_picture_is_a_png_of_its_pixels_in_rows(tmp_path: Path) -> None:
    pixels = _pictures(np.random.default_rng(1), 6, 8, 3)
    made = Bench(tmp_path, setting(observation=seeing(camera()))).reset()
    shown = look(0, images={"front": pixels}, instruction="x")
    made.acts = [lambda: made.write(0, reply(shown))]
    made.ask(shown)
    path = made.folder / "obs" / made.read(0)["images"]["front"]
    assert path.read_bytes().startswith(b"\x89PNG")
    assert np.array_equal(np.asarray(Image.open(path)), pixels)
    assert b"tIME" not in path.read_bytes()
    made.actor.close()


def test_every_picture_is_there_before_the_observation_that_names_it(tmp_path: Path, monkeypatch: Any) -> None:
    order: list[str] = []
    rename = os.rename
    monkeypatch.setattr(os, "rename", lambda a, b, **k: (order.append(str(b)), rename(a, b, **k)))
    made = Bench(tmp_path, setting(observation=seeing(camera(), camera("wrist")))).reset()
    stream = np.random.default_rng(2)
    shown = look(0, instruction="x", images={n: _pictures(stream, 6, 8, 3) for n in ("front", "wrist")})
    made.acts = [lambda: made.write(0, reply(shown))]
    made.ask(shown)
    assert order[:4] == ["spec.json", "00000.front.png", "00000.wrist.png", "00000.json"]
    made.actor.close()


def test_under_feedback_the_same_look_comes_again_under_the_next_number(tmp_path: Path) -> None:
    pixels = _pictures(np.random.default_rng(3), 6, 8, 3)
    made = Bench(
        tmp_path, setting(observation=seeing(camera()), invalid_action_handling="feedback", max_calls=5)
    ).reset()
    first = look(0, instruction="x", images={"front": pixels}, identity="c" * 32)
    made.acts = [lambda: made.write(0, reply(first, chunk=None))]
    assert _code(PolicyFault, lambda: made.ask(first)) == "invalid_response_schema"
    issue = Issue("invalid_response_schema", None, None, "a decision")
    again = look(1, instruction="x", images={"front": pixels}, identity="c" * 32, issue=issue, step_index=0)
    made.acts = [lambda: made.write(1, reply(again))]
    assert isinstance(made.ask(again).decision, ActionChunk)
    one, two = made.read(0), made.read(1)
    assert two["issue"]["code"] == "invalid_response_schema"
    assert one["issue"] is None
    changed = {key for key in one if one[key] != two[key]}
    assert changed == {"call_index", "issue", "images", "remaining"}
    files = [(made.folder / "obs" / doc["images"]["front"]).read_bytes() for doc in (one, two)]
    assert files[0] == files[1]
    made.actor.close()


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


# -- a mailbox that breaks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", ["mailbox", "act", "root"])
def test_a_mailbox_that_is_taken_away_is_a_lost_wire(bench: Bench, gone: str) -> None:
    victim = {"mailbox": bench.folder, "act": bench.act, "root": bench.folder.parent}[gone]
    bench.acts = [lambda: shutil.rmtree(victim)]
    assert _code(HarnessFault, lambda: bench.ask(look(0))) == "transport_lost"


def test_a_mailbox_that_is_taken_away_between_calls_is_a_lost_wire(bench: Bench) -> None:
    shutil.rmtree(bench.folder)
    assert _code(HarnessFault, lambda: bench.ask(look(0))) == "transport_lost"
    assert _code(HarnessFault, lambda: bench.actor.end("error")) == "transport_lost"


def test_a_folder_of_answers_that_is_replaced_by_a_link_is_a_lost_wire(bench: Bench, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "00000.json").write_text(json.dumps(reply(look(0))))

    def replace() -> None:
        bench.act.rename(bench.folder / "gone")
        bench.act.symlink_to(other)

    bench.acts = [replace]
    assert _code(HarnessFault, lambda: bench.ask(look(0))) == "transport_lost"


def test_a_full_disk_says_so(bench: Bench, monkeypatch: Any) -> None:
    def full(handle: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageFailure) as caught:
        bench.ask(look(0))
    monkeypatch.undo()
    assert caught.value.code == "storage_failure"
    assert "No space left" in caught.value.message
    assert list((bench.folder / "obs").iterdir()) == []  # not even half a file


def test_a_file_that_cannot_be_read_for_our_own_reasons_is_not_charged_to_the_actor(
    bench: Bench, monkeypatch: Any
) -> None:
    really = os.open

    def few(path: Any, flags: int, *more: Any, **keywords: Any) -> int:
        if path == "00000.json":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return really(path, flags, *more, **keywords)

    def write() -> None:
        bench.write(0, reply(look(0)))
        monkeypatch.setattr(os, "open", few)

    bench.acts = [write]
    assert _code(HarnessFault, lambda: bench.ask(look(0))) == "transport_lost"


def test_a_name_that_is_taken_is_never_used_again(bench: Bench) -> None:
    other = Bench(bench.folder.parent)
    assert _code(HarnessFault, other.reset) == "connect_failed"


@pytest.mark.parametrize("name", ["../" + "0" * 29, "0" * 31, "0" * 31 + "G", "/" + "0" * 31, "", "0" * 32 + "\n"])
def test_a_name_that_is_not_opaque_makes_no_folder(tmp_path: Path, name: str) -> None:
    made = Bench(tmp_path / "root")
    assert _code(HarnessFault, lambda: made.reset(name=name)) == "connect_failed"
    assert not (tmp_path / "root").exists()


def test_a_link_in_the_place_of_an_observation_is_replaced_and_not_followed(bench: Bench, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (bench.folder / "obs" / "00000.json").symlink_to(target)
    shown = look(0)
    bench.acts = [lambda: bench.write(0, reply(shown))]
    bench.ask(shown)
    assert target.read_text() == "mine"
    assert bench.read(0)["call_index"] == 0


def test_a_folder_in_the_place_of_an_observation_is_a_lost_wire(bench: Bench) -> None:
    (bench.folder / "obs" / "00000.json").mkdir()
    assert _code(HarnessFault, lambda: bench.ask(look(0))) == "transport_lost"


def test_a_caller_that_nobody_listens_to_makes_the_attempt_an_error(tmp_path: Path) -> None:
    def announce(folder: Path) -> dict[str, str]:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    made = Bench(tmp_path, announce=announce)
    assert _code(HarnessFault, made.reset) == "connect_failed"
    made.actor.close()


def test_nothing_stays_open_after_close(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    made = Bench(tmp_path)
    for number in range(5):
        made.reset(name=f"{number:032x}")
        made.actor.end("aborted")
    made.actor.close()
    made.actor.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_asking_without_a_mailbox_is_refused(tmp_path: Path) -> None:
    assert _code(HarnessFault, lambda: Bench(tmp_path).ask(look(0))) == "transport_lost"


def test_it_is_an_actor_that_witnesses(bench: Bench) -> None:
    assert isinstance(bench.actor, WitnessActor)


# -- the reference actor, in real time -----------------------------------------------------------------------------


def test_the_reference_actor_hosts_a_policy_over_real_files(tmp_path: Path) -> None:
    harness = MailboxActor(tmp_path, setting())
    harness.reset(INFO, SCENARIO)
    (folder,) = tmp_path.iterdir()
    ended: list[str] = []
    decide = hosting(Scripted(), folder)
    actor = threading.Thread(
        target=lambda: ended.append(serve(folder, decide, poll_s=0.005, give_up_s=10.0)), daemon=True
    )
    actor.start()
    policy = Scripted()
    policy.reset(INFO)
    for index in range(3):
        shown = look(index, remaining=Remaining(5, 3 - index))
        got = harness.ask(shown, MEASURE).decision
        expected = policy.act(shown)
        assert isinstance(expected, ActionChunk) and isinstance(got, ActionChunk)
        assert got.vectors == expected.vectors
    harness.end("step_limit")
    actor.join(timeout=10)
    assert ended == ["step_limit"]
    harness.close()


def test_an_observation_of_a_mailbox_is_an_observation_of_the_contract(bench: Bench) -> None:
    shown = look(0)
    bench.acts = [lambda: bench.write(0, reply(shown))]
    bench.ask(shown)
    assert parse_observation(bench.read(0), STANDARD).observation_id == shown.observation_id
