"""Serve the environment: a driver in any language plays the arms of a lock over HTTP or WebSocket."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from trialplate.cli.heads import attempts_bar
from trialplate.cli.run import tell_run

Json = Annotated[bool, Parameter(name="--json", negative="")]
Flag = Annotated[bool, Parameter(negative="")]


def register(app: App) -> None:
    """Add this group's command."""
    app.command(serve)


def serve(
    lock: Path,
    /,
    *,
    token_file: Path,
    out: Path | None = None,
    arm: Annotated[tuple[str, ...], Parameter(consume_multiple=False)] = (),
    bind: str = "127.0.0.1:8712",
    allow_remote: Flag = False,
    resume: Flag = False,
    recording: Literal["minimal", "detailed"] = "detailed",
    idle_timeout_s: float = 3600.0,
    json: Json = False,
) -> int:
    """Serve the environment to a driver that plays arms of a lock from outside, over HTTP or WebSocket.

    Prints the address and waits for the driver; nothing is recorded before it asks for its first episode. Ctrl-C and
    SIGTERM end the run in order.

    Parameters
    ----------
    lock
        The lock file, or the campaign folder that holds it.
    token_file
        The file with the management token, mode 0600; made when it does not exist. Only the driver needs it.
    out
        The campaign folder; by default the folder of the lock.
    arm
        Only this served arm; may be given again. By default all of them.
    bind
        Host and port to listen on; port 0 takes a free one.
    allow_remote
        Let --bind name an address that other machines reach. What is sent is not encrypted.
    resume
        Continue a campaign that was interrupted, or whose other arms have run.
    recording
        detailed keeps what the policy was shown and answered; minimal keeps all that scoring needs.
    idle_timeout_s
        End, with exit code 1, when no driver has asked anything for so many seconds while an episode waits for one.
        Nothing is lost; --resume goes on.
    json
        Print one JSON document at the end; the address is then on standard error.
    """
    from trialplate.lock import read_lock
    from trialplate.run.service_launch import Doors, serving
    from trialplate.store.view import read_campaign
    from trialplate.verification import score_view

    locked = read_lock(lock / "lock.json" if lock.is_dir() else lock)
    folder = (out if out is not None else locked.path.parent).resolve()
    with serving(
        locked,
        folder,
        doors=Doors(bind, token_file, allow_remote),
        arms=arm,
        resume=resume,
        score=lambda campaign: score_view(read_campaign(campaign)),
        idle_timeout_s=idle_timeout_s,
    ) as (service, address):
        names = ", ".join(sorted(service.arms))
        print(
            f"serving {names} on {address}\n"
            f"token in {token_file}\n"
            f"{service.left} of {service.planned} trials to play; Ctrl-C ends it, --resume goes on",
            file=sys.stderr if json else sys.stdout,
            flush=True,
        )
        with attempts_bar(folder, json=json) as show:
            report = service.run(recording=recording, progress=show)
    if service.given_up is not None:
        print(f"GIVEN UP: {service.given_up}; nothing is lost", file=sys.stderr if json else sys.stdout)
    return tell_run(report, as_json=json)
