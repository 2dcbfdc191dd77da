"""The registered analysis and the registered claims: which numbers are computed, and which rules they must meet.

Source: statistics specification, sections 6, 10 and 12. The level is the confidence, once: alpha is what it leaves.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from trialplate.errors import DocumentFault
from trialplate.spec.channels import Frozen, Name

Confidence = Annotated[float, Field(gt=0.5, lt=1.0)]
Share = Annotated[float, Field(gt=0, lt=1)]
ErrorsRule = Literal["void", "bounds"]
DenominatorName = Literal["initiated", "measured", "valid"]
SliceKey = Literal["domain", "variant"]
UnitName = Literal["family", "episode"]
DRAWS_BEYOND_A_BOUND = 50
"""Draws that must lie beyond each bound, or the bound is a matter of luck (statistics specification, section 10)."""


class AnalysisPlan(Frozen):
    """The registered analysis, and nothing else.

    ``denominator``: ``measured`` counts PASS, FAIL and ERROR; ``valid`` PASS and FAIL; ``initiated`` everything that
    was started. The rates over ``measured`` and ``valid`` are always printed, the registered one first. ``errors``:
    whether an errored episode takes the arm's rate away (``void``) or leaves it between ``bounds``; None takes the
    suite's rule.

    ``comparisons``: pairs of arms, and no other pair is compared. ``unit``: what is drawn and must be many: the
    families, or single pairs of episodes, where no family holds two. ``draws``, ``seed``, ``quantile_rule``: of the
    bootstrap over them. ``multiplicity``: ``holm`` shares the error rate among the m compared pairs (intervals at
    1 - alpha/m, p-values by Holm); ``none`` gives each the whole of it. ``registered_effect``: the difference of
    rates worth finding, and ``registered_discordance`` the share of pairs expected to end differently; from both,
    never from what was observed, come the power and the pairs it needs for ``target_power``. ``design_effect``:
    by how much shared families stretch that number.
    """

    confidence: Confidence = 0.95
    denominator: DenominatorName = "measured"
    errors: ErrorsRule | None = None
    slices: tuple[SliceKey, ...] = ("domain", "variant")
    comparisons: tuple[tuple[str, str], ...] = ()
    unit: UnitName = "family"
    draws: Annotated[int, Field(ge=1, le=10_000_000)] = 2000
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 240926
    quantile_rule: Literal["order", "linear"] = "order"
    multiplicity: Literal["none", "holm"] = "holm"
    registered_effect: Share | None = None
    registered_discordance: Annotated[float, Field(gt=0, le=1)] | None = None
    design_effect: Annotated[float, Field(ge=1, le=1000)] = 1.0
    target_power: Share = 0.8

    @property
    def alpha(self) -> float:
        """The two-sided error rate that the confidence leaves."""
        return float(1 - _as_written(self.confidence))

    @property
    def compared(self) -> int:
        """How many pairs of arms are compared; a pair counts once, whichever arm stands first."""
        return len({frozenset(pair) for pair in self.comparisons})

    @property
    def shares(self) -> int:
        """Among how many comparisons the error rate is shared."""
        return max(1, self.compared) if self.multiplicity == "holm" else 1

    @property
    def pair_alpha(self) -> float:
        """The error rate of one comparison's intervals, alpha/m."""
        return float((1 - _as_written(self.confidence)) / self.shares)

    @property
    def pair_confidence(self) -> float:
        """The confidence of one comparison's intervals, 1 - alpha/m."""
        return float(1 - (1 - _as_written(self.confidence)) / self.shares)

    @property
    def draws_needed(self) -> int:
        """The fewest draws for intervals at that confidence: R alpha/(2m) >= 50."""
        return math.ceil(DRAWS_BEYOND_A_BOUND * 2 * self.shares / (1 - _as_written(self.confidence)))


class ThresholdClaim(Frozen):
    """ "The arm passes at least ``rate`` of the registered scenarios", gated on an exact one-sided bound.

    ``errors``: what an errored episode of the arm does to the claim. ``ineligible``: it may not be asked;
    ``lower_bound``: every errored episode counts as one that did not pass.
    """

    name: Name
    kind: Literal["threshold_rate"]
    arm: str
    rate: Share
    confidence: Confidence = 0.95
    errors: Literal["ineligible", "lower_bound"] = "ineligible"


class PairRule(Frozen):
    """What every claim on two arms says: ``arm`` against ``against``, a registered comparison in this order."""

    name: Name
    arm: str
    against: str


class SuperiorityClaim(PairRule):
    """ "The arm passes more of the registered scenarios than the other"."""

    kind: Literal["superiority"]


class NonInferiorityClaim(PairRule):
    """ "The arm is not worse than the other by more than ``margin``", a difference of rates."""

    kind: Literal["non_inferiority"]
    margin: Share


class CostClaim(PairRule):
    """ "The arm costs less per success than the other", all attempts paid."""

    kind: Literal["cost_efficiency"]


class TimeClaim(PairRule):
    """ "The arm takes less control time per success than the other", all attempts counted."""

    kind: Literal["time_efficiency"]


class RelativeRuleClaim(PairRule):
    """ "The arm meets the relative rule against the other": bounds on cost, control time and success, as it defines.

    A rule with nothing in it to choose: see :data:`RELATIVE_RULE_PLAN` and :data:`RELATIVE_RULE_MARGIN`.
    """

    kind: Literal["relative_rule"]


class LeadershipClaim(Frozen):
    """ "Against every other arm under test: cheaper, faster, and not worse by more than ``margin``"."""

    name: Name
    kind: Literal["leadership"]
    arm: str
    margin: Share


PairClaim = SuperiorityClaim | NonInferiorityClaim | CostClaim | TimeClaim
ClaimRule = Annotated[ThresholdClaim | PairClaim | RelativeRuleClaim | LeadershipClaim, Field(discriminator="kind")]
CLAIM_KINDS: Mapping[str, type[Frozen]] = {
    "threshold_rate": ThresholdClaim,
    "superiority": SuperiorityClaim,
    "non_inferiority": NonInferiorityClaim,
    "cost_efficiency": CostClaim,
    "time_efficiency": TimeClaim,
    "relative_rule": RelativeRuleClaim,
    "leadership": LeadershipClaim,
}
RELATIVE_RULE_MARGIN = 0.03
"""By how much success may be lower under the relative rule, strictly: three percentage points."""
RELATIVE_RULE_PLAN: Mapping[str, Any] = {
    "confidence": 0.95,
    "unit": "family",
    "draws": 2000,
    "quantile_rule": "order",
}
"""The settings of the analysis that the relative rule is defined by."""


def relative_rule_departures(plan: AnalysisPlan) -> dict[str, str]:
    """Return where a registered analysis is not that of the relative rule: setting -> expected and got."""
    found = {
        name: f"the relative rule is defined with {wanted!r}, got {getattr(plan, name)!r}"
        for name, wanted in RELATIVE_RULE_PLAN.items()
        if getattr(plan, name) != wanted
    }
    if plan.shares > 1:
        found["multiplicity"] = (
            "the relative rule does not share its level: expected 'none', or one comparison,"
            f" got {plan.multiplicity!r} with {plan.shares}"
        )
    return found


def claim_faults(raw: Mapping[str, Any]) -> list[DocumentFault]:
    """Return claims on two arms whose comparison is not registered: no number would stand behind them."""
    plan, claims = plan_of(raw), raw.get("claims")
    if plan is None or not isinstance(claims, list):
        return []
    faults = []
    if any(isinstance(claim, dict) and claim.get("kind") == "relative_rule" for claim in claims):
        faults = [DocumentFault(f"analysis.{name}", told) for name, told in relative_rule_departures(plan).items()]
    for index, claim in enumerate(claims):
        if not isinstance(claim, dict):
            continue
        arm, against, kind = claim.get("arm"), claim.get("against"), claim.get("kind")
        if kind == "leadership" and isinstance(arm, str) and not any(pair[0] == arm for pair in plan.comparisons):
            message = f"no comparison of {arm!r} with another arm is registered: add them to analysis.comparisons"
            faults.append(DocumentFault(f"claims[{index}].arm", message))
        elif isinstance(arm, str) and isinstance(against, str) and (arm, against) not in plan.comparisons:
            message = f"this comparison is not registered: add [{arm!r}, {against!r}] to analysis.comparisons"
            faults.append(DocumentFault(f"claims[{index}].against", message))
    return faults


def plan_of(raw: Mapping[str, Any]) -> AnalysisPlan | None:
    """Return the analysis of a raw protocol, None where its shape is wrong, which the shape check says."""
    table = raw.get("analysis", {})
    try:
        return AnalysisPlan.model_validate_json(json.dumps(table))
    except (ValidationError, TypeError, ValueError):
        return None


def analysis_faults(raw: Mapping[str, Any]) -> list[DocumentFault]:
    """Return what the members of a registered analysis say against each other."""
    plan = plan_of(raw)
    if plan is None:
        return []
    found: list[tuple[str, str]] = []
    for index, pair in enumerate(plan.comparisons):
        if pair in plan.comparisons[:index]:
            found.append((f"comparisons[{index}]", f"{pair[0]!r} against {pair[1]!r} stands twice"))
    needed = plan.draws_needed
    if plan.comparisons and plan.draws < needed:
        found.append(
            (
                "draws",
                f"expected at least {needed}: {DRAWS_BEYOND_A_BOUND} draws beyond each bound at confidence"
                f" {plan.confidence}, shared among {plan.shares}; got {plan.draws}",
            )
        )
    effect, discordance = plan.registered_effect, plan.registered_discordance
    if effect is not None and discordance is None:
        found.append(
            (
                "registered_discordance",
                "missing: how many pairs an effect needs depends on the share of pairs that end differently",
            )
        )
    elif effect is not None and discordance is not None and discordance < effect:
        found.append(
            (
                "registered_discordance",
                f"expected at least the registered effect {effect}: rates cannot differ by more than pairs do,"
                f" got {discordance}",
            )
        )
    if not plan.comparisons:
        found += [
            (name, "has no use without analysis.comparisons: leave it out, or register what is compared")
            for name in _OF_COMPARISONS
            if getattr(plan, name) != AnalysisPlan.model_fields[name].default
        ]
    return [DocumentFault(f"analysis.{name}", message) for name, message in found]


_OF_COMPARISONS = (
    "unit", "draws", "seed", "quantile_rule", "multiplicity", "registered_effect", "registered_discordance",
    "design_effect", "target_power",
)  # fmt: skip


def _as_written(value: float) -> Fraction:
    """Return the decimal that a person wrote, exactly: 1 - 0.95 is 0.05."""
    return Fraction(repr(value))
