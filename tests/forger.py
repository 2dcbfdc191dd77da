"""Somebody without a key who rewrites a campaign and every digest that follows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from golden import StepClock
from trialplate.canonical import canonical_json, read_stored, sha256_hex
from trialplate.store.chain import Stamp, make_record, record_line

Edit = Callable[[dict[str, Any]], Any]
Clock = Callable[[], Stamp]


class Forger:
    """Edits a campaign and then recomputes every digest that follows, as somebody without a key can."""

    def __init__(self, folder: Path, *, clock: Clock | None = None) -> None:
        self.folder, self._clock = folder, clock or StepClock()
        lines = (folder / "journal.jsonl").read_bytes().splitlines()
        self.records: list[dict[str, Any]] = [read_stored(line) for line in lines]

    def edit_row(self, key: str, edit: Edit) -> None:
        path = self.folder / f"episodes/{key}/row.json"
        row = read_stored(path.read_bytes())
        edit(row)
        path.write_bytes(canonical_json(row))
        end = self.end_of(key)
        end["row_sha256"] = sha256_hex(path.read_bytes())
        end["termination"] = row["termination"]

    def end_of(self, key: str) -> dict[str, Any]:
        trial, attempt = key.split("-")
        return next(
            record["data"]
            for record in self.records
            if record["type"] == "attempt.end"
            and (record["data"]["trial_id"], record["data"]["attempt"]) == (trial, int(attempt))
        )

    def seal(self) -> None:
        """Rebuild the chain, the head and both indexes."""
        previous = sha256_hex((self.folder / "lock.json").read_bytes())
        data = b""
        for seq, record in enumerate(self.records):
            sealed = make_record(record["type"], record["data"], seq=seq, prev_sha256=previous, stamp=self._clock())
            previous = sealed["sha256"]
            data += record_line(sealed)
        (self.folder / "journal.jsonl").write_bytes(data)
        head = {"count": len(self.records), "head_sha256": previous, "size": len(data)}
        (self.folder / "head.json").write_bytes(canonical_json(head))
        ends = [record["data"] for record in self.records if record["type"] == "attempt.end"]
        ends.sort(key=lambda end: (end["trial_id"], end["attempt"]))
        rows = [self.folder / f"episodes/{end['trial_id']}-{end['attempt']}/row.json" for end in ends]
        (self.folder / "rows.jsonl").write_bytes(
            b"".join(path.read_bytes() + b"\n" for path in rows if path.exists())
        )
        completion = read_stored((self.folder / "completion.json").read_bytes())
        counts: dict[str, int] = {}
        for end in ends:
            counts[end["termination"]] = counts.get(end["termination"], 0) + 1
        completion |= {
            "attempts": len(ends),
            "terminations": counts,
            "journal": head,
            "lock_sha256": sha256_hex((self.folder / "lock.json").read_bytes()),
        }
        (self.folder / "completion.json").write_bytes(canonical_json(completion))
