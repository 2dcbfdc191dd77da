"""Does a lock have the members that a lock must have, and are the digests that it holds those of what it holds?

Asked before anything in it is believed: whoever edits a lock can chain a journal to what it has become. A part whose
own digest is wrong is told by that, and not looked into. Source: evidence specification, sections 3 and 6.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, TypeAdapter, ValidationError, model_serializer
from pydantic_core import ErrorDetails

from trialplate.canonical import document_sha256
from trialplate.fingerprint import harness_sha256
from trialplate.spec.channels import ActionSpec, Part, PolicySpec
from trialplate.spec.protocol import ArmChoice, Protocol
from trialplate.spec.registration import AdapterIdentity, Registration
from trialplate.spec.stages import StageChain, StageSpec
from trialplate.store.findings import Finding, finding
from trialplate.store.layout import LOCK

_DIGEST = re.compile("[0-9a-f]{64}")
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
MEMBERS = frozenset(
    {
        *("schema", "created_utc", "base", "protocol", "protocol_sha256", "schedule", "holdouts"),
        *("harness", "harness_files", "suite", "distributions", "machine", "simulator", "arms"),
    }
)
REASON = "holdouts_reason"


class _Sources(Part):
    files: Count
    sha256: Digest


class _Harness(_Sources):
    version: str


class _Distribution(Part):
    version: str
    record_sha256: str


class _Column(Part):
    name: str
    dim: Count
    unit: str


class _Stage(Part):
    name: str
    meaning: str


class _Ladder(Part):
    skill: str
    stages: tuple[_Stage, ...]


class _ColumnSet(Part):
    columns: tuple[_Column, ...]
    action_dim: Count
    scenarios: tuple[str, ...]


class _Suite(Part):
    name: str
    version: str
    body: str
    instruction: str
    sources: _Sources
    manifest_sha256: Digest
    selected_sha256: Digest
    scenarios: Count
    action: dict[str, Any]
    action_sha256: Digest
    chain: dict[str, Any] | None
    columns: tuple[_Column, ...]
    profiles_sha256: dict[str, Digest]
    settings: dict[str, Any]
    max_steps: Count
    fault_table: dict[str, str]
    errors_rule: str
    schedule_verified: str | None


class _SkillSuite(_Suite):
    kind: Literal["skill"]
    scorer: str
    settle_rows: Count
    ladders: tuple[_Ladder, ...]
    column_sets: tuple[_ColumnSet, ...]


class _Planner(Part):
    id: str
    version: str
    capabilities: tuple[str, ...]


class _Opening(Part):
    purpose: str
    utc: str


class _Pack(Part):
    pack_sha256: Digest
    author: str
    registered_utc: str
    spent: _Opening | None


class _Holdouts(Part):
    ledger: str
    head_sha256: Digest
    records: Count
    packs: tuple[_Pack, ...]


class _Shard(Part):
    path: str
    sha256: Digest
    size_bytes: Count


class _Source(Part):
    module: str
    attribute: str
    source_sha256: Digest
    module_sha256: Digest
    source_files: Count
    git_revision: str | None
    git_revision_reason: str | None
    dirty: bool | None


class _Contract(Part):
    observation_sha256: Digest
    action_sha256: Digest
    policy_spec_sha256: Digest
    unused_channels: tuple[str, ...]


class _Arm(Part):
    name: str
    policy: str
    choice: ArmChoice
    reference: str
    role: str
    privileged: bool
    profile: str
    options: dict[str, Any]
    weights: tuple[_Shard, ...]
    replan_interval: Count
    source: _Source | None
    declares: PolicySpec
    contract: _Contract
    adapters: tuple[AdapterIdentity, ...]
    registration: Registration
    registration_sha256: Digest
    arm_sha256: Digest
    planner: _Planner | None = None

    @model_serializer(mode="wrap")
    def _as_given(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = write(self)
        return {name: value for name, value in plain.items() if name in self.model_fields_set}


_SKILL_SUITE = TypeAdapter(_SkillSuite)
_SECTIONS: Mapping[str, TypeAdapter[Any]] = {
    "created_utc": TypeAdapter(Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")]),
    "base": TypeAdapter(str),
    "protocol": TypeAdapter(Protocol),
    "protocol_sha256": TypeAdapter(Digest),
    "holdouts": TypeAdapter(_Holdouts | None),
    REASON: TypeAdapter(Literal["no_ledger"]),
    "harness": TypeAdapter(_Harness),
    "harness_files": TypeAdapter(dict[str, Digest]),
    "suite": TypeAdapter(_Suite),
    "distributions": TypeAdapter(dict[str, _Distribution]),
    "machine": TypeAdapter(dict[str, str]),
    "simulator": TypeAdapter(dict[str, Any]),
    "arms": TypeAdapter(Annotated[tuple[_Arm, ...], Field(min_length=1)]),
}


def locked_findings(document: Mapping[str, Any]) -> list[Finding]:
    """Return what is wrong with a lock by itself: members, types, and digests of its own parts.

    ``schema_mismatch``, ``lock_digest_mismatch``; ``grader_differs_from_lock`` for a success chain or an action that
    has the right shape and that the installed scorer cannot read. Of a lock without findings everything can be read.
    The schedule is looked at where the lock is read (:func:`trialplate.store.layout.read_plan`).
    """
    wanted = MEMBERS | ({REASON} if document.get("holdouts") is None else set())
    if wanted != set(document):
        return [_wrong("schema_mismatch", "", f"exactly {', '.join(sorted(wanted))}", ", ".join(sorted(document)))]
    changed = list(_digest_findings(document))
    unread = {item.pointer.split("/")[1].removesuffix("_sha256") for item in changed}
    found = [item for name in sorted(wanted & _SECTIONS.keys() - unread) for item in _section(name, document[name])]
    if not found and "suite" not in unread:
        found += _deep_findings(document["suite"])
    return [*changed, *found]


def _digest_findings(document: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield where protocol, harness and arms are not what the digests beside them say."""
    digest, said = document_sha256(document["protocol"]), document["protocol_sha256"]
    if digest != said and _is_digest(said):
        yield _wrong("lock_digest_mismatch", "/protocol_sha256", digest, said)
    listing, harness = document["harness_files"], document["harness"]
    said = harness.get("sha256") if isinstance(harness, dict) else None
    if isinstance(listing, dict) and _is_digest(said) and harness_sha256(listing) != said:
        yield _wrong("lock_digest_mismatch", "/harness/sha256", harness_sha256(listing), said)
    arms = document["arms"]
    for index, arm in enumerate(arms if isinstance(arms, list) else ()):
        if not isinstance(arm, dict):
            continue
        body = {key: value for key, value in arm.items() if key != "arm_sha256"}
        for name, part in (("arm_sha256", body), ("registration_sha256", arm.get("registration"))):
            if _is_digest(arm.get(name)) and document_sha256(part) != arm[name]:
                yield _wrong("lock_digest_mismatch", f"/arms/{index}/{name}", document_sha256(part), arm[name])


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _section(name: str, value: Any) -> list[Finding]:
    skills = name == "suite" and isinstance(value, dict) and "kind" in value
    adapter: TypeAdapter[Any] = _SKILL_SUITE if skills else _SECTIONS[name]
    try:
        read = adapter.validate_json(json.dumps(value))
    except ValidationError as error:
        return [_invalid(f"/{name}", error)]
    again = read.document() if isinstance(read, Protocol) else adapter.dump_python(read, mode="json")
    return [] if again == value else [_wrong("schema_mismatch", f"/{name}", "every member that belongs there", value)]


def _deep_findings(suite: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what keeps the installed scorer from reading chain and action of a suite."""
    for name, model in (("action", ActionSpec), ("chain", StageChain)):
        if suite[name] is None and name == "chain" and "kind" in suite:
            continue  # a suite of skills has ladders instead
        place = f"/suite/{name}"
        try:
            again = model.model_validate_json(json.dumps(suite[name])).model_dump(mode="json")
        except ValidationError as error:
            shapeless = any(map(_of_shape, error.errors(include_url=False))) or _lacks(name, suite[name])
            yield _invalid(place, error, code="schema_mismatch" if shapeless else "grader_differs_from_lock")
            continue
        if again != suite[name]:
            yield _wrong("schema_mismatch", place, "every member that belongs there", suite[name])


def _lacks(name: str, part: Mapping[str, Any]) -> bool:
    """Return whether a chain lacks members that are written always, also where they say nothing."""
    if name != "chain":
        return False
    stages = StageSpec.model_fields.keys()
    return bool(StageChain.model_fields.keys() - part.keys()) or any(
        stages - stage.keys() for stage in part["stages"]
    )


def _of_shape(error: ErrorDetails) -> bool:
    """Return whether a member is missing, too many, or of another type; else only its value is not allowed."""
    if error["type"] == "literal_error":
        return type(error["input"]) is not (str if error["ctx"]["expected"].startswith("'") else int)
    return error["type"] in ("missing", "extra_forbidden") or error["type"].endswith("_type")


def _invalid(place: str, error: ValidationError, *, code: str = "schema_mismatch") -> Finding:
    first = error.errors(include_url=False)[0]
    return _wrong(code, place + "".join(f"/{part}" for part in first["loc"]), first["msg"], first["input"])


def _wrong(code: str, pointer: str, expected: object, found: object) -> Finding:
    return finding(code, LOCK, pointer=pointer, expected=expected, found=str(found)[:120])
