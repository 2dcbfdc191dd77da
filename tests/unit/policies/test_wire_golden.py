"""Frames of the contract, byte for byte, and each array form only on its own wire."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from trialplate.errors import ContractFault
from trialplate.policies.wire import openpi, own, strict_json

OWN = (
    "84ab5f5f6e6461727261795f5fc3a56474797065a33c6634a57368617065920202a464617461c410000000000000003f0000803f000080bf"
)
OPENPI = (
    "84c40b5f5f6e6461727261795f5fc3c40464617461c410000000000000003f0000803f000080bf"
    "c4056474797065a33c6634c4057368617065920202"
)
ND = (
    "85c4026e64c3c40474797065a33c6634c4046b696e64c400c4057368617065920202"
    "c40464617461c410000000000000003f0000803f000080bf"
)
ARRAY = np.array([[0, 0.5], [1, -1]], dtype=np.float32)
LIMIT = 2**20
WIRES = [(own.encode, own.decode), (openpi.encode, openpi.decode), (strict_json.dumps, strict_json.loads)]


@pytest.mark.parametrize(("dialect", "frame", "size"), [(own, OWN, 56), (openpi, OPENPI, 60)], ids=["own", "openpi"])
def test_the_golden_array_is_written_and_read_byte_for_byte(dialect: ModuleType, frame: str, size: int) -> None:
    data = bytes.fromhex(frame)
    assert len(data) == size
    assert dialect.encode(ARRAY) == data
    found = dialect.decode(data, max_bytes=LIMIT)
    assert found.dtype == np.float32
    assert np.array_equal(found, ARRAY)
    assert dialect.encode(found) == data


@pytest.mark.parametrize(
    ("dialect", "frame", "named"),
    [
        (own, OPENPI, "openpi form"),
        (own, ND, "nd/type/kind form"),
        (openpi, OWN, "own form"),
        (openpi, ND, "nd/type"),
    ],
    ids=["openpi on own", "nd on own", "own on openpi", "nd on openpi"],
)
def test_row_35_an_array_in_another_form_is_refused_by_the_name_of_that_form(
    dialect: ModuleType, frame: str, named: str
) -> None:
    whole = b"\x81\xa7actions" + bytes.fromhex(frame)
    for data in (bytes.fromhex(frame), whole):
        with pytest.raises(ContractFault, match=named) as refused:
            dialect.decode(data, max_bytes=LIMIT)
        assert refused.value.code == "wire_dialect_mismatch"


def test_the_nd_form_with_text_keys_is_refused_too() -> None:
    form = {"nd": True, "type": "<f4", "kind": b"", "shape": [1], "data": b"\0\0\0\0"}
    for dialect in (own, openpi):
        with pytest.raises(ContractFault) as refused:
            dialect.decode(own.encode({"a": form}), max_bytes=LIMIT)
        assert refused.value.code == "wire_dialect_mismatch"


def test_a_numpy_scalar_of_openpi_is_refused_on_the_own_wire_and_read_on_its_own() -> None:
    data = openpi.encode({"t": np.float32(0.25), "n": np.int64(-3), "b": np.bool_(True)})
    found = openpi.decode(data, max_bytes=LIMIT)
    assert found == {"t": np.float32(0.25), "n": -3, "b": True}
    assert [type(value).__name__ for value in found.values()] == ["float32", "int64", "bool"]
    with pytest.raises(ContractFault) as refused:
        own.decode(data, max_bytes=LIMIT)
    assert refused.value.code == "wire_dialect_mismatch"


@pytest.mark.parametrize("dtype", ["|b1", "|u1", "<u2", "<i2", "<i4", "<i8", "<f4", "<f8"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 7), (2, 3, 4), (1,) * 8], ids=str)
def test_every_allowed_array_comes_back_in_every_encoding(dtype: str, shape: tuple[int, ...]) -> None:
    count = int(np.prod(shape))
    sent = (np.arange(count) % 2).astype(dtype).reshape(shape)
    for write, read in WIRES:
        found = read(write({"a": [sent]}), max_bytes=LIMIT)["a"][0]
        assert (found.dtype.str, found.shape) == (dtype, shape)
        assert np.array_equal(found, sent)
        assert not found.flags.writeable


def test_a_picture_that_is_read_is_a_view_of_the_frame_and_not_a_copy() -> None:
    sent = np.resize(np.arange(256, dtype=np.uint8), (64, 64, 3))
    for dialect in (own, openpi):
        data = dialect.encode({"image": sent})
        found = dialect.decode(data, max_bytes=LIMIT)["image"]
        frame = np.frombuffer(data, dtype=np.uint8)
        assert np.shares_memory(found, frame)


def test_a_picture_that_is_not_contiguous_or_of_the_other_byte_order_arrives_as_it_looks() -> None:
    flipped = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)[::-1, :, ::-1]
    big = np.arange(4, dtype=">f4")
    for write, read in WIRES:
        found = read(write({"image": flipped, "big": big}), max_bytes=LIMIT)
        assert np.array_equal(found["image"], flipped)
        assert found["big"].dtype == np.dtype("<f4")
        assert np.array_equal(found["big"], big)


@pytest.mark.parametrize("dtype", ["O", "V4", "U3", "S3", "c8", "f2", "u8", "u4", "i1", "M8[s]"])
def test_an_array_of_another_dtype_is_never_written(dtype: str) -> None:
    array = np.zeros(2, dtype=dtype)
    for write in (own.encode, openpi.encode, strict_json.dumps):
        with pytest.raises(ContractFault) as refused:
            write({"a": array})
        assert refused.value.code == "wire_malformed"


def test_a_value_that_has_no_place_in_a_message_is_refused_when_it_is_written() -> None:
    for write in (own.encode, openpi.encode, strict_json.dumps):
        for value in (object(), 1j, 2**70 if write is not strict_json.dumps else {1, 2}):
            with pytest.raises(ContractFault):
                write({"a": value})
