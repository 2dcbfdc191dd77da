"""Commands for actors behind file mailboxes: run them, print what they are told, disclose what they were told too."""

from __future__ import annotations

import sys
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from trialplate.cli.output import YES, emit, plain
from trialplate.cli.run import tell_run

Json = Annotated[bool, Parameter(name="--json", negative="")]


def register(app: App) -> None:
    """Add this group's commands."""
    mailbox = App(name="mailbox", help="Run actors that read and write files.")
    mailbox.command(run)
    app.command(mailbox)
    actor = App(name="actor", help="What an anonymous actor is given.")
    actor.command(instructions)
    app.command(actor)
    app.command(disclose)
    app.command(cutover)


def run(
    lock: Path,
    /,
    *,
    root: Path,
    out: Path | None = None,
    arm: Annotated[tuple[str, ...], Parameter(consume_multiple=False)] = (),
    resume: Annotated[bool, Parameter(negative="")] = False,
    recording: Literal["minimal", "detailed"] = "detailed",
    name: str | None = None,
    host: str = "localhost",
    json: Json = False,
) -> int:
    """Run the arms of a lock that come through mailboxes. Prints the actor's text once, then each new mailbox.

    How the run ended is told on standard error, so that every line below the text is a mailbox.

    Parameters
    ----------
    lock
        The lock file, or the campaign folder that holds it.
    root
        Where the mailboxes are made: an empty folder whose path says nothing.
    out
        The campaign folder; by default the folder of the lock.
    arm
        Only this mailbox arm; may be given again. By default all of them.
    resume
        Continue a campaign that was interrupted, or whose other arms have run.
    recording
        detailed keeps the pictures that were shown; minimal keeps all that scoring needs.
    name
        Name of the actor, 32 hex digits; by default a random one.
    host
        The machine as the actor's text calls it.
    json
        Print one JSON document at the end; mailboxes are then named on standard error.
    """
    from trialplate.lock import read_lock
    from trialplate.run.mailbox_launch import Opened, run_mailboxes
    from trialplate.run.streams import tell

    label, locked = name or token_hex(16), read_lock(_lock_path(lock))
    told: list[Opened] = []

    def opened(mailbox: Opened) -> None:
        stream = sys.stderr if json else sys.stdout
        if not told:
            text = mailbox.instructions
            tell(f"{text.text}\n{_identity(text)}\nname {label}\n", stream=stream)
        told.append(mailbox)
        tell(str(mailbox.folder), stream=stream)

    done = run_mailboxes(
        locked,
        (out if out is not None else locked.path.parent).resolve(),
        root=root,
        name=label,
        host=host,
        arms=arm,
        resume=resume,
        recording=recording,
        opened=opened,
        broke=lambda fault: print(f"stopped: {plain(fault.message)}", file=sys.stderr),
    )
    mailboxes = [{"folder": str(item.folder), **item.instructions.document()} for item in told]
    return tell_run(done, as_json=json, more={"name": label, "mailboxes": mailboxes}, stream=sys.stderr)


def instructions(
    lock: Path, /, *, host: str = "localhost", mailbox: str = "{mailbox}", arm: str | None = None, json: Json = False
) -> int:
    """Print what an actor is told, word by word, and its digests. Never type it by hand.

    Parameters
    ----------
    lock
        The lock file, or the campaign folder that holds it.
    host
        The machine as the text calls it.
    mailbox
        The mailbox of the actor; left out, its place in the text stays open.
    arm
        The arm, where several with different actions come through mailboxes.
    json
        Print one JSON document.
    """
    from trialplate.lock import read_lock
    from trialplate.run.mailbox_launch import actor_text

    text = actor_text(read_lock(_lock_path(lock)), host=host, mailbox=mailbox, arm=arm)
    emit(
        {**text.document(), "text": text.text},
        as_json=json,
        text=lambda: print(f"{text.text}\n{_identity(text)}"),
    )
    return YES


def disclose(
    campaign: Path,
    /,
    *,
    attempt: str,
    what: str,
    channel: str | None = None,
    found_by: str | None = None,
    json: Json = False,
) -> int:
    """Record that identifying context reached the actor of an attempt. It stays counted and is never run again.

    Parameters
    ----------
    campaign
        The campaign folder.
    attempt
        The attempt, for instance 000003-0, its trial (000003), or the name of its mailbox.
    what
        What the actor could read.
    channel
        Where it could read that: label, path, message, ...
    found_by
        Who found it.
    json
        Print one JSON document.
    """
    from trialplate.store.disclosing import disclose_leak

    record = disclose_leak(campaign, attempt=attempt, what=what, channel=channel, found_by=found_by)
    return _recorded(campaign, record, json=json)


def cutover(campaign: Path, /, *, first_attempt: str, change: str, json: Json = False) -> int:
    """Record beside the lock that the operator works differently from an attempt on.

    Parameters
    ----------
    campaign
        The campaign folder.
    first_attempt
        The first attempt of the new practice, for instance 000003-0, or its trial; it may still lie ahead.
    change
        What is done differently.
    json
        Print one JSON document.
    """
    from trialplate.store.disclosing import record_cutover

    return _recorded(campaign, record_cutover(campaign, first_attempt=first_attempt, change=change), json=json)


def _recorded(campaign: Path, record: Any, *, json: bool) -> int:
    facts = {"campaign": str(campaign), "type": record["type"], "seq": record["seq"], **record["data"]}

    def text() -> None:
        named = facts.get("attempt") or facts["first_attempt"]
        print(f"{named}: recorded as {record['type']}, record {record['seq']} of the journal")
        print("score, analyse, judge and report this campaign again: what they wrote before does not know of it")

    emit(facts, as_json=json, text=text)
    return YES


def _identity(text: Any) -> str:
    return f"template {text.template} {text.template_sha256}\nrendered {text.rendered_sha256}"


def _lock_path(lock: Path) -> Path:
    return lock / "lock.json" if lock.is_dir() else lock
