"""Rows as stored: read strictly, and compared with what was planned, started and ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from trialplate.canonical import MAX_LINE_BYTES, canonical_json, read_stored
from trialplate.errors import CanonicalError
from trialplate.record import USAGE_MEMBERS, ExchangeRef, Row, TraceRef
from trialplate.store.findings import EvidenceProblem, Finding, finding, malformed, problem
from trialplate.store.layout import Planned, episode_folder, exchange_path, trace_path
from trialplate.store.progress import Artifact, Ended

SCHEMA = "trialplate.row/1"
_PLAIN: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
    "bool": (bool,),
}


def row_bytes(row: Row) -> bytes:
    """Return the stored form of a row. Raises CanonicalError ``size`` above 1 MiB."""
    data = canonical_json(row.document())
    if len(data) > MAX_LINE_BYTES:
        raise CanonicalError("size", f"a row of {len(data)} bytes, at most {MAX_LINE_BYTES}; use an artifact")
    return data


def parse_row(data: bytes, path: str) -> Row:
    """Read a stored row. Raises EvidenceError ``malformed schema_mismatch version_unsupported``."""
    try:
        document = read_stored(data, limit_bytes=MAX_LINE_BYTES)
    except CanonicalError as error:
        raise malformed(path, error) from None
    if not isinstance(document, dict):
        raise problem("schema_mismatch", path, expected="an object", found=type(document).__name__)
    schema = document.get("schema")
    if schema != SCHEMA:
        known = isinstance(schema, str) and schema.startswith("trialplate.row/")
        code = "version_unsupported" if known else "schema_mismatch"
        raise problem(code, path, pointer="/schema", expected=SCHEMA, found=schema)
    try:
        row = Row.from_document(document)
    except (TypeError, KeyError, AttributeError) as error:
        raise problem("schema_mismatch", path, expected="the members of a row", found=error) from None
    if (wrong := _wrong_type(row, "")) is not None:
        raise _mistyped(path, *wrong)
    if (wrong := _wrong_usage(row.usage)) is not None:
        raise _mistyped(path, *wrong)
    if row.document() != document:  # the same members in the same form: then it has the same bytes
        raise problem("schema_mismatch", path, expected="a row that writes back as it reads", found="another form")
    return row


def _wrong_type(value: Any, pointer: str) -> tuple[str, str, Any] | None:
    """Return (pointer, expected, found) of the first member that is not of its declared plain type."""
    for item in fields(value):
        member = getattr(value, item.name)
        place = f"{pointer}/{item.name}"
        declared = str(item.type)
        allowed = _PLAIN.get(declared)
        if allowed is not None and type(member) not in allowed:
            return place, declared, member
        nested = member if isinstance(member, tuple) else (member,)
        for number, part in enumerate(nested):
            inner = f"{place}/{number}" if isinstance(member, tuple) else place
            if is_dataclass(part) and (wrong := _wrong_type(part, inner)) is not None:
                return wrong
    return None


def _wrong_usage(usage: Any) -> tuple[str, str, Any] | None:
    """Return what :func:`_wrong_type` does of what was metered: nothing, or a number or null for every member."""
    if usage is None:
        return None
    if not isinstance(usage, dict) or set(usage) != set(USAGE_MEMBERS):
        return "/usage", f"null or {', '.join(USAGE_MEMBERS)}", usage
    for name, value in usage.items():
        if value is not None and type(value) not in (int, float):
            return f"/usage/{name}", "a number or null", value
    return None


def _mistyped(path: str, pointer: str, expected: str, found: Any) -> EvidenceProblem:
    return problem("schema_mismatch", path, pointer=pointer, expected=expected, found=repr(found)[:80])


def compare_row(row: Row, planned: Planned, *, attempt: int, path: str) -> list[Finding]:
    """Return where a row is not the row of this planned trial and attempt."""
    expected = {
        "trial_id": planned.trial_id,
        "ordinal": planned.ordinal,
        "arm": planned.arm,
        "scenario": planned.scenario,
        "repeat": planned.repeat,
        "attempt": attempt,
    }
    return [
        finding("row_unplanned", path, pointer=f"/{name}", expected=value, found=getattr(row, name))
        for name, value in expected.items()
        if getattr(row, name) != value
    ]


def compare_end(row: Row, end: Ended, *, path: str) -> list[Finding]:
    """Return where a row contradicts its ``attempt.end``: termination, and the references to its files."""
    found = []
    if row.termination != end.termination:
        found.append(_contradiction(path, "/termination", end.termination, row.termination))
    folder = episode_folder(row.trial_id, row.attempt)
    listed = {f"{folder}/{artifact.name}": artifact for artifact in end.artifacts}
    named = {
        "trace": (row.trace, trace_path(row.trial_id, row.attempt)),
        "exchange": (row.exchange, exchange_path(row.trial_id, row.attempt)),
    }
    for name, (reference, place) in named.items():
        found += _compare_artifact(name, reference, place, listed=listed, path=path)
    return found


def _compare_artifact(
    name: str, reference: TraceRef | ExchangeRef | None, place: str, *, listed: Mapping[str, Artifact], path: str
) -> list[Finding]:
    """Return where a row's reference to a file is not what the journal says of it."""
    if reference is None:
        return [_contradiction(path, f"/{name}", place, None)] if place in listed else []
    artifact = listed.get(reference.path)
    if artifact is None or reference.path != place:
        return [_contradiction(path, f"/{name}/path", f"{place}, one of {sorted(listed)}", reference.path)]
    found = []
    if artifact.sha256 != reference.file_sha256:
        found.append(_contradiction(path, f"/{name}/file_sha256", artifact.sha256, reference.file_sha256))
    if artifact.size != reference.size_bytes:
        found.append(_contradiction(path, f"/{name}/size_bytes", artifact.size, reference.size_bytes))
    return found


def _contradiction(path: str, pointer: str, expected: object, found: object) -> Finding:
    return finding("rows_digest_mismatch", path, pointer=pointer, expected=expected, found=found)
