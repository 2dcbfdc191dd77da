"""Suite ``toy-faults``: the hand of ``toy-reach`` in a world that fails or lies, each scenario in one way.

What goes wrong stands in the scenario's parameter ``fault``: its ``kind``, and from which control step on
(``at_step``, counted from 0: the step that would follow as many executed ones).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import HarnessFault
from trialplate.interfaces import ResetEvidence, Scenario, Sensed
from trialplate.record import Event
from trialplate.testing.reach import GOAL_M, ReachWorld, reach_suite

FAULTS_BY_KIND: Mapping[str, str] = {
    "none": "nothing goes wrong",
    "reset_fault": "the reset raises a harness fault",
    "reset_raises": "the reset raises what nobody has typed",
    "step_fault": "a step raises a harness fault",
    "step_raises": "a step raises what nobody has typed",
    "step_refused": "one step is refused and nothing moves; the next one is taken",
    "step_uncertain": "a step may have run or not",
    "step_aborts": "a step takes the whole process down by SIGABRT",
    "step_sleeps": "a step hangs for half a minute",
    "camera_blank": "the front camera sends one colour",
    "camera_frozen": "the front camera sends the picture of that step for ever",
    "cameras_equal": "the wrist camera sends the picture of the front camera",
    "not_finite": "the position of the hand is not a number",
    "quat_order": "the quaternion is declared wxyz and sent xyzw",
    "gripper_sign": "the gripper is declared 0 closed, 1 open, and sent the other way round",
    "image_flipped": "the front camera is declared upright and sent upside down",
    "image_bgr": "the front camera is declared rgb and sent bgr",
}
"""Every way to fail or lie."""
_HANG_S = 30.0
_FROM_STEP: Mapping[str, int] = {"camera_blank": 20, "camera_frozen": 20, "step_refused": 2}


def scenarios() -> tuple[Scenario, ...]:
    """Return one scenario for each kind of fault, named ``fault-KIND``."""
    return tuple(fault_scenario(kind, at_step=_FROM_STEP.get(kind, 3)) for kind in FAULTS_BY_KIND)


def fault_scenario(kind: str, *, at_step: int) -> Scenario:
    """Return a scenario with one fault, whose start is far enough away for twenty-odd careful steps."""
    parameters = {
        "start_m": [0.45, -0.3, 0.2],
        "yaw_rad": 0.3,
        "goal_m": list(GOAL_M),
        "fault": {"kind": kind, "at_step": at_step},
    }
    return Scenario(f"fault-{kind.replace('_', '-')}", "right", "far", "far_right", parameters)


class FaultyReachWorld(ReachWorld):
    """The same world with the fault of its scenario."""

    _kind, _at_step = "none", 0
    _refused = False
    _frozen: NDArray[np.uint8] | None = None

    def reset(self, scenario: Scenario, *, seed: int) -> ResetEvidence:
        """Take the fault from the scenario, then begin."""
        fault = scenario.parameters["fault"]
        self._kind, self._at_step = fault["kind"], fault["at_step"]
        self._refused, self._frozen = False, None
        if self._kind == "reset_fault":
            raise HarnessFault("the hand does not come to rest", code="reset_failed")
        if self._kind == "reset_raises":
            raise RuntimeError("this world cannot be built")
        return super().reset(scenario, seed=seed)

    def step(self, action: NDArray[np.float64]) -> Event | None:
        """Fail at the step of the fault, else move."""
        if self.steps == self._at_step:
            if self._kind == "step_refused" and not self._refused:
                self._refused = True
                return Event(-1, "control_rejected", "this step was refused, and nothing moved")
            self._fail()
        return super().step(action)

    def sense(self, cameras: Sequence[str], *, proprio: Sequence[str]) -> Sensed:
        """Send what the world would send, or the lie of the fault."""
        honest = super().sense(cameras, proprio=proprio)
        return Sensed({name: self._seen(name, honest.images[name]) for name in honest.images},
                      {name: self._felt(name, honest.proprio[name]) for name in honest.proprio})  # fmt: skip

    def _fail(self) -> None:
        match self._kind:
            case "step_fault":
                raise HarnessFault("the solver of the world broke down", code="simulator_crash")
            case "step_raises":
                raise RuntimeError("the world fell over")
            case "step_uncertain":
                raise HarnessFault("the line broke after the command was sent", code="native_step_uncertain")
            case "step_aborts":
                os.abort()
            case "step_sleeps":
                time.sleep(_HANG_S)

    def _seen(self, name: str, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        late = self.steps >= self._at_step
        if self._kind == "cameras_equal" and late and name == "wrist":
            return self.picture("front")
        if name != "front":
            return picture
        match self._kind:
            case "camera_blank" if late:
                return np.full_like(picture, 7)
            case "camera_frozen" if late:
                self._frozen = picture if self._frozen is None else self._frozen
                return self._frozen.copy()
            case "image_flipped":
                return np.ascontiguousarray(picture[::-1])
            case "image_bgr":
                return np.ascontiguousarray(picture[:, :, ::-1])
        return picture

    def _felt(self, name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
        match self._kind, name:
            case "quat_order", "ee_quat":
                return np.roll(values, -1)
            case "gripper_sign", "gripper":
                return 1.0 - values
            case "not_finite", "ee_pos" if self.steps >= self._at_step:
                return np.full_like(values, np.nan)
        return values


def _facts() -> dict[str, Any]:
    return {
        "summary": "The hand of toy-reach in a world that fails or lies; for tests of the harness.",
        "scenarios": scenarios,
        "environment": "trialplate.testing.reach_faults:FaultyReachWorld",
    }


FAULTS = reach_suite("toy-faults", **_facts())
