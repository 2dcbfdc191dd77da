"""What a protocol can find with the episodes that it plans, claim by claim, before anything runs.

Definitions: statistics specification, sections 9 and 12. Everything comes from the protocol and its schedule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any

from trialplate import stats
from trialplate.claims import counts_wording as words
from trialplate.claims import wording
from trialplate.claims.answers import Answer, Line, notes, one_sided
from trialplate.claims.pair_foresight import (
    ArmsClaim,
    Outlook,
    PairClaimOutlook,
    pair_claim_lines,
    pair_claim_outlook,
)
from trialplate.claims.planning import DISCORDANCES, SCHEMA
from trialplate.claims.reach import detectable_pairs, pair_chances
from trialplate.interfaces import Scenario
from trialplate.spec.plan import AnalysisPlan, LeadershipClaim, ThresholdClaim
from trialplate.spec.protocol import Protocol
from trialplate.stats.discordant import MAX_TRIALS
from trialplate.stats.gates import FLAG_FAMILIES, MIN_FAMILIES

CONFIRMATORY = "confirmatory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Episodes of each arm, and the episodes of each family: the unit of independence."""

    episodes: int
    families: tuple[int, ...]

    @property
    def clustered(self) -> bool:
        """Whether some family has several episodes."""
        return any(size > 1 for size in self.families)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdOutlook:
    """Whether a registered rate can be supported at all, and by what.

    ``passes``: the fewest passes that support it (independent episodes); ``true_rate``: the rate at which so many
    come with the wanted power. ``highest_bound``: the lower bound if all pass. ``reasons``: why it cannot be.
    """

    name: str
    kind: str
    arm: str
    rate: float
    method: str
    outlook: Outlook
    passes: int | None
    true_rate: float | None
    highest_bound: float | None
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOutlook:
    """What a registered comparison can find: share of pairs that differ -> smallest difference, None beyond reach.

    ``needed``: pairs for the registered effect; ``power``: the chance to find it with those that are planned.
    """

    a: str
    b: str
    pairs: int
    alpha: float
    detectable: tuple[tuple[float, float | None], ...]
    effect: float | None
    needed: int | None
    power: float | None
    underpowered: bool | None


def foresee(protocol: Protocol, scenarios: Sequence[Scenario]) -> Answer:
    """Return what each registered claim and comparison can find with the planned episodes."""
    repeats = protocol.suite.repeats
    sizes = Counter(scenario.family for scenario in scenarios)
    schedule = Schedule(
        episodes=len(scenarios) * repeats, families=tuple(repeats * sizes[family] for family in sorted(sizes))
    )
    plan = protocol.analysis
    pairs = [_pair(a, b, schedule, plan) for a, b in plan.comparisons]
    thresholds = [
        _threshold(rule, schedule, plan.target_power) for rule in protocol.claims if isinstance(rule, ThresholdClaim)
    ]
    on_arms = [
        pair_claim_outlook(
            rule,
            pairs=schedule.episodes,
            families=len(schedule.families),
            plan=plan,
            underpowered=next((p.underpowered for p in pairs if (p.a, p.b) == (rule.arm, _other(rule))), None),
        )
        for rule in protocol.claims
        if not isinstance(rule, ThresholdClaim)
    ]
    claims: list[ThresholdOutlook | PairClaimOutlook] = [*thresholds, *on_arms]
    hopeless = sum(claim.outlook in ("impossible", "ineligible") for claim in claims)
    unlikely = sum(claim.outlook == "unlikely" for claim in claims)
    weak = sum(pair.underpowered is True for pair in pairs)
    return Answer(
        schema=SCHEMA,
        question="protocol",
        sentence=words.sentence(
            "plan_protocol",
            episodes=words.counted(schedule.episodes, "episode"),
            families=_families(len(schedule.families)),
            claims=_said_of_claims(len(claims) - hopeless, len(claims)),
            comparisons=_said_of_pairs(len(pairs) - weak, len(pairs), plan),
        ),
        lines=(*_claim_lines(thresholds, schedule), *pair_claim_lines(on_arms), *_pair_lines(pairs)),
        notes=_notes(protocol, schedule, thresholds, on_arms, pairs),
        numbers={
            "protocol": protocol.name,
            "run_class": protocol.run_class,
            "episodes_each": schedule.episodes,
            "families": len(schedule.families),
            "clustered": schedule.clustered,
            "target_power": plan.target_power,
            "claims": [_listed(claim) for claim in claims],
            "comparisons": [_document(pair) for pair in pairs],
        },
        holds=not (hopeless or unlikely or weak),
    )


def _threshold(rule: ThresholdClaim, schedule: Schedule, power: float) -> ThresholdOutlook:
    n = schedule.episodes
    if schedule.clustered:
        all_pass = stats.clustered_rate(schedule.families, schedule.families, confidence=one_sided(rule.confidence))
        highest, passes, true = all_pass.korn_graubard_low, None, None
    else:
        highest = stats.clopper_pearson_interval(n, n, confidence=rule.confidence, side="lower").low
        found = stats.demonstration_passes(n, rule.rate, confidence=rule.confidence).value
        passes = None if found is None else int(found)
        true = None if passes is None else stats.rate_for_passes(passes, n, power=power).value
    few = schedule.clustered and len(schedule.families) < MIN_FAMILIES
    reached = highest is not None and highest >= rule.rate
    return ThresholdOutlook(
        name=rule.name,
        kind=rule.kind,
        arm=rule.arm,
        rate=rule.rate,
        method=words.METHODS["korn_graubard" if schedule.clustered else "clopper_pearson"],
        outlook="ineligible" if few else "possible" if reached else "impossible",
        passes=passes,
        true_rate=true,
        highest_bound=highest,
        reasons=("few_families",) if few else () if reached else ("lower_bound",),
    )


def _pair(a: str, b: str, schedule: Schedule, plan: AnalysisPlan) -> PairOutlook:
    alpha, power = plan.pair_alpha, plan.target_power
    size = int(schedule.episodes / plan.design_effect)
    shares = DISCORDANCES if plan.registered_discordance is None else (plan.registered_discordance,)
    effect, needed, chance = plan.registered_effect, None, None
    if effect is not None and plan.registered_discordance is not None:
        p10, p01 = pair_chances(plan.registered_discordance, effect)
        least = stats.mcnemar_sample_size(p10, p01, alpha=alpha, power=power, deff=plan.design_effect).value
        needed = None if least is None else int(least)
        chance = stats.mcnemar_power(min(size, MAX_TRIALS), p10, p01=p01, alpha=alpha).value
    return PairOutlook(
        a=a,
        b=b,
        pairs=schedule.episodes,
        alpha=alpha,
        detectable=tuple(
            (psi, detectable_pairs(size, psi, alpha=alpha, power=power).value if size else None) for psi in shares
        ),
        effect=effect,
        needed=needed,
        power=chance,
        underpowered=None if chance is None else chance < power,
    )


def _claim_lines(claims: Sequence[ThresholdOutlook], schedule: Schedule) -> list[Line]:
    rows = []
    for claim in claims:
        rows.append(Line(f"{claim.name}: {wording.percent(claim.rate)}", words.OUTLOOKS[claim.outlook], claim.method))
        if claim.passes is not None:
            label = words.LABELS["passes"].format(n=schedule.episodes)
            rows.append(Line(label, words.at_rate(claim.passes, claim.true_rate), claim.method))
        else:
            rows.append(Line(words.LABELS["zero_failures"], words.at_least(claim.highest_bound), claim.method))
    return rows


def _pair_lines(pairs: Sequence[PairOutlook]) -> list[Line]:
    rows, method = [], words.METHODS["mcnemar_power"]
    for pair in pairs:
        rows.append(
            Line(words.LABELS["against"].format(a=pair.a, b=pair.b), words.counted(pair.pairs, "pair"), method)
        )
        for psi, found in pair.detectable:
            label = words.LABELS["discordant"].format(discordance=wording.percent(psi))
            value = "–" if found is None else words.LABELS["points"].format(points=words.size(found))
            rows.append(Line(label, value, method))
        if pair.effect is not None:
            effect = words.size(pair.effect)
            rows.append(Line(words.LABELS["power"].format(effect=effect), words.chance(pair.power), method))
            rows.append(Line(words.LABELS["needed"].format(effect=effect), words.whole(pair.needed), method))
    return rows


def _notes(
    protocol: Protocol,
    schedule: Schedule,
    thresholds: Sequence[ThresholdOutlook],
    on_arms: Sequence[PairClaimOutlook],
    pairs: Sequence[PairOutlook],
) -> tuple[str, ...]:
    families, plan = len(schedule.families), protocol.analysis
    claims: list[ThresholdOutlook | PairClaimOutlook] = [*thresholds, *on_arms]
    said: list[str] = []
    if protocol.run_class != CONFIRMATORY and claims:
        said += notes("note_not_confirmatory", run_class=protocol.run_class)
    if any(claim.outlook == "ineligible" for claim in claims):
        said += notes("note_min_families", least=MIN_FAMILIES, families=families)
    if any(claim.outlook == "impossible" for claim in claims):
        said += notes("note_impossible")
    if any(claim.outlook == "unlikely" for claim in claims):
        said += notes("note_unlikely", power=wording.percent(plan.target_power))
    if any(claim.with_success is not None for claim in on_arms):
        said += notes("note_with_success")
    said += _flagged_notes({claim.kind for claim in on_arms if claim.flags})
    if any(claim.passes is not None for claim in thresholds):
        said += notes("note_rate_for", power=wording.percent(plan.target_power))
    if schedule.clustered:
        said += notes("note_clustered_schedule")
    if pairs and plan.registered_effect is None:
        said += notes("note_no_effect")
    if pairs:
        said += notes("note_smallest")
    if pairs and plan.design_effect != 1.0:
        said += notes("note_deff_detect", deff=words.digits(plan.design_effect))
    return tuple(said)


def _flagged_notes(kinds: Set[str]) -> list[str]:
    """Return what the flag on few families means, of each kind that carries it."""
    said: list[str] = []
    if "leadership" in kinds:
        said += notes("note_flag_families", least=MIN_FAMILIES, most=FLAG_FAMILIES - 1)
    if "relative_rule" in kinds:
        said += notes("note_relative_rule_families", most=FLAG_FAMILIES - 1)
    return said


def _said_of_claims(possible: int, claims: int) -> str:
    if not claims:
        return ""
    return words.sentence("plan_protocol_claims", possible=possible, claims=words.counted(claims, "claim"))


def _said_of_pairs(found: int, pairs: int, plan: AnalysisPlan) -> str:
    if not pairs:
        return ""
    return words.sentence(
        "plan_protocol_no_effect" if plan.registered_effect is None else "plan_protocol_comparisons",
        found=found,
        comparisons=words.counted(pairs, "comparison"),
        power=wording.percent(plan.target_power),
    )


def _other(rule: ArmsClaim) -> str | None:
    return None if isinstance(rule, LeadershipClaim) else rule.against


def _listed(claim: ThresholdOutlook | PairClaimOutlook) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(claim).items()}


def _families(families: int) -> str:
    return "1 family" if families == 1 else f"{families} families"


def _document(pair: PairOutlook) -> dict[str, Any]:
    found = [{"discordance": psi, "difference": difference} for psi, difference in pair.detectable]
    return asdict(pair) | {"detectable": found}
