"""Somebody without a key who rewrites a campaign and every digest that follows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from golden import StepClock
from trialplate.canonical import array_digest, canonical_json, read_stored, sha256_hex
from trialplate.record import Column, Trace
from trialplate.store.chain import Stamp, make_record, record_line
from trialplate.store.traces import read_trace, trace_bytes, trace_reference

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

    def edit_trace(self, key: str, edit: Callable[[Trace], Trace]) -> None:
        """Change what was recorded of one attempt, and what its row and its end say about it."""
        suite = read_stored((self.folder / "lock.json").read_bytes())["suite"]
        columns = tuple(Column(item["name"], item["dim"], item["unit"]) for item in suite["columns"])
        path = f"episodes/{key}/trace.parquet"
        new = edit(read_trace((self.folder / path).read_bytes(), columns=columns))
        self.replace_trace(key, trace_bytes(new, columns=columns))
        reference = trace_reference(new, (self.folder / path).read_bytes(), path=path)

        def refer(row: dict[str, Any]) -> None:
            row["trace"].update(content_sha256=reference.content_sha256, steps=new.steps)
            row.update(
                actions_sha256=array_digest(new.action),
                control_steps=new.steps,
                initial_state_sha256=new.state_sha256[0],
            )

        self.edit_row(key, refer)

    def replace_trace(self, key: str, data: bytes) -> None:
        """Put another file in the place of a trace; of what it holds nothing else is told."""
        path = f"episodes/{key}/trace.parquet"
        (self.folder / path).write_bytes(data)
        for artifact in self.end_of(key)["artifacts"]:
            if artifact["path"] == path:
                artifact.update(sha256=sha256_hex(data), size=len(data))
        self.edit_row(key, lambda row: row["trace"].update(file_sha256=sha256_hex(data), size_bytes=len(data)))

    def end_of(self, key: str) -> dict[str, Any]:
        trial, attempt = key.split("-")
        return next(
            record["data"]
            for record in self.records
            if record["type"] == "attempt.end"
            and (record["data"]["trial_id"], record["data"]["attempt"]) == (trial, int(attempt))
        )

    def recount(self) -> None:
        """Let the end of the run tell the ends that are told now."""
        ends = [record["data"]["termination"] for record in self.records if record["type"] == "attempt.end"]
        for record in self.records:
            if record["type"] == "run.close":
                record["data"]["counts"]["terminations"] = {name: ends.count(name) for name in sorted(set(ends))}

    def seal(self) -> None:
        """Rebuild the chain, the head and both indexes."""
        previous = sha256_hex((self.folder / "lock.json").read_bytes())
        data, closed = b"", {}
        for seq, record in enumerate(self.records):
            sealed = make_record(record["type"], record["data"], seq=seq, prev_sha256=previous, stamp=self._clock())
            previous = sealed["sha256"]
            data += record_line(sealed)
            if record["type"] == "run.close":  # amendments may stand behind it
                closed = {"count": seq + 1, "head_sha256": previous, "size": len(data)}
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
            "journal": closed or head,
            "lock_sha256": sha256_hex((self.folder / "lock.json").read_bytes()),
        }
        (self.folder / "completion.json").write_bytes(canonical_json(completion))


def patient_forger(folder: Path) -> Forger:
    """Somebody who keeps the times of the journal as they were, and has none of a second earlier for what is new."""
    lines = (folder / "journal.jsonl").read_bytes().splitlines()
    stamps = [Stamp(record["utc"], record["mono_us"]) for record in map(json.loads, lines)]

    def times() -> Iterator[Stamp]:
        yield from stamps
        while True:
            yield stamps[-1]

    going = times()
    return Forger(folder, clock=lambda: next(going))


def writable(folder: Path) -> Path:
    """Let everything below a folder be written, and return it."""
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder
