"""The suite's shipped numbers of the world, read once: ``data/world.toml`` says what each means."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from trialplate.canonical import canonical_json
from trialplate.spec.channels import Frozen

WORLD_PATH = Path(__file__).parent / "data" / "world.toml"
Vec3 = tuple[float, float, float]


class Physics(Frozen):
    """Time stepping and solver, set on the scene: attaching a robot does not carry them over."""

    timestep_s: float
    integrator: str
    cone: str
    impratio: float
    gravity_m_s2: Vec3


class Replay(Frozen):
    """How many physics steps a row of each kind takes, and how many rows a settle has."""

    setup_steps: int
    waypoint_steps: int
    settle_steps: int
    settle_rows: int
    setup_hold_rows: int


class ContactLimits(Frozen):
    """Dimension of contacts of a grasp; normal forces that are recorded, or refuse a case at its start."""

    pad_condim: int
    unintended_n: float
    initial_n: float


class Robot(Frozen):
    """Where an arm starts, and what its limits may be exceeded by."""

    start_rad: tuple[float, ...]
    arm_limit_margin_rad: float


class Table(Frozen):
    """The support, and the floor under it."""

    centre_m: tuple[float, float]
    half_size_m: Vec3
    friction: Vec3
    floor_below_m: float


class Door(Frozen):
    """A panel on an upright hinge."""

    panel_thickness_m: float
    panel_height_m: float
    panel_mass_kg: float
    handle_from_edge_m: float
    gap_m: float
    damping_n_m_s: float


class Drawer(Frozen):
    """A box on a slide."""

    front_m: Vec3
    depth_m: float
    mass_kg: float
    gap_m: float
    range_m: float
    damping_n_s_m: float


class Handle(Frozen):
    """The upright bar before a door or drawer."""

    radius_m: float
    length_m: float
    standoff_m: float
    friction: Vec3


class Knob(Frozen):
    """A bar that turns about the vertical."""

    base_radius_m: float
    base_height_m: float
    grip_m: Vec3
    mass_kg: float
    range_rad: float
    damping_n_m_s: float


class Button(Frozen):
    """A cap on a spring."""

    radius_m: float
    cap_height_m: float
    housing_m: Vec3
    mass_kg: float
    stroke_m: float
    stiffness_n_m: float
    preload_m: float
    damping_n_s_m: float


class WorldSettings(Frozen):
    """All of ``data/world.toml``."""

    physics: Physics
    replay: Replay
    contact: ContactLimits
    robot: Robot
    models: dict[str, str]
    pad_friction: dict[str, tuple[float, ...]]
    table: Table
    door: Door
    drawer: Drawer
    handle: Handle
    knob: Knob
    button: Button

    def document(self) -> dict[str, Any]:
        """Return the plain form that goes into the lock."""
        return self.model_dump(mode="json")


@lru_cache(maxsize=1)
def world_settings() -> WorldSettings:
    """Return the shipped settings."""
    return WorldSettings.model_validate_json(canonical_json(tomllib.loads(WORLD_PATH.read_text("utf-8"))))
