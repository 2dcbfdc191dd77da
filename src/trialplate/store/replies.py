"""Put whatever a policy sent beside its decision into bounded JSON text, without running any code of its own."""

from __future__ import annotations

import json
import math
from types import MappingProxyType
from typing import Any

import numpy as np

from trialplate.canonical import MAX_SAFE_INTEGER, sha256_hex

MAX_TEXT_BYTES = 65_536
MAX_STRING = 16_384
MAX_ITEMS = 8_192
MAX_DEPTH = 16
MAX_DIGESTED_BYTES = 2**26
_name = type.__dict__["__name__"].__get__  # the name of a type, whatever its metaclass would say
_NUMPY_NUMBERS = frozenset(np.dtype(code).type for code in np.typecodes["AllInteger"] + "?efd")
_REPLACED = str.maketrans({"\x00": "\ufffd"})


def reply_text(value: Any) -> str:
    """Return JSON text of at most ``MAX_TEXT_BYTES`` bytes of UTF-8 for any value.

    Numbers, texts, lists and maps stay what they are; NaN and infinity become texts; arrays of numbers become nested
    lists, big ones and raw bytes their size and SHA-256 (arrays above ``MAX_DIGESTED_BYTES`` only their size);
    anything else the name of its type. A text that would be longer is replaced by its size and SHA-256.
    """
    plain = _Plain().value(value, 0)
    text = json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    data = text.encode("utf-8")
    if len(data) <= MAX_TEXT_BYTES:
        return text
    return json.dumps({"omitted_bytes": len(data), "sha256": sha256_hex(data)}, separators=(",", ":"))


def plain_text(text: Any) -> str:
    """Return a text that every document can hold: no NUL, no half surrogate, at most ``MAX_STRING`` characters.

    Something that is no text gives the name of its type.
    """
    return _text(text) if type(text) is str else _text(_name(type(text)))


class _Plain:
    """Counts the items of one value, so that a big one costs no more than ``MAX_ITEMS``."""

    def __init__(self) -> None:
        self._left = MAX_ITEMS

    def value(self, value: Any, depth: int) -> Any:
        self._left -= 1
        kind = type(value)  # exact types only: a subclass could answer as it likes
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if abs(value) <= MAX_SAFE_INTEGER else {"type": "int", "bits": value.bit_length()}
        if kind is float:
            return value if math.isfinite(value) else str(value)
        if kind is str:
            return _text(value)
        if kind in (bytes, bytearray):
            return {"type": "bytes", "size": len(value), "sha256": sha256_hex(bytes(value))}
        if depth >= MAX_DEPTH or self._left < 0:
            return {"type": _text(_name(kind)), "omitted": "too deep or too many items"}
        if kind in (list, tuple):
            return self._list(value, depth)
        if kind in (dict, MappingProxyType):
            return self._map(value, depth)
        if kind is np.ndarray and value.dtype.kind in "biuf":
            return self._array(value, depth)
        if kind in _NUMPY_NUMBERS:
            return self.value(value.item(), depth)
        return {"type": _text(_name(kind))}

    def _list(self, value: Any, depth: int) -> Any:
        kept = [self.value(item, depth + 1) for item in value[: max(self._left, 0)]]
        return kept if len(kept) == len(value) else [*kept, {"omitted_items": len(value) - len(kept)}]

    def _map(self, value: Any, depth: int) -> Any:
        kept: dict[str, Any] = {}
        for key, item in value.items():
            if self._left <= 0:
                kept["omitted_items"] = len(value) - len(kept)
                break
            kept[_key(key)] = self.value(item, depth + 1)
        return kept

    def _array(self, value: Any, depth: int) -> Any:
        if value.size > self._left:
            if value.nbytes > MAX_DIGESTED_BYTES:  # it may only claim to be so big
                return {"dtype": value.dtype.str, "shape": list(value.shape), "omitted_bytes": value.nbytes}
            digest = sha256_hex(np.ascontiguousarray(value).tobytes())
            return {"dtype": value.dtype.str, "shape": list(value.shape), "sha256": digest}
        return self.value(value.tolist(), depth)


def _key(key: Any) -> str:
    if type(key) is str:
        return _text(key)
    if type(key) is bytes:
        return _text(key.decode("utf-8", "replace"))
    return str(key) if type(key) in (int, bool) else _text(_name(type(key)))


def _text(text: str) -> str:
    whole = text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text
    cut = whole if len(whole) <= MAX_STRING else f"{whole[:MAX_STRING]}... ({len(whole)} characters)"
    return cut.translate(_REPLACED)
