"""Campaigns whose arms come through mailboxes, with real processes: `trialplate mailbox run`, and its actors."""

from __future__ import annotations

import json
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trialplate import api
from trialplate.lock import Lock
from trialplate.record import Row
from trialplate.store.view import read_campaign

NAME = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
ACTOR = Path(__file__).parents[1] / "src" / "trialplate" / "examples" / "clients" / "mailbox_actor.py"
UNMETERED = {"usage": None, "usage_reason": "not_metered", "latency_ms": None, "latency_ms_reason": "not_metered"}


@contextmanager
def opaque_root() -> Iterator[Path]:
    """Give a folder that is not there yet, whose path says nothing: letters that make no word and no number."""
    draw = random.SystemRandom()
    place = Path(tempfile.gettempdir()) / "".join(draw.choice("bdfghkqz") for _ in range(16))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def arm(name: str = "quiet-arm", *, seen: tuple[str, ...] = ("front", "ee_pos", "gripper"), **more: str) -> str:
    """Return the table of a mailbox arm; ``seen``: its channels."""
    channels = f"{{ channels = {json.dumps(list(seen))}, instruction = true }}"
    lines = {"name": f'"{name}"', "policy": '"mailbox"', "as_suite": channels, **more}
    return "[[arms]]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())


def locked(
    folder: Path, *arms: str, suite: str = "toy-reach", scenarios: tuple[str, ...] = ("reach-001", "reach-002"),
    interrupted: str = "error", **budgets: Any,
) -> Lock:  # fmt: skip
    """Lock a protocol with these arms into ``folder / "c"``."""
    times = {"call_timeout_s": 20.0, "first_call_timeout_s": 20.0, "close_timeout_s": 0.2, **budgets}
    path = folder / "protocol.toml"
    path.write_text(
        'schema = "trialplate.protocol/1"\nname = "night-study"\nquestion = "Does the quiet arm bring it home?"\n'
        f'run_class = "development"\n[suite]\nname = "{suite}"\nversion = "1"\nscenarios = {json.dumps(scenarios)}\n'
        f'{"".join(arms)}[schedule]\norder = "manifest"\nseed = 3731066294\ninterrupted = "{interrupted}"\n'
        "[budgets]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in times.items()),
        encoding="utf-8",
    )
    return api.lock(api.load_protocol(path), into=folder / "c")


def command(*arguments: str | Path) -> list[str]:
    """Return the command line of `trialplate`."""
    return [sys.executable, "-m", "trialplate.cli", *map(str, arguments)]


@dataclass
class Running:
    """`trialplate mailbox run` in a process of its own, whose lines are read while it runs."""

    process: subprocess.Popen[str]
    root: Path
    printed: list[str] = field(default_factory=list)
    folders: queue.Queue[Path | None] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(line)
            if line.startswith(f"{self.root}/"):
                self.folders.put(Path(line.strip()))
        self.folders.put(None)

    def mailbox(self, *, within_s: float = 60.0) -> Path | None:
        """Return the next mailbox that is announced, None when the run has ended."""
        return self.folders.get(timeout=within_s)

    def mailboxes(self) -> Iterator[Path]:
        """Yield each mailbox as it is announced, until the run has ended."""
        while (folder := self.mailbox()) is not None:
            yield folder

    def ended(self, *, expected: int = 0, within_s: float = 60.0) -> str:
        """Wait for the end of the process; return what it said on its error stream."""
        assert self.process.stderr is not None
        errors = self.process.stderr.read()
        assert self.process.wait(timeout=within_s) == expected, "".join(self.printed) + errors
        self._reader.join(timeout=10)
        return errors

    def kill(self) -> None:
        """Kill the process and wait for its death."""
        self.process.kill()
        self.process.wait(timeout=20)

    def close(self) -> None:
        """Give the pipes of a dead process back."""
        assert self.process.stdout is not None and self.process.stderr is not None
        self._reader.join(timeout=10)
        self.process.stdout.close()
        self.process.stderr.close()


@contextmanager
def running(folder: Path, root: Path, *arguments: str) -> Iterator[Running]:
    """Run the mailboxes of the campaign in ``folder / "c"``."""
    process = subprocess.Popen(
        command("mailbox", "run", folder / "c", "--root", root, "--name", NAME, *arguments),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    made = Running(process, root)
    try:
        yield made
    finally:
        made.kill()
        made.close()


def start_actor(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the actor of the client kit as a program: it stops at once."""
    return subprocess.Popen(
        [sys.executable, "-I", str(ACTOR), str(folder), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def observation(folder: Path, number: int = 0, *, within_s: float = 20.0) -> Any:
    """Wait for an observation and return it."""
    path = folder / "obs" / f"{number:05d}.json"
    pause = threading.Event()
    for _ in range(int(within_s / 0.005)):
        if path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
        pause.wait(0.005)
    raise AssertionError(f"{path} did not appear in time")


def reply(seen: Mapping[str, Any], **decided: Any) -> dict[str, Any]:
    """Return a complete answer; by default one row of zeros with the gripper open."""
    echoed = {key: seen[key] for key in ("protocol", "episode", "call_index", "observation_id", "registration")}
    return {**echoed, "type": "decision", **(decided or {"chunk": {"vectors": [[0.0] * 6 + [1.0]]}}), **UNMETERED}


def put(folder: Path, number: int, message: Any) -> Path:
    """Write an answer whole and rename it."""
    staged = folder / "act" / f"{number:05d}.json.tmp"
    staged.write_bytes(message if isinstance(message, bytes) else json.dumps(message).encode())
    return staged.rename(folder / "act" / f"{number:05d}.json")


def end_reason(folder: Path) -> str | None:
    """Return what ``done.json`` says, None when it is not there."""
    path = folder / "done.json"
    return json.loads(path.read_bytes())["reason"] if path.exists() else None


def rows(folder: Path, arm: str = "quiet-arm") -> list[Row]:
    """Return the rows of an arm, in the order in which they ended."""
    return [row for row in read_campaign(folder / "c").rows if row.arm == arm]


def events(row: Row, kind: str) -> list[dict[str, Any]]:
    """Return the details of the events of one kind."""
    return [json.loads(event.detail) for event in row.events if event.kind == kind]


def verdicts(folder: Path, arm: str = "quiet-arm") -> list[str]:
    """Return the status of each trial of an arm."""
    return [outcome.status.value for outcome in api.score(folder / "c") if outcome.arm == arm]


def verified(folder: Path) -> None:
    """Check a campaign, and that nothing is found."""
    assert api.verify(folder / "c").exit_code == 0
