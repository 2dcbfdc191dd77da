"""Held-out scenarios at the lock: what a ledger says of them, that a lock opens them, and whether it tells the truth.

Source: evidence specification, section 6; agents protocol: a holdout is spent once inspected for development.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trialplate.errors import LockError
from trialplate.interfaces import Scenario
from trialplate.lock import CONFIRMATORY, run_class
from trialplate.spec.protocol import Protocol
from trialplate.store.findings import Finding, finding
from trialplate.store.holdouts import LEDGER, LOCKED_RUN, Ledger, Pack, open_pack, pack_sha256, read_ledger
from trialplate.store.layout import LOCK


@dataclass(frozen=True, slots=True)
class Consulted:
    """A ledger that a lock looked into. ``packs``: those that its scenarios touch."""

    path: Path
    name: str
    ledger: Ledger
    packs: tuple[Pack, ...]

    def section(self) -> dict[str, Any]:
        """Return what the lock says of it."""
        return {
            "ledger": self.name,
            "head_sha256": self.ledger.head_sha256,
            "records": len(self.ledger.records),
            "packs": [_entry(pack) for pack in self.packs],
        }


def consult(protocol: Protocol, scenarios: Sequence[Scenario], *, base: Path) -> Consulted | None:
    """Look up the scenarios of a protocol in the ledger that it names, or in the one beside it; None without any.

    A ledger beside the protocol is looked into whether the protocol names it or not: a development run spends what it
    touches. Raises LockError ``holdout_unregistered`` where the protocol names a ledger that knows no pack of exactly
    these scenarios, and what ``read_ledger`` raises.
    """
    name = protocol.holdouts or LEDGER
    path = base / name
    if protocol.holdouts is None and not path.exists():
        return None
    ledger = read_ledger(path)
    digests = [scenario.sha256() for scenario in scenarios]
    if protocol.holdouts is not None and pack_sha256(digests) not in ledger.packs:
        raise LockError(
            f"{path} registers no pack of exactly these {len(digests)} scenarios (pack {pack_sha256(digests)}): "
            "register it before it is opened, or take `holdouts` out of the protocol and claim no holdout",
            code="holdout_unregistered",
        )
    return Consulted(path, name, ledger, tuple(pack for pack in ledger.packs.values() if pack.touched_by(digests)))


def record_openings(consulted: Consulted | None, lock_document: Mapping[str, Any], lock_sha256: str) -> None:
    """Record in the ledger that a lock opens its packs, before the lock is written."""
    if consulted is None:
        return
    registered = run_class(lock_document)
    purpose = LOCKED_RUN if registered == CONFIRMATORY else registered
    for pack in consulted.packs:
        open_pack(consulted.path, pack.sha256, purpose=purpose, lock_sha256=lock_sha256)


def holdout_findings(ledger: Ledger, lock_document: Mapping[str, Any], lock_sha256: str) -> list[Finding]:
    """Hold what a lock says of its packs against a ledger that the reader brings.

    Findings: ``expected_mismatch`` for a lock that looked into another ledger or is not recorded in this one,
    ``holdout_spent`` for a pack that was spent before the lock and is said not to have been. A lock that looked into
    no ledger claims no holdout: nothing is found.
    """
    section = lock_document.get("holdouts")
    if not isinstance(section, Mapping):
        return []
    before = ledger.until(section["head_sha256"])
    if before is None:
        found = "none of its records has this digest"
        return [_lock("expected_mismatch", "head_sha256", f"a head of {section['ledger']}", found)]
    found_here = []
    for index, entry in enumerate(section["packs"]):
        place = f"packs/{index}"
        then, now = before.packs.get(entry["pack_sha256"]), ledger.packs.get(entry["pack_sha256"])
        if then is None or now is None:
            found_here.append(_lock("expected_mismatch", place, "a registered pack", entry["pack_sha256"]))
            continue
        own = next((o.seq for o in now.openings if o.lock_sha256 == lock_sha256), None)
        if own is None:
            found_here.append(_lock("expected_mismatch", place, "an opening by this lock", "none in the ledger"))
        spent = next((o for o in now.openings if o.spends and (own is None or o.seq < own)), None)
        if spent is not None and entry["spent"] is None:
            when = f"opened for {spent.purpose} at {spent.utc}"
            found_here.append(_lock("holdout_spent", f"{place}/spent", "a pack that nobody had opened", when))
    return found_here


def _entry(pack: Pack) -> dict[str, Any]:
    spent = pack.spent
    return {
        "pack_sha256": pack.sha256,
        "author": pack.author,
        "registered_utc": pack.registered_utc,
        "spent": None if spent is None else {"purpose": spent.purpose, "utc": spent.utc},
    }


def _lock(code: str, pointer: str, expected: object, found: object) -> Finding:
    return finding(code, LOCK, pointer=f"/holdouts/{pointer}", expected=expected, found=found)
