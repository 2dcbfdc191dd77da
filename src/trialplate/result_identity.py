"""What a result is the result of: benchmark, protocol, arm, wire, counts and usage in one document, unknowns as null.

Every null that is not prescribed has a sibling ``<name>_reason``. All of it is read off the lock, the journal and the
recordings, so that anybody can make it again. Source: policy contract, sections 2 and 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trialplate.canonical import document_sha256
from trialplate.coherence import declared_registrations
from trialplate.lock import run_class
from trialplate.record import Outcome, Row, Trace
from trialplate.scoring.analysis import Analysis, ArmAnalysis, plain_document
from trialplate.scoring.conduct import nearest_rank
from trialplate.spec.schemes import scheme_of
from trialplate.store.view import CampaignView

SCHEMA = "trialplate.summary/1"
Timed = Callable[[Row], Sequence[int]]


def summary_document(
    view: CampaignView, outcomes: tuple[Outcome, ...], analysis: Analysis, *, timed: Timed | None = None
) -> dict[str, Any]:
    """Return the document that is stored as ``summary.json``. Raises EvidenceError for a trace that is damaged.

    ``timed``: see :func:`call_times_us`.
    """
    lock = view.lock_document
    calls_us = call_times_us(view, timed=timed)
    return {
        "schema": SCHEMA,
        "benchmark": _benchmark(lock),
        "protocol": _protocol(lock) | {"lock_sha256": view.lock_sha256},
        "simulator": lock["simulator"],
        "environment": {
            "harness": lock["harness"],
            "machine": lock["machine"],
            "packages_sha256": document_sha256(lock["distributions"]),
        },
        "run": _run(view),
        "arms": [
            _arm(view, arm, analysis.arm(arm["name"]), outcomes, calls_us=calls_us[arm["name"]])
            for arm in lock["arms"]
        ],
        "attempts": "rows.jsonl",
    }


def addresses(view: CampaignView) -> dict[str, list[str]]:
    """Return arm -> the addresses that runs of a campaign asked it at, instead of that of the lock."""
    found: dict[str, set[str]] = {}
    for data in _openings(view):
        for name, address in (data.get("addresses") or {}).items():
            found.setdefault(name, set()).add(str(address))
    return {name: sorted(listed) for name, listed in sorted(found.items())}


def call_times_us(view: CampaignView, *, timed: Timed | None = None) -> dict[str, list[int]]:
    """Return arm -> how long each recorded call of every attempt took, in microseconds of wall clock.

    ``timed``: gives the times of attempts whose traces were read before.
    """
    found: dict[str, list[int]] = {arm["name"]: [] for arm in view.lock_document["arms"]}
    for row in view.rows:
        if row.trace is not None:
            found[row.arm] += timed(row) if timed is not None else trace_times_us(view.load_trace(row))
    return found


def trace_times_us(trace: Trace) -> list[int]:
    """Return how long each recorded call of one attempt took."""
    return [int(call["latency_us"] or 0) for call in trace.calls]


def _benchmark(lock: Mapping[str, Any]) -> dict[str, Any]:
    suite, protocol = lock["suite"], lock["protocol"]
    copied = (
        "name", "version", "body", "instruction", "manifest_sha256", "selected_sha256", "scenarios", "max_steps",
        "action_sha256", "profiles_sha256",
    )  # fmt: skip
    return {
        **{key: suite[key] for key in copied},
        "sources_sha256": document_sha256(suite["sources"]),
        "chain_sha256": document_sha256(suite["chain"]),
        "repeats": protocol["suite"]["repeats"],
        "plan": protocol["suite"]["plan"],
        **_known("schedule_verified", suite["schedule_verified"], "not_reported"),
    }


def _protocol(lock: Mapping[str, Any]) -> dict[str, Any]:
    protocol, suite = lock["protocol"], lock["suite"]
    return {
        "name": protocol["name"],
        "run_class": run_class(lock),
        "protocol_sha256": lock["protocol_sha256"],
        "locked_utc": lock["created_utc"],
        "denominator": protocol["analysis"]["denominator"],
        "errors_rule": suite["errors_rule"],
        "fault_table_sha256": document_sha256(suite["fault_table"]),
        "invalid_action_handling": protocol["budgets"]["invalid_action_handling"],
        "budgets_sha256": document_sha256(protocol["budgets"]),
    }


def _run(view: CampaignView) -> dict[str, Any]:
    opened = list(_openings(view))
    return {
        **_known("run_id", opened[0]["run_id"] if opened else None, "not_applicable"),
        "recordings": sorted({str(data["recording"]) for data in opened if "recording" in data}),
        "complete": bool(view.complete),
        **_known("incomplete_because", None if view.complete else view.reason or "not said", "not_applicable"),
    }


def _openings(view: CampaignView) -> list[Mapping[str, Any]]:
    return [record["data"] for record in view.records if record["type"] in ("run.open", "run.resume")]


def _arm(
    view: CampaignView, arm: Mapping[str, Any], analysed: ArmAnalysis, outcomes: tuple[Outcome, ...],
    *, calls_us: list[int],
) -> dict[str, Any]:  # fmt: skip
    contract = arm["contract"]
    return {
        "arm": arm["name"],
        "role": arm["role"],
        "attached": scheme_of(arm["policy"]),
        "policy": arm["policy"],
        "asked_at": addresses(view).get(arm["name"], []),
        "profile": arm["profile"],
        "replan_interval": arm["replan_interval"],
        "declared_by": arm["declares"]["declared_by"],
        "registration": arm["registration"],
        "registration_sha256": arm["registration_sha256"],
        "run_as": sorted(declared_registrations(view).get(arm["name"], ())),
        "unused_channels": contract["unused_channels"],
        "specs": {key: value for key, value in contract.items() if key.endswith("_sha256")},
        "state": analysed.state,
        "state_reasons": list(analysed.state_reasons),
        "counts": plain_document(analysed.counts),
        "rates": [plain_document(rate) for rate in (analysed.rate, *analysed.other_rates)],
        "bounds": plain_document(analysed.bounds),
        "errors": dict(analysed.reasons),
        **_known("progress", None, "not_reported"),
        **_conduct(analysed),
        **_latency(calls_us),
        "blinding": _blinding(arm["name"], outcomes),
    }


def _conduct(analysed: ArmAnalysis) -> dict[str, Any]:
    """Return calls, rows and usage; no suite has a partial score, and no provider tells usage by component."""
    conduct = analysed.conduct
    if conduct is None:
        return {"conduct": None, "conduct_reason": "not_applicable", "usage": None, "usage_reason": "not_applicable"}
    plain = plain_document(conduct)
    usage: dict[str, Any] = {}
    for member, metered in conduct.usage.items():
        usage |= _known(member, metered.value, metered.reason or "not_reported")
    return {
        "conduct": {key: value for key, value in plain.items() if key not in ("usage", "compromised", "warnings")},
        "usage": usage | _known("components", None, "not_reported"),
        "warnings": plain["warnings"],
    }


def _latency(calls_us: list[int]) -> dict[str, Any]:
    quantiles = {f"latency_p{round(100 * q)}_us": nearest_rank(calls_us, q) for q in (0.50, 0.95)}
    found: dict[str, Any] = {}
    for name, value in quantiles.items():
        found |= _known(name, value, "not_applicable")
    return found


def _blinding(arm: str, outcomes: tuple[Outcome, ...]) -> dict[str, Any]:
    """Return what was disclosed; that nothing was disclosed does not say that nothing leaked."""
    leaked = [outcome.trial_id for outcome in outcomes if outcome.arm == arm and outcome.blinding == "compromised"]
    return {"state": "compromised" if leaked else "no_leak_disclosed", "trials": leaked}


def _known(name: str, value: Any, reason: str) -> dict[str, Any]:
    """Return a member, and where its value is unknown the reason beside it."""
    return {name: value} if value is not None else {name: None, f"{name}_reason": reason}
