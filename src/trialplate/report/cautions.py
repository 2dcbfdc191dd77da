"""What a reader must beware of, the gravest first; what is the same for several arms is said once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trialplate.claims import wording as say
from trialplate.lock import CONFIRMATORY, spent_packs
from trialplate.record import Status
from trialplate.report.data import ReportData
from trialplate.scoring.analysis import ArmAnalysis
from trialplate.store.disclosures import COMPROMISED

ALL_OR_NOTHING = {"null": "none", "exploit": "none", "oracle": "all"}
_ODD = {"constant_dimension": "warn_constant", "looks_normalised": "warn_normalised"}


def warnings(data: ReportData, facts: Mapping[str, Mapping[str, Any]], tested: Sequence[ArmAnalysis]) -> list[str]:
    """Return the warnings of a report. ``facts``: arm -> its section of the lock; ``tested``: arms, not controls."""
    found = []
    registered = data.lock["protocol"]["run_class"]
    if registered != CONFIRMATORY:
        found.append(say.sentence("warn_run_class", run_class=registered))
    for pack in spent_packs(data.lock):
        spent = {"purpose": pack["spent"]["purpose"], "at": f"{pack['spent']['utc'][:16].replace('T', ' ')} UTC"}
        found.append(say.sentence("warn_holdout_spent", author=pack["author"], **spent))
    if data.exploratory:
        found.append(say.sentence("warn_exploratory", arms=", ".join(data.exploratory)))
    if data.unsynchronised:
        max_s = data.lock["protocol"]["clocks"]["max_sync_error_s"]
        found.append(say.sentence("warn_sync", arms=", ".join(data.unsynchronised), max_s=max_s))
    for arm in data.analysis.arms:
        found += _arm(arm, facts[arm.arm]["role"], data)
    profiles = {facts[arm.arm]["profile"] for arm in tested}
    if len(profiles) > 1:
        listing = ", ".join(f"{arm.arm} sees {facts[arm.arm]['profile']}" for arm in tested)
        found.append(say.sentence("warn_profiles", listing=listing))
    for pair in data.analysis.comparisons:
        if pair.reversal:
            found.append(say.sentence("warn_reversal", a=pair.a, b=pair.b))
    return [*found, *_families(tested), *_odd_actions(tested)]


def _arm(arm: ArmAnalysis, role: str, data: ReportData) -> list[str]:
    found = []
    counts = arm.counts
    if "systematic_error" in arm.state_reasons:
        found.append(_halted(arm, data))
    elif arm.state == "ERROR":
        found.append(say.sentence("warn_artifact", arm=arm.arm, reasons=say.explained(arm.state_reasons)))
    if arm.conduct is not None and arm.conduct.compromised:
        leaked = {"compromised": arm.conduct.compromised, "initiated": counts.initiated}
        found.append(say.sentence("warn_compromised", arm=arm.arm, **leaked))
    if counts.errored and arm.rate.rate is not None:
        low, high = say.interval_ends(arm.bounds.error_low, arm.bounds.error_high)
        errors = {"errored": counts.errored, "measured": counts.measured, "low": low, "high": high}
        found.append(say.sentence("warn_errors", arm=arm.arm, **errors))
    if counts.excluded:
        found.append(say.sentence("warn_excluded", arm=arm.arm, excluded=counts.excluded, initiated=counts.initiated))
    numbers = {"role": role, "arm": arm.arm, "k": counts.passed, "n": counts.n}
    if ALL_OR_NOTHING.get(role) == "none" and counts.passed:
        found.append(say.sentence("warn_null", **numbers))
    if ALL_OR_NOTHING.get(role) == "all" and arm.state != "ERROR" and counts.passed < counts.n:
        found.append(say.sentence("warn_oracle", **numbers))
    return found


def _halted(arm: ArmAnalysis, data: ReportData) -> str:
    """Return that an arm was halted, and what its first attempt ended with."""
    mine = sorted((o for o in data.outcomes if o.arm == arm.arm), key=lambda o: (len(o.trial_id), o.trial_id))
    first = next((outcome for outcome in mine if outcome.status is not Status.PASS), None)
    code = first.reason if first is not None else "unknown"
    notes = [note for note in first.notes if not note.startswith(COMPROMISED)] if first is not None else []
    message = notes[-1] if notes else "nothing"
    return say.sentence(
        "warn_halted", arm=arm.arm, code=code, meaning=say.OUTCOME_REASONS.get(code, code), message=message
    )


def _families(tested: Sequence[ArmAnalysis]) -> list[str]:
    """Return how wide the intervals are with families as units, for all arms in one sentence."""
    shared = [arm for arm in tested if arm.families.counts and arm.families.korn_graubard_low is not None]
    found = []
    if shared:
        listing = []
        for arm in shared:
            low, high = say.interval_ends(arm.families.korn_graubard_low, arm.families.korn_graubard_high)
            listing.append(f"{arm.arm} {low} to {high} ({arm.families.families} families)")
        found.append(say.sentence("warn_families", listing=", ".join(listing)))
    for arm in tested:
        if arm.families.counts and arm.families.korn_graubard_low is None and arm.state != "ERROR":
            reasons = say.explained((str(arm.families.reason),))
            found.append(say.sentence("warn_families_undefined", arm=arm.arm, reasons=reasons))
    return found


def _odd_actions(tested: Sequence[ArmAnalysis]) -> list[str]:
    """Return what is odd about the executed actions; arms of which the same is odd are named together."""
    alike: dict[tuple[str, str], list[str]] = {}
    for arm in tested:
        for code in _ODD:
            scalars = [
                f"{warning.scalar} ({_range(warning.low, warning.high)})"
                for warning in (arm.conduct.warnings if arm.conduct is not None else ())
                if warning.code == code
            ]
            if scalars:
                alike.setdefault((code, ", ".join(scalars)), []).append(arm.arm)
    return [
        say.sentence(_ODD[code], arm=", ".join(names), scalars=scalars) for (code, scalars), names in alike.items()
    ]


def _range(low: float, high: float) -> str:
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
