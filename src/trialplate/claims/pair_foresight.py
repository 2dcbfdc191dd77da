"""What claims on two arms, and on one against the others, can come to with the planned episodes.

Definitions: statistics specification, sections 6, 9 and 12. Nothing that was observed enters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trialplate import stats
from trialplate.claims import counts_wording as words
from trialplate.claims.answers import Line
from trialplate.spec.plan import (
    AnalysisPlan,
    CostClaim,
    LeadershipClaim,
    NonInferiorityClaim,
    PairClaim,
    RelativeRuleClaim,
    SuperiorityClaim,
    TimeClaim,
)
from trialplate.stats.discordant import MAX_TRIALS
from trialplate.stats.gates import FLAG_FAMILIES, MIN_FAMILIES

ArmsClaim = PairClaim | RelativeRuleClaim | LeadershipClaim
Outlook = Literal["possible", "unlikely", "impossible", "ineligible"]
UNDEFINED_RISK = 0.01
"""Above this chance that a bootstrap draw has no success, a cost or time claim is at risk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginOutlook:
    """A margin: pairs if none differs; those at the registered discordance, and the chance of the planned ones."""

    margin: float
    least_pairs: int | None
    needed: int | None
    power: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairClaimOutlook:
    """Whether a registered claim on arms can be supported.

    ``units``: families, or pairs where episodes are the registered unit. ``with_success``: how many of them need a
    success in each arm, so that a bootstrap draw without one has at most 1 % chance; None where no ratio is claimed.
    """

    name: str
    kind: str
    arm: str
    against: tuple[str, ...]
    units: int
    outlook: Outlook
    margin: MarginOutlook | None
    with_success: int | None
    reasons: tuple[str, ...]
    flags: tuple[str, ...]


def pair_claim_outlook(
    rule: ArmsClaim, *, pairs: int, families: int, plan: AnalysisPlan, underpowered: bool | None
) -> PairClaimOutlook:
    """Return the outlook of one claim. ``underpowered``: of its comparison at the registered effect, if there is one.

    ``ineligible`` below ten families, which the relative rule does not ask for; ``unlikely`` where the chance at the
    registered effect or margin is below the target, or where two arms that pass alike could not clear the margin.
    """
    units = families if plan.unit == "family" else pairs
    own_rule = isinstance(rule, RelativeRuleClaim)
    few = units < MIN_FAMILIES and not own_rule
    margin = _margin(rule.margin, pairs, plan) if isinstance(rule, NonInferiorityClaim | LeadershipClaim) else None
    weak = underpowered is True if isinstance(rule, SuperiorityClaim) else _weak(margin, pairs, plan)
    ratio = isinstance(rule, CostClaim | TimeClaim | RelativeRuleClaim | LeadershipClaim)
    flagged = isinstance(rule, RelativeRuleClaim | LeadershipClaim)
    if isinstance(rule, LeadershipClaim):
        against = tuple(b for a, b in plan.comparisons if a == rule.arm)
    else:
        against = (rule.against,)
    return PairClaimOutlook(
        name=rule.name,
        kind=rule.kind,
        arm=rule.arm,
        against=against,
        units=units,
        outlook="ineligible" if few else "unlikely" if weak else "possible",
        margin=margin,
        with_success=_with_success(units, plan.draws) if ratio else None,
        reasons=("few_families",) if few else (),
        flags=("few_families",) if flagged and units < FLAG_FAMILIES else (),
    )


def pair_claim_lines(claims: Sequence[PairClaimOutlook]) -> list[Line]:
    """Return the rows of these claims."""
    rows = []
    for claim in claims:
        method = "bootstrap" if claim.kind == "relative_rule" else "percentile_and_t"
        rows.append(Line(claim.name, words.OUTLOOKS[claim.outlook], words.METHODS[method]))
        if claim.margin is not None:
            rows.append(_row("no_discordance", words.whole(claim.margin.least_pairs), "tango_power"))
            if claim.margin.power is not None:
                rows.append(_row("pairs", words.whole(claim.margin.needed), "tango_power"))
                rows.append(_row("margin_power", words.chance(claim.margin.power), "tango_power"))
        if claim.with_success is not None:
            value = words.LABELS["of"].format(some=claim.with_success, all=claim.units)
            rows.append(_row("families_with_success", value, "bootstrap"))
    return rows


def _margin(margin: float, pairs: int, plan: AnalysisPlan) -> MarginOutlook:
    alpha, power, psi = plan.pair_alpha, plan.target_power, plan.registered_discordance
    least = stats.noninferiority_sample_size(0.0, 0.0, margin=margin, alpha=alpha, power=power).value
    needed, chance = None, None
    if psi is not None:
        size, half = min(int(pairs / plan.design_effect), MAX_TRIALS), psi / 2.0
        needed = stats.noninferiority_sample_size(
            half, half, margin=margin, alpha=alpha, power=power, deff=plan.design_effect
        ).value
        chance = stats.noninferiority_power(size, half, p01=half, margin=margin, alpha=alpha).value
    return MarginOutlook(
        margin=margin,
        least_pairs=None if least is None else int(least),
        needed=None if needed is None else int(needed),
        power=chance,
    )


def _weak(margin: MarginOutlook | None, pairs: int, plan: AnalysisPlan) -> bool:
    if margin is None:
        return False
    too_few = margin.least_pairs is None or pairs < margin.least_pairs
    return too_few or (margin.power is not None and margin.power < plan.target_power)


def _with_success(units: int, draws: int) -> int:
    """Return the fewest units with a success for which a draw without one has at most 1 % chance."""
    low, high = 0, units
    while high - low > 1:
        middle = (low + high) // 2
        risky = stats.undefined_draw_probability(units, middle, draws=draws).any_draw > UNDEFINED_RISK
        low, high = (middle, high) if risky else (low, middle)
    return high


def _row(label: str, value: str, method: str) -> Line:
    return Line(words.LABELS[label], value, words.METHODS[method])
