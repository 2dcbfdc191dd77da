"""Nominal cases of two arms at one table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from trialplate.suites.atomic_skills.casebook.layout import (
    HALF,
    LEFT_DOWN_RAD,
    OBJECTS,
    RIGHT_DOWN_RAD,
    case,
    laid,
    standing,
    world,
)

Case = dict[str, Any]
_STARTS = (LEFT_DOWN_RAD, RIGHT_DOWN_RAD)
LEFT, RIGHT = 0, 1


def coordinated_pickment() -> Iterator[Case]:
    """Yield a bar that two hands lift and carry."""
    for (number, (x, y, yaw)), (aim, (dx, dy, dz)) in product(
        enumerate(((0.46, 0.0, 0.0), (0.48, 0.02, 0.1), (0.44, -0.02, -0.1))),
        enumerate(((0.04, 0.0, 0.16), (0.0, 0.05, 0.20))),
    ):
        start = standing(OBJECTS["bar"], x, y_m=y, yaw_rad=yaw)
        yield case(
            "coordinated_pickment", f"bar-p{number}-t{aim}", difficulty="hard" if yaw else "medium",
            start_rad=_STARTS, scene_world=world(objects=("bar",), dual=True), poses={"bar": start},
            command={
                "object": "bar", "lift_m": 0.08,
                "pose": [start[0] + dx, start[1] + dy, start[2] + dz, *start[3:]],
            },
        )  # fmt: skip


def coordinated_placement() -> Iterator[Case]:
    """Yield a block that one hand puts onto a plate that the other hand holds."""
    rest_m = OBJECTS["plate"]["size_m"][2] + OBJECTS["block"]["size_m"][2]
    for (number, shift), (aim, along) in product(enumerate((0.0, 0.02, -0.02)), enumerate((0.070, 0.055))):
        yield case(
            "coordinated_placement", f"block-p{number}-t{aim}", difficulty="hard" if shift else "medium",
            start_rad=_STARTS, scene_world=world(objects=("block", "plate"), dual=True),
            poses={
                "block": standing(OBJECTS["block"], 0.44 + shift, y_m=0.26),
                "plate": standing(OBJECTS["plate"], 0.46 + shift, y_m=-0.20),
            },
            command={
                "object": "block", "support": "plate", "placing_arm": LEFT, "support_arm": RIGHT,
                "relative_pose": [0.0, along, rest_m, 1.0, 0.0, 0.0, 0.0],
            },
        )  # fmt: skip


def hand_over() -> Iterator[Case]:
    """Yield a standing can and a lying pencil that go from one hand to the other."""
    for (number, shift), name in product(enumerate((0.0, 0.03, -0.03)), ("vertical_can", "horizontal_pencil")):
        thing = OBJECTS["tall_can" if name == "vertical_can" else "pencil"]
        if name == "vertical_can":
            start = standing(thing, 0.46 + shift, y_m=0.20)
            target = [0.46 + shift, -0.20, start[2]]
        else:
            start = laid(thing, 0.46 + shift, y_m=0.20, yaw_rad=HALF)
            target = [0.46 + shift, -0.20, start[2]]
        yield case(
            "hand_over", f"{name}-p{number}", difficulty="hard" if shift else "medium",
            start_rad=_STARTS, scene_world=world(objects=(thing["name"],), dual=True), poses={thing["name"]: start},
            command={"object": thing["name"], "source_arm": LEFT, "destination_arm": RIGHT, "target_m": target},
        )  # fmt: skip
