"""The 15 skills: which segments a plan must name, and the stages of each ladder, in order.

Source: atomic skills, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill. ``segments``: required, in order; one of these. ``stages``: name -> what it means.

    ``optional``: segments that may follow. ``holds_object``: the drop rule applies. ``starts_held``: a set-up grasps
    first. ``samples_grasps``: grasps are drawn from a seed, and the case has a screen.
    """

    name: str
    segments: tuple[tuple[str, ...], ...]
    stages: Mapping[str, str]
    optional: tuple[str, ...] = ()
    holds_object: bool = False
    starts_held: bool = False
    samples_grasps: bool = True


def _skill(name: str, segments: str, stages: Mapping[str, str], **rest: bool) -> Skill:
    return Skill(name, (tuple(segments.split()),), stages, **rest)  # type: ignore[arg-type]


_LISTED = (
    _skill(
        "move_joints", "move", {"reached": "every arm joint is within 0.3 deg of its target, after the settle"},
        samples_grasps=False,
    ),
    _skill(
        "move_end_effector", "move",
        {"reached": "the tool is within 3 mm and 0.3 deg of its target, after the settle"},
        samples_grasps=False,
    ),
    _skill(
        "pick_up", "approach close lift",
        {
            "grasped": "both fingers press, and the object moves",
            "lifted": "the object is at least 0.04 m higher than before the grasp",
            "held": "still between both fingers after the settle, without drift in the hand",
        },
        holds_object=True,
    ),
    Skill(
        "axis_align", (("approach", "close", "manipulate"),),
        {
            "grasped": "both fingers press, and the object moves",
            "aligned": "the object's axis is within 5 deg of the world's axis",
            "held": "between both fingers at that moment",
        },
        optional=("open",), holds_object=True,
    ),
    _skill(
        "move_held_object", "transport", {"transported": "the object is within 1 cm and 5 deg of its target"},
        holds_object=True, starts_held=True,
    ),
    _skill(
        "place", "approach release retract",
        {
            "released": "the hand is open and does not hold the object",
            "placed": "the object is within 1 cm of its place, in the plane and in height",
            "stable": "it stays there within 1 cm and 5 deg",
        },
        holds_object=True, starts_held=True,
    ),
    _skill(
        "pour", "pour", {"poured": "the largest turn about the object's own axis is within 5 deg of the command"},
        holds_object=True, starts_held=True,
    ),
    _skill(
        "push_object", "close approach contact push retract",
        {
            "contacted": "the closed hand touches the object, and it moves",
            "pushed": "the object is within 1 cm of its place in the plane",
            "on_support_plane": "it stands on the support, tilted by at most 5 deg",
        },
        samples_grasps=False,
    ),
    _skill(
        "press", "close approach contact press retract",
        {
            "contacted": "the button moves",
            "pressed": "the deepest travel is at least 0.80 of the usable stroke",
        },
        samples_grasps=False,
    ),
    Skill(
        "slide", (("approach", "reach", "close", "pull", "open"), ("approach", "reach", "close", "push", "open")),
        {
            "grasped": "both fingers press on the handle, and the drawer moves",
            "slid": "the drawer's travel is within 1 cm of the command",
            "released": "the hand is open and does not hold the handle",
        },
        optional=("return",),
    ),
    _skill(
        "open_door", "approach reach close open release retract",
        {
            "grasped": "both fingers press on the handle, and the door moves",
            "opened": "the hinge is within 5 deg of the command",
            "released": "the hand is open and does not hold the handle",
        },
    ),
    _skill(
        "twist", "approach reach close twist open retract",
        {
            "grasped": "both fingers press on the knob, and it moves",
            "twisted": "the hand turned about the knob's axis, within 5 deg of the command",
            "released": "the hand is open and does not hold the knob",
        },
        samples_grasps=False,
    ),
    _skill(
        "coordinated_pickment", "approach close lift move hold",
        {
            "dual_grasped": "each hand presses with a finger, and the object moves",
            "lifted": "the object is at least 0.04 m higher than before the grasp",
            "moved": "the object is within 1 cm and 5 deg of its target",
            "held": "both hands still touch it after the settle",
        },
        holds_object=True,
    ),
    _skill(
        "coordinated_placement", "approach hold release retreat",
        {
            "aligned": "the two objects are within 1 cm and 5 deg of their relative target",
            "released": "the placing hand is open, and the support hand still holds",
            "stable": "the objects do not drift against each other",
        },
        holds_object=True, starts_held=True,
    ),
    _skill(
        "hand_over",
        "pickup_approach pickup_close pickup_transport receive_approach receive_close handover_release place"
        " receive_release",
        {
            "grasped": "both fingers of the first hand press, and the object moves",
            "transferred": "both hands touch the object at the same moment",
            "handed_over": "the first hand is open, and the second holds the object",
            "placed": "the object is within 3 cm of its target in space",
        },
        holds_object=True,
    ),
)  # fmt: skip

SKILLS: Mapping[str, Skill] = {skill.name: skill for skill in _LISTED}
LADDERS: Mapping[str, Mapping[str, str]] = {name: dict(skill.stages) for name, skill in SKILLS.items()}
"""Skill -> stage -> what it means, as the lock and a report tell it."""

NEGATIVE_STAGES: Mapping[str, str] = {
    "move_joints": "reached",
    "move_end_effector": "reached",
    "pick_up": "grasped",
    "axis_align": "aligned",
    "move_held_object": "transported",
    "place": "placed",
    "pour": "poured",
    "push_object": "pushed",
    "press": "pressed",
    "slide": "slid",
    "open_door": "opened",
    "twist": "twisted",
    "coordinated_pickment": "moved",
    "coordinated_placement": "released",
    "hand_over": "transferred",
}
"""Skill -> the stage at which its negative control must fail."""
