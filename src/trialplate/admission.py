"""May this protocol be locked? Checks a protocol against the suites that are installed.

Every mistake is collected; the caller raises them together with those of the document's shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trialplate.errors import (
    CONNECTION_FAULTS,
    DEFAULT_STATUS,
    HARNESS_FAULTS,
    DocumentFault,
    ProtocolError,
    UsageError,
    nearest,
)
from trialplate.interfaces import Scenario, Suite
from trialplate.registered_pairs import pair_faults
from trialplate.registry import load_suite
from trialplate.spec.protocol import Protocol, cross_faults, read_toml, structure_faults
from trialplate.spec.schemes import ATTACHED, CONTROL_PREFIX, Scheme, scheme_of


def admit(text: str, *, source: str, base: Path) -> Protocol:
    """Parse and check a protocol. Raises ProtocolError that lists every mistake.

    ``base`` is the folder that policy files and weights are relative to.
    """
    raw = read_toml(text, source=source)
    protocol, faults = structure_faults(raw)
    faults += cross_faults(raw)
    faults += _suite_faults(raw, base=base)
    if faults or protocol is None:
        raise ProtocolError(source, faults)
    return protocol


def select_scenarios(protocol: Protocol, suite: Suite) -> tuple[Scenario, ...]:
    """Return the registered scenarios in manifest order."""
    every = suite.scenarios()
    if protocol.suite.scenarios == "all":
        return every
    wanted = set(protocol.suite.scenarios)
    return tuple(scenario for scenario in every if scenario.id in wanted)


def _suite_faults(raw: Mapping[str, Any], *, base: Path) -> list[DocumentFault]:
    choice = raw.get("suite")
    if not isinstance(choice, dict) or not isinstance(choice.get("name"), str):
        return []  # the shape check has said so
    try:
        suite = load_suite(choice["name"])
    except UsageError as error:
        return [DocumentFault("suite.name", error.message)]
    faults = _choice_faults(choice, suite)
    ledger = raw.get("holdouts")
    if isinstance(ledger, str) and not (base / ledger).is_file():
        faults.append(
            DocumentFault("holdouts", f"no ledger {ledger!r} beside it; `trialplate holdout register` makes one")
        )
    for index, arm in enumerate(raw.get("arms") or []):
        if isinstance(arm, dict):
            faults += _arm_faults(arm, suite, place=f"arms[{index}]", base=base)
    faults += pair_faults(raw, suite)
    faults += stopping_faults(raw, suite)
    return faults + plan_faults(raw, suite) + _budget_faults(raw, suite) + fault_table_faults(raw, suite)


def stopping_faults(raw: Mapping[str, Any], suite: Suite) -> list[DocumentFault]:
    """Return why a stopping rule cannot be followed under the rest of its protocol.

    Source: statistics specification, section 8: arms in a random order inside each block, pairs in schedule order.
    """
    rule, choice, schedule, analysis = (raw.get(name) for name in ("stopping", "suite", "schedule", "analysis"))
    if not isinstance(rule, dict) or not isinstance(choice, dict):
        return []
    faults = []
    order = schedule.get("order") if isinstance(schedule, dict) else None
    if order != "blocks":
        message = "a stopping rule compares blocks: register schedule.order = 'blocks'"
        faults.append(DocumentFault("stopping", message))
    pairs = analysis.get("comparisons") if isinstance(analysis, dict) else None
    if rule.get("arms") is not None and rule["arms"] not in (pairs or []):
        message = f"expected one of analysis.comparisons {pairs or []}, got {rule['arms']!r}"
        faults.append(DocumentFault("stopping.arms", message))
    for index, arm in enumerate(raw.get("arms") or []):
        policy = arm.get("policy") if isinstance(arm, dict) else None
        if policy in ATTACHED:
            message = f"{policy!r} has runs of its own, so its blocks end apart: no rule can stop them"
            faults.append(DocumentFault(f"arms[{index}].policy", message))
    listed, repeats = choice.get("scenarios", "all"), choice.get("repeats", 1)
    scenarios = len(listed) if isinstance(listed, list) else len(suite.scenarios())
    looks = rule.get("looks")
    if isinstance(repeats, int) and isinstance(looks, list) and all(isinstance(n, int) for n in looks) and looks:
        faults += _look_faults(rule, looks, blocks=scenarios * repeats)
    return faults


def _look_faults(rule: Mapping[str, Any], looks: list[int], *, blocks: int) -> list[DocumentFault]:
    if looks[-1] > blocks:
        return [DocumentFault("stopping.looks", f"a look after {looks[-1]} blocks, only {blocks} are planned")]
    if rule.get("kind") == "group_sequential" and looks[-1] != blocks:
        message = f"the last of group-sequential looks stands behind the last block, {blocks}; got {looks[-1]}"
        return [DocumentFault("stopping.looks", message)]
    return []


def _choice_faults(choice: Mapping[str, Any], suite: Suite) -> list[DocumentFault]:
    faults = []
    version, body = choice.get("version"), choice.get("body", suite.bodies[0])
    if isinstance(version, str) and version != suite.version:
        faults.append(
            DocumentFault(
                "suite.version",
                f"expected {suite.version!r}, the installed version of {suite.name}, got {version!r};"
                " two versions are two benchmarks",
            )
        )
    if isinstance(body, str) and body not in suite.bodies:
        faults.append(DocumentFault("suite.body", f"unknown body {body!r}{nearest(body, suite.bodies)}"))
    listed = choice.get("scenarios", "all")
    known = {scenario.id for scenario in suite.scenarios()}
    for index, name in enumerate(listed if isinstance(listed, list) else []):
        place = f"suite.scenarios[{index}]"
        if isinstance(name, str) and name not in known:
            told = f"unknown scenario {name!r}{nearest(name, known)}; `trialplate suite show` lists all"
            faults.append(DocumentFault(place, told))
        if name in listed[:index]:
            faults.append(DocumentFault(place, f"scenario {name!r} stands twice; use repeats"))
    return faults


def plan_faults(raw: Mapping[str, Any], suite: Suite) -> list[DocumentFault]:
    """Return what keeps a protocol from being the plan that it calls itself, and claims that no number could meet.

    Source: policy contract, sections 6 and 7.
    """
    choice, analysis, claims = raw.get("suite"), raw.get("analysis"), raw.get("claims")
    choice = choice if isinstance(choice, dict) else {}
    analysis = analysis if isinstance(analysis, dict) else {}
    faults: list[DocumentFault] = []
    if choice.get("plan") == "full":
        faults = _full_faults(choice, suite)
    elif choice.get("plan") == "fast":
        faults = _fast_faults(choice, suite)
    if (analysis.get("errors") or suite.errors_rule) == "void" and isinstance(claims, list):
        faults += [
            DocumentFault(
                f"claims[{index}].errors",
                "an errored episode voids the arm's rate here (analysis.errors), so there is no lower bound to use;"
                " register analysis.errors = 'bounds', or leave this out",
            )
            for index, claim in enumerate(claims)
            if isinstance(claim, dict) and claim.get("errors") == "lower_bound"
        ]
    return faults


def _full_faults(choice: Mapping[str, Any], suite: Suite) -> list[DocumentFault]:
    if suite.schedule_verified is None:
        message = f"nobody has checked the schedule of {suite.name} against its source; a full plan needs that"
        return [DocumentFault("suite.plan", message)]
    found = {"scenarios": choice.get("scenarios", "all"), "repeats": choice.get("repeats", 1)}
    native = {"scenarios": "all", "repeats": 1}
    return [
        DocumentFault(f"suite.{key}", f"a full plan runs the suite's schedule: expected {native[key]!r}, got {got!r}")
        for key, got in found.items()
        if got != native[key]
    ]


def _fast_faults(choice: Mapping[str, Any], suite: Suite) -> list[DocumentFault]:
    faults = []
    if choice.get("repeats", 1) != 1:
        faults.append(DocumentFault("suite.repeats", f"a fast plan has one attempt each, got {choice['repeats']!r}"))
    listed = choice.get("scenarios", "all")
    if not isinstance(listed, list):
        message = "a fast plan names its scenarios, one of each variant; 'all' is no selection"
        return [*faults, DocumentFault("suite.scenarios", message)]
    variants = {scenario.id: (scenario.domain, scenario.variant) for scenario in suite.scenarios()}
    seen: dict[tuple[str, str], str] = {}
    for index, name in enumerate(listed):
        variant = variants.get(name) if isinstance(name, str) else None
        if variant is not None and (first := seen.setdefault(variant, name)) != name:
            message = f"a fast plan has one fixed state per variant: {name!r} and {first!r} are both {variant[1]}"
            faults.append(DocumentFault(f"suite.scenarios[{index}]", message))
    return faults


def _arm_faults(arm: Mapping[str, Any], suite: Suite, *, place: str, base: Path) -> list[DocumentFault]:
    faults = []
    profile, policy = arm.get("profile"), arm.get("policy")
    if isinstance(profile, str) and profile not in suite.profiles:
        faults.append(
            DocumentFault(f"{place}.profile", f"unknown profile {profile!r}{nearest(profile, suite.profiles)}")
        )
    if not isinstance(policy, str):
        return faults
    try:
        scheme = scheme_of(policy)
    except ValueError as error:
        return [*faults, DocumentFault(f"{place}.policy", str(error))]
    faults += _reference_faults(policy, scheme, suite, place=place, base=base)
    for index, name in enumerate(arm.get("weights") or []):
        if isinstance(name, str) and not (base / name).exists():
            faults.append(DocumentFault(f"{place}.weights[{index}]", f"no file {name!r} beside the protocol"))
    return faults + _attachment_faults(arm, scheme, place=place)


def _reference_faults(policy: str, scheme: Scheme, suite: Suite, *, place: str, base: Path) -> list[DocumentFault]:
    """Return why the name of a policy leads nowhere."""
    where = f"{place}.policy"
    if scheme == "control":
        name = policy.removeprefix(CONTROL_PREFIX)
        if name not in suite.controls:
            near = nearest(name, suite.controls)
            return [DocumentFault(where, f"suite {suite.name} has no control {name!r}{near}")]
    module = policy.partition(":")[0]
    if scheme == "python" and module.endswith(".py") and not (base / module).is_file():
        return [DocumentFault(where, f"no file {module!r} beside the protocol")]
    return []


_FITS: Mapping[str, tuple[frozenset[str], str]] = {
    "weights": (frozenset({"python"}), "only a policy in this process is handed files"),
    "options": (frozenset({"python", "control"}), "only a policy in this process is handed options"),
    "declares": (frozenset({"openpi", "served", "mailbox"}), "this policy says itself what it uses and sends"),
    "as_suite": (frozenset({"openpi", "served", "mailbox"}), "this policy says itself what it uses and sends"),
    "identity": (frozenset({"openpi", "served", "mailbox"}), "this policy's identity is found out, not told"),
    "mapping": (frozenset({"openpi"}), "only openpi's dialect has keys to map"),
    "single_vector": (frozenset({"openpi"}), "only openpi's dialect has one-row replies"),
}
"""Member of an arm -> the schemes that use it, and why the others do not: nothing is accepted and ignored."""


def _attachment_faults(arm: Mapping[str, Any], scheme: Scheme, *, place: str) -> list[DocumentFault]:
    """Return what an arm says that its way of being attached does not use, and what it leaves out."""
    faults = [
        DocumentFault(f"{place}.{name}", f"has no use with policy {arm['policy']!r}: {why}")
        for name, (schemes, why) in _FITS.items()
        if arm.get(name) and scheme not in schemes
    ]
    if scheme in ("openpi", "served", "mailbox") and bool(arm.get("declares")) == bool(arm.get("as_suite")):
        faults.append(
            DocumentFault(
                f"{place}.as_suite",
                f"contract_undeclared: policy {arm['policy']!r} cannot say what it uses and sends; say it in exactly "
                "one of [arms.declares] and [arms.as_suite]",
            )
        )
    faults += _word_faults(arm.get("identity"), place=f"{place}.identity")
    if scheme == "openpi" and not arm.get("mapping"):
        faults.append(DocumentFault(f"{place}.mapping", "missing: openpi's keys have no default"))
    return faults


def _word_faults(identity: Any, *, place: str) -> list[DocumentFault]:
    """Return where an operator calls verified what this harness has no way to see."""
    items = identity.items() if isinstance(identity, dict) else ()
    parts = [(key, value) for key, value in items if isinstance(value, dict)]
    for key, value in items:
        parts += [(f"{key}[{n}]", part) for n, part in enumerate(value)] if isinstance(value, list) else []
    return [
        DocumentFault(
            f"{place}.{key}.verified",
            "only what this harness saw itself is verified, and of a policy elsewhere it sees nothing: leave it out",
        )
        for key, part in parts
        if isinstance(part, dict) and part.get("verified") is True
    ]


def _budget_faults(raw: Mapping[str, Any], suite: Suite) -> list[DocumentFault]:
    budgets = raw.get("budgets")
    steps = budgets.get("max_steps") if isinstance(budgets, dict) else None
    if steps is not None and suite.kind == "skill":
        message = "a plan is replayed whole or not at all: leave it out"
        return [DocumentFault("budgets.max_steps", message)]
    if isinstance(steps, int) and not isinstance(steps, bool) and steps > suite.max_steps:
        return [
            DocumentFault("budgets.max_steps", f"expected at most {suite.max_steps}, the suite's budget, got {steps}")
        ]
    return []


def fault_table_faults(raw: Mapping[str, Any], suite: Suite | None = None) -> list[DocumentFault]:
    """Return where a fault table gives a code a status that it cannot have.

    A protocol may give any code another status, says the policy contract, and in the same section that a crash of the
    environment is never charged to the policy (section 6). So what the environment or the harness did may be ERROR or
    EXCLUDED, and not FAIL. A connection lies between the two sides: that an arm fails when its own breaks, or when
    none comes about, can be registered. No fault is a PASS. A suite of skills says itself which of its own reasons
    may have which status.
    """
    table = raw.get("fault_table")
    own = suite.remappable if suite is not None else {}
    known = {*DEFAULT_STATUS, *own}
    faults = []
    for code, status in table.items() if isinstance(table, dict) else ():
        if code not in known:
            faults.append(DocumentFault(f"fault_table.{code}", f"unknown fault {code!r}{nearest(code, known)}"))
        elif code in own and status not in own[code]:
            message = f"expected {' or '.join(own[code])}, got {status!r}"
            faults.append(DocumentFault(f"fault_table.{code}", message))
        elif status == "PASS":
            faults.append(DocumentFault(f"fault_table.{code}", "a fault cannot count as PASS"))
        elif status == "FAIL" and code in HARNESS_FAULTS and code not in CONNECTION_FAULTS:
            message = "what environment or harness did cannot count as FAIL; expected ERROR or EXCLUDED"
            faults.append(DocumentFault(f"fault_table.{code}", message))
    return faults
