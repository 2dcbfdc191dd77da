"""The columns of ``exchange.parquet``, one row per call: their types, and how calls become them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trialplate.canonical import canonical_json
from trialplate.errors import EvidenceError
from trialplate.record import USAGE_MEMBERS, ActionChunk, Exchange, Issue, Observation, PolicyDecision, Stop, Usage
from trialplate.store.replies import plain_text, reply_text

FORMAT = "trialplate.exchange/1"
FORMAT_KEY, HEAD_KEY = b"trialplate.format", b"trialplate.exchange"
IMAGE, PROPRIO = "image.", "proprio."


@dataclass(frozen=True, slots=True)
class Entry:
    """An exchange, with what its policy made already turned into text that cannot change any more.

    ``remarks``: other members of the reply; ``refused``: what was sent instead of valid rows; both JSON or None.
    ``frames``: returns the digest of the pictures where the exchange does not know it yet.
    """

    exchange: Exchange
    stop_reason: str | None
    remarks: str | None
    refused: str | None
    frames: Callable[[], str | None] | None = None


def entry_of(exchange: Exchange, frames: Callable[[], str | None] | None = None) -> Entry:
    """Read everything that a policy made out of an exchange, so that it can be packed later."""
    reply = exchange.reply
    if reply is None:
        return Entry(exchange, None, None, None, frames)
    remarks = reply_text(reply.remarks) if reply.remarks else None
    decision = reply.decision
    if type(decision) is Stop:
        reason = decision.reason
        return Entry(exchange, None if reason is None else plain_text(reason), remarks, None, frames)
    refused = None
    if exchange.rows is None:
        refused = reply_text(decision.vectors if type(decision) is ActionChunk else decision)
    return Entry(exchange, None, remarks, refused, frames)


Getter = Callable[[Entry], Any]


@dataclass(frozen=True, slots=True)
class Fixed:
    """A column that every file has."""

    name: str
    type: Any
    get: Getter
    nullable: bool = False


def _reply(entry: Entry) -> PolicyDecision | None:
    return entry.exchange.reply


def _usage(member: str) -> Getter:
    def get(entry: Entry) -> Any:
        reply = _reply(entry)
        return None if reply is None or reply.usage is None else getattr(reply.usage, member)

    return get


def _usage_reason(entry: Entry) -> str | None:
    reply = _reply(entry)
    return None if reply is None or reply.usage is not None else reply.usage_reason


def _latency_reason(entry: Entry) -> str | None:
    reply = _reply(entry)
    return None if reply is None or reply.latency_ms is not None else reply.latency_ms_reason


def _of_reply(member: str) -> Getter:
    def get(entry: Entry) -> Any:
        reply = _reply(entry)
        return None if reply is None else getattr(reply, member)

    return get


def _issue(member: str) -> Getter:
    def get(entry: Entry) -> Any:
        issue = entry.exchange.ack.issue
        if issue is None:
            return None
        value = getattr(issue, member)
        return plain_text(value) if isinstance(value, str) else value

    return get


def _frames_sha256(entry: Entry) -> str | None:
    return entry.exchange.frames_sha256 if entry.frames is None else entry.frames()


def _rows_shape(axis: int) -> Getter:
    def get(entry: Entry) -> int | None:
        rows = entry.exchange.rows
        return None if rows is None else int(rows.shape[axis])

    return get


_TEXT, _INT, _BIG, _REAL = pa.string(), pa.int32(), pa.int64(), pa.float64()
_NUMBER = pa.field("element", pa.float64(), nullable=False)
ROWS_TYPE = pa.list_(_NUMBER)
ROWS = "rows"
FIXED: tuple[Fixed, ...] = (
    Fixed("call_index", _INT, attrgetter("exchange.observation.call_index")),
    Fixed("observation_id", _TEXT, attrgetter("exchange.observation.observation_id")),
    Fixed("step_index", _INT, attrgetter("exchange.observation.step_index")),
    Fixed("kind", _TEXT, attrgetter("exchange.kind")),
    Fixed("replied", pa.bool_(), lambda e: e.exchange.reply is not None),
    Fixed("row_count", _INT, _rows_shape(0), nullable=True),
    Fixed("dim", _INT, _rows_shape(1), nullable=True),
    Fixed("stop_reason", _TEXT, attrgetter("stop_reason"), nullable=True),
    Fixed("refused", _TEXT, attrgetter("refused"), nullable=True),
    Fixed("accepted", pa.bool_(), attrgetter("exchange.ack.accepted")),
    Fixed("proposed", _INT, attrgetter("exchange.ack.proposed")),
    Fixed("executed", _INT, attrgetter("exchange.ack.executed")),
    Fixed("dropped_tail", _INT, attrgetter("exchange.ack.dropped_tail")),
    Fixed("discarded_after_end", _INT, attrgetter("exchange.ack.discarded_after_end")),
    Fixed("next", _TEXT, attrgetter("exchange.ack.next")),
    Fixed("issue_code", _TEXT, _issue("code"), nullable=True),
    Fixed("issue_row", _INT, _issue("row"), nullable=True),
    Fixed("issue_component", _TEXT, _issue("component"), nullable=True),
    Fixed("issue_rule", _TEXT, _issue("rule"), nullable=True),
    Fixed("remaining_steps", _INT, attrgetter("exchange.observation.remaining.steps")),
    Fixed("remaining_calls", _INT, attrgetter("exchange.observation.remaining.calls"), nullable=True),
    *(Fixed(f"usage_{member}", _BIG, _usage(member), nullable=True) for member in USAGE_MEMBERS[:3]),
    Fixed("usage_cost", _REAL, _usage("cost"), nullable=True),
    Fixed("usage_reason", _TEXT, _usage_reason, nullable=True),
    Fixed("latency_ms", _REAL, _of_reply("latency_ms"), nullable=True),
    Fixed("latency_ms_reason", _TEXT, _latency_reason, nullable=True),
    Fixed("echo", _TEXT, _of_reply("echo"), nullable=True),
    Fixed("batch_size", _INT, _of_reply("batch_size"), nullable=True),
    Fixed("remarks", _TEXT, attrgetter("remarks"), nullable=True),
    Fixed("frames_sha256", _TEXT, _frames_sha256, nullable=True),
)
_ISSUE_COLUMNS = frozenset(f"issue_{member}" for member in ("code", "row", "component", "rule"))
_USAGE_COLUMNS = frozenset(f"usage_{member}" for member in USAGE_MEMBERS)
SHOWN: tuple[Fixed, ...] = (
    Fixed("instruction", _TEXT, attrgetter("exchange.observation.instruction"), nullable=True),
    Fixed("meta", _TEXT, lambda e: _meta_text(e.exchange.observation.meta), nullable=True),
    Fixed("shown_issue", _TEXT, lambda e: _issue_text(e.exchange.observation.issue), nullable=True),
)
"""What a detailed file has besides, before the vectors and pictures that were shown."""


def _meta_text(meta: Mapping[str, float | None]) -> str | None:
    return json.dumps(dict(meta), allow_nan=False) if meta else None


def _issue_text(issue: Issue | None) -> str | None:
    return reply_text(asdict(issue)) if issue is not None else None


@dataclass(frozen=True, slots=True)
class Head:
    """What is the same in all calls of a file. ``images``, ``proprio``: name -> shape as shown, in order.

    ``history``: how many looks and executed rows an observation repeated, None when it repeated none.
    """

    recording: str
    episode: str
    registration_sha256: str
    images: Mapping[str, tuple[int, ...]]
    proprio: Mapping[str, int]
    history: tuple[int, int] | None

    @classmethod
    def of(cls, exchange: Exchange, *, detailed: bool) -> Head:
        """Return the head of the file that begins with this exchange."""
        shown = exchange.observation
        return cls(
            "detailed" if detailed else "minimal",
            shown.episode,
            shown.registration_sha256,
            {name: image.shape for name, image in exchange.images.items()} if detailed else {},
            {name: len(values) for name, values in shown.proprio.items()} if detailed else {},
            _history(shown) if detailed else None,
        )

    def document(self) -> dict[str, Any]:
        """Return the plain form that stands in the file."""
        return {
            "recording": self.recording,
            "episode": self.episode,
            "registration_sha256": self.registration_sha256,
            "images": [[name, list(shape)] for name, shape in self.images.items()],
            "proprio": [[name, dim] for name, dim in self.proprio.items()],
            "history": list(self.history) if self.history else None,
        }

    def fields(self) -> list[Any]:
        """Return the fields of the schema, in the order that is stored."""
        columns = FIXED + SHOWN if self.recording == "detailed" else FIXED
        fields = [pa.field(column.name, column.type, nullable=column.nullable) for column in columns]
        fields.insert(1 + [column.name for column in columns].index("dim"), pa.field(ROWS, ROWS_TYPE, nullable=True))
        for name, dim in self.proprio.items():
            fields.append(pa.field(PROPRIO + name, pa.list_(_NUMBER, dim), nullable=False))
        for name, shape in self.images.items():
            meaning = {"dtype": "uint8", "shape": canonical_json(list(shape)).decode()}
            fields.append(pa.field(IMAGE + name, pa.binary(), nullable=False, metadata=meaning))
        return fields


def _history(shown: Observation) -> tuple[int, int] | None:
    if shown.history is None:
        return None
    frames = max((len(looks) for looks in shown.history.images.values()), default=0)
    return frames, len(shown.history.actions)


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of one file."""

    head: Head
    schema: Any
    metadata: Mapping[bytes, bytes]

    @classmethod
    def of(cls, exchange: Exchange, *, detailed: bool) -> Layout:
        """Return the layout of the file that begins with this exchange."""
        head = Head.of(exchange, detailed=detailed)
        schema = pa.schema(head.fields(), metadata={FORMAT_KEY: FORMAT})
        return cls(head, schema, {HEAD_KEY: canonical_json(head.document())})

    def codecs(self) -> dict[str, Any]:
        """Return how a writer compresses: beside pictures, a few calls at a time, numbers are not worth the time."""
        pictures = [IMAGE + name for name in self.head.images]
        if not pictures:
            return {"compression": "zstd", "compression_level": 1}
        return {"compression": dict.fromkeys(pictures, "zstd"), "compression_level": dict.fromkeys(pictures, 1)}

    def table(self, entries: Sequence[Entry]) -> Any:
        """Return calls as a table. Raises EvidenceError when one does not fit the first one."""
        columns = FIXED + SHOWN if self.head.recording == "detailed" else FIXED
        empty = _empty(entries)
        arrays = {
            column.name: pa.nulls(len(entries), column.type)
            if column.name in empty
            else pa.array(list(map(column.get, entries)), type=column.type)
            for column in columns
        }
        arrays[ROWS] = _rows_array([entry.exchange.rows for entry in entries])
        for name, dim in self.head.proprio.items():
            arrays[PROPRIO + name] = _vectors([e.exchange.observation.proprio for e in entries], name, dim=dim)
        for name, shape in self.head.images.items():
            arrays[IMAGE + name] = _pictures([e.exchange.images for e in entries], name, shape=shape)
        return pa.Table.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)


def _empty(entries: Sequence[Entry]) -> frozenset[str]:
    """Return names of columns that hold nothing in any of these calls, as far as one look at each call tells."""
    empty: frozenset[str] = frozenset()
    if all(entry.exchange.ack.issue is None for entry in entries):
        empty |= _ISSUE_COLUMNS
    if all(entry.exchange.reply is None or entry.exchange.reply.usage is None for entry in entries):
        empty |= _USAGE_COLUMNS
    return empty


def _rows_array(rows: Sequence[NDArray[np.float64] | None]) -> Any:
    lengths = [0 if chunk is None else chunk.size for chunk in rows]
    offsets = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    given = [np.ascontiguousarray(chunk, dtype=np.float64).ravel() for chunk in rows if chunk is not None]
    values = np.concatenate(given) if given else np.empty(0)
    missing = pa.array([chunk is None for chunk in rows])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), type=ROWS_TYPE, mask=missing)


def _vectors(shown: Sequence[Mapping[str, NDArray[np.float64]]], name: str, *, dim: int) -> Any:
    table = np.empty((len(shown), dim))
    for row, vectors in enumerate(shown):
        values = vectors.get(name)
        if values is None or values.shape != (dim,):
            raise unlike_first(f"proprio {name}", values, expected=(dim,))
        table[row] = values
    return pa.FixedSizeListArray.from_arrays(pa.array(table.ravel()), type=pa.list_(_NUMBER, dim))


def _pictures(shown: Sequence[Mapping[str, NDArray[np.uint8]]], name: str, *, shape: tuple[int, ...]) -> Any:
    """Return a column that lies where the pictures lie: each is a piece of its own, nothing is copied."""
    size = int(np.prod(shape, dtype=np.int64))
    if size > np.iinfo(np.int32).max:
        raise malformed(f"picture {name}: {size} bytes")
    ends, pieces = pa.py_buffer(np.array([0, size], dtype=np.int32)), []
    for pictures in shown:
        picture = pictures.get(name)
        if picture is None or picture.shape != shape or picture.dtype != np.uint8:
            raise unlike_first(f"picture {name}", picture, expected=shape)
        buffers = [None, ends, pa.py_buffer(np.ascontiguousarray(picture))]
        pieces.append(pa.BinaryArray.from_buffers(pa.binary(), 1, buffers))
    return pa.chunked_array(pieces, type=pa.binary())


def unlike_first(what: str, got: NDArray[Any] | None, *, expected: tuple[int, ...]) -> EvidenceError:
    """Return the error of a call that was shown something else than the first call of its episode."""
    found = "nothing" if got is None else f"{got.dtype} of shape {got.shape}"
    return malformed(f"{what}: the first call was shown shape {expected}, a later one {found}")


def malformed(message: str) -> EvidenceError:
    """Return the error of exchanges that are not what a file holds, to be raised."""
    return EvidenceError(f"exchange_malformed: {message}", code="exchange_malformed")


def usage_of(values: Mapping[str, Any]) -> Usage:
    """Return the usage that a row holds."""
    return Usage(*(values[f"usage_{member}"] for member in USAGE_MEMBERS))
