"""Arms whose clock nobody knows to be close to that of the harness, where a protocol registers how close it must be.

Source: evidence specification, section 13, row 57; site trials, section on what is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trialplate.spec.schemes import ATTACHED, REMOTE, scheme_of
from trialplate.store.clocks import CLOCK_SYNC
from trialplate.store.view import CampaignView

SYNC_UNVERIFIED = "sync_unverified"


def unsynchronised(view: CampaignView) -> tuple[str, ...]:
    """Return the arms of which some run started attempts without knowing that the clocks were close enough, sorted.

    An arm in the process of the harness has its clock. Empty where no tolerance is registered.
    """
    clocks = view.lock_document["protocol"].get("clocks")
    if clocks is None:
        return ()
    apart = {arm["name"] for arm in view.lock_document["arms"] if scheme_of(arm["policy"]) in REMOTE | ATTACHED}
    close: set[str] = set()
    found: set[str] = set()
    for record in view.records:
        data = record["data"]
        if record["type"] in ("run.open", "run.resume"):
            close.clear()
        elif record["type"] == "event" and data.get("kind") == CLOCK_SYNC:
            (close.add if _close(data, clocks) else close.discard)(data.get("arm"))
        elif record["type"] == "attempt.start" and data["arm"] in apart - close:
            found.add(data["arm"])
    return tuple(sorted(found))


def sync_blockers(view: CampaignView) -> list[str]:
    """Return ``sync_unverified`` where claims need close clocks and some arm is not known to have one."""
    clocks = view.lock_document["protocol"].get("clocks")
    return [SYNC_UNVERIFIED] if clocks is not None and clocks["required"] and unsynchronised(view) else []


def _close(data: Mapping[str, Any], clocks: Mapping[str, Any]) -> bool:
    error_s = data.get("sync_error_s")
    if not isinstance(error_s, int | float) or isinstance(error_s, bool):
        return False
    return bool(0 <= error_s <= clocks["max_sync_error_s"])
