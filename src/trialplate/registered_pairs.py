"""May these arms be compared as registered? What suite and schedule say against a plan, before anything is locked.

Source: statistics specification, sections 5, 6 and 12: the unit of resampling stands in the lock, one family is
never two, and rates under different conditions answer different questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trialplate.canonical import document_sha256
from trialplate.errors import DocumentFault
from trialplate.interfaces import Scenario, Suite
from trialplate.spec.plan import CLAIM_KINDS, AnalysisPlan, plan_of
from trialplate.spec.schemes import CONTROL_PREFIX

ON_PAIRS = [kind for kind in CLAIM_KINDS if kind != "threshold_rate"]
MIN_FAMILIES = 10
"""Fewest families of a claim on two arms; the gate has the same number (statistics specification, section 12)."""


def pair_faults(raw: Mapping[str, Any], suite: Suite) -> list[DocumentFault]:
    """Return why registered comparisons could not be made, whatever the arms do."""
    plan = plan_of(raw)
    if plan is None or not plan.comparisons:
        return []
    choice = raw["suite"]
    selected = selected_scenarios(choice.get("scenarios", "all"), suite)
    return [
        *_profile_faults(raw, plan, suite),
        *_unit_faults(plan, selected, choice.get("repeats", 1)),
        *_family_faults(selected),
        *_claim_faults(raw, plan, suite, len({scenario.family for scenario in selected})),
    ]


def selected_scenarios(listed: object, suite: Suite) -> tuple[Scenario, ...]:
    """Return the scenarios of a raw choice in manifest order; names that nobody knows are left to the shape check."""
    wanted = listed if isinstance(listed, list) else []
    return tuple(s for s in suite.scenarios() if listed == "all" or s.id in wanted)


def arm_profiles(raw: Mapping[str, Any], suite: Suite) -> dict[str, str]:
    """Return arm -> what it sees, of every arm whose policy can be looked up."""
    seen = {}
    for arm in raw.get("arms") or []:
        if not (isinstance(arm, dict) and isinstance(arm.get("name"), str) and isinstance(arm.get("policy"), str)):
            continue
        control = suite.controls.get(arm["policy"].removeprefix(CONTROL_PREFIX))
        own = control.profile if control is not None and arm["policy"].startswith(CONTROL_PREFIX) else None
        profile = arm.get("profile") or own or suite.default_profile
        seen[arm["name"]] = str(profile)
    return seen


def _profile_faults(raw: Mapping[str, Any], plan: AnalysisPlan, suite: Suite) -> list[DocumentFault]:
    profiles = arm_profiles(raw, suite)
    return [
        DocumentFault(
            f"analysis.comparisons[{index}]",
            f"not comparable: {a!r} sees {profiles[a]!r} and {b!r} sees {profiles[b]!r}, so their rates answer"
            " different questions; give both one profile, or leave the pair out",
        )
        for index, (a, b) in enumerate(plan.comparisons)
        if a in profiles and b in profiles and profiles[a] != profiles[b]
    ]


def _unit_faults(plan: AnalysisPlan, selected: Sequence[Scenario], repeats: object) -> list[DocumentFault]:
    if plan.unit != "episode":
        return []
    sizes = Counter(scenario.family for scenario in selected)
    shared = next((family for family, size in sizes.items() if size > 1), None)
    if shared is not None:
        told = f"family {shared!r} has {sizes[shared]} scenarios"
    elif repeats != 1:
        told = f"each scenario is repeated {repeats} times"
    else:
        return []
    message = f"episodes that share a family are not independent, and {told}; expected 'family', got 'episode'"
    return [DocumentFault("analysis.unit", message)]


def _family_faults(selected: Sequence[Scenario]) -> list[DocumentFault]:
    """Return where one world stands in two families: it would count twice among what is drawn."""
    first: dict[str, Scenario] = {}
    faults = []
    for scenario in selected:
        world = {key: value for key, value in scenario.document().items() if key not in ("id", "family")}
        known = first.setdefault(document_sha256(world), scenario)
        if scenario.parameters and known.family != scenario.family:
            message = (
                f"{known.id!r} (family {known.family!r}) and {scenario.id!r} (family {scenario.family!r}) are one and"
                " the same world, which would count as two families; leave one out"
            )
            faults.append(DocumentFault("suite.scenarios", message))
    return faults


def _claim_faults(raw: Mapping[str, Any], plan: AnalysisPlan, suite: Suite, families: int) -> list[DocumentFault]:
    """Return claims on two arms that could not be supported, whatever came out."""
    listed = raw.get("claims")
    faults = []
    for index, claim in enumerate(listed if isinstance(listed, list) else []):
        if not isinstance(claim, dict) or claim.get("kind") not in ON_PAIRS:
            continue
        place = f"claims[{index}]"
        few = families < MIN_FAMILIES and claim["kind"] != "relative_rule"  # which has no fewest of its own
        if raw.get("run_class") == "confirmatory" and few:
            message = f"needs at least {MIN_FAMILIES} families, and these scenarios have {families}"
            faults.append(DocumentFault(f"{place}.kind", message))
        if claim["kind"] == "leadership":
            arm = claim.get("arm")
            others = [name for name in arms_under_test(raw, suite) if name != arm]
            faults += [
                DocumentFault(
                    f"{place}.arm",
                    f"leadership is against every other arm under test: add [{arm!r}, {name!r}] to"
                    " analysis.comparisons",
                )
                for name in others
                if (arm, name) not in plan.comparisons
            ]
    return faults


def arms_under_test(raw: Mapping[str, Any], suite: Suite) -> list[str]:
    """Return the arms that are no control; a shipped baseline is under test like any other."""
    found = []
    for arm in raw.get("arms") or []:
        if isinstance(arm, dict) and isinstance(arm.get("name"), str) and isinstance(arm.get("policy"), str):
            control = suite.controls.get(arm["policy"].removeprefix(CONTROL_PREFIX))
            if not (arm["policy"].startswith(CONTROL_PREFIX) and control is not None and control.role != "baseline"):
                found.append(arm["name"])
    return found
