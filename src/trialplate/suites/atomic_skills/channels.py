"""What is commanded and what is recorded, per case: their sizes follow from arms, objects and the articulated part.

No simulator here. Source: atomic-skills specification, sections 3, 4 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trialplate.interfaces import Scenario
from trialplate.record import Column
from trialplate.spec.channels import ActionComponent, ActionSpec, GripperRange
from trialplate.suites.atomic_skills.settings import world_settings

RESET, SETUP, WAYPOINT, SETTLE = 0, 1, 2, 3
"""Values of the column ``sample_kind``."""

KINDS: Mapping[str, int] = {"setup": SETUP, "waypoint": WAYPOINT, "settle": SETTLE}
ARM_DOF = 7  # six joints and a gripper
_ASSET_UNITS = {"door": "rad", "knob": "rad", "drawer": "m", "button": "m"}


def columns_of(scenario: Scenario) -> tuple[Column, ...]:
    """Return the recorded columns of a scenario's case, in the order of a measurement. One of size 0 is left out."""
    return case_columns(scenario.parameters)


def case_columns(case: Mapping[str, Any]) -> tuple[Column, ...]:
    """Return the recorded columns of a case."""
    world = case["world"]
    arms, things, asset = len(world["arms"]), world["objects"], world["asset"]
    listed = ", ".join(thing["name"] for thing in things)
    columns = [
        Column("sample_kind", 1, "1", "0 after reset, 1 set-up, 2 waypoint, 3 settle"),
        Column("q", ARM_DOF * arms, "1", "achieved joints in rad, grippers as opening fraction (0 closed, 1 open)"),
        Column("ee_pose", 7 * arms, "1", "tool frame of each arm: m and wxyz, world frame"),
        Column("pad_force_n", 2 * arms, "N", "normal force of left and right finger on what the arm is to hold"),
        Column("hand_force_n", arms, "N", "normal force of the whole hand on the target"),
        Column("unintended_n", 1, "N", "largest normal force of a contact that may not be, during the row"),
    ]
    if things:
        columns.append(Column("obj_pose", 7 * len(things), "1", f"m and wxyz, world frame: {listed}"))
        columns.append(Column("min_obj_z_m", 1, "m", "lowest object centre during the row"))
    if asset is not None:
        columns.append(Column("asset_joint", 1, _ASSET_UNITS[asset["kind"]], f"joint of the {asset['kind']}"))
    return tuple(columns)


def case_slices(case: Mapping[str, Any]) -> dict[str, slice]:
    """Return where each column lies in a measurement's values."""
    slices: dict[str, slice] = {}
    first = 0
    for column in case_columns(case):
        slices[column.name] = slice(first, first + column.dim)
        first += column.dim
    return slices


def action_of(scenario: Scenario) -> ActionSpec:
    """Return the command row of a scenario's case: absolute joint targets and opening fractions."""
    return case_action(scenario.parameters)


def case_action(case: Mapping[str, Any]) -> ActionSpec:
    """Return the command row of a case. Arm joints have no limit here: one that is exceeded is a diagnostic."""
    settings = world_settings()
    components: list[ActionComponent] = []
    for arm in case["world"]["arms"]:
        components.append(
            ActionComponent(
                name=f"{arm['name']}_joints", dim=ARM_DOF - 1, kind="joint_position", mode="absolute",
                delta_base=None, unit="rad", frame="joint", rotation=None, gripper=None, low=(None,) * (ARM_DOF - 1),
                high=(None,) * (ARM_DOF - 1), bounds_reason="unlimited", meaning="drive targets of the six joints",
            )
        )  # fmt: skip
        components.append(
            ActionComponent(
                name=f"{arm['name']}_gripper", dim=1, kind="gripper", mode="absolute", delta_base=None, unit="1",
                frame=None, rotation=None, gripper=GripperRange(closed=0.0, open=1.0), low=(0.0,), high=(1.0,),
                meaning="opening fraction, 0 closed, 1 open",
            )
        )  # fmt: skip
    waypoint_s = settings.replay.waypoint_steps * settings.physics.timestep_s
    return ActionSpec(
        control_hz=1.0 / waypoint_s, dim=ARM_DOF * len(case["world"]["arms"]), components=tuple(components)
    )
