"""The top of the page: the question, the verdict, each arm's number, the controls apart, and what to beware of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trialplate.claims import Claim, Verdict
from trialplate.claims import wording as say
from trialplate.lock import run_class
from trialplate.report.answers import answers
from trialplate.report.cautions import ALL_OR_NOTHING, warnings
from trialplate.report.data import ReportData
from trialplate.report.early import early_end, sequence_sentence
from trialplate.report.intervals import rate_sentence, shown_rate
from trialplate.scoring.analysis import ArmAnalysis


def arm_facts(data: ReportData) -> dict[str, Mapping[str, Any]]:
    """Return arm name -> its section of the lock."""
    return {arm["name"]: arm for arm in data.lock["arms"]}


def is_control(facts: Mapping[str, Any]) -> bool:
    """Whether an arm of the lock is a control of the suite."""
    return bool(facts["role"] != "arm")


def headline(data: ReportData) -> dict[str, Any]:
    """Return what the head of the page shows."""
    facts = arm_facts(data)
    protocol = data.lock["protocol"]
    tested = [arm for arm in data.analysis.arms if not is_control(facts[arm.arm])]
    controls = [arm for arm in data.analysis.arms if is_control(facts[arm.arm])]
    early = early_end(data.analysis)
    stopped = early is not None and early.stopped
    return {
        "question": protocol["question"],
        "campaign": protocol["name"],
        "verdict": _verdict(data.claims),
        "claims": [(c.name, c.verdict.value) for c in data.claims] if len(data.claims) > 1 else [],
        "answers": answers(data),
        "early": early,
        "arms": [_card(arm, facts[arm.arm], data.analysis.confidence, early=stopped) for arm in tested],
        "controls": [_control(arm, facts[arm.arm]) for arm in controls],
        "warnings": warnings(data, facts, tested),
        "meta": _meta(data),
    }


def _meta(data: ReportData) -> list[tuple[str, str]]:
    protocol, suite = data.lock["protocol"], data.lock["suite"]
    repeats = protocol["suite"]["repeats"]
    scenarios = str(suite["scenarios"]) + (f" × {repeats} repeats" if repeats > 1 else "")
    plan = protocol["suite"]["plan"]
    return [
        ("Suite", f"{data.suite.name} {data.suite.version}"),
        *([("Plan", plan)] if plan != "custom" else []),
        ("Scenarios per arm", scenarios),
        ("Run class", run_class(data.lock)),
        ("Locked", f"{data.lock['created_utc'][:16].replace('T', ' ')} UTC"),
        ("Lock digest", data.lock_sha256[:16]),
    ]


def _verdict(claims: Sequence[Claim]) -> dict[str, str]:
    if not claims:
        return {"kind": "none", "text": say.sentence("no_claims")}
    counts = {verdict.value: sum(claim.verdict is verdict for claim in claims) for verdict in Verdict}
    found = {claim.verdict for claim in claims}
    kind = found.pop().value if len(found) == 1 else "mixed"
    if len(claims) == 1:
        return {"kind": kind, "text": claims[0].sentence}
    return {"kind": kind, "text": say.sentence("claims_counted", total=len(claims), **counts)}


def _card(arm: ArmAnalysis, facts: Mapping[str, Any], confidence: float, *, early: bool) -> dict[str, Any]:
    rate, shown = arm.rate, shown_rate(arm)
    card = {
        "name": arm.arm,
        "state": say.sentence("exploratory_arm") if arm.state == "EXPLORATORY" else None,
        "k": rate.k,
        "n": rate.n,
        "profile": facts["profile"],
        "rate": rate.rate,
        "low": shown.low,
        "high": shown.high,
    }
    if rate.rate is None:
        reasons = say.explained(arm.state_reasons or (str(rate.reason),))
        note = say.sentence("no_rate", reasons=reasons)
        return card | {"text": None, "note": note, "others": [], "counts": counts_line(arm)}
    sequence = sequence_sentence(arm, confidence) if early else None
    return card | {
        "text": say.percent(rate.rate),
        "note": rate_sentence(shown, confidence=confidence),
        "others": ([sequence] if sequence is not None else []) + other_rates(arm),
        "counts": counts_line(arm),
    }


def other_rates(arm: ArmAnalysis) -> list[str]:
    """Return the rates over other denominators and the bounds by errors, where they say something of their own."""
    lines = [
        say.sentence("over", rate=say.percent(rate.rate), denominator=rate.denominator, k=rate.k, n=rate.n)
        for rate in arm.other_rates
        if rate.rate is not None and rate.n != arm.rate.n
    ]
    if arm.counts.errored and arm.bounds.error_low is not None:
        low, high = say.interval_ends(arm.bounds.error_low, arm.bounds.error_high)
        lines.append(say.sentence("bounds", low=low, high=high, errored=arm.counts.errored))
    return lines


def counts_line(arm: ArmAnalysis) -> str:
    """Return every count of an arm in one line; zeros of the rare ones are left out."""
    counts = arm.counts
    parts = [f"{counts.planned} planned", f"{counts.initiated} initiated"]
    for name, count in (
        ("errored", counts.errored),
        ("excluded", counts.excluded),
        ("control rejected", arm.control_rejected),
    ):
        if count:
            parts.append(f"{count} {name}")
    return " · ".join(parts)


def _control(arm: ArmAnalysis, facts: Mapping[str, Any]) -> dict[str, Any]:
    role = facts["role"]
    wanted = {"none": 0, "all": arm.rate.n}.get(ALL_OR_NOTHING.get(role, ""))
    met = None if wanted is None or arm.state == "ERROR" else arm.counts.passed == wanted
    return {
        "name": arm.arm,
        "role": role,
        "k": arm.rate.k,
        "n": arm.rate.n,
        "expectation": say.CONTROL_EXPECTATIONS.get(role, "reported only"),
        "met": met,
        "state": arm.state,
        "privileged": facts["privileged"],
    }
