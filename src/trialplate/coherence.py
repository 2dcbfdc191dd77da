"""Does a campaign agree with its lock and its suite, field by field? What digests alone cannot tell.

Everything here could be rewritten by somebody who recomputes every digest; it is compared with what does not
depend on them: the protocol inside the lock, the installed suite, the recorded traces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from trialplate.admission import select_scenarios
from trialplate.canonical import document_sha256, env_seed
from trialplate.interfaces import Scenario, Suite
from trialplate.lock import arm_place, locked_inputs, suite_identity
from trialplate.record import Row
from trialplate.spec.protocol import Protocol
from trialplate.store.findings import Finding, finding
from trialplate.store.view import CampaignView


def lock_findings(document: Mapping[str, Any], suite: Suite) -> list[Finding]:
    """Compare a lock with its own protocol and with the installed suite."""
    protocol = Protocol.model_validate_json(json.dumps(document["protocol"]))
    found = []
    if document["protocol_sha256"] != document_sha256(document["protocol"]):
        found.append(_lock("/protocol_sha256", document_sha256(document["protocol"]), document["protocol_sha256"]))
    planned = {(arm.name, s.id, n) for arm in protocol.arms for s in select_scenarios(protocol, suite)
               for n in range(protocol.suite.repeats)}  # fmt: skip
    listed = [(trial["arm"], trial["scenario"], trial["repeat"]) for trial in document["schedule"]]
    if set(listed) != planned or len(listed) != len(planned):
        found.append(_lock("/schedule", f"{len(planned)} trials of the protocol", f"{len(listed)} trials"))
    for index, arm in enumerate(document["arms"]):
        body = {key: value for key, value in arm.items() if key != "arm_sha256"}
        for name, part in (("arm_sha256", body), ("registration_sha256", arm["registration"])):
            if document_sha256(part) != arm[name]:
                found.append(_lock(f"/arms/{index}/{name}", document_sha256(part), arm[name]))
    found += _arm_findings(document, protocol, suite)
    installed = json.loads(json.dumps(suite_identity(protocol, suite)))
    for key in sorted({*installed, *document["suite"]}):
        if installed.get(key) != document["suite"].get(key):
            found.append(
                finding(
                    "grader_differs_from_lock",
                    "lock.json",
                    pointer=f"/suite/{key}",
                    expected=str(document["suite"].get(key))[:120],
                    found=str(installed.get(key))[:120],
                )
            )
    return found


def _arm_findings(document: Mapping[str, Any], protocol: Protocol, suite: Suite) -> list[Finding]:
    """Compare who each arm is said to be with what the protocol registers and the suite calls its controls."""
    names = [arm["name"] for arm in document["arms"]]
    if names != [arm.name for arm in protocol.arms]:
        return [_lock("/arms", f"{[arm.name for arm in protocol.arms]}", f"{names}")]
    found = []
    for index, (arm, entry) in enumerate(zip(protocol.arms, document["arms"], strict=True)):
        reference, profile, control = arm_place(arm, suite)
        expected: dict[str, Any] = {
            "policy": arm.policy,
            "reference": reference,
            "role": control.role if control is not None and control.role != "baseline" else "arm",
            "privileged": control.privileged if control is not None else False,
            "profile": profile,
            "options": dict(arm.options),
            "replan_interval": arm.replan_interval,
        }
        found += [
            _lock(f"/arms/{index}/{key}", value, entry[key]) for key, value in expected.items() if entry[key] != value
        ]
    return found


def row_findings(view: CampaignView, suite: Suite) -> Iterator[Finding]:
    """Compare every row with the scenario, the seed, the arm and the calls that it must have."""
    scenarios = {scenario.id: scenario for scenario in suite.scenarios()}
    arms = {arm["name"]: arm["registration_sha256"] for arm in view.lock_document["arms"]}
    others = declared_registrations(view)
    for row in view.rows:
        path = f"episodes/{row.trial_id}-{row.attempt}/row.json"
        declared = row.registration_sha256 in others.get(row.arm, ())
        identity = row.registration_sha256 if declared else arms[row.arm]
        for name, expected in _expected(view, row, scenarios[row.scenario], identity).items():
            if getattr(row, name) != expected:
                yield finding(
                    "rows_digest_mismatch", path, pointer=f"/{name}", expected=expected, found=getattr(row, name)
                )
        if row.trace is not None and row.applied_scene is None:
            yield finding("scene_mismatch", path, pointer="/applied_scene", expected="a readback", found=None)


def _expected(view: CampaignView, row: Row, scenario: Scenario, registration_sha256: str) -> dict[str, Any]:
    expected: dict[str, Any] = {
        "family": scenario.family,
        "domain": scenario.domain,
        "variant": scenario.variant,
        "scenario_sha256": scenario.sha256(),
        "registration_sha256": registration_sha256,
        "env_seed": env_seed(
            view.lock_sha256, view.lock_document["suite"]["name"], scenario=row.scenario, repeat=row.repeat
        ),
    }
    if row.trace is not None:
        calls = view.load_trace(row).calls
        expected |= {"calls": len(calls), "rows_executed": row.trace.steps, "control_steps": row.trace.steps}
        for key in ("proposed", "dropped", "discarded"):
            expected[f"rows_{key}"] = sum(int(call[key] or 0) for call in calls)
    return expected


def declared_registrations(view: CampaignView) -> dict[str, frozenset[str]]:
    """Return arm -> the identities that a run of this campaign declared for it instead of the locked one."""
    locked = {arm["name"]: arm["registration_sha256"] for arm in view.lock_document["arms"]}
    found: dict[str, set[str]] = {}
    for _, name, digest in _declarations(view):
        if locked.get(name) != digest:
            found.setdefault(name, set()).add(digest)
    return {name: frozenset(digests) for name, digests in found.items()}


def registration_findings(view: CampaignView) -> list[Finding]:
    """Return where a run declared that an arm is not the one of the lock: intact, and no evidence for a claim."""
    locked = {arm["name"]: arm["registration_sha256"] for arm in view.lock_document["arms"]}
    return [
        finding(
            "exploratory_registration",
            "journal.jsonl",
            pointer=f"line {seq} /data/registrations/{name}",
            expected=locked.get(name, "an arm of the lock"),
            found=digest,
        )
        for seq, name, digest in _declarations(view)
        if locked.get(name) != digest
    ]


def _declarations(view: CampaignView) -> Iterator[tuple[int, str, str]]:
    """Yield (record, arm, identity) of everything that the beginnings of runs declare."""
    for record in view.records:
        declared = record["data"].get("registrations") if record["type"] in ("run.open", "run.resume") else None
        for name, digest in declared.items() if isinstance(declared, dict) else ():
            yield record["seq"], name, str(digest)


def input_findings(view: CampaignView) -> list[Finding]:
    """Every complete run must have checked code and weights before its first attempt and after its last."""
    kinds = [record["type"] for record in view.records]
    locked = locked_inputs(view.lock_document)
    found = []
    if view.complete:
        first, last = kinds.index("attempt.start"), len(kinds) - 1 - kinds[::-1].index("attempt.end")
        if "inputs.checked" not in kinds[:first] or "inputs.checked" not in kinds[last:]:
            found.append(_inputs("a check before the first and after the last episode", "none"))
    for record in view.records:
        if record["type"] == "inputs.checked" and record["data"]["digests"] != locked:
            found.append(_inputs("the locked code and weights", f"others at record {record['seq']}"))
    return found


def _lock(pointer: str, expected: object, found: object) -> Finding:
    return finding("lock_digest_mismatch", "lock.json", pointer=pointer, expected=expected, found=found)


def _inputs(expected: str, found: str) -> Finding:
    return finding("inputs_changed_during_run", "journal.jsonl", expected=expected, found=found)
