"""``bundle.json``: what a sealed campaign is. Its SHA-256 is the bundle's id and the name of its folder.

Every member follows from the other files of the bundle, so sealing the same evidence twice gives the same id, and
nothing in it can be changed without contradicting a file. Source: evidence specification, section 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_serializer

from trialplate.canonical import canonical_json, read_stored, sha256_hex
from trialplate.errors import CanonicalError
from trialplate.lock import run_class
from trialplate.spec.channels import Part
from trialplate.store import merkle
from trialplate.store.findings import EvidenceProblem, Finding, finding, malformed, problem
from trialplate.store.manifest import Manifest
from trialplate.store.view import CampaignView

BUNDLE = "bundle.json"
ATTESTATION = "attestation.dsse.json"
QUALIFICATION = "qualification"
QUALIFICATION_SUMMARY = f"{QUALIFICATION}/qualification.json"
VERIFIER = "tools/verify_bundle.py"
SCHEMA = "trialplate.bundle/1"
SELF_ATTESTED = "self_attested"
MEMBER_CODES: Mapping[str, str] = {
    "manifest_sha256": "manifest_mismatch",
    "lock_sha256": "lock_digest_mismatch",
    "run_class": "lock_digest_mismatch",
    "tool": "source_snapshot_mismatch",
    "verifier_sha256": "source_snapshot_mismatch",
    "run_id": "mixed_runs",
    "journal_head": "mixed_runs",
    "created_utc": "mixed_runs",
    "rows": "rows_root_mismatch",
    "counts": "accounting_not_reproduced",
    "qualification_sha256": "qualification_binding",
    "qualification_sha256_reason": "qualification_binding",
}
"""Member of ``bundle.json`` -> the finding when it is not what the other files give."""

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class JournalHead(Part):
    """How many records the journal has, the digest of the last, and its size in bytes."""

    count: Count
    head_sha256: Digest
    size: Count


class RowsRoot(Part):
    """Number of lines of ``rows.jsonl``, and the Merkle root over them."""

    n: Count
    root: Digest


class ArmCounts(Part):
    """Planned trials and recorded attempts of one arm, and how the attempts ended."""

    planned: Count
    attempts: Count
    terminations: dict[str, Count]


class Counts(Part):
    """Planned trials and recorded attempts, over all arms and by arm."""

    planned: Count
    attempts: Count
    arms: dict[str, ArmCounts]


class Tool(Part):
    """The package that ran, scored and sealed, by content."""

    name: Literal["trialplate"]
    version: str
    sha256: Digest


class BundleDocument(Part):
    """``bundle.json``. ``created_utc``: time of the last record of the journal."""

    schema_: Literal["trialplate.bundle/1"] = Field(alias="schema")
    manifest_sha256: Digest
    lock_sha256: Digest
    run_id: str
    journal_head: JournalHead
    rows: RowsRoot
    counts: Counts
    run_class: Literal["confirmatory", "development", "calibration", "pilot"]
    qualification_sha256: Digest | None
    qualification_sha256_reason: Literal["not_given"] | None = None
    verifier_sha256: Digest
    tool: Tool
    created_utc: str
    assurance: Literal["self_attested"]

    @model_serializer(mode="wrap")
    def _plain(self, inner: Any) -> dict[str, Any]:
        plain: dict[str, Any] = inner(self)
        plain["schema"] = plain.pop("schema_", self.schema_)
        if plain["qualification_sha256_reason"] is None:
            del plain["qualification_sha256_reason"]
        return plain

    def document(self) -> dict[str, Any]:
        """Return the plain form."""
        return self.model_dump(mode="json")

    def stored(self) -> bytes:
        """Return the stored form."""
        return canonical_json(self.document())

    @property
    def bundle_id(self) -> str:
        """SHA-256 of the stored form."""
        return sha256_hex(self.stored())


def parse_bundle(data: bytes) -> BundleDocument:
    """Read a stored ``bundle.json``.

    Raises EvidenceError ``malformed``, ``version_unsupported`` or ``schema_mismatch`` with the place.
    """
    try:
        value = read_stored(data)
    except CanonicalError as error:
        raise malformed(BUNDLE, error) from None
    schema = value.get("schema") if isinstance(value, dict) else None
    if isinstance(schema, str) and schema.startswith("trialplate.bundle/") and schema != SCHEMA:
        raise problem("version_unsupported", BUNDLE, pointer="/schema", expected=SCHEMA, found=schema)
    try:
        document = BundleDocument.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        pointer = "".join(f"/{part}" for part in first["loc"])
        raise _mismatch(pointer, first["msg"], first["input"]) from None
    if (document.qualification_sha256 is None) != (document.qualification_sha256_reason is not None):
        raise _mismatch("/qualification_sha256", "a digest, or null and a reason", value)
    if document.document() != value:
        raise _mismatch("", "no member that says nothing", value)
    return document


def _mismatch(pointer: str, expected: str, found: Any) -> EvidenceProblem:
    return problem("schema_mismatch", BUNDLE, pointer=pointer, expected=expected, found=str(found)[:120])


def describe(view: CampaignView, *, rows: bytes, manifest: Manifest) -> dict[str, Any]:
    """Return the plain form of the ``bundle.json`` of a campaign whose bundle has these rows and this manifest.

    Raises EvidenceError ``mixed_runs`` for a campaign that nothing was recorded in.
    """
    opened = next((record for record in view.records if record["type"] == "run.open"), None)
    if opened is None:
        raise problem("mixed_runs", "journal.jsonl", expected="a record that opens a run", found="none")
    lines = rows.split(b"\n")[:-1]
    listed = manifest.by_path()
    summary = listed.get(QUALIFICATION_SUMMARY)
    harness = view.lock_document["harness"]
    return {
        "schema": SCHEMA,
        "manifest_sha256": sha256_hex(manifest.stored()),
        "lock_sha256": view.lock_sha256,
        "run_id": opened["data"]["run_id"],
        "journal_head": view.head.document(),
        "rows": {"n": len(lines), "root": merkle.root(lines)},
        "counts": counts(view),
        "run_class": run_class(view.lock_document),
        "qualification_sha256": summary.sha256 if summary else None,
        **({} if summary else {"qualification_sha256_reason": "not_given"}),
        "verifier_sha256": listed[VERIFIER].sha256 if VERIFIER in listed else None,
        "tool": {"name": "trialplate", "version": harness["version"], "sha256": harness["sha256"]},
        "created_utc": view.records[-1]["utc"],
        "assurance": SELF_ATTESTED,
    }


def counts(view: CampaignView) -> dict[str, Any]:
    """Return planned trials and attempts by arm, and how the attempts ended."""
    arms: dict[str, dict[str, Any]] = {
        name: {"planned": 0, "attempts": 0, "terminations": {}} for name in sorted({t.arm for t in view.schedule})
    }
    for trial in view.schedule:
        arms[trial.arm]["planned"] += 1
    for row in view.rows:
        arm = arms[row.arm]
        arm["attempts"] += 1
        arm["terminations"][row.termination] = arm["terminations"].get(row.termination, 0) + 1
    return {"planned": len(view.schedule), "attempts": len(view.rows), "arms": arms}


def document_findings(
    document: BundleDocument, view: CampaignView, *, rows: bytes, manifest: Manifest
) -> list[Finding]:
    """Return a finding for each member of ``bundle.json`` that is not what the other files of the bundle give."""
    try:
        expected = describe(view, rows=rows, manifest=manifest)
    except EvidenceProblem as error:
        return [error.finding]
    found = document.document()
    return [
        finding(MEMBER_CODES[name], BUNDLE, pointer=f"/{name}", expected=expected.get(name), found=found.get(name))
        for name in sorted(expected.keys() | found.keys())
        if expected.get(name) != found.get(name)
    ]
