"""The frozen cases of the suite: nominal ones as data, perturbed ones made from them by rule.

``data/nominal.json`` is what runs. ``planners/screening`` and ``casebook`` made it; a test makes it again. Source:
atomic-skills specification, sections 4, 10 and 13.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from trialplate.canonical import canonical_json, document_sha256, read_stored
from trialplate.errors import UsageError, nearest
from trialplate.interfaces import Scenario
from trialplate.suites.atomic_skills.casebook import held_out, robustness
from trialplate.suites.atomic_skills.casebook.held_out import held_out_cases
from trialplate.suites.atomic_skills.casebook.robustness import robustness_cases
from trialplate.suites.atomic_skills.casebook.skills import STAGINGS

NOMINAL_PATH = Path(__file__).parent / "data" / "nominal.json"
SETS_PATH = Path(__file__).parent / "data" / "sets.json"
SCHEMA = "trialplate.skill-cases/1"
Case = dict[str, Any]
Profile = Literal["smoke", "coverage", "full"]
PROFILES: tuple[Profile, ...] = ("smoke", "coverage", "full")
REPEATS: dict[Profile, int] = {"smoke": 1, "coverage": 3, "full": 5}
HELD_OUT_CASES: dict[Profile, int] = {"smoke": 1, "coverage": 2, "full": 4}
"""Cases of each skill in each held-out domain that applies to it."""


@lru_cache(maxsize=1)
def nominal_cases() -> dict[str, tuple[Case, ...]]:
    """Return skill -> its nominal cases of the profile ``full``, in their frozen order."""
    document = read_stored(NOMINAL_PATH.read_bytes())
    found: dict[str, list[Case]] = {skill: [] for skill in STAGINGS}
    for case in document["cases"]:
        found[case["skill"]].append(case)
    return {skill: tuple(cases) for skill, cases in found.items()}


def stored_manifest(cases: list[Case]) -> bytes:
    """Return the bytes of a manifest of nominal cases."""
    return canonical_json({"schema": SCHEMA, "version": "1", "cases": cases})


def profile_cases(profile: Profile) -> tuple[Case, ...]:
    """Return the nominal cases of a profile, skill by skill. Raises UsageError for an unknown one."""
    if profile not in PROFILES:
        raise UsageError(f"suite atomic-skills has no profile {profile!r}{nearest(profile, PROFILES)}")
    sizes = {
        skill: {"smoke": 1, "coverage": staging.coverage, "full": staging.full}[profile]
        for skill, staging in STAGINGS.items()
    }
    return tuple(case for skill, cases in nominal_cases().items() for case in cases[: sizes[skill]])


def perturbed_cases(profile: Profile) -> tuple[Case, ...]:
    """Return the robustness cases of a profile: each value of each axis on each nominal case."""
    return tuple(case for nominal in profile_cases(profile) for case in robustness_cases(nominal))


def adaptability_cases(profile: Profile) -> tuple[Case, ...]:
    """Return the held-out cases of a profile, domain by domain."""
    count = HELD_OUT_CASES[profile]
    heads = {skill: cases[:count] for skill, cases in nominal_cases().items()}
    return tuple(held_out_cases(heads))


@lru_cache(maxsize=1)
def scenarios() -> tuple[Scenario, ...]:
    """Return every scenario: nominal, then robustness, then adaptability, in the order of the profile ``full``."""
    listed = (*profile_cases("full"), *perturbed_cases("full"), *adaptability_cases("full"))
    return tuple(scenario_of(case) for case in listed)


def scenario_of(case: Case) -> Scenario:
    """Return a case as a scenario: its own family, its skill as domain, its set and axis as variant."""
    label = {"robustness": case["axis"], "adaptability": case["domain"]}.get(case["set"])
    variant = case["set"] if label is None else f"{case['set']}/{label}"
    return Scenario(case["case_id"], case["case_id"], case["skill"], variant, case)


def frozen_sets() -> dict[str, dict[str, Any]]:
    """Return version, number and digest of the cases of each set, as they were frozen; they go into the lock."""
    found: dict[str, dict[str, Any]] = read_stored(SETS_PATH.read_bytes())
    return found


def sets_as_made() -> dict[str, dict[str, Any]]:
    """Return the same, made again from the nominal manifest and the rules."""
    listed = {
        "nominal": ("1", profile_cases("full")),
        "robustness": (robustness.VERSION, perturbed_cases("full")),
        "adaptability": (held_out.VERSION, adaptability_cases("full")),
    }
    return {
        name: {"version": version, "cases": len(cases), "sha256": manifest_sha256(cases)}
        for name, (version, cases) in listed.items()
    }


def manifest_sha256(cases: tuple[Case, ...]) -> str:
    """Return the digest of a list of cases, by their own digests."""
    return document_sha256([case["case_sha256"] for case in cases])
