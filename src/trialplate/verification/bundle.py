"""Check a sealed bundle: its outside, its campaign, and the raw controls that it holds.

The names in a bundle are closed: a file that no rule accounts for is ``file_extra`` also where the manifest lists it,
and one that every bundle has is ``file_missing`` also where it does not. Source: evidence specification, section 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trialplate.canonical import MAX_DOCUMENT_BYTES
from trialplate.errors import TrialplateError
from trialplate.registry import load_suite
from trialplate.store.bundle import QUALIFICATION, QUALIFICATION_SUMMARY, VERIFIER, document_findings
from trialplate.store.container import UNLISTED, Container, check_container
from trialplate.store.findings import Collector, Finding, exit_code, finding, ordered
from trialplate.store.folder import Folder
from trialplate.store.layout import DERIVED, ROWS
from trialplate.store.models import MODELS, model_findings
from trialplate.store.signing import Trust
from trialplate.store.view import MAX_JOURNAL_BYTES, CampaignView
from trialplate.verification.campaign import verify_campaign
from trialplate.verification.qualification import exam_runs, qualification_findings
from trialplate.verification.verdict import Verdict

_OUTSIDE = re.compile(f"{VERIFIER.replace('.', '[.]')}|({MODELS}|{QUALIFICATION})/.*|tools/|report[.]html")


VERIFIER_SOURCE = "standalone/verify_bundle.py"
"""Where the verifier that a bundle ships lies in the package; the lock lists its digest."""


def verify_bundle(folder: Path, *, trust: Trust | None = None, workers: int = 1) -> Verdict:
    """Check a sealed bundle. ``trust``: keys that the reader brings; nothing inside vouches for itself.

    ``workers``: see :func:`verify_campaign`.
    """
    container = check_container(folder, trust=trust)
    verdict = verify_campaign(folder, belongs=lies_outside, workers=workers)
    view, said, found = verdict.view, verdict.qualification, Collector()
    found.take([*container.findings, *verdict.findings])
    controls = sorted(path for path in container.digests if path.startswith(f"{QUALIFICATION}/"))
    if view is not None:
        found.take(_closed(folder, container.digests, controls, view.lock_document))
        with found.keeping():
            if not any(item.path == ROWS for item in found.findings):
                found.take(_of_document(folder, container, view))
        with found.keeping():
            found.take(_of_models(folder, container.digests, view.lock_document))
    findings = list(found.listed())
    if view is not None and controls:
        wrong = qualification_findings(folder / QUALIFICATION, view.lock_document, prefix=f"{QUALIFICATION}/")
        findings = [item for item in findings if item.code != "qualification_missing"] + list(wrong)
        said = "does not hold for this harness" if wrong else "holds: recomputed from the raw controls"
    listed = ordered(findings)
    signed = (f"signed by {', '.join(container.signed_by)}",) if container.signed_by else ()
    return replace(verdict, findings=listed, exit_code=exit_code(listed), qualification=said, assurances=signed)


def lies_outside(path: str) -> bool:
    """Return whether a path of a bundle is no part of its campaign. Folders end with ``/``."""
    return path in UNLISTED or _OUTSIDE.fullmatch(path) is not None


def _closed(
    folder: Path, there: Mapping[str, str], controls: Iterable[str], lock_document: Mapping[str, Any]
) -> Iterator[Finding]:
    """Yield files that every bundle has and this one has not, those that have no place in any, and another verifier.

    ``there``: path -> digest of every listed file. A bundle ships the verifier of the package that made the lock.
    """
    models = {f"{MODELS}/{arm['name']}.json" for arm in lock_document["arms"]}
    for path in sorted({*DERIVED, *models, VERIFIER}):
        if not (folder / path).is_symlink() and not (folder / path).exists():
            yield finding("file_missing", path, expected="a file", found="none")
    for path in sorted(there):
        if path.startswith(f"{MODELS}/") and path not in models:
            yield finding("file_extra", path, expected="one document for each arm", found="another")
    said = lock_document["harness_files"].get(VERIFIER_SOURCE)
    if VERIFIER in there and there[VERIFIER] != said:
        yield finding("source_snapshot_mismatch", VERIFIER, expected=said, found=there[VERIFIER])
    try:
        runs = exam_runs(load_suite(lock_document["suite"]["name"]))
    except TrialplateError:
        return  # no such suite here: that is a finding already
    for path in controls:
        if path != QUALIFICATION_SUMMARY and (path.count("/") < 2 or path.split("/")[1] not in runs):
            yield finding("file_extra", path, expected=f"one of {', '.join(runs)}", found="another")


def _of_document(folder: Path, container: Container, view: CampaignView) -> list[Finding]:
    if container.document is None or container.manifest is None or ROWS not in container.digests:
        return []
    with Folder(folder) as opened:
        rows = opened.read(ROWS, limit_bytes=MAX_JOURNAL_BYTES)
    return document_findings(container.document, view, rows=rows, manifest=container.manifest)


def _of_models(folder: Path, there: Iterable[str], lock_document: Mapping[str, Any]) -> list[Finding]:
    named = {f"{MODELS}/{arm['name']}.json" for arm in lock_document["arms"]}
    with Folder(folder) as opened:
        stored = {path: opened.read(path, limit_bytes=MAX_DOCUMENT_BYTES) for path in there if path in named}
    return [item for item in model_findings(stored, lock_document) if item.path in stored]
