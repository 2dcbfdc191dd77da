"""Which numbers support a registered claim: rules on bounds, with every reason that stands in the way.

Definitions: statistics specification, section 12. Nothing here words a sentence or looks at evidence; the caller
hands over what the evidence says as blockers. Comparisons are strict, and on the numbers as they are, never rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from trialplate.errors import StatsInputError
from trialplate.stats.inputs import count, fraction_inside, fraction_within, one_of, real, sequence
from trialplate.stats.results import Reason, Result

Claim = Literal["superiority", "non_inferiority", "efficiency"]
CLAIMS: tuple[Claim, ...] = get_args(Claim)
Status = Literal["supported", "not_supported", "ineligible"]
STATUSES: tuple[Status, ...] = get_args(Status)
BLOCKERS = (
    "not_comparable",
    "not_registered",
    "incomplete_coverage",
    "missing_data",
    "integrity",
    "not_qualified",
    "not_confirmatory",
    "unregistered_stop",
    "unwanted_motion",
    "holdout_spent",
    "exploratory_registration",
    "sync_unverified",
)
"""What the evidence can say against asking the question at all; ``claims.wording`` has the words for each."""
PARTS = ("cost", "time", "non_inferior")
MIN_FAMILIES = 10
FLAG_FAMILIES = 20


@dataclass(frozen=True, slots=True)
class GateResult(Result):
    """Whether the rule holds. ``reasons``, sorted: why the question may not be asked, else the bounds that fail."""

    status: Status
    reasons: tuple[str, ...]
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class LeadershipResult(Result):
    """The same for a claim against every competitor. ``not_cleared``: those with a part that is not supported."""

    status: Status
    reasons: tuple[str, ...]
    flags: tuple[str, ...]
    not_cleared: tuple[str, ...]
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class VerdictResult(Result):
    """The one word for two arms. ``underpowered``: null (``no_values``) unless NOT_DISTINGUISHED with a power."""

    verdict: Literal["BETTER", "WORSE", "NOT_DISTINGUISHED", "NOT_COMPARABLE"]
    underpowered: bool | None
    reason: Reason | None


def gate_claim(
    claim: Claim,
    families: int,
    *,
    percentile_low: float | None = None,
    percentile_high: float | None = None,
    t_low: float | None = None,
    t_high: float | None = None,
    sign_flip_p: float | None = None,
    tango_low: float | None = None,
    margin: float | None = None,
    alpha: float = 0.05,
    undefined_draws: int = 0,
    blockers: Sequence[str] = (),
    min_families: int = MIN_FAMILIES,
) -> GateResult:
    """Return whether a registered pairwise claim holds for A.

    ``superiority``: percentile low > 0 and t low > 0; where t is null because no family varies, sign-flip p <= alpha
    instead. ``non_inferiority`` by more than ``margin``: percentile low, t low (skipped when null for the same
    reason) and Tango low > -margin. ``efficiency`` (a ratio): percentile high < 1 and t high < 1. Any other null
    bound fails. Blockers, fewer than ``min_families`` (``few_families``) and, for a ratio, undefined draws make it
    ineligible. Raises ``StatsInputError`` for an unknown claim or blocker and for non-inferiority without margin.
    """
    one_of("claim", claim, CLAIMS)
    bounds = {
        "percentile_low": percentile_low,
        "percentile_high": percentile_high,
        "t_low": t_low,
        "t_high": t_high,
        "tango_low": tango_low,
    }
    known = {name: None if value is None else real(name, value) for name, value in bounds.items()}
    level = fraction_inside("alpha", alpha)
    p_value = None if sign_flip_p is None else fraction_within("sign_flip_p", sign_flip_p)
    against = _eligibility(families, blockers, min_families)
    if count("undefined_draws", undefined_draws) and claim == "efficiency":
        against.add("undefined_draws")
    if claim == "superiority":
        no_t = p_value is not None and p_value <= level
        failed = {
            "percentile_bound": _fails_above(known["percentile_low"], 0.0),
            "t_bound": not no_t if known["t_low"] is None else _fails_above(known["t_low"], 0.0),
        }
    elif claim == "non_inferiority":
        floor = -_margin(margin)
        failed = {
            "percentile_bound": _fails_above(known["percentile_low"], floor),
            "t_bound": known["t_low"] is not None and _fails_above(known["t_low"], floor),
            "tango_bound": _fails_above(known["tango_low"], floor),
        }
    else:
        failed = {
            "percentile_bound": _fails_below(known["percentile_high"], 1.0),
            "t_bound": _fails_below(known["t_high"], 1.0),
        }
    return GateResult(*_status(against, {name for name, fails in failed.items() if fails}))


def gate_leadership(
    findings: Sequence[Mapping[str, str]],
    families: int,
    *,
    blockers: Sequence[str] = (),
    min_families: int = MIN_FAMILIES,
    flag_families: int = FLAG_FAMILIES,
) -> LeadershipResult:
    """Return whether an arm leads: cost, time and non-inferiority supported against **every** registered competitor.

    One finding per competitor: ``competitor``, and a status for each of ``cost``, ``time``, ``non_inferior``, at the
    adjusted level. An ineligible part: ``competitor_ineligible``; no finding: ``no_competitors``. Below
    ``flag_families`` it carries the flag ``few_families``, which its sentence prints.
    """
    against = _eligibility(families, blockers, min_families)
    flags = ("few_families",) if families < count("flag_families", flag_families) else ()
    seen: list[str] = []
    not_cleared, failed = [], set()
    for at, finding in enumerate(sequence("findings", findings)):
        name, parts = _finding(f"findings[{at}]", finding)
        if name in seen:
            raise StatsInputError(f"findings[{at}]", f"competitor {name!r} is given more than once")
        seen.append(name)
        if "ineligible" in parts:
            against.add("competitor_ineligible")
        if any(part != "supported" for part in parts):
            not_cleared.append(name)
            failed.add("competitor_not_cleared")
    if not seen:
        against.add("no_competitors")
    status, reasons = _status(against, failed)
    return LeadershipResult(status, reasons, flags, tuple(not_cleared))


def verdict(
    comparable: bool,
    *,
    better_supported: bool,
    worse_supported: bool,
    power: float | None = None,
    target_power: float = 0.8,
) -> VerdictResult:
    """Return BETTER, WORSE, NOT_DISTINGUISHED or NOT_COMPARABLE.

    ``power``: at the registered effect and the actual n, ``None`` when no effect was registered; never at the
    observed effect. Raises ``StatsInputError`` when both directions are supported.
    """
    for name, value in (
        ("comparable", comparable),
        ("better_supported", better_supported),
        ("worse_supported", worse_supported),
    ):
        if not isinstance(value, bool):
            raise StatsInputError(name, f"expected true or false, got {value!r}")
    found = None if power is None else fraction_within("power", power)
    target = fraction_inside("target_power", target_power)
    if not comparable:
        return VerdictResult("NOT_COMPARABLE", None, "no_values")
    if better_supported and worse_supported:
        raise StatsInputError("worse_supported", "both directions cannot be supported at once")
    if better_supported or worse_supported:
        return VerdictResult("BETTER" if better_supported else "WORSE", None, "no_values")
    if found is None:
        return VerdictResult("NOT_DISTINGUISHED", None, "no_values")
    return VerdictResult("NOT_DISTINGUISHED", found < target, None)


def _eligibility(families: object, blockers: object, min_families: object) -> set[str]:
    given = {
        one_of(f"blockers[{at}]", blocker, BLOCKERS) for at, blocker in enumerate(sequence("blockers", blockers))
    }
    few = count("families", families) < count("min_families", min_families)
    return given | ({"few_families"} if few else set())


def _status(against: set[str], failed: set[str]) -> tuple[Status, tuple[str, ...]]:
    if against:
        return "ineligible", tuple(sorted(against))
    return ("not_supported", tuple(sorted(failed))) if failed else ("supported", ())


def _fails_above(bound: float | None, floor: float) -> bool:
    return bound is None or not bound > floor


def _fails_below(bound: float | None, ceiling: float) -> bool:
    return bound is None or not bound < ceiling


def _margin(margin: object) -> float:
    if margin is None:
        raise StatsInputError("margin", "non-inferiority needs the registered margin")
    return fraction_inside("margin", margin)


def _finding(argument: str, finding: object) -> tuple[str, list[str]]:
    if not isinstance(finding, Mapping) or set(finding) != {"competitor", *PARTS}:
        raise StatsInputError(argument, f"expected competitor, {', '.join(PARTS)}, got {finding!r}")
    return str(finding["competitor"]), [one_of(f"{argument}.{part}", finding[part], STATUSES) for part in PARTS]
