"""Who may touch whom: forces of fingers and hand on the target, and every contact of a robot that may not be.

Source: atomic-skills specification, sections 3 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from trialplate.suites.atomic_skills.world.parts import TARGET_PREFIX
from trialplate.suites.atomic_skills.world.robot import ArmNames

FloatArray = NDArray[np.float64]

HAND_TOUCHES = frozenset({"press", "push_object"})
"""Skills whose closed hand as a whole may touch the target; elsewhere only the pads may."""


@dataclass(slots=True)
class Unintended:
    """The worst contact that may not be of one row: which geoms, how hard."""

    force_n: float = 0.0
    pair: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Touch:
    """What a model's geoms are to each other.

    ``suspect`` (ngeom, ngeom): a contact of the two may not be. ``left``, ``right``, ``hand``, ``target``
    (arms, ngeom): membership; ``relevant`` (ngeom, ngeom): a contact of hand and target of one arm.
    """

    suspect: NDArray[np.bool_]
    left: NDArray[np.bool_]
    right: NDArray[np.bool_]
    hand: NDArray[np.bool_]
    target: NDArray[np.bool_]
    relevant: NDArray[np.bool_]
    names: tuple[str, ...]


def read_touch(model: mujoco.MjModel, case: Mapping[str, Any], arms: tuple[ArmNames, ...]) -> Touch:
    """Return the table of who may touch whom in one case. Geoms of one hand may touch each other: it is a linkage."""
    count = model.ngeom
    names = tuple(model.geom(n).name for n in range(count))
    under = _bodies_above(model)
    shape = (len(arms), count)
    left, right, hand, target, robot = (np.zeros(shape, bool) for _ in range(5))
    for index, arm in enumerate(arms):
        base, wrist = model.body(arm.base_body).id, model.body(arm.hand_body).id
        mount = int(model.body_parentid[wrist])  # the hand's flange, first body of the gripper
        for geom in range(count):
            above = under[int(model.geom_bodyid[geom])]
            robot[index, geom] = base in above
            hand[index, geom] = mount in above
            left[index, geom] = names[geom] in arm.left_pad
            right[index, geom] = names[geom] in arm.right_pad
            target[index, geom] = names[geom] in target_geoms(case, index)
    pads = left | right
    toucher = hand if case["skill"] in HAND_TOUCHES else pads
    any_robot: NDArray[np.bool_] = np.any(robot, axis=0)
    suspect = np.logical_or.outer(any_robot, any_robot)
    relevant = np.zeros((count, count), bool)
    for index in range(len(arms)):
        for allowed in (np.outer(toucher[index], target[index]), np.outer(hand[index], hand[index])):
            suspect &= ~(allowed | allowed.T)
        taken = np.outer(hand[index], target[index])
        relevant |= taken | taken.T
    return Touch(suspect, left, right, hand, target, relevant, names)


def target_geoms(case: Mapping[str, Any], arm: int) -> frozenset[str]:
    """Return the geoms that arm number ``arm`` is to take or to touch."""
    world, command = case["world"], case["command"]
    if world["asset"] is not None:
        part = {"door": "handle", "drawer": "handle", "knob": "grip", "button": "cap"}[world["asset"]["kind"]]
        return frozenset({TARGET_PREFIX + part})
    if "support" in command:  # each arm holds its own
        held = command["object"] if arm == command["placing_arm"] else command["support"]
        return frozenset({TARGET_PREFIX + held})
    return frozenset({TARGET_PREFIX + command["object"]}) if "object" in command else frozenset()


def _bodies_above(model: mujoco.MjModel) -> tuple[frozenset[int], ...]:
    """Return for each body itself and everything that it hangs on."""
    above: list[frozenset[int]] = []
    for body in range(model.nbody):
        parent = int(model.body_parentid[body])
        above.append(frozenset({body}) | (above[parent] if body else frozenset()))
    return tuple(above)


@dataclass(slots=True)
class ContactWatch:
    """Looks at the contacts after every physics step; cheap while nothing suspicious touches."""

    model: mujoco.MjModel
    touch: Touch
    threshold_n: float
    worst: Unintended = field(default_factory=Unintended)
    pairs: dict[tuple[str, str], float] = field(default_factory=dict)
    _wrench: FloatArray = field(default_factory=lambda: np.zeros(6))

    def begin(self) -> None:
        """Forget the row before."""
        self.worst = Unintended()
        self.pairs.clear()

    def look(self, data: mujoco.MjData) -> None:
        """Note the contacts of the physics step that just ran, when one may not be."""
        geoms = data.contact.geom
        if not self.touch.suspect[geoms[:, 0], geoms[:, 1]].any():
            return
        for index in np.flatnonzero(self.touch.suspect[geoms[:, 0], geoms[:, 1]]):
            force_n = self.normal_n(data, int(index))
            if force_n > self.threshold_n:
                first, second = sorted(self.touch.names[geom] for geom in geoms[index])
                self.pairs[first, second] = max(force_n, self.pairs.get((first, second), 0.0))
                if force_n > self.worst.force_n:
                    self.worst = Unintended(force_n, (first, second))

    def normal_n(self, data: mujoco.MjData, index: int) -> float:
        """Return the normal force of one contact, N."""
        mujoco.mj_contactForce(self.model, data, index, self._wrench)
        return float(self._wrench[0])

    def forces(self, data: mujoco.MjData) -> tuple[FloatArray, FloatArray]:
        """Return the normal forces of the last physics step: fingers (arms, 2) left and right, whole hand (arms,)."""
        touch = self.touch
        pads_n = np.zeros((len(touch.left), 2))
        hand_n = np.zeros(len(touch.left))
        if not data.ncon:
            return pads_n, hand_n
        geoms = data.contact.geom
        for index in np.flatnonzero(touch.relevant[geoms[:, 0], geoms[:, 1]]):
            force_n = self.normal_n(data, int(index))
            one, other = geoms[index]
            for arm in range(len(hand_n)):
                for finger, thing in ((one, other), (other, one)):
                    if touch.hand[arm, finger] and touch.target[arm, thing]:
                        hand_n[arm] += force_n
                        pads_n[arm, 0] += force_n * touch.left[arm, finger]
                        pads_n[arm, 1] += force_n * touch.right[arm, finger]
        return pads_n, hand_n
