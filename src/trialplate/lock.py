"""The lock: the protocol and every digest that can change a number, written once, before the first attempt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trialplate import fingerprint
from trialplate.admission import select_scenarios
from trialplate.canonical import canonical_json, document_sha256, read_stored, sha256_hex
from trialplate.errors import DEFAULT_STATUS, CanonicalError, LockError
from trialplate.interfaces import Control, Scenario, Suite
from trialplate.registry import load_attribute
from trialplate.spec.channels import PolicySpec
from trialplate.spec.protocol import ArmChoice, Protocol
from trialplate.spec.registration import AdapterIdentity, Registration
from trialplate.spec.schemes import CONTROL_PREFIX

SCHEMA = "trialplate.lock/1"
CONFIRMATORY = "confirmatory"
HARNESS_FILES = "harness_files"
"""Member of a lock: path -> digest of every file of the package, so that a refusal can say which one changed."""

IDENTITY_KEYS = ("harness", HARNESS_FILES, "suite", "distributions", "machine", "simulator", "arms")


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock document, its digest, and where it lies. ``base``: the folder of the protocol."""

    document: Mapping[str, Any]
    sha256: str
    path: Path

    @property
    def base(self) -> Path:
        """Folder that policy files and weights are relative to."""
        return Path(self.document["base"])

    @property
    def protocol(self) -> Mapping[str, Any]:
        """The registered protocol, plain."""
        protocol: Mapping[str, Any] = self.document["protocol"]
        return protocol


@dataclass(frozen=True, slots=True)
class Described:
    """What an arm said of itself before the lock, or its operator for it.

    ``registration``: None for a policy in this process, whose identity the harness finds out itself.
    ``unused_channels``: what the profile sends and the arm does not use. ``planner``: who the planner of skills is,
    None for an arm of any other suite.
    """

    declared: PolicySpec
    registration: Registration | None
    adapters: tuple[AdapterIdentity, ...]
    unused_channels: tuple[str, ...]
    planner: Mapping[str, Any] | None = None


def lock_document(
    protocol: Protocol,
    suite: Suite,
    *,
    base: Path,
    schedule: Sequence[Mapping[str, Any]],
    described: Mapping[str, Described],
    holdouts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the document of a new lock; hashes everything it names.

    ``holdouts``: what a holdout ledger said of its scenarios (:mod:`trialplate.held_out`), None without a ledger.
    """
    looked = {"holdouts": None, "holdouts_reason": "no_ledger"} if holdouts is None else {"holdouts": dict(holdouts)}
    return {
        "schema": SCHEMA,
        "created_utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "base": str(base.resolve()),
        "protocol": protocol.document(),
        "protocol_sha256": document_sha256(protocol.document()),
        "schedule": [dict(trial) for trial in schedule],
        **looked,
        **identity(protocol, suite, base=base, described=described),
    }


def spent_packs(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the packs of held-out scenarios that were spent before a lock looked them up."""
    section = document.get("holdouts")
    packs = section["packs"] if isinstance(section, Mapping) else ()
    return [pack for pack in packs if pack["spent"] is not None]


def harness_listing(document: Mapping[str, Any]) -> Mapping[str, str]:
    """Return path -> digest of every file of the package that made a lock; nothing of one that does not say it."""
    listing = document.get(HARNESS_FILES)
    return listing if isinstance(listing, Mapping) else {}


def other_harness(document: Mapping[str, Any], now: Mapping[str, str] | None = None) -> str:
    """Say in brackets which files of the package are not those of a lock. ``now``: a listing, else the installed."""
    files = fingerprint.changed_files(harness_listing(document), fingerprint.harness_files() if now is None else now)
    return f" ({files})" if files else ""


def run_class(document: Mapping[str, Any]) -> str:
    """Return what a run under a lock is: as registered, or ``development`` on scenarios that were spent before."""
    registered: str = document["protocol"]["run_class"]
    return "development" if spent_packs(document) else registered


def identity(protocol: Protocol, suite: Suite, *, base: Path, described: Mapping[str, Described]) -> dict[str, Any]:
    """Return the sections that must be the same at lock and at every run: ``IDENTITY_KEYS``."""
    return {
        "harness": fingerprint.harness(),
        HARNESS_FILES: fingerprint.harness_files(),
        "suite": suite_identity(protocol, suite),
        "distributions": fingerprint.distributions(),
        "machine": fingerprint.machine(),
        "simulator": load_attribute(suite.identity)(),
        "arms": [arm_identity(arm, suite, base=base, described=described[arm.name]) for arm in protocol.arms],
    }


def suite_identity(protocol: Protocol, suite: Suite) -> dict[str, Any]:
    """Return digests of the suite's sources, manifest, specs, chain and settings."""
    selected = select_scenarios(protocol, suite)
    return {
        "name": suite.name,
        "version": suite.version,
        "body": protocol.suite.body,
        "instruction": suite.instruction,
        "sources": fingerprint.sources(suite.sources),
        "manifest_sha256": document_sha256(suite.manifest_document()),
        "selected_sha256": document_sha256([scenario.sha256() for scenario in selected]),
        "scenarios": len(selected),
        "action": suite.action.model_dump(mode="json"),
        "action_sha256": suite.action.sha256(),
        "chain": suite.chain.model_dump(mode="json") if suite.chain is not None else None,
        "columns": [{"name": column.name, "dim": column.dim, "unit": column.unit} for column in suite.columns],
        "profiles_sha256": {name: spec.sha256() for name, spec in sorted(suite.profiles.items())},
        "settings": dict(suite.settings),
        "max_steps": protocol.budgets.max_steps or suite.max_steps,
        "fault_table": {**DEFAULT_STATUS, **suite.fault_table, **protocol.fault_table},
        "errors_rule": protocol.analysis.errors or suite.errors_rule,
        "schedule_verified": suite.schedule_verified,
        **(_skills(suite, selected) if suite.kind == "skill" else {}),
    }


def _skills(suite: Suite, scenarios: Sequence[Scenario]) -> dict[str, Any]:
    """Return what only a suite of skills has: its ladders, and which columns each scenario measures."""
    sets: dict[str, dict[str, Any]] = {}
    for scenario in scenarios:
        columns = [{"name": c.name, "dim": c.dim, "unit": c.unit} for c in suite.columns_of(scenario)]
        found = {"columns": columns, "action_dim": suite.action_of(scenario).dim}
        sets.setdefault(document_sha256(found), {**found, "scenarios": []})["scenarios"].append(scenario.id)
    return {
        "kind": suite.kind,
        "scorer": suite.scorer,
        "settle_rows": suite.settle_rows,
        "ladders": [
            {"skill": skill, "stages": [{"name": name, "meaning": what} for name, what in stages.items()]}
            for skill, stages in suite.ladders.items()
        ],
        "column_sets": list(sets.values()),
    }


def arm_place(arm: ArmChoice, suite: Suite) -> tuple[str, str, Control | None]:
    """Return the reference to load, the observation profile, and the suite's control that this arm is, if any."""
    if arm.scheme != "control":
        return arm.policy, arm.profile or suite.default_profile, None
    control = suite.controls[arm.policy.removeprefix(CONTROL_PREFIX)]
    return control.policy, arm.profile or control.profile or suite.default_profile, control


def locked_description(arm: Mapping[str, Any]) -> Described:
    """Return what an arm of a lock said of itself when it was locked."""
    registration = Registration.model_validate_json(json.dumps(arm["registration"]))
    return Described(
        PolicySpec.model_validate_json(json.dumps(arm["declares"])),
        registration if arm["source"] is None else None,
        registration.adapters,
        tuple(arm["contract"]["unused_channels"]),
        arm.get("planner"),
    )


def arm_identity(arm: ArmChoice, suite: Suite, *, base: Path, described: Described) -> dict[str, Any]:
    """Return who an arm is, what it declares and how it is attached.

    ``role``: ``arm`` for an implementation under test (a shipped baseline is one), else what the suite calls its
    control: ``null``, ``random``, ``exploit`` or ``oracle``. ``source`` is None for a policy that runs elsewhere.
    ``registration_sha256`` is what each observation carries; ``arm_sha256`` covers the whole entry.
    """
    reference, profile, control = arm_place(arm, suite)
    here = arm.scheme in ("control", "python")
    source = fingerprint.policy_source(reference, base=base) if here else None
    weights = fingerprint.checkpoint(arm.weights, base=base)
    registration = _registration(described, source=source, options=arm.options, weights=weights, control=control)
    body = {
        "name": arm.name,
        "policy": arm.policy,
        "choice": arm.model_dump(mode="json"),
        "reference": reference,
        "role": control.role if control and control.role != "baseline" else "arm",
        "privileged": control.privileged if control else False,
        "profile": profile,
        "options": dict(arm.options),
        "weights": weights,
        "replan_interval": arm.replan_interval,
        "source": source,
        "declares": described.declared.model_dump(mode="json"),
        "contract": {
            "observation_sha256": suite.profiles[profile].sha256(),
            "action_sha256": suite.action.sha256(),
            "policy_spec_sha256": described.declared.sha256(),
            "unused_channels": list(described.unused_channels),
        },
        "adapters": [adapter.model_dump(mode="json") for adapter in described.adapters],
        "registration": registration.model_dump(mode="json"),
        "registration_sha256": registration.sha256(),
        **({"planner": dict(described.planner)} if described.planner is not None else {}),
    }
    return {**body, "arm_sha256": document_sha256(body)}


def _registration(
    described: Described, *, source: Mapping[str, Any] | None, options: Mapping[str, Any],
    weights: Sequence[Mapping[str, Any]], control: Control | None,
) -> Registration:  # fmt: skip
    """Return the identity of an arm: found out here, or as it was told, with the adapters that stand before it."""
    if described.registration is not None:
        return described.registration.model_copy(update={"adapters": described.adapters})
    assert source is not None
    found: dict[str, Any] = {
        "kind": "diagnostic" if control is not None else "fixed_program" if not weights else "model",
        "policy_source": {
            "module": f"{source['module']}:{source['attribute']}",
            "options": dict(options),
            "sha256": source["source_sha256"],
            "git_revision": source["git_revision"],
            "dirty": source["dirty"],
            "verified": True,
        },
        "adapters": [adapter.model_dump(mode="json") for adapter in described.adapters],
    }
    if weights:
        found["checkpoint"] = {
            "ref": ", ".join(shard["path"] for shard in weights)[:512],
            "sha256": document_sha256([dict(shard) for shard in weights]),
            "verified": True,
        }
    return Registration.model_validate_json(json.dumps(found))


def locked_inputs(document: Mapping[str, Any]) -> dict[str, str]:
    """Return arm -> digest of its code and weights as locked (:mod:`trialplate.inputs` looks at what is there)."""
    return {arm["name"]: _locked_input(arm) for arm in document["arms"]}


def _locked_input(arm: Mapping[str, Any]) -> str:
    if arm["source"] is None:
        return document_sha256({"registration": arm["registration_sha256"]})
    return document_sha256({"source": arm["source"]["source_sha256"], "weights": arm["weights"]})


def read_lock(path: Path) -> Lock:
    """Read a stored lock. Raises LockError when there is none or it is not canonical."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LockError(f"no lock at {path}: {error.strerror}; make one with `trialplate lock`") from None
    try:
        document = read_stored(data)
    except CanonicalError as error:
        raise LockError(f"{path} is not a lock: {error.message}", code="lock_malformed") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise LockError(f"{path} is not a lock of this version: expected schema {SCHEMA!r}", code="schema_mismatch")
    return Lock(document=document, sha256=sha256_hex(data), path=path)


def lock_bytes(document: Mapping[str, Any]) -> bytes:
    """Return the stored form of a lock."""
    return canonical_json(dict(document))


def differences(locked: Mapping[str, Any], now: Mapping[str, Any], *, place: str = "") -> list[str]:
    """Return one line for every leaf of the lock's identity that is different now."""
    lines: list[str] = []
    for key in sorted({*locked, *now}):
        before, after = locked.get(key), now.get(key)
        where = f"{place}/{key}"
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            lines += differences(before, after, place=where)
        elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            pairs = ({str(n): item for n, item in enumerate(side)} for side in (before, after))
            lines += differences(next(pairs), next(pairs), place=where)
        elif before != after:
            lines.append(f"{where}: locked {_shown(before)}, now {_shown(after)}")
    return lines


def refuse_if_changed(lock: Lock, now: Mapping[str, Any]) -> None:
    """Raise LockError listing what changed since the lock was made, if anything did."""
    keys = [key for key in IDENTITY_KEYS if key != HARNESS_FILES]
    files = fingerprint.changed_files(harness_listing(lock.document), now[HARNESS_FILES])
    lines = [f"/{HARNESS_FILES}: {files}"] if files else []
    lines += differences({key: lock.document[key] for key in keys}, {key: now[key] for key in keys})
    if lines:
        listed = "\n  ".join(lines[:12])
        more = f"\n  and {len(lines) - 12} more" if len(lines) > 12 else ""
        raise LockError(
            f"this is not what was locked ({lock.sha256[:12]}):\n  {listed}{more}\n"
            "A number from other code, data or machine belongs under another lock: make a new one.",
            code="lock_differs",
        )


def _shown(value: Any) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
