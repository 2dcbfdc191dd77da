"""The relative rule: a source's own rule of relative leadership, under its own name and with its own sentence.

Source: agent-control specification, section 11. The upper 95 % bounds of the ratios of
cost and of time per success below 1, and the lower bound of the difference of success rates above -3 points, all
strict and all from draws in which each is defined. Bounds are order statistics of the draws, not shared among
comparisons, and nothing stands beside them: the rule asks for no t bound, no Tango bound and no number of families.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trialplate.claims import sentences
from trialplate.claims.claim import Claim, Verdict
from trialplate.claims.pairwise import claim_blockers
from trialplate.scoring.analysis import Analysis
from trialplate.scoring.comparisons import Comparison, FamilyEvidence, FamilyRatio
from trialplate.spec.plan import RELATIVE_RULE_MARGIN, RelativeRuleClaim, relative_rule_departures
from trialplate.stats.gates import FLAG_FAMILIES


def judge_relative_rule(analysis: Analysis, rule: RelativeRuleClaim, blockers: Sequence[str]) -> Claim:
    """Return the claim of one arm against another. Raises KeyError where their comparison is not registered.

    ``numbers["result"]`` is what the rule says of the numbers alone, whatever stands against the claim.
    """
    pair = analysis.comparison(rule.arm, rule.against)
    undefined, failing = _undefined(pair.families), _failing(pair.families)
    against = sorted({*claim_blockers(analysis, pair, blockers), *_missing(analysis), *undefined})
    if against:
        verdict, reasons = Verdict.INELIGIBLE, tuple(against)
    else:
        verdict, reasons = (Verdict.NOT_SUPPORTED, failing) if failing else (Verdict.SUPPORTED, ())
    numbers = _numbers(analysis, pair) | {
        "result": "not_evaluable" if undefined else "not_met" if failing else "met",
        "failing": list(failing),
    }
    return Claim(
        name=rule.name,
        kind=rule.kind,
        verdict=verdict,
        reasons=reasons,
        sentence=sentences.relative_rule_sentence(verdict.value, numbers, reasons),
        numbers=numbers,
    )


def _missing(analysis: Analysis) -> set[str]:
    """Return what any arm of the campaign lacks, and whether the analysis is another one than the rule's."""
    errored = any(arm.counts.errored for arm in analysis.arms)
    unknown = any(pair.families.cost.reason == "unknown_total" for pair in analysis.comparisons)
    departs = {"not_registered"} if relative_rule_departures(analysis.plan) else set()
    return departs | ({"missing_data"} if errored or unknown else set())


def _undefined(found: FamilyEvidence) -> set[str]:
    """Return why a bound is not defined, of each that is not."""
    reasons = {_why(ratio) for ratio in (found.cost, found.time) if ratio.order_high is None}
    if found.order_low is None:
        reasons.add(found.reason or "undefined_draws")
    return reasons


def _why(ratio: FamilyRatio) -> str:
    if ratio.undefined_draws:
        return "undefined_draws"
    return "missing_data" if ratio.reason in (None, "unknown_total") else ratio.reason


def _failing(found: FamilyEvidence) -> tuple[str, ...]:
    """Return the parts of the rule that do not hold, sorted; a bound that is not defined is not among them."""
    parts = {
        "cost_ratio_bound": found.cost.order_high is not None and not found.cost.order_high < 1.0,
        "success_difference_bound": found.order_low is not None and not found.order_low > -RELATIVE_RULE_MARGIN,
        "time_ratio_bound": found.time.order_high is not None and not found.time.order_high < 1.0,
    }
    return tuple(name for name, fails in parts.items() if fails)


def _numbers(analysis: Analysis, pair: Comparison) -> dict[str, Any]:
    found = pair.families
    return {
        "arm": pair.a,
        "against": pair.b,
        "margin": RELATIVE_RULE_MARGIN,
        "confidence": pair.confidence,
        "unit": analysis.plan.unit,
        "families": found.families,
        "compared": analysis.plan.compared,
        "cost_high": found.cost.order_high,
        "time_high": found.time.order_high,
        "order_low": found.order_low,
        "undefined_draws": max(found.cost.undefined_draws, found.time.undefined_draws),
        "only_arm": pair.only_a,
        "only_against": pair.only_b,
        "pairs": pair.pairs,
        "mcnemar_p": pair.p_value,
        "flags": ["few_families"] if found.families < FLAG_FAMILIES else [],
    }
