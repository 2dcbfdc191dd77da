"""The files that follow from the evidence: their bytes, computed again and compared with what is stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from trialplate.canonical import MAX_DOCUMENT_BYTES, MAX_LINE_BYTES, canonical_json, read_stored, sha256_hex
from trialplate.claims.gate import Claim, judge_claims
from trialplate.errors import CanonicalError
from trialplate.record import Outcome
from trialplate.result_identity import summary_document
from trialplate.scoring.analysis import Analysis
from trialplate.spec.protocol import Protocol
from trialplate.store.findings import EvidenceProblem, Finding, finding, malformed, problem
from trialplate.store.folder import Folder
from trialplate.store.view import CampaignView
from trialplate.verification.outcomes import analyse_document, claim_blockers, score_view
from trialplate.verification.recordings import Recordings

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


def derived_findings(
    view: CampaignView, *, ignore: Collection[str], qualified: bool | None, recordings: Recordings
) -> list[Finding]:
    """Compute every derived file that is stored again and compare the two."""
    found: list[Finding] = []
    outcomes = score_view(view, scored=recordings.outcome)
    analysis = analyse_document(outcomes, view.lock_document)
    derived: dict[str, Callable[[], bytes]] = {
        "results.jsonl": lambda: results_bytes(outcomes),
        "analysis.json": lambda: canonical_json(analysis.document()),
        "summary.json": lambda: canonical_json(summary_document(view, outcomes, analysis, timed=recordings.times_us)),
    }
    if (view.folder / "claims.json").is_file() and "claims.json" not in ignore:
        claimed = _claimed_blockers(view.folder)
        derived["claims.json"] = lambda: _claims(view, analysis, claimed)
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
        if name not in ignore and (view.folder / name).is_file():
            found += _compared(view.folder, name, expected())
    return found


def _compared(folder: Path, name: str, expected: bytes) -> list[Finding]:
    """Compare a stored file with what the evidence gives; one that nobody could read at all is told as such."""
    with Folder(folder) as opened:
        try:
            if opened.sha256(name) == sha256_hex(expected):
                return []
            pointer = _first_difference(expected, opened.lines(name, limit_bytes=MAX_DOCUMENT_BYTES))
        except EvidenceProblem as error:
            return [error.finding]
    return unreadable_findings(folder, [name]) or [
        finding(
            DERIVED_CODES[name], name, pointer=pointer, expected="what the evidence gives", found="something else"
        )
    ]


def unreadable_findings(folder: Path, names: Iterable[str]) -> list[Finding]:
    """Return which of these derived files are there and are not canonical JSON; of each the first such place."""
    found = []
    for name in names:
        if not (folder / name).is_file():
            continue
        try:
            with Folder(folder) as opened:
                _read_all(opened, name)
        except EvidenceProblem as error:
            found.append(error.finding)
    return found


def _read_all(opened: Folder, name: str) -> None:
    if not name.endswith(".jsonl"):
        _read(opened.read(name, limit_bytes=MAX_DOCUMENT_BYTES), name, "")
        return
    for number, line in enumerate(opened.lines(name, limit_bytes=MAX_LINE_BYTES)):
        pointer = f"line {number}"
        if not line.endswith(b"\n"):
            raise problem(
                "malformed", name, pointer=pointer, expected="a line with its end", found=f"{len(line)} bytes"
            )
        _read(line[:-1], name, pointer)


def _read(data: bytes, name: str, pointer: str) -> None:
    try:
        read_stored(data)
    except CanonicalError as error:
        raise malformed(name, error, pointer=pointer) from None


def _claimed_blockers(folder: Path) -> frozenset[str]:
    try:
        with Folder(folder) as opened:
            return frozenset(read_stored(opened.read("claims.json", limit_bytes=MAX_DOCUMENT_BYTES))["blockers"])
    except (CanonicalError, EvidenceProblem, KeyError, TypeError):
        return frozenset({"not_qualified"})  # it is no claims document: the comparison of bytes says so


def _claims(view: CampaignView, analysis: Analysis, claimed: Collection[str]) -> bytes:
    """Recompute claims.json; only whether the harness qualified is taken from the file, and checked by the caller."""
    blockers = set(claim_blockers(analysis, view.lock_document, view=view)) - {"not_qualified"}
    blockers |= set(claimed) & {"not_qualified", "integrity"}
    rules = Protocol.model_validate_json(json.dumps(view.lock_document["protocol"])).claims
    return claims_bytes(judge_claims(analysis, rules, sorted(blockers)), sorted(blockers))


def _first_difference(expected: bytes, lines: Iterable[bytes]) -> str:
    """Return where stored lines first differ from what was expected."""
    start = 0
    for number, line in enumerate(lines):
        wanted = expected[start : start + len(line)]
        if wanted != line:
            place = next((n for n, (a, b) in enumerate(zip(wanted, line, strict=False)) if a != b), len(wanted))
            return f"byte {start + place}, line {number + 1}"
        start += len(line)
    return f"byte {start}, its end"
