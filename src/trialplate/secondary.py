"""Read evidence again under a corrected plan or grader: labelled secondary, tied to the lock it re-reads, no claim.

The campaign stays as it is, and so do its registered analysis and claims. Source: robotics control protocol ("a
corrected secondary analysis must be labelled as such"); evidence specification, section 6.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from trialplate import fingerprint
from trialplate.admission import fault_table_faults
from trialplate.canonical import canonical_json, document_sha256, sha256_hex
from trialplate.errors import DocumentFault, ProtocolError, UsageError, nearest
from trialplate.lock import suite_identity
from trialplate.record import Outcome
from trialplate.registry import load_suite
from trialplate.spec.protocol import Protocol, cross_faults, read_toml, structure_faults
from trialplate.store.findings import EvidenceProblem
from trialplate.store.fsio import Disk, publish_new
from trialplate.store.layout import DERIVED
from trialplate.store.view import CampaignView, read_campaign
from trialplate.verification import analyse_document, score_view, verify_campaign

SCHEMA = "trialplate.secondary/1"
Grader = Literal["locked", "installed"]
TABLES = ("analysis", "fault_table")
"""What a corrected plan may hold: whatever else is changed is another measurement, under another lock."""

MAX_REASON = 2000


def reanalyse(
    campaign: str | Path, *, reason: str, to: str | Path, plan: str | Path | None = None, grader: Grader = "locked"
) -> dict[str, Any]:
    """Analyse a campaign again, write the secondary analysis to ``to``, which must not exist, and return it.

    ``plan``: a TOML file whose tables ``[analysis]`` and ``[fault_table]`` replace members of the registered ones.
    ``grader``: ``installed`` takes stage chain and fault table from the suite as it is installed now.

    Raises UsageError where nothing is corrected or ``to`` lies inside the campaign, ProtocolError for a plan that is
    none, EvidenceError for a campaign that is damaged.
    """
    view, target = read_campaign(Path(campaign)), Path(to)
    if not reason.strip() or len(reason) > MAX_REASON:
        raise UsageError(f"reason: expected a text of 1 to {MAX_REASON} characters that says what was wrong")
    if view.folder.resolve() in target.resolve().parents:
        raise UsageError(f"{target} lies inside the campaign, where a check would find it: choose another folder")
    for wrong in verify_campaign(view.folder, ignore=DERIVED).findings:
        if wrong.exit_code != 3:
            raise EvidenceProblem(wrong)
    document = secondary_document(view, reason=reason, plan=_read_plan(plan), grader=grader)
    publish_new(Disk(), target, canonical_json(document), mode=0o444)
    return document


def secondary_document(
    view: CampaignView, *, reason: str, plan: Mapping[str, Any], grader: Grader = "locked"
) -> dict[str, Any]:
    """Return a secondary analysis. ``plan``: table -> members that replace the registered ones."""
    lock = view.lock_document
    corrected = _corrected(lock, plan, grader)
    registered, used = _terms(lock, lock["harness"]["sha256"]), _terms(corrected, fingerprint.harness()["sha256"])
    if registered == used:
        raise UsageError("this is the registered analysis: nothing is corrected", code="nothing_corrected")
    first, again = score_view(view), score_view(replace(view, lock_document=corrected))
    return {
        "schema": SCHEMA,
        "secondary": True,
        "reason": reason,
        "created_utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "rereads": {
            "lock_sha256": view.lock_sha256,
            "run_id": view.run_id,
            "journal_head": view.head.document(),
            "attempts": len(view.rows),
        },
        "corrects_sha256": sha256_hex(canonical_json(analyse_document(first, lock).document())),
        "registered": registered,
        "used": used,
        "changed_outcomes": _changed(first, again),
        "analysis": analyse_document(again, corrected).document(),
        "claims": None,
        "claims_reason": "secondary",
    }


def _read_plan(path: str | Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        raw = read_toml(Path(path).read_text(encoding="utf-8"), source=str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"plan {path} cannot be read: {error}") from None
    faults = [
        DocumentFault(name, f"a re-analysis corrects {' and '.join(TABLES)} only{nearest(name, TABLES)}")
        for name, table in raw.items()
        if name not in TABLES or not isinstance(table, dict)
    ]
    if faults:
        raise ProtocolError(str(path), faults)
    return raw


def _corrected(lock: Mapping[str, Any], plan: Mapping[str, Any], grader: Grader) -> dict[str, Any]:
    """Return the lock as it would read under the corrected plan and grader; nothing is locked by it."""
    raw = dict(lock["protocol"])
    for name in TABLES:
        raw[name] = {**raw[name], **plan.get(name, {})}
    plain = {key: value for key, value in raw.items() if key in TABLES}
    _, faults = structure_faults({**_plain(lock["protocol"]), **_plain(plain)})
    faults += cross_faults({**raw, "claims": []}) + fault_table_faults(raw, load_suite(lock["suite"]["name"]))
    if faults:
        raise ProtocolError("the corrected plan", faults)
    protocol = Protocol.model_validate_json(json.dumps(raw))
    suite = dict(lock["suite"])
    if grader == "installed":
        installed = suite_identity(protocol, load_suite(suite["name"]))
        suite |= {name: installed[name] for name in ("chain", "fault_table", "errors_rule")}
    else:
        suite["fault_table"] = {**suite["fault_table"], **plan.get("fault_table", {})}
        suite["errors_rule"] = plan.get("analysis", {}).get("errors") or suite["errors_rule"]
    return {**lock, "protocol": protocol.document(), "suite": json.loads(json.dumps(suite))}


def _plain(document: Any) -> Any:
    """Return a document as a TOML file would hold it: without its nulls."""
    if isinstance(document, Mapping):
        return {key: _plain(value) for key, value in document.items() if value is not None}
    return [_plain(value) for value in document] if isinstance(document, list) else document


def _terms(lock: Mapping[str, Any], harness_sha256: str) -> dict[str, Any]:
    """Return what an analysis depends on beside the evidence."""
    return {
        "analysis": lock["protocol"]["analysis"],
        "errors_rule": lock["suite"]["errors_rule"],
        "fault_table": lock["suite"]["fault_table"],
        "chain_sha256": document_sha256(lock["suite"]["chain"]),
        "harness_sha256": harness_sha256,
    }


def _changed(first: tuple[Outcome, ...], again: tuple[Outcome, ...]) -> list[dict[str, Any]]:
    """Return the trials whose outcome is another one now."""
    return [
        {
            "trial_id": before.trial_id,
            "arm": before.arm,
            "registered": {"status": before.status.value, "reason": before.reason},
            "now": {"status": after.status.value, "reason": after.reason},
        }
        for before, after in zip(first, again, strict=True)
        if (before.status, before.reason) != (after.status, after.reason)
    ]
