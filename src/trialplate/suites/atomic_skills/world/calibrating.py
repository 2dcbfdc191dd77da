"""Runs the calibration: how far off the baseline ends here, with jittered starts, against the shipped tolerances.

It changes no tolerance. The result is bound to simulator, robots and platform. Source: atomic-skills specification,
section 12.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import mujoco

from trialplate.errors import PlanningFailed, UsageError
from trialplate.suites.atomic_skills.calibration import Sample, calibrated_skills, margins, trial_samples
from trialplate.suites.atomic_skills.casebook.layout import ARM_MODEL, HAND_MODEL, sealed
from trialplate.suites.atomic_skills.cases import profile_cases
from trialplate.suites.atomic_skills.planners.baseline import Baseline
from trialplate.suites.atomic_skills.tolerances import SCORING
from trialplate.suites.atomic_skills.world.environment import AtomicSkills
from trialplate.suites.atomic_skills.world.robot import model_identities
from trialplate.suites.atomic_skills.world.trial import replay_once

SCHEMA = "trialplate.skill-calibration/1"
LEAST_REPEATS = 5
JITTER_RAD = 0.02
Told = Callable[[int, int], None]


def calibrate(*, repeats: int = LEAST_REPEATS, progress: Told = lambda done, total: None) -> dict[str, Any]:
    """Replay the nominal cases of profile ``coverage`` with jittered starts and return the calibration document.

    ``repeats``: jitter seeds 0, 1, ... for each case, at least 5. Raises UsageError; Unavailable ``asset_missing``.
    """
    if repeats < LEAST_REPEATS:
        raise UsageError(f"a calibration takes at least {LEAST_REPEATS} repeats, got {repeats}")
    skills = calibrated_skills()
    cases = [case for case in profile_cases("coverage") if case["skill"] in skills]
    world, planner, found = AtomicSkills(), Baseline(), list[Sample]()
    unplanned = []
    for done, (case, repeat) in enumerate((case, repeat) for case in cases for repeat in range(repeats)):
        progress(done, len(cases) * repeats)
        try:
            left = replay_once(world, jittered(case, seed=repeat), planner)
        except PlanningFailed as reason:
            unplanned.append({"case": case["case_id"], "repeat": repeat, "reason": reason.message})
            continue
        found += trial_samples(case["skill"], left.stages.values(), case=case["case_id"], repeat=repeat)
    progress(len(cases) * repeats, len(cases) * repeats)
    return {
        "schema": SCHEMA,
        "tolerances": SCORING.version,
        "repeats": repeats,
        "trials": len(cases) * repeats,
        "unplanned": unplanned,
        "margins": [asdict(margin) | {"note": margin.note} for margin in margins(found, SCORING)],
        "environment": environment(),
    }


def environment() -> dict[str, Any]:
    """Return what a calibration is bound to; in another environment it says nothing."""
    return {
        "mujoco": mujoco.__version__,
        "robots": model_identities(ARM_MODEL, HAND_MODEL),
        "platform": {"system": platform.system(), "architecture": platform.machine()},
    }


def holds_here(document: Mapping[str, Any]) -> bool:
    """Say whether a calibration was made in this environment; else it is ``not_calibrated_here``."""
    return bool(document["environment"] == environment())


def jittered(case: Mapping[str, Any], *, seed: int) -> dict[str, Any]:
    """Return a case whose arm joints start up to 0.02 rad off, by a seed."""
    moves = _uniform(str(case["case_id"]), seed)
    start = [
        value + (JITTER_RAD * next(moves) if column["unit"] == "rad" else 0.0)
        for value, column in zip(case["q_start"], case["dof"], strict=True)
    ]
    return sealed({**case, "q_start": start})


def _uniform(case_id: str, seed: int) -> Iterator[float]:
    """Yield numbers in [-1, 1) from a name, the same on every machine."""
    number = 0
    while True:
        digest = hashlib.sha256(f"calibration|{case_id}|{seed}|{number}".encode()).digest()
        yield int.from_bytes(digest[:6], "big") / 2.0**47 - 1.0
        number += 1
