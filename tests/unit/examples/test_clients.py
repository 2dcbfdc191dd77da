"""The clients drive the service as the wire page says, and carry every number to the same bits."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stub_service import TOKEN, World, serving

import served_campaign
from trialplate.canonical import action_sha256
from trialplate.spec.registration import Registration

CLIENTS = Path(__file__).parents[3] / "src" / "trialplate" / "examples" / "clients"
IDENTITY = {"kind": "fixed_program", "model": {"name": "adder", "revision": "1"}}

AS_FUNCTION = """
def act(observation):
    x, y = observation["proprio"]["q"]
    if observation["images"]["front"]["encoding"] != "png":
        raise ValueError("the camera is declared as PNG")
    return [[x / 3, -0.0], [y / 7, 5e-324]]
"""
AS_MODULE = """
export function act(observation) {
  const [x, y] = observation.proprio.q;
  return [[x / 3, 0.125], [(y + 0.3) / 7, 5e-324]];
}
"""
AS_CLASS = """
import numpy as np
from trialplate.record import ActionChunk, Stop

class Adder:
    def __init__(self, *, weights=(), answer="rows"):
        self.answer = answer
        print("what a policy prints is no answer")
    def spec(self): raise AssertionError
    def reset(self, episode): self.seed = episode.policy_seed
    def act(self, observation):
        assert observation.images["front"].shape == (4, 5, 3) and self.seed == 7
        assert int(observation.images["front"][0, 0, 0]) == observation.call_index
        x, y = (float(value) for value in observation.proprio["q"])
        rows = [[x / 3, -0.0], [y / 7, 5e-324]]
        if self.answer == "stop": return Stop("enough")
        if self.answer == "raise": raise RuntimeError("no idea")
        if self.answer == "wide": return ActionChunk([[2.0, 0.0]])
        return ActionChunk(np.array(rows) if observation.call_index % 2 else rows)
    def close(self): pass
"""


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "identity.json").write_text(json.dumps(IDENTITY))
    (tmp_path / "adder.py").write_text(AS_FUNCTION)
    (tmp_path / "adder.mjs").write_text(AS_MODULE)
    (tmp_path / "arm.py").write_text(AS_CLASS)
    return tmp_path


def python_driver() -> list[str]:
    return [sys.executable, str(CLIENTS / "driver.py")]


def node_driver() -> list[str]:
    return [served_campaign.node(), str(CLIENTS / "driver.mjs")]


def bridge(*options: str) -> list[str]:
    return ["--", sys.executable, str(CLIENTS / "policy_bridge.py"), "arm.py:Adder", *options]


def drive(driver: list[str], policy: list[str], bench: Path, *, world: World) -> subprocess.CompletedProcess[str]:
    with serving(world) as address:
        return subprocess.run(
            [*driver, address, "token", "identity.json", *policy],
            cwd=bench,
            capture_output=True,
            text=True,
            timeout=60,
        )


def wanted(*, second: float, shift: float, episodes: int = 2, calls: int = 4) -> list[str]:
    """Return the digests of what the policy decides, worked out here."""
    digests = []
    for _ in range(episodes):
        q = np.array([0.1, -0.0])
        for _ in range(calls):
            rows = np.array([[q[0] / 3, second], [(q[1] + shift) / 7, 5e-324]])
            digests.append(action_sha256(rows))
            q = q + rows.sum(axis=0)
    return digests


DRIVERS = {
    "python, a function": (python_driver, ["adder:act"], {"second": -0.0, "shift": -0.0}),
    "python, a class behind the bridge": (python_driver, bridge(), {"second": -0.0, "shift": -0.0}),
    "node, a class behind the bridge": (node_driver, bridge(), {"second": -0.0, "shift": -0.0}),
    "node, a function": (node_driver, ["./adder.mjs"], {"second": 0.125, "shift": 0.3}),
}


@pytest.mark.parametrize("name", DRIVERS)
def test_row_38_a_driver_plays_every_episode_and_carries_actions_to_the_same_bits(name: str, bench: Path) -> None:
    driver, policy, numbers = DRIVERS[name]
    world = World()
    done = drive(driver(), policy, bench, world=world)
    assert (done.returncode, world.faults) == (0, []), done.stderr
    assert world.digests == wanted(**numbers)
    assert world.ended == "step_limit"


@pytest.mark.parametrize("driver", [python_driver, node_driver], ids=["python", "node"])
def test_a_stop_of_the_policy_ends_each_episode(driver: object, bench: Path) -> None:
    world = World()
    done = drive(driver(), bridge("--options", '{"answer": "stop"}'), bench, world=world)  # type: ignore[operator]
    assert (done.returncode, world.stops, world.digests) == (0, ["enough", "enough"], [])


@pytest.mark.parametrize("driver", [python_driver, node_driver], ids=["python", "node"])
@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("raise", "policy_exception: the policy answered policy_exception: policy raised in act"),
        ("wide", "invalid_action"),
    ],
)
def test_what_goes_wrong_in_the_policy_is_charged_to_it_and_the_run_goes_on(
    driver: object, answer: str, fault: str, bench: Path
) -> None:
    world = World()
    done = drive(driver(), bridge("--options", json.dumps({"answer": answer})), bench, world=world)  # type: ignore[operator]
    assert done.returncode == 0, done.stderr
    assert [found[: len(fault)] for found in world.faults] == [fault, fault]


@pytest.mark.parametrize("driver", [python_driver, node_driver], ids=["python", "node"])
def test_a_driver_without_the_token_ends_and_says_why(driver: object, bench: Path) -> None:
    (bench / "token").write_text("something else")
    done = drive(driver(), bridge(), bench, world=World())  # type: ignore[operator]
    assert done.returncode == 1
    assert "unauthorized" in done.stderr


@pytest.mark.parametrize("driver", [python_driver, node_driver], ids=["python", "node"])
def test_a_policy_that_dies_ends_the_driver_and_no_episode_is_played_without_it(driver: object, bench: Path) -> None:
    (bench / "dies.py").write_text('input()\nprint("{}", flush=True)\ninput()\n')
    world = World()
    done = drive(driver(), ["--", sys.executable, "dies.py"], bench, world=world)  # type: ignore[operator]
    assert done.returncode == 1
    assert "the policy has ended" in done.stderr
    assert (world.digests, world.faults, world.ended) == ([], [], "")


@pytest.mark.parametrize("driver", [python_driver, node_driver], ids=["python", "node"])
def test_a_driver_registers_the_identity_that_it_is_given(driver: object, bench: Path) -> None:
    world = World(episodes=0)
    assert drive(driver(), bridge(), bench, world=world).returncode == 0  # type: ignore[operator]
    assert world._registration == Registration.model_validate_json(json.dumps(IDENTITY)).sha256()


def test_the_python_driver_is_short_and_needs_the_standard_library_only() -> None:
    text = (CLIENTS / "driver.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert imported <= sys.stdlib_module_names


def test_the_node_driver_needs_no_package() -> None:
    text = (CLIENTS / "driver.mjs").read_text(encoding="utf-8")
    imported = [line.split('"')[1] for line in text.splitlines() if line.startswith("import ")]
    assert imported and all(name.startswith("node:") for name in imported)
    assert "require(" not in text
