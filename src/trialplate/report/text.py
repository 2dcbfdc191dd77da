"""How names, digests and bytes appear on the page."""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_OPERATORS = {"le": "≤", "ge": "≥", "lt": "<", "gt": ">"}


def visible(text: str) -> str:
    """Return text with every control, formatting or unassigned character spelled out, such as ``[U+202E]``.

    A name could otherwise turn the reading direction around or hide part of itself.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"[U+{ord(character):04X}]"
        if character != "\n" and unicodedata.category(character) in _INVISIBLE
        else character
        for character in text
    )


def data_uri(data: bytes, *, kind: str) -> str:
    """Return bytes as a ``data:`` address of media type ``kind``."""
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def condition_text(condition: Mapping[str, Any]) -> str:
    """Return a condition of a stage chain as text: ``goal_offset_m ≤ 0.05 m``."""
    index = f"[{condition['index']}]" if condition.get("index") else ""
    unit = "" if condition["unit"] == "1" else f" {condition['unit']}"
    return f"{condition['column']}{index} {_OPERATORS[condition['op']]} {condition['limit']:g}{unit}"


def leaves(value: Any, *, path: str = "") -> list[tuple[str, str]]:
    """Return (path, text) of every leaf of a plain document, in order; null is written ``null``."""
    if isinstance(value, Mapping):
        return [
            leaf for key, item in value.items() for leaf in leaves(item, path=f"{path}.{key}" if path else str(key))
        ]
    if isinstance(value, Sequence) and not isinstance(value, str):
        if all(not isinstance(item, Mapping | list | tuple) for item in value):
            return [(path, ", ".join(_scalar(item) for item in value) or "none")]
        return [leaf for n, item in enumerate(value) for leaf in leaves(item, path=f"{path}[{n}]")]
    return [(path, _scalar(value))]


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
