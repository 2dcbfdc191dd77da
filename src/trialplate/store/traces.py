"""One Parquet file per episode: every control step's action, measurements, state digest and wall clock.

The reader trusts nothing: it looks at sizes, row counts and types before it reads a column, and accepts plain
types only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from trialplate.canonical import MAX_DOCUMENT_BYTES, canonical_json, read_stored, sha256_hex
from trialplate.errors import CanonicalError
from trialplate.record import Column, Trace, TraceRef
from trialplate.store.parquet_footer import Shape, bad, look_at

FORMAT = "trialplate.trace/1"
MAX_ROWS = 1_000_001
MAX_FILE_BYTES = 4 * 1024**3
MAX_DIM = 4096
MAX_CALLS_BYTES = MAX_DOCUMENT_BYTES // 2
_FIXED = ("step", "action", "state_sha256", "step_wall_us")
_DIGEST = pa.binary(32)
_FLAT = frozenset((int, str, type(None)))
_FORMAT_KEY, _CALLS_KEY = b"trialplate.format", b"trialplate.calls"
_FOOTER_LIMITS = {"thrift_string_size_limit": 2 * MAX_DOCUMENT_BYTES, "thrift_container_size_limit": 100_000}


def trace_bytes(trace: Trace, columns: Sequence[Column]) -> bytes:
    """Return the Parquet file of a trace; equal traces give equal bytes under one version of pyarrow.

    ``columns`` describes ``trace.measured`` in the order that is stored. Row 0 is the world after reset and has
    no action. Raises EvidenceError ``trace_malformed`` naming what does not fit: a shape, a name, a number that
    is not finite, a digest.
    """
    rows = trace.steps + 1
    names = [column.name for column in columns]
    if names != list(trace.measured) and sorted(names) != sorted(trace.measured):
        raise bad(f"columns declared {names}, measured {list(trace.measured)}")
    if len(set(names)) != len(names) or set(names) & set(_FIXED):
        raise bad(f"column names {names} must be unique and none of {list(_FIXED)}")
    if not 1 <= rows <= MAX_ROWS:
        raise bad(f"{rows} rows, at most {MAX_ROWS} are stored")
    fields = [pa.field("step", pa.int32(), nullable=False), _action_field(trace.action)]
    arrays = [pa.array(np.arange(rows, dtype=np.int32)), _action_array(trace.action)]
    for column in columns:
        fields.append(_measured_field(column))
        arrays.append(_measured_array(trace.measured[column.name], column, rows=rows))
    fields += [
        pa.field("state_sha256", _DIGEST, nullable=False),
        pa.field("step_wall_us", pa.int64(), nullable=False),
    ]
    arrays += [_digests(trace.state_sha256, rows=rows), pa.array(_wall(trace.step_wall_us, rows=rows))]
    calls = _calls_text(trace.calls)
    schema = pa.schema(fields, metadata={_FORMAT_KEY: FORMAT})
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        schema,
        version="2.6",
        compression="zstd",
        compression_level=3,
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=MAX_ROWS)
        writer.add_key_value_metadata({_CALLS_KEY: calls})  # in the schema it would be stored twice
    data: bytes = sink.getvalue().to_pybytes()
    return data


def trace_reference(trace: Trace, data: bytes, *, path: str) -> TraceRef:
    """Return the row's reference to a trace that is stored as ``data`` at ``path`` in the campaign folder."""
    return TraceRef(path, sha256_hex(data), trace.content_sha256(), len(data), trace.steps)


def read_trace(data: bytes, *, columns: Sequence[Column] | None = None, max_rows: int = MAX_ROWS) -> Trace:
    """Read a trace; every column comes back as (T+1, dim), the action as (T, dim).

    ``columns``: what must have been measured, in that order; None takes what the file declares. Raises
    EvidenceError ``trace_malformed`` naming what is wrong; nothing is allocated for rows that cannot be there.
    """
    try:
        return _read(data, columns=columns, max_rows=max_rows)
    except (pa.ArrowException, OSError, OverflowError, UnicodeDecodeError) as error:
        # OSError: how pyarrow reports a damaged page or footer
        raise bad(f"not a readable Parquet file of {len(data)} bytes: {str(error).splitlines()[0]}") from None


def _read(data: bytes, *, columns: Sequence[Column] | None, max_rows: int) -> Trace:
    if len(data) > MAX_FILE_BYTES:
        raise bad(f"{len(data)} bytes, at most {MAX_FILE_BYTES} are read")
    shape = look_at(data, max_rows=max_rows)
    with pq.ParquetFile(
        pa.BufferReader(data), memory_map=False, pre_buffer=False, page_checksum_verification=True, **_FOOTER_LIMITS
    ) as file:
        schema = file.schema_arrow
        measured = _checked_schema(schema)
        if columns is not None:
            _compare_columns(measured, columns)
        _check_size(schema, shape)
        calls = _calls(file.metadata.metadata or {})
        table = file.read(use_threads=False)
    if table.num_rows != shape.rows:
        raise bad(f"{shape.rows} rows declared, {table.num_rows} found")
    return _trace(table.combine_chunks(), measured, calls)


def _trace(table: Any, measured: Mapping[str, int], calls: tuple[Mapping[str, Any], ...]) -> Trace:
    steps = _plain(table, "step")
    if not np.array_equal(steps, np.arange(table.num_rows, dtype=np.int32)):
        raise bad("column step is not 0..T")
    digests = _one_chunk(table, "state_sha256")
    if digests.null_count:
        raise bad(f"column state_sha256 lacks {digests.null_count} digests")
    packed = digests.buffers()[1].slice(32 * digests.offset, 32 * len(digests)).to_pybytes().hex()
    return Trace(
        action=_actions(table),
        measured={name: _numbers(table, name, dim=dim) for name, dim in measured.items()},
        state_sha256=tuple(packed[64 * row : 64 * row + 64] for row in range(len(digests))),
        step_wall_us=_plain(table, "step_wall_us"),
        calls=calls,
    )


def _checked_schema(schema: Any) -> dict[str, int]:
    """Return measured column -> dim. Raises when a fixed column or a type is not the declared one."""
    if (schema.metadata or {}).get(_FORMAT_KEY) != FORMAT.encode():
        raise bad(f"metadata {_FORMAT_KEY.decode()} is not {FORMAT!r}: not a trace of this version")
    names = list(schema.names)
    if len(set(names)) != len(names):
        raise bad(f"a column name stands twice in {names}")
    if (names[:2], names[-2:]) != (list(_FIXED[:2]), list(_FIXED[2:])) or len(names) < len(_FIXED):
        raise bad(f"columns {names}, expected step, action, the measured ones, state_sha256, step_wall_us")
    expected = {"step": pa.int32(), "state_sha256": _DIGEST, "step_wall_us": pa.int64()}
    for name, kind in expected.items():
        if schema.field(name).type != kind:
            raise bad(f"column {name} is {schema.field(name).type}, expected {kind}")
    if _list_dim(schema.field("action")) is None:
        raise bad(f"column action is {schema.field('action').type}, expected a fixed-size list of double")
    measured: dict[str, int] = {}
    for name in names[2:-2]:
        dim = 1 if schema.field(name).type == pa.float64() else _list_dim(schema.field(name))
        if dim is None:
            raise bad(f"column {name} is {schema.field(name).type}, expected double or a fixed-size list of it")
        measured[name] = dim
    return measured


def _list_dim(field: Any) -> int | None:
    kind = field.type
    if not pa.types.is_fixed_size_list(kind) or kind.value_type != pa.float64():
        return None
    return int(kind.list_size) if 1 <= kind.list_size <= MAX_DIM else None


def _compare_columns(measured: Mapping[str, int], columns: Sequence[Column]) -> None:
    wanted = {column.name: column.dim for column in columns}
    if list(measured.items()) != list(wanted.items()):
        raise bad(f"measured columns {dict(measured)}, expected {wanted}")


def _check_size(schema: Any, shape: Shape) -> None:
    """Refuse a file that unpacks to more than its rows can need."""
    allowed = 2 * shape.rows * sum(_width(field.type) for field in schema) + 65_536 * (1 + len(schema))
    if shape.unpacked_bytes > allowed or shape.columns != len(schema):
        raise bad(
            f"{shape.rows} rows in {shape.columns} columns that unpack to {shape.unpacked_bytes} bytes, "
            f"expected {len(schema)} columns and at most {allowed} bytes"
        )


def _width(kind: Any) -> int:
    if pa.types.is_fixed_size_list(kind):
        return 8 * int(kind.list_size) + 8
    return 40 if kind == _DIGEST else 16


def _calls(metadata: Mapping[bytes, bytes]) -> tuple[Mapping[str, Any], ...]:
    stored = metadata.get(_CALLS_KEY)
    if stored is None:
        raise bad(f"metadata {_CALLS_KEY.decode()} is missing")
    return _check_calls(stored)


def _check_calls(stored: bytes) -> tuple[Mapping[str, Any], ...]:
    try:
        calls = read_stored(stored, limit_bytes=MAX_CALLS_BYTES)
    except CanonicalError as error:
        raise bad(f"policy calls: {error.message}") from None
    if not isinstance(calls, list):
        raise bad("policy calls are not a list")
    _refuse_deep_calls(calls)
    return tuple(calls)


def _calls_text(calls: Sequence[Mapping[str, Any]]) -> bytes:
    _refuse_deep_calls(calls)
    text = canonical_json([dict(call) for call in calls])
    if len(text) > MAX_CALLS_BYTES:
        raise bad(f"policy calls take {len(text)} bytes, at most {MAX_CALLS_BYTES} are stored")
    return text


def _refuse_deep_calls(calls: Sequence[Any]) -> None:
    for number, call in enumerate(calls):
        flat = isinstance(call, Mapping) and set(map(type, call.values())) <= _FLAT
        if not flat:
            raise bad(f"policy call {number} is not a flat object of integers, texts and nulls")


def _action_field(action: NDArray[np.float64]) -> Any:
    if action.ndim != 2 or not 1 <= action.shape[1] <= MAX_DIM:
        raise bad(f"action has shape {action.shape}, expected (T, dim)")
    return pa.field("action", pa.list_(_item(), action.shape[1]), metadata={"meaning": "executed; null at row 0"})


def _action_array(action: NDArray[np.float64]) -> Any:
    dim = action.shape[1]
    padded = np.zeros((len(action) + 1, dim))
    padded[1:] = _finite("action", action)
    missing = np.zeros(len(padded), dtype=bool)
    missing[0] = True
    return pa.FixedSizeListArray.from_arrays(
        pa.array(padded.ravel()), type=pa.list_(_item(), dim), mask=pa.array(missing)
    )


def _actions(table: Any) -> NDArray[np.float64]:
    column = _one_chunk(table, "action")
    if column.null_count != 1 or column[0].is_valid:
        raise bad(f"column action has {column.null_count} nulls, expected one, at row 0")
    dim = int(column.type.list_size)
    rest = column.slice(1).flatten()
    return _checked_numbers("action", rest, rows=table.num_rows - 1, dim=dim)


def _item() -> Any:
    return pa.field("element", pa.float64(), nullable=False)


def _measured_field(column: Column) -> Any:
    if not 1 <= column.dim <= MAX_DIM:
        raise bad(f"column {column.name}: dim {column.dim}, expected 1 to {MAX_DIM}")
    kind = pa.float64() if column.dim == 1 else pa.list_(_item(), column.dim)
    return pa.field(column.name, kind, nullable=False, metadata={"unit": column.unit, "meaning": column.meaning})


def _measured_array(values: NDArray[np.float64], column: Column, *, rows: int) -> Any:
    if values.shape != (rows, column.dim):
        raise bad(f"column {column.name} has shape {values.shape}, expected ({rows}, {column.dim})")
    flat = pa.array(np.ascontiguousarray(_finite(column.name, values), dtype=np.float64).ravel())
    if column.dim == 1:
        return flat
    return pa.FixedSizeListArray.from_arrays(flat, type=pa.list_(_item(), column.dim))


def _finite(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    if not np.isfinite(values).all():
        raise bad(f"column {name} holds NaN or infinity")
    return values


def _digests(digests: Sequence[str], *, rows: int) -> Any:
    if len(digests) != rows or any(len(digest) != 64 for digest in digests):
        raise bad(f"{len(digests)} state digests, expected {rows} of 64 hex digits")
    try:
        packed = bytes.fromhex("".join(digests))
    except ValueError:
        raise bad("a state digest is not hexadecimal") from None
    if len(packed) != 32 * rows:
        raise bad("a state digest holds blanks")
    return pa.FixedSizeBinaryArray.from_buffers(_DIGEST, rows, [None, pa.py_buffer(packed)])


def _wall(wall_us: NDArray[np.int64], *, rows: int) -> NDArray[np.int64]:
    if wall_us.shape != (rows,) or wall_us.dtype != np.int64:
        raise bad(f"step_wall_us is {wall_us.dtype} of shape {wall_us.shape}, expected int64 ({rows},)")
    return wall_us


def _one_chunk(table: Any, name: str) -> Any:
    chunks = table.column(name).chunks
    if len(chunks) != 1:
        raise bad(f"column {name} is in {len(chunks)} pieces")
    return chunks[0]


def _plain(table: Any, name: str) -> NDArray[Any]:
    column = _one_chunk(table, name)
    if column.null_count:
        raise bad(f"column {name} holds {column.null_count} nulls")
    numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers


def _numbers(table: Any, name: str, *, dim: int) -> NDArray[np.float64]:
    column = _one_chunk(table, name)
    if column.null_count:
        raise bad(f"column {name} holds {column.null_count} nulls")
    flat = column if dim == 1 and column.type == pa.float64() else column.flatten()
    return _checked_numbers(name, flat, rows=table.num_rows, dim=dim)


def _checked_numbers(name: str, flat: Any, *, rows: int, dim: int) -> NDArray[np.float64]:
    if flat.null_count or math.prod((rows, dim)) != len(flat):
        raise bad(f"column {name} holds {len(flat)} numbers, {flat.null_count} null, expected {rows * dim}")
    values: NDArray[np.float64] = flat.to_numpy(zero_copy_only=False).reshape(rows, dim)
    return _finite(name, values)
