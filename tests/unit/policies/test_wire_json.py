"""JSON on the wire: strict, exact, and pictures that are not unpacked before their header was believed."""

from __future__ import annotations

import base64
import json
import struct
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialplate.errors import ContractFault
from trialplate.policies.wire import strict_json
from trialplate.policies.wire.arrays import PngPicture

LIMIT = 2**26


def refused(text: str | bytes, *, max_bytes: int = LIMIT) -> ContractFault:
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(ContractFault) as fault:
        strict_json.loads(data, max_bytes=max_bytes)
    return fault.value


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}', '{"a": 1e999}', '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 1}}', '{"a": 9007199254740993}', '{"a": -9007199254740993}', "", "{", '{"a": 1} x',
        "{'a': 1}", '{"a": 01}', '{"a": "\\ud800"}', '{"a": "\\u0000"}', "[" * 17 + "]" * 17, "[" * 100_000,
        '{"a": 1,}', "// no", "\ufeff{}",
    ],
)  # fmt: skip
def test_row_37_what_two_parsers_could_read_differently_is_refused(text: str) -> None:
    assert refused(text).code == "wire_malformed"


def test_text_that_is_not_utf_8_is_refused() -> None:
    assert refused(b'{"a": "\xff"}').code == "wire_malformed"
    assert refused('{"a": 1}'.encode("utf-16")).code == "wire_malformed"


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_a_number_comes_back_to_the_same_bits(values: list[float]) -> None:
    found = strict_json.loads(strict_json.dumps({"a": values}), max_bytes=LIMIT)["a"]
    assert [struct.pack("<d", value) for value in found] == [struct.pack("<d", value) for value in values]


def test_an_integer_of_2_to_the_53_is_read_and_a_float_beyond_it_stays_a_float() -> None:
    found = strict_json.loads(b"[9007199254740992, -9007199254740992, 9007199254740994.0, 1e300]", max_bytes=LIMIT)
    assert found == [2**53, -(2**53), 9007199254740994.0, 1e300]
    assert [type(value) for value in found] == [int, int, float, float]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("nan")], ids=repr)
def test_a_number_that_json_cannot_hold_is_never_written(value: float) -> None:
    with pytest.raises(ContractFault):
        strict_json.dumps({"a": [value]})


def test_a_text_that_looks_like_an_array_stays_a_text() -> None:
    message = {"a": '"data_b64":"AAAA"', "b": np.zeros(2, np.uint8), "c": "@" * 70, "d": np.ones(1, np.float32)}
    found = strict_json.loads(strict_json.dumps(message), max_bytes=LIMIT)
    assert (found["a"], found["c"]) == (message["a"], message["c"])
    assert (found["b"].tolist(), found["d"].tolist()) == ([0, 0], [1.0])


def _form(**changes: Any) -> str:
    form = {"encoding": "raw", "dtype": "<f4", "shape": [2], "data_b64": base64.b64encode(b"\0" * 8).decode()}
    return json.dumps({"a": {**form, **changes}})


def test_the_array_form_is_read() -> None:
    assert strict_json.loads(_form().encode(), max_bytes=LIMIT)["a"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "changes",
    [
        {"encoding": "jpeg"}, {"encoding": None}, {"encoding": ["raw"]}, {"dtype": "|O"}, {"dtype": ">f4"},
        {"dtype": None}, {"shape": [3]}, {"shape": [-2]}, {"shape": [2**40, 2**40]}, {"shape": [2.0]},
        {"shape": None}, {"shape": [1] * 9}, {"data_b64": "AAAAAAAAAA="}, {"data_b64": "AAAAAAAAA A="},
        {"data_b64": "AAAAAAAAA_A="},
        {"data_b64": 7}, {"data_b64": "A" * 12}, {"extra": 1},
    ],
)  # fmt: skip
def test_row_36_an_array_form_that_lies_is_refused(changes: dict[str, Any]) -> None:
    assert refused(_form(**changes)).code == "wire_malformed"


def _png(pixels: np.ndarray, **changes: Any) -> str:
    data = base64.b64encode(strict_json.png_of(pixels)).decode()
    form = {"encoding": "png", "dtype": "|u1", "shape": list(pixels.shape), "data_b64": data}
    return json.dumps({"a": {**form, **changes}})


@pytest.mark.parametrize("shape", [(5, 7, 3), (5, 7), (1, 1, 3)])
def test_a_picture_comes_back_from_png_pixel_by_pixel(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)
    found = strict_json.loads(strict_json.dumps({"a": PngPicture(pixels)}), max_bytes=LIMIT)["a"]
    assert np.array_equal(found, pixels)
    assert not found.flags.writeable


def test_a_png_of_a_chw_picture_has_its_axes_exchanged() -> None:
    pixels = np.arange(30, dtype=np.uint8).reshape(3, 2, 5)
    found = strict_json.loads(strict_json.dumps({"a": PngPicture(pixels, layout="chw")}), max_bytes=LIMIT)["a"]
    assert np.array_equal(found, pixels.transpose(1, 2, 0))


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [5, 6, 3]}, {"shape": [7, 5, 3]}, {"shape": [5, 7]}, {"shape": [5, 7, 4]}, {"shape": [105]},
        {"dtype": "<f4"}, {"dtype": "|b1"}, {"data_b64": ""}, {"data_b64": "AAAA"},
    ],
)  # fmt: skip
def test_a_png_that_is_not_what_its_form_declares_is_refused(changes: dict[str, Any]) -> None:
    assert refused(_png(np.zeros((5, 7, 3), np.uint8), **changes)).code == "wire_malformed"


def test_a_damaged_png_is_refused() -> None:
    whole = strict_json.png_of(np.random.default_rng(1).integers(0, 256, (9, 9, 3), dtype=np.uint8))
    for damaged in (whole[:40], whole[:60], whole[:33] + b"\0" * 40):
        text = _png(np.zeros((9, 9, 3), np.uint8), data_b64=base64.b64encode(damaged).decode())
        assert refused(text).code == "wire_malformed"


def _bomb(height: int, width: int) -> bytes:
    """Return a small file that says it is large, with all its pixels there."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(3 * width + 1) * height, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.mark.parametrize("declared", [[4, 4, 3], [4000, 4000, 3]], ids=["declared small", "declared as it is"])
def test_a_small_png_that_unpacks_to_much_is_never_unpacked(declared: list[int]) -> None:
    data = base64.b64encode(_bomb(4000, 4000)).decode()
    text = json.dumps({"a": {"encoding": "png", "dtype": "|u1", "shape": declared, "data_b64": data}}).encode()
    limit = 2**20
    assert len(text) < limit
    tracemalloc.start()
    fault = refused(text, max_bytes=limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert fault.code == ("wire_malformed" if declared[0] == 4 else "message_too_large")
    assert peak < 4 * len(text) + 2**18


def test_pictures_of_one_message_share_one_limit() -> None:
    data = base64.b64encode(strict_json.png_of(np.zeros((100, 100, 3), np.uint8))).decode()
    form = {"encoding": "png", "dtype": "|u1", "shape": [100, 100, 3], "data_b64": data}
    text = json.dumps([form, form]).encode()
    assert len(strict_json.loads(text, max_bytes=60_000)) == 2
    assert refused(text, max_bytes=59_999).code == "message_too_large"
