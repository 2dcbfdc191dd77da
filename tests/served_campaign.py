"""Campaigns that are played from outside, with real processes: `trialplate serve`, and drivers that attach to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from trialplate import api
from trialplate.errors import EvidenceError
from trialplate.lock import Lock
from trialplate.record import Row
from trialplate.store.view import read_campaign

CLIENTS = Path(__file__).parents[1] / "src" / "trialplate" / "examples" / "clients"
PROTOCOL = "trialplate.policy/1"
HELLO: dict[str, Any] = {
    "protocol": PROTOCOL, "type": "hello", "role": "driver", "software": "test 1", "encodings": ["json"],
    "max_message_bytes": 2**26,
}  # fmt: skip
REGISTER: dict[str, Any] = {
    "protocol": PROTOCOL, "type": "register", "registration": {"kind": "fixed_program"}, "policy_spec": None,
}  # fmt: skip
STILL = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]

ARMS = '''
from time import sleep
from trialplate.spec.channels import ObservationSpec, PolicySpec
from trialplate.testing.reach_channels import ACTION, PROPRIO, cameras
from trialplate.testing.reach_controls import Scripted

class Arm(Scripted):
    """Goes to the goal; sees numbers only."""

class Seeing(Scripted):
    """The same, and is sent both pictures."""
    def spec(self):
        expects = ObservationSpec(instruction=True, cameras=cameras(), proprio=PROPRIO[:1])
        return PolicySpec(expects=expects, emits=ACTION, chunk_length=self.rows)
    def act(self, observation):
        assert observation.images["front"].shape == (64, 64, 3) and observation.images["wrist"].any()
        return super().act(observation)

class Slow(Scripted):
    """Takes its time over each answer."""
    def act(self, observation):
        sleep(0.05)
        return super().act(observation)
'''


def served(name: str, *, seen: Sequence[str] = ("ee_pos",), profile: str = "state", **more: str) -> str:
    """Return the table of an arm that a driver plays."""
    lines = {
        "name": f'"{name}"', "policy": '"served"', "profile": f'"{profile}"',
        "as_suite": f"{{ channels = {json.dumps(list(seen))}, chunk_length = 8 }}",
        "identity": '{ kind = "fixed_program" }', **more,
    }  # fmt: skip
    return "[[arms]]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())


def inside(name: str, policy: str, *, profile: str = "state", **more: str) -> str:
    """Return the table of an arm that runs in the harness' own process."""
    lines = {"name": f'"{name}"', "policy": f'"{policy}"', "profile": f'"{profile}"', **more}
    return "[[arms]]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())


def locked(
    folder: Path, *arms: str, scenarios: int = 3, repeats: int = 1, interrupted: str = "error", **budgets: str
) -> Lock:
    """Lock a protocol of toy-reach with these arms into ``folder / "c"``; the policies lie beside the protocol."""
    (folder / "arms.py").write_text(ARMS, encoding="utf-8")
    (folder / "identity.json").write_text('{"kind": "fixed_program"}', encoding="utf-8")
    times = {"call_timeout_s": "20.0", "first_call_timeout_s": "20.0", "close_timeout_s": "0.2", **budgets}
    names = ", ".join(f'"reach-{n + 1:03d}"' for n in range(scenarios))
    lines = "".join(f"{key} = {value}\n" for key, value in times.items())
    path = folder / "protocol.toml"
    path.write_text(
        'schema = "trialplate.protocol/1"\nname = "served"\nquestion = "Is it the same?"\n'
        f'run_class = "development"\n[suite]\nname = "toy-reach"\nversion = "1"\nscenarios = [{names}]\n'
        f"repeats = {repeats}\n"
        f'{"".join(arms)}[schedule]\norder = "manifest"\ninterrupted = "{interrupted}"\n[budgets]\n{lines}',
        encoding="utf-8",
    )
    return api.lock(api.load_protocol(path), into=folder / "c")


@dataclass
class Running:
    """A service in a process of its own."""

    process: subprocess.Popen[str]
    folder: Path
    address: str
    told: list[str]

    @property
    def token(self) -> str:
        return (self.folder / "token").read_text(encoding="ascii").strip()

    def client(self, *, token: bool = True) -> httpx.Client:
        """Return an HTTP client, with the management token or as an actor."""
        headers = {"authorization": f"Bearer {self.token}"} if token else {}
        return httpx.Client(base_url=self.address, headers=headers, timeout=30, trust_env=False)

    def begin(self, driver: httpx.Client, *, arm: str | None = None) -> str:
        """Say hello, register and start an episode; return the path of its actor."""
        named = {} if arm is None else {"arm": arm}
        driver.post("/v1/hello", json={**HELLO, **named}).raise_for_status()
        driver.post("/v1/register", json={**REGISTER, **named}).raise_for_status()
        return str(driver.post("/v1/episodes").raise_for_status().json()["actor"])

    def ended(self, *, expected: int = 0) -> tuple[str, str]:
        """Wait for the end of the process; return what it printed."""
        out, errors = self.process.communicate(timeout=90)
        assert self.process.returncode == expected, "\n".join(self.told) + out + errors
        return out, errors

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal."""
        self.process.send_signal(number)


def command(*arguments: str) -> list[str]:
    """Return the command line of `trialplate`."""
    return [sys.executable, "-m", "trialplate.cli", *arguments]


@contextmanager
def serving(folder: Path, *arguments: str, arm: str | None = None) -> Iterator[Running]:
    """Serve the campaign of a folder in a process of its own."""
    named = () if arm is None else ("--arm", arm)
    process = subprocess.Popen(
        command("serve", str(folder / "c"), "--bind", "127.0.0.1:0", "--token-file", str(folder / "token"),
                *named, *arguments),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    try:
        told = [process.stdout.readline().rstrip("\n") for _ in range(3)]
        assert "http://" in told[0], told[0] + process.stderr.read()
        address = next(word for word in told[0].split() if word.startswith("http://"))
        yield Running(process, folder, address, told)
    finally:
        process.kill()
        process.communicate(timeout=10)


def node() -> str:
    """Return the path of Node, or skip the test and say so."""
    found = shutil.which("node")
    new = found and subprocess.run(
        [found, "-e", "process.exit(Number(parseInt(process.versions.node) < 18))"], check=False
    )
    if not new or new.returncode:
        pytest.skip("Node 18 or newer is not installed: the driver in JavaScript was not tried")
    return str(found)


def driver(language: str) -> list[str]:
    """Return the command of a driver of the client kit."""
    if language == "python":
        return [sys.executable, str(CLIENTS / "driver.py")]
    return [node(), str(CLIENTS / "driver.mjs")]


def start_driver(running: Running, language: str, *policy: str) -> subprocess.Popen[str]:
    """Start a driver of the client kit. ``policy``: what follows the identity on its command line."""
    arguments = (running.address, str(running.folder / "token"), str(running.folder / "identity.json"), *policy)
    return subprocess.Popen(
        [*driver(language), *arguments], cwd=running.folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ),
    )  # fmt: skip


def bridge(policy: str, **options: Any) -> tuple[str, ...]:
    """Return the end of a driver's command line that puts a Python policy behind lines of JSON."""
    return (
        "--", sys.executable, str(CLIENTS / "policy_bridge.py"), policy, "--options", json.dumps(options),
    )  # fmt: skip


def drive(running: Running, language: str, *policy: str, expected: int = 0) -> str:
    """Play everything that is planned; return what the driver said on its error stream."""
    process = start_driver(running, language, *policy)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == expected, errors
    return errors


def decision(seen: Mapping[str, Any], vectors: Any = (STILL,), **changed: Any) -> dict[str, Any]:
    """Return a decision to an observation."""
    echoed = {name: seen[name] for name in ("episode", "call_index", "observation_id", "registration")}
    return {
        "protocol": PROTOCOL, "type": "decision", **echoed, "chunk": {"vectors": [list(row) for row in vectors]},
        "usage": None, "usage_reason": "not_metered", "latency_ms": None, "latency_ms_reason": "not_metered",
        **changed,
    }  # fmt: skip


def rows(folder: Path, arm: str) -> list[Row]:
    """Return the rows of an arm, in the order of the schedule."""
    return [row for row in read_campaign(folder / "c").rows if row.arm == arm]


def open_trials(folder: Path) -> int:
    """Return how many planned trials were never started; a service that was killed may have left a torn journal."""
    with suppress(EvidenceError):
        view = read_campaign(folder / "c")
        return len(view.schedule) - len({trial for trial, _ in view.started})
    return 1


def last_row(folder: Path) -> Row:
    """Return the row of the attempt that was started last, once it has ended; the campaign is being written."""

    def ended() -> Row | None:
        with suppress(EvidenceError):  # read in the middle of a write
            view = read_campaign(folder / "c")
            return next((row for row in view.rows if (row.trial_id, row.attempt) == view.started[-1]), None)
        return None

    found = eventually(ended)
    assert isinstance(found, Row)
    return found


def digests(folder: Path, arm: str) -> list[tuple[str, str | None, str | None]]:
    """Return scenario, digest of the executed actions and digest of the trace, for each attempt of an arm."""
    return [
        (row.scenario, row.actions_sha256, row.trace.content_sha256 if row.trace else None)
        for row in rows(folder, arm)
    ]


def verdicts(folder: Path, arm: str) -> list[tuple[str, str, str]]:
    """Return scenario, status and reason of each trial of an arm."""
    return [(o.scenario, o.status.value, o.reason) for o in api.score(folder / "c") if o.arm == arm]


def verified(folder: Path) -> dict[str, Any]:
    """Check a campaign in a process of its own; return the whole answer."""
    done = subprocess.run(
        command("verify", str(folder / "c"), "--json"), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def eventually(check: Any, *, within_s: float = 30.0) -> Any:
    """Return the first true answer of ``check``; fails when there is none in time."""
    pause = threading.Event()
    for _ in range(int(within_s / 0.02)):
        if found := check():
            return found
        pause.wait(0.02)
    raise AssertionError("it did not happen in time")
