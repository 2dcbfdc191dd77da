"""All nominal cases in their frozen order: the coverage profile is the head of each skill's list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trialplate.suites.atomic_skills.casebook import articulated, dual_arm, single_arm
from trialplate.suites.atomic_skills.casebook.skills import STAGINGS

Case = dict[str, Any]

MAKERS: Mapping[str, Callable[[], Iterator[Case]]] = {
    "move_joints": single_arm.move_joints,
    "move_end_effector": single_arm.move_end_effector,
    "pick_up": single_arm.pick_up,
    "axis_align": single_arm.axis_align,
    "move_held_object": single_arm.move_held_object,
    "place": single_arm.place,
    "pour": single_arm.pour,
    "push_object": single_arm.push_object,
    "press": articulated.press,
    "slide": articulated.slide,
    "open_door": articulated.open_door,
    "twist": articulated.twist,
    "coordinated_pickment": dual_arm.coordinated_pickment,
    "coordinated_placement": dual_arm.coordinated_placement,
    "hand_over": dual_arm.hand_over,
}


def nominal_cases() -> dict[str, list[Case]]:
    """Return skill -> its cases of the profile ``full``, made again from the factors."""
    return {skill: list(MAKERS[skill]()) for skill in STAGINGS}
