"""Mailboxes whose run was killed: their actors wait for an end that nobody tells them.

Source: policy contract, section 4.4.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from trialplate.errors import HarnessFault
from trialplate.policies.mailbox.folder import DONE, OPAQUE, MailboxFolder
from trialplate.policies.wire import strict_json


def end_orphans(root: Path) -> tuple[str, ...]:
    """Put ``done.json`` (``aborted``) into each mailbox of ``root`` that has none and that no living run holds.

    Returns their names. What cannot be opened or written is left alone: nobody was told of it, or its disk says so
    again when the next mailbox is made.
    """
    told: list[str] = []
    for name in sorted(path.name for path in root.iterdir()) if root.is_dir() else ():
        if OPAQUE.fullmatch(name) is None:
            continue
        with suppress(HarnessFault):
            box = MailboxFolder(root / name)
            try:
                if box.claim() and not box.has_ended():
                    box.publish({DONE: strict_json.dumps({"reason": "aborted"})})
                    told.append(name)
            finally:
                box.close()
    return tuple(told)
