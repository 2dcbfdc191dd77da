"""Traces: what is written reads back, equal traces are equal bytes, and nothing malformed is believed."""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from golden import COLUMNS, make_trace
from trialplate.canonical import sha256_hex
from trialplate.errors import EvidenceError
from trialplate.record import Column, Trace
from trialplate.store.traces import FORMAT, read_trace, trace_bytes, trace_reference

TRACE = make_trace(7)
DATA = trace_bytes(TRACE, COLUMNS)
_PLAIN = {"use_dictionary": False, "write_statistics": False}


def _same(one: Trace, other: Trace) -> bool:
    return (
        np.array_equal(one.action, other.action)
        and list(one.measured) == list(other.measured)
        and all(np.array_equal(one.measured[name], other.measured[name]) for name in one.measured)
        and one.state_sha256 == other.state_sha256
        and np.array_equal(one.step_wall_us, other.step_wall_us)
        and one.calls == other.calls
    )


def _refused(call: Callable[[], Any]) -> str:
    with pytest.raises(EvidenceError) as caught:
        call()
    assert caught.value.code == "trace_malformed"
    return caught.value.message


def _rewritten(change: Callable[[pa.Table], pa.Table], **options: Any) -> bytes:
    """The stored trace as another writer would store it after a change."""
    file = pq.ParquetFile(pa.BufferReader(DATA))
    table = change(file.read())
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="zstd", **_PLAIN) as writer:
        writer.write_table(table, **options)
        calls = (file.metadata.metadata or {})[b"trialplate.calls"]
        writer.add_key_value_metadata({b"trialplate.calls": calls})
    return sink.getvalue().to_pybytes()


def _with_column(name: str, values: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(table.schema.get_field_index(name), name, values)

    return change


@pytest.mark.parametrize("steps", [0, 1, 4, 301])
def test_a_trace_reads_back_as_it_was(steps: int) -> None:
    trace = make_trace(steps, steps=steps)
    back = read_trace(trace_bytes(trace, COLUMNS), columns=COLUMNS)
    assert _same(trace, back)
    assert back.action.shape == (steps, 7)
    assert back.measured["gripper_width_m"].shape == (steps + 1, 1)
    assert back.content_sha256() == trace.content_sha256()


def test_equal_traces_are_equal_bytes_and_any_other_number_is_other_bytes() -> None:
    assert trace_bytes(make_trace(7), COLUMNS) == DATA
    for changed in (
        replace(TRACE, action=np.nextafter(TRACE.action, 9.0)),
        replace(TRACE, step_wall_us=TRACE.step_wall_us + 1),
        replace(TRACE, calls=({"step": 1},)),
        replace(TRACE, state_sha256=tuple(reversed(TRACE.state_sha256))),
    ):
        assert trace_bytes(changed, COLUMNS) != DATA


def test_units_and_meanings_stand_in_the_file() -> None:
    field = pq.read_schema(pa.BufferReader(DATA)).field("block_position_m")
    assert field.metadata[b"unit"] == b"m"
    assert b"world frame" in field.metadata[b"meaning"]


def test_the_file_can_be_read_by_any_parquet_reader_with_the_declared_plain_types() -> None:
    schema = pq.read_schema(pa.BufferReader(DATA))
    assert [str(schema.field(name).type) for name in ("step", "gripper_width_m", "step_wall_us")] == [
        "int32",
        "double",
        "int64",
    ]
    assert schema.names == ["step", "action", "block_position_m", "gripper_width_m", "state_sha256", "step_wall_us"]
    assert pq.read_table(pa.BufferReader(DATA)).column("action")[0].as_py() is None


def test_negative_zero_and_extreme_numbers_survive_bit_for_bit() -> None:
    values = np.array([[-0.0, 5e-324, 1.7976931348623157e308]] * (TRACE.steps + 1))
    trace = replace(TRACE, measured={**TRACE.measured, "block_position_m": values})
    back = read_trace(trace_bytes(trace, COLUMNS)).measured["block_position_m"]
    assert back.tobytes() == values.tobytes()


def test_a_reference_names_file_content_size_and_steps() -> None:
    reference = trace_reference(TRACE, DATA, path="episodes/000000-0/trace.parquet")
    assert (reference.file_sha256, reference.size_bytes, reference.steps) == (sha256_hex(DATA), len(DATA), 4)
    assert reference.content_sha256 == read_trace(DATA).content_sha256()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"action": np.zeros(4)}, "action has shape"),
        ({"action": np.zeros((4, 0))}, "action has shape"),
        ({"action": np.full((4, 7), np.nan)}, "column action holds NaN"),
        ({"measured": {"block_position_m": TRACE.measured["block_position_m"]}}, "gripper_width_m"),
        ({"measured": {**TRACE.measured, "gripper_width_m": np.zeros((4, 1))}}, r"gripper_width_m has shape (4, 1)"),
        ({"measured": {**TRACE.measured, "gripper_width_m": np.full((5, 1), np.inf)}}, "gripper_width_m holds"),
        ({"state_sha256": TRACE.state_sha256[:-1]}, "4 state digests, expected 5"),
        ({"state_sha256": (*TRACE.state_sha256[:-1], "g" * 64)}, "hexadecimal"),
        ({"state_sha256": (*TRACE.state_sha256[:-1], " " * 64)}, "blanks"),
        ({"step_wall_us": TRACE.step_wall_us.astype(np.float64)}, "step_wall_us is float64"),
        ({"step_wall_us": TRACE.step_wall_us[:-1]}, "step_wall_us"),
        ({"calls": ({"nested": [1]},)}, "policy call 0"),
        ({"calls": ({"late": True},)}, "policy call 0"),
        ({"calls": ({"text": "x" * 9_000_000},)}, "at most"),
    ],
)
def test_a_trace_that_does_not_fit_its_columns_is_not_written(change: dict[str, Any], named: str) -> None:
    assert named in _refused(lambda: trace_bytes(replace(TRACE, **change), COLUMNS))


def test_a_column_may_not_take_the_name_of_a_fixed_one_or_stand_twice() -> None:
    trace = replace(TRACE, measured={"step": np.zeros((5, 1))})
    assert "unique" in _refused(lambda: trace_bytes(trace, (Column("step", 1, "1"),)))
    assert "declared" in _refused(lambda: trace_bytes(TRACE, (*COLUMNS, COLUMNS[0])))


def test_a_file_that_is_cut_at_any_byte_is_refused() -> None:
    for size in range(len(DATA)):
        _refused(lambda size=size: read_trace(DATA[:size]))
    _refused(lambda: read_trace(DATA + b"x"))


def test_a_flipped_bit_is_refused_or_changes_the_content_and_never_crashes() -> None:
    """Values and pages are protected by checksums; what is left is told apart by the digest of the file."""
    outcomes = {"refused": 0, "read": 0}
    for place in range(len(DATA)):
        changed = bytearray(DATA)
        changed[place] ^= 1 << (place % 8)
        try:
            read_trace(bytes(changed), columns=COLUMNS)
            outcomes["read"] += 1
        except EvidenceError as error:
            assert error.code == "trace_malformed"
            outcomes["refused"] += 1
    assert outcomes["refused"] > outcomes["read"]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "0 bytes"),
        (b"PAR1PAR1", "8 bytes"),
        (b"x" * 500, "Parquet mark"),
        (b"PAR1" + b"\xff" * 64 + b"PAR1", ""),
    ],
)
def test_what_is_no_parquet_file_is_refused(data: bytes, named: str) -> None:
    assert named in _refused(lambda: read_trace(data))


@pytest.mark.parametrize(
    ("name", "values", "named"),
    [
        ("step", pa.array(range(5), pa.int64()), "column step is int64"),
        ("step", pa.array([0, 1, 2, 4, 3], pa.int32()), "not 0..T"),
        ("gripper_width_m", pa.array([0.0] * 5, pa.float32()), "gripper_width_m is float"),
        ("gripper_width_m", pa.array(["a"] * 5), "gripper_width_m is string"),
        ("gripper_width_m", pa.array([[{"a": 1}]] * 5), "gripper_width_m is list"),
        ("gripper_width_m", pa.array([[0.5]] * 5, pa.list_(pa.float64())), "gripper_width_m is list"),
        ("gripper_width_m", pa.array([0.0, None, 0.0, 0.0, 0.0]), "gripper_width_m holds 1 nulls"),
        ("gripper_width_m", pa.array([0.0, np.nan, 0.0, 0.0, 0.0]), "NaN"),
        ("action", pa.array([[0.0] * 7] * 5, pa.list_(pa.float64(), 7)), "0 nulls"),
        ("action", pa.array([None, None] + [[0.0] * 7] * 3, pa.list_(pa.float64(), 7)), "2 nulls"),
        ("action", pa.array([0.0] * 5), "column action is double"),
        ("state_sha256", pa.array([b"x" * 32] * 4 + [None], pa.binary(32)), "lacks 1"),
        ("state_sha256", pa.array(["0" * 64] * 5), "state_sha256 is string"),
        ("step_wall_us", pa.array([0, 1, 2, 3, None], pa.int64()), "step_wall_us holds 1 nulls"),
    ],
)
def test_another_type_null_or_number_in_a_column_is_refused_by_name(name: str, values: pa.Array, named: str) -> None:
    assert named in _refused(lambda: read_trace(_rewritten(_with_column(name, values))))


def test_missing_extra_reordered_and_doubled_columns_are_refused() -> None:
    assert "state_sha256" in _refused(lambda: read_trace(_rewritten(lambda t: t.drop_columns(["state_sha256"]))))
    assert "columns" in _refused(lambda: read_trace(_rewritten(lambda t: t.select(list(reversed(t.column_names))))))
    less = _rewritten(lambda t: t.drop_columns(["gripper_width_m"]))
    assert "gripper_width_m" not in read_trace(less).measured
    assert "expected" in _refused(lambda: read_trace(less, columns=COLUMNS))
    doubled = _rewritten(lambda t: t.add_column(2, "gripper_width_m", t.column("gripper_width_m")))
    assert "twice" in _refused(lambda: read_trace(doubled))


def test_another_format_version_or_absent_calls_are_refused() -> None:
    other = _rewritten(lambda t: t.replace_schema_metadata({"trialplate.format": "trialplate.trace/2"}))
    assert FORMAT in _refused(lambda: read_trace(other))
    sink = pa.BufferOutputStream()
    pq.write_table(pq.read_table(pa.BufferReader(DATA)), sink, compression="zstd", **_PLAIN)
    assert "trialplate.calls is missing" in _refused(lambda: read_trace(sink.getvalue().to_pybytes()))


def test_more_rows_than_the_row_promises_are_refused_before_a_column_is_read() -> None:
    assert "5 rows declared, expected 1 to 4" in _refused(lambda: read_trace(DATA, max_rows=4))
    assert read_trace(DATA, max_rows=5).steps == 4


def test_several_row_groups_are_refused() -> None:
    assert "row groups" in _refused(lambda: read_trace(_rewritten(lambda t: t, row_group_size=2)))


def test_a_file_that_unpacks_to_absurd_sizes_is_refused_with_flat_memory() -> None:
    rows = 1_000_000
    sink = pa.BufferOutputStream()
    zeros = pa.array(np.zeros(rows))
    packed = pa.RecordBatch.from_arrays([zeros], names=["a"])
    with pq.ParquetWriter(sink, packed.schema, compression="zstd", **_PLAIN) as writer:
        writer.write_batch(packed)
    bomb = sink.getvalue().to_pybytes()
    assert len(bomb) < 100_000
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _refused(lambda: read_trace(bomb))
    _refused(lambda: read_trace(bomb, max_rows=300))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 20_000


def test_declared_rows_of_two_to_the_forty_allocate_nothing() -> None:
    """The row count stands in the footer as a zigzag varint: 5 rows are one byte, 0x0a, behind its field header."""
    footer_size = int.from_bytes(DATA[-8:-4], "little")
    footer = DATA[-8 - footer_size : -8]
    mark = b"\x16\x0a"  # field of type i64, value 5
    huge = b"\x16" + bytes([0x80] * 5 + [0x40])  # the same field, value 2^40
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tried = 0
    start = -1
    while (start := footer.find(mark, start + 1)) >= 0:
        changed = footer[:start] + huge + footer[start + 2 :]
        _refused(lambda changed=changed: read_trace(_refooted(changed, footer_size)))
        tried += 1
    everywhere = footer.replace(mark, huge)
    message = _refused(lambda: read_trace(_refooted(everywhere, footer_size)))
    assert tried >= 2
    assert str(2**40) in message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 20_000


def _refooted(footer: bytes, old_size: int) -> bytes:
    return DATA[: -8 - old_size] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
