"""A campaign of the toy suite through mailboxes, in this process, with an actor in a thread for each mailbox."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trialplate import api
from trialplate.examples.clients.mailbox_actor import Decide, hosting, serve
from trialplate.lock import Lock
from trialplate.record import Row
from trialplate.run.mailbox_launch import Opened, run_mailboxes
from trialplate.store.view import read_campaign
from trialplate.testing.toy import Scripted

NAME = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
PROTOCOL = """
schema = "trialplate.protocol/1"
name = "night-study"
question = "Does the quiet arm carry the block?"
run_class = "development"

[suite]
name = "toy"
version = "1"
scenarios = ["toy-001", "toy-002"]

[[arms]]
name = "quiet-arm"
policy = "mailbox"

[arms.as_suite]
channels = ["hand", "block", "goal"]

[[arms]]
name = "same-here"
policy = "control:scripted"

[schedule]
interrupted = "replace"

[budgets]
call_timeout_s = 5
first_call_timeout_s = 5
close_timeout_s = 1
"""
Act = Callable[[Path], object]


def lock_toy(folder: Path, *, budgets: str = "", **changes: str) -> Lock:
    """Lock the protocol into a folder; ``changes``: found -> put."""
    text = PROTOCOL + budgets
    for found, put in changes.items():
        text = text.replace(found, put)
    protocol = folder.with_suffix(".toml")
    protocol.write_text(text, encoding="utf-8")
    return api.lock(api.load_protocol(protocol), into=folder / "lock.json")


class Actors:
    """Starts an actor for each mailbox that opens, as an orchestrator would, in a thread of its own."""

    def __init__(self, act: Act) -> None:
        self._act = act
        self.opened: list[Opened] = []
        self._threads: list[threading.Thread] = []

    def __call__(self, opened: Opened) -> None:
        self.opened.append(opened)
        thread = threading.Thread(target=self._act, args=(opened.folder,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(timeout=20)
            assert not thread.is_alive()


def run_threads(lock: Lock, root: Path, act: Act, **more: Any) -> tuple[list[Row], Actors]:
    """Run the mailboxes of a lock; return the rows of the campaign and the actors."""
    actors = Actors(act)
    run_mailboxes(lock, lock.path.parent, root=root, name=NAME, opened=actors, **more)
    actors.join()
    return list(read_campaign(lock.path.parent).rows), actors


def scripted(mailbox: Path) -> None:
    """Play as the scripted policy of the suite does."""
    serve(mailbox, hosting(Scripted(), mailbox), poll_s=0.002)


def deciding(decide: Decide) -> Act:
    """Return an actor that answers with ``decide``."""
    return lambda mailbox: serve(mailbox, decide, poll_s=0.002)


def events(row: Row, kind: str) -> list[dict[str, Any]]:
    """Return the details of the events of one kind."""
    return [json.loads(event.detail) for event in row.events if event.kind == kind]


def put(mailbox: Path, name: str, message: Any) -> None:
    """Write an answer whole and rename it."""
    staged = mailbox / "act" / f"{name}.tmp"
    staged.write_text(json.dumps(message), encoding="utf-8")
    staged.rename(mailbox / "act" / name)


def first_look(mailbox: Path) -> Any:
    """Wait for the first observation and return it."""
    path = mailbox / "obs" / "00000.json"
    while not path.exists():
        time.sleep(0.002)
    return json.loads(path.read_text(encoding="utf-8"))
