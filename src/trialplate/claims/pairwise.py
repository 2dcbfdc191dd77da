"""Claims on two arms, and on one against every other: registered rules on the bounds of a registered comparison.

Source: statistics specification, section 12. Every rule wants the percentile bound and the t bound over the
registered unit; non-inferiority wants Tango's bound too, so that two arms that never differ do not pass for lack of
variation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trialplate import stats
from trialplate.claims import sentences
from trialplate.claims.claim import Claim, Verdict
from trialplate.scoring.analysis import Analysis
from trialplate.scoring.comparisons import Comparison, FamilyRatio
from trialplate.scoring.verdicts import pair_blockers, superiority
from trialplate.spec.plan import CostClaim, LeadershipClaim, NonInferiorityClaim, PairClaim, SuperiorityClaim

PARTS = ("cost", "time", "non_inferior")


def judge_pair(analysis: Analysis, rule: PairClaim, blockers: Sequence[str]) -> Claim:
    """Return the claim of one arm against another. Raises KeyError where their comparison is not registered."""
    pair = analysis.comparison(rule.arm, rule.against)
    against = claim_blockers(analysis, pair, blockers, of_the_rule=isinstance(rule, SuperiorityClaim))
    if isinstance(rule, SuperiorityClaim):
        result = superiority(pair, analysis.plan, of_a=True, blockers=against, stopping=analysis.stopping)
        numbers = _difference_numbers(pair)
    elif isinstance(rule, NonInferiorityClaim):
        result = _non_inferior(pair, rule.margin, against)
        numbers = _difference_numbers(pair) | {"margin": rule.margin, "tango_low": pair.low}
    else:
        ratio = pair.families.cost if isinstance(rule, CostClaim) else pair.families.time
        result = _efficient(pair, ratio, against)
        numbers = _ratio_numbers(ratio)
    numbers = {
        "arm": rule.arm,
        "against": rule.against,
        "confidence": pair.confidence,
        "unit": analysis.plan.unit,
        "families": pair.families.families,
        **numbers,
    }
    return Claim(
        name=rule.name,
        kind=rule.kind,
        verdict=Verdict(result.status),
        reasons=result.reasons,
        sentence=sentences.pair_sentence(rule.kind, result.status, numbers, result.reasons),
        numbers=numbers,
    )


def judge_leadership(analysis: Analysis, rule: LeadershipClaim, blockers: Sequence[str]) -> Claim:
    """Return the claim of one arm against every competitor: each arm that it is registered to be compared with.

    What stands against the claim as a whole makes it ineligible under its own name; what stands against one part of
    one competitor, as ``competitor_ineligible``. Both are listed in ``numbers``.
    """
    pairs = [pair for pair in analysis.comparisons if pair.a == rule.arm]
    findings, why = [], {}
    for pair in pairs:
        against = claim_blockers(analysis, pair, (), of_the_rule=False)
        parts = {
            "cost": _efficient(pair, pair.families.cost, against),
            "time": _efficient(pair, pair.families.time, against),
            "non_inferior": _non_inferior(pair, rule.margin, against),
        }
        findings.append({"competitor": pair.b, **{name: part.status for name, part in parts.items()}})
        why[pair.b] = {name: list(part.reasons) for name, part in parts.items()}
    families = min((pair.families.families for pair in pairs), default=0)
    result = stats.gate_leadership(findings, families, blockers=sorted(blockers))
    numbers = {
        "arm": rule.arm,
        "margin": rule.margin,
        "confidence": analysis.plan.pair_confidence,
        "unit": analysis.plan.unit,
        "families": families,
        "competitors": [pair.b for pair in pairs],
        "findings": findings,
        "reasons": why,
        "not_cleared": list(result.not_cleared),
        "flags": list(result.flags),
    }
    return Claim(
        name=rule.name,
        kind=rule.kind,
        verdict=Verdict(result.status),
        reasons=result.reasons,
        sentence=sentences.leadership_sentence(result.status, numbers, result.reasons),
        numbers=numbers,
    )


def claim_blockers(
    analysis: Analysis, pair: Comparison, given: Sequence[str], *, of_the_rule: bool = False
) -> list[str]:
    """Return what the caller and the outcomes say against asking for more than the numbers of a comparison."""
    a, b = analysis.arm(pair.a), analysis.arm(pair.b)
    missing = {"incomplete_coverage"} if "incomplete_coverage" in (*a.state_reasons, *b.state_reasons) else set()
    said = pair_blockers(pair, a, b, analysis.plan, stopping=analysis.stopping, of_the_rule=of_the_rule)
    return sorted({*given, *missing, *said})


def _non_inferior(pair: Comparison, margin: float, blockers: Sequence[str]) -> stats.GateResult:
    found = pair.families
    return stats.gate_claim(
        "non_inferiority",
        found.families,
        percentile_low=found.low,
        t_low=found.t_low,
        tango_low=pair.low,
        margin=margin,
        blockers=blockers,
    )


def _efficient(pair: Comparison, ratio: FamilyRatio, blockers: Sequence[str]) -> stats.GateResult:
    unknown = {"missing_data"} if ratio.reason == "unknown_total" else set()
    return stats.gate_claim(
        "efficiency",
        pair.families.families,
        percentile_high=ratio.high,
        t_high=ratio.t_high,
        undefined_draws=ratio.undefined_draws,
        blockers=sorted({*blockers, *unknown}),
    )


def _difference_numbers(pair: Comparison) -> dict[str, Any]:
    found = pair.families
    return {
        "difference": found.difference,
        "percentile_low": found.low,
        "t_low": found.t_low,
        "t_reason": found.t_reason,
        "sign_flip_p": found.adjusted_p,
        "mcnemar_p": pair.adjusted_p,
        "only_arm": pair.only_a,
        "only_against": pair.only_b,
        "pairs": pair.pairs,
    }


def _ratio_numbers(ratio: FamilyRatio) -> dict[str, Any]:
    return {
        "ratio": ratio.ratio,
        "percentile_high": ratio.high,
        "t_high": ratio.t_high,
        "undefined_draws": ratio.undefined_draws,
    }
