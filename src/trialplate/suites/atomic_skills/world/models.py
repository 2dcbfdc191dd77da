"""Which robot models this suite can use, and which of them lie on this machine. Nothing is downloaded."""

from __future__ import annotations

from typing import Any

from trialplate.errors import Unavailable
from trialplate.suites.atomic_skills.casebook.held_out import ARM, HAND
from trialplate.suites.atomic_skills.casebook.layout import ARM_MODEL, HAND_MODEL
from trialplate.suites.atomic_skills.world.robot import load_model

NEEDED = {ARM_MODEL: "nominal", HAND_MODEL: "nominal", ARM: "arm_ur10e", HAND: "gripper_panda_hand"}
"""Model -> ``nominal``, or the held-out domain that alone needs it."""


def robot_models() -> list[dict[str, Any]]:
    """Return each model with its identity here; None and what to do where it is absent or another."""
    listed = []
    for model, needed_by in NEEDED.items():
        try:
            sha256, advice = load_model(model).sha256(), None
        except Unavailable as reason:
            sha256, advice = None, reason.message
        listed.append({"model": model, "needed_by": needed_by, "sha256": sha256, "advice": advice})
    return listed
