"""The registered random stream: which families each draw takes, the same on every machine, for every policy.

Definitions: statistics specification, section 6. numpy promises the raw words of a bit generator for ever, the
methods of ``Generator`` not: only raw words are used here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trialplate.stats.inputs import count
from trialplate.stats.results import Reason, Result

DEFAULT_SEED = 240926
DEFAULT_DRAWS = 2000
MAX_SEED = 2**128 - 1
MAX_DRAWS = 10_000_000
MAX_FAMILIES = 10_000_000
_CHUNK_CELLS = 2**16
"""Half a megabyte at once: what a processor keeps near. Larger blocks take several times as long."""
_HALF = np.uint64(2**63)
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StreamDigest(Result):
    """The stream an analysis used: three raw words as decimal text, two rows, SHA-256 of the little-endian matrix."""

    first_raw: tuple[str, ...]
    first_rows: tuple[tuple[int, ...], ...]
    sha256_int64_le: str
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class UndefinedDraws(Result):
    """Chance that one draw, and that any draw, holds no family with a success."""

    per_draw: float
    any_draw: float
    reason: Reason | None = None


def family_indices(seed: int, draws: int, *, families: int) -> Whole:
    """Return the int64 matrix (draws, families) of family indices, row by row from one stream.

    raw = PCG64(seed).random_raw, u = (raw >> 11) / 2^53, index = floor(u K), computed in whole numbers. Raises
    ``StatsInputError`` for a negative seed and for zero draws or families.
    """
    return np.concatenate(list(index_chunks(seed, draws, families=families)))


def index_stream_digest(seed: int, draws: int, *, families: int) -> StreamDigest:
    """Return what identifies the index matrix, to be stored with every analysis that used it."""
    digest = hashlib.sha256()
    rows: list[tuple[int, ...]] = []
    for chunk in index_chunks(seed, draws, families=families):
        digest.update(chunk.astype("<i8").tobytes())
        rows += [tuple(row) for row in chunk[: max(0, 2 - len(rows))].tolist()]
    words = np.random.PCG64(seed).random_raw(3)
    return StreamDigest(tuple(str(word) for word in words.tolist()), tuple(rows), digest.hexdigest())


def index_chunks(seed: int, draws: int, *, families: int) -> Iterator[Whole]:
    """Yield the index matrix in blocks of rows."""
    start = count("seed", seed, maximum=MAX_SEED)
    rows = count("draws", draws, minimum=1, maximum=MAX_DRAWS)
    width = count("families", families, minimum=1, maximum=MAX_FAMILIES)
    generator = np.random.PCG64(start)
    at_once = max(1, _CHUNK_CELLS // width)
    for first in range(0, rows, at_once):
        size = min(at_once, rows - first)
        yield _floors(generator.random_raw(size * width), width).reshape(size, width)


def multiplicity_chunks(seed: int, draws: int, *, families: int) -> Iterator[Floats]:
    """Yield, block by block, how often each draw (row) takes each family (column), as whole float64."""
    for chunk in index_chunks(seed, draws, families=families):
        rows = len(chunk)
        chunk += (np.arange(rows, dtype=np.int64) * families)[:, None]
        yield np.bincount(chunk.ravel(), minlength=rows * families).reshape(rows, families).astype(np.float64)


def flip_chunks(seed: int, draws: int, *, families: int) -> Iterator[NDArray[np.bool_]]:
    """Yield blocks of sign patterns (draws, families) from the same stream: floor(2 u) = 1 flips the family.

    That is the highest bit of a raw word.
    """
    start = count("seed", seed, maximum=MAX_SEED)
    rows = count("draws", draws, minimum=1, maximum=MAX_DRAWS)
    width = count("families", families, minimum=1, maximum=MAX_FAMILIES)
    generator = np.random.PCG64(start)
    at_once = max(1, _CHUNK_CELLS // width)
    for first in range(0, rows, at_once):
        size = min(at_once, rows - first)
        yield (generator.random_raw(size * width) >= _HALF).reshape(size, width)


def undefined_draw_probability(families: int, with_success: int, *, draws: int = DEFAULT_DRAWS) -> UndefinedDraws:
    """Return the chance that a draw takes none of the j families with a success: ((K - j)/K)^K, and 1 - (1 - p)^R.

    A draw without a success has no cost per success, and one such draw leaves a ratio without bounds.
    """
    total = count("families", families, minimum=1)
    some = count("with_success", with_success, maximum=total)
    rows = count("draws", draws, minimum=1)
    per_draw = 0.0 if some == total else math.exp(total * math.log1p(-some / total))
    any_draw = 1.0 if some == 0 else -math.expm1(rows * math.log1p(-per_draw))
    return UndefinedDraws(per_draw, any_draw)


def _floors(raw: NDArray[np.uint64], choices: int) -> Whole:
    """Return floor(u * choices) exactly: the 53 bits of u are multiplied in two halves that cannot overflow."""
    bits = raw >> np.uint64(11)
    factor = np.uint64(choices)
    high = (bits >> np.uint64(27)) * factor
    low = ((bits & np.uint64(2**27 - 1)) * factor) >> np.uint64(27)
    return ((high + low) >> np.uint64(26)).astype(np.int64)
