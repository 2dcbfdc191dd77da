"""The registered document: what is promised before anything is looked at.

A protocol is a TOML file. ``parse_protocol`` reports every mistake of a file at once, each with its path and
the nearest known name.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from trialplate.errors import DocumentFault, ProtocolError, nearest
from trialplate.spec.channels import Frozen, Name

SCHEMA = "trialplate.protocol/1"
StatusName = Literal["PASS", "FAIL", "ERROR", "EXCLUDED"]
PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False, le=86400)]
Confidence = Annotated[float, Field(gt=0.5, lt=1.0)]


class SuiteChoice(Frozen):
    """Which benchmark, which version of it, and which of its scenarios, how often."""

    name: str
    version: str
    body: str = "own"
    scenarios: Literal["all"] | Annotated[tuple[str, ...], Field(min_length=1)] = "all"
    repeats: Annotated[int, Field(ge=1, le=10_000)] = 1


class ArmChoice(Frozen):
    """One implementation under test, or one of the suite's controls.

    ``policy``: ``control:NAME`` (a control of the suite), ``module:attr`` or ``path/file.py:attr`` relative to
    the protocol. ``weights``: checkpoint files, hashed into the lock and handed to the factory as paths.
    ``options``: keyword arguments of the factory.
    """

    name: Name
    policy: str
    weights: tuple[str, ...] = ()
    options: dict[str, bool | int | float | str] = Field(default_factory=dict)
    profile: str | None = None
    replan_interval: Annotated[int, Field(ge=1, le=10_000)] = 1


class Budgets(Frozen):
    """Limits of one episode. ``max_steps``: control steps; None takes the suite's own."""

    max_steps: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    max_chunk_length: Annotated[int, Field(ge=1, le=65_536)] = 256
    call_timeout_s: PositiveSeconds = 180.0
    first_call_timeout_s: PositiveSeconds = 600.0
    episode_timeout_s: PositiveSeconds = 3600.0


class SchedulePlan(Frozen):
    """Order of the trials, and what becomes of an attempt that a crash interrupted.

    ``interrupted``: ``error`` keeps it as the trial's ERROR; ``replace`` runs the trial once more in a new,
    visible attempt and counts that one.
    """

    order: Literal["shuffled", "manifest"] = "shuffled"
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 240926
    interrupted: Literal["error", "replace"] = "error"
    max_replacements: Annotated[int, Field(ge=1, le=100)] = 3


class AnalysisPlan(Frozen):
    """The registered analysis, and nothing else."""

    confidence: Confidence = 0.95
    denominator: Literal["initiated", "initiated_minus_excluded", "passed_plus_failed"] = "initiated_minus_excluded"
    slices: tuple[Literal["domain", "variant"], ...] = ("domain", "variant")
    comparisons: tuple[tuple[str, str], ...] = ()


class ThresholdClaim(Frozen):
    """ "The arm passes at least ``rate`` of the registered scenarios", gated on an exact one-sided bound."""

    name: Name
    kind: Literal["threshold_rate"]
    arm: str
    rate: Annotated[float, Field(gt=0, lt=1)]
    confidence: Confidence = 0.95


class Protocol(Frozen):
    """The whole promise."""

    schema_: Annotated[Literal["trialplate.protocol/1"], Field(alias="schema")]
    name: Name
    question: Annotated[str, Field(min_length=1, max_length=500)]
    run_class: Literal["confirmatory", "development", "calibration", "pilot"]
    suite: SuiteChoice
    arms: Annotated[tuple[ArmChoice, ...], Field(min_length=1)]
    budgets: Budgets = Budgets()
    schedule: SchedulePlan = SchedulePlan()
    fault_table: dict[str, StatusName] = Field(default_factory=dict)
    analysis: AnalysisPlan = AnalysisPlan()
    claims: tuple[ThresholdClaim, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the plain form that stands in the lock."""
        plain: dict[str, Any] = self.model_dump(mode="json", by_alias=True)
        return plain


_TABLES: dict[str, type[Frozen]] = {
    "": Protocol,
    "suite": SuiteChoice,
    "arms": ArmChoice,
    "budgets": Budgets,
    "schedule": SchedulePlan,
    "analysis": AnalysisPlan,
    "claims": ThresholdClaim,
}


def read_toml(text: str, *, source: str) -> dict[str, Any]:
    """Parse TOML; raises ProtocolError with line and column when it is none."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProtocolError(source, [DocumentFault("", f"not TOML: {error}")]) from None


def structure_faults(raw: Mapping[str, Any]) -> tuple[Protocol | None, list[DocumentFault]]:
    """Validate the shape of a protocol; return it, or None and every mistake."""
    faults: list[DocumentFault] = []
    try:
        text = json.dumps(raw, allow_nan=False)
    except (TypeError, ValueError) as error:
        return None, [DocumentFault("", f"a value has no place in a protocol: {error}")]
    try:
        return Protocol.model_validate_json(text), faults
    except ValidationError as error:
        for item in error.errors(include_url=False):
            fault = _fault_of(item["loc"], item["type"], item["msg"], got=item.get("input"))
            if fault is not None and fault not in faults:
                faults.append(fault)
    return None, faults


def cross_faults(raw: Mapping[str, Any]) -> list[DocumentFault]:
    """Check what one table says about another: repeated arms, claims and comparisons of unknown arms."""
    faults: list[DocumentFault] = []
    arms = [arm.get("name") for arm in _tables(raw, "arms")]
    for index, name in enumerate(arms):
        if name in arms[:index]:
            faults.append(DocumentFault(f"arms[{index}].name", f"arm {name!r} stands twice; names must differ"))
    known = [name for name in arms if isinstance(name, str)]
    claims = [claim.get("name") for claim in _tables(raw, "claims")]
    for index, name in enumerate(claims):
        if name in claims[:index]:
            faults.append(DocumentFault(f"claims[{index}].name", f"claim {name!r} stands twice; names must differ"))
    for index, claim in enumerate(_tables(raw, "claims")):
        arm = claim.get("arm")
        if isinstance(arm, str) and arm not in known:
            faults.append(DocumentFault(f"claims[{index}].arm", f"unknown arm {arm!r}{nearest(arm, known)}"))
    analysis = raw.get("analysis")
    pairs = analysis.get("comparisons", []) if isinstance(analysis, dict) else []
    for index, pair in enumerate(pairs if isinstance(pairs, list) else []):
        if isinstance(pair, list) and len(pair) == 2 and pair[0] == pair[1]:
            faults.append(DocumentFault(f"analysis.comparisons[{index}]", f"arm {pair[0]!r} against itself"))
        for arm in pair if isinstance(pair, list) else []:
            if isinstance(arm, str) and arm not in known:
                place = f"analysis.comparisons[{index}]"
                faults.append(DocumentFault(place, f"unknown arm {arm!r}{nearest(arm, known)}"))
    return faults


def _tables(raw: Mapping[str, Any], key: str) -> Iterable[Mapping[str, Any]]:
    items = raw.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _fault_of(loc: tuple[int | str, ...], kind: str, message: str, *, got: Any) -> DocumentFault | None:
    parts = [
        part for part in loc if not (isinstance(part, str) and (part.startswith(("literal", "tuple", "function"))))
    ]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
    if kind == "extra_forbidden":
        name = str(parts[-1])
        table = str(parts[0]) if len(parts) > 1 else ""
        known = [field.alias or key for key, field in _TABLES.get(table, Protocol).model_fields.items()]
        return DocumentFault(path, f"unknown name {name!r}{nearest(name, known)}")
    if kind == "missing":
        return DocumentFault(path, "missing; it has no default because a wrong one would change the number")
    return DocumentFault(path, f"{message[0].lower()}{message[1:]}, got {_shown(got)}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
