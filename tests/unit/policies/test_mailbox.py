"""The mailbox: what is put there, and an actor that reads it and answers over real files."""

from __future__ import annotations

import json
import os
import re
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
from trialplate.errors import PolicyFault, TrialplateError
from trialplate.examples.clients.mailbox_actor import answer, hosting, serve
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
