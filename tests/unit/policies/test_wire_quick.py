"""The quick reader and the careful one never differ: what it takes is the same value, and it refuses nothing."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate.errors import ContractFault
from trialplate.policies.wire import openpi, own, quick
from trialplate.policies.wire.frames import FrameReader

DIALECTS = pytest.mark.parametrize("dialect", [own, openpi], ids=["own", "openpi"])
LIMIT_BYTES = 2**22
Outcome = tuple[str, Any]


def taken(dialect: ModuleType, data: bytes) -> Any:
    return quick.quick_read(data, shape=dialect._shaped, data_key=dialect._DATA_KEY)


def outcome(read: Callable[[], Any]) -> Outcome:
    try:
        return "value", read()
    except ContractFault as fault:
        return fault.code, fault.message


def same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray | np.generic):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)


def agree(dialect: ModuleType, data: bytes) -> bool:
    """Hold the two readers against each other; return whether the quick one took the frame."""
    quickly = taken(dialect, data)
    careful = outcome(lambda: FrameReader(data, shape=dialect._shaped).whole())
    if quickly is not quick.MISSING:
        assert careful[0] == "value", f"the quick reader took what the careful one refuses: {careful[1]}"
        assert same(quickly, careful[1])
    assert same(list(outcome(lambda: dialect.decode(data, max_bytes=LIMIT_BYTES))), list(careful))
    return quickly is not quick.MISSING


def array(dtype: str, size: int, seed: int) -> Any:
    return np.frombuffer(np.random.default_rng(seed).bytes(size * np.dtype(dtype).itemsize), dtype=dtype)


ARRAYS = st.builds(
    array, st.sampled_from(["|u1", "<i4", "<f4", "<f8"]), st.sampled_from([0, 1, 7, 511, 2048, 5000]),
    st.integers(0, 99),
)  # fmt: skip
NAMES = st.sampled_from(["data", "dtype", "images", "\x00data\xc6", "chunk", ""]) | st.text(max_size=8)
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=20)
    | st.binary(max_size=20) | st.just(bytes(3000)) | st.just(b"\xa4data\xc6\x00\x00\x10\x00") | ARRAYS
)  # fmt: skip
MESSAGES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=12
)


@DIALECTS
@settings(max_examples=150, deadline=None)
@given(message=st.dictionaries(NAMES, MESSAGES, max_size=6))
def test_a_frame_is_the_same_value_to_both_readers(dialect: ModuleType, message: dict[str, Any]) -> None:
    agree(dialect, dialect.encode(message))


@DIALECTS
@settings(max_examples=150, deadline=None)
@given(message=st.dictionaries(NAMES, MESSAGES, max_size=4), data=st.data())
def test_a_frame_with_changed_bytes_has_the_same_fate_with_both_readers(
    dialect: ModuleType, message: dict[str, Any], data: st.DataObject
) -> None:
    frame = bytearray(dialect.encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(frame) - 1))
        kind = data.draw(st.sampled_from(["set", "cut", "repeat"]))
        if kind == "set":
            frame[place] = data.draw(
                st.integers(0, 255) | st.sampled_from([0xC4, 0xC5, 0xC6, 0xCA, 0xC7, 0xDF, 0x80])
            )
        elif kind == "cut" and len(frame) > 1:
            del frame[place]
        else:
            frame[place:place] = frame[place : place + data.draw(st.integers(1, 30))]
    agree(dialect, bytes(frame))


@DIALECTS
@settings(max_examples=200, deadline=None)
@given(frame=st.binary(min_size=1, max_size=60))
def test_noise_has_the_same_fate_with_both_readers(dialect: ModuleType, frame: bytes) -> None:
    agree(dialect, frame)


LOOK = {
    "type": "observation",
    "images": {"front": array("|u1", 196_608, 1).reshape(256, 256, 3), "hand": array("|u1", 5000, 2)},
    "proprio": {"arm": [0.5, -1.0]},
    "instruction": "put \xa4data on it",
}


@DIALECTS
def test_an_ordinary_look_is_taken_quickly_and_its_pictures_lie_in_the_frame(dialect: ModuleType) -> None:
    data = dialect.encode(LOOK)
    assert agree(dialect, data)
    found = taken(dialect, data)["images"]
    assert all(np.shares_memory(found[name], np.frombuffer(data, np.uint8)) for name in found)
    assert not any(picture.flags.writeable for picture in found.values())


@DIALECTS
@pytest.mark.parametrize("arrays", [1, 2])
def test_a_message_that_names_the_stand_in_is_not_taken_quickly(dialect: ModuleType, arrays: int) -> None:
    pictures = {str(number): array("|u1", 3000, number) for number in range(arrays)}
    for intruder in (quick._MARK, quick._STAND_IN, bytes(2) + quick._STAND_IN):
        assert not agree(dialect, dialect.encode({"a": intruder, **pictures, "z": 1})) or intruder != quick._MARK
        assert not agree(dialect, dialect.encode({**pictures, "data": intruder})) or intruder != quick._MARK


UNUSUAL = {
    "a key that stands twice": b"\x82\xa1a\x01\xa1a\x02",
    "bytes that follow": b"\x80\x80",
    "a number in a longer form": b"\x81\xa1a\xcd\x00\x01",
    "a text in a longer form": b"\x81\xd9\x01a\x01",
    "a float32": b"\x81\xa1a\xca\x3f\x80\x00\x00",
    "an extension": b"\x81\xa1a\xd4\x01\x00",
    "a timestamp": msgspec.msgpack.encode({"a": msgspec.msgpack.Ext(-1, bytes(4))}),
    "a key that is a number": b"\x81\x01\x02",
    "a key that is null": b"\x81\xc0\x02",
    "17 lists": b"\x81\xa1a" + b"\x91" * 16 + b"\x01",
    "1000 lists": b"\x91" * 1000 + b"\x01",
    "a list that announces too much": b"\xdd\xff\xff\xff\xff",
    "a map that announces too much": b"\xdf\x7f\xff\xff\xff",
    "a text that is not UTF-8": b"\x81\xa1a\xa1\xff",
    "nothing but a header": b"\xc6",
    "more than is small": msgspec.msgpack.encode({str(number): number for number in range(2000)}),
}


@DIALECTS
@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_is_left_to_the_careful_reader(dialect: ModuleType, name: str) -> None:
    assert not agree(dialect, UNUSUAL[name])


@DIALECTS
def test_sixteen_levels_are_ordinary(dialect: ModuleType) -> None:
    assert agree(dialect, b"\x81\xa1a" + b"\x91" * 15 + b"\x01")


@pytest.mark.parametrize("size", [2047, 2048, 65_535, 65_536])
def test_a_binary_that_is_no_arrays_stays_bytes(size: int) -> None:
    data = msgspec.msgpack.encode({"data": bytes(size), "other": 1})
    assert type(own.decode(data, max_bytes=LIMIT_BYTES)["data"]) is bytes
    agree(own, data)
