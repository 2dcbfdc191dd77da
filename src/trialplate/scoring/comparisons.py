"""What the comparison of two registered arms is: paired table, family bounds, what could be found, and the verdict.

Source: statistics specification, sections 3, 6, 7, 9 and 12. What is not defined is null with a reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VerdictName = Literal["BETTER", "WORSE", "NOT_DISTINGUISHED", "NOT_COMPARABLE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyRatio:
    """Cost or time per success of A over that of B, with percentile bounds by both rules and t bounds.

    ``low``/``high``: the registered rule. ``undefined_draws``: draws in which an arm had no success; one leaves the
    ratio without percentile bounds. ``reason``: why ratio or percentile bounds are null, ``t_reason`` the t bounds.
    """

    ratio: float | None
    low: float | None
    high: float | None
    order_low: float | None
    order_high: float | None
    linear_low: float | None
    linear_high: float | None
    t_low: float | None
    t_high: float | None
    undefined_draws: int
    reason: str | None
    t_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyEvidence:
    """Two arms over the units that are drawn. ``families``: those with counted episodes of both arms.

    ``difference`` = passed_a/n_a - passed_b/n_b. ``low``/``high``: its percentile bounds by the registered rule,
    ``order_*`` and ``linear_*`` by both, ``one_sided_*`` the bounds that spend the whole error on one side, ``t_*``
    the t bounds. ``b_low``, ``b_t_low``: lower bounds of B minus A; order statistics are not symmetric. ``p_value``:
    sign-flip test, two-sided; ``adjusted_p``: by the registered rule over all comparisons. ``equal_sizes``: whether
    each family has as many episodes of A as of B and of every other family; else the test is secondary.
    """

    families: int
    difference: float | None
    low: float | None
    high: float | None
    one_sided_low: float | None
    one_sided_high: float | None
    order_low: float | None
    order_high: float | None
    linear_low: float | None
    linear_high: float | None
    t_low: float | None
    t_high: float | None
    b_low: float | None
    b_t_low: float | None
    p_value: float | None
    adjusted_p: float | None
    equal_sizes: bool
    cost: FamilyRatio
    time: FamilyRatio
    reason: str | None
    t_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """What this many pairs could find, from what was registered; never from the effect that was observed.

    ``discordance``: share of pairs that end differently, as registered, else as observed (``discordance_from``).
    ``detectable``: the smallest difference that ``n`` pairs find with chance ``target_power`` (Connor's formula).
    ``power``: chance that the exact McNemar test finds the registered ``effect`` with ``n`` pairs; ``needed``: the
    pairs at which it reaches the target. Both take pairs as they would count without shared families: n divided by,
    and the need multiplied by, the registered design effect.
    """

    n: int
    discordance: float | None
    discordance_from: Literal["registered", "observed"]
    detectable: float | None
    detectable_reason: str | None
    effect: float | None
    power: float | None
    needed: int | None
    needed_reason: str | None
    target_power: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A registered pair of arms on the same scenarios and repeats.

    ``pairs``: trials that the registered denominator counts on both sides; ``only_a``/``only_b``: those in which only
    that arm passed. ``errored``: pairs with an errored side, which counts as not passed; ``error_low``,
    ``error_high``: where the difference could lie had every errored side passed, or not. ``difference`` =
    (only_a - only_b) / pairs with its Tango interval at ``confidence`` and the exact McNemar p (``adjusted_p``: over
    all comparisons).
    ``unmatched``: trials without a counted partner; without the ``excluded``, which the same registered rule excluded
    for both arms before any control step, and no arm gains from. ``unequal_starts``: pairs whose worlds did not
    start in the same state. ``reversal``: pooled and macro rates order the arms differently. Null with ``reason``
    when an artifact is in state ERROR, starts differ or no pair exists.

    ``verdict``: on A. NOT_COMPARABLE lists in ``differs`` what is not the same. ``not_better`` and ``not_worse``:
    what keeps each of the two other verdicts away. ``underpowered``: only of NOT_DISTINGUISHED, null where no effect
    was registered.
    """

    a: str
    b: str
    confidence: float
    pairs: int
    both: int
    only_a: int
    only_b: int
    neither: int
    unmatched: int
    excluded: int
    unequal_starts: int
    errored: int
    error_low: float | None
    error_high: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    mid_p: float | None
    adjusted_p: float | None
    reversal: bool | None
    families: FamilyEvidence
    detection: Detection
    verdict: VerdictName
    underpowered: bool | None
    not_better: tuple[str, ...]
    not_worse: tuple[str, ...]
    differs: tuple[str, ...]
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampling:
    """How the units were drawn: one index matrix for every arm and pair, and what identifies it.

    ``comparisons``: among how many the error rate is shared. ``first_raw``: the first words of the stream, as decimal
    text; ``first_rows``: the first draws; ``sha256_int64_le``: digest of the whole matrix.
    """

    unit: Literal["family", "episode"]
    families: int
    draws: int
    seed: int
    quantile_rule: Literal["order", "linear"]
    multiplicity: Literal["none", "holm"]
    comparisons: int
    confidence: float
    first_raw: tuple[str, ...]
    first_rows: tuple[tuple[int, ...], ...]
    sha256_int64_le: str
