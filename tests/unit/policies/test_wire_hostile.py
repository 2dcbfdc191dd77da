"""Frames that lie: refused before anything is allocated for what they say."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trialplate.errors import ContractFault
from trialplate.policies.wire import openpi, own, strict_json
from trialplate.policies.wire.arrays import MAX_DEPTH, MAX_KEYS

LIMIT = 2**26
WIRES = [(own.encode, own.decode), (openpi.encode, openpi.decode), (strict_json.dumps, strict_json.loads)]
FLAT_BYTES = 128 * 1024
pack = msgspec.msgpack.encode


def form(dtype: object, shape: object, data: object) -> dict[str, object]:
    return {"__ndarray__": True, "dtype": dtype, "shape": shape, "data": data}


def bytes_form(dtype: object, shape: object, data: object) -> dict[bytes, object]:
    return {b"__ndarray__": True, b"dtype": dtype, b"shape": shape, b"data": data}


def refusal(read: Callable[[], Any]) -> tuple[str, int]:
    """Return the code of the fault and the bytes that were allocated at most on the way to it."""
    tracemalloc.start()
    try:
        with pytest.raises(ContractFault) as refused:
            read()
        return refused.value.code, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


ARRAYS = {
    "object": ("|O", [1], b"\0" * 8),
    "pickled object": ("O", [1], b"\x80\x04N."),
    "big-endian": (">f4", [1], b"\0" * 4),
    "no byte order": ("f4", [1], b"\0" * 4),
    "name of a type": ("float32", [1], b"\0" * 4),
    "void": ("|V4", [1], b"\0" * 4),
    "text": ("<U1", [1], b"\0" * 4),
    "complex": ("<c8", [1], b"\0" * 8),
    "half": ("<f2", [2], b"\0" * 4),
    "record": ("i4,i4", [1], b"\0" * 8),
    "dtype is a number": (4, [1], b"\0" * 4),
    "dtype is a list": ([["a", "<f4"]], [1], b"\0" * 4),
    "huge": ("<f4", [2**40, 2**40], b"\0" * 4),
    "product wraps to the length": ("|u1", [2**32, 2**32], b""),
    "product wraps to four": ("|u1", [2**62, 4, 1], b"\0" * 4),
    "huge without numbers": ("<f4", [0, 2**63], b""),
    "negative": ("<f4", [-1], b"\0" * 4),
    "two negatives": ("<f4", [-1, -1], b"\0" * 4),
    "one byte short": ("<f4", [2], b"\0" * 7),
    "one byte long": ("<f4", [2], b"\0" * 9),
    "rank 9": ("<f4", [1] * 9, b"\0" * 4),
    "shape is a number": ("<f4", 1, b"\0" * 4),
    "shape of fractions": ("<f4", [1.0], b"\0" * 4),
    "shape of booleans": ("<f4", [True], b"\0" * 4),
    "shape of text": ("<f4", ["1"], b"\0" * 4),
    "data is text": ("<f4", [1], "abcd"),
    "data is a list": ("<f4", [1], [0, 0, 0, 0]),
    "data is missing": ("<f4", [1], None),
    "a boolean of 2": ("|b1", [2], b"\x01\x02"),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("dialect", [own, openpi], ids=["own", "openpi"])
def test_row_36_an_array_that_lies_is_refused_and_memory_stays_flat(dialect: ModuleType, name: str) -> None:
    make: Any = form if dialect is own else bytes_form
    data = pack({"a": make(*ARRAYS[name])})
    code, allocated = refusal(lambda: dialect.decode(data, max_bytes=LIMIT))
    assert code == "wire_malformed"
    assert allocated < FLAT_BYTES


def _deep(opening: bytes, depth: int = 10_000) -> bytes:
    return opening * depth + b"\xc0"


FRAMES = {
    "0 bytes": b"",
    "truncated number": b"\xcb\0\0",
    "truncated text": b"\xa5abc",
    "truncated binary": b"\xc4\x10abc",
    "truncated map": b"\x82\xa1a\x01\xa1b",
    "truncated header": b"\xdd\0\0",
    "a list of 4 billion": b"\xdd\xff\xff\xff\xff",
    "a map of 4 billion": b"\xdf\xff\xff\xff\xff",
    "a text of 4 billion": b"\xdb\xff\xff\xff\xffabc",
    "binary of 4 billion": b"\xc6\xff\xff\xff\xffabc",
    "lists that announce 4 billion each": b"\xdd\xff\xff\xff\xff" * 100,
    "a list of 65535 in a list": b"\x91\xdc\xff\xff\xc0",
    "depth 10000 of lists": _deep(b"\x91"),
    "depth 10000 of maps": _deep(b"\x81\xa1a"),
    "bytes after the end": b"\xc0\xc0",
    "no such byte": b"\xc1",
    "fixext": b"\xd4\x01\x00",
    "ext": b"\xc7\x01\x01\x00",
    "a key twice": b"\x82\xa1a\x01\xa1a\x02",
    "a key is a number": b"\x81\x01\x02",
    "a key is a list": b"\x81\x90\x02",
    "a key is null": b"\x81\xc0\x02",
    "not UTF-8": b"\xa2\xff\xfe",
    "half a surrogate": b"\xa3\xed\xa0\x80",
    "more keys than allowed": pack({str(number): 0 for number in range(MAX_KEYS + 1)}),
    "a bytes key of no form": pack({b"a": 1}),
    "half an array": pack({"__ndarray__": True, "dtype": "<f4"}),
    "an array with a key too many": pack({**form("|u1", [1], b"\0"), "order": "C"}),
    "an array that denies it": pack({**form("|u1", [1], b"\0"), "__ndarray__": False}),
    "an array that says 1": pack({**form("|u1", [1], b"\0"), "__ndarray__": 1}),
}


@pytest.mark.parametrize("name", FRAMES)
def test_row_36_a_frame_that_lies_is_refused_and_memory_stays_flat(name: str) -> None:
    code, allocated = refusal(lambda: own.decode(FRAMES[name], max_bytes=LIMIT))
    assert code == "wire_malformed"
    assert allocated < FLAT_BYTES + 40 * len(FRAMES[name])


@pytest.mark.parametrize("name", sorted(FRAMES.keys() - {"a bytes key of no form"}))
def test_a_frame_that_lies_is_refused_by_the_other_dialect_too(name: str) -> None:
    code, _ = refusal(lambda: openpi.decode(FRAMES[name], max_bytes=LIMIT))
    assert code in ("wire_malformed", "wire_dialect_mismatch")


def test_nesting_to_the_limit_is_read_and_one_more_is_refused() -> None:
    assert own.decode(b"\x91" * (MAX_DEPTH - 1) + b"\x90", max_bytes=LIMIT) is not None
    with pytest.raises(ContractFault, match="deeper"):
        own.decode(b"\x91" * MAX_DEPTH + b"\x90", max_bytes=LIMIT)
    assert strict_json.loads(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, max_bytes=LIMIT) is not None
    with pytest.raises(ContractFault, match="deeper"):
        strict_json.loads(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), max_bytes=LIMIT)


def test_as_many_keys_as_allowed_are_read() -> None:
    members = {str(number): 0 for number in range(MAX_KEYS)}
    assert own.decode(pack(members), max_bytes=LIMIT) == members


def test_keys_are_counted_over_the_whole_frame() -> None:
    halves = [{str(number): 0 for number in range(MAX_KEYS // 2 + 1)} for _ in range(2)]
    with pytest.raises(ContractFault, match="keys"):
        own.decode(pack(halves), max_bytes=LIMIT)
    with pytest.raises(ContractFault, match="keys"):
        strict_json.loads(msgspec.json.encode(halves), max_bytes=LIMIT)


def test_a_frame_of_millions_of_empty_lists_is_refused_before_they_are_made() -> None:
    data = b"\xdd" + struct.pack(">I", 2**22) + b"\x90" * 2**22
    code, allocated = refusal(lambda: own.decode(data, max_bytes=LIMIT))
    assert (code, allocated < FLAT_BYTES) == ("wire_malformed", True)
    text = b"[" + b"[]," * 2**20 + b"[]]"
    code, allocated = refusal(lambda: strict_json.loads(text, max_bytes=LIMIT))
    assert (code, allocated < FLAT_BYTES) == ("wire_malformed", True)


@pytest.mark.parametrize("read", [own.decode, openpi.decode, strict_json.loads], ids=["own", "openpi", "json"])
def test_a_message_above_the_limit_is_refused_with_both_sizes(read: Callable[..., Any]) -> None:
    data = msgspec.json.encode("a" * 98) if read is strict_json.loads else pack("a" * 98)
    assert len(data) == 100
    assert read(data, max_bytes=100) == "a" * 98
    with pytest.raises(ContractFault, match=r"100 bytes.*99") as refused:
        read(data, max_bytes=99)
    assert refused.value.code == "message_too_large"


@pytest.mark.parametrize("dialect", [own, openpi], ids=["own", "openpi"])
@pytest.mark.parametrize("frame", ["{}", "Traceback (most recent call last)", None, 4], ids=repr)
def test_a_text_frame_where_a_binary_one_is_expected_is_refused(dialect: ModuleType, frame: Any) -> None:
    with pytest.raises(ContractFault) as refused:
        dialect.decode(frame, max_bytes=LIMIT)
    assert refused.value.code == "wire_malformed"


def test_binary_that_belongs_to_no_array_is_a_copy_and_never_a_window_into_the_frame() -> None:
    for dialect in (own, openpi):
        found = dialect.decode(pack({"a": b"xy", "b": [b"z", {"c": b""}]}), max_bytes=LIMIT)
        assert found == {"a": b"xy", "b": [b"z", {"c": b""}]}
        assert type(found["a"]) is bytes
    mixed = {"t": {b"__npgeneric__": True, b"data": 1.5, b"dtype": "<f8"}, "loose": b"xy"}
    assert type(openpi.decode(pack(mixed), max_bytes=LIMIT)["loose"]) is bytes


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("<f4", 1e39), ("<f8", True), ("<f8", "1"), ("<i4", 2**31), ("<i4", 1.5), ("|u1", -1), ("|b1", 1),
        ("|O", 1), ("<f8", None), ("<f8", b"\0" * 8), ("<f8", 2**60),
    ],
)  # fmt: skip
def test_a_scalar_that_is_not_of_its_type_is_refused(dtype: str, value: object) -> None:
    data = pack({"t": {b"__npgeneric__": True, b"data": value, b"dtype": dtype}})
    with pytest.raises(ContractFault) as refused:
        openpi.decode(data, max_bytes=LIMIT)
    assert refused.value.code == "wire_malformed"


def test_numbers_that_are_not_finite_are_read_from_a_frame_and_left_to_the_check_of_actions() -> None:
    (found,) = own.decode(pack([[float("nan"), float("inf"), 0.0, 1.0]]), max_bytes=LIMIT)
    assert np.isnan(found[0]) and found[1] == float("inf")


# -- any bytes at all ----------------------------------------------------------------------------------------------

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=6),
    max_leaves=30,
)


@given(plain)
def test_every_plain_value_comes_back_as_it_was(value: Any) -> None:
    for dialect in (own, openpi):
        try:
            found = dialect.decode(pack(value), max_bytes=LIMIT)
        except ContractFault as fault:
            assert "deeper" in fault.message or "__ndarray__" in repr(value) or "nd" in repr(value)
        else:
            assert found == value


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_any_bytes_are_read_or_refused_and_nothing_else_happens(data: bytes) -> None:
    for read in (own.decode, openpi.decode, strict_json.loads):
        try:
            read(data, max_bytes=LIMIT)
        except ContractFault as fault:
            assert fault.code in ("wire_malformed", "wire_dialect_mismatch")
            assert len(fault.message.encode()) < 1000


def _observation() -> dict[str, Any]:
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    return {"type": "observation", "images": {"front": image}, "proprio": {"q": [0.1] * 7}, "rows": np.eye(2)}


@given(st.integers(0, 10**6), st.integers(0, 255), st.sampled_from(["cut", "byte", "double"]))
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_a_damaged_frame_is_read_or_refused_and_nothing_else_happens(place: int, byte: int, kind: str) -> None:
    for write, read in WIRES:
        data = write(_observation())
        at = place % len(data)
        damaged = {
            "cut": data[:at],
            "byte": data[:at] + bytes([byte]) + data[at + 1 :],
            "double": data[:at] + data[at:] + data[at:],
        }[kind]
        try:
            read(damaged, max_bytes=LIMIT)
        except ContractFault as fault:
            assert fault.code in ("wire_malformed", "wire_dialect_mismatch")
        else:
            assert kind != "cut"


def test_a_large_frame_that_lies_is_refused_quickly() -> None:
    noise = random.Random(7)
    frames = [b"\x9f" * 2**22, b"\x8f" + b"\xa1a\x90" * 2**20, noise.randbytes(2**22), b"\xdc\xff\xff" * 2**20]
    start_s = time.thread_time()  # of our own work, however busy the machine is
    for data in frames:
        with pytest.raises(ContractFault):
            own.decode(data, max_bytes=LIMIT)
    assert time.thread_time() - start_s < 0.07  # 0.2 s for who looks at each byte of one of them
