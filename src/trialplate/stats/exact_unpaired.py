"""Planning two independent arms by the test that decides: Boschloo's, its region computed once per n.

Definitions: statistics specification, section 9. Without a registered rate of arm 2 the two rates lie evenly around
one half, where a given difference is hardest to find: what holds there holds everywhere for arms of one size, and to
within half a percent of power for others.
"""

from __future__ import annotations

import math

from trialplate.stats.boschloo import boschloo_power, rejection_region
from trialplate.stats.inputs import as_written, error_tail, fraction_inside, positive
from trialplate.stats.power import around_half, two_proportion_sample_size
from trialplate.stats.results import Value

MAX_EXACT_EPISODES = 400
"""Episodes of each arm up to which a sample size is searched exactly; the closed formula is good beyond."""
RESOLUTION = 1e-6


def boschloo_detectable_difference(
    n1: int, n2: int, *, baseline: float | None = None, alpha: float = 0.05, power: float = 0.8
) -> Value:
    """Return the smallest difference that Boschloo's two-sided test on n1 and n2 episodes finds with ``power``.

    ``baseline``: rate of arm 2, arm 1 above it; without one the rates lie around one half. Good to a millionth, and
    rounded up. Null with ``out_of_reach`` where even the largest possible difference is not found. Raises
    ``StatsInputError`` beyond 2,000,000 tables (n1 + 1)(n2 + 1).
    """
    fixed = None if baseline is None else fraction_inside("baseline", baseline)
    wanted = fraction_inside("power", power)
    region = rejection_region(n1, n2, side=error_tail(alpha))
    if region is None:
        return Value(None, "no_attempts")

    def found(difference: float) -> bool:
        p1, p2 = around_half(difference) if fixed is None else (fixed + difference, fixed)
        return region.chance(p1, p2) >= wanted

    low, high = 0.0, (1.0 if fixed is None else 1.0 - fixed) - 1e-9
    if not found(high):
        return Value(None, "out_of_reach")
    while high - low > RESOLUTION:
        middle = (low + high) / 2.0
        low, high = (low, middle) if found(middle) else (middle, high)
    return Value(high, None)


def boschloo_sample_size(
    p1: float, p2: float, *, alpha: float = 0.05, power: float = 0.8, deff: float = 1.0
) -> Value:
    """Return episodes of each arm at which Boschloo's exact power reaches ``power``, times ``deff``, rounded up.

    One episode less does not reach it; power has teeth, and a still smaller n may. Null with ``out_of_reach`` where
    the closed formula asks for more than 400 episodes of each arm.
    """
    first, second = fraction_inside("p1", p1), fraction_inside("p2", p2)
    rough = two_proportion_sample_size(first, second, alpha=alpha, power=power).n
    factor = as_written(positive("deff", deff))
    if rough is None or rough > MAX_EXACT_EPISODES:
        return Value(None, "out_of_reach")

    def reached(n: int) -> bool:
        found = boschloo_power(n, first, n2=n, p2=second, alpha=alpha).value
        return found is not None and found >= power

    low, high = max(0, math.floor(0.8 * rough) - 4), rough + 4
    while not reached(high):
        low, high = high, high + max(4, rough // 10)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    while high > 1 and reached(high - 1):
        high -= 1
    return Value(math.ceil(high * factor), None)
