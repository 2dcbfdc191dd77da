"""How numbers are written in sentences and tables: ends of intervals are rounded outward, never tighter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

Rounding = Literal["nearest", "down", "up"]
_ROUND: Mapping[Rounding, Callable[[float], int]] = {"nearest": round, "down": math.floor, "up": math.ceil}


def percent(share: float, *, rounding: Rounding = "nearest") -> str:
    """Return a share as a percentage with at most one digit. What is neither 0 nor 1 never reads 0 % or 100 %."""
    tenths = _tenths(share, rounding)
    if rounding == "nearest" and 0.0 < share < 1.0:
        tenths = min(max(tenths, 1), 999)
    text = f"{tenths // 10}" if tenths % 10 == 0 else f"{tenths / 10:.1f}"
    return f"{text}\u00a0%"


def interval(low: float | None, high: float | None) -> str:
    """Return ``60.4–81.3 %`` rounded outward, for tables; a dash when undefined."""
    if low is None or high is None:
        return "–"
    return f"{_end(low, 'down')}–{_end(high, 'up')}\u00a0%"


def interval_ends(low: float | None, high: float | None) -> tuple[str, str]:
    """Return both ends of an interval rounded outward, for sentences; dashes where undefined."""
    return (
        "–" if low is None else f"{_end(low, 'down')}\u00a0%",
        "–" if high is None else f"{_end(high, 'up')}\u00a0%",
    )


def _end(share: float, rounding: Rounding) -> str:
    """One digit always, so that ends stand under each other; 0 and 100 are exact."""
    tenths = _tenths(share, rounding)
    return str(tenths // 10) if tenths in (0, 1000) else f"{tenths / 10:.1f}"


def points(difference: float, *, rounding: Rounding = "nearest") -> str:
    """Return a difference of shares in percentage points, with its sign and one digit."""
    tenths = _tenths(difference, rounding)
    return "0.0" if tenths == 0 else f"{tenths / 10:+.1f}".replace("-", "−")


def ratio(value: float | None, *, rounding: Rounding = "nearest") -> str:
    """Return a ratio with three digits after the point; a dash when undefined."""
    if value is None:
        return "–"
    scaled = value * 1000.0
    whole = round(scaled) if abs(scaled - round(scaled)) < 1e-9 else _ROUND[rounding](scaled)
    return f"{whole / 1000:.3f}"


def _tenths(share: float, rounding: Rounding) -> int:
    """Return tenths of a percent; what is a whole tenth but for float noise stays that."""
    scaled = share * 1000.0
    return round(scaled) if abs(scaled - round(scaled)) < 1e-9 else _ROUND[rounding](scaled)


def p_value(p: float) -> str:
    """Return a p-value with three digits, or a bound when smaller; never 0."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
