"""The contenders of the wire benchmark, each with its server in a process of its own, on loopback."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter, sleep
from typing import Any, Literal

import numpy as np
import wire_world

from trialplate import api
from trialplate.run.campaign import Progress

HERE = Path(__file__).parent
ROOT = HERE.parent
START_TIMEOUT_S = 60.0
PICTURES = "pictures.npz"
EPISODES = 2
PROTOCOL = """
schema = "trialplate.protocol/1"
name = "bench-wire"
question = "How many recorded steps a second?"
run_class = "development"

[suite]
name = "bench-wire"
version = "1"
scenarios = ["first-00"]
repeats = {repeats}

[budgets]
max_steps = {steps}

[[arms]]
name = "dummy"
policy = "{address}"
replan_interval = 1
"""


@dataclass(frozen=True, slots=True)
class Round:
    """One turn of a contender: steps, the seconds they took, the milliseconds of every call, and the bytes kept."""

    steps: int
    wall_s: float
    latencies_ms: tuple[float, ...]
    kept_bytes: int = 0

    @property
    def steps_per_s(self) -> float:
        """Steps a second."""
        return self.steps / self.wall_s

    @property
    def latency_ms(self) -> float:
        """Median milliseconds of a call."""
        return median(self.latencies_ms)


def peer_python(name: str) -> Path | None:
    """Return the interpreter of a peer's environment, None where it is not installed."""
    python = ROOT / ".peers" / name / "bin" / "python"
    return python if python.exists() else None


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def await_port(port: int, process: subprocess.Popen[Any]) -> None:
    """Wait until somebody listens."""
    deadline_s = monotonic() + START_TIMEOUT_S
    while monotonic() < deadline_s and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return
        sleep(0.05)
    raise SystemExit(f"{process.args} does not listen on port {port}")


@contextmanager
def process(command: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a program for the time of the context."""
    started = subprocess.Popen([str(part) for part in command], text=True, **options)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(10.0)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
        for stream in (started.stdin, started.stdout):
            if stream is not None:
                stream.close()


class Peer:
    """A peer's client in its own environment, which takes a turn whenever it is told to."""

    def __init__(self, stack: ExitStack, name: str, script: str, *options: str, pictures: Path) -> None:
        python, port = peer_python(name), free_port()
        assert python is not None
        quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        server = stack.enter_context(process([python, HERE / "peers" / script, "server", str(port)], **quiet))
        await_port(port, server)
        command = [python, HERE / "peers" / script, "client", str(port), pictures, *options]
        self._client = stack.enter_context(
            process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        )
        self._line()

    def turn(self, steps: int) -> Round:
        """Take ``steps`` steps, ``EPISODES`` times."""
        assert self._client.stdin is not None
        wall_s, latencies_ms = 0.0, []
        for _ in range(EPISODES):
            self._client.stdin.write(f"{steps}\n")
            self._client.stdin.flush()
            answer = json.loads(self._line())
            wall_s += answer["wall_s"]
            latencies_ms += answer["latencies_ms"]
        return Round(EPISODES * steps, wall_s, tuple(latencies_ms))

    def _line(self) -> str:
        assert self._client.stdout is not None
        line: str = self._client.stdout.readline()
        if not line:
            raise SystemExit(f"{self._client.args} ended with {self._client.wait()}")
        return line


class Ours:
    """A whole campaign over ws://, journal and all, with its recording; its server in another process.

    The first episode of a turn is not counted: the clock runs from its end to the end of the last one.
    """

    def __init__(self, stack: ExitStack, folder: Path, *, recording: Literal["detailed", "minimal"]) -> None:
        self._recording: Literal["detailed", "minimal"] = recording
        self._folder = Path(tempfile.mkdtemp(prefix="ours-", dir=folder))
        stack.callback(shutil.rmtree, self._folder)
        self._turns = 0
        self.address = stack.enter_context(serving("wire_policy:Dummy"))

    def turn(self, steps: int) -> Round:
        """Run a campaign of ``EPISODES`` + 1 episodes of ``steps`` steps."""
        self._turns += 1
        folder = self._folder / f"turn-{self._turns}"
        folder.mkdir()
        text = PROTOCOL.format(repeats=EPISODES + 1, steps=steps, address=self.address)
        (folder / "protocol.toml").write_text(text, encoding="utf-8")
        ended: list[tuple[float, Any]] = []

        def progress(now: Progress) -> None:
            if now.last is not None:
                ended.append((perf_counter(), now.last))

        lock = api.lock(api.load_protocol(folder / "protocol.toml"), into=folder / "campaign")
        campaign = api.run(lock, recording=self._recording, progress=progress)
        rows = [row for _, row in ended[1:]]
        assert all(row.control_steps == steps and row.termination == "step_limit" for row in rows)
        sizes = [(campaign.folder / row.exchange.path).stat().st_size for row in rows]
        latencies_ms = tuple(row.timing.call_p50_us / 1000 for row in rows)
        return Round(EPISODES * steps, ended[-1][0] - ended[0][0], latencies_ms, sum(sizes))


@contextmanager
def serving(policy: str, *options: str) -> Iterator[str]:
    """Serve a policy of this folder in another process; yield its ws:// address."""
    port = free_port()
    command = [sys.executable, "-m", "trialplate.cli", "policy", "serve", policy, "--bind", f"127.0.0.1:{port}"]
    path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    with process([*command, *options], stdout=subprocess.DEVNULL, env=environment, cwd=HERE) as server:
        await_port(port, server)
        yield f"ws://127.0.0.1:{port}"


@contextmanager
def suite_installed() -> Iterator[Path]:
    """Install suite ``bench-wire`` for this process, as a plug-in would be; yield a folder for everything else."""
    with tempfile.TemporaryDirectory(prefix="trialplate-bench-") as name:
        folder = Path(name)
        about = folder / "trialplate_bench_wire-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: trialplate-bench-wire\nVersion: 1\n")
        (about / "entry_points.txt").write_text("[trialplate.suites]\nbench-wire = wire_world:SUITE\n")
        sys.path.insert(0, name)
        try:
            yield folder
        finally:
            sys.path.remove(name)


def save_pictures(path: Path) -> None:
    """Write the pictures where peers can read them."""
    np.savez(path, **wire_world.pictures())
