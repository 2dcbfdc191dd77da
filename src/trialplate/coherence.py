"""Does a campaign agree with its lock and its suite, field by field? What digests alone cannot tell.

Everything here could be rewritten by somebody who recomputes every digest; it is compared with what does not
depend on them: the protocol inside the lock, the installed suite, the recorded traces.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from trialplate.admission import select_scenarios
from trialplate.canonical import document_sha256, env_seed
from trialplate.fingerprint import harness_sha256
from trialplate.inputs import changed_arms
from trialplate.interfaces import Suite
from trialplate.lock import arm_place, harness_listing, suite_identity
from trialplate.record import Row, Trace
from trialplate.spec.channels import ActionSpec
from trialplate.spec.protocol import Protocol
from trialplate.store.findings import Finding, finding
from trialplate.store.survey import Survey
from trialplate.store.view import CampaignView


def lock_findings(document: Mapping[str, Any], suite: Suite) -> list[Finding]:
    """Compare a lock with its own protocol and with the installed suite."""
    protocol = Protocol.model_validate_json(json.dumps(document["protocol"]))
    found = []
    if document["protocol_sha256"] != document_sha256(document["protocol"]):
        found.append(_lock("/protocol_sha256", document_sha256(document["protocol"]), document["protocol_sha256"]))
    listed_sha256 = harness_sha256(harness_listing(document))
    if document["harness"]["sha256"] != listed_sha256:
        found.append(
            _lock("/harness/sha256", f"{listed_sha256}, that of harness_files", document["harness"]["sha256"])
        )
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
    """Compare every row with the scenario, the seed and the arm that it must have, and with its own trace."""
    rules = RowRules(view, suite)
    for row in view.rows:
        yield from rules.findings(row, lambda row=row: view.load_trace(row))  # type: ignore[misc]


class RowRules:
    """What the rows of one campaign must agree with: the scenario, the seed and the arm, and their own traces."""

    def __init__(self, campaign: CampaignView | Survey, suite: Suite) -> None:
        self._lock, self._lock_sha256 = campaign.lock_document, campaign.lock_sha256
        self._scenarios = {scenario.id: (scenario, scenario.sha256()) for scenario in suite.scenarios()}
        self._arms = {arm["name"]: arm for arm in self._lock["arms"]}
        self._action = ActionSpec.model_validate_json(json.dumps(self._lock["suite"]["action"]))
        self._plan_dims = {
            scenario: part["action_dim"]
            for part in self._lock["suite"].get("column_sets", ())
            for scenario in part["scenarios"]
        }
        self._others = declared_registrations(campaign)

    def findings(self, row: Row, load_trace: Callable[[], Trace]) -> Iterator[Finding]:
        """Compare one row. ``load_trace`` is asked for the trace of a row that names one."""
        path = f"episodes/{row.trial_id}-{row.attempt}/row.json"
        expected = self._expected(row)
        if row.trace is not None:
            trace = load_trace()
            expected |= _counted(trace, replan_interval=self._arms[row.arm]["replan_interval"])
            yield from _ending_findings(self._lock, row, trace, path)
            yield from self._length_findings(row, trace, path)
            yield from self._action_findings(row, trace, row.trace.path)
            if row.applied_scene is None:
                yield finding("scene_mismatch", path, pointer="/applied_scene", expected="a readback", found=None)
        for name, value in expected.items():
            if getattr(row, name) != value:
                yield _row(path, f"/{name}", value, getattr(row, name))

    def _length_findings(self, row: Row, trace: Trace, path: str) -> Iterator[Finding]:
        """Find an attempt that goes on behind its last control step: nothing that happens there may be graded."""
        most = self._lock["suite"]["max_steps"]
        if row.scenario not in self._plan_dims and trace.steps > most:
            bound = f"at most {most} control steps, as locked"
            yield finding("grades_not_reproduced", path, pointer="/control_steps", expected=bound, found=trace.steps)

    def _action_findings(self, row: Row, trace: Trace, path: str) -> Iterator[Finding]:
        """Compare the executed actions with the action space; a plan of a skill may ask for what no joint can do."""
        dim = self._plan_dims.get(row.scenario)
        if dim is None:
            yield from _action_findings(trace, self._action, path)
        elif trace.action.shape[1:] != (dim,):
            yield _row(path, "/action", f"rows of {dim} numbers", f"shape {trace.action.shape}")

    def _expected(self, row: Row) -> dict[str, Any]:
        scenario, digest = self._scenarios[row.scenario]
        declared = row.registration_sha256 in self._others.get(row.arm, ())
        return {
            "family": scenario.family,
            "domain": scenario.domain,
            "variant": scenario.variant,
            "scenario_sha256": digest,
            "registration_sha256": row.registration_sha256
            if declared
            else self._arms[row.arm]["registration_sha256"],
            "env_seed": env_seed(
                self._lock_sha256, self._lock["suite"]["name"], scenario=row.scenario, repeat=row.repeat
            ),
        }


def _counted(trace: Trace, *, replan_interval: int) -> dict[str, int]:
    """Return what a row must say about the calls that its trace records."""
    calls, keys = trace.calls, ("proposed", "executed", "dropped", "discarded")
    sums = {key: sum(int(call[key] or 0) for call in calls) for key in keys}
    return {
        "calls": len(calls),
        "control_steps": trace.steps,
        **{f"rows_{key}": total for key, total in sums.items()},
        "calls_rejected": sum(call["kind"] in ("rejected", "fault") for call in calls),
        "short_chunks": sum(0 < int(call["proposed"] or 0) < replan_interval for call in calls),
    }


def _ending_findings(lock_document: Mapping[str, Any], row: Row, trace: Trace, path: str) -> Iterator[Finding]:
    """Compare how an attempt is said to have ended with what its trace ends with."""
    handling = lock_document["protocol"]["budgets"]["invalid_action_handling"]
    last = trace.calls[-1] if trace.calls else {}
    endings = _endings(
        last, steps=trace.steps, max_steps=lock_document["suite"]["max_steps"], feedback=handling == "feedback"
    )
    if row.termination not in endings:
        yield _row(path, "/termination", f"{' or '.join(endings)}, as the trace ends", row.termination)
    if last.get("kind") == "fault" and row.fault_code != last["issue"]:
        yield _row(path, "/fault_code", f"{last['issue']}, as the last call of the trace", row.fault_code)


def _endings(last: Mapping[str, Any], *, steps: int, max_steps: int, feedback: bool) -> tuple[str, ...]:
    """Return how an attempt may have ended whose last call is this one; telling the policy of it may still fail."""
    kind = last.get("kind")
    if kind == "plan":
        return "plan_replayed", "fault"
    if kind == "stop":
        return "policy_stop", "fault"
    if kind != "fault" and steps >= max_steps:
        return "step_limit", "fault"
    if kind == "chunk" and last["issue"] == "native_rejected" and not feedback:
        return "control_rejected", "fault"
    return ("fault",)


def _action_findings(trace: Trace, action: ActionSpec, path: str) -> Iterator[Finding]:
    """Return the first executed action that lies outside the declared bounds, as float64 or rounded to float32."""
    rows = trace.action
    if rows.shape[1:] != (action.dim,):
        yield _row(path, "/action", f"rows of {action.dim} numbers", f"shape {rows.shape}")
        return
    low, high = np.array(action.low), np.array(action.high)
    with np.errstate(over="ignore"):
        lowest, highest = np.minimum(low, low.astype(np.float32)), np.maximum(high, high.astype(np.float32))
    legal = (rows >= lowest) & (rows <= highest) & np.isfinite(rows)
    if not legal.all():
        step, scalar = (int(index) for index in np.argwhere(~legal)[0])
        bounds = f"{action.scalar_name(scalar)} in [{low[scalar]}, {high[scalar]}]"
        yield _row(path, f"/action/{step}/{scalar}", bounds, float(rows[step, scalar]))


def declared_registrations(view: CampaignView | Survey) -> dict[str, frozenset[str]]:
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


def _declarations(view: CampaignView | Survey) -> Iterator[tuple[int, str, str]]:
    """Yield (record, arm, identity) of everything that the beginnings of runs declare."""
    for record in view.records:
        declared = record["data"].get("registrations") if record["type"] in ("run.open", "run.resume") else None
        for name, digest in declared.items() if isinstance(declared, dict) else ():
            yield record["seq"], name, str(digest)


def told_findings(view: CampaignView) -> Iterator[Finding]:
    """Yield where a run tells another plan than the lock has, or other ends than its journal holds."""
    ends: Counter[str] = Counter()
    for record in view.records:
        data = record["data"]
        said: dict[str, Any] = {}
        if record["type"] == "attempt.end":
            ends[data["termination"]] += 1
        elif record["type"] in ("run.open", "run.resume"):
            harness = view.lock_document["harness"]["sha256"]
            said = {"planned": len(view.schedule), "harness_sha256": harness}
        elif record["type"] == "run.close":
            said = {"counts": {"planned": len(view.schedule), "terminations": dict(ends)}}
        for name in said.keys() & data.keys():
            if type(data[name]) is not type(said[name]) or data[name] != said[name]:
                where = f"line {record['seq']} /data/{name}"
                yield finding(
                    "accounting_not_reproduced", "journal.jsonl", pointer=where, expected=said[name], found=data[name]
                )


def input_findings(view: CampaignView) -> list[Finding]:
    """Every complete run must have checked code and weights before its first attempt and after its last."""
    kinds = [record["type"] for record in view.records]
    found = []
    if view.complete:
        first, last = kinds.index("attempt.start"), len(kinds) - 1 - kinds[::-1].index("attempt.end")
        if "inputs.checked" not in kinds[:first] or "inputs.checked" not in kinds[last:]:
            found.append(_inputs("a check before the first and after the last episode", "none"))
    for record in view.records:
        changed = changed_arms(view.lock_document, record["data"]) if record["type"] == "inputs.checked" else ()
        if changed:
            found.append(_inputs("the locked code and weights", _told(view.lock_document, record["data"], changed)))
    return found


def _told(lock_document: Mapping[str, Any], checked: Mapping[str, Any], changed: Iterable[str]) -> str:
    """Say whose code or weights were not the locked ones at a check, and what the check said of them."""
    sources = {"suite": lock_document["suite"]["sources"]["sha256"], "harness": lock_document["harness"]["sha256"]}
    others = [name for name, digest in sources.items() if checked.get(f"{name}_sha256") != digest]
    if others:
        return "; ".join(f"another {name}, {checked.get(f'{name}_sha256')}" for name in others)
    return "; ".join(f"of {arm}: {checked['digests'].get(arm, 'nothing')}" for arm in sorted(changed))


def _row(path: str, pointer: str, expected: object, found: object) -> Finding:
    return finding("rows_digest_mismatch", path, pointer=pointer, expected=expected, found=found)


def _lock(pointer: str, expected: object, found: object) -> Finding:
    return finding("lock_digest_mismatch", "lock.json", pointer=pointer, expected=expected, found=found)


def _inputs(expected: str, found: str) -> Finding:
    return finding("inputs_changed_during_run", "journal.jsonl", expected=expected, found=found)
