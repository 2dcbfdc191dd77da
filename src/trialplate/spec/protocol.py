"""The registered document: what is promised before anything is looked at.

A protocol is a TOML file. ``parse_protocol`` reports every mistake of a file at once, each with its path and
the nearest known name.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from trialplate.errors import DocumentFault, ProtocolError, nearest
from trialplate.spec.channels import Frozen, Name, PolicySpec
from trialplate.spec.plan import CLAIM_KINDS, AnalysisPlan, ClaimRule, analysis_faults, claim_faults
from trialplate.spec.registration import Registration
from trialplate.spec.schemes import Scheme, scheme_of
from trialplate.spec.stopping import StoppingPlan

SCHEMA = "trialplate.protocol/1"
StatusName = Literal["PASS", "FAIL", "ERROR", "EXCLUDED"]
PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False, le=86400)]


class SuiteChoice(Frozen):
    """Which benchmark, which version of it, and which of its scenarios, how often.

    ``plan``: ``full`` is the suite's own schedule and nothing less, where that schedule is verified; ``fast`` one
    named scenario per variant, once; ``custom`` whatever else is listed. Different plans are never pooled.
    """

    name: str
    version: str
    body: str = "own"
    scenarios: Literal["all"] | Annotated[tuple[str, ...], Field(min_length=1)] = "all"
    repeats: Annotated[int, Field(ge=1, le=10_000)] = 1
    plan: Literal["fast", "full", "custom"] = "custom"


class AsTheSuite(Frozen):
    """An operator's word that a policy takes the named channels as the suite sends them and sends its actions."""

    channels: tuple[Name, ...] = ()
    instruction: bool = False
    chunk_length: Annotated[int, Field(ge=1)] | None = None
    state: Literal["none", "episode_keyed", "instance"] = "instance"
    max_batch_size: Annotated[int, Field(ge=1, le=4096)] = 1


class AdapterChoice(Frozen):
    """One step of the conversion between environment and policy.

    ``name``: a shipped adapter or ``module:attr``. ``target``: ``camera:NAME``, ``proprio:NAME`` or
    ``action:COMPONENT``. ``params``: what the adapter needs, all of it.
    """

    name: str
    target: str
    params: dict[str, bool | int | float | str | tuple[float, ...]] = Field(default_factory=dict)


class ArmChoice(Frozen):
    """One implementation under test, or one of the suite's controls.

    ``policy``: ``control:NAME`` (a control of the suite), ``module:attr`` or ``path/file.py:attr`` relative to
    the protocol, ``ws://``, ``wss://`` or ``openpi+ws://`` and an address, ``served`` (a driver attaches to
    ``trialplate serve``) or ``mailbox`` (a code agent reads and writes files). ``weights``: checkpoint files,
    or folders of them; every file is hashed into the lock, and the factory is handed the paths as they stand here.
    ``options``: keyword arguments of the factory. ``declares``: what an operator says of a policy that cannot say it
    itself, ``as_suite`` the short form of the same; ``identity`` who that policy is. ``adapters``: applied in this
    order. ``mapping``: openpi keys -> ``camera:NAME``, ``proprio:NAME`` (or a list of them, joined) or
    ``instruction``; ``single_vector`` allows that dialect's one-row replies.
    """

    name: Name
    policy: str
    weights: tuple[str, ...] = ()
    options: dict[str, bool | int | float | str] = Field(default_factory=dict)
    profile: str | None = None
    replan_interval: Annotated[int, Field(ge=1, le=10_000)] = 1
    declares: PolicySpec | None = None
    as_suite: AsTheSuite | None = None
    identity: Registration | None = None
    adapters: tuple[AdapterChoice, ...] = ()
    mapping: dict[str, str | tuple[str, ...]] = Field(default_factory=dict)
    single_vector: bool = False

    @property
    def scheme(self) -> Scheme:
        """By which way the policy is attached."""
        return scheme_of(self.policy)


class Budgets(Frozen):
    """Limits of one episode. ``max_steps``: control steps; None takes the suite's own.

    ``max_calls``, ``policy_time_limit_s`` (sum of the time in ``act``): None is unlimited. ``call_timeout_s`` and
    its kin are per call. ``invalid_action_handling``: ``terminal`` ends the attempt at an invalid decision;
    ``feedback`` tells the policy and asks again, each ask counting against ``max_calls``.
    """

    max_steps: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    max_calls: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    max_chunk_length: Annotated[int, Field(ge=1, le=65_536)] = 256
    call_timeout_s: PositiveSeconds = 180.0
    first_call_timeout_s: PositiveSeconds = 600.0
    connect_timeout_s: PositiveSeconds = 30.0
    close_timeout_s: PositiveSeconds = 10.0
    policy_time_limit_s: PositiveSeconds | None = None
    episode_timeout_s: PositiveSeconds = 3600.0
    max_message_bytes: Annotated[int, Field(ge=65_536, le=2**30)] = 2**26
    invalid_action_handling: Literal["terminal", "feedback"] = "terminal"

    @model_validator(mode="after")
    def _feedback_ends(self) -> Budgets:
        if self.invalid_action_handling == "feedback" and self.max_calls is None:
            raise ValueError("max_calls: invalid_action_handling 'feedback' needs a finite number of calls")
        return self


class Clocks(Frozen):
    """How far the clock of a server or client may be from that of the harness.

    ``required``: whether a claim needs it to be known; it is reported in any case.
    """

    max_sync_error_s: PositiveSeconds
    required: bool


class SchedulePlan(Frozen):
    """Order of the trials, and what becomes of an attempt that a crash interrupted.

    ``order``: ``shuffled`` mixes all trials; ``blocks`` mixes the blocks of one scenario and repeat, and the arms
    within each; ``manifest`` mixes nothing.
    ``interrupted``: ``error`` keeps it as the trial's ERROR; ``replace`` runs the trial once more in a new,
    visible attempt and counts that one.
    """

    order: Literal["shuffled", "blocks", "manifest"] = "shuffled"
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 240926
    interrupted: Literal["error", "replace"] = "error"
    max_replacements: Annotated[int, Field(ge=1, le=100)] = 3


class Protocol(Frozen):
    """The whole promise.

    ``holdouts``: the ledger, beside the protocol, in which exactly these scenarios are registered as held out; the
    lock looks them up there and records that it opened them. ``stopping``: None runs every planned trial.
    """

    schema_: Annotated[Literal["trialplate.protocol/1"], Field(alias="schema")]
    name: Name
    question: Annotated[str, Field(min_length=1, max_length=500)]
    run_class: Literal["confirmatory", "development", "calibration", "pilot"]
    suite: SuiteChoice
    holdouts: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    arms: Annotated[tuple[ArmChoice, ...], Field(min_length=1)]
    budgets: Budgets = Budgets()
    clocks: Clocks | None = None
    schedule: SchedulePlan = SchedulePlan()
    stopping: StoppingPlan | None = None
    fault_table: dict[str, StatusName] = Field(default_factory=dict)
    analysis: AnalysisPlan = AnalysisPlan()
    claims: tuple[ClaimRule, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the plain form that stands in the lock."""
        plain: dict[str, Any] = self.model_dump(mode="json", by_alias=True)
        return plain


_MAY_BE_LEFT_OUT = (
    ("expects", "proprio", ("frame", "rotation", "gripper")),
    ("emits", "components", ("delta_base", "frame", "rotation", "gripper")),
)
_TABLES: dict[str, type[Frozen]] = {
    "": Protocol,
    "suite": SuiteChoice,
    "arms": ArmChoice,
    "budgets": Budgets,
    "clocks": Clocks,
    "schedule": SchedulePlan,
    "stopping": StoppingPlan,
    "analysis": AnalysisPlan,
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
    faults += _strangers(raw, "")
    if faults:
        return None, faults
    try:
        return Protocol.model_validate_json(json.dumps(_with_nulls(raw))), faults
    except ValidationError as error:
        for item in error.errors(include_url=False):
            fault = _fault_of(item["loc"], item["type"], item["msg"], got=item.get("input"))
            if fault is not None and fault not in faults:
                faults.append(fault)
    return None, faults


def _with_nulls(raw: Mapping[str, Any]) -> dict[str, Any]:
    """TOML has no null: a convention that ``declares`` leaves out is null, and so undeclared where one applies."""
    arms = raw.get("arms")
    if not isinstance(arms, list):
        return dict(raw)
    return {**raw, "arms": [_declaring(arm) if isinstance(arm, dict) else arm for arm in arms]}


def _declaring(arm: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(arm.get("declares"), dict):
        return arm
    declares = dict(arm["declares"])
    for side, key, nullable in _MAY_BE_LEFT_OUT:
        listed = declares[side].get(key) if isinstance(declares.get(side), dict) else None
        if isinstance(listed, list):
            nulls = dict.fromkeys(nullable)
            items = [{**nulls, **item} if isinstance(item, dict) else item for item in listed]
            declares[side] = {**declares[side], key: items}
    return {**arm, "declares": declares}


def _strangers(value: Any, path: str) -> list[DocumentFault]:
    """Return every value that TOML has and a protocol has not: nan, infinities, dates, times, NUL characters."""
    if isinstance(value, Mapping):
        named = [DocumentFault(path, f"a name holds a NUL character: {key!r}") for key in value if "\0" in key]
        return named + [
            fault for key, item in value.items() for fault in _strangers(item, f"{path}.{key}".lstrip("."))
        ]
    if isinstance(value, list):
        return [fault for n, item in enumerate(value) for fault in _strangers(item, f"{path}[{n}]")]
    if isinstance(value, float) and not math.isfinite(value):
        return [DocumentFault(path, f"expected a finite number, got {value}")]
    if isinstance(value, str) and "\0" in value:
        return [DocumentFault(path, "text with a NUL character has no place in a protocol: take it out")]
    if not isinstance(value, (str, int, float)):
        return [DocumentFault(path, f"a {type(value).__name__} has no place in a protocol, got {value}")]
    return []


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
        for key in ("arm", "against"):
            arm = claim.get(key)
            if isinstance(arm, str) and arm not in known:
                faults.append(DocumentFault(f"claims[{index}].{key}", f"unknown arm {arm!r}{nearest(arm, known)}"))
    analysis = raw.get("analysis")
    pairs = analysis.get("comparisons", []) if isinstance(analysis, dict) else []
    for index, pair in enumerate(pairs if isinstance(pairs, list) else []):
        if isinstance(pair, list) and len(pair) == 2 and pair[0] == pair[1]:
            faults.append(DocumentFault(f"analysis.comparisons[{index}]", f"arm {pair[0]!r} against itself"))
        for arm in pair if isinstance(pair, list) else []:
            if isinstance(arm, str) and arm not in known:
                place = f"analysis.comparisons[{index}]"
                faults.append(DocumentFault(place, f"unknown arm {arm!r}{nearest(arm, known)}"))
    return faults + analysis_faults(raw) + ([] if faults else claim_faults(raw))


def _tables(raw: Mapping[str, Any], key: str) -> Iterable[Mapping[str, Any]]:
    items = raw.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _fault_of(loc: tuple[int | str, ...], kind: str, message: str, *, got: Any) -> DocumentFault | None:
    parts, of_kind = _without_tags(loc)
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
    if kind == "union_tag_invalid":
        told = got.get("kind") if isinstance(got, dict) else got
        near = nearest(told, CLAIM_KINDS) if isinstance(told, str) else f"; expected one of {', '.join(CLAIM_KINDS)}"
        return DocumentFault(f"{path}.kind", f"unknown kind {_shown(told)}{near}")
    if kind == "extra_forbidden":
        name = str(parts[-1])
        table = str(parts[0]) if len(parts) > 1 else ""
        known = [field.alias or key for key, field in (of_kind or _TABLES.get(table, Protocol)).model_fields.items()]
        return DocumentFault(path, f"unknown name {name!r}{nearest(name, known)}")
    if kind == "too_short" and isinstance(got, list) and got:
        return None  # every item of the list is wrong, and each has said so
    if kind in ("missing", "union_tag_not_found"):
        path = path if kind == "missing" else f"{path}.kind"
        return DocumentFault(path, "missing; it has no default because a wrong one would change the number")
    return DocumentFault(path, f"{message[0].lower()}{message[1:]}, got {_shown(got)}")


def _without_tags(loc: tuple[int | str, ...]) -> tuple[list[int | str], type[Frozen] | None]:
    """Return a path without the names that a union has for its members, and the kind of claim that it leads into."""
    parts = [
        part for part in loc if not (isinstance(part, str) and (part.startswith(("literal", "tuple", "function"))))
    ]
    if len(parts) > 2 and parts[0] == "claims" and parts[2] in CLAIM_KINDS:
        return [*parts[:2], *parts[3:]], CLAIM_KINDS[str(parts[2])]
    return parts, None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
