"""Apply registered claim rules to an analysis: supported, not supported, or ineligible with every reason.

Source: statistics specification, section 12. A claim is decided by numbers of the analysis and by blockers that the
caller read off the evidence; nothing here can make an ineligible claim eligible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import TypeAdapter

from trialplate import stats
from trialplate.claims import sentences, wording
from trialplate.claims.claim import Claim, Verdict
from trialplate.claims.pairwise import judge_leadership, judge_pair
from trialplate.claims.relative_rule import judge_relative_rule
from trialplate.errors import StatsInputError, nearest
from trialplate.scoring.analysis import Analysis, ArmAnalysis
from trialplate.scoring.verdicts import ended_early
from trialplate.spec.plan import ClaimRule, LeadershipClaim, RelativeRuleClaim, ThresholdClaim
from trialplate.stats.gates import MIN_FAMILIES

__all__ = ["BLOCKERS", "Claim", "Verdict", "judge_claims"]
BLOCKERS: Mapping[str, str] = wording.BLOCKERS
"""Closed list: code -> what it means. What the evidence itself says against asking the question."""


def judge_claims(analysis: Analysis, rules: Sequence[ClaimRule], blockers: Iterable[str]) -> tuple[Claim, ...]:
    """Return one claim per registered rule, in order.

    ``blockers``: codes of :data:`BLOCKERS`; any of them makes every claim ineligible. Raises StatsInputError for
    an unknown blocker, and KeyError for a rule about an arm or a comparison that the analysis does not know.
    """
    given = sorted(set(blockers))
    for code in given:
        if code not in BLOCKERS:
            raise StatsInputError("blockers", f"unknown blocker {code!r}{nearest(code, BLOCKERS)}")
    adapter: TypeAdapter[ClaimRule] = TypeAdapter(ClaimRule)
    registered = [adapter.validate_python(dict(rule)) if isinstance(rule, Mapping) else rule for rule in rules]
    return tuple(_judge(analysis, rule, given) for rule in registered)


def _judge(analysis: Analysis, rule: ClaimRule, blockers: Sequence[str]) -> Claim:
    if isinstance(rule, ThresholdClaim):
        early = {"not_confirmatory"} if ended_early(analysis.stopping) else set()
        return _judge_threshold(analysis.arm(rule.arm), rule, sorted({*blockers, *early}))
    if isinstance(rule, LeadershipClaim):
        return judge_leadership(analysis, rule, blockers)
    if isinstance(rule, RelativeRuleClaim):
        return judge_relative_rule(analysis, rule, blockers)
    return judge_pair(analysis, rule, blockers)


def _judge_threshold(arm: ArmAnalysis, rule: ThresholdClaim, blockers: Sequence[str]) -> Claim:
    """``threshold_rate``: the one-sided lower bound of the rate reaches the registered rate.

    The bound is Clopper-Pearson where every episode is its own family, else Korn-Graubard over families: the
    schedule decides which, not the results. Errored episodes make the claim ineligible, or count as not passed where
    the rule registered the lower bound.
    """
    clustered = bool(arm.families.counts)
    with_errors = rule.errors == "lower_bound"
    n = max(arm.counts.n, arm.counts.measured) if with_errors else arm.counts.n
    bound = None
    if arm.rate.rate is not None:
        bound = _korn_graubard_lower(arm, rule, with_errors) if clustered else _exact_lower(arm, rule, n)
    reasons = set(blockers) | _ineligibility(arm, bound, clustered=clustered, with_errors=with_errors)
    numbers = {
        "arm": arm.arm,
        "k": arm.counts.passed,
        "n": n,
        "errored": arm.counts.errored,
        "rate": rule.rate,
        "confidence": rule.confidence,
        "lower_bound": bound,
        "method": "korn_graubard" if clustered else "clopper_pearson",
        "families": arm.families.families,
    }
    if reasons:
        verdict = Verdict.INELIGIBLE
    elif bound is not None and bound >= rule.rate:
        verdict = Verdict.SUPPORTED
    else:
        verdict = Verdict.NOT_SUPPORTED
        reasons = {"lower_bound"}
    listed = tuple(sorted(reasons))
    return Claim(
        name=rule.name,
        kind=rule.kind,
        verdict=verdict,
        reasons=listed,
        sentence=sentences.threshold_sentence(verdict.value, numbers, listed),
        numbers=numbers,
    )


def _ineligibility(arm: ArmAnalysis, bound: float | None, *, clustered: bool, with_errors: bool) -> set[str]:
    reasons = set(arm.state_reasons) - {"errored_episodes"}
    if "errored_episodes" in arm.state_reasons or (arm.counts.errored and not with_errors):
        reasons.add("missing_data")
    if clustered and arm.families.families < MIN_FAMILIES:
        reasons.add("few_families")
    if bound is None and not reasons:
        reasons.add("missing_data")  # nothing was measured: everything errored or was excluded
    return reasons


def _exact_lower(arm: ArmAnalysis, rule: ThresholdClaim, n: int) -> float | None:
    return stats.clopper_pearson_interval(arm.counts.passed, n, confidence=rule.confidence, side="lower").low


def _korn_graubard_lower(arm: ArmAnalysis, rule: ThresholdClaim, with_errors: bool) -> float | None:
    """Return the lower end of the two-sided interval at 2c - 1, which is the one-sided bound at c."""
    tables = arm.families.counts
    measured = arm.families.measured if with_errors else {}
    result = stats.clustered_rate(
        [k for k, _ in tables.values()],
        [measured.get(family, n) for family, (_, n) in tables.items()],
        confidence=2.0 * rule.confidence - 1.0,
    )
    return result.korn_graubard_low
