"""The lock: the protocol and every digest that can change a number, written once, before the first attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trialplate import fingerprint
from trialplate.admission import CONTROL_PREFIX, select_scenarios
from trialplate.canonical import canonical_json, document_sha256, read_stored, sha256_hex
from trialplate.errors import CanonicalError, LockError
from trialplate.interfaces import Suite
from trialplate.registry import load_attribute
from trialplate.spec.protocol import ArmChoice, Protocol

SCHEMA = "trialplate.lock/1"
IDENTITY_KEYS = ("harness", "suite", "distributions", "machine", "simulator", "arms")


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


def lock_document(
    protocol: Protocol, suite: Suite, *, base: Path, schedule: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the document of a new lock; hashes everything it names."""
    return {
        "schema": SCHEMA,
        "created_utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "base": str(base.resolve()),
        "protocol": protocol.document(),
        "protocol_sha256": document_sha256(protocol.document()),
        "schedule": [dict(trial) for trial in schedule],
        **identity(protocol, suite, base=base),
    }


def identity(protocol: Protocol, suite: Suite, *, base: Path) -> dict[str, Any]:
    """Return the sections that must be the same at lock and at every run: ``IDENTITY_KEYS``."""
    return {
        "harness": fingerprint.harness(),
        "suite": suite_identity(protocol, suite),
        "distributions": fingerprint.distributions(),
        "machine": fingerprint.machine(),
        "simulator": load_attribute(suite.identity)(),
        "arms": [arm_identity(arm, suite, base=base) for arm in protocol.arms],
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
        "action_sha256": suite.action.sha256(),
        "chain": suite.chain.model_dump(mode="json"),
        "columns": [{"name": column.name, "dim": column.dim, "unit": column.unit} for column in suite.columns],
        "profiles_sha256": {name: spec.sha256() for name, spec in sorted(suite.profiles.items())},
        "settings": dict(suite.settings),
        "max_steps": protocol.budgets.max_steps or suite.max_steps,
        "fault_table": {**suite.fault_table, **protocol.fault_table},
    }


def arm_identity(arm: ArmChoice, suite: Suite, *, base: Path) -> dict[str, Any]:
    """Return who an arm is: its code and weights by content, its options and its observation profile.

    ``role``: ``arm`` for an implementation under test (a shipped baseline is one), else what the suite calls its
    control: ``null``, ``random``, ``exploit`` or ``oracle``.
    """
    control = None
    reference = arm.policy
    if arm.policy.startswith(CONTROL_PREFIX):
        control = suite.controls[arm.policy.removeprefix(CONTROL_PREFIX)]
        reference = control.policy
    body = {
        "name": arm.name,
        "policy": arm.policy,
        "reference": reference,
        "role": control.role if control and control.role != "baseline" else "arm",
        "privileged": control.privileged if control else False,
        "profile": arm.profile or (control.profile if control else None) or suite.default_profile,
        "options": dict(arm.options),
        "weights": fingerprint.checkpoint(arm.weights, base=base),
        "replan_interval": arm.replan_interval,
        "source": fingerprint.policy_source(reference, base=base),
    }
    return {**body, "registration_sha256": document_sha256(body)}


def arm_inputs(lock: Lock) -> dict[str, str]:
    """Hash the policy sources and checkpoints again; return arm -> digest of what is there now."""
    return {arm["name"]: _present_inputs(arm, lock.base) for arm in lock.document["arms"]}


def _present_inputs(arm: Mapping[str, Any], base: Path) -> str:
    """Return the digest of an arm's code and weights as they lie, or what is wrong with them."""
    try:
        source = fingerprint.policy_source(arm["reference"], base=base)
        weights = fingerprint.checkpoint([shard["path"] for shard in arm["weights"]], base=base)
    except (LockError, OSError) as error:
        return f"cannot be read: {type(error).__name__}"
    return document_sha256({"source": source["source_sha256"], "weights": weights})


def locked_inputs(document: Mapping[str, Any]) -> dict[str, str]:
    """Return what ``arm_inputs`` must be according to the lock."""
    return {
        arm["name"]: document_sha256({"source": arm["source"]["source_sha256"], "weights": arm["weights"]})
        for arm in document["arms"]
    }


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
    lines = differences({key: lock.document[key] for key in IDENTITY_KEYS}, now)
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
