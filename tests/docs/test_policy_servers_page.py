"""The page about policy servers: its commands serve, its policy answers in batches, its arm runs."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pages import DOCS, blocks, protocols, rows, section, text

from trialplate import api
from trialplate.cli import app, output
from trialplate.errors import DEFAULT_STATUS
from trialplate.policies.client.openpi import describe_openpi
from trialplate.policies.client.websocket import describe
from trialplate.store.view import read_campaign

PAGE = "policy-servers.md"
CLI = [sys.executable, "-m", "trialplate.cli"]
NUMBER = re.compile(r"\d+\.\d+")


def commands(word: str) -> list[list[str]]:
    """Return the lines of the page that begin with ``trialplate policy WORD``, cut into arguments."""
    lines = [line for body in blocks(DOCS / PAGE, "sh") for line in body.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith(f"trialplate policy {word}")]


SERVE = commands("serve")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page: the policy of the page before, continued as this one says."""
    made = tmp_path_factory.mktemp("page")
    (still,), (many,) = blocks(DOCS / "policies.md", "python"), blocks(DOCS / PAGE, "python")
    (made / "still.py").write_text(f"{still}\n\n{many}", encoding="utf-8")
    identity = next(body for body in blocks(DOCS / PAGE, "toml") if "[[arms]]" not in body)
    (made / "identity.toml").write_text(identity, encoding="utf-8")
    return made


@contextmanager
def served(arguments: list[str], folder: Path) -> Iterator[str]:
    """Run a command of the page, on a free port; yield its address."""
    if "--bind" in arguments:
        at = arguments.index("--bind")
        arguments = arguments[:at] + arguments[at + 2 :]
    running = subprocess.Popen(
        [*CLI, *arguments, "--bind", "127.0.0.1:0", "--json"], cwd=folder, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert running.stdout is not None and running.stderr is not None
        said = ""
        while not said.endswith("}\n"):
            line = running.stdout.readline()
            assert line, running.stderr.read()
            said += line
        yield json.loads(said)["uri"]
    finally:
        running.terminate()
        _, complaint = running.communicate(timeout=20)
    assert (running.returncode, complaint) == (0, "")


def the_batching_one() -> list[str]:
    return next(arguments for arguments in SERVE if "--max-batch-size" in arguments)


@pytest.mark.parametrize("arguments", SERVE, ids=lambda arguments: " ".join(arguments[3:5]) or "plain")
def test_every_server_of_the_page_serves_and_ends_in_order(arguments: list[str], folder: Path) -> None:
    with served(arguments, folder) as uri:
        if "openpi" in arguments:
            metadata = describe_openpi(uri.removeprefix("openpi+"), connect_timeout_s=10.0, max_message_bytes=2**26)
            assert metadata["server"] == "trialplate"
            return
        hello = describe(uri, connect_timeout_s=10.0, max_message_bytes=2**26)
    assert (hello.registration.model is not None) == ("--identity" in arguments)
    assert hello.policy_spec.max_batch_size == (8 if "--max-batch-size" in arguments else 1)


def test_a_probe_prints_what_the_page_shows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ((*words, shown_uri, batch, size),) = commands("probe")
    with served([*the_batching_one(), "--identity", "identity.toml"], folder) as uri:
        code = output.guarded(app, [*words, uri, batch, size])
    printed = capsys.readouterr()
    assert (code, printed.err) == (0, "")
    (shown,) = blocks(DOCS / PAGE, "text")

    def form(said: str, address: str) -> list[str]:
        said = re.sub(r"registration [0-9a-f]{12}\b", "registration", said.replace(address, "ADDRESS"))
        return re.sub(r"batches of [\d, ]+", "batches", NUMBER.sub("N", said)).splitlines()

    assert form(printed.out, uri) == form(shown, shown_uri)


@pytest.mark.slow
def test_the_remote_arm_of_the_page_runs_and_says_how_many_were_decided_together(
    folder: Path, tmp_path: Path
) -> None:
    with served(the_batching_one(), folder) as uri:
        body = protocols(PAGE)[0].replace('version = "1"\n', 'version = "1"\nscenarios = ["pp-001"]\n', 1)
        body = body.replace("ws://127.0.0.1:8000", uri) + "\n[budgets]\nmax_steps = 3\n"
        (tmp_path / "protocol.toml").write_text(body, encoding="utf-8")
        lock = api.lock(api.load_protocol(tmp_path / "protocol.toml"), into=tmp_path / "campaign")
        api.run(lock, workers=1, executor="serial")
    (row,) = read_campaign(tmp_path / "campaign").rows
    assert (row.fault_code, row.control_steps) == (None, 3)


def test_every_fault_of_the_page_is_one() -> None:
    named = [word for row in rows(PAGE, "When something goes wrong") for word in re.findall(r"`(\w+)`", row[1])]
    assert len(named) >= 9
    assert set(named) <= set(DEFAULT_STATUS) | {"identity_changed"}


def test_the_states_of_the_page_are_those_that_a_policy_may_declare() -> None:
    shown = [re.findall(r"`(\w+)`", row[0])[0] for row in rows(PAGE, "Batches")]
    assert shown == ["none", "episode_keyed", "instance"]


def test_the_page_names_every_option_of_the_command() -> None:
    options = re.search(r"^### `trialplate policy serve.*?(?=^### )", text(DOCS / "commands.md"), re.S | re.M)
    assert options is not None
    known = set(re.findall(r"^\* `(--[a-z-]+)`", options[0], flags=re.MULTILINE))
    assert known - {"--max-message-bytes"} <= set(re.findall(r"--[a-z-]+", text(DOCS / PAGE)))
    assert "max_message_bytes" in section(PAGE, "When something")
