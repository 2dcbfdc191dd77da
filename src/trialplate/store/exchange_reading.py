"""Read ``exchange.parquet`` back into exchanges; nothing in the file is believed before it was compared."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from trialplate.canonical import read_stored
from trialplate.errors import CanonicalError, EvidenceError
from trialplate.record import (
    Ack,
    ActionChunk,
    Exchange,
    History,
    Issue,
    Observation,
    PolicyDecision,
    Remaining,
    Stop,
)
from trialplate.store.exchange_columns import (
    FIXED,
    FORMAT,
    FORMAT_KEY,
    HEAD_KEY,
    IMAGE,
    PROPRIO,
    ROWS,
    SHOWN,
    Head,
    malformed,
    usage_of,
)
from trialplate.store.parquet_footer import Shape, look_at

MAX_CALLS = 1_000_000
MAX_GROUPS = 10_000
MAX_FILE_BYTES = 16 * 1024**3
MAX_UNPACKED_BYTES = 1024**3
MAX_HEAD_BYTES = 1024 * 1024
_PAGE_SLACK_BYTES = 65_536
_KINDS = frozenset({"chunk", "stop", "rejected", "fault"})
_FOOTER_LIMITS = {"thrift_string_size_limit": 32 * 1024**2, "thrift_container_size_limit": 100_000}


def read_exchanges(data: bytes, *, pictures: bool = True) -> tuple[Exchange, ...]:
    """Return the calls of an episode in order.

    A minimal file knows nothing of what was shown: its observations have no instruction, pictures or proprioception.
    ``pictures`` False leaves the pictures of a detailed file unread. What stood in the place of valid rows comes
    back as the JSON that was kept of it. Raises EvidenceError ``exchange_malformed`` naming what is wrong.
    """
    try:
        return _read(data, pictures=pictures)
    except (pa.ArrowException, OSError, OverflowError, UnicodeDecodeError) as error:
        # OSError: how pyarrow reports a damaged page or footer
        message = f"not a readable Parquet file of {len(data)} bytes: {str(error).splitlines()[0]}"
        raise malformed(message) from None
    except EvidenceError as error:
        if error.code == "trace_malformed":  # the look at the footer is the same for both kinds of file
            raise malformed(error.message.removeprefix("trace_malformed: ")) from None
        raise


def read_head(data: bytes) -> Head:
    """Return what is the same in all calls. Raises EvidenceError ``exchange_malformed``."""
    look_at(data, max_rows=MAX_CALLS, max_groups=MAX_GROUPS)
    with _open(data) as file:
        return _head(file.metadata.metadata or {}, file.schema_arrow)


def _open(data: bytes) -> Any:
    return pq.ParquetFile(
        pa.BufferReader(data), memory_map=False, pre_buffer=False, page_checksum_verification=True, **_FOOTER_LIMITS
    )


def _read(data: bytes, *, pictures: bool) -> tuple[Exchange, ...]:
    if len(data) > MAX_FILE_BYTES:
        raise malformed(f"{len(data)} bytes, at most {MAX_FILE_BYTES} are read")
    shape = look_at(data, max_rows=MAX_CALLS, max_groups=MAX_GROUPS)
    with _open(data) as file:
        schema = file.schema_arrow
        head = _head(file.metadata.metadata or {}, schema)
        names = [name for name in schema.names if pictures or not name.startswith(IMAGE)]
        _check_size(schema, shape, head, names=names)
        table = file.read(columns=names, use_threads=False).combine_chunks()
    if table.num_rows != shape.rows or table.schema.names != names:
        raise malformed(f"{shape.rows} calls declared, {table.num_rows} found")
    return _exchanges(table, head if pictures else replace(head, images={}))


def _head(metadata: Mapping[bytes, bytes], schema: Any) -> Head:
    if (schema.metadata or {}).get(FORMAT_KEY) != FORMAT.encode():
        raise malformed(f"metadata {FORMAT_KEY.decode()} is not {FORMAT!r}: no exchanges of this version")
    try:
        head = _parsed_head(read_stored(metadata.get(HEAD_KEY, b""), limit_bytes=MAX_HEAD_BYTES))
    except (CanonicalError, KeyError, TypeError, ValueError) as error:
        raise malformed(f"metadata {HEAD_KEY.decode()}: {type(error).__name__}: {error}") from None
    if not schema.remove_metadata().equals(pa.schema(head.fields()).remove_metadata()):
        raise malformed(f"columns {schema.names} or their types are not those that the head declares")
    return head


def _parsed_head(document: Any) -> Head:
    images = {name: tuple(shape) for name, shape in document["images"]}
    proprio = dict(document["proprio"])
    history = document["history"]
    head = Head(
        document["recording"],
        document["episode"],
        document["registration_sha256"],
        images,
        proprio,
        tuple(history) if history else None,
    )
    sizes = [*proprio.values(), *(size for shape in images.values() for size in shape), *(head.history or ())]
    if not all(type(size) is int and 0 <= size < 2**31 for size in sizes):
        raise ValueError(f"sizes {sizes[:16]} are not whole numbers from 0")
    if any(len(shape) != 3 for shape in images.values()):
        raise ValueError(f"pictures of shapes {[*images.values()][:16]}, expected three sizes each")
    texts = (head.episode, head.registration_sha256, *images, *proprio)
    if not all(isinstance(text, str) for text in texts) or len(head.history or (0, 0)) != 2:
        raise ValueError("episode, registration and channels are texts, history two numbers")
    if head.recording not in ("minimal", "detailed") or head.document() != document:
        raise ValueError("unknown or repeated members")
    return head


def _check_size(schema: Any, shape: Shape, head: Head, *, names: Sequence[str]) -> None:
    """Refuse a file that unpacks to more than its calls can need."""
    if shape.columns != len(schema.names):
        raise malformed(f"{shape.columns} columns, expected {len(schema.names)}")
    plain = 0
    for name, unpacked in zip(schema.names, shape.column_bytes, strict=True):
        if not name.startswith(IMAGE):
            plain += unpacked
        elif name in names:
            allowed = 2 * shape.rows * (math.prod(head.images[name.removeprefix(IMAGE)]) + 64) + _PAGE_SLACK_BYTES
            if unpacked > allowed:
                raise malformed(f"{name}: unpacks to {unpacked} bytes, expected at most {allowed}")
    if plain > MAX_UNPACKED_BYTES:
        raise malformed(f"the numbers and texts unpack to {plain} bytes, at most {MAX_UNPACKED_BYTES} are read")


def _exchanges(table: Any, head: Head) -> tuple[Exchange, ...]:
    fixed = FIXED + SHOWN if head.recording == "detailed" else FIXED
    for column in fixed:
        if not column.nullable and table.column(column.name).null_count:
            raise malformed(f"column {column.name} holds nulls")
    values = {column.name: table.column(column.name).to_pylist() for column in fixed}
    rows = _rows(table, values)
    proprio = {name: _vectors(table, name, dim=dim) for name, dim in head.proprio.items()}
    images = {name: _pictures(table, name, shape=shape) for name, shape in head.images.items()}
    past = _Past(head)
    found = []
    for number in range(table.num_rows):
        of_call = {name: column[number] for name, column in values.items()}
        shown = {name: vectors[number] for name, vectors in proprio.items()}
        seen = {name: pictures[number] for name, pictures in images.items()}
        observation = _observation(of_call, head, images=seen, proprio=shown)
        exchange = _exchange(of_call, past.of(observation), rows[number])
        past.add(exchange)
        found.append(exchange)
    return tuple(found)


class _Past:
    """The earlier looks and executed rows, from which the history of an observation is put together again."""

    def __init__(self, head: Head) -> None:
        self._wanted = head.history
        frames, actions = head.history or (0, 0)
        self._looks: deque[Mapping[str, NDArray[np.uint8]]] = deque(maxlen=frames)
        self._rows: deque[NDArray[np.float64]] = deque(maxlen=actions)
        self._present: Observation | None = None

    def of(self, observation: Observation) -> Observation:
        """Return the observation with its history; the same look shown again has the same one."""
        if self._wanted is None:
            return observation
        before = self._present
        if before is not None and before.observation_id == observation.observation_id:
            self._present = replace(observation, history=before.history)
            return self._present
        if before is not None:
            self._looks.append(before.images)
        frames, actions = self._wanted
        looks = [*[None] * (frames - len(self._looks)), *self._looks]
        images = {name: tuple(look[name] if look else None for look in looks) for name in observation.images}
        rows = (*[None] * (actions - len(self._rows)), *self._rows)
        self._present = replace(observation, history=History(images, rows))
        return self._present

    def add(self, exchange: Exchange) -> None:
        if exchange.rows is not None:
            self._rows.extend(exchange.rows[: exchange.ack.executed])


def _observation(
    of_call: Mapping[str, Any],
    head: Head,
    *,
    images: Mapping[str, NDArray[np.uint8]],
    proprio: Mapping[str, NDArray[np.float64]],
) -> Observation:
    meta, issue = of_call.get("meta"), of_call.get("shown_issue")
    return Observation(
        episode=head.episode,
        call_index=of_call["call_index"],
        observation_id=of_call["observation_id"],
        registration_sha256=head.registration_sha256,
        step_index=of_call["step_index"],
        instruction=of_call.get("instruction"),
        images=images,
        proprio=proprio,
        remaining=Remaining(of_call["remaining_steps"], of_call["remaining_calls"]),
        meta=_json("meta", meta) if meta is not None else {},
        issue=Issue(**_json("shown_issue", issue)) if issue is not None else None,
    )


def _exchange(of_call: Mapping[str, Any], observation: Observation, rows: NDArray[np.float64] | None) -> Exchange:
    kind = of_call["kind"]
    if kind not in _KINDS or (kind == "chunk" and rows is None):
        raise malformed(f"call {of_call['call_index']}: kind {kind!r} {'without' if rows is None else 'with'} rows")
    issue = None
    if of_call["issue_code"] is not None:
        issue = Issue(*(of_call[f"issue_{member}"] for member in ("code", "row", "component", "rule")))
    counts = {name: of_call[name] for name in ("proposed", "executed", "dropped_tail", "discarded_after_end", "next")}
    ack = Ack(observation.episode, observation.call_index, accepted=of_call["accepted"], issue=issue, **counts)
    reply = _reply(of_call, rows) if of_call["replied"] else None
    return Exchange(observation, kind, rows, reply, ack, of_call["frames_sha256"], observation.images)


def _reply(of_call: Mapping[str, Any], rows: NDArray[np.float64] | None) -> PolicyDecision:
    decision: ActionChunk | Stop = ActionChunk(rows)
    if rows is None:
        refused = of_call["refused"]
        decision = Stop(of_call["stop_reason"]) if refused is None else ActionChunk(_json("refused", refused))
    usage_reason, latency_reason = of_call["usage_reason"], of_call["latency_ms_reason"]
    return PolicyDecision(
        decision,
        usage=usage_of(of_call) if usage_reason is None else None,
        usage_reason=usage_reason or "not_metered",
        latency_ms=of_call["latency_ms"],
        latency_ms_reason=latency_reason or "not_metered",
        echo=of_call["echo"],
        batch_size=of_call["batch_size"],
        remarks=_json("remarks", of_call["remarks"]) if of_call["remarks"] is not None else {},
    )


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise malformed(f"column {name} holds a text that is not JSON: {error}") from None


def _rows(table: Any, values: Mapping[str, Sequence[Any]]) -> list[NDArray[np.float64] | None]:
    column = _one_chunk(table, ROWS)
    flat, offsets, given = column.values, column.offsets.to_numpy(), column.is_valid().to_pylist()
    if flat.null_count:
        raise malformed("column rows holds a null number")
    numbers: NDArray[np.float64] = flat.to_numpy(zero_copy_only=False)
    found: list[NDArray[np.float64] | None] = []
    for call, (count, dim) in enumerate(zip(values["row_count"], values["dim"], strict=True)):
        part = numbers[offsets[call] : offsets[call + 1]]
        known = count is not None and dim is not None and count >= 1 and dim >= 1
        if given[call] != known or (known and count * dim != len(part)):
            raise malformed(f"call {call}: {len(part)} numbers, declared {count} rows of {dim}")
        found.append(part.reshape(count, dim) if known else None)
    return found


def _vectors(table: Any, name: str, *, dim: int) -> NDArray[np.float64]:
    column = _one_chunk(table, PROPRIO + name)
    flat = column.flatten()
    if column.null_count or flat.null_count or len(flat) != dim * table.num_rows:
        raise malformed(f"proprio {name}: {len(flat)} numbers, expected {dim} in each of {table.num_rows} calls")
    values: NDArray[np.float64] = flat.to_numpy(zero_copy_only=False)
    return values.reshape(table.num_rows, dim)


def _pictures(table: Any, name: str, *, shape: tuple[int, ...]) -> list[NDArray[np.uint8]]:
    column, size = table.column(IMAGE + name), math.prod(shape)
    found = []
    for chunk in column.chunks:
        for scalar in chunk:
            buffer = scalar.as_buffer()
            if buffer is None or buffer.size != size:
                raise malformed(f"picture {name}: {buffer and buffer.size} bytes, expected {size}")
            found.append(np.frombuffer(buffer, dtype=np.uint8).reshape(shape))
    return found


def _one_chunk(table: Any, name: str) -> Any:
    chunks = table.column(name).chunks
    if len(chunks) != 1:
        raise malformed(f"column {name} is in {len(chunks)} pieces")
    return chunks[0]
