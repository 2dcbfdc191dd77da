"""Seal a campaign: copy its evidence, compute what is derived, list it all, verify it in a fresh process, name it.

The campaign is only read. What is built is a folder named by its own content; sealing the same evidence twice gives
the same name. Source: evidence specification, section 7.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trialplate import exam, fingerprint, picture_book
from trialplate.canonical import canonical_json
from trialplate.errors import EvidenceError, UsageError
from trialplate.lock import other_harness
from trialplate.result_identity import summary_document
from trialplate.store.bundle import (
    BUNDLE,
    QUALIFICATION,
    QUALIFICATION_SUMMARY,
    VERIFIER,
    BundleDocument,
    describe,
)
from trialplate.store.container import is_bundle
from trialplate.store.findings import EvidenceProblem, problem
from trialplate.store.fsio import Disk, Storage
from trialplate.store.layout import DERIVED, LOCK, ROWS
from trialplate.store.manifest import MANIFEST, make_manifest
from trialplate.store.models import model_documents
from trialplate.store.placing import (
    STAGING_PREFIX,
    Content,
    build,
    building,
    files_below,
    measure,
    place,
    refuse_taken,
)
from trialplate.store.quarantine import QUARANTINE, quarantine
from trialplate.store.view import CampaignView, read_campaign
from trialplate.verification import analyse_document, claims_bytes, results_bytes, score_view, verify_campaign


@dataclass(frozen=True, slots=True)
class FreshVerdict:
    """What ``trialplate verify`` said about a folder in a process of its own."""

    exit_code: int
    document: Mapping[str, Any]

    @property
    def reasons(self) -> tuple[str, ...]:
        """The codes that were found, each once, in the order of the stages."""
        return tuple(dict.fromkeys(item["code"] for item in self.document.get("findings", ())))


Verifier = Callable[[Path], FreshVerdict]


@dataclass(frozen=True, slots=True)
class Bundle:
    """A sealed campaign: its folder, its id, what to keep elsewhere, and what the verifier said."""

    path: Path
    bundle_id: str
    lock_sha256: str
    root: str
    verdict: FreshVerdict


def verify_fresh(folder: Path) -> FreshVerdict:
    """Verify a folder in a fresh process, which knows nothing of what this one has in memory."""
    command = [sys.executable, "-P", "-m", "trialplate.cli", "verify", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        document = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise UsageError(
            f"the verifier did not finish on {folder} (exit code {done.returncode}): {done.stderr[-400:].strip()}",
            code="verifier_failed",
        ) from None
    return FreshVerdict(done.returncode, document)


def seal(
    campaign: str | Path,
    out: str | Path,
    *,
    qualification: str | Path | None = None,
    workers: int = 1,
    disk: Storage | None = None,
    verifier: Verifier = verify_fresh,
) -> Bundle:
    """Seal a campaign into ``out``/<id>. Blocked evidence (exit code 3) is sealed as well, and says so.

    Raises UsageError ``not_closed`` for a run that has not ended, ``target_exists`` for a bundle that is there;
    EvidenceError with the first finding where campaign or finished bundle do not verify (exit codes 1 and 2).
    """
    source, target, disk = Path(campaign), Path(out), disk or Disk()
    if source.resolve() in (target.resolve(), *target.resolve().parents):
        raise UsageError(f"{target} lies inside the campaign, which is only read: choose another folder")
    view = _closed(source)
    raw = Path(qualification) if qualification is not None else None
    contents = gather(view, qualification=raw, workers=workers, disk=disk)
    manifest = make_manifest(measure(disk, contents))
    rows = disk.read(source / ROWS)
    document = BundleDocument.model_validate_json(json.dumps(describe(view, rows=rows, manifest=manifest)))
    bundle_id = document.bundle_id
    whole = {**contents, MANIFEST: manifest.stored(), BUNDLE: document.stored()}
    with building(disk, target):
        refuse_taken(disk, target / bundle_id)
        staging = target / f"{STAGING_PREFIX}{bundle_id}"
        build(disk, staging, contents=whole, expected=manifest.by_path())
        verdict = verifier(staging)
        if verdict.exit_code not in (0, 3):
            raise _rejected(disk, staging, verdict)
        place(disk, staging, target=target / bundle_id)
    return Bundle(target / bundle_id, bundle_id, view.lock_sha256, document.rows.root, verdict)


def _rejected(disk: Storage, staging: Path, verdict: FreshVerdict) -> EvidenceError:
    """Set a sealed copy aside that does not verify."""
    codes = verdict.reasons or ("verifier_failed",)
    moved = quarantine(staging, reason=codes[0], into=staging.parent, disk=disk)
    return EvidenceError(
        f"the sealed copy does not verify ({', '.join(codes)}): campaign or disk changed. It lies at {moved}",
        code=codes[0],
    )


def _closed(source: Path) -> CampaignView:
    """Return the view of a campaign that can be sealed: ended, undamaged, run by this very package."""
    if is_bundle(source):
        raise UsageError(f"{source} is sealed already", code="sealed_already")
    view = read_campaign(source)
    if view.complete is None:
        raise UsageError(
            f"{source} has not ended ({view.reason}): end it with `trialplate run --resume`, then seal",
            code="not_closed",
        )
    locked, installed = view.lock_document["harness"]["sha256"], fingerprint.harness()["sha256"]
    if locked != installed:
        found = f"{installed}{other_harness(view.lock_document)}"
        raise problem("grader_differs_from_lock", LOCK, pointer="/harness/sha256", expected=locked, found=found)
    for wrong in verify_campaign(source, ignore=DERIVED).findings:
        if wrong.exit_code != 3:
            raise EvidenceProblem(wrong)
    return view


def gather(view: CampaignView, *, qualification: Path | None, workers: int, disk: Storage) -> dict[str, Content]:
    """Return path -> content of every file that the manifest of a bundle lists."""
    contents: dict[str, Content] = {
        path: place
        for path, place in files_below(disk, view.folder).items()
        if path not in DERIVED and not path.startswith(f"{QUARANTINE}/")
    }
    contents |= derive(view, qualification=qualification, workers=workers)
    contents |= model_documents(view.lock_document)
    contents[VERIFIER] = package_files("trialplate.standalone").joinpath("verify_bundle.py").read_bytes()
    if qualification is not None:
        contents |= _controls(view, qualification, disk)
    return contents


def derive(view: CampaignView, *, qualification: Path | None, workers: int) -> dict[str, Content]:
    """Return every derived file of a campaign, computed from its evidence alone."""
    outcomes = score_view(view)
    analysis = analyse_document(outcomes, view.lock_document)
    claims, blockers = exam.judged(view, analysis, qualification=qualification, ignore=DERIVED)
    with TemporaryDirectory() as scratch:
        report = picture_book.write_report(view, claims, to=Path(scratch) / "report.html", workers=workers)
        page = report.read_bytes()
    return {
        "results.jsonl": results_bytes(outcomes),
        "summary.json": canonical_json(summary_document(view, outcomes, analysis)),
        "analysis.json": canonical_json(analysis.document()),
        "claims.json": claims_bytes(claims, blockers),
        "report.html": page,
    }


def _controls(view: CampaignView, folder: Path, disk: Storage) -> dict[str, Content]:
    """Return the raw control campaigns of a qualification, and its summary, computed again from them."""
    result = exam.examine(folder, view.lock_document["suite"]["name"])
    found: dict[str, Content] = {QUALIFICATION_SUMMARY: canonical_json(result.document())}
    for name in result.runs:
        found |= files_below(disk, folder / name, prefix=f"{QUALIFICATION}/{name}/")
    return found
