"""Numbers of a replay that are shown and never scored: settled values, other joints, yaw.

Source: atomic skills, sections 5 and 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from trialplate.suites.atomic_skills import criteria as on
from trialplate.suites.atomic_skills.readings import Readings
from trialplate.suites.atomic_skills.rotations import multiply, turned_about

Numbers = dict[str, float]


def diagnostics(r: Readings) -> Numbers:
    """Return the diagnostics of a skill: name with unit -> value."""
    more = _OF_SKILL.get(r.case.skill)
    return more(r) if more is not None else {}


def _door(r: Readings) -> Numbers:
    return {"settled_hinge_rad": r.joint(r.settled)}


def _drawer(r: Readings) -> Numbers:
    return {"settled_travel_m": r.joint(r.settled) - r.joint(-1)}


def _knob(r: Readings) -> Numbers:
    turned = r.joint(r.instant("twist")) - r.joint(-1)
    return {"knob_error_rad": abs(turned - float(r.case.command["angle_rad"])), "knob_rad": turned}


def _button(r: Readings) -> Numbers:
    return {"settled_travel_m": r.joint(r.settled) - r.joint(-1)}


def _pushed(r: Readings) -> Numbers:
    command = r.case.command
    found = r.object_pose(command["object"], r.instant("push"))[3:]
    relative = multiply(found, on.vector(command["pose"])[3:] * np.array([1.0, -1.0, -1.0, -1.0]))
    return {"yaw_error_rad": float(abs(turned_about(on.UP, relative[None])[0]))}


_OF_SKILL: Mapping[str, Callable[[Readings], Numbers]] = {
    "open_door": _door,
    "slide": _drawer,
    "twist": _knob,
    "press": _button,
    "push_object": _pushed,
}
