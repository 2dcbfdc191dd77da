"""Portable random numbers: raw words of PCG64 and IEEE basic arithmetic, so any machine draws the same scenes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

_UNIT = 2.0**-53


@dataclass(slots=True)
class Draw:
    """A stream of its own for one named purpose; other streams do not shift when this one draws more."""

    name: str
    _bits: np.random.PCG64 = field(init=False)

    def __post_init__(self) -> None:
        seed = int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], "big")
        self._bits = np.random.PCG64(seed)

    def unit(self) -> float:
        """Return a number in [0, 1)."""
        return float(int(self._bits.random_raw()) >> 11) * _UNIT

    def uniform(self, low: float, high: float, *, digits: int = 4) -> float:
        """Return a number between ``low`` and ``high``, rounded to ``digits`` decimals."""
        return round(low + (high - low) * self.unit(), digits)

    def integer(self, low: int, high: int) -> int:
        """Return an integer between ``low`` and ``high``, both included."""
        return low + int(self.unit() * (high - low + 1))
