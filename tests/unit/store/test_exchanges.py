"""Exchanges: what was shown and answered reads back, memory is bounded, and nothing malformed is believed."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from trialplate.errors import EvidenceError, StorageFailure
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
    Usage,
)
from trialplate.store import exchanges as exchanges_module
from trialplate.store.exchange_columns import FORMAT_KEY, HEAD_KEY
from trialplate.store.exchange_reading import read_head
from trialplate.store.exchanges import ExchangeWriter, read_exchanges

EPISODE, REGISTRATION = "ab" * 16, "cd" * 32
Images = dict[str, NDArray[np.uint8]]


def pictures(seed: int, *, size: int = 8) -> Images:
    stream = np.random.default_rng(seed)
    front = stream.integers(0, 256, (size, size, 3), dtype=np.uint8)
    return {"front": front, "wrist": stream.integers(0, 256, (3, size, 4), dtype=np.uint8)}


def observation(call: int, **changes: Any) -> Observation:
    known: dict[str, Any] = {
        "episode": EPISODE,
        "call_index": call,
        "observation_id": f"{call:032x}",
        "registration_sha256": REGISTRATION,
        "step_index": 2 * call,
        "instruction": "place the block",
        "images": pictures(call),
        "proprio": {"joints": np.arange(3.0) + call, "grip": np.array([0.5])},
        "remaining": Remaining(100 - call, None),
        "meta": {"step_index": 2.0 * call, "remaining_calls": None},
    }
    return Observation(**(known | changes))


def exchange(call: int, *, rows: Any = None, shown: Observation | None = None, **changes: Any) -> Exchange:
    seen = shown or observation(call)
    sent = np.array([[0.1 * call, -1.0], [2.0, 3.0]]) if rows is None else rows
    known: dict[str, Any] = {
        "observation": seen,
        "kind": "chunk",
        "rows": sent,
        "reply": PolicyDecision(ActionChunk(sent), latency_ms=1.5, echo="policy", batch_size=2),
        "ack": Ack(EPISODE, call, True, len(sent), 2, len(sent) - 2, 0, None, "observation"),
        "frames_sha256": "ef" * 32,
        "images": seen.images,
    }
    return Exchange(**(known | changes))


def stored(calls: Sequence[Exchange], *, detailed: bool = True) -> bytes:
    writer = ExchangeWriter(detailed=detailed)
    for call in calls:
        writer.add(call)
    data = writer.finish()
    assert data is not None
    return data


def same(one: Any, other: Any) -> bool:
    """Whether two records hold the same values, arrays included."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if hasattr(one, "__dataclass_fields__"):
        return type(one) is type(other) and all(
            same(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__
        )
    return bool(one == other)


def test_a_detailed_file_gives_back_what_was_shown_answered_and_done() -> None:
    calls = [exchange(call) for call in range(5)]
    assert all(same(one, other) for one, other in zip(calls, read_exchanges(stored(calls)), strict=True))


def test_a_minimal_file_holds_decisions_and_acks_and_nothing_that_was_shown() -> None:
    calls = [exchange(call) for call in range(3)]
    data = stored(calls, detailed=False)
    for one, other in zip(calls, read_exchanges(data), strict=True):
        shown = other.observation
        assert same((one.rows, one.reply, one.ack, one.kind), (other.rows, other.reply, other.ack, other.kind))
        assert (shown.images, shown.proprio, shown.instruction, other.images) == ({}, {}, None, {})
        assert shown.observation_id == one.observation.observation_id
    names = pq.read_schema(pa.BufferReader(data)).names
    assert not [name for name in names if name.startswith(("image.", "proprio.")) or name == "instruction"]


def test_pictures_can_be_left_unread() -> None:
    calls = [exchange(call) for call in range(3)]
    back = read_exchanges(stored(calls), pictures=False)
    assert [call.images for call in back] == [{}, {}, {}]
    assert same(back[2].observation.proprio, calls[2].observation.proprio)


def test_every_kind_of_call_reads_back() -> None:
    issue = Issue("invalid_action", 3, "gripper", "in [0, 1]")
    refused = exchange(
        1,
        kind="rejected",
        rows=None,
        reply=PolicyDecision(ActionChunk([[1.0, float("nan")]]), usage=Usage(1, 200, None, 0.25), echo="client"),
        ack=Ack(EPISODE, 1, False, 0, 0, 0, 0, issue, "observation"),
    )
    refused = replace(refused, rows=None)
    told = observation(2, issue=issue, observation_id=refused.observation.observation_id)
    stop = replace(
        exchange(3),
        kind="stop",
        rows=None,
        reply=PolicyDecision(Stop("done \x00"), usage_reason="not_reported", remarks={"server_timing": {"ms": 1.25}}),
        ack=Ack(EPISODE, 3, True, 0, 0, 0, 0, None, "episode_end"),
    )
    fault = replace(exchange(4), kind="fault", rows=None, reply=None, frames_sha256=None)
    back = read_exchanges(stored([exchange(0), refused, exchange(2, shown=told), stop, fault]))
    assert back[1].rows is None and back[1].reply is not None and back[1].ack.issue == issue
    assert isinstance(back[1].reply.decision, ActionChunk) and back[1].reply.decision.vectors == [[1.0, "nan"]]
    assert (back[1].reply.usage, back[1].reply.echo) == (Usage(1, 200, None, 0.25), "client")
    assert back[2].observation.issue == issue
    assert back[3].reply is not None and back[3].reply.decision == Stop("done \ufffd")
    assert back[3].reply.remarks == {"server_timing": {"ms": 1.25}} and back[3].reply.usage_reason == "not_reported"
    assert (back[4].kind, back[4].reply, back[4].frames_sha256) == ("fault", None, None)


def test_the_history_that_was_shown_is_put_together_from_earlier_calls() -> None:
    looks: list[Images] = [pictures(seed) for seed in range(4)]
    rows = [np.array([[float(call), 0.0], [float(call), 1.0]]) for call in range(4)]
    ids = ["0" * 32, "1" * 32, "1" * 32, "2" * 32]
    number = [0, 1, 1, 2]
    executed = [2, 0, 1, 2]
    calls, past_looks, past_rows = [], [], []  # type: ignore[var-annotated]
    for call in range(4):
        if call and ids[call] != ids[call - 1]:
            past_looks.append(looks[number[call - 1]])
        padded = ([None] * 2 + past_looks)[-2:]
        images = {name: tuple(look[name] if look else None for look in padded) for name in looks[0]}
        past = History(images, tuple(([None] * 3 + past_rows)[-3:]))
        before = calls[-1].observation.history if call and ids[call] == ids[call - 1] else past
        shown = observation(call, observation_id=ids[call], images=looks[number[call]], history=before)
        ack = Ack(EPISODE, call, True, 2, executed[call], 0, 2 - executed[call], None, "observation")
        calls.append(exchange(call, shown=shown, rows=rows[call], ack=ack))
        past_rows.extend(rows[call][: executed[call]])
    back = read_exchanges(stored(calls))
    assert all(same(one.observation.history, two.observation.history) for one, two in zip(calls, back, strict=True))


def test_equal_episodes_give_equal_bytes_whatever_the_threads_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges_module, "MAX_BATCH_BYTES", 1000)
    calls = [exchange(call) for call in range(40)]
    once = stored(calls)
    assert once == stored(calls)
    assert all(same(one, other) for one, other in zip(calls, read_exchanges(once), strict=True))
    assert pq.ParquetFile(pa.BufferReader(once)).num_row_groups > 5


def test_no_thread_outlives_the_end_nor_a_writer_that_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges_module, "MAX_BATCH_BYTES", 1)
    before = threading.active_count()
    stored([exchange(call) for call in range(5)])
    given_up = ExchangeWriter(detailed=True)
    for call in range(9):
        given_up.add(exchange(call))
    given_up.close()
    given_up.close()
    assert threading.active_count() == before


def test_a_file_without_calls_is_none() -> None:
    assert ExchangeWriter(detailed=True).finish() is None


def test_nothing_can_be_added_after_the_end() -> None:
    writer = ExchangeWriter(detailed=False)
    writer.add(exchange(0))
    writer.finish()
    with pytest.raises(EvidenceError, match="added after"):
        writer.add(exchange(1))
    with pytest.raises(EvidenceError, match="finished before"):
        writer.finish()


def test_a_call_that_was_shown_another_picture_size_is_refused() -> None:
    writer = ExchangeWriter(detailed=True)
    writer.add(exchange(0))
    writer.add(exchange(1, shown=observation(1, images=pictures(1, size=9))))
    with pytest.raises(EvidenceError, match=r"picture front: the first call was shown shape \(8, 8, 3\)"):
        writer.finish()


def test_a_failure_of_the_packing_thread_reaches_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError("no memory left")

    monkeypatch.setattr(exchanges_module, "MAX_BATCH_BYTES", 1)
    monkeypatch.setattr(exchanges_module._Packer, "pack", full)
    writer = ExchangeWriter(detailed=True)
    with pytest.raises(StorageFailure, match="no memory left"):
        for call in range(100):
            writer.add(exchange(call))
    writer.close()


class Sly(dict[str, Any]):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("code of the policy ran")


def test_what_a_policy_adds_to_its_reply_is_kept_as_bounded_plain_text() -> None:
    remarks = {
        "array": np.array([1.0, np.inf], dtype=np.float32),
        "big": np.zeros(100_000, dtype=np.uint8),
        "raw": b"\x00\x01",
        b"key": np.float64(0.5),
        "deep": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]],
        "sly": Sly(a=1),
        "huge": 2**80,
        "half": "\ud800",
    }
    reply = PolicyDecision(ActionChunk([[0.0, 0.0]]), remarks=remarks)
    (back,) = read_exchanges(stored([replace(exchange(0), reply=reply)]))
    assert back.reply is not None
    kept = back.reply.remarks
    assert kept["array"] == [1.0, "inf"] and kept["key"] == 0.5 and kept["sly"] == {"type": "Sly"}
    assert kept["big"]["shape"] == [100_000] and len(kept["big"]["sha256"]) == 64
    assert kept["raw"]["size"] == 2 and kept["huge"] == {"type": "int", "bits": 81} and kept["half"] == "?"


@pytest.mark.parametrize(
    "remarks", [{"text": "x" * 10_000_000}, {str(n): "y" * 1000 for n in range(50_000)}, {"list": [0] * 1_000_000}]
)
def test_a_reply_of_any_size_costs_a_bounded_text(remarks: dict[str, Any]) -> None:
    small, big = exchange(0), replace(exchange(0), reply=PolicyDecision(ActionChunk([[0.0, 0.0]]), remarks=remarks))
    assert len(stored([big])) - len(stored([small])) < 70_000


def test_stored_pictures_lie_there_for_any_reader_of_parquet() -> None:
    calls = [exchange(call) for call in range(3)]
    table = pq.read_table(pa.BufferReader(stored(calls)))
    field = table.schema.field("image.front")
    shape = json.loads(field.metadata[b"shape"])
    found = np.frombuffer(table.column("image.front")[2].as_py(), dtype=field.metadata[b"dtype"].decode())
    assert np.array_equal(found.reshape(shape), calls[2].images["front"])
    assert table.column("rows").to_pylist()[1] == [0.1, -1.0, 2.0, 3.0]
    assert table.column("proprio.joints").to_pylist()[2] == [2.0, 3.0, 4.0]


def _rewritten(data: bytes, change: Any = lambda table: table, *, head: bytes | None = None) -> bytes:
    file = pq.ParquetFile(pa.BufferReader(data))
    table = change(file.read())
    kept = {HEAD_KEY: (file.metadata.metadata or {})[HEAD_KEY] if head is None else head}
    sink = pa.BufferOutputStream()
    options: dict[str, Any] = {"use_dictionary": False, "write_statistics": False}
    with pq.ParquetWriter(sink, table.schema, compression="zstd", **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(kept)
    return bytes(sink.getvalue())


def _column(name: str, values: Any) -> Any:
    def change(table: Any) -> Any:
        place = table.schema.get_field_index(name)
        return table.set_column(place, table.schema.field(name), pa.array(values, type=table.schema.field(name).type))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_column("row_count", [2, 3, 2]), "4 numbers, declared 3 rows of 2"),
        (_column("row_count", [2, None, 2]), "4 numbers, declared None rows"),
        (_column("kind", ["chunk", "magic", "chunk"]), "kind 'magic'"),
        (_column("remarks", ["{", None, None]), "not JSON"),
        (_column("image.front", [b"x", b"y", b"z"]), "1 bytes, expected 192"),
        (lambda table: table.drop_columns(["echo"]), "not those that the head declares"),
        (lambda table: table.replace_schema_metadata({FORMAT_KEY: b"other"}), "no exchanges of this version"),
    ],
)
def test_a_changed_file_is_refused_by_name(change: Any, message: str) -> None:
    data = stored([exchange(call) for call in range(3)])
    assert len(read_exchanges(_rewritten(data))) == 3
    with pytest.raises(EvidenceError, match=message) as caught:
        read_exchanges(_rewritten(data, change))
    assert caught.value.code == "exchange_malformed"


@pytest.mark.parametrize("member", ["recording", "images", "history", "episode"])
def test_a_forged_head_is_refused(member: str) -> None:
    data = stored([exchange(0)])
    head = read_head(data).document()
    head[member] = {"recording": "more", "images": [["front", [8, 8, 2**40]]], "history": [1], "episode": None}[
        member
    ]
    forged = json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(EvidenceError) as caught:
        read_exchanges(_rewritten(data, head=forged))
    assert caught.value.code == "exchange_malformed"


def test_a_flipped_or_missing_byte_is_never_believed() -> None:
    calls = [exchange(call) for call in range(2)]
    data = stored(calls)
    for place in range(0, len(data), 7):
        flipped = bytearray(data)
        flipped[place] ^= 0x55
        try:
            back = read_exchanges(bytes(flipped))
        except EvidenceError as error:
            assert error.code == "exchange_malformed"
        else:  # a byte that carries nothing, for example the name of the writer
            assert all(same(one.rows, other.rows) for one, other in zip(calls, back, strict=True))
    for cut in (0, 3, 11, len(data) // 2, len(data) - 1):
        with pytest.raises(EvidenceError):
            read_exchanges(data[:cut])
