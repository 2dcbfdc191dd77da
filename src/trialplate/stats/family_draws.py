"""What one index matrix makes of family totals: every statistic in every draw, then its percentile bounds.

Definitions: statistics specification, section 6. Sums are whole numbers below 2^53, so that neither threads nor the
order of rows changes a digit. A draw whose metric is undefined is counted, never dropped: one is enough to leave the
metric without bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import StatsInputError
from trialplate.stats.bootstrap_bounds import BootstrapInterval, DrawQuantiles, Point, bootstrap_intervals
from trialplate.stats.family_totals import MEASURES, Measure
from trialplate.stats.inputs import MAX_COUNT, count
from trialplate.stats.resampling import multiplicity_chunks
from trialplate.stats.results import Reason

Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]
Whole = NDArray[np.int64]
EPISODES, SUCCESSES, COST, TIME = range(4)
Pair = tuple[int, int]
_CHUNK_CELLS = 2**21


@dataclass(frozen=True, slots=True)
class FamilyDraws:
    """Sums per draw (4, arms, R), the totals they come from (families, arms, 4), and the registered quantiles."""

    sums: Floats
    table: Whole
    unknown: frozenset[tuple[int, Measure]]
    quantiles: DrawQuantiles

    def column(self, arm: int, column: int) -> Whole:
        """Return one total of one arm, family by family."""
        return self.table[:, arm, column]

    def known(self, arm: int, column: int) -> bool:
        """Return whether the arm's cost or time is known."""
        return (arm, MEASURES[column - COST]) not in self.unknown


def checked_totals(totals: Any) -> Whole:
    """Return whole totals (families, arms, 4), or raise ``StatsInputError``."""
    table = np.asarray(totals)
    if table.ndim != 3 or table.shape[2] != 4 or table.dtype.kind not in "iu":
        raise StatsInputError("totals", f"expected whole (families, arms, 4), got {table.dtype} {table.shape}")
    if 0 in table.shape:
        raise StatsInputError("totals", f"expected at least one family and one arm, got {table.shape}")
    if int(table.min()) < 0 or int(table.max()) > MAX_COUNT // len(table):
        raise StatsInputError("totals", f"expected 0 to (2^53 - 1)/{len(table)}, got {table.min()} to {table.max()}")
    if (table[:, :, SUCCESSES] > table[:, :, EPISODES]).any():
        raise StatsInputError("totals", "a family has more successes than episodes")
    return table.astype(np.int64, copy=False)


def draw_families(
    table: Whole, seed: int, draws: int, quantiles: DrawQuantiles, unknown: Collection[tuple[int, Measure]]
) -> FamilyDraws:
    """Return the sums of every draw: multiplicities times totals, exact in float64."""
    families, arms, _ = table.shape
    for arm, measure in unknown:
        if measure not in MEASURES or not 0 <= count("unknown", arm) < arms:
            raise StatsInputError("unknown", f"({arm!r}, {measure!r}) is no measure of the {arms} arms")
    flat = table.reshape(families, arms * 4).astype(np.float64)
    rows = [chunk @ flat for chunk in multiplicity_chunks(seed, draws, families=families)]
    sums = np.concatenate(rows).reshape(draws, arms, 4).transpose(2, 1, 0)
    return FamilyDraws(np.ascontiguousarray(sums), table, frozenset(unknown), quantiles)


def success_rates(found: FamilyDraws) -> list[BootstrapInterval]:
    """Return S/n of every arm."""
    values, defined = _quotients(found.sums[SUCCESSES], found.sums[EPISODES])
    points = [_rate_point(found, arm) for arm in range(len(values))]
    return _intervals(found, values, defined, points)


def per_success(found: FamilyDraws, column: int) -> list[BootstrapInterval]:
    """Return cost or time per success of every arm."""
    values, defined = _quotients(found.sums[column], found.sums[SUCCESSES])
    points = [_per_success_point(found, arm, column) for arm in range(len(values))]
    return _intervals(found, values, defined, points)


def differences(found: FamilyDraws, pairs: Sequence[Pair]) -> list[BootstrapInterval]:
    """Return S_A/n_A - S_B/n_B of every pair."""
    rates, defined = _quotients(found.sums[SUCCESSES], found.sums[EPISODES])
    intervals = []
    for part in _parts(pairs, found):
        a, b = np.array(part).T
        points = [_difference_point(found, pair) for pair in part]
        intervals += _intervals(found, rates[a] - rates[b], defined[a] & defined[b], points)
    return intervals


def ratios(found: FamilyDraws, pairs: Sequence[Pair], column: int) -> list[BootstrapInterval]:
    """Return (C_A/S_A)/(C_B/S_B) of every pair, for cost or time."""
    each, defined = _quotients(found.sums[column], found.sums[SUCCESSES])
    intervals = []
    for part in _parts(pairs, found):
        a, b = np.array(part).T
        values, above_zero = _quotients(each[a], each[b])
        points = [_ratio_point(found, pair, column) for pair in part]
        intervals += _intervals(found, values, defined[a] & defined[b] & above_zero, points)
    return intervals


def _parts(pairs: Sequence[Pair], found: FamilyDraws) -> Iterator[Sequence[Pair]]:
    size = max(1, _CHUNK_CELLS // found.sums.shape[2])
    for first in range(0, len(pairs), size):
        yield pairs[first : first + size]


def _quotients(above: Floats, below: Floats) -> tuple[Floats, Truths]:
    """Return the quotients, with 0 to hold the place where the divisor is 0, and where they are defined."""
    defined: Truths = below > 0.0
    return np.divide(above, below, out=np.zeros_like(above), where=defined), defined


def _intervals(
    found: FamilyDraws, values: Floats, defined: Truths, points: Sequence[Point]
) -> list[BootstrapInterval]:
    alone: Reason | None = "single_family" if len(found.table) == 1 else None
    return bootstrap_intervals(values, defined, points, found.quantiles, alone=alone)


def _total(found: FamilyDraws, arm: int, column: int) -> int:
    return int(found.table[:, arm, column].sum())


def _rate_point(found: FamilyDraws, arm: int) -> Point:
    tried = _total(found, arm, EPISODES)
    return (_total(found, arm, SUCCESSES) / tried, None) if tried else (None, "no_attempts")


def _per_success_point(found: FamilyDraws, arm: int, column: int) -> Point:
    if not found.known(arm, column):
        return None, "unknown_total"
    won = _total(found, arm, SUCCESSES)
    return (_total(found, arm, column) / won, None) if won else (None, "zero_successes")


def _difference_point(found: FamilyDraws, pair: Pair) -> Point:
    (won_a, tried_a), (won_b, tried_b) = ((_total(found, a, SUCCESSES), _total(found, a, EPISODES)) for a in pair)
    if not tried_a or not tried_b:
        return None, "no_attempts"
    return (won_a * tried_b - won_b * tried_a) / (tried_a * tried_b), None


def _ratio_point(found: FamilyDraws, pair: Pair, column: int) -> Point:
    if not all(found.known(arm, column) for arm in pair):
        return None, "unknown_total"
    (won_a, spent_a), (won_b, spent_b) = ((_total(found, a, SUCCESSES), _total(found, a, column)) for a in pair)
    if not won_a or not won_b:
        return None, "zero_successes"
    return (float(Fraction(spent_a * won_b, won_a * spent_b)), None) if spent_b else (None, "zero_cost")
