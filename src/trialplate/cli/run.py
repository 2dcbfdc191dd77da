"""Run a lock, and tell how the run ended; every command that runs attempts tells it in the same words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

from cyclopts import App, Parameter

from trialplate.cli.heads import attempts_bar, journal_head
from trialplate.cli.output import NO, YES, emit, plain
from trialplate.errors import UsageError

if TYPE_CHECKING:
    from trialplate.run.campaign import RunReport

Json = Annotated[bool, Parameter(name="--json", negative="")]


def register(app: App) -> None:
    """Add this group's command."""
    app.command(run)


def run(
    lock: Path,
    /,
    *,
    out: Path | None = None,
    workers: int = 1,
    executor: Literal["serial", "processes"] = "processes",
    resume: Annotated[bool, Parameter(negative="")] = False,
    policy: Annotated[tuple[str, ...], Parameter(consume_multiple=False)] = (),
    recording: Literal["minimal", "detailed"] = "detailed",
    json: Json = False,
) -> int:
    """Run every planned trial; every attempt becomes evidence.

    Parameters
    ----------
    lock
        The lock file, or the campaign folder that holds it.
    out
        The campaign folder; by default the folder of the lock.
    workers
        Worker processes. The result bytes are the same for any number.
    executor
        Where trials run. In worker processes an arm that exits or hangs costs its attempt only; serial runs
        everything in this process, and cannot end a call that never returns.
    resume
        Continue a campaign that was interrupted.
    policy
        Where a policy server is now, as ARM=ADDRESS, instead of where the protocol says; may be given again. The
        arm may be left out where only one is a policy server.
    recording
        What is kept of each call: minimal is all that scoring needs, detailed adds what the policy was shown.
    json
        Print one JSON document.
    """
    from trialplate import api
    from trialplate.lock import read_lock

    path = lock / "lock.json" if lock.is_dir() else lock
    folder = out if out is not None else path.parent
    with attempts_bar(folder, json=json) as show:
        campaign = api.run(
            path,
            into=out,
            workers=workers,
            executor=executor,
            resume=resume,
            recording=recording,
            addresses=addresses(read_lock(path).document["arms"], policy),
            progress=show,
        )
    done = campaign.report
    assert done is not None
    return tell_run(done, as_json=json)


def addresses(arms: Sequence[Mapping[str, Any]], given: Sequence[str]) -> dict[str, str]:
    """Read ARM=ADDRESS, or ADDRESS alone. Raises UsageError for what names no policy server of the lock."""
    from trialplate.spec.schemes import REMOTE, scheme_of

    remote = [arm["name"] for arm in arms if scheme_of(arm["policy"]) in REMOTE]
    found: dict[str, str] = {}
    for item in given:
        name, separator, address = item.partition("=")
        if not separator and len(remote) == 1:
            name, address = remote[0], item
        if name not in remote or not address:
            known = f"its policy servers are {', '.join(remote)}" if remote else "it has no policy server"
            raise UsageError(f"--policy {item!r}: expected ARM=ADDRESS for an arm of the lock; {known}")
        try:
            scheme_of(address)
        except ValueError as error:
            raise UsageError(f"--policy {item!r}: {error}") from None
        found[name] = address
    return found


def tell_run(
    done: RunReport, *, as_json: bool, more: Mapping[str, Any] | None = None, stream: TextIO | None = None
) -> int:
    """Print how a run ended and return its exit code. ``more``: further members; ``stream``: where the text goes."""
    errors = _error_count(done.folder)
    facts: dict[str, Any] = {
        "campaign": str(done.folder),
        "complete": done.complete,
        "planned": done.planned,
        "initiated": done.initiated,
        "errors": errors,
        "changed_inputs": list(done.changed_inputs),
        "stopped_by": done.stopped_by,
        "exploratory": list(done.exploratory),
        "halted": _halted(done.folder) if done.stopped_by == "systematic_error" else {},
        "journal_head": journal_head(done.folder),
        **(more or {}),
    }
    say = partial(print, file=stream)

    def text() -> None:
        say(f"{done.folder}: {done.initiated} attempts for {done.planned} trials, {errors} ERROR")
        if done.changed_inputs:
            say(f"NOT SCORABLE: the code or weights of {', '.join(done.changed_inputs)} changed during the run")
        for arm in done.exploratory:
            say(plain(f"EXPLORATORY {arm}: not the locked identity answered; no claim stands on this run"))
        for arm, message in facts["halted"].items():
            say(plain(f"HALTED {arm}: its first three trials all failed alike before any control: {message}"))
        if done.complete and done.stopped_by == "registered_stop":
            say("stopped by the registered rule; nothing is missing")
        if not (done.complete or done.changed_inputs or facts["halted"]):
            say("incomplete; continue with --resume")
        say(f"journal head {facts['journal_head']}\nKeep this outside: it proves what was recorded.")

    emit(facts, as_json=as_json, text=text)
    return YES if done.complete and not errors else NO


def _halted(folder: Path) -> dict[str, str]:
    """Return the arms under test that were halted, each with what its first trial ended with."""
    from trialplate.record.halting import systematic_error
    from trialplate.store.view import read_campaign

    view = read_campaign(folder)
    found = {}
    for arm in (arm["name"] for arm in view.lock_document["arms"] if arm["role"] == "arm"):
        rows = [row for row in view.rows if row.arm == arm]
        code = systematic_error(rows)
        if code is not None:
            found[arm] = f"{code}: {rows[0].fault_message}"
    return found


def _error_count(folder: Path) -> int:
    from trialplate import api

    return sum(outcome.status == "ERROR" for outcome in api.score(folder))
