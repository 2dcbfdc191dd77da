"""Add a disclosure to a campaign: open its journal, append one record, and give it back.

A campaign that is being written is refused (``campaign_busy``): its operator waits for the end, or interrupts it.
"""

from __future__ import annotations

import re
from pathlib import Path

from trialplate.canonical import sha256_hex
from trialplate.errors import UsageError
from trialplate.store.campaign import CampaignWriter, Clock
from trialplate.store.chain import Record, system_clock
from trialplate.store.disclosures import parse_attempt
from trialplate.store.fsio import Disk, Storage
from trialplate.store.layout import FIRST_ATTEMPT, LOCK
from trialplate.store.view import CampaignView, read_campaign

MAILBOX_EVENT = "mailbox_opened"
"""Kind of the event that names the mailbox of the attempt begun last, written before anybody is told of it."""


def disclose_leak(
    campaign: Path,
    *,
    attempt: str,
    what: str,
    channel: str | None = None,
    found_by: str | None = None,
    disk: Storage | None = None,
    clock: Clock = system_clock,
) -> Record:
    """Append a leak; ``attempt`` is ``000003-0``, a trial id (its last attempt), or the name of a mailbox.

    Raises UsageError for an attempt that was not started, ``campaign_busy`` while somebody writes; EvidenceError
    for a campaign that cannot be read.
    """
    view = read_campaign(campaign)
    key = find_attempt(view, attempt)
    with _writer(campaign, disk=disk, clock=clock) as writer:
        return writer.disclose_leak(key, what=what, channel=channel, found_by=found_by)


def record_cutover(
    campaign: Path, *, first_attempt: str, change: str, disk: Storage | None = None, clock: Clock = system_clock
) -> Record:
    """Append a cutover; ``first_attempt`` may lie ahead. Raises as :func:`disclose_leak`."""
    view = read_campaign(campaign)
    key = find_attempt(view, first_attempt, ahead=True)
    with _writer(campaign, disk=disk, clock=clock) as writer:
        return writer.record_cutover(key, change=change)


def find_attempt(view: CampaignView, text: str, *, ahead: bool = False) -> tuple[str, int]:
    """Return (trial id, number) of an attempt that is named in any of the three ways. Raises UsageError.

    ``ahead``: also the first attempt of a trial that has not started.
    """
    key = parse_attempt(text)
    if key is not None:
        return key
    started = dict(view.started)  # the last attempt of a trial stands last
    if text in started:
        return text, started[text]
    if ahead and any(planned.trial_id == text for planned in view.schedule):
        return text, FIRST_ATTEMPT
    if re.fullmatch(r"[0-9a-f]{32}", text):
        for record in view.records:
            data = record["data"]
            if record["type"] == "attempt.start":
                key = data["trial_id"], data["attempt"]
            elif key and record["type"] == "event" and data.get("kind") == MAILBOX_EVENT and data["mailbox"] == text:
                return key
    raise UsageError(
        f"no attempt {text!r} in {view.folder}: expected one of the {len(view.started)} started attempts, like "
        "000003-0, its trial, like 000003, or the 32 digits of its mailbox",
        code="no_such_attempt",
    )


def _writer(campaign: Path, *, disk: Storage | None, clock: Clock) -> CampaignWriter:
    disk = disk or Disk()
    digest = sha256_hex(disk.read(campaign / LOCK))
    return CampaignWriter.resume(campaign, lock_sha256=digest, disk=disk, clock=clock)
