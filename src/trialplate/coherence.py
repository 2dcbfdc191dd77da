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
from trialplate.lock import locked_inputs, suite_identity
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


def row_findings(view: CampaignView, suite: Suite) -> Iterator[Finding]:
    """Compare every row with the scenario, the seed, the arm and the calls that it must have."""
    scenarios = {scenario.id: scenario for scenario in suite.scenarios()}
    arms = {arm["name"]: arm["registration_sha256"] for arm in view.lock_document["arms"]}
    for row in view.rows:
        path = f"episodes/{row.trial_id}-{row.attempt}/row.json"
        for name, expected in _expected(view, row, scenarios[row.scenario], arms[row.arm]).items():
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
