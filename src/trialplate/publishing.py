"""Promote a sealed bundle, and publish it: absent or whole, and one pointer to the current one.

A promotion record says what a verifier found; whoever reads it verifies again. Killed anywhere, the bundle is absent
or whole and the pointer is the old or the new one. Source: evidence specification, section 11.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trialplate import exam, fingerprint
from trialplate.canonical import MAX_DOCUMENT_BYTES, canonical_json, document_sha256, read_stored
from trialplate.errors import CanonicalError, EvidenceError, StorageFailure, UsageError
from trialplate.lock import run_class, spent_packs
from trialplate.sealing import FreshVerdict, Verifier, verify_fresh
from trialplate.store.bundle import BUNDLE, BundleDocument, parse_bundle
from trialplate.store.chain import Stamp, system_clock
from trialplate.store.container import is_bundle
from trialplate.store.fsio import Disk, Storage
from trialplate.store.layout import LOCK, read_plan
from trialplate.store.placing import STAGING_PREFIX, build, building, files_below, place, refuse_taken
from trialplate.store.pointer import POINTER, Pointer, advance, read_pointer
from trialplate.store.quarantine import quarantine
from trialplate.verification import score_view

SCHEMA = "trialplate.promotion/1"
SUFFIX = ".promotion.json"
PROMOTED, REFUSED = "promoted", "refused"
BESIDE_FINDINGS: Mapping[str, str] = {
    "not_confirmatory": "expected the run class confirmatory; nothing else can carry a claim",
    "holdout_spent": "its scenarios were opened before the lock; hold back others, and lock again",
    "qualification_missing": "expected the raw controls in the bundle; seal with --qualification",
    "verifier_failed": "the verifier ended without saying why",
}
"""Reasons of a refusal that are no finding in a bundle that verifies, and what to do."""

Clock = Callable[[], Stamp]


@dataclass(frozen=True, slots=True)
class Promotion:
    """What came of a promotion: its record, and the exit code (0 promoted; else that of the verifier, or 3).

    ``verdict``: what the verifier said, with the place of everything it found.
    """

    path: Path
    document: dict[str, Any]
    exit_code: int
    verdict: FreshVerdict

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it was refused: codes, in the order of the stages."""
        return tuple(self.document["reasons"])


@dataclass(frozen=True, slots=True)
class Published:
    """A published bundle, and the pointer that names it."""

    path: Path
    pointer: Pointer


def promote(
    bundle: str | Path, *, disk: Storage | None = None, verifier: Verifier = verify_fresh, clock: Clock = system_clock
) -> Promotion:
    """Verify a bundle in a fresh process and write what came of it beside it, as ``<id>.promotion.json``.

    Only a confirmatory bundle with a qualification that verifies with 0 is promoted. A refusal is recorded as well,
    with its reasons. Raises UsageError ``no_bundle`` for a folder that is none.
    """
    folder, disk = Path(bundle).resolve(), disk or Disk()
    document = _document(disk, folder)
    verdict = verifier(folder)
    record = promotion_record(disk, folder, document, verdict=verdict, utc=clock().utc)
    path = record_path(folder)
    disk.replace(path, canonical_json(record))
    blocked = 0 if record["result"] == PROMOTED else 3
    return Promotion(path, record, verdict.exit_code or blocked, verdict)


def record_path(folder: Path) -> Path:
    """Return where the promotion record of a bundle lies: beside it, because nothing may be added to it."""
    return folder.with_name(f"{folder.name}{SUFFIX}")


def promotion_record(
    disk: Storage, folder: Path, document: BundleDocument, *, verdict: FreshVerdict, utc: str
) -> dict[str, Any]:
    """Return the plain form of a promotion record, all of which but ``utc`` everybody can compute again."""
    lock = read_plan(disk.read(folder / LOCK)).document
    reasons = list(verdict.reasons) if verdict.exit_code else []
    if document.run_class != "confirmatory":
        reasons += ["not_confirmatory", *(["holdout_spent"] if spent_packs(lock) else [])]
    if document.qualification_sha256 is None:
        reasons.append("qualification_missing")
    if verdict.exit_code and not reasons:
        reasons.append("verifier_failed")
    return {
        "schema": SCHEMA,
        "bundle_id": document.bundle_id,
        "policy_sha256": document_sha256({arm["name"]: arm["arm_sha256"] for arm in lock["arms"]}),
        "verifier_sha256": fingerprint.harness()["sha256"],
        "result": REFUSED if reasons else PROMOTED,
        "reasons": list(dict.fromkeys(reasons)),
        "utc": utc,
    }


def read_promotion(disk: Storage, folder: Path) -> dict[str, Any] | None:
    """Return the promotion record beside a bundle, None where none can be read."""
    path = record_path(folder)
    if path.name not in disk.entries(path.parent):
        return None
    try:
        record = read_stored(disk.read(path), limit_bytes=MAX_DOCUMENT_BYTES)
    except CanonicalError:
        return None
    return record if isinstance(record, dict) else None


def publish(
    bundle: str | Path,
    into: str | Path,
    *,
    disk: Storage | None = None,
    verifier: Verifier = verify_fresh,
    clock: Clock = system_clock,
) -> Published:
    """Copy a promoted bundle into a folder of published ones, verify the copy, put it in place, move the pointer.

    A publication that was killed can be repeated: what it left unfinished is set aside or finished. Raises UsageError
    ``not_promoted``, ``published_already``, ``target_exists``, ``room_busy``; EvidenceError
    ``promotion_not_reproduced`` when the copy does not verify as its record says, and then sets the copy aside.
    """
    source, room, disk = Path(bundle).resolve(), Path(into).resolve(), disk or Disk()
    if source in (room, *room.parents):
        raise UsageError(f"{room} lies inside the bundle: choose another folder")
    document = _document(disk, source)
    record = read_promotion(disk, source)
    if record is None or record.get("result") != PROMOTED or record.get("bundle_id") != document.bundle_id:
        raise _not_promoted(source, record)
    with building(disk, room, clock=clock):
        target = room / document.bundle_id
        _refuse_published(disk, target)
        if disk.entries(target):
            _refuse_other(disk, target, record, document, verifier(target))
        else:
            _copy(disk, source, target, record=record, document=document, verifier=verifier, clock=clock)
        pointer = _point(disk, room, document.bundle_id)
        disk.replace(record_path(target), canonical_json(record), mode=0o444)
    return Published(target, pointer)


def _not_promoted(source: Path, record: dict[str, Any] | None) -> UsageError:
    reasons = record.get("reasons") if record is not None else None
    listed = ", ".join(map(str, reasons)) if isinstance(reasons, list) else ""
    found = "none" if record is None else f"one that refuses it ({listed})" if listed else "one of another bundle"
    return UsageError(
        f"{source.name} is not promoted: expected a record beside it that says so, found {found}. Run `trialplate"
        " promote`: it says what is missing",
        code="not_promoted",
    )


def _copy(
    disk: Storage,
    source: Path,
    target: Path,
    *,
    record: dict[str, Any],
    document: BundleDocument,
    verifier: Verifier,
    clock: Clock,
) -> None:
    staging = target.with_name(f"{STAGING_PREFIX}{target.name}")
    refuse_taken(disk, target)
    build(disk, staging, contents=files_below(disk, source), expected={})
    try:
        _recompute(disk, staging, record, document, verifier(staging))
    except EvidenceError as error:
        moved = quarantine(staging, reason=error.code, into=target.parent, disk=disk, utc=clock().utc)
        raise EvidenceError(f"{error.message}; the copy lies at {moved}", code=error.code) from None
    place(disk, staging, target=target)


def _recompute(
    disk: Storage, folder: Path, record: dict[str, Any], document: BundleDocument, verdict: FreshVerdict
) -> None:
    """Believe no record: it must be what comes out now."""
    again = promotion_record(disk, folder, document, verdict=verdict, utc=str(record.get("utc")))
    if again != record:
        reasons = ", ".join(again["reasons"]) or "policy or verifier differ from those of the record"
        first = next(iter(verdict.document.get("findings", ())), None) if verdict.exit_code else None
        if first is not None and "path" in first:
            place = f"{first['path']}#{first['pointer']}" if first["pointer"] else first["path"]
            reasons += f" ({place}: expected {first['expected']}, found {first['found']})"
        raise EvidenceError(
            f"the promotion of {document.bundle_id} does not come out again: {reasons}",
            code="promotion_not_reproduced",
        )


def _refuse_other(
    disk: Storage, target: Path, record: dict[str, Any], document: BundleDocument, verdict: FreshVerdict
) -> None:
    """Go on with a bundle that was put in place by a publication that was killed then; refuse anything else."""
    try:
        _recompute(disk, target, record, document, verdict)
    except (EvidenceError, StorageFailure) as error:
        raise UsageError(
            f"{target} is there already, and is not this bundle ({error.message}): nothing is replaced",
            code="target_exists",
        ) from None


def _refuse_published(disk: Storage, target: Path) -> None:
    """The record is put beside a published bundle last: where it stands, nothing is left to do."""
    if record_path(target).name in disk.entries(target.parent):
        raise UsageError(f"{target.name} was published before: a bundle is published once", code="published_already")


def _point(disk: Storage, room: Path, bundle_id: str) -> Pointer:
    old = read_pointer(disk, room)
    if old is not None and old.bundle_id == bundle_id:
        return old
    new = advance(old, old.next(bundle_id) if old is not None else Pointer(1, bundle_id, None))
    disk.replace(room / POINTER, new.stored(), mode=0o444)
    return new


State = Literal["DEVELOPMENT", "LOCKED", "COMPLETE", "ERROR", "VERIFIED", "QUALIFIED", "PROMOTED", "QUARANTINED"]
_UNFINISHED = frozenset({"coverage_incomplete", "qualification_missing"})
"""Findings in a campaign that only say what has not been done yet."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state that evidence is in; for QUARANTINED the codes that put it there."""

    state: State
    reasons: tuple[str, ...] = ()


def standing(path: str | Path) -> Standing:
    """Derive the state of a campaign or a bundle from its evidence, now. Nothing that is stored is believed."""
    folder = Path(path)
    verdict = exam.verify(folder)
    sealed = is_bundle(folder)
    reasons = tuple(dict.fromkeys(item.code for item in verdict.findings if sealed or item.code not in _UNFINISHED))
    view = verdict.view
    if reasons or view is None:
        return Standing("QUARANTINED", reasons)
    if run_class(view.lock_document) != "confirmatory":
        return Standing("DEVELOPMENT")
    if sealed:
        return Standing(_of_bundle(folder, FreshVerdict(verdict.exit_code, verdict.document())))
    if not view.complete:
        return Standing("LOCKED")
    errors = any(outcome.status == "ERROR" for outcome in score_view(view))
    return Standing("ERROR" if errors else "COMPLETE")


def _of_bundle(folder: Path, verdict: FreshVerdict) -> State:
    disk, place = Disk(), folder.resolve()
    document = _document(disk, place)
    if document.qualification_sha256 is None:
        return "VERIFIED"
    record = read_promotion(disk, place)
    if record is None or record.get("result") != PROMOTED:
        return "QUALIFIED"
    again = promotion_record(disk, place, document, verdict=verdict, utc=str(record.get("utc")))
    return "PROMOTED" if again == record else "QUALIFIED"


def _document(disk: Storage, folder: Path) -> BundleDocument:
    if BUNDLE not in disk.entries(folder):
        raise UsageError(f"no bundle at {folder}: it holds no {BUNDLE}. Seal a campaign first", code="no_bundle")
    return parse_bundle(disk.read(folder / BUNDLE))
