"""Synthetic recordings of a block that is carried, pushed, thrown or left alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from trialplate.record import Trace
from trialplate.spec.stages import Condition, StageChain, StageSpec


def at_most(column: str, limit: float, unit: str) -> Condition:
    return Condition(column=column, op="le", limit=limit, unit=unit)


IN_REGION = at_most("goal_offset_m", 0.05, "m")

PICK_PLACE = StageChain(
    attached="attached",
    opening=Condition(column="gripper_command", op="lt", limit=0.0, unit="1"),
    start_forbidden=(IN_REGION,),
    stages=(
        StageSpec(
            name="reached", meaning="fingers at the block", when=(at_most("finger_object_distance_m", 0.04, "m"),)
        ),
        StageSpec(name="grasped", meaning="gripper closed on the block", attachment="held"),
        StageSpec(
            name="lifted",
            meaning="block raised while grasped",
            attachment="held",
            when=(Condition(column="object_lift_m", op="ge", limit=0.05, unit="m"),),
        ),
        StageSpec(
            name="transported", meaning="block over the goal while grasped", attachment="held", when=(IN_REGION,)
        ),
        StageSpec(
            name="released",
            meaning="let go by opening, in the goal region",
            attachment="released",
            when=(IN_REGION, at_most("object_height_m", 0.05, "m"), at_most("object_speed_m_s", 0.5, "m/s")),
            keep=(IN_REGION,),
        ),
        StageSpec(
            name="stable",
            meaning="at rest in the goal region for ten steps",
            attachment="free",
            when=(IN_REGION, at_most("object_speed_m_s", 0.02, "m/s")),
            hold_steps=10,
        ),
    ),
)


@dataclass
class Film:
    """A recording under construction: the present state, and the rows so far (row 0 is the state after reset)."""

    finger: float = 0.3
    attached: float = 0.0
    lift: float = 0.0
    offset: float = 0.4
    height: float = 0.02
    speed: float = 0.0
    command: float = -1.0
    rows: list[tuple[float, ...]] = field(default_factory=list)

    def step(self, count: int = 1, **state: float) -> Film:
        """Change the state, and record it for ``count`` rows."""
        for name, value in state.items():
            assert hasattr(self, name)
            setattr(self, name, value)
        row = (self.finger, self.attached, self.lift, self.offset, self.height, self.speed, self.command)
        self.rows.extend([row] * count)
        return self

    def start(self) -> Film:
        return self.step(3)

    def grasp(self) -> Film:
        return self.step(2, finger=0.01).step(2, command=1.0, attached=1.0)

    def carry_to_goal(self) -> Film:
        return (
            self.step(5, lift=0.1, height=0.12, speed=0.2)
            .step(5, offset=0.01)
            .step(3, lift=0.0, height=0.02, speed=0.0)
        )

    def let_go(self) -> Film:
        return self.step(1, attached=0.0, command=-1.0)

    def trace(self) -> Trace:
        """Return the recording as a trace of ``len(rows) - 1`` steps."""
        table = np.array(self.rows, dtype=np.float64)
        names = (
            "finger_object_distance_m", "attached", "object_lift_m", "goal_offset_m", "object_height_m",
            "object_speed_m_s", "gripper_command",
        )  # fmt: skip
        steps = len(table) - 1
        return Trace(
            action=np.zeros((steps, 7)),
            measured={name: table[:, n : n + 1].copy() for n, name in enumerate(names)},
            state_sha256=tuple(f"{n:064x}" for n in range(steps + 1)),
            step_wall_us=np.zeros(steps + 1, dtype=np.int64),
            calls=(),
        )


def success_film() -> Film:
    """A fair pick and place that ends at rest in the goal."""
    return Film().start().grasp().carry_to_goal().let_go().step(15)
