"""Who was tested, and over which wire: identity of each arm item by item, its adapters, its calls and what they took.

Source: policy contract, section 8.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trialplate.claims import wording as say
from trialplate.record import USAGE_MEMBERS
from trialplate.report.data import Latency, ReportData
from trialplate.report.headline import arm_facts, is_control
from trialplate.scoring.analysis import ArmAnalysis, ArmConduct, Metered
from trialplate.spec.schemes import scheme_of
from trialplate.store.disclosures import COMPROMISED

_ITEMS = {
    "model": "Model",
    "checkpoint": "Checkpoint",
    "normalization": "Normalisation",
    "policy_source": "Policy source",
    "preprocess_sha256": "Preprocessing",
    "server_metadata_sha256": "Server metadata",
}
_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SPECS = {
    "observation_sha256": "Observation spec",
    "action_sha256": "Action spec",
    "policy_spec_sha256": "Policy spec",
}


def wire(data: ReportData) -> dict[str, Any]:
    """Return what the section on identity and wire shows; arms under test come first, controls after them."""
    facts = arm_facts(data)
    arms = sorted(data.analysis.arms, key=lambda arm: is_control(facts[arm.arm]))  # stable: protocol order inside
    conducts = [(arm, arm.conduct) for arm in arms if arm.conduct is not None]
    return {
        "arms": [_arm(facts[arm.arm], data) for arm in arms],
        "calls": [_calls(arm, conduct, control=is_control(facts[arm.arm])) for arm, conduct in conducts],
        "took": [
            _took(arm, conduct, data.latency.get(arm.arm), control=is_control(facts[arm.arm]))
            for arm, conduct in conducts
        ],
        "leaks": _leaks(data),
        "changes": [
            say.sentence("change", first_attempt=change.first_attempt, change=change.change, at=change.at)
            for change in data.changes
        ],
    }


def _arm(facts: Mapping[str, Any], data: ReportData) -> dict[str, Any]:
    """Return one arm. Each identity item is (name, text, ``verified``, ``told`` or ``unknown``)."""
    registration, contract, declared = facts["registration"], facts["contract"], facts["declares"]
    scheme = scheme_of(facts["policy"])
    others, asked = data.exploratory.get(facts["name"], ()), data.addresses.get(facts["name"], ())
    return {
        "name": facts["name"],
        "control": is_control(facts),
        "attached": say.ATTACHED[scheme],
        "policy": facts["policy"],
        "kind": registration["kind"].replace("_", " "),
        "declared_by": declared["declared_by"],
        "exploratory": say.sentence("exploratory", digests=", ".join(others)) if others else None,
        "asked_at": say.sentence("asked_at", addresses=", ".join(asked)) if asked else None,
        "items": [_item(title, key, registration) for key, title in _ITEMS.items() if _applies(key, registration)]
        + _roles(registration),
        "adapters": [_adapter(number, adapter) for number, adapter in enumerate(facts["adapters"], 1)],
        "adapters_note": say.sentence("adapters_note" if facts["adapters"] else "no_adapters"),
        "channels": _channels(declared["expects"]),
        "unused": ", ".join(contract["unused_channels"]) or "none",
        "chunk": _chunk(declared["chunk_length"], facts["replan_interval"]),
        "specs": [(title, contract[key]) for key, title in _SPECS.items()]
        + [("Registration", facts["registration_sha256"])],
    }


def _applies(key: str, registration: Mapping[str, Any]) -> bool:
    """Whether an item can be asked of an arm at all; an unknown that could be known is always shown."""
    return registration[key] is not None or registration[f"{key}_reason"] != "not_applicable"


def _leaks(data: ReportData) -> list[str]:
    """Return every disclosed leak: what an actor could read, and on which attempt."""
    return [
        say.sentence("leak", arm=outcome.arm, trial=outcome.trial_id, what=note.removeprefix(f"{COMPROMISED}; "))
        for outcome in data.outcomes
        if outcome.blinding == "compromised"
        for note in outcome.notes
        if note.startswith(COMPROMISED)
    ]


def _item(title: str, key: str, registration: Mapping[str, Any]) -> tuple[str, str, str]:
    value = registration[key]
    if value is None:
        return title, _unknown(registration[f"{key}_reason"]), "unknown"
    if isinstance(value, str):
        return title, _shown(value), "told"
    parts = [
        f"{name.replace('_', ' ')} {_shown(item)}" if name not in ("name", "ref", "module") else _shown(item)
        for name, item in value.items()
        if item is not None and item != {} and name != "verified" and not name.endswith("_reason")
    ]
    return title, " · ".join(parts), "verified" if value["verified"] else "told"


def _roles(registration: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (
            f"Role: {role['role']}",
            f"{role['name']} · memory {role['memory']}",
            "verified" if role["verified"] else "told",
        )
        for role in registration["roles"]
    ]


def _shown(value: Any) -> str:
    """Return a value in short; digests stand whole in the section on identity."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    return f"{text[:16]}…" if _DIGEST.fullmatch(text) else text


def _adapter(number: int, adapter: Mapping[str, Any]) -> dict[str, Any]:
    params = ", ".join(f"{name} = {_shown(value)}" for name, value in sorted(adapter["params"].items()))
    return {
        "number": number,
        "name": adapter["name"],
        "version": adapter["version"],
        "params": params or "none",
        "sha256": adapter["source_sha256"],
    }


def _channels(expects: Mapping[str, Any]) -> str:
    names = [channel["name"] for channel in (*expects["cameras"], *expects["proprio"])]
    named = [*(["instruction"] if expects["instruction"] else []), *names, *expects["meta"]]
    return ", ".join(named) or "nothing"


def _chunk(length: int | None, replan_interval: int) -> str:
    said = "of any length" if length is None else f"of {length}"
    return f"chunks {said}, looks again after {replan_interval}"


def _calls(arm: ArmAnalysis, conduct: ArmConduct, *, control: bool) -> dict[str, Any]:
    return {
        "name": arm.arm,
        "control": control,
        "counts": [
            _count(value)
            for value in (
                conduct.calls, conduct.calls_executed, conduct.calls_rejected, conduct.short_chunks,
                conduct.control_steps, conduct.rows_proposed, conduct.rows_executed, conduct.rows_dropped,
                conduct.rows_discarded,
            )
        ],
        "terminations": ", ".join(f"{count} {name}" for name, count in conduct.terminations.items()),
    }  # fmt: skip


def _took(arm: ArmAnalysis, conduct: ArmConduct, latency: Latency | None, *, control: bool) -> dict[str, Any]:
    blind = say.sentence("blind")
    if conduct.compromised:
        blind = say.sentence("compromised", compromised=conduct.compromised, initiated=arm.counts.initiated)
    return {
        "name": arm.arm,
        "control": control,
        "latency": [
            _milliseconds(latency.p50_us if latency else None),
            _milliseconds(latency.p95_us if latency else None),
        ],
        "usage": [_metered(conduct.usage[member]) for member in USAGE_MEMBERS],
        "echo": "; ".join(say.ECHO[who] for who in conduct.echo) or "nobody",
        "blind": blind,
        "compromised": bool(conduct.compromised),
    }


def _metered(sum_: Metered) -> tuple[str, bool]:
    """Return the text of a sum, and whether it is known."""
    if sum_.value is None:
        return _unknown(str(sum_.reason)), False
    return (_count(sum_.value) if isinstance(sum_.value, int) else f"{sum_.value:,.6g}"), True


def _unknown(reason: str) -> str:
    return say.UNKNOWN.get(reason, reason)


def _count(value: int) -> str:
    return f"{value:,}".replace(",", "\u202f")


def _milliseconds(value_us: int | None) -> str:
    if value_us is None:
        return "–"
    return f"{value_us / 1000:.3g}\u00a0ms" if value_us < 1_000_000 else f"{value_us / 1e6:.3g}\u00a0s"
