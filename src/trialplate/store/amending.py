"""Add an amendment to a campaign: open its journal, append one record, and give it back."""

from __future__ import annotations

from pathlib import Path

from trialplate.canonical import sha256_hex
from trialplate.errors import UsageError
from trialplate.store.amendments import AMENDMENT, Amendment, amendment_of
from trialplate.store.campaign import CampaignWriter, Clock
from trialplate.store.chain import scan, system_clock
from trialplate.store.fsio import Disk, Storage
from trialplate.store.layout import LOCK


def amend(
    campaign: Path, *, kind: str, reason: str, text: str, disk: Storage | None = None, clock: Clock = system_clock
) -> Amendment:
    """Append an amendment to the lock of a campaign, before, between or after its runs; return it.

    Raises UsageError for a folder without a lock, ``amendment_changes_rule`` for any kind but the four that change no
    rule, ``campaign_busy`` while somebody writes; EvidenceError for a campaign that is broken.
    """
    disk = disk or Disk()
    if LOCK not in disk.entries(campaign):
        raise UsageError(f"{campaign} holds no {LOCK}: an amendment is one to a lock", code="no_campaign")
    digest = sha256_hex(disk.read(campaign / LOCK))
    with CampaignWriter.resume(campaign, lock_sha256=digest, disk=disk, clock=clock) as writer:
        return amendment_of(writer.amend(kind, reason=reason, text=text)["data"]["amendment"])


def only_amended(journal: Path, *, lock_sha256: str) -> bool:
    """Return whether nothing has been run yet: a journal that is empty, or holds nothing but amendments."""
    state = scan(journal.read_bytes(), lock_sha256=lock_sha256, head=None)
    return state.status == "clean" and all(record["type"] == AMENDMENT for record in state.records)
