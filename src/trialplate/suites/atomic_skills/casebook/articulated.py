"""Nominal cases of button, drawer, door and knob."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

from trialplate.suites.atomic_skills.casebook.layout import DOWN_RAD, FORWARD_RAD, Difficulty, about_z, case, world

Case = dict[str, Any]

BUTTON = {"kind": "button", "width_m": None, "frictionloss": 0.05, "start": 0.0}
DRAWER = {"kind": "drawer", "width_m": None, "frictionloss": 1.5, "start": 0.0}
DOOR = {"kind": "door", "width_m": 0.35, "frictionloss": 0.15, "start": 0.0}
KNOB = {"kind": "knob", "width_m": None, "frictionloss": 0.05, "start": 0.0}

STROKE_M = 0.020
PRESS_MM = (18.0, 19.0, 20.0)
DRAWER_MM = (100.0, 180.0, 250.0)
DOOR_DEG = (30.0, 60.0, 90.0)
TWIST_DEG = (30.0, 45.0, 90.0)
PUSHED, OPEN_M = 2, 0.28
"""The place where the drawer is pushed shut, and how far open it starts there."""
_GRADES: tuple[Difficulty, Difficulty, Difficulty] = ("simple", "medium", "hard")

_BUTTONS = ((0.48, 0.05, 0.0), (0.55, -0.12, 0.0), (0.42, 0.15, 0.0))
_DRAWERS = ((0.86, 0.05, 0.0), (0.84, -0.04, 0.0), (0.95, 0.04, 0.0))
_DOORS = ((0.72, 0.02, 0.0), (0.70, 0.06, 0.0), (0.74, -0.02, 0.0))
_KNOBS = ((0.48, 0.05, 0.0), (0.55, -0.10, 0.3), (0.44, 0.14, -0.3))


def press() -> Iterator[Case]:
    """Yield depths on a sprung button; the stage wants 0.80 of the usable stroke."""
    for (number, spot), (grade, depth) in product(enumerate(_BUTTONS), zip(_GRADES, PRESS_MM, strict=True)):
        yield case(
            "press", f"d{depth:.0f}-p{number}", difficulty=grade, start_rad=(DOWN_RAD,),
            scene_world=world(asset=BUTTON), poses={"asset": _pose(spot)},
            command={"travel_m": depth / 1000.0, "stroke_m": STROKE_M},
        )  # fmt: skip


def slide() -> Iterator[Case]:
    """Yield travels of a drawer: pulled open at two places, pushed shut at a third, where it starts open."""
    for (number, spot), (grade, travel) in product(enumerate(_DRAWERS), zip(_GRADES, DRAWER_MM, strict=True)):
        push = number == PUSHED
        yield case(
            "slide", f"d{travel:.0f}-p{number}", difficulty=grade, start_rad=(FORWARD_RAD,),
            scene_world=world(asset={**DRAWER, "start": OPEN_M} if push else DRAWER), poses={"asset": _pose(spot)},
            command={
                "travel_m": (-travel if push else travel) / 1000.0, "direction": "push" if push else "pull",
            },
            variant=int(push),
        )  # fmt: skip


def open_door() -> Iterator[Case]:
    """Yield hinge angles."""
    for (number, spot), (grade, degrees) in product(enumerate(_DOORS), zip(_GRADES, DOOR_DEG, strict=True)):
        yield case(
            "open_door", f"a{degrees:.0f}-p{number}", difficulty=grade, start_rad=(FORWARD_RAD,),
            scene_world=world(asset=DOOR), poses={"asset": _pose(spot)},
            command={"angle_rad": math.radians(degrees)},
        )  # fmt: skip


def twist() -> Iterator[Case]:
    """Yield angles of the hand about a knob's axis."""
    for (number, spot), (grade, degrees) in product(enumerate(_KNOBS), zip(_GRADES, TWIST_DEG, strict=True)):
        yield case(
            "twist", f"a{degrees:.0f}-p{number}", difficulty=grade, start_rad=(DOWN_RAD,),
            scene_world=world(asset=KNOB), poses={"asset": _pose(spot)},
            command={"angle_rad": math.radians(degrees), "axis": [0.0, 0.0, 1.0]},
        )  # fmt: skip


def _pose(spot: tuple[float, float, float]) -> list[float]:
    return [spot[0], spot[1], 0.0, *about_z(spot[2])]
