"""How many pairs a group-sequential test may need at most, searched by its exact power.

Definitions: statistics specification, sections 8 and 9.
"""

from __future__ import annotations

import math

from trialplate.errors import StatsInputError
from trialplate.stats.group_sequential import Spending, group_sequential_power
from trialplate.stats.inputs import as_written, count, fraction_inside, positive
from trialplate.stats.power import paired_sample_size
from trialplate.stats.results import Value

MAX_LOOKS = 10
"""Beyond, the search takes minutes, and the e-process looks after every pair anyway."""
MAX_SEARCHED_PAIRS = 2000
"""Pairs by the closed formula up to which the search takes seconds."""


def even_looks(n: int, looks: int) -> list[int]:
    """Return the pairs completed at each of ``looks`` even steps to n, the last of them n."""
    total, steps = count("n", n, minimum=1), count("looks", looks, minimum=1, maximum=MAX_LOOKS)
    if total < steps:
        raise StatsInputError("looks", f"{steps} looks at {total} pairs: expected no more looks than pairs")
    return [math.ceil(total * step / steps) for step in range(1, steps + 1)]


def group_sequential_sample_size(
    p10: float,
    p01: float,
    *,
    looks: int,
    alpha: float = 0.05,
    power: float = 0.8,
    spending: Spending = "obrien-fleming",
    deff: float = 1.0,
) -> Value:
    """Return n_max, the pairs at the last of even ``looks``, times ``deff``, at which the exact power is reached.

    One pair less does not reach ``power``; power has teeth, and a still smaller n may. Null with ``out_of_reach`` for
    p10 = p01 and where the closed formula of one analysis asks for more than 2,000 pairs.
    """
    steps = count("looks", looks, minimum=1, maximum=MAX_LOOKS)
    wanted = fraction_inside("power", power)
    factor = as_written(positive("deff", deff))
    rough = paired_sample_size(p10, p01, alpha=alpha, power=power).n
    if rough is None or rough > MAX_SEARCHED_PAIRS:
        return Value(None, "out_of_reach")

    def reached(n: int) -> bool:
        found = group_sequential_power(even_looks(n, steps), p10, p01=p01, alpha=alpha, spending=spending)
        return found.power >= wanted

    low, high = steps, max(rough, steps + 1)
    while not reached(high):
        low, high = high, high + max(4, high // 8)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return Value(math.ceil(high * factor), None)
