"""What simulates here, for the lock: MuJoCo, the robots' files, and one compiled model of every scene."""

from __future__ import annotations

from functools import cache
from typing import Any

import mujoco

from trialplate.canonical import document_sha256
from trialplate.suites.atomic_skills.casebook.layout import ARM_MODEL, HAND_MODEL
from trialplate.suites.atomic_skills.cases import profile_cases
from trialplate.suites.atomic_skills.world.robot import model_identities
from trialplate.suites.atomic_skills.world.scene import compose
from trialplate.worlds.simulation import library_sha256, model_digest


def simulator_identity() -> dict[str, Any]:
    """Return what simulates and what draws here. Raises Unavailable ``asset_missing``.

    Compiles the smoke case of every skill once: the other cases differ in numbers that their own digests hold.
    """
    from trialplate.worlds.gl import gl_report

    report = gl_report()
    return {
        "simulator": "mujoco",
        "version": mujoco.__version__,
        "library_sha256": library_sha256(),
        "robots": model_identities(ARM_MODEL, HAND_MODEL),
        "models_sha256": _compiled_models_sha256(),
        "rendering": {
            "backend": report.backend,
            "renderer": report.renderer,
            "version": report.version,
            "reason": report.reason,
        },
    }


@cache
def _compiled_models_sha256() -> str:
    return document_sha256(
        {case["case_id"]: model_digest(compose(case).spec.compile()) for case in profile_cases("smoke")}
    )
