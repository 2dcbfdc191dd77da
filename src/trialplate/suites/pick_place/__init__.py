"""Suite ``pick-place``: fair assisted pick and place, 68 scenarios with a Franka Panda.

Importing this module loads no simulator; the world is found by name when a run needs it.
"""

from __future__ import annotations

from pathlib import Path

from trialplate.interfaces import Control, Suite
from trialplate.suites.pick_place import scenarios as _scenarios
from trialplate.suites.pick_place.channels import COLUMNS, STANDARD, action_spec, profiles
from trialplate.suites.pick_place.settings import suite_settings

_HERE = Path(__file__).parent
_WORLDS = _HERE.parents[1] / "worlds"
_PACKAGE = "trialplate.suites.pick_place"
_SETTINGS = suite_settings()

SUITE = Suite(
    name=_SETTINGS.name,
    version=_SETTINGS.version,
    summary="Fair assisted pick and place: 68 scenarios, one instruction, one kinematic grasp for every arm.",
    instruction=_SETTINGS.instruction,
    scope_note=_SETTINGS.scope_note,
    scenarios=_scenarios.scenarios,
    environment=f"{_PACKAGE}.world.environment:PickPlace",
    identity=f"{_PACKAGE}.world.environment:simulator_identity",
    verify_scene=f"{_PACKAGE}.expected_scene:verify_scene",
    controls={
        "null": Control(f"{_PACKAGE}.controls:Null", "null", "all-zero actions; must pass none"),
        "random": Control(f"{_PACKAGE}.controls:Random", "random", "uniform actions; reported"),
        "exploit": Control(
            f"{_PACKAGE}.controls:Exploit", "exploit", "claims, floods, malformed actions; must pass none"
        ),
        "oracle": Control(
            f"{_PACKAGE}.oracle:Oracle", "oracle", "scripted, sees every measurement; must pass all", privileged=True
        ),
        "scripted": Control(
            f"{_PACKAGE}.scripted:Scripted",
            "baseline",
            "finds colours in both cameras, sees nothing else",
        ),
        "scripted-primary": Control(
            f"{_PACKAGE}.scripted:primary_only", "baseline", "the same arm without the wrist camera"
        ),
    },
    profiles=profiles(_SETTINGS),
    default_profile=STANDARD,
    action=action_spec(_SETTINGS),
    columns=COLUMNS,
    chain=_SETTINGS.chain,
    fault_table=_SETTINGS.fault_table,
    max_steps=_SETTINGS.max_steps,
    bodies=("own",),
    sources=(_HERE, _WORLDS),
    camera_for_people="people",
    filmstrip_note="A camera that no arm sees; the green disc is the goal.",
    settings=_SETTINGS.document(),
    errors_rule="void",
    readback={"orientation_wxyz": "binary64", "direction": "direction"},
    schedule_verified="fair pick-and-place protocol, section 3",
    computed_by=("daqp", "mink", "mujoco", "mujoco-core", "numpy"),
)
