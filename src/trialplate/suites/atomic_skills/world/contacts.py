"""Who may touch whom: forces of fingers and hand on the target, and every contact of a robot that may not be.

Source: atomic-skills specification, sections 3 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from trialplate.suites.atomic_skills.world.parts import TARGET_PREFIX
from trialplate.suites.atomic_skills.world.robot import ArmNames

FloatArray = NDArray[np.float64]

HAND_TOUCHES = frozenset({"press", "push_object"})
"""Skills whose closed hand as a whole may touch the target; elsewhere only the pads may."""


@dataclass(frozen=True, slots=True)
class Touch:
    """What a model's geoms are to each other.

    ``suspect`` (ngeom, ngeom): a contact of the two may not be. ``left``, ``right``, ``hand``, ``target``
    (arms, ngeom): membership.
    """

    suspect: NDArray[np.bool_]
    left: NDArray[np.bool_]
    right: NDArray[np.bool_]
    hand: NDArray[np.bool_]
    target: NDArray[np.bool_]
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
    for index in range(len(arms)):
        for allowed in (np.outer(toucher[index], target[index]), np.outer(hand[index], hand[index])):
            suspect &= ~(allowed | allowed.T)
    return Touch(suspect, left, right, hand, target, names)


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


@dataclass(frozen=True, slots=True)
class _Roles:
    """Contacts of one list of geom pairs: which are suspect, and (contact, arm, left, right) of those that take."""

    suspects: tuple[int, ...]
    takers: tuple[tuple[int, int, bool, bool], ...]


class ContactWatch:
    """Looks at the contacts after every physics step: 0.5 us while the same geoms touch as before."""

    def __init__(self, model: mujoco.MjModel, touch: Touch, *, threshold_n: float) -> None:
        self.worst_n = 0.0
        self.pairs: dict[tuple[str, str], float] = {}
        self._model, self._touch, self._threshold_n = model, touch, threshold_n
        self._wrench = np.zeros(6)
        self._roles: dict[bytes, _Roles] = {}
        self.harmless: set[bytes] = set()
        """Lists of touching geoms in which nothing is suspect, as bytes: what has been looked at once."""

    def begin(self) -> None:
        """Forget the row before."""
        self.worst_n = 0.0
        self.pairs.clear()

    def look(self, data: mujoco.MjData) -> None:
        """Note the contacts of the physics step that just ran, when one may not be."""
        touching = data.contact.geom.tobytes()
        roles = self._roles_of(touching)
        if not roles.suspects:
            self.harmless.add(touching)
            return
        for index in roles.suspects:
            force_n = self._normal_n(data, index)
            if force_n > self._threshold_n:
                first, second = sorted(self._touch.names[geom] for geom in data.contact.geom[index])
                self.pairs[first, second] = max(force_n, self.pairs.get((first, second), 0.0))
                self.worst_n = max(force_n, self.worst_n)

    def forces(self, data: mujoco.MjData) -> tuple[list[float], list[float]]:
        """Return the normal forces of the last physics step: left and right finger of each hand, each whole hand."""
        arms = len(self._touch.left)
        pads_n, hand_n = [0.0] * (2 * arms), [0.0] * arms
        for index, arm, left, right in self._roles_of(data.contact.geom.tobytes()).takers:
            force_n = self._normal_n(data, index)
            hand_n[arm] += force_n
            if left:
                pads_n[2 * arm] += force_n
            if right:
                pads_n[2 * arm + 1] += force_n
        return pads_n, hand_n

    def _normal_n(self, data: mujoco.MjData, index: int) -> float:
        mujoco.mj_contactForce(self._model, data, index, self._wrench)
        return float(self._wrench[0])

    def _roles_of(self, touching: bytes) -> _Roles:
        known = self._roles.get(touching)
        if known is None:
            pairs = np.frombuffer(touching, dtype=np.int32).reshape(-1, 2)
            known = self._roles[touching] = _roles(self._touch, pairs)
        return known


def _roles(touch: Touch, pairs: NDArray[np.int32]) -> _Roles:
    suspects, takers = [], []
    for index, (one, other) in enumerate(pairs.tolist()):
        if touch.suspect[one, other]:
            suspects.append(index)
        for arm in range(len(touch.left)):
            for finger, thing in ((one, other), (other, one)):
                if touch.hand[arm, finger] and touch.target[arm, thing]:
                    takers.append((index, arm, bool(touch.left[arm, finger]), bool(touch.right[arm, finger])))
    return _Roles(tuple(suspects), tuple(takers))
