"""The suite's shipped settings, read once: see ``data/suite.toml`` for what each number means."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from trialplate.canonical import canonical_json
from trialplate.spec.channels import Frozen
from trialplate.spec.stages import StageChain

SETTINGS_PATH = Path(__file__).parent / "data" / "suite.toml"


class RobotSettings(Frozen):
    """Where the robot starts, and the finger positions that open and close mean."""

    home_joint_pos_rad: tuple[float, ...]
    home_finger_pos_m: tuple[float, ...]
    open_m: float
    closed_m: float


class ActionScale(Frozen):
    """What 1.0 means in an action."""

    translation_m: float
    rotation_rad: float


class PhysicsNumbers(Frozen):
    """Time stepping and solver of the world."""

    physics_rate_hz: int
    substeps: int
    interface_steps: int
    integrator: str
    cone: str
    impratio: float
    gravity_m_s2: tuple[float, float, float]


class EstimateNoise(Frozen):
    """The error of the declared state-estimate channel, per axis."""

    bias_sd_m: float
    noise_sd_m: float


class SuiteSettings(Frozen):
    """All of ``data/suite.toml``."""

    name: str
    version: str
    instruction: str
    scope_note: str
    readback_schema: str
    max_steps: int
    robot: RobotSettings
    action: ActionScale
    physics: PhysicsNumbers
    attachment: dict[str, Any]
    inverse_kinematics: dict[str, Any]
    rendering: dict[str, Any]
    estimate: EstimateNoise
    fault_table: dict[str, str]
    chain: StageChain

    @property
    def control_hz(self) -> float:
        """Control steps per second."""
        return self.physics.physics_rate_hz / (self.physics.substeps * self.physics.interface_steps)

    def document(self) -> dict[str, Any]:
        """Return the plain form that goes into the lock."""
        return self.model_dump(mode="json")


@lru_cache(maxsize=1)
def suite_settings() -> SuiteSettings:
    """Return the shipped settings."""
    return SuiteSettings.model_validate_json(canonical_json(tomllib.loads(SETTINGS_PATH.read_text("utf-8"))))
