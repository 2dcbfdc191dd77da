"""The sign-flip test on family differences: is the lead of A over B one of many that chance could have dealt?

Definition: statistics specification, section 6; Fisher, The Design of Experiments (1935), section 21.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trialplate.errors import StatsInputError
from trialplate.stats.inputs import ALTERNATIVES, MAX_COUNT, Alternative, count, one_of, sequence
from trialplate.stats.resampling import DEFAULT_SEED, MAX_DRAWS, flip_chunks
from trialplate.stats.results import PValue

MAX_EXACT_FAMILIES = 16
PATTERNS = 100_000


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
    one_of("alternative", alternative, ALTERNATIVES)
    items = sequence("differences", differences)
    signed = [count(f"differences[{at}]", item, minimum=-MAX_COUNT) for at, item in enumerate(items)]
    if sum(map(abs, signed)) > MAX_COUNT:
        raise StatsInputError("differences", f"add up to more than {MAX_COUNT}")
    draws = count("patterns", patterns, minimum=1, maximum=MAX_DRAWS)
    count("seed", seed)
    if not signed:
        return PValue(None, "no_pairs")
    sign = -1 if alternative == "less" else 1
    steps = np.array([sign * step for step in signed], dtype=np.int64)
    observed = int(steps.sum())
    if len(steps) <= MAX_EXACT_FAMILIES:
        sums = np.zeros(1, dtype=np.int64)
        for step in steps:
            sums = np.concatenate([sums + step, sums - step])
        extreme, every = _as_extreme(sums, observed, alternative), len(sums)
    else:
        weights = steps.astype(np.float64)
        extreme, every = 1, draws + 1
        for flips in flip_chunks(seed, draws, families=len(steps)):
            sums = observed - 2 * (flips.astype(np.float64) @ weights).astype(np.int64)
            extreme += _as_extreme(sums, observed, alternative)
    return PValue(extreme / every, None)


def _as_extreme(sums: np.typing.NDArray[np.int64], observed: int, alternative: Alternative) -> int:
    if alternative == "two-sided":
        return int(np.count_nonzero(np.abs(sums) >= abs(observed)))
    return int(np.count_nonzero(sums >= observed))
