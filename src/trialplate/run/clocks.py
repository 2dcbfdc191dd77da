"""Where a protocol registers how far clocks may be apart: what each run knows about the clocks of its arms.

Source: evidence specification, section 13, row 57.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trialplate.spec.schemes import ATTACHED, REMOTE, address_of, scheme_of

Facts = Mapping[str, Any]


def clock_facts(lock_document: Facts, arms: Collection[str], *, addresses: Mapping[str, str]) -> list[Facts]:
    """Return a ``clock_sync`` event for each arm of a run that has a clock of its own; none where nobody asks.

    The clock of a policy server is looked at; that of a client, which comes by itself, cannot be.
    """
    if lock_document["protocol"].get("clocks") is None:
        return []
    timeout_s = lock_document["protocol"]["budgets"]["connect_timeout_s"]
    return [
        _facts(arm, address=addresses.get(arm["name"]), timeout_s=timeout_s)
        for arm in lock_document["arms"]
        if arm["name"] in arms and scheme_of(arm["policy"]) in REMOTE | ATTACHED
    ]


def _facts(arm: Facts, *, address: str | None, timeout_s: float) -> Facts:
    told: dict[str, Any] = {"arm": arm["name"], "server_date": None, "sync_error_s": None}
    if scheme_of(arm["policy"]) not in REMOTE:
        return {**told, "sync_error_s_reason": "not_reported"}
    from trialplate.policies.client.clock import look_at_clock

    seen = look_at_clock(address_of(address or arm["policy"]), timeout_s=timeout_s)
    reason = {} if seen.reason is None else {"sync_error_s_reason": seen.reason}
    return {**told, "server_date": seen.server_date, "sync_error_s": seen.sync_error_s, **reason}
