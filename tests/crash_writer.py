"""A writer as a process of its own, on a real disk with real syncs: `crash_writer.py FOLDER [LIMIT=NUMBER ...]`.

It starts the campaign in FOLDER, or goes on with it, prints each attempt that has ended, and ends with 1 and the
message of a failed write. LIMIT is the name of a resource limit of this process, or `uid`.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from golden import again, begin, finish, lock_bytes
from trialplate.canonical import sha256_hex
from trialplate.errors import StorageFailure
from trialplate.store.campaign import CampaignWriter
from trialplate.store.chain import HEAD, JOURNAL, read_head, scan
from trialplate.store.fsio import Disk
from trialplate.store.verify import check
from trialplate.store.view import read_campaign

LOCK = lock_bytes(repeats=1, interrupted="replace")


def go_on(folder: Path) -> CampaignWriter:
    """Return a writer: a new one where nothing was recorded yet."""
    started = folder / JOURNAL
    if started.exists() and started.stat().st_size:
        return again(folder, lock=LOCK, disk=Disk())
    return begin(folder, lock=LOCK, disk=Disk())


def assert_not_broken(folder: Path) -> None:
    """Clean or torn, and the head is not ahead."""
    if (folder / JOURNAL).exists():
        head = read_head((folder / HEAD).read_bytes()) if (folder / HEAD).exists() else None
        found = scan((folder / JOURNAL).read_bytes(), lock_sha256=sha256_hex(LOCK), head=head)
        assert found.status in ("clean", "torn"), found.problem


def assert_whole(folder: Path, *, told: list[str]) -> None:
    """Everything verifies, what was told to have ended is there, and every trial ended exactly once."""
    assert check(folder).findings == ()
    rows = {f"{row.trial_id}-{row.attempt}": row for row in read_campaign(folder).rows}
    assert all(rows[key].termination == "policy_stop" for key in told), "an attempt that had ended was lost"
    ended = sorted(key.partition("-")[0] for key, row in rows.items() if row.termination == "policy_stop")
    assert ended == [f"{n:06d}" for n in range(6)], "run twice, or not at all"


def main(folder: Path, limits: list[str]) -> int:
    """Write; return the exit code."""
    for limit in limits:
        name, _, number = limit.partition("=")
        if name == "uid":
            os.setuid(int(number))
        else:
            resource.setrlimit(getattr(resource, name), (int(number), int(number)))
    try:
        with go_on(folder) as writer:
            finish(writer, told=lambda key: os.write(1, f"{key}\n".encode()) and None)
    except StorageFailure as failure:
        os.write(2, failure.message.encode())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
