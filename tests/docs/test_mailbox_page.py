"""The page about mailboxes: what it shows is what an actor and an operator meet."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pages import DOCS, blocks, first_words, protocols, rows, section, text

from mailbox_bench import Bench, camera, look, reply, seeing, setting
from trialplate import api
from trialplate.cli import app
from trialplate.errors import DEFAULT_STATUS, RECOVERABLE_FAULTS, PolicyFault, TrialplateError
from trialplate.examples.clients import mailbox_actor
from trialplate.policies.mailbox.instructions import TEMPLATE, template_text
from trialplate.record import EndReason
from trialplate.run.mailbox_launch import refuse_leaks
from trialplate.store.disclosures import COMPROMISED

PAGE = "mailbox.md"
ROOT = Path("/var/tmp/qhzkbdfg")


def test_the_text_of_the_page_is_the_text_of_every_actor_word_by_word() -> None:
    assert blocks(DOCS / PAGE, "text") == [template_text()]
    assert TEMPLATE == "actor_instructions_v1"


def test_the_protocol_of_the_page_can_be_locked_and_its_root_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "protocol.toml").write_text(protocols(PAGE)[0], encoding="utf-8")
    lock = api.lock(api.load_protocol(tmp_path / "protocol.toml"), into=tmp_path / "campaign")
    refuse_leaks(lock, root=ROOT, name="0a1b2c3d4e5f60718293a4b5c6d7e8f9", host="localhost")
    assert all(f"--root {ROOT}" in line for line in _commands("mailbox run"))
    assert f"--mailbox {ROOT}/" in _commands("actor instructions")[0]


def _commands(name: str) -> list[str]:
    lines = [line for body in blocks(DOCS / PAGE, "sh") for line in body.splitlines()]
    found = [line for line in lines if line.startswith(f"trialplate {name} ")]
    assert found, name
    return found


@pytest.mark.parametrize("name", ["mailbox run", "actor instructions", "disclose", "cutover"])
def test_every_command_of_a_mailbox_is_shown_as_it_can_be_typed(name: str) -> None:
    for line in _commands(name):
        app.parse_args(line.removeprefix("trialplate "), exit_on_error=False, print_error=False)


def test_the_files_of_the_page_are_the_files_of_a_mailbox(tmp_path: Path) -> None:
    import numpy as np

    pixels = np.arange(144, dtype=np.uint8).reshape(6, 8, 3)
    made = Bench(tmp_path, setting(observation=seeing(camera("primary")))).reset()
    shown = look(0, instruction="x", images={"primary": pixels})
    made.acts = [lambda: made.write(0, reply(shown))]
    made.ask(shown)
    made.actor.end("step_limit")
    there = {str(path.relative_to(made.folder)) for path in made.folder.rglob("*") if path.is_file()}
    assert there == first_words(PAGE, "What the actor sees")
    reason = json.loads((made.folder / "done.json").read_bytes())
    (cell,) = [row[1] for row in rows(PAGE, "What the actor sees") if "done.json" in row[0]]
    assert f"`{json.dumps(reason)}`" in cell
    for other in set(EndReason.__args__) - {"step_limit"}:  # type: ignore[attr-defined]
        assert f"`{other}`" in cell
    made.actor.close()


def test_every_fault_of_the_page_counts_as_it_says() -> None:
    shown = {}
    for _, recorded, status in rows(PAGE, "Rules"):
        code = re.findall(r"`(\w+)`", recorded)[0]
        assert DEFAULT_STATUS[code] == status, code
        shown[code] = status
    assert set(shown) >= RECOVERABLE_FAULTS - {"native_rejected"}  # that one is the world's answer to a good chunk


@pytest.mark.parametrize(
    ("left", "code"),
    [
        (b'{"protocol": "trial', "wire_malformed"),
        (b"{}", "invalid_response_schema"),
        (b"x" * 65_537, "message_too_large"),
    ],
)
def test_a_mistake_of_the_page_is_recorded_as_the_page_says(tmp_path: Path, left: bytes, code: str) -> None:
    made = Bench(tmp_path, setting(max_message_bytes=65_536)).reset()
    made.acts = [lambda: made.write(0, left)]
    with pytest.raises(TrialplateError) as caught:
        made.ask(look(0))
    assert caught.value.code == code in {w for row in rows(PAGE, "Rules") for w in re.findall(r"`(\w+)`", row[1])}
    made.actor.close()


def test_the_waits_of_the_page_are_those_of_a_mailbox(tmp_path: Path) -> None:
    made = Bench(tmp_path).reset()
    waits: list[float] = []
    pause = made.pause
    made.actor._pause = lambda wait_s: (waits.append(wait_s), pause(wait_s))[1]
    with pytest.raises(PolicyFault):
        made.ask(look(0))
    milliseconds = re.findall(r"every (\d+) ms", section(PAGE, "Rules"))
    assert [round(1000 * waits[0])] == [int(number) for number in milliseconds]
    made.actor.close()


def test_the_page_names_the_mark_of_a_leak_and_the_actor_that_is_shipped() -> None:
    assert f"`{COMPROMISED}`" in section(PAGE, "Leaks and cutover")
    assert "`mailbox_actor.py`" in text(DOCS / PAGE) and "`serve`" in text(DOCS / PAGE)
    assert mailbox_actor.serve.__doc__
