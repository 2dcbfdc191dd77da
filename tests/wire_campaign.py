"""Small campaigns of toy-reach over the wires of the policy contract, with real processes on both ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trialplate.record import Row
from trialplate.store.view import read_campaign

ARMS = '''
import os
import time
from pathlib import Path
from trialplate.testing.reach_controls import Scripted

class Arm(Scripted):
    """Keeps nothing between episodes."""

class Raising(Scripted):
    def act(self, observation):
        raise RuntimeError("no weights here")

class Rude(Scripted):
    """Ends its process in the middle of its second episode."""
    episodes = 0
    def reset(self, episode):
        super().reset(episode)
        type(self).episodes += 1
    def act(self, observation):
        if self.episodes == 2 and observation.step_index >= 3:
            os._exit(9)
        return super().act(observation)

class Pausing(Scripted):
    """Pauses in the middle of its second episode, once: the mark beside this file says that it has begun to."""
    episodes = 0
    def reset(self, episode):
        super().reset(episode)
        self.episodes += 1
    def act(self, observation):
        mark = Path(__file__).parent / "paused"
        if self.episodes == 2 and observation.step_index >= 3 and not mark.exists():
            mark.touch()
            time.sleep(60)
        return super().act(observation)

class Weighed(Pausing):
    """Has weights, and does not look at them."""
    def __init__(self, *, weights):
        super().__init__()

class Stepping(Scripted):
    """Counts its calls since the reset, and lets that show in how far it goes."""
    calls = 0
    def reset(self, episode):
        super().reset(episode)
        self.calls = 0
    def act(self, observation):
        self.calls += 1
        self.stride_m = 0.05 - 0.002 * (self.calls % 5)
        return super().act(observation)

class Counting(Scripted):
    """Remembers how many episodes it has had, and lets that show."""
    episodes = 0
    def reset(self, episode):
        super().reset(episode)
        self.episodes += 1
        self.stride_m = 0.05 - 0.002 * self.episodes
'''


def protocol(folder: Path, *arms: str, more: str = "", scenarios: int = 5) -> Path:
    """Write a protocol of toy-reach with these arms, and the policies of this file beside it."""
    policies = folder / "arms.py"
    if not policies.exists():  # a server may have loaded it: what is written again is another policy
        policies.write_text(ARMS, encoding="utf-8")
    names = ", ".join(f'"reach-{n + 1:03d}"' for n in range(scenarios))
    tables = "".join(f"\n[[arms]]\n{arm}\n" for arm in arms)
    path = folder / "protocol.toml"
    path.write_text(
        'schema = "trialplate.protocol/1"\nname = "wires"\nquestion = "Is it the same?"\nrun_class = "confirmatory"\n'
        f'[suite]\nname = "toy-reach"\nversion = "1"\nscenarios = [{names}]\n{tables}\n'
        '[schedule]\norder = "manifest"\n[budgets]\nconnect_timeout_s = 5.0\ncall_timeout_s = 5.0\n'
        f"first_call_timeout_s = 5.0\n{more}",
        encoding="utf-8",
    )
    return path


def arm(name: str, policy: str, **more: str) -> str:
    extra = "".join(f"\n{key} = {value}" for key, value in more.items())
    return f'name = "{name}"\npolicy = "{policy}"\nprofile = "state"{extra}'


@contextmanager
def served(file: Path, name: str, *arguments: str, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve a policy in a process of its own; yield its address and the process."""
    command = [sys.executable, "-m", "trialplate.cli", "policy", "serve", f"{file}:{name}", "--json", *arguments]
    running = subprocess.Popen(
        [*command, "--bind", f"127.0.0.1:{port}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert running.stdout is not None and running.stderr is not None
        said = ""
        while not said.rstrip().endswith("}"):
            line = running.stdout.readline()
            assert line, running.stderr.read()
            said += line
        yield json.loads(said)["uri"], running
    finally:
        running.kill()
        running.communicate(timeout=10)


def rows(folder: Path, arm: str) -> list[Row]:
    return [row for row in read_campaign(folder).rows if row.arm == arm]


def command(*arguments: str, expected: int = 0) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "trialplate.cli", *arguments, "--json"],
        capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == expected, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
