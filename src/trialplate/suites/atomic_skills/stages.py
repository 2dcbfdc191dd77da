"""How each stage of each skill is read off a replay: which criterion, at which instant, for which reason it fails.

Source: atomic skills, section 5. The order of the stages is in :mod:`trialplate.suites.atomic_skills.ladders`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trialplate.record import StagePart
from trialplate.suites.atomic_skills import criteria as on
from trialplate.suites.atomic_skills.criteria import Parts, Reading
from trialplate.suites.atomic_skills.readings import Readings, at_least

Reader = Callable[[Readings], Reading]
NOT_GRASPED, DROPPED, NOT_RELEASED, MISSED = (
    "object_not_grasped",
    "object_dropped",
    "release_failure",
    "task_goal_miss",
)


def grasped(close: str, then: str | None = None, *, arm: Callable[[Readings], int] = lambda r: 0) -> Reader:
    """Both fingers at the end of ``close``; the target moved by the end of ``then``, the next required segment."""

    def read(r: Readings) -> Reading:
        end = then or following(r, close)
        parts = (*on.two_pads(r, arm(r), r.instant(close)), on.moved(r, r.before(close), r.instant(end)))
        return Reading(r.instant(close), parts, NOT_GRASPED)

    return read


def following(r: Readings, segment: str) -> str:
    """Return the required segment after another."""
    names = r.case.segments
    return names[names.index(segment) + 1]


def after(segment: str, criterion: Callable[[Readings, int], Parts], reason: str = MISSED) -> Reader:
    """Read a criterion at the end of a segment."""
    return lambda r: Reading(r.instant(segment), criterion(r, r.instant(segment)), reason)


def settled(criterion: Callable[[Readings, int], Parts], reason: str = MISSED) -> Reader:
    """Read a criterion after the settle."""
    return lambda r: Reading(r.settled, criterion(r, r.settled), reason)


def lifted(close: str, segment: str) -> Reader:
    """The object is higher than before ``close``."""
    return after(segment, lambda r, sample: on.lift(r, r.before(close), sample))


def held(since: str, *, at: str | None = None) -> Reader:
    """Both fingers, and no drift in the hand since the instant of the stage before; at a segment, or settled."""

    def read(r: Readings) -> Reading:
        sample = r.settled if at is None else r.instant(at)
        parts = (*on.two_pads(r, 0, sample), *on.in_hand_drift(r, 0, r.instant(since), sample))
        return Reading(sample, parts, DROPPED)

    return read


def released(segment: str) -> Reader:
    """The first hand let go at the end of a segment."""
    return lambda r: Reading(r.instant(segment), on.let_go(r, 0, segment), NOT_RELEASED)


def poured(r: Readings) -> Reading:
    """The peak inside ``pour``."""
    turns = on.pour_turns(r, "pour")
    at = int(turns.argmax())
    return Reading(r.inside("pour")[at], on.poured(r, float(turns[at])), MISSED)


def contacted_by_hand(r: Readings) -> Reading:
    """The closed hand touched the object at some sample from ``contact`` to the end of ``push``, and it moved."""
    end = r.instant("push")
    touching = r.column("hand_force_n")[r.before("contact") + 2 : end + 2, 0]
    force = at_least("hand_force", float(touching.max()), r.limits.pad_force_n, "N")
    return Reading(end, (force, on.moved(r, r.before("contact"), end)), NOT_GRASPED)


def on_support_plane(r: Readings) -> Reading:
    """Not tilted, and at its resting height."""
    return Reading(r.settled, (*on.upright(r, r.settled), *on.at_height(r, r.settled)), MISSED)


def button_moved(r: Readings) -> Reading:
    """The button went in at all."""
    travel = on.press_travel_m(r, "press")
    return Reading(_deepest(r), (at_least("joint_change", travel, r.limits.engaged, "m"),), NOT_GRASPED)


def pressed(r: Readings) -> Reading:
    """The deepest travel inside ``press``."""
    return Reading(_deepest(r), on.pressed(r, on.press_travel_m(r, "press")), MISSED)


def _deepest(r: Readings) -> int:
    sign = 1.0 if float(r.case.command["travel_m"]) >= 0 else -1.0
    return max(r.inside("press"), key=lambda sample: (sign * r.joint(sample), -sample))


def slid(r: Readings) -> Reading:
    """The drawer at the end of its pull or push."""
    sample = r.instant(pull_or_push(r))
    return Reading(sample, on.slid(r, r.joint(sample) - r.joint(-1)), MISSED)


def pull_or_push(r: Readings) -> str:
    """Return which of the two segments moves the drawer of a case."""
    return "pull" if "pull" in r.case.segments else "push"


def twisted(r: Readings) -> Reading:
    """The hand at the end of ``twist``."""
    return Reading(r.instant("twist"), on.twisted(r, on.hand_turn_rad(r, "twist")), MISSED)


# -- two hands -------------------------------------------------------------------------------------------------


def source(r: Readings) -> int:
    """Return the arm that hands over."""
    return int(r.case.command["source_arm"])


def destination(r: Readings) -> int:
    """Return the arm that receives."""
    return int(r.case.command["destination_arm"])


def dual_grasped(r: Readings) -> Reading:
    """One finger of each hand at the end of ``close``, and the object moved by the end of ``lift``."""
    sample = r.instant("close")
    parts = (*both_touch(r, sample), on.moved(r, r.before("close"), r.instant("lift")))
    return Reading(sample, parts, NOT_GRASPED)


def both_touch(r: Readings, sample: int) -> Parts:
    """One finger of each hand presses on the object."""
    return (*on.one_pad(r, 0, sample), *on.one_pad(r, 1, sample))


def hand_released(r: Readings) -> Reading:
    """The placing hand let go, and the support hand still holds."""
    command, sample = r.case.command, r.instant("release")
    holding = on.two_pads(r, int(command["support_arm"]), sample)
    return Reading(sample, (*on.let_go(r, int(command["placing_arm"]), "release"), *holding), NOT_RELEASED)


def stayed_together(r: Readings) -> Reading:
    """The two objects did not move against each other since the release."""
    then, now = on.together(r, r.instant("release")), on.together(r, r.settled)
    return Reading(r.settled, on.task_pose(r, then, now, kind="drift"), MISSED)


def transferred(r: Readings) -> Reading:
    """Both hands touch the object at the same sample, between ``receive_close`` and ``handover_release``."""
    samples = range(r.before("receive_close") + 1, r.instant("handover_release") + 1)
    weakest = {sample: min(max(r.pads_n(arm, sample)) for arm in (source(r), destination(r))) for sample in samples}
    least = r.limits.pad_force_n
    sample = next((at for at in samples if weakest[at] >= least), max(samples, key=lambda at: (weakest[at], at)))
    parts = (*on.one_pad(r, source(r), sample), *on.one_pad(r, destination(r), sample))
    return Reading(sample if weakest[sample] >= least else samples[-1], parts, NOT_GRASPED)


def handed_over(r: Readings) -> Reading:
    """The source let go, and the destination holds."""
    sample = r.instant("handover_release")
    gone = on.let_go(r, source(r), "handover_release")
    parts: tuple[StagePart, ...] = (*gone, *on.two_pads(r, destination(r), sample))
    closed = not all(part.holds for part in gone)
    return Reading(sample, parts, NOT_RELEASED if closed else DROPPED)


READERS: Mapping[str, Mapping[str, Reader]] = {
    "move_joints": {"reached": settled(on.joints_at)},
    "move_end_effector": {"reached": settled(on.hand_at)},
    "pick_up": {"grasped": grasped("close"), "lifted": lifted("close", "lift"), "held": held("lift")},
    "axis_align": {
        "grasped": grasped("close"),
        "aligned": after("manipulate", on.aligned),
        "held": held("manipulate", at="manipulate"),
    },
    "move_held_object": {"transported": after("transport", on.object_at)},
    "place": {
        "released": released("release"),
        "placed": after("release", on.rests_at),
        "stable": settled(lambda r, sample: on.drift(r, r.instant("release"), sample)),
    },
    "pour": {"poured": poured},
    "push_object": {
        "contacted": contacted_by_hand,
        "pushed": after("push", on.over),
        "on_support_plane": on_support_plane,
    },
    "press": {"contacted": button_moved, "pressed": pressed},
    "slide": {"grasped": grasped("close"), "slid": slid, "released": released("open")},
    "open_door": {
        "grasped": grasped("close"),
        "opened": after("open", on.opened),
        "released": released("release"),
    },
    "twist": {"grasped": grasped("close"), "twisted": twisted, "released": released("open")},
    "coordinated_pickment": {
        "dual_grasped": dual_grasped,
        "lifted": lifted("close", "lift"),
        "moved": after("move", on.object_at),
        "held": settled(both_touch, DROPPED),
    },
    "coordinated_placement": {
        "aligned": after("hold", on.held_together),
        "released": hand_released,
        "stable": stayed_together,
    },
    "hand_over": {
        "grasped": grasped("pickup_close", arm=source),
        "transferred": transferred,
        "handed_over": handed_over,
        "placed": settled(on.delivered),
    },
}
"""Skill -> stage -> how it is read, in the order of the ladder."""

GOALS: Mapping[str, Callable[[Readings], Parts]] = {
    "move_joints": lambda r: on.joints_at(r, -1),
    "move_end_effector": lambda r: on.hand_at(r, -1),
    "axis_align": lambda r: on.aligned(r, -1),
    "move_held_object": lambda r: on.object_at(r, -1),
    "place": lambda r: on.rests_at(r, -1),
    "pour": lambda r: on.poured(r, 0.0),
    "push_object": lambda r: on.over(r, -1),
    "press": lambda r: on.pressed(r, 0.0),
    "slide": lambda r: on.slid(r, 0.0),
    "open_door": lambda r: on.opened(r, -1),
    "twist": lambda r: on.twisted(r, 0.0),
    "coordinated_pickment": lambda r: on.object_at(r, -1),
    "coordinated_placement": lambda r: on.held_together(r, -1),
    "hand_over": lambda r: on.delivered(r, -1),
}
"""Skill -> the goal as it stands at sample -1: true there, nothing can be won. A lift is never true at its start."""
