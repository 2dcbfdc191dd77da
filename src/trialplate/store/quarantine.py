"""Move what cannot be trusted out of the way, with the reason beside it. Nothing is ever deleted.

``quarantine/<utc>-<reason>/`` holds ``reason.json`` and what was moved, under its own name and otherwise as it was.
Source: evidence specification, section 11.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from trialplate.canonical import canonical_json
from trialplate.errors import UsageError
from trialplate.store.chain import Stamp, system_clock
from trialplate.store.fsio import Storage, publish_new

QUARANTINE = "quarantine"
REASON = "reason.json"
SCHEMA = "trialplate.quarantine/1"
_CODE = re.compile("[a-z][a-z0-9_]{0,63}")


def set_aside(
    disk: Storage,
    path: Path,
    *,
    into: Path,
    reason: str,
    found: Sequence[str] = (),
    clock: Callable[[], Stamp] = system_clock,
) -> Path:
    """Move a file or folder to ``into``/quarantine/<utc>-<reason>/ and return where it lies now.

    ``reason``: a code, such as ``journal_broken``; ``found``: what was found, one line each. The reason is durable
    before anything moves: killed between the two, the thing is where it was, and can be set aside again.
    """
    if _CODE.fullmatch(reason) is None:
        raise UsageError(f"reason {reason!r}: expected a code of lower-case letters, digits and underscores")
    utc = clock().utc
    room = into / QUARANTINE
    name = f"{re.sub('[-:]', '', utc)}-{reason}"
    taken = disk.entries(room)
    number = next(n for n in range(1, len(taken) + 2) if (name if n == 1 else f"{name}-{n}") not in taken)
    place = room / (name if number == 1 else f"{name}-{number}")
    disk.make_folder(place)
    document = {"schema": SCHEMA, "utc": utc, "reason": reason, "moved": path.name, "found": list(found)}
    publish_new(disk, place / REASON, canonical_json(document), mode=0o444)
    disk.rename_noreplace(path, place / path.name)
    return place / path.name
