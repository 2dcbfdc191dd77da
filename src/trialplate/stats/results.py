"""What every statistic returns: a frozen result that is defined, or null with a reason from a closed list."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, get_args

from trialplate.errors import StatsInputError

Reason = Literal[
    "no_attempts",
    "nothing_measured",
    "unknown_total",
    "zero_successes",
    "zero_cost",
    "undefined_draws",
    "single_cluster",
    "single_family",
    "no_between_cluster_variation",
    "no_between_family_variation",
    "few_clusters",
    "task_without_attempts",
    "no_pairs",
    "no_exposure",
    "no_finite_upper_bound",
    "no_finite_lower_bound",
    "unbounded",
    "no_variation",
    "no_pairable_units",
    "not_strongly_connected",
    "median_not_reached",
    "no_eligible_duration",
    "judge_not_informative",
    "outside_unit_interval",
    "nominal_zero",
    "no_values",
    "infinite_loss",
    "out_of_reach",
]
"""Why something in a result is null (statistics specification, section 13)."""

REASONS: frozenset[str] = frozenset(get_args(Reason))


@dataclass(frozen=True, slots=True)
class Result:
    """Base of every result. Building one checks the three promises that readers rely on.

    Its ``reason`` is ``None`` or on the closed list; a field that is ``None`` comes with a reason; every number
    is finite. Raises :class:`~trialplate.errors.StatsInputError` naming the field otherwise. A definition that has
    a null of its own (no limit where nothing survives) names the field in ``NULL_BY_DEFINITION``.
    """

    NULL_BY_DEFINITION: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        reason: object = getattr(self, "reason", None)
        if reason is not None and reason not in REASONS:
            raise StatsInputError("reason", f"{reason!r} is not one of {', '.join(sorted(REASONS))}")
        for field in fields(self):
            if field.name == "reason":
                continue
            for value in _flatten(getattr(self, field.name)):
                if value is None and reason is None and field.name not in self.NULL_BY_DEFINITION:
                    raise StatsInputError(field.name, "is null without a reason; say why it is undefined")
                if isinstance(value, float) and not math.isfinite(value):
                    raise StatsInputError(field.name, f"came out as {value}: the input is beyond float range")


def _flatten(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for item in value:
            yield from _flatten(item)
    elif isinstance(value, Mapping):
        yield from _flatten(tuple(value.values()))
    else:
        yield value


@dataclass(frozen=True, slots=True)
class Value(Result):
    """A single number, or null with a reason."""

    value: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Interval(Result):
    """An estimate with its lower and upper limit. A one-sided interval has the end of the range at the other."""

    estimate: float | None
    low: float | None
    high: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class PValue(Result):
    """A p-value, or null with a reason."""

    p_value: float | None
    reason: Reason | None
