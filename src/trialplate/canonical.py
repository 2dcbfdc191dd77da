"""Canonical JSON (RFC 8785), the strict reader of stored documents, and digests of numbers.

A document that is hashed is stored as exactly the bytes that are hashed. The reader accepts nothing else, so
two parsers can never see two different documents in one digest.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import rfc8785

from trialplate.errors import CanonicalError

JsonValue = Any
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
MAX_LINE_BYTES = 1024 * 1024
MAX_COMMAS = 1_000_000
"""Commas in a stored document, which bound the values in it: a schedule of 100,000 trials has half as many."""
MAX_DEPTH = 64
MAX_SAFE_INTEGER = 2**53 - 1
_SURROGATE = re.compile("[\ud800-\udfff]")
_HASH_CHUNK_BYTES = 1024 * 1024
_SINGLE = struct.Struct("<f")
_CONTAINERS = frozenset((dict, list, tuple))
_TEXT = frozenset((str,))
_QUICK_KINDS = _CONTAINERS | {str, int, float, bool, type(None)}
_POINT = re.compile(rb"\.0(?=[,\]}]|$)")
_SIGNED_ZERO = re.compile(rb"-0\.0(?![0-9])")
_LONG_NUMBERS = (b":" + b"0" * 16, b"-" + b"0" * 16)
_DIGITS_ALIKE = bytes.maketrans(b"123456789,[", b"000000000::")
_NO_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_QUOTED = re.compile(rb'"[^"]*"')


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of ``data`` as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, as ``sha256sum`` prints it."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while chunk := handle.read(_HASH_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def document_sha256(value: JsonValue) -> str:
    """Return the SHA-256 of the canonical form of ``value``."""
    return sha256_hex(canonical_json(value))


def canonical_json(value: JsonValue) -> bytes:
    """Return the RFC 8785 bytes of ``value``.

    Raises :class:`CanonicalError` with code ``non_finite``, ``number_range``, ``lone_surrogate``,
    ``nul_character``, ``key_type`` or ``type`` and a pointer to the place. numpy scalars are refused: a caller
    converts them knowingly.
    """
    quick = _quick(value)
    if quick is not None:
        written = _QUICK_WRITER.encode(value)
        encoded = written if quick else _without_point(written)
        if encoded is not None and b"\\u" not in encoded:
            return encoded
    if _check(value, ""):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    careful: bytes = rfc8785.dumps(value)
    return careful


def _quick(value: JsonValue) -> bool | None:
    """Return whether the quick writer may be asked: True when all numbers are integers, None when it may not.

    Only where :func:`_check` would find no mistake, in ASCII, and with numbers whose text is the same everywhere but
    for the ``.0`` of whole ones. A document is looked at level by level, from its outside.
    """
    level, whole = [value], True
    for _ in range(MAX_DEPTH):
        kinds = set(map(type, level))
        if not kinds <= _QUICK_KINDS:
            return None
        texts = [item for item in level if type(item) is str] if str in kinds else []
        objects = [item for item in level if type(item) is dict] if dict in kinds else []
        keys = list(chain.from_iterable(objects))
        if not set(map(type, keys)) <= _TEXT:
            return None
        joined = "".join(chain(texts, keys))
        if not joined.isascii() or "\x00" in joined:
            return None
        if int in kinds and not _safe(level):
            return None
        if float in kinds:
            whole = False
            if not all(1e-5 <= abs(item) < 1e15 or item == 0.0 for item in level if type(item) is float):
                return None
        if not kinds & _CONTAINERS:
            return whole
        lists = [item for item in level if type(item) is list or type(item) is tuple]
        level = [*chain.from_iterable(item.values() for item in objects), *chain.from_iterable(lists)]
    return None


def _safe(level: list[Any]) -> bool:
    """Return whether every integer among these is one that every parser reads alike."""
    numbers = [item for item in level if type(item) is int]
    return bool(min(numbers) >= -MAX_SAFE_INTEGER and max(numbers) <= MAX_SAFE_INTEGER)


def _without_point(encoded: bytes) -> bytes | None:
    """Write whole numbers without their ``.0``; None where texts hold escapes, or a zero may have a sign."""
    if b"\\" in encoded or _SIGNED_ZERO.search(encoded):
        return None
    parts = encoded.split(b'"')
    for number in range(0, len(parts), 2):  # outside of texts
        if b".0" in parts[number]:
            parts[number] = _POINT.sub(b"", parts[number])
    return b'"'.join(parts)


def _check(value: JsonValue, pointer: str) -> bool:
    """Raise for what has no canonical form; return whether the standard encoder gives the same bytes."""
    kind = type(value)
    if value is None or kind is bool:
        return True
    if kind is str:
        _check_text(value, pointer)
        return True
    if kind is int:
        if abs(value) > MAX_SAFE_INTEGER:
            raise CanonicalError("number_range", f"integer {value} is beyond +-(2^53 - 1)", pointer=pointer)
        return True
    if kind is float:
        _check_float(value, pointer)
        return False
    if kind in (list, tuple):
        checked = [_check(item, f"{pointer}/{n}") for n, item in enumerate(value)]  # every item, no short cut
        return all(checked)
    if kind is dict:
        checked = [_check_member(key, item, pointer) for key, item in value.items()]
        return all(checked)
    raise CanonicalError("type", f"{kind.__name__} has no JSON form; convert it first", pointer=pointer)


def _check_member(key: Any, item: JsonValue, pointer: str) -> bool:
    if type(key) is not str:
        raise CanonicalError("key_type", f"key {key!r} is {type(key).__name__}, not str", pointer=pointer)
    _check_text(key, pointer)
    escaped = key.replace("~", "~0").replace("/", "~1")
    plain = _check(item, f"{pointer}/{escaped}")
    return plain and key.isascii()


def _check_text(text: str, pointer: str) -> None:
    if "\x00" in text:
        raise CanonicalError("nul_character", "text holds a NUL character", pointer=pointer)
    if not text.isascii() and _SURROGATE.search(text):
        raise CanonicalError("lone_surrogate", "text holds half of a surrogate pair", pointer=pointer)


def _check_float(value: float, pointer: str) -> None:
    if not math.isfinite(value):
        raise CanonicalError("non_finite", f"{value} is not a number that JSON can hold", pointer=pointer)
    if MAX_SAFE_INTEGER < abs(value) < 1e21 and value.is_integer():
        raise CanonicalError("number_range", f"{value!r} would read back as an integer out of range", pointer=pointer)


def parse_strict(data: bytes, *, limit_bytes: int = MAX_DOCUMENT_BYTES) -> JsonValue:
    """Parse JSON and refuse everything on which two parsers could differ.

    Codes: ``size bom invalid_utf8 depth syntax duplicate_key non_finite number_range lone_surrogate
    nul_character``.
    """
    if len(data) > limit_bytes:
        raise CanonicalError("size", f"{len(data)} bytes, at most {limit_bytes} are read")
    if data.startswith(b"\xef\xbb\xbf"):
        raise CanonicalError("bom", "the document starts with a byte order mark")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CanonicalError("invalid_utf8", f"byte {error.start} is not UTF-8") from None
    _check_depth(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_parse_int,
            parse_float=_parse_float,
            parse_constant=_parse_constant,
        )
    except json.JSONDecodeError as error:
        raise CanonicalError("syntax", f"{error.msg} at character {error.pos}") from None
    _check(value, "")
    return value


def _check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth, in_string, escaped = 0, False, False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise CanonicalError("depth", f"nested deeper than {MAX_DEPTH}")
        elif character in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members: dict[str, JsonValue] = {}
    for key, value in pairs:
        if key in members:
            raise CanonicalError("duplicate_key", f"key {key!r} stands twice")
        members[key] = value
    return members


def _parse_int(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > MAX_SAFE_INTEGER:
        raise CanonicalError("number_range", f"integer {text[:24]} is beyond +-(2^53 - 1)")
    return int(text)


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise CanonicalError("non_finite", f"{text[:24]} overflows")
    return value


def _parse_constant(text: str) -> float:
    raise CanonicalError("non_finite", f"{text} is not JSON")


def read_stored(data: bytes, *, limit_bytes: int = MAX_DOCUMENT_BYTES) -> JsonValue:
    """Parse a stored document and accept it only when it is byte for byte its own canonical form.

    Most are read by a quick reader, which takes only what the careful one would take as well; where it takes one not,
    the careful one says why.
    """
    if len(data) <= MAX_DOCUMENT_BYTES and data.count(b",") > MAX_COMMAS:
        raise CanonicalError("size", f"more than {MAX_COMMAS} values; small ones take much memory")
    if len(data) <= limit_bytes and _is_quick(data):
        try:
            value = _QUICK_READER.decode(data)
            if _QUICK_WRITER.encode(value) == data:
                return value
        except (msgspec.DecodeError, OverflowError, RecursionError):
            pass
    value = parse_strict(data, limit_bytes=limit_bytes)
    if canonical_json(value) != data:
        raise CanonicalError("not_canonical", "the bytes are not the canonical form of what they say")
    return value


def _is_quick(data: bytes) -> bool:
    """Return whether a document that quick reader and writer give back byte for byte is canonical.

    The order of keys, doubled keys, blanks and needless escapes show in the bytes that come back. The two are asked
    about ASCII objects and lists only, without escaped characters, long numbers and deep nesting.
    """
    alike = data.translate(_DIGITS_ALIKE)
    return (
        data.startswith((b"{", b"["))
        and data.isascii()
        and b"\\u" not in data
        and not any(number in alike for number in _LONG_NUMBERS)
        and (data.count(b"[") + data.count(b"{") <= MAX_DEPTH or _nesting(data) <= MAX_DEPTH)
    )


def _quick_float(text: str) -> float:
    """Read a number whose shortest text is the same everywhere: no exponent, no whole number with a point."""
    if "e" in text or "E" in text or text.endswith(".0"):
        raise OverflowError(text)
    return float(text)


_QUICK_READER = msgspec.json.Decoder(float_hook=_quick_float)
_QUICK_WRITER = msgspec.json.Encoder(order="sorted")


def _nesting(data: bytes) -> int:
    """Return how deep a document is nested; more than it can be where texts hold escaped quotes."""
    if b"\\" in data:
        return MAX_DEPTH + 1
    # two quotes side by side leave every bracket inside or outside of a text, as it was
    marks = _QUOTED.sub(b"", data.translate(None, _NO_STRUCTURE).replace(b'""', b""))
    steps = np.frombuffer(marks, dtype=np.uint8)
    opened = np.isin(steps, (ord("["), ord("{")))
    return int(np.cumsum(np.where(opened, 1, -1)).max(initial=0))


def binary32(x: float, *, direction: bool = False) -> float:
    """Round a measured number to IEEE-754 binary32, and flush derived direction noise below 1e-12 to zero.

    Rounding comes first: 1e-12 rounds to just below 1e-12, so flushing first would not be idempotent.
    Codes: ``not_a_number`` (bool, text, null), ``non_finite`` (NaN, inf, overflow). Source: fair pick-and-place
    protocol, section 3, readback schema 1.1.0.
    """
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        raise CanonicalError("not_a_number", f"{x!r} is {type(x).__name__}, not a number")
    try:
        (rounded,) = _SINGLE.unpack(_SINGLE.pack(x))
    except OverflowError:  # what rounds to infinity, and integers that no double holds
        rounded = math.inf
    if not math.isfinite(rounded):
        raise CanonicalError("non_finite", f"{x!r} is not finite in binary32")
    if direction and abs(rounded) < 1e-12:
        return 0.0
    number: float = rounded + 0.0
    return number


def is_binary32(x: float, *, direction: bool = False) -> bool:
    """Return whether a stored number is its own binary32 image under the flag."""
    return binary32(x, direction=direction) == x


def array_digest(rows: np.ndarray | Sequence[Sequence[float]], *, dtype: Literal["f32", "f64"] = "f64") -> str:
    """Return the SHA-256 of ``dtype|T|D\\n`` and the little-endian rows of a ``(T, D)`` array.

    -0 is written as +0; a non-finite element raises ``non_finite``.
    """
    array = np.ascontiguousarray(rows, dtype="<f4" if dtype == "f32" else "<f8")
    if array.ndim != 2:
        raise CanonicalError("type", f"expected rows of numbers (T, D), got shape {array.shape}")
    if not np.isfinite(array).all():
        raise CanonicalError("non_finite", "the array holds NaN or infinity")
    header = f"{dtype}|{array.shape[0]}|{array.shape[1]}\n".encode()
    return sha256_hex(header + (array + 0.0).astype(array.dtype, copy=False).tobytes())


def action_sha256(rows: np.ndarray) -> str:
    """Return the SHA-256 of action rows (n, dim) as little-endian float64, row by row: the digest of a decision.

    Source: policy contract, section 11.
    """
    return sha256_hex(np.ascontiguousarray(rows, dtype="<f8").tobytes())


def env_seed(lock_sha256: str, suite: str, *, scenario: str, repeat: int) -> int:
    """Return the environment seed of a trial, 0 <= seed < 2**32. The arm is not in it: arms are paired."""
    body = bytes.fromhex(lock_sha256) + canonical_json([suite, scenario, repeat])
    return int.from_bytes(hashlib.sha256(b"trialplate/1 env_seed\n" + body).digest()[:4], "big")


def policy_seed(lock_sha256: str, ordinal: int) -> int:
    """Return the seed handed to a policy, 0 <= seed < 2**32; unrelated to the environment's."""
    body = bytes.fromhex(lock_sha256) + ordinal.to_bytes(8, "big")
    return int.from_bytes(hashlib.sha256(b"trialplate.policy/1 policy_seed\n" + body).digest()[:4], "big")
