"""Canonical JSON, the strict reader, binary32 and digests, against the shared vectors and by properties."""

from __future__ import annotations

import ast
import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from trialplate import canonical
from trialplate.canonical import (
    MAX_DOCUMENT_BYTES,
    MAX_SAFE_INTEGER,
    array_digest,
    binary32,
    canonical_json,
    env_seed,
    file_sha256,
    is_binary32,
    parse_strict,
    policy_seed,
    read_stored,
    sha256_hex,
)
from trialplate.errors import CanonicalError

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "data" / "canonical.json").read_text(encoding="utf-8")
)


def _code(call: Any) -> str:
    try:
        call()
    except CanonicalError as error:
        return error.code
    return "ok"


def _double(text: str) -> float:
    return float(struct.unpack(">d", bytes.fromhex(text))[0])


@pytest.mark.parametrize("vector", VECTORS["number_text"], ids=lambda v: v["ieee754_be"])
def test_a_number_has_the_text_of_rfc_8785(vector: dict[str, Any]) -> None:
    value = _double(vector["ieee754_be"])
    try:
        text = canonical_json(value).decode()
    except CanonicalError as error:
        # beyond 2^53 a whole number would read back as an integer out of range: the general form still agrees
        assert error.code == "number_range"
        text = rfc8785.dumps(value).decode()
    assert text == vector["text"]


@pytest.mark.parametrize("vector", VECTORS["canonical"], ids=lambda v: v["name"])
def test_a_document_has_the_bytes_of_rfc_8785(vector: dict[str, Any]) -> None:
    written = canonical_json(json.loads(vector["input"]))
    assert written == vector["canonical"].encode()
    assert sha256_hex(written) == vector["sha256"]


@pytest.mark.parametrize("vector", VECTORS["stored"], ids=lambda v: v["name"])
def test_the_strict_reader_accepts_or_names_the_fault(vector: dict[str, Any]) -> None:
    if "bytes_hex" in vector:
        data = bytes.fromhex(vector["bytes_hex"])
    else:
        before, times, middle, after, times_after = vector["repeat"]
        data = (before * times + middle + after * times_after).encode()
    assert _code(lambda: read_stored(data)) == vector["expect"]


@pytest.mark.parametrize("vector", VECTORS["write_error"], ids=lambda v: v["name"])
def test_the_writer_refuses_what_has_no_canonical_form(vector: dict[str, Any]) -> None:
    kind, _, text = vector["value"].partition(" ")
    value = float(text) if kind == "float" else ast.literal_eval(text)
    assert _code(lambda: canonical_json(value)) == vector["expect"]


@pytest.mark.parametrize("vector", VECTORS["binary32"], ids=lambda v: f"{v['input']}-{v['direction']}")
def test_a_measured_number_is_rounded_first_and_flushed_second(vector: dict[str, Any]) -> None:
    value = json.loads(vector["input"])
    if "error" in vector:
        assert _code(lambda: binary32(value, direction=vector["direction"])) == vector["error"]
        return
    rounded = binary32(value, direction=vector["direction"])
    assert struct.pack(">f", rounded).hex() == vector["ieee754_be"]
    assert canonical_json(rounded).decode() == vector["text"]


@pytest.mark.parametrize("vector", VECTORS["binary32_stored"], ids=lambda v: f"{v['text']}-{v['direction']}")
def test_a_stored_number_is_its_own_image_or_not(vector: dict[str, Any]) -> None:
    assert is_binary32(json.loads(vector["text"]), direction=vector["direction"]) is vector["ok"]


@pytest.mark.parametrize("vector", VECTORS["array_digest"], ids=lambda v: v["sha256"][:8])
def test_rows_of_numbers_have_their_digest(vector: dict[str, Any]) -> None:
    assert array_digest(vector["rows"], dtype=vector["dtype"]) == vector["sha256"]


@pytest.mark.parametrize("vector", VECTORS["env_seed"], ids=lambda v: v["scenario"])
def test_the_environment_seed_follows_from_lock_suite_scenario_and_repeat(vector: dict[str, Any]) -> None:
    seed = env_seed(vector["lock_sha256"], vector["suite"], scenario=vector["scenario"], repeat=vector["repeat"])
    assert seed == vector["seed"]


def test_the_policy_seed_is_another_one_for_every_trial_and_lock() -> None:
    locks = ("00" * 32, "ff" * 32)
    seeds = {policy_seed(lock, ordinal) for lock in locks for ordinal in range(100)}
    assert len(seeds) == 200
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_an_error_points_at_the_place() -> None:
    with pytest.raises(CanonicalError) as caught:
        canonical_json({"arms": [{"a/b~": math.nan}]})
    assert caught.value.pointer == "/arms/0/a~1b~0"
    assert "/arms/0/a~1b~0" in str(caught.value)


def test_numpy_scalars_are_refused_and_not_converted_behind_the_back() -> None:
    for value in (np.float64(0.5), np.int64(3), np.bool_(True), np.array([1.0])):
        assert _code(lambda value=value: canonical_json([value])) == "type"


def test_a_document_above_the_limit_is_refused_before_it_is_parsed() -> None:
    assert _code(lambda: parse_strict(b" " * (MAX_DOCUMENT_BYTES + 1))) == "size"
    assert _code(lambda: read_stored(b"[1,2]", limit_bytes=4)) == "size"
    assert read_stored(b"[1,2]", limit_bytes=5) == [1, 2]


def test_an_array_with_nan_or_of_another_rank_has_no_digest() -> None:
    assert _code(lambda: array_digest([[0.0, math.nan]])) == "non_finite"
    assert _code(lambda: array_digest([0.0, 1.0])) == "type"  # type: ignore[list-item]


def test_the_digest_of_a_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    data = bytes(range(256)) * 9000  # longer than one piece
    (tmp_path / "f").write_bytes(data)
    assert file_sha256(tmp_path / "f") == sha256_hex(data)


_TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=12)
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda x: not (MAX_SAFE_INTEGER < abs(x) < 1e21 and x.is_integer())
    )
    | _TEXTS
)
_DOCUMENTS = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4), max_leaves=12
)


@settings(max_examples=200, deadline=None)
@given(_DOCUMENTS)
def test_what_is_written_reads_back_and_writes_the_same_bytes(document: Any) -> None:
    written = canonical_json(document)
    assert canonical_json(read_stored(written)) == written


@settings(max_examples=200, deadline=None)
@given(_DOCUMENTS)
def test_the_fast_path_gives_the_bytes_of_the_general_one(document: Any) -> None:
    assert canonical_json(document) == rfc8785.dumps(document)


_BORDERS = (0.0, -0.0, 1.0, -0.05, 1e-5, 9.999999e-6, 1e-7, 1e14 + 0.5, 999999999999999.0, 1e15, 1e16 / 3, 1e21, 2.5)


@pytest.mark.parametrize("number", _BORDERS)
@pytest.mark.parametrize("text", ["", "1.0,2.0]", '1.0"', "-0.0", "\\", "\n1.0}", "\x01\x7f", "1.0é"])
def test_whole_numbers_lose_their_point_and_texts_that_look_like_them_do_not(number: float, text: str) -> None:
    document = {"a": [number, text, -number], text: number, "z": number}
    assert canonical_json(document) == rfc8785.dumps(document)
    assert canonical_json(number) == rfc8785.dumps(number)


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=4) | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(), max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(_ANYTHING)
def test_the_quick_look_says_what_the_thorough_one_says_or_leaves_it_to_it(value: Any) -> None:
    quick = canonical._quick(value)
    if quick is not None:
        assert quick == canonical._check(value, "")


_PIECES = st.sampled_from(
    [
        *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u0041", b"\\/", b"\\n", b" ", b"\n", b"\x00", b"\x7f"),
        *(b"0", b"1.0", b"-0", b"-0.0", b"1e2", b"1E2", b"1.50", b"0.00001", b"NaN", b"null", b"9007199254740993"),
        *(b"-9007199254740992", b"123456789012345678901234", b"1234567890123456.5", b"\xc3\xa4", b"\xff"),
        *(b"\xef\xbb\xbf", b'"a":1,', b'"a"', b"[" * 70, b"]" * 70),
    ]
)


def _careful(data: bytes) -> Any:
    """What the reader says that looks at every member."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canonical, "_is_quick", lambda data: False)
        try:
            return read_stored(data)
        except CanonicalError as error:
            return error.code


def _read(data: bytes) -> Any:
    try:
        return read_stored(data)
    except CanonicalError as error:
        return error.code


def _spelled(value: Any) -> str:
    """Types and order of keys with the value: 1 is not 1.0, True is not 1."""
    return repr(value)


@settings(max_examples=600, deadline=None)
@given(_DOCUMENTS, st.data())
def test_the_quick_reader_takes_nothing_that_the_careful_one_refuses(document: Any, data: st.DataObject) -> None:
    stored = canonical_json({"a": document, "b": [1, 0.5, "text", {}]})
    assert _spelled(_read(stored)) == _spelled(_careful(stored))
    place = data.draw(st.integers(0, len(stored)))
    cut = data.draw(st.integers(0, 3))
    changed = stored[:place] + data.draw(_PIECES) + stored[place + cut :]
    assert _spelled(_read(changed)) == _spelled(_careful(changed))


@pytest.mark.parametrize("depth", [63, 64, 65, 66, 500, 100_000])
@pytest.mark.parametrize("inside", [b"1", b'"[[[]"', b'"]]]]]]]]"', b'{"a":"}"}', b'"\\""'])
def test_the_quick_reader_goes_as_deep_as_the_careful_one(depth: int, inside: bytes) -> None:
    before = b"".join(b'"]]]",' for _ in range(3)) + b"[],[],"
    data = b"[" * depth + before + inside + b"]" * depth
    assert _spelled(_read(data)) == _spelled(_careful(data))


@settings(max_examples=300, deadline=None)
@given(st.floats(min_value=-3.4e38, max_value=3.4e38), st.booleans())
def test_binary32_is_idempotent_and_equal_to_float32(x: float, direction: bool) -> None:
    once = binary32(x, direction=direction)
    assert binary32(once, direction=direction) == once
    assert math.copysign(1.0, once) == 1.0 or once < 0
    if not direction:
        assert once == float(np.float32(x))
