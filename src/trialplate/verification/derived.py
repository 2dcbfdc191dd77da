"""The files that follow from the evidence: their bytes, computed again and compared with what is stored."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from trialplate.canonical import canonical_json, read_stored
from trialplate.claims.gate import Claim, judge_claims
from trialplate.errors import CanonicalError
from trialplate.record import Outcome
from trialplate.result_identity import summary_document
from trialplate.scoring.analysis import Analysis
from trialplate.spec.protocol import Protocol
from trialplate.store.findings import Finding, finding
from trialplate.store.view import CampaignView
from trialplate.verification.outcomes import analyse_document, claim_blockers, score_view

DERIVED_CODES = {
    "results.jsonl": "grades_not_reproduced",
    "analysis.json": "analysis_not_reproduced",
    "summary.json": "accounting_not_reproduced",
    "claims.json": "claims_not_reproduced",
}


def results_bytes(outcomes: Sequence[Outcome]) -> bytes:
    """Return the stored form of outcomes: one canonical line each, in schedule order."""
    return b"".join(canonical_json(outcome.document()) + b"\n" for outcome in outcomes)


def claims_bytes(claims: Sequence[Claim], blockers: Sequence[str]) -> bytes:
    """Return the stored form of claims, with what was held against them."""
    return canonical_json(
        {
            "schema": "trialplate.claims/1",
            "blockers": list(blockers),
            "claims": [claim.document() for claim in claims],
        }
    )


def derived_findings(view: CampaignView, *, ignore: Collection[str], qualified: bool | None) -> list[Finding]:
    """Compute every derived file again and compare it with the stored one."""
    found: list[Finding] = []
    outcomes = score_view(view)
    analysis = analyse_document(outcomes, view.lock_document)
    derived = {
        "results.jsonl": results_bytes(outcomes),
        "analysis.json": canonical_json(analysis.document()),
        "summary.json": canonical_json(summary_document(view, outcomes, analysis)),
    }
    stored = view.folder / "claims.json"
    if stored.is_file() and "claims.json" not in ignore:
        claimed = _claimed_blockers(stored.read_bytes())
        derived["claims.json"] = _claims(view, analysis, claimed)
        if "not_qualified" not in claimed and qualified is not True:
            code = "qualification_missing" if qualified is None else "qualification_failed"
            found.append(
                finding(
                    code,
                    "claims.json",
                    pointer="/blockers",
                    expected="raw controls that qualify this harness",
                    found="none were shown" if qualified is None else "controls that do not",
                )
            )
    for name, expected in derived.items():
        path = view.folder / name
        if name in ignore or not path.is_file():
            continue
        data = path.read_bytes()
        if data != expected:
            found.append(
                finding(
                    DERIVED_CODES[name],
                    name,
                    pointer=_first_difference(expected, data),
                    expected="what the evidence gives",
                    found="something else",
                )
            )
    return found


def _claimed_blockers(stored: bytes) -> frozenset[str]:
    try:
        return frozenset(read_stored(stored)["blockers"])
    except (CanonicalError, KeyError, TypeError):
        return frozenset({"not_qualified"})  # it is no claims document: the comparison of bytes says so


def _claims(view: CampaignView, analysis: Analysis, claimed: Collection[str]) -> bytes:
    """Recompute claims.json; only whether the harness qualified is taken from the file, and checked by the caller."""
    blockers = set(claim_blockers(analysis, view.lock_document, view=view)) - {"not_qualified"}
    blockers |= set(claimed) & {"not_qualified", "integrity"}
    rules = Protocol.model_validate_json(json.dumps(view.lock_document["protocol"])).claims
    return claims_bytes(judge_claims(analysis, rules, sorted(blockers)), sorted(blockers))


def _first_difference(expected: bytes, found: bytes) -> str:
    pairs = zip(expected, found, strict=False)
    place = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(expected), len(found)))
    return f"byte {place}, line {expected[:place].count(10) + 1}"
