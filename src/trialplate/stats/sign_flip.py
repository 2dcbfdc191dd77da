"""The sign-flip test on family differences: is the lead of A over B one of many that chance could have dealt?

Definition: statistics specification, section 6; Fisher, The Design of Experiments (1935), section 21.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import StatsInputError
from trialplate.stats.inputs import ALTERNATIVES, MAX_COUNT, Alternative, count, one_of, sequence
from trialplate.stats.resampling import DEFAULT_SEED, MAX_DRAWS, flip_chunks
from trialplate.stats.results import PValue

MAX_EXACT_FAMILIES = 16
PATTERNS = 100_000
Whole = NDArray[np.int64]


def sign_flip_test(
    differences: Sequence[int],
    *,
    alternative: Alternative = "two-sided",
    seed: int = DEFAULT_SEED,
    patterns: int = PATTERNS,
) -> PValue:
    """Return the chance, over random signs of the family differences of successes, of a sum at least as extreme.

    Up to 16 families all 2^K patterns are counted, so the smallest two-sided p is 2/2^K. Above that it is
    (1 + extreme)/(1 + patterns) over ``patterns`` sign patterns of the registered stream, the 1 being the observed
    one. A tie counts as at least as extreme; ``greater`` means that A succeeds more often. No family: null with
    ``no_pairs``. Exact when families have equal sizes, otherwise secondary.
    """
    return sign_flip_tests([differences], alternative=alternative, seed=seed, patterns=patterns)[0]


def sign_flip_tests(
    columns: Sequence[Sequence[int]],
    *,
    alternative: Alternative = "two-sided",
    seed: int = DEFAULT_SEED,
    patterns: int = PATTERNS,
) -> tuple[PValue, ...]:
    """Return ``sign_flip_test`` of every column of family differences; equally long ones share their sign patterns.

    The numbers are those of one test at a time; only the patterns are drawn once.
    """
    one_of("alternative", alternative, ALTERNATIVES)
    draws = count("patterns", patterns, minimum=1, maximum=MAX_DRAWS)
    count("seed", seed)
    sign = -1 if alternative == "less" else 1
    steps = [sign * _steps(column) for column in columns]
    found = [_exact(step, alternative) if len(step) <= MAX_EXACT_FAMILIES else None for step in steps]
    for length in sorted({len(step) for step in steps} - set(range(MAX_EXACT_FAMILIES + 1))):
        places = [at for at, step in enumerate(steps) if len(step) == length]
        drawn = _drawn(np.stack([steps[at] for at in places], axis=1), alternative, seed, draws)
        for at, p_value in zip(places, drawn, strict=True):
            found[at] = PValue(p_value, None)
    return tuple(p_value for p_value in found if p_value is not None)


def _steps(differences: Sequence[int]) -> Whole:
    items = sequence("differences", differences)
    signed = [count(f"differences[{at}]", item, minimum=-MAX_COUNT) for at, item in enumerate(items)]
    if sum(map(abs, signed)) > MAX_COUNT:
        raise StatsInputError("differences", f"add up to more than {MAX_COUNT}")
    return np.array(signed, dtype=np.int64)


def _exact(steps: Whole, alternative: Alternative) -> PValue:
    """Count every pattern."""
    if not len(steps):
        return PValue(None, "no_pairs")
    sums = np.zeros(1, dtype=np.int64)
    for step in steps:
        sums = np.concatenate([sums + step, sums - step])
    return PValue(int(_as_extreme(sums, steps.sum(), alternative)) / len(sums), None)


def _drawn(steps: Whole, alternative: Alternative, seed: int, draws: int) -> list[float]:
    """Count drawn patterns; ``steps``: (families, columns)."""
    observed = steps.sum(axis=0)
    weights = steps.astype(np.float64)
    extreme = np.ones(steps.shape[1], dtype=np.int64)  # the observed pattern itself
    for flips in flip_chunks(seed, draws, families=len(steps)):
        sums = observed - 2 * (flips.astype(np.float64) @ weights).astype(np.int64)
        extreme += _as_extreme(sums, observed, alternative)
    return [int(number) / (draws + 1) for number in extreme]


def _as_extreme(sums: Whole, observed: Whole, alternative: Alternative) -> Whole:
    """Return in how many rows of ``sums`` (rows,) or (rows, columns) a sum is at least as extreme."""
    found = np.abs(sums) >= np.abs(observed) if alternative == "two-sided" else sums >= observed
    return np.asarray(np.count_nonzero(found, axis=0), dtype=np.int64)
