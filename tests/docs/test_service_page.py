"""The page of the service: its commands are run, its drivers drive, its tables are those of the code."""

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

import served_campaign as sc
from trialplate.errors import DEFAULT_STATUS
from trialplate.policies.messages import HTTP_STATUS
from trialplate.policies.service import connections, desk, http, sockets
from trialplate.store.view import read_campaign

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
HEAD = """
schema = "trialplate.protocol/1"
name = "served"
question = "Does the page tell the truth?"
run_class = "development"
suite = { name = "toy-reach", version = "1", scenarios = ["reach-001", "reach-002"] }
budgets = { max_steps = 20, close_timeout_s = 0.2, call_timeout_s = 10.0, first_call_timeout_s = 10.0 }
"""
POLICY = {
    "my_policy.py": """
def act(seen):
    x, y, z = seen["proprio"]["ee_pos"]
    step = [min(max(goal - at, -0.05), 0.05) for goal, at in ((0.5, x), (0.0, y), (0.3, z))]
    return [[*step, 0.0, 0.0, 0.0, 0.0 if max(map(abs, step)) < 0.01 else 1.0]]
""",
    "my_policy.mjs": """
export function act(seen) {
  const [x, y, z] = seen.proprio.ee_pos;
  const step = [[0.5, x], [0.0, y], [0.3, z]].map(([goal, at]) => Math.min(Math.max(goal - at, -0.05), 0.05));
  return [[...step, 0.0, 0.0, 0.0, Math.max(...step.map(Math.abs)) < 0.01 ? 0.0 : 1.0]];
}
""",
    "arm.py": """
from trialplate.testing.reach_controls import Scripted
class Arm(Scripted):
    def __init__(self, *, weights=()):
        assert [path.name for path in weights] == ["arm.npz"]
        super().__init__()
""",
    "arm.npz": "a checkpoint",
    "identity.json": '{"kind": "fixed_program"}',
}


def blocks(language: str) -> list[str]:
    return [body for name, body in FENCE.findall(PAGE) if name == language]


def commands() -> list[list[str]]:
    """Return every command line of the page, as words; a free port in place of the one that is shown."""
    lines = [line for body in blocks("sh") for line in body.splitlines()]
    return [shlex.split(line.replace("127.0.0.1:8712", "127.0.0.1:0")) for line in lines]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study as the page describes it, locked with the page's own command."""
    for name, text in POLICY.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (arm,) = blocks("toml")
    (tmp_path / "protocol.toml").write_text(HEAD + arm, encoding="utf-8")
    lock = next(words for words in commands() if words[:2] == ["trialplate", "lock"])
    subprocess.run(sc.command(*lock[1:]), cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@contextmanager
def served(folder: Path, *, resume: bool = False) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the page's own command; give the process and the address that it prints."""
    found = [words for words in commands() if words[:2] == ["trialplate", "serve"]]
    assert len(found) == 2
    words = next(words for words in found if ("--resume" in words) == resume)
    process = subprocess.Popen(sc.command(*words[1:]), cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().split()[-1]
    finally:
        process.kill()
        process.communicate(timeout=10)


def assert_complete(folder: Path, process: subprocess.Popen[str]) -> None:
    assert process.wait(20) == 0
    view = read_campaign(folder / "campaign")
    assert view.complete is True and all(row.control_steps > 5 for row in view.rows) and len(view.rows) == 2


@pytest.mark.parametrize("language", ["python", "js"])
def test_the_driver_on_the_page_plays_the_run(folder: Path, language: str) -> None:
    interpreter = sys.executable if language == "python" else sc.node()
    (text,) = blocks(language)
    program = folder / {"python": "drive.py", "js": "drive.mjs"}[language]
    program.write_text(text, encoding="utf-8")
    with served(folder) as (process, address):
        subprocess.run([interpreter, str(program), address, "token"], cwd=folder, check=True, timeout=60)
        assert_complete(folder, process)


@pytest.mark.parametrize("program", ["python", "node"])
def test_the_command_line_of_a_shipped_driver_plays_the_run(folder: Path, program: str) -> None:
    sc.driver(program)
    words = next(words for words in commands() if words[0] == program)
    for name in ("driver.py", "driver.mjs", "policy_bridge.py"):
        (folder / name).write_text((sc.CLIENTS / name).read_text(encoding="utf-8"), encoding="utf-8")
    with served(folder) as (process, address):
        words = [address if word.startswith("http://") else word for word in words]
        words = [sys.executable if word == "python" else word for word in words]
        subprocess.run(words, cwd=folder, check=True, timeout=60)
        assert_complete(folder, process)


def test_the_command_to_go_on_goes_on(folder: Path) -> None:
    (folder / "drive.py").write_text(blocks("python")[0], encoding="utf-8")
    with served(folder) as (process, _):
        process.kill()
    with served(folder, resume=True) as (process, address):
        subprocess.run([sys.executable, "drive.py", address, "token"], cwd=folder, check=True, timeout=60)
        assert_complete(folder, process)


def test_every_fault_on_the_page_has_the_status_and_the_answer_of_the_code() -> None:
    section = PAGE.partition("## When something goes wrong")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line[:1] == "|"][2:]
    assert len(rows) >= 10
    for _, heard, recorded, counted in rows:
        code = recorded.strip("`")
        assert DEFAULT_STATUS[code] == counted, code
        if (told := re.match(r"(\d{3})", heard)) and not heard.startswith(("200", "409 when")):
            assert HTTP_STATUS[code] == int(told[1]), code


def test_every_limit_on_the_page_is_that_of_the_code() -> None:
    section = PAGE.partition("## How much it takes")[2].partition("\n## ")[0]
    found = [re.findall(r"\d+", line.split("|")[2]) for line in section.splitlines() if line[:1] == "|"][2:]
    wanted = [
        (desk.DECISION_BYTES, desk.BYTES_PER_NUMBER), (desk.MANAGEMENT_BYTES,),
        (connections.MAX_HEADER_BYTES, connections.HEADER_TIMEOUT_S), (http.BODY_TIMEOUT_S,), (http.MAX_HELD,),
        (sockets.MAX_SOCKETS,), (connections.MAX_CONNECTIONS,), (connections.STALL_TIMEOUT_S,),
    ]  # fmt: skip
    assert found == [[f"{number:g}" for number in numbers] for numbers in wanted]


def test_the_registration_on_the_page_is_json() -> None:
    (text,) = re.findall(r'here `(\{"kind".*?\})`', PAGE)
    assert json.loads(text) == json.loads(POLICY["identity.json"])
